"""What the inputs of a step are: shapes, strides, dtypes and devices, by name.

``inputs`` of ``precompile`` is a tuple of positional arguments or a dict of keyword arguments; each is any pytree of
tensors (real, meta or fake), of :class:`TensorSpec`, or of plain Python values, which become constants of the graph.
A dim that varies from step to step has a name instead of a length: ``TensorSpec((64, "batch"), torch.int64)``.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

import torch
from torch.utils import _pytree as pytree

from spmd_runtime.precompile import trees
from spmd_runtime.precompile.errors import CaptureError, InputError

Dim = int | str
PLAIN: Final = (int, float, bool, str, type(None))


@dataclass(frozen=True)
class TensorSpec:
    """A tensor that is not there yet; a dim is a length or a name.  ``stride`` is contiguous where it is not given."""

    shape: tuple[Dim, ...]
    dtype: torch.dtype = torch.float32
    device: str = "cpu"
    requires_grad: bool = False
    stride: tuple[int, ...] | None = None

    def __post_init__(self) -> None:
        object.__setattr__(self, "shape", tuple(self.shape))
        if self.stride is not None and self.dims:
            raise CaptureError(
                f"a tensor of shape {self.shape} has named dims and so must be contiguous: give no stride"
            )

    @property
    def dims(self) -> tuple[str, ...]:
        """The names of the dims that vary."""
        return tuple(dim for dim in self.shape if isinstance(dim, str))

    def sized(self, sizes: Mapping[str, Any]) -> tuple[Any, ...]:
        """The shape with lengths for names."""
        return tuple(sizes[dim] if isinstance(dim, str) else dim for dim in self.shape)

    def strides(self, sizes: Mapping[str, Any]) -> tuple[Any, ...]:
        """The strides with lengths for names."""
        return self.stride if self.stride is not None else contiguous(self.sized(sizes))


def contiguous(shape: Sequence[Any]) -> tuple[Any, ...]:
    """The strides of a contiguous tensor."""
    strides: list[Any] = []
    step: Any = 1
    for length in reversed(shape):
        strides.append(step)
        step = step * (length if not isinstance(length, int) else max(length, 1))
    return tuple(reversed(strides))


def like(x: torch.Tensor, **dims: int) -> TensorSpec:
    """The spec of a tensor, with names for dims: ``like(tokens, batch=1)`` says that dim 1 is ``batch``."""
    shape: list[Dim] = list(x.shape)
    for name, dim in dims.items():
        shape[dim] = name
    if any(isinstance(length, torch.SymInt) for length in shape):
        raise CaptureError(f"a tensor of shape {tuple(x.shape)} has symbolic lengths: name the dims, like(x, batch=0)")
    stride = None if dims or x.is_contiguous() else tuple(x.stride())
    return TensorSpec(tuple(shape), x.dtype, str(x.device), x.requires_grad, stride)


@dataclass(frozen=True)
class Leaf:
    """One leaf of the inputs: its name as the user writes it, and a spec or a constant."""

    name: str
    spec: TensorSpec | None
    constant: Any = None
    same_as: int | None = None  # an earlier leaf that is the very same tensor


@dataclass(frozen=True)
class Signature:
    """All inputs of a step, flat, and how they are put together again."""

    leaves: tuple[Leaf, ...]
    tree: pytree.TreeSpec

    @property
    def tensors(self) -> tuple[Leaf, ...]:
        """The leaves that are inputs of the graph."""
        return tuple(leaf for leaf in self.leaves if leaf.spec is not None and leaf.same_as is None)

    def dims(self) -> tuple[str, ...]:
        """The names of varying dims, in the order of their first use."""
        return tuple(dict.fromkeys(name for leaf in self.tensors if leaf.spec for name in leaf.spec.dims))

    def fixed(self, sizes: Mapping[str, int]) -> Signature:
        """The same inputs with lengths for some names."""
        leaves = []
        for leaf in self.leaves:
            spec = leaf.spec
            if spec is not None and any(name in sizes for name in spec.dims):
                shape = tuple(sizes.get(dim, dim) if isinstance(dim, str) else dim for dim in spec.shape)
                spec = TensorSpec(shape, spec.dtype, spec.device, spec.requires_grad)
            leaves.append(Leaf(leaf.name, spec, leaf.constant, leaf.same_as))
        return Signature(tuple(leaves), self.tree)


def signature(step: Callable[..., Any], inputs: Any, device: str | None = None) -> Signature:
    """The signature of ``step(*inputs)`` or, where ``inputs`` is a dict, of ``step(**inputs)``.

    ``device`` stands in for the device of meta tensors.  Raises CaptureError for a leaf that is neither a tensor nor a
    plain Python value, and for containers that cannot be written down.
    """
    if not isinstance(inputs, (tuple, list, Mapping)):
        raise CaptureError(
            f"inputs is a {type(inputs).__qualname__}: give a tuple of the positional arguments, inputs=(x,), or a "
            "dict of the keyword arguments, inputs={'x': x}"
        )
    args, kwargs = ((), dict(inputs)) if isinstance(inputs, Mapping) else (tuple(inputs), {})
    _check_call(step, args, kwargs)
    names = _argument_names(step, len(args))
    trees.register((args, kwargs))
    found, tree = pytree.tree_flatten_with_path((args, kwargs))
    leaves: list[Leaf] = []
    seen: dict[int, int] = {}
    for path, value in found:
        name = _leaf_name(path, names)
        spec = value if isinstance(value, TensorSpec) else _spec_of(value, device)
        if spec is None and not isinstance(value, PLAIN):
            raise CaptureError(
                f"input {name} is a {type(value).__qualname__}: inputs are tensors, TensorSpecs and plain Python "
                "values, in tuples, lists, dicts and named tuples; a shape and a dtype are TensorSpec(shape, dtype)"
            )
        same = seen.setdefault(id(value), len(leaves)) if isinstance(value, torch.Tensor) else len(leaves)
        leaves.append(Leaf(name, spec, None if spec else value, same if same != len(leaves) else None))
    dump_tree(tree, "the inputs")
    return Signature(tuple(leaves), tree)


def _check_call(step: Callable[..., Any], args: tuple[Any, ...], kwargs: dict[str, Any]) -> None:
    """Raise CaptureError where the step cannot be called so."""
    try:
        wanted = inspect.signature(step)
    except (TypeError, ValueError):
        return
    try:
        wanted.bind(*args, **kwargs)
    except TypeError as error:
        given = [f"{len(args)} positional"] if args else []
        given += [f"{name}=" for name in kwargs]
        raise CaptureError(
            f"the step cannot be called with these inputs ({', '.join(given) or 'none'}): {error}; it takes {wanted}. "
            "`inputs` is a tuple of positional arguments, or a dict of keyword arguments"
        ) from error


def dump_tree(tree: pytree.TreeSpec, what: str) -> str:
    """A tree structure as JSON; raises CaptureError where it holds a class of the user's own."""
    try:
        return pytree.treespec_dumps(tree)
    except (NotImplementedError, ValueError, TypeError) as error:
        raise CaptureError(
            f"{what} are in a container that cannot be written down ({error}); use dicts and tuples"
        ) from error


