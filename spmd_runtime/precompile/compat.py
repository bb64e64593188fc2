"""Every private part of torch that precompile stands on, in one place, each with a check of its own.

Written against torch 2.13.  :func:`require` is called before anything is built or loaded and names what is missing, so
that another torch gives one sentence instead of a traceback from its middle.
"""

from __future__ import annotations

import contextlib
import importlib
import math
import os
import sys
from collections.abc import Callable, Iterator, Mapping, Sequence
from itertools import product
from pathlib import Path
from typing import Any, Final
from unittest import mock

import torch
import torch.distributed as dist

from spmd_runtime.precompile.errors import PrecompileError

# What is used, as (module, dotted attribute).
_PARTS: Final = (
    ("torch._inductor.standalone_compile", "standalone_compile"),
    ("torch._inductor.standalone_compile", "AOTCompiledArtifact.deserialize"),
    ("torch._inductor.codecache", "CppCodeCache.load_async"),
    ("torch._inductor.codecache", "CppPythonBindingsCodeCache._loaded_module_names"),
    ("torch._inductor.codecache", "torch_key"),
    ("torch._inductor.config", "save_config_portable"),
    ("torch._higher_order_ops.triton_kernel_wrap", "kernel_side_table"),
    ("torch._subclasses", "FakeTensorMode"),
    ("torch.fx.experimental.proxy_tensor", "get_proxy_mode"),
    ("torch.fx.experimental.symbolic_shapes", "ShapeEnv"),
    ("torch._dispatch.python", "enable_python_dispatcher"),
    ("torch.autograd", "_get_sequence_nr"),
    ("torch._C", "_current_autograd_node"),
    ("torch.compiler", "_is_compiling_flag"),
    ("torch._C._distributed_c10d", "FakeProcessGroup._create_internal"),
)

_TRIED: Final = 10_000  # lengths that are tried one by one


def require() -> None:
    """Raise PrecompileError naming the parts of torch that this version lacks."""
    missing = [f"{module}.{attribute}" for module, attribute in _PARTS if part(module, attribute) is None]
    if missing:
        raise PrecompileError(
            f"torch {torch.__version__} lacks what precompile needs: {', '.join(missing)}; "
            "it is written for torch 2.13: install that, or run the step with torch.compile"
        )


def part(module: str, attribute: str) -> Any:
    """The attribute of a module of torch, or None where either is missing."""
    try:
        found: Any = importlib.import_module(module)
        for name in attribute.split("."):
            found = getattr(found, name)
    except (ImportError, AttributeError):
        return None
    return found


def start_fake_world(rank: int, size: int) -> None:
    """Initialise torch.distributed as ``rank`` of ``size`` without any other process: nothing is ever sent."""
    fake = importlib.import_module("torch.testing._internal.distributed.fake_pg")  # registers the backend
    dist.init_process_group("fake", rank=rank, world_size=size, store=fake.FakeStore())


def is_fake_world() -> bool:
    """Whether torch.distributed runs on the fake backend."""
    return dist.is_initialized() and dist.get_backend() == "fake"


def ranks_of(name: str) -> list[int]:
    """The global ranks of the group with this name."""
    return dist.get_process_group_ranks(part("torch.distributed.distributed_c10d", "_resolve_process_group")(name))


def own_group(ranks: Sequence[int]) -> dist.ProcessGroup:
    """The group of these ranks, made by its members alone: the cost does not depend on the number of groups."""
    group = dist.new_group(list(ranks), backend="fake", use_local_synchronization=True)
    if not isinstance(group, dist.ProcessGroup):
        raise PrecompileError(f"rank {dist.get_rank()} is not among the ranks {ranks} of its own group")
    return group


@contextlib.contextmanager
def compiling() -> Iterator[None]:
    """``torch.compiler.is_compiling()`` is true inside: collectives are functional, optimizers read no ``.item()``.

    Operations take the same forms as under torch.compile (the Python dispatcher: dropout is made of ``rand_like``), and
    the backward runs in this thread.
    """
    with (
        mock.patch.object(torch.compiler, "_is_compiling_flag", True),
        torch.autograd.set_multithreading_enabled(False),
        part("torch._dispatch.python", "enable_python_dispatcher")(),
    ):
        yield


