"""Calls to simulate: those of torch's own tests, and some for what these leave out."""

from __future__ import annotations

import importlib
import inspect
import warnings
from collections.abc import Callable, Iterator
from functools import cache
from itertools import islice

import torch
from torch import Tensor

from spmd_mypy.rules import ops
from tests.rules import signatures
from tests.rules.simulate import Sample, leaves

LARGEST = 600  # elements of a tensor; larger samples are slow and show nothing more
# An operation, its positional and its keyword arguments.
Row = tuple[str, tuple[object, ...], dict[str, object]]

_DTYPES = (torch.float64, torch.int64, torch.complex128, torch.bool, torch.float32)


def callable_of(op: str) -> Callable[..., object]:
    """The callable of that name; a property's getter."""
    module, _, name = op.rpartition(".")
    holder = torch.Tensor if module == "Tensor" else importlib.import_module(module)
    value: object = getattr(holder, name)
    if not callable(value):
        return value.__get__  # type: ignore[attr-defined, no-any-return]
    return value


class _Leaf:
    """Stands for a tensor where signatures are bound."""

    layout = ()


def _marked(value: object) -> object:
    if isinstance(value, Tensor):
        return _Leaf()
    if isinstance(value, (list, tuple)):
        return [_marked(item) for item in value]
    return value


# Parameters of what has no signature that can be read, where they are not self and other.
_UNSIGNED = {
    "Tensor.__getitem__": ["self", "indices", "value"],
    "Tensor.__setitem__": ["self", "indices", "value"],
    "torch.nn.Parameter": ["data"],
    "torch.nn.Buffer": ["data"],
    "torch.nn.utils.get_total_norm": ["tensors"],
    "torch.nn.utils.parameters_to_vector": ["parameters"],
    "torch.nn.utils.vector_to_parameters": ["vec", "parameters"],
    "builtins.sum": ["iterable"],
    "copy.copy": ["x"],
    "builtins.abs": ["x"],
    "copy.deepcopy": ["x"],
}


def make(op: str, args: tuple[object, ...], keywords: dict[str, object]) -> Sample | None:
    """A sample from a Python call; None where no signature takes it."""
    function = callable_of(op)
    if op.startswith("Tensor.__") or not signatures.overloads(op):
        names = _UNSIGNED.get(op, ["self", "other"])
        placed: list[tuple[str, object]] | None = [*zip(names, args, strict=False), *keywords.items()]
    else:
        placed = signatures.bind(op, [_marked(value) for value in args], {k: _marked(v) for k, v in keywords.items()})
    if placed is None:
        return None
    values = [*args, *keywords.values()]
    arguments = [(name, value) for (name, _), value in zip(placed, values, strict=False)]
    count, keys = len(args), list(keywords)

    def run(given: list[object]) -> object:
        result = function(*given[:count], **dict(zip(keys, given[count:], strict=True)))
        return given[0] if result is None else result  # what returns nothing writes

    return Sample(op, arguments, run)


# ---- torch's own samples

# Their samples put the weight first, which the functions' wrappers in torch's tests turn round.
_TURNED = frozenset({"nn.functional.embedding", "nn.functional.embedding_bag"})

_FUNCTION_MODULES = ("nn.functional.", "linalg.", "fft.", "special.")


def _names(info: object) -> Iterator[str]:
    """The names under which one of torch's samples may be called."""
    names = [info.name, *(alias.name for alias in info.aliases)]  # type: ignore[attr-defined]
    for name in names:
        if name.startswith(_FUNCTION_MODULES):
            yield f"torch.{name}"
        if "." in name:
            continue
        if not name.startswith("_") and callable(getattr(torch, name, None)):
            yield f"torch.{name}"
        for method in (name, f"{name}_"):
            if hasattr(torch.Tensor, method):
                yield f"Tensor.{method}"


@cache
def _database() -> list[object]:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        from torch.testing._internal.common_methods_invocations import op_db  # noqa: PLC0415  (slow to import)
    return list(op_db)


def _drawn(info: object, limit: int) -> Iterator[tuple[tuple[object, ...], dict[str, object]]]:
    """Some of the small samples that torch draws for one of its operations, spread over all of them."""
    torch.manual_seed(0)
    supported = info.supported_dtypes("cpu")  # type: ignore[attr-defined]
    dtype = next((dtype for dtype in _DTYPES if dtype in supported), None)
    if dtype is None:
        return
    inputs = info.sample_inputs("cpu", dtype, requires_grad=False)  # type: ignore[attr-defined]
    fit = []
    for sample in islice(inputs, 300):
        args = (sample.input, *sample.args)
        sizes = [x.numel() for x in leaves([*args, *sample.kwargs.values()])]
        if sizes and min(sizes) > 0 and 2 <= max(sizes) <= LARGEST:
            fit.append((args, sample.kwargs))
    step = max(len(fit) // limit, 1)
    yield from fit[step - 1 :: step][:limit]


def _module_sample(info: object, drawn: object) -> Sample | None:
    """A call of a module, as a function of its inputs and parameters."""
    cls: type[torch.nn.Module] = info.module_cls  # type: ignore[attr-defined]
    op = f"torch.nn.{cls.__name__}"
    built = drawn.constructor_input  # type: ignore[attr-defined]
    given = drawn.forward_input  # type: ignore[attr-defined]
    if given is None or given.kwargs or cls.__name__.startswith("Lazy") or not ops.known(op):
        return None
    module = cls(*built.args, **built.kwargs).double().eval()
    parameters = {name: value.detach() for name, value in module.named_parameters()}
    names = list(inspect.signature(cls.forward).parameters)[1:]
    arguments: list[tuple[str, object]] = [*zip(names, given.args, strict=False), *parameters.items()]
    count = len(given.args)

    def run(values: list[object]) -> object:
        owned = dict(zip(parameters, values[count:], strict=True))
        return torch.func.functional_call(module, owned, tuple(values[:count]))  # type: ignore[arg-type]

    return Sample(op, arguments, run)


def from_modules(limit: int) -> Iterator[Sample]:
    """Calls of the modules of ``torch.nn``, with their parameters as operands."""
    from torch.testing._internal.common_modules import module_db  # noqa: PLC0415  (slow to import)

    for info in module_db:
        torch.manual_seed(0)
        inputs = info.module_inputs_func(info, device="cpu", dtype=torch.float64, requires_grad=False, training=False)
        found = (_module_sample(info, drawn) for drawn in inputs)
        fit = (sample for sample in found if sample is not None and _small(sample))
        yield from islice(fit, limit)


def _small(sample: Sample) -> bool:
    sizes = [x.numel() for x in sample.tensors]
    return bool(sizes) and min(sizes) > 0 and max(sizes) <= LARGEST


def calls(limit: int) -> Iterator[Row]:
    """Calls of torch's operations, under each name that may take them."""
    for info in _database():
        if info.name not in _TURNED:  # type: ignore[attr-defined]
            for args, keywords in _drawn(info, limit):
                yield from ((op, args, keywords) for op in _names(info))


def from_torch(limit: int) -> Iterator[Sample]:
    """Samples of torch's operations, under each name that takes them."""
    for op, args, keywords in calls(limit):
        sample = make(op, args, keywords)
        if sample is not None:
            yield sample
