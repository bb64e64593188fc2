"""Whether a step is the same on every rank: its graphs, captured as several ranks, compared operation by operation."""

from __future__ import annotations

import hashlib
from collections.abc import Mapping
from itertools import zip_longest
from typing import Any

import torch

from spmd_runtime.precompile import compat
from spmd_runtime.precompile.capture import Captured
from spmd_runtime.precompile.errors import DisagreementError
from spmd_runtime.precompile.provenance import origin_of
from spmd_runtime.precompile.world import Coordinates, coordinates_text


def node_text(node: torch.fx.Node) -> str:
    """An operation with all its arguments, without its result."""
    target = node.target if isinstance(node.target, str) else str(node.target)
    named = compat.triton_launch(node.kwargs) if compat.is_triton_launch(node.target) else node.kwargs
    parts = [str(value) for value in node.args] + [f"{name}={value}" for name, value in named.items()]
    return f"{target}({', '.join(parts)})"


def value_text(value: Any) -> str:
    """Shape, stride, dtype and device of what a node gives."""
    if isinstance(value, torch.Tensor):
        dtype = str(value.dtype).removeprefix("torch.")
        return f"{dtype}{list(value.shape)} stride {list(value.stride())} on {value.device.type}"
    if isinstance(value, (list, tuple)):
        return "(" + ", ".join(map(value_text, value)) + ")"
    return "" if value is None else str(value)


def constant_of(captured: Captured, node: torch.fx.Node) -> Any:
    """The value of a node that reads a constant of the graph, else None."""
    if node.op != "get_attr":
        return None
    value: Any = captured.graph
    for name in str(node.target).split("."):
        value = getattr(value, name)
    if isinstance(value, torch.fx.GraphModule):
        return graph_text(value)
    return value.tolist() if isinstance(value, torch.Tensor) else None


def graph_text(graph: torch.fx.GraphModule) -> str:
    """The graph as text that is equal for equal graphs, one operation a line."""
    lines = [f"{n.name} = {node_text(n)}  # {value_text(n.meta.get('val'))}" for n in graph.graph.nodes]
    return "\n".join(lines) + "\n"


def digest(captured: Captured) -> str:
    """The digest of a graph and its constants."""
    constants = [constant_of(captured, node) for node in captured.nodes()]
    text = graph_text(captured.graph) + repr([value for value in constants if value is not None])
    return hashlib.sha256(text.encode()).hexdigest()


def compare(first: Captured, at: Coordinates, second: Captured, there: Coordinates, mesh: Mapping[str, int]) -> None:
    """Raise DisagreementError at the first operation that differs between two ranks."""
    ranks = (coordinates_text(at), coordinates_text(there))
    axes = [axis for axis in mesh if at[axis] != there[axis]]
    _compare_signatures(first, second, ranks)
    for a, b in zip_longest(first.nodes(), second.nodes()):
        if a is None or b is None or node_text(a) != node_text(b):
            raise DisagreementError(_different_operation(a, b, ranks, axes))
        values = value_text(a.meta.get("val")), value_text(b.meta.get("val"))
        constants = constant_of(first, a), constant_of(second, b)
        if values[0] != values[1]:
            raise DisagreementError(_report("the result of one operation", a, ranks, values, _VARIANTS))
        if constants[0] != constants[1]:
            used = next(iter(a.users), a)
            raise DisagreementError(_report("a constant tensor", used, ranks, constants, _as_tensor(axes)))
    if first.outputs != second.outputs:
        what = [value for kind, value in first.outputs if kind == "constant"]
        other = [value for kind, value in second.outputs if kind == "constant"]
        raise DisagreementError(
            f"the step returns a Python value that depends on the rank: {what} as rank ({ranks[0]}), {other} as rank "
            f"({ranks[1]})\nReturn a tensor"
        )


_VARIANTS = (
    "Ranks with other shapes are variants of the step: precompile({'even': (step, inputs), 'last': (step, inputs)}, "
    "...), or a factory that returns such a dict; each is compiled once, and every rank takes the one that fits its "
    "inputs"
)
_EACH_TIME = (
    "It is another one each time that the step is captured (a random number of Python's, the time, a counter, "
    "something that the first call has left behind), and one of them would be compiled in. Pass it to the step as an "
    "input, or draw it with torch (torch.rand)"
)
_BRANCH = (
    "Every rank must do the same operations in the same order. Keep what only one rank does (logging) outside the "
    "step, choose values by a tensor (torch.where(spmd.axis_index({axis}) == 0, a, b)), or build variants"
)


def _as_tensor(axes: list[str]) -> str:
    if not axes:  # captured twice as one rank
        return _EACH_TIME
    axis = axes[0].upper()
    return (
        "The value depends on the rank. Make it from a tensor that is read when the step runs: "
        f"spmd.axis_index({axis}) * size instead of rank * size"
    )


def _compare_signatures(first: Captured, second: Captured, ranks: tuple[str, str]) -> None:
    for a, b in zip_longest(first.signature.leaves, second.signature.leaves):
        if a is None or b is None or a.name != b.name:
            names = [leaf.name if leaf is not None else "nothing" for leaf in (a, b)]
            raise DisagreementError(
                f"the inputs differ: {names[0]} as rank ({ranks[0]}), {names[1]} as rank ({ranks[1]})"
            )
        if a != b:
            mine, other = (f"{x.spec.shape} {x.spec.dtype}" if x.spec else repr(x.constant) for x in (a, b))
            raise DisagreementError(
                f"input {a.name} differs: {mine} as rank ({ranks[0]}), {other} as rank ({ranks[1]})\n{_VARIANTS}"
            )


def _different_operation(
    a: torch.fx.Node | None, b: torch.fx.Node | None, ranks: tuple[str, str], axes: list[str]
) -> str:
    node = a if a is not None else b
    assert node is not None
    texts = tuple(node_text(x) if x is not None else "(the step has ended)" for x in (a, b))
    if a is None or b is None or a.target != b.target:
        todo = _BRANCH.format(axis=axes[0].upper()) if axes else _EACH_TIME
        message = _report("the order of operations", node, ranks, texts, todo)
        other = origin_of(b) if a is not None and b is not None else None
        return message if other is None else f"{message}\n  as rank ({ranks[1]}), {other}"
    return _report("an argument of one operation", node, ranks, texts, _as_tensor(axes))


def _report(what: str, node: torch.fx.Node, ranks: tuple[str, str], values: tuple[Any, ...], todo: str) -> str:
    origin = origin_of(node)
    lines = [
        f"the step is not the same on every rank: {what} differs",
        f"  as rank ({ranks[0]}): {values[0]}",
        f"  as rank ({ranks[1]}): {values[1]}",
        f"  operation {node.target}, at {origin or 'an unknown line'}",
        todo,
    ]
    return "\n".join(lines)