@contextlib.contextmanager
def triton_kernels_traced() -> Iterator[None]:
    """A launch of a user's Triton kernel, ``kernel[grid](...)``, becomes an operation of the graph that is traced."""
    launcher = part("triton.runtime.jit", "KernelInterface")
    if launcher is None:
        yield
        return

    def launch(kernel: Any, grid: Any) -> Any:
        return torch.library.wrap_triton(kernel)[grid]

    with mock.patch.object(launcher, "__getitem__", launch):
        yield


def is_triton_launch(target: Any) -> bool:
    """Whether an operation of a graph launches a user's Triton kernel."""
    return str(getattr(target, "__name__", "")).startswith("triton_kernel_wrapper")


def triton_launch(options: Mapping[str, Any]) -> dict[str, Any]:
    """The arguments of such an operation with the kernel's name and its constants for their numbers in a table."""
    table = part("torch._higher_order_ops.triton_kernel_wrap", "kernel_side_table")
    kernel = table.get_kernel(options["kernel_idx"])
    constants = table.get_constant_args(options["constant_args_idx"])
    named = {"kernel": getattr(kernel, "__name__", str(kernel)), "constants": constants}
    return {**{k: v for k, v in options.items() if k not in ("kernel_idx", "constant_args_idx")}, **named}


def module_of_operator(name: str) -> str:
    """The Python module that has registered an operator such as ``my::op``, "" where that is not known."""
    known = part("torch._library.custom_ops", "OPDEFS") or {}
    return str(getattr(getattr(known.get(name), "_init_fn", None), "__module__", ""))


def has_operator(name: str) -> bool:
    """Whether an operator such as ``my::op`` is registered in this process."""
    space, _, operator = name.partition("::")
    return hasattr(getattr(torch.ops, space), operator)


def sequence_number() -> int:
    """The number of the newest autograd node of this thread."""
    return int(part("torch.autograd", "_get_sequence_nr")()) - 1


def running_node() -> int | None:
    """The number of the autograd node whose backward runs now, or None outside a backward."""
    node: Any = torch._C._current_autograd_node()
    return None if node is None else int(node._sequence_nr())


def proxy_graph() -> torch.fx.Graph | None:
    """The graph that is being traced, or None."""
    mode = part("torch.fx.experimental.proxy_tensor", "get_proxy_mode")()
    return None if mode is None else mode.tracer.graph


def fake_mode() -> Any:
    """A fake-tensor mode with symbolic shapes, which lets real scalars pass (``torch.where(c, x, 0)`` makes one).

    A tensor's value is refused where Python asks for it.
    """
    shapes = part("torch.fx.experimental.symbolic_shapes", "ShapeEnv")
    return part("torch._subclasses", "FakeTensorMode")(
        shape_env=shapes(allow_scalar_outputs=False, allow_dynamic_output_shape_ops=False), allow_non_fake_inputs=True
    )


def cuda_driver() -> object:
    """The version of CUDA's driver."""
    read = part("torch._C", "_cuda_getDriverVersion")
    return read() if read is not None else "unknown"


def nccl_version() -> object:
    """The version of NCCL."""
    read = part("torch.cuda.nccl", "version")
    return read() if read is not None else "unknown"


def always(claim: Any, ranges: Mapping[Any, tuple[int, int]]) -> bool:
    """Whether a claim about symbols (a sympy expression) holds for all lengths in their ranges.

    By interval arithmetic, else by trying all lengths, else no.
    """
    bounds = importlib.import_module("torch.utils._sympy.value_ranges")
    limits = {symbol: bounds.ValueRanges(low, high) for symbol, (low, high) in ranges.items()}
    found = bounds.bound_sympy(claim, limits)
    if found.is_singleton():
        return bool(found.lower)
    free = [symbol for symbol in claim.free_symbols if symbol in ranges]
    lengths = [range(ranges[symbol][0], ranges[symbol][1] + 1) for symbol in free]
    if math.prod(map(len, lengths)) > _TRIED:
        return False
    return all(bool(claim.xreplace(dict(zip(free, map(_number, chosen), strict=True)))) for chosen in product(*lengths))


def _number(value: int) -> Any:
    return importlib.import_module("sympy").Integer(value)


def torch_key() -> str:
    """The digest of torch's own sources that Inductor puts into what it saves."""
    return str(part("torch._inductor.codecache", "torch_key")().hex())


