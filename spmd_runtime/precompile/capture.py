"""Capture a step as one graph of ATen operations and functional collectives, as one rank, on fake tensors."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any, Final
from unittest import mock

import torch
import torch.distributed as dist
from torch.fx.experimental.proxy_tensor import make_fx
from torch.utils import _pytree as pytree

from spmd_runtime.mesh import lookup
from spmd_runtime.precompile import compat, diagnosis, symbols, trees
from spmd_runtime.precompile.errors import CaptureError
from spmd_runtime.precompile.provenance import Recorder, caller, origin_of
from spmd_runtime.precompile.specs import PLAIN, Signature, dump_tree

Range = tuple[int, int]
_GROUPED: Final = ("_c10d_functional", "_dtensor")  # namespaces of operators that take a group's name


@dataclass
class Captured:
    """A step as a graph: its inputs in order are ``signature.tensors``.

    ``outputs`` has for each leaf of the result the index of the graph's output, or the constant that it is.
    """

    graph: torch.fx.GraphModule
    signature: Signature
    fakes: list[Any]
    mode: Any
    tree: pytree.TreeSpec
    outputs: list[tuple[str, Any]]
    mutated: list[str]

    def nodes(self) -> list[torch.fx.Node]:
        """The operations, without placeholders and output."""
        return [node for node in self.graph.graph.nodes if node.op not in ("placeholder", "output")]


def capture(
    step: Callable[..., Any], signature: Signature, mesh: Mapping[str, int], dynamic: Mapping[str, Range] | None = None
) -> Captured:
    """``step`` as the graph that it is on the rank that the process stands for (``world.fake_world``).

    ``dynamic`` has the range of every named dim.  Raises CaptureError, with the user's source line, for what no graph
    can hold.
    """
    mode = compat.fake_mode()
    lengths = symbols.symbols(mode, signature.dims(), dynamic or {})
    fakes = _fakes(signature, mode, lengths)
    recorder = Recorder()
    result: dict[str, Any] = {}

    def flat(*tensors: torch.Tensor) -> list[torch.Tensor]:
        args, kwargs = _rebuild(signature, tensors)
        with recorder:
            returned = step(*args, **kwargs)
        trees.register(returned)
        leaves, result["tree"] = pytree.tree_flatten(returned)
        _check_gradients(signature, tensors, leaves)
        result["outputs"], found = _split_outputs(leaves, returned)
        return found

    try:
        with compat.compiling(), compat.triton_kernels_traced(), _no_seeding(), mode:
            graph = make_fx(flat, tracing_mode="real", _allow_non_fake_inputs=True)(*fakes)
    except CaptureError:
        raise
    except Exception as error:
        raise diagnosis.explain(error, recorder) from error
    for tensor, origin in recorder.foreign.values():
        raise CaptureError(diagnosis.foreign(step, tensor, origin))
    symbols.check_guards(mode, dynamic or {})
    _refuse_generators(graph)
    _name_axes(graph, mesh)
    _name_inputs(graph, signature)
    graph.recompile()
    dump_tree(result["tree"], "the step's results")
    return Captured(graph, signature, fakes, mode, result["tree"], result["outputs"], _mutated(graph, signature))


def _no_seeding() -> Any:
    """Setting torch's seed raises CaptureError inside: no graph can hold it."""

    def refuse(seed: int) -> None:
        raise CaptureError(diagnosis.seeding(caller()))

    return mock.patch.multiple(torch, manual_seed=refuse, seed=refuse)


def _fakes(signature: Signature, mode: Any, sizes: Mapping[str, Any]) -> list[torch.Tensor]:
    """A fake tensor for each tensor of the signature."""
    fakes = []
    with mode:
        for leaf in signature.tensors:
            spec = leaf.spec
            assert spec is not None
            x = torch.empty_strided(spec.sized(sizes), spec.strides(sizes), dtype=spec.dtype, device=spec.device)
            fakes.append(x.requires_grad_(spec.requires_grad))
    return fakes


def _rebuild(signature: Signature, tensors: tuple[torch.Tensor, ...]) -> tuple[tuple[Any, ...], dict[str, Any]]:
    """Positional and keyword arguments out of the graph's inputs."""
    given = iter(tensors)
    leaves: list[Any] = []
    for leaf in signature.leaves:
        if leaf.spec is None:
            leaves.append(leaf.constant)
        else:
            leaves.append(next(given) if leaf.same_as is None else leaves[leaf.same_as])
    args, kwargs = pytree.tree_unflatten(leaves, signature.tree)
    return args, kwargs


