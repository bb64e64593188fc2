"""Make every compiler raise: Dynamo, AOTAutograd, Inductor's lowering, C++ builds, Triton, and any other process."""

from __future__ import annotations

import contextlib
import importlib
import subprocess
from collections.abc import Iterator
from typing import Any
from unittest import mock

# What a compilation cannot do without, as (module, dotted attribute).
COMPILERS = (
    ("torch._dynamo.convert_frame", "ConvertFrame.__call__"),
    ("torch._dynamo.convert_frame", "_compile"),
    ("torch._functorch.aot_autograd", "aot_module_simplified"),
    ("torch._functorch.aot_autograd", "create_aot_state"),
    ("torch._inductor.compile_fx", "compile_fx_inner"),
    ("torch._inductor.compile_fx", "compile_fx"),
    ("torch._inductor.graph", "GraphLowering.run"),
    ("torch._inductor.scheduler", "Scheduler.__init__"),
    ("torch._inductor.cpp_builder", "CppBuilder.__init__"),
    ("torch._inductor.cpp_builder", "CppBuilder.build"),
    ("torch.fx.experimental.proxy_tensor", "make_fx"),
)
# Not triton.compile itself: it also finds what is compiled already.
TRITON = tuple(
    ("triton.backends.nvidia.compiler", f"CUDABackend.make_{stage}")
    for stage in ("ttir", "ttgir", "llir", "ptx", "cubin")
)


class Compiled(BaseException):
    """Something was compiled; no ``except Exception`` may swallow it."""


def wires(cuda: bool = False) -> list[tuple[str, str]]:
    """What is made to raise; raises AttributeError where torch no longer has one of them."""
    found = list(COMPILERS) + (list(TRITON) if cuda else [])
    for module, attribute in found:
        target = importlib.import_module(module)
        for name in attribute.split("."):
            target = getattr(target, name)
    return found


@contextlib.contextmanager
def no_compiler(cuda: bool = False) -> Iterator[list[str]]:
    """Every compiler raises :class:`Compiled` inside; gives the list of the wires."""
    with contextlib.ExitStack() as stack:
        names = []
        for module, attribute in wires(cuda):
            name = f"{module}.{attribute}"
            stack.enter_context(mock.patch(name, side_effect=Compiled(name)))
            names.append(name)
        start = subprocess.Popen.__init__

        def popen(self: Any, args: Any, *rest: Any, **options: Any) -> None:
            if not (cuda and "ldconfig" in str(args)):  # with which Triton looks for the driver's library
                raise Compiled(f"subprocess {args}")
            start(self, args, *rest, **options)

        stack.enter_context(mock.patch.object(subprocess.Popen, "__init__", popen))
        yield names