def inductor_settings() -> dict[str, str]:
    """Inductor's settings that can change the code it generates and differ from the defaults of this torch."""
    config = importlib.import_module("torch._inductor.config")
    settings: dict[str, Any] = config.save_config_portable(ignore_private_configs=True)
    defaults = {name: config._config[name].default for name in settings if name in config._config}
    return {name: repr(value) for name, value in sorted(settings.items()) if repr(value) != repr(defaults.get(name))}


@contextlib.contextmanager
def cache_directory(folder: Path) -> Iterator[None]:
    """Inductor and Triton keep their files in ``folder`` inside; nothing else in the process sees the change after."""
    names = ("TORCHINDUCTOR_CACHE_DIR", "TRITON_CACHE_DIR")
    before = {name: os.environ.get(name) for name in names}
    os.environ["TORCHINDUCTOR_CACHE_DIR"] = str(folder)
    os.environ["TRITON_CACHE_DIR"] = str(folder / "triton")
    try:
        yield
    finally:
        for name, value in before.items():
            os.environ.pop(name, None)
            if value is not None:
                os.environ[name] = value


@contextlib.contextmanager
def no_loaded_kernels() -> Iterator[None]:
    """Inductor forgets inside which C++ kernels this process has loaded: it finds or builds them where it would now."""
    base = part("torch._inductor.codecache", "CppCodeCache")
    loaded = part("torch._inductor.codecache", "CppPythonBindingsCodeCache._loaded_module_names")
    modules = {name: sys.modules.pop(name) for name in list(loaded) if name in sys.modules}
    try:
        with contextlib.ExitStack() as stack:
            for kind in _subclasses(base):
                if "cache" in vars(kind):
                    stack.enter_context(mock.patch.object(kind, "cache", {}))
            yield
    finally:
        sys.modules.update(modules)


def _subclasses(kind: type) -> Iterator[type]:
    yield kind
    below: type
    for below in kind.__subclasses__():
        yield from _subclasses(below)


def compile_graph(graph: torch.fx.GraphModule, inputs: Sequence[Any], mode: Any) -> tuple[bytes, Callable[..., Any]]:
    """Compile with Inductor; gives the artifact's bytes and the compiled function.

    ``inputs`` are the fake tensors of ``mode`` that the graph was captured with.  Where kernels of the user's own are
    compiled in, they are forgotten before saving: Inductor has put their source into the artifact, and the list of
    their modules would have every rank import them.
    """
    compile_one = part("torch._inductor.standalone_compile", "standalone_compile")
    with torch.no_grad(), _binaries_kept(graph):  # the graph holds its backward already
        compiled = compile_one(
            graph, inputs, dynamic_shapes="from_example_inputs", options={}, aot=True, fake_mode=mode
        )
    table = part("torch._higher_order_ops.triton_kernel_wrap", "kernel_side_table")
    with mock.patch.object(table, "id_to_kernel", {}), mock.patch.object(table, "constant_args", {}):
        saved: bytes = compiled.serialize()
    return saved, compiled


def _binaries_kept(graph: torch.fx.GraphModule) -> contextlib.AbstractContextManager[Any]:
    """Have Inductor launch Triton kernels of the user's own from their binaries, too, as it does with those it makes.

    It is decided where they are compiled, so that must be in this process.
    """
    config, name = importlib.import_module("torch._inductor.config"), "static_launch_user_defined_triton_kernels"
    wanted = any(is_triton_launch(node.target) for node in graph.graph.nodes) and hasattr(config, name)
    patched: contextlib.AbstractContextManager[Any] = config.patch({name: True, "compile_threads": 1} if wanted else {})
    return patched


def build_triton_driver() -> None:
    """Have Triton build its driver's helper library into its cache directory, whatever this process has loaded."""
    helper = part("triton.backends.nvidia.driver", "CudaUtils")
    if helper is not None:
        helper.__init__(object.__new__(helper))


def use_triton_driver() -> None:
    """Have Triton load that library from its cache directory now, and keep it."""
    part("triton.runtime.driver", "driver.active.utils")


def revive(saved: bytes) -> Callable[..., Any]:
    """The compiled function in ``saved``: unpickles and executes, so only for bytes that have been authenticated."""
    revived: Callable[..., Any] = part("torch._inductor.standalone_compile", "AOTCompiledArtifact.deserialize")(saved)
    return revived
