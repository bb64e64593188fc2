"""Where an operation of the graph comes from: the user's source line, forward, backward or recomputed.

Torch keeps source lines only below a function named ``forward``, and none for the backward.  The recorder here sees
every operation while it is traced.  Forward, it takes the innermost frame that is neither torch's nor ours, and
remembers it under the number of the autograd node that the operation has made.  Backward, that number leads from the
node that runs back to the line of the forward operation.
"""

from __future__ import annotations

import linecache
import os
import sys
import sysconfig
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from types import FrameType
from typing import Any, Final

import torch
from torch.utils import _pytree as pytree
from torch.utils._python_dispatch import TorchDispatchMode

import spmd_mypy
import spmd_runtime
from spmd_runtime.precompile import compat

_KEY: Final = "spmd_origin"  # in a node's meta
_TORCH: Final = str(Path(torch.__file__).parent)
_OURS: Final = tuple(str(Path(file).parent) for file in (spmd_runtime.__file__, str(spmd_mypy.__file__)))
_HOOKS: Final = ("_distutils_hack", "__editable__")  # of installers, called at imports: no code of the step's
_PYTHON: Final = sysconfig.get_paths()["stdlib"]
_ENGINE: Final = os.path.join("torch", "autograd", "graph.py")
_CHECKPOINT: Final = os.path.join("torch", "utils", "checkpoint.py")


@dataclass(frozen=True)
class Origin:
    """A line of the user's, and in which phase it was reached: forward, backward or recompute.

    For an operation of the backward, ``forward`` is the operation whose gradient it belongs to.
    """

    file: str
    line: int
    function: str
    phase: str = "forward"
    forward: str = ""

    @property
    def where(self) -> str:
        """``file:line``, relative to the working directory where the file lies in it."""
        path = os.path.relpath(self.file) if self.file.startswith(os.getcwd() + os.sep) else self.file
        return f"{path}:{self.line}"

    @property
    def text(self) -> str:
        """The source line."""
        return linecache.getline(self.file, self.line).strip()

    def __str__(self) -> str:
        said = f"{self.where}, in {self.function}: {self.text}" if self.text else f"{self.where}, in {self.function}"
        if self.phase == "backward" and self.forward:
            return f"{said}  (backward of {self.forward})"
        return said + ("  (recomputed in the backward)" if self.phase == "recompute" else "")


def origin_of(node: torch.fx.Node) -> Origin | None:
    """Where a node of a captured graph comes from."""
    found: Origin | None = node.meta.get(_KEY)
    return found


def is_users(file: str) -> bool:
    """Whether a file is the user's: not torch's, ours or Python's."""
    if file.startswith(("<", _TORCH, *_OURS)) or any(hook in file for hook in _HOOKS):
        return False
    return not file.startswith(_PYTHON) or is_installed(file)


def is_installed(file: str) -> bool:
    """Whether a file belongs to an installed package."""
    return "site-packages" in file or "dist-packages" in file


def _frames(start: FrameType | None) -> Iterator[FrameType]:
    while start is not None:
        yield start
        start = start.f_back


class Recorder(TorchDispatchMode):  # type: ignore[no-untyped-call]  # its __init_subclass__ is untyped
    """Marks every node that is traced while it is active, and sees tensors that come from outside.

    ``failed`` is the origin of the operation that raised, if one did.  ``foreign`` are the tensors of the process that
    the step read without having them among its inputs, with the line of the first use.
    """

    supports_higher_order_operators = True

    def __init__(self) -> None:
        super().__init__()  # type: ignore[no-untyped-call]
        self.failed: tuple[str, Origin | None] | None = None
        self.foreign: dict[int, tuple[torch.Tensor, Origin | None]] = {}
        self._lines: dict[int, Origin] = {}  # by the number of the autograd node

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        if _name(func).startswith("prim::"):  # a question about a tensor, no operation
            return func(*args, **(kwargs or {}))
        graph = compat.proxy_graph()
        last = None if graph is None else _last(graph)
        origin = self._origin(_name(func))
        self._look_for_foreign(func, args, kwargs or {}, origin)
        try:
            result = func(*args, **(kwargs or {}))
        except Exception:
            self.failed = self.failed or (_name(func), origin)
            raise
        if graph is not None and origin is not None:
            node = _last(graph)
            while node is not last and _KEY not in node.meta:
                node.meta[_KEY] = origin
                node = node.prev
        return result

    def _origin(self, operation: str) -> Origin | None:
        user: FrameType | None = None
        recomputing = False
        running = compat.running_node()
        for frame in _frames(sys._getframe(2)):
            file = frame.f_code.co_filename
            if user is None and is_users(file):
                user = frame
            if file.endswith(_CHECKPOINT) and running is not None:
                recomputing = True
            if file.endswith(_ENGINE) and running is not None:
                return self._in_backward(user, recomputing, running, frame, operation)
            if user is not None and running is None:
                break
        found = None if user is None else _origin_at(user, "forward")
        self._remember(found, operation)
        return found

    def _in_backward(
        self, user: FrameType | None, recomputing: bool, running: int, engine: FrameType, operation: str
    ) -> Origin | None:
        """The origin below the engine's frame: recomputed forward, a backward of the user's own, or torch's."""
        if user is not None:
            found = _origin_at(user, "recompute" if recomputing else "backward")
            if recomputing:
                self._remember(found, operation)
            return found
        forward = self._lines.get(running)
        if forward is not None:
            return Origin(forward.file, forward.line, forward.function, "backward", forward.forward)
        caller = next((frame for frame in _frames(engine) if is_users(frame.f_code.co_filename)), None)
        return None if caller is None else _origin_at(caller, "backward")

    def _remember(self, origin: Origin | None, operation: str) -> None:
        if origin is not None:
            named = Origin(origin.file, origin.line, origin.function, origin.phase, operation)
            self._lines.setdefault(compat.sequence_number(), named)

    def _look_for_foreign(self, func: Any, args: Any, kwargs: Any, origin: Origin | None) -> None:
        if "lift_fresh" in str(func):  # a literal, torch.tensor([...]): part of the graph
            return
        for value in pytree.tree_iter((args, kwargs)):
            if type(value) in (torch.Tensor, torch.nn.Parameter, torch.nn.Buffer):
                self.foreign.setdefault(id(value), (value, origin))


def _origin_at(frame: FrameType, phase: str) -> Origin:
    return Origin(frame.f_code.co_filename, frame.f_lineno, frame.f_code.co_name, phase)


def caller() -> Origin | None:
    """The user's innermost line in the call that is under way."""
    found = next((frame for frame in _frames(sys._getframe(1)) if is_users(frame.f_code.co_filename)), None)
    return None if found is None else _origin_at(found, "forward")


def _name(func: Any) -> str:
    return str(func.name() if hasattr(func, "name") else func)


def _last(graph: torch.fx.Graph) -> torch.fx.Node:
    return graph._root.prev
