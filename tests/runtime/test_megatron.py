"""spmd_runtime.megatron against the behaviour of Megatron's code, written out again: equal bit for bit, both ways."""

from __future__ import annotations

import inspect
from collections.abc import Callable
from typing import Any

import torch
import torch.distributed as dist
from torch import Tensor

import spmd_runtime as spmd
from spmd_runtime import TP, megatron
from tests.runtime.gloo import run

Maker = Callable[[Tensor, Any], Tensor]


def total(x: Tensor, group: Any) -> Tensor:
    """Sums in place, and returns its argument."""
    dist.all_reduce(x, group=group)
    return x


def own(x: Tensor, group: Any, dim: int) -> Tensor:
    return x.chunk(group.size(), dim)[group.rank()].contiguous()


def joined(x: Tensor, group: Any, dim: int, sizes: list[int] | None = None) -> Tensor:
    shapes = [list(x.shape) for _ in range(group.size())]
    for shape, size in zip(shapes, sizes or [x.shape[0]] * group.size(), strict=True):
        shape[0] = size
    outs = [x.new_empty(shape) for shape in shapes]
    if sizes is None:
        dist.all_gather(outs, x.contiguous(), group=group)
    else:  # gloo gathers equal parts only
        for rank, out in enumerate(outs):
            if rank == group.rank():
                out.copy_(x)
            dist.broadcast(out, group=group, group_src=rank)
    return torch.cat(outs, dim)


def summed_part(x: Tensor, group: Any, dim: int, sizes: list[int] | None = None) -> Tensor:
    whole = total(x.clone(memory_format=torch.contiguous_format), group)
    return (whole.split(sizes, dim) if sizes else whole.chunk(group.size(), dim))[group.rank()].contiguous()


def swapped(x: Tensor, group: Any, sent: list[int] | None = None, received: list[int] | None = None) -> Tensor:
    out = x.new_empty(sum(received) if received else x.shape[0], *x.shape[1:])
    dist.all_to_all_single(out, x.contiguous(), received, sent, group=group)
    return out


def pair(forward: Callable[..., Tensor], backward: Callable[..., Tensor]) -> Maker:
    """An autograd function with this forward and this backward, each of (tensor, group)."""

    class Pair(torch.autograd.Function):
        @staticmethod
        def forward(ctx: Any, x: Tensor, group: Any) -> Tensor:
            ctx.group = group
            return forward(x, group)

        @staticmethod
        def backward(ctx: Any, grad: Tensor) -> Any:
            return backward(grad, ctx.group), None

    return Pair.apply  # type: ignore[no-any-return]