def _split_outputs(leaves: list[Any], returned: Any) -> tuple[list[tuple[str, Any]], list[torch.Tensor]]:
    outputs: list[tuple[str, Any]] = []
    tensors: list[torch.Tensor] = []
    for leaf in leaves:
        if isinstance(leaf, torch.Tensor):
            outputs.append(("tensor", len(tensors)))
            tensors.append(leaf.detach() if leaf.requires_grad else leaf)
        elif isinstance(leaf, PLAIN):
            outputs.append(("constant", leaf))
        else:
            raise CaptureError(
                f"the step returns a {type(leaf).__qualname__}: results are tensors and plain Python values, in "
                "tuples, lists, dicts and named tuples"
            )
    if not tensors:
        raise CaptureError(f"the step returns no tensor: {returned!r}; return what is to be computed")
    return outputs, tensors


def _check_gradients(signature: Signature, tensors: tuple[torch.Tensor, ...], leaves: list[Any]) -> None:
    """Raise CaptureError for a gradient that stays in an input's ``.grad`` and is not returned."""
    for leaf, tensor in zip(signature.tensors, tensors, strict=True):
        if tensor.grad is not None and not any(tensor.grad is returned for returned in leaves):
            raise CaptureError(diagnosis.lost_gradient(leaf.name))


def _mutated(graph: torch.fx.GraphModule, signature: Signature) -> list[str]:
    """The names of the inputs that the graph writes into, themselves or through a view."""
    placeholders = [node for node in graph.graph.nodes if node.op == "placeholder"]
    inputs = {node: leaf.name for node, leaf in zip(placeholders, signature.tensors, strict=True)}
    written: dict[str, None] = {}
    for node in graph.graph.nodes:
        for value, is_write in _aliased(node):
            if value in inputs:
                inputs[node] = inputs[value]
                if is_write:
                    written[inputs[value]] = None
    return list(written)


def _aliased(node: torch.fx.Node) -> Iterator[tuple[torch.fx.Node, bool]]:
    """The arguments whose memory a node's result shares or that it writes into, and whether it does the latter."""
    if node.op == "call_function" and compat.is_triton_launch(node.target):  # which it writes into, only it knows
        yield from ((value, True) for value in node.all_input_nodes)
    schema = getattr(node.target, "_schema", None) if node.op == "call_function" else None
    for i, argument in enumerate(schema.arguments if schema is not None else ()):
        if argument.alias_info is None:
            continue
        given = node.args[i] if i < len(node.args) else node.kwargs.get(argument.name)
        for value in given if isinstance(given, (list, tuple)) else (given,):
            if isinstance(value, torch.fx.Node):
                yield value, argument.alias_info.is_write


def _name_inputs(graph: torch.fx.GraphModule, signature: Signature) -> None:
    """Call the graph's inputs as the user does: ``params['norm.weight']`` is ``params_norm_weight``."""
    placeholders = [node for node in graph.graph.nodes if node.op == "placeholder"]
    for node, leaf in zip(placeholders, signature.tensors, strict=True):
        node._rename(re.sub(r"\W+", "_", leaf.name).strip("_"))
        node.target = node.name


def _name_axes(graph: torch.fx.GraphModule, mesh: Mapping[str, int]) -> None:
    """Have every collective name its axis; raises CaptureError for a group that is no axis of the mesh."""
    axis_of = {str(lookup(axis).group.group_name): axis for axis in mesh}
    world = dist.group.WORLD
    for node in list(graph.graph.nodes):
        space = getattr(node.target, "namespace", "")
        if space == "c10d":
            raise CaptureError(diagnosis.in_place_collective(node, origin_of(node)))
        if space not in _GROUPED or not _takes_group(node):
            continue
        position = next(i for i, a in enumerate(node.target._schema.arguments) if a.name == "group_name")
        name = str(node.args[position])
        if name in mesh:
            continue
        axis = axis_of.get(name) or _axis_with_ranks(compat.ranks_of(name), mesh)
        if axis is None:
            is_world = world is not None and name == world.group_name
            raise CaptureError(diagnosis.unknown_group(node, name, is_world, list(mesh), origin_of(node)))
        node.update_arg(position, axis)


def _refuse_generators(graph: torch.fx.GraphModule) -> None:
    """Raise CaptureError for random numbers from a generator of the user's own: a graph cannot hold its state."""
    for node in graph.graph.nodes:
        if node.kwargs.get("generator") is not None:
            raise CaptureError(diagnosis.generator(node, origin_of(node)))


def _axis_with_ranks(ranks: list[int], mesh: Mapping[str, int]) -> str | None:
    """The axis whose group has these ranks, under whatever name the user's DeviceMesh has made it."""
    return next((axis for axis in mesh if dist.get_process_group_ranks(lookup(axis).group) == ranks), None)


def _takes_group(node: torch.fx.Node) -> bool:
    return any(argument.name == "group_name" for argument in node.target._schema.arguments)  # type: ignore[union-attr]
