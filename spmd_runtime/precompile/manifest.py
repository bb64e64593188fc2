"""What an artifact's manifest says of a compiled variant, to and from JSON."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import torch
from torch.utils import _pytree as pytree

from spmd_runtime.precompile import compat, trees
from spmd_runtime.precompile.agreement import digest, value_text
from spmd_runtime.precompile.capture import Captured
from spmd_runtime.precompile.provenance import origin_of
from spmd_runtime.precompile.specs import Leaf, Signature, TensorSpec, dump_tree

_GROUPED = "_c10d_functional"
_WAIT = "wait_tensor"
_TORCHS = frozenset({"aten", "prims", "prim", _GROUPED, "_dtensor"})  # namespaces that are there with torch


@dataclass(frozen=True)
class Variant:
    """A compiled variant as the manifest has it: enough to check inputs and to put results together."""

    name: str
    signature: Signature
    ranges: dict[str, tuple[int, int]]
    outputs: list[tuple[str, Any]]
    tree: pytree.TreeSpec
    mutated: frozenset[str]
    kernels: tuple[str, ...]

    def limits(self, dim: int | str) -> tuple[int, int]:
        """The lengths that a dim may have."""
        return self.ranges[dim] if isinstance(dim, str) else (dim, dim)


def overlap(one: Variant, other: Variant) -> bool:
    """Whether some inputs fit both variants, whatever their arguments are called."""
    if one.signature.tree != other.signature.tree:
        return False
    pairs = zip(one.signature.leaves, other.signature.leaves, strict=True)
    return all(_may_be_same(one, a, other, b) for a, b in pairs)


def _may_be_same(one: Variant, a: Leaf, other: Variant, b: Leaf) -> bool:
    if a.spec is None or b.spec is None:
        same = type(a.constant) is type(b.constant) and a.constant == b.constant
        return a.spec is b.spec is None and same
    if a.same_as is not None or b.same_as is not None:  # the leaf that it is the same as tells
        return True
    if (a.spec.dtype, a.spec.device, len(a.spec.shape)) != (b.spec.dtype, b.spec.device, len(b.spec.shape)):
        return False
    if a.spec.dims == b.spec.dims == () and a.spec.shape == b.spec.shape:
        return a.spec.strides({}) == b.spec.strides({})
    limits = zip((one.limits(x) for x in a.spec.shape), (other.limits(x) for x in b.spec.shape), strict=True)
    return all(low <= other_high and other_low <= high for (low, high), (other_low, other_high) in limits)


def describe(captured: Captured, ranges: dict[str, tuple[int, int]], mesh: dict[str, int]) -> dict[str, Any]:
    """A variant's entry in the manifest."""
    placeholder_of = [node for node in captured.graph.graph.nodes if node.op == "output"]
    results = list(placeholder_of[0].args[0])
    return {
        "inputs": [_leaf_entry(leaf) for leaf in captured.signature.leaves],
        "input_tree": dump_tree(captured.signature.tree, "the inputs"),
        "ranges": {name: list(limits) for name, limits in ranges.items()},
        "outputs": [[kind, value] for kind, value in captured.outputs],
        "output_tree": dump_tree(captured.tree, "the results"),
        "results": [value_text(node.meta.get("val")) for node in results if isinstance(node, torch.fx.Node)],
        "mutated": captured.mutated,
        "graph": digest(captured),
        "operations": len(captured.nodes()),
        "collectives": collectives(captured, mesh),
        "operators": operators(captured),
        "containers": trees.names(captured.signature.tree, captured.tree),
    }


def operators(captured: Captured) -> dict[str, str]:
    """The operators that torch does not bring itself, each with the module that registers it ("" if unknown)."""
    names = {node.target.name() for node in captured.nodes() if hasattr(node.target, "_schema")}  # type: ignore[union-attr]
    own = sorted({name.partition(".")[0] for name in names if name.partition("::")[0] not in _TORCHS})
    return {name: compat.module_of_operator(name) for name in own}


def collectives(captured: Captured, mesh: dict[str, int]) -> list[dict[str, Any]]:
    """The collectives in order: operation, axis, size of the axis, bytes, phase and source line."""
    found = []
    for node in captured.nodes():
        schema = getattr(node.target, "_schema", None)
        if schema is None or node.target.name().endswith(_WAIT):  # type: ignore[union-attr]
            continue
        axis = _axis(node, schema, mesh)
        if axis is None:
            continue
        origin = origin_of(node)
        found.append({
            "op": node.target.name().split("::")[-1],  # type: ignore[union-attr]
            "axis": axis,
            "size": mesh[axis],
            "value": value_text(node.meta.get("val")),
            "phase": origin.phase if origin else "",
            "line": str(origin) if origin else "",
        })  # fmt: skip
    return found


def _axis(node: torch.fx.Node, schema: Any, mesh: dict[str, int]) -> str | None:
    """The axis over which a node communicates, None where it does not."""
    if node.target.namespace not in (_GROUPED, "spmd_runtime") or node.target.name().endswith("axis_index"):  # type: ignore[union-attr]
        return None
    names = [value for value in (*node.args, *node.kwargs.values()) if isinstance(value, str) and value in mesh]
    return names[-1] if names else None


def _leaf_entry(leaf: Leaf) -> dict[str, Any]:
    entry: dict[str, Any] = {"name": leaf.name}
    if leaf.spec is None:
        return {**entry, "constant": leaf.constant}
    if leaf.same_as is not None:
        return {**entry, "same_as": leaf.same_as}
    stride = None if leaf.spec.dims else list(leaf.spec.strides({}))
    dtype = str(leaf.spec.dtype).removeprefix("torch.")
    return {**entry, "shape": list(leaf.spec.shape), "stride": stride, "dtype": dtype, "device": leaf.spec.device}


def read(name: str, entry: dict[str, Any]) -> Variant:
    """The variant of an entry."""
    trees.find(entry["containers"])
    leaves = []
    for item in entry["inputs"]:
        spec = None
        if "shape" in item:
            stride = tuple(item["stride"]) if item["stride"] is not None else None
            spec = TensorSpec(tuple(item["shape"]), getattr(torch, item["dtype"]), item["device"], False, stride)
        elif "same_as" in item:
            spec = TensorSpec(())
        leaves.append(Leaf(item["name"], spec, item.get("constant"), item.get("same_as")))
    return Variant(
        name,
        Signature(tuple(leaves), pytree.treespec_loads(entry["input_tree"])),
        {dim: (low, high) for dim, (low, high) in entry["ranges"].items()},
        [(kind, value) for kind, value in entry["outputs"]],
        pytree.treespec_loads(entry["output_tree"]),
        frozenset(entry["mutated"]),
        tuple(entry.get("kernels", ())),
    )