def sp2hp(x: Tensor, group: Any) -> Tensor:
    x = x.reshape(-1, x.shape[-1])
    return swap_both(torch.cat(x.split(x.shape[-1] // group.size(), 1)), group)


def hp2sp(x: Tensor, group: Any) -> Tensor:
    x = swap_both(x.reshape(-1, x.shape[-1]), group)
    return torch.cat(x.split(x.shape[0] // group.size()), -1)


swap_both = pair(swapped, swapped)
SENT, PARTS = ([1, 3], [2, 2]), [1, 3]


def dispatch(x: Tensor, group: Any) -> Tensor:
    sent = SENT[group.rank()]
    received = [rows[group.rank()] for rows in SENT]
    return pair(lambda x, g: swapped(x, g, sent, received), lambda x, g: swapped(x, g, received, sent))(x, group)


def our_dispatch(x: Tensor, group: Any) -> Tensor:
    return megatron.all_to_all(group, x, [rows[group.rank()] for rows in SENT], SENT[group.rank()])


def uneven_input(x: Tensor, group: Any) -> Tensor:
    return x[: PARTS[group.rank()]]


def gather_uneven(x: Tensor, group: Any) -> Tensor:
    forward = lambda x, g: joined(x, g, 0, PARTS)  # noqa: E731
    return pair(forward, lambda x, g: summed_part(x, g, 0, PARTS))(uneven_input(x, group), group)


def scatter_uneven(x: Tensor, group: Any) -> Tensor:
    return pair(lambda x, g: summed_part(x, g, 0, PARTS), lambda x, g: joined(x, g, 0, PARTS))(x, group)


M = megatron
CODE: dict[str, tuple[Maker, Maker]] = {
    "copy_to": (M.copy_to_tensor_model_parallel_region, pair(lambda x, g: x, lambda x, g: total(x.clone(), g))),
    "reduce_from": (M.reduce_from_tensor_model_parallel_region, pair(total, lambda x, g: x)),
    "scatter_to": (
        M.scatter_to_tensor_model_parallel_region,
        pair(lambda x, g: own(x, g, -1), lambda x, g: joined(x, g, -1)),
    ),
    "gather_from": (
        M.gather_from_tensor_model_parallel_region,
        pair(lambda x, g: joined(x, g, -1), lambda x, g: own(x, g, -1)),
    ),
    "scatter_to_sequence": (
        M.scatter_to_sequence_parallel_region,
        pair(lambda x, g: own(x, g, 0), lambda x, g: joined(x, g, 0)),
    ),
    "gather_from_sequence": (
        M.gather_from_sequence_parallel_region,
        pair(lambda x, g: joined(x, g, 0), lambda x, g: summed_part(x, g, 0)),
    ),
    "gather_from_sequence, duplicated": (
        lambda x, g: M.gather_from_sequence_parallel_region(x, False, g),
        pair(lambda x, g: joined(x, g, 0), lambda x, g: own(x, g, 0)),
    ),
    "gather_from_sequence, uneven": (
        lambda x, g: M.gather_from_sequence_parallel_region(
            uneven_input(x, g), group=g, output_split_sizes=PARTS, use_global_buffer=True
        ),
        gather_uneven,
    ),
    "reduce_scatter_to_sequence": (
        M.reduce_scatter_to_sequence_parallel_region,
        pair(lambda x, g: summed_part(x, g, 0), lambda x, g: joined(x, g, 0)),
    ),
    "reduce_scatter_to_sequence, uneven": (
        lambda x, g: M.reduce_scatter_to_sequence_parallel_region(x, g, PARTS),
        scatter_uneven,
    ),
    "all_gather_last_dim": (
        M.all_gather_last_dim_from_tensor_parallel_region,
        pair(lambda x, g: joined(x, g, -1), lambda x, g: summed_part(x, g, -1)),
    ),
    "reduce_scatter_last_dim": (
        M.reduce_scatter_last_dim_to_tensor_parallel_region,
        pair(lambda x, g: summed_part(x, g, -1), lambda x, g: joined(x, g, -1)),
    ),
    "all_to_all": (lambda x, g: M.all_to_all(g, x), swap_both),
    "all_to_all, uneven": (our_dispatch, dispatch),
    "all_to_all_sp2hp": (M.all_to_all_sp2hp, sp2hp),
    "all_to_all_hp2sp": (M.all_to_all_hp2sp, hp2sp),
}


def gather_by_default(x: Tensor, group: Any) -> Tensor:
    return M.gather_from_sequence_parallel_region(x, group=group)


CODE["gather_from_sequence"] = (gather_by_default, CODE["gather_from_sequence"][1])


def both_ways(call: Maker, group: Any, seed: int, dtype: torch.dtype) -> list[Tensor]:
    """Output, gradient and what became of the argument, in a graph with something before and after the call."""
    torch.manual_seed(seed + dist.get_rank())
    leaf = torch.randn(4, 3, 6, dtype=torch.float32).to(dtype).requires_grad_()
    x = leaf * 2
    y = call(x, group)
    (y * torch.randn_like(y)).sum().backward()
    assert leaf.grad is not None
    return [y.detach(), leaf.grad, x.detach()]


def compare() -> list[str]:
    world: Any = dist.group.WORLD
    wrong = []
    with spmd.bind(TP, world):
        for name, (ours, theirs) in CODE.items():
            for dtype in (torch.float32, torch.float64, torch.bfloat16):
                mine, code = both_ways(ours, world, 7, dtype), both_ways(theirs, world, 7, dtype)
                if not all(map(torch.equal, mine, code)):
                    wrong.append(f"{name} in {dtype}")
    return wrong


def test_each_mapping_equals_megatrons_code_bit_for_bit() -> None:
    assert run(compare, 2, timeout=120) == [[], []]


def by_default_and_alone() -> None:
    """group=None is the axis tp; a group of one rank returns the argument; a strided tensor is summed all the same."""
    x = torch.ones(2, 4)
    with spmd.bind(TP, dist.group.WORLD):
        assert megatron.reduce_from_tensor_model_parallel_region(x) is x
        assert x.eq(2).all()
        strided = torch.ones(4, 2).t()
        assert megatron.reduce_from_tensor_model_parallel_region(strided).eq(2).all()
        assert strided.eq(1).all()
        weight = torch.ones(3, requires_grad=True)
        megatron.copy_to_tensor_model_parallel_region(weight).sum().backward()  # an expanded gradient
        assert weight.grad is not None
        assert weight.grad.eq(2).all()
    alone: Any = dist.new_group([dist.get_rank()], use_local_synchronization=True)
    for name, (ours, _) in CODE.items():
        if "uneven" not in name and "all_to_all_" not in name:
            assert ours(x, alone) is x, name


def test_defaults_and_groups_of_one() -> None:
    run(by_default_and_alone, 2)


def test_names_arguments_and_defaults_are_megatrons() -> None:
    one = ["input_", "group=None"]
    spelled = {
        "gather_from_sequence_parallel_region": [
            "input_", "tensor_parallel_output_grad=True", "group=None", "output_split_sizes=None",
            "use_global_buffer=False",
        ],
        "reduce_scatter_to_sequence_parallel_region": [
            "input_", "group=None", "input_split_sizes=None", "use_global_buffer=False",
        ],
        "all_to_all": ["group", "input_", "output_split_sizes_=None", "input_split_sizes=None"],
    }  # fmt: skip
    names = [name for name, value in vars(megatron).items() if inspect.isfunction(value) and not name.startswith("_")]
    ours = [name for name in names if getattr(megatron, name).__module__ == megatron.__name__]
    assert len(ours) == 12
    for name in ours:
        parameters = inspect.signature(getattr(megatron, name)).parameters.values()
        got = [p.name if p.default is p.empty else f"{p.name}={p.default}" for p in parameters]
        assert got == spelled.get(name, one)
