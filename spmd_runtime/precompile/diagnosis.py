"""What to say when a step cannot be captured: what it was, where in the user's code, and what to write instead."""

from __future__ import annotations

import re
import traceback
from collections.abc import Callable
from typing import Any, Final

import torch

from spmd_runtime.precompile.errors import CaptureError
from spmd_runtime.precompile.provenance import Origin, Recorder, is_users

# By the operator that failed or by the name of torch's exception: what is wrong, and what to do.
_BY_OPERATOR: Final = {
    "aten::_local_scalar_dense": (
        "the value of a tensor is used in Python (a branch, .item(), int(), float(), bool())",
        "keep it a tensor (torch.where instead of if), or pass the number to the step as an input",
    ),
    "aten::equal": (
        "the values of two tensors are compared in Python",
        "keep the comparison a tensor, or make it outside the step",
    ),
}
_BY_EXCEPTION: Final = {
    "DataDependentOutputException": _BY_OPERATOR["aten::_local_scalar_dense"],
    "GuardOnDataDependentSymNode": _BY_OPERATOR["aten::_local_scalar_dense"],
    "DynamicOutputShapeException": (
        "the shape of a result depends on the values of a tensor",
        "use a form with a fixed shape: torch.where or masked_fill instead of nonzero, masked_select or x[mask]",
    ),
    "UnsupportedOperatorException": (
        "the operator has no fake kernel, so its result's shape is unknown without running it",
        "register one: @torch.library.register_fake({operator!r}), which returns empty tensors of the right shape",
    ),
}
_NO_NUMPY: Final = (
    "a tensor leaves torch for numpy or a Python list",
    "write it with torch operations, or do it outside the step",
)
_PHRASES: Final = (
    (
        "is bound to no process group",
        ("a collective names an axis that the mesh does not have ({error})", "give the mesh that axis"),
    ),
    ("no fake impl", _BY_EXCEPTION["UnsupportedOperatorException"]),
    ("fake impl registered", _BY_EXCEPTION["UnsupportedOperatorException"]),
    (".numpy() is not supported", _NO_NUMPY),
    ("numpy", _NO_NUMPY),
    ("tolist", _NO_NUMPY),
    (
        "symbolically trace a dynamo-optimized function",
        ("a part of the step is under torch.compile already", "remove that torch.compile: the whole step is compiled"),
    ),
)


def explain(error: Exception, recorder: Recorder) -> CaptureError:
    """The error to raise for an exception that came out of capturing."""
    operator, origin = recorder.failed or ("", None)
    known = _BY_OPERATOR.get(operator) or _BY_EXCEPTION.get(type(error).__name__) or _by_phrase(str(error))
    where = str(origin) if origin is not None else _innermost_line(error)
    said = f"{type(error).__name__}: {_first_line(error)}"
    what, todo = (known[0].replace("{error}", _first_line(error).partition(";")[0]), known[1]) if known else (said, "")
    lines = [f"the step cannot be captured: {what}"]
    if operator:
        lines.append(f"  operation: {operator}")
    if where:
        lines.append(f"  at {where}")
    if todo:
        lines.append(todo.format(operator=_operator(error) or operator))
    return CaptureError("\n".join(lines))


def _by_phrase(text: str) -> tuple[str, str] | None:
    return next((known for phrase, known in _PHRASES if phrase in text), None)


def _first_line(error: Exception) -> str:
    return next(iter(str(error).strip().splitlines()), "")


def _operator(error: Exception) -> str:
    found = re.search(r"\b([a-z_]\w*)[:.]{1,2}(\w+)(?:\.default)?", getattr(error, "func", None).__str__())
    if found is None or found.group(1) == "None":
        return ""
    return f"{found.group(1)}::{found.group(2)}"


def _innermost_line(error: Exception) -> str:
    """The user's innermost line in the exception's traceback."""
    for frame in reversed(traceback.extract_tb(error.__traceback__)):
        if is_users(frame.filename):
            return str(Origin(frame.filename, frame.lineno or 0, frame.name))
    return ""


def describe(tensor: torch.Tensor) -> str:
    """``a (32, 8) float32 parameter``."""
    kind = "parameter" if isinstance(tensor, torch.nn.Parameter) else "tensor"
    return f"a {tuple(tensor.shape)} {str(tensor.dtype).removeprefix('torch.')} {kind}"


def foreign(step: Callable[..., Any], tensor: torch.Tensor, origin: Origin | None) -> str:
    """For a tensor that the step reads and that is not among its inputs."""
    name = _name_in(step, tensor)
    return (
        f"the step reads {describe(tensor)}{name} that is not among its inputs; its value now would be compiled in\n"
        f"  first used at {origin or 'an unknown line'}\n"
        "Pass it in `inputs` (torch.func.functional_call runs a module on parameters and buffers that are given to it)"
    )


def _name_in(step: Callable[..., Any], tensor: torch.Tensor) -> str:
    """Where a closure or a module holds the tensor, if it is near."""
    cells = [cell.cell_contents for cell in getattr(step, "__closure__", None) or ()]
    for holder in [getattr(step, "__self__", None), *cells]:
        if isinstance(holder, torch.nn.Module):
            for name, value in [*holder.named_parameters(), *holder.named_buffers()]:
                if value is tensor:
                    return f" ({name} of {type(holder).__name__})"
    return ""


def lost_gradient(name: str) -> str:
    """For a backward() whose gradient is not returned."""
    return (
        f"the step leaves a gradient in {name}.grad, which the compiled step does not: its effects are its results and "
        "what it writes into its inputs\nReturn the gradients: grads = torch.autograd.grad(loss, list(params.values()))"
    )


_OWN_DRAWS = "Seed outside the step and draw from torch's default generator, or draw outside and pass the numbers in"


def generator(node: torch.fx.Node, origin: Origin | None) -> str:
    """For random numbers from a generator that the user has made."""
    return (
        f"{node.target} draws from a generator of its own, whose state a graph cannot hold\n"
        f"  at {origin or 'an unknown line'}\n{_OWN_DRAWS}"
    )


def seeding(origin: Origin | None) -> str:
    """For a seed that the step sets."""
    return f"the step sets torch's seed, which a graph cannot hold\n  at {origin or 'an unknown line'}\n{_OWN_DRAWS}"


def in_place_collective(node: torch.fx.Node, origin: Origin | None) -> str:
    """For a raw torch.distributed call."""
    return (
        f"a raw in-place collective ({node.target}) cannot be compiled as part of the graph\n"
        f"  at {origin or 'an unknown line'}\n"
        "Write it with the collectives that return their result: x = spmd.all_reduce(x, TP, src=P, dst=R)"
    )


def unknown_group(node: torch.fx.Node, name: str, is_world: bool, axes: list[str], origin: Origin | None) -> str:
    """For a collective over a group that is no axis."""
    group = "the world group" if is_world else f"the group {name!r}"
    return (
        f"{node.target} communicates over {group}, which is no axis of the mesh ({', '.join(axes)})\n"
        f"  at {origin or 'an unknown line'}\n"
        "Name an axis, all_reduce(x, TP, ...), or give the mesh another axis: mesh={..., 'world': N}"
    )