def _spec_of(value: Any, device: str | None) -> TensorSpec | None:
    if not isinstance(value, torch.Tensor):
        return None
    spec = like(value)
    if value.device.type != "meta":
        return spec
    return TensorSpec(spec.shape, spec.dtype, device or "cpu", spec.requires_grad, spec.stride)


def _argument_names(step: Callable[..., Any], count: int) -> list[str]:
    try:
        parameters = list(inspect.signature(step).parameters.values())
    except (TypeError, ValueError):
        parameters = []
    positional = [p.name for p in parameters if p.kind in (p.POSITIONAL_ONLY, p.POSITIONAL_OR_KEYWORD)]
    rest = next((p.name for p in parameters if p.kind is p.VAR_POSITIONAL), "args")
    return [positional[i] if i < len(positional) else f"{rest}[{i - len(positional)}]" for i in range(count)]


def _leaf_name(path: Any, names: Sequence[str]) -> str:
    """``params['norm.weight']``: the argument's name, then the way into it."""
    where, first, *rest = path
    head = names[first.idx] if where.idx == 0 else str(first.key)
    return head + pytree.keystr(tuple(rest))


def structure_error(given: pytree.TreeSpec, wanted: pytree.TreeSpec) -> InputError:
    """The error for inputs that are put together otherwise than at the build."""
    return InputError(
        "the step was called with other arguments than it was built for: "
        f"{given.num_leaves} leaves in {_short(given)}, built for {wanted.num_leaves} in {_short(wanted)}"
    )


def _short(tree: pytree.TreeSpec) -> str:
    text = str(pytree.tree_unflatten(["*"] * tree.num_leaves, tree))
    return text if len(text) < 200 else text[:200] + " ..."
