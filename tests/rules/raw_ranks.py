"""What torch's own collectives do, found out on ranks: values, and whether and how a gradient comes back."""

from __future__ import annotations

import warnings
from collections.abc import Callable
from typing import Any

import torch
import torch.distributed as dist
import torch.distributed._functional_collectives as functional
import torch.distributed.nn.functional
from torch.distributed import distributed_c10d as c10d

from spmd_mypy.rules.raw import C10D, FUNCTIONAL, NN, ROWS

# Reductions that gloo has.
REDUCTIONS = ("sum", "max", "min", "product")
nn: Any = torch.distributed.nn.functional  # untyped
Tensor = torch.Tensor
Call = Callable[[Tensor, str], Tensor]


def op(name: str) -> Any:
    """The reduction as ``torch.distributed`` has it."""
    return getattr(dist.ReduceOp, name.upper())


def n() -> int:
    """The number of ranks."""
    return dist.get_world_size()


def world() -> Any:
    """The group of all ranks."""
    return dist.group.WORLD


def part(x: Tensor) -> Tensor:
    """Room for one rank's part of ``x``."""
    return x.new_zeros(x.shape[0] // n(), *x.shape[1:])


def whole(x: Tensor) -> Tensor:
    """Room for all ranks' ``x``, joined."""
    return x.new_zeros(x.shape[0] * n(), *x.shape[1:])


def written(call: Callable[[Tensor, Tensor], object], room: Callable[[Tensor], Tensor]) -> Call:
    """A call that writes into a buffer, as a function of its input."""

    def made(x: Tensor, _: str) -> Tensor:
        out = room(x)
        call(out, x)
        return out

    return made


def in_place(call: Callable[[Tensor, str], object]) -> Call:
    """A call in place, as a function of its input."""

    def made(x: Tensor, reduction: str) -> Tensor:
        y = x.clone()
        call(y, reduction)
        return y

    return made


def listed(call: Callable[[list[Tensor], Tensor], object]) -> Call:
    """A call that writes into a list, joined."""

    def made(x: Tensor, _: str) -> Tensor:
        out = [torch.zeros_like(x) for _ in range(n())]
        call(out, x)
        return torch.cat(out)

    return made


def scattered(call: Callable[[Tensor, Tensor, str], object]) -> Call:
    """A reduction that leaves each rank its part."""

    def made(x: Tensor, reduction: str) -> Tensor:
        out = part(x)
        call(out, x, reduction)
        return out

    return made


def exchanged(x: Tensor, _: str) -> Tensor:
    """The list form of all_to_all, which gloo has by single sends."""
    out = [torch.zeros_like(p) for p in x.chunk(n())]
    dist.all_to_all(out, list(x.chunk(n())))
    return torch.cat(out)


CALLS: dict[str, Call] = {
    f"{C10D}.all_reduce": in_place(lambda x, r: dist.all_reduce(x, op(r))),
    f"{C10D}.all_reduce_coalesced": in_place(lambda x, r: dist.all_reduce_coalesced([x], op(r))),
    f"{C10D}.broadcast": in_place(lambda x, _: dist.broadcast(x, 0)),
    f"{C10D}.all_gather": listed(dist.all_gather),
    f"{C10D}.all_gather_into_tensor": written(dist.all_gather_into_tensor, whole),
    f"{C10D}._all_gather_base": written(c10d._all_gather_base, whole),
    f"{C10D}.reduce_scatter": scattered(lambda out, x, r: dist.reduce_scatter(out, list(x.chunk(n())), op(r))),
    f"{C10D}.reduce_scatter_tensor": scattered(lambda out, x, r: dist.reduce_scatter_tensor(out, x, op(r))),
    f"{C10D}._reduce_scatter_base": scattered(lambda out, x, r: c10d._reduce_scatter_base(out, x, op(r))),
    f"{C10D}.all_to_all": exchanged,
    f"{C10D}.all_to_all_single": written(dist.all_to_all_single, torch.zeros_like),
    f"{FUNCTIONAL}.all_reduce": lambda x, r: functional.all_reduce(x, r, world()),
    f"{FUNCTIONAL}.all_reduce_coalesced": lambda x, r: functional.all_reduce_coalesced([x], r, world())[0],
    f"{FUNCTIONAL}.broadcast": lambda x, _: functional.broadcast(x, 0, world()),
    f"{FUNCTIONAL}.all_gather_tensor": lambda x, _: functional.all_gather_tensor(x, 0, world()),
    f"{FUNCTIONAL}.all_gather_tensor_autograd": lambda x, _: functional.all_gather_tensor_autograd(x, 0, world()),
    f"{FUNCTIONAL}.reduce_scatter_tensor": lambda x, r: functional.reduce_scatter_tensor(x, r, 0, world()),
    f"{FUNCTIONAL}.all_to_all_single": lambda x, _: functional.all_to_all_single(x, None, None, world()),
    f"{FUNCTIONAL}.all_gather_into_tensor_coalesced": (
        lambda x, _: functional.all_gather_into_tensor_coalesced([x], world())[0]
    ),
    f"{FUNCTIONAL}.reduce_scatter_tensor_coalesced": (
        lambda x, r: functional.reduce_scatter_tensor_coalesced([x], r, [0], world())[0]
    ),
    f"{FUNCTIONAL}.permute_tensor": (
        lambda x, _: functional.permute_tensor(x.flatten(), [(r + 1) % n() for r in range(n())], world())
    ),
    f"{NN}.all_reduce": lambda x, r: nn.all_reduce(x, op(r), world()),
    f"{NN}.broadcast": lambda x, _: nn.broadcast(x, 0, world()),
    f"{NN}.all_gather": lambda x, _: torch.cat(tuple(nn.all_gather(x, world()))),
    f"{NN}.reduce_scatter": lambda x, r: nn.reduce_scatter(part(x), list(x.chunk(n())), op(r), world()),
    f"{NN}.all_to_all_single": lambda x, _: nn.all_to_all_single(torch.zeros_like(x), x, group=world()),
}  # fmt: skip
# Names for one function, and forms that this backend does not run or that only tracing calls.
NOT_CALLED = {
    *(f"{C10D}.{name}" for name in ("all_gather_single", "reduce_scatter_single")),  # since torch 2.13
    f"{C10D}.all_gather_coalesced",  # gloo wants other lists than the documentation says
    *(
        f"{C10D}.{name}" for name in ("reduce", "scatter", "gather", "send", "isend", "recv", "irecv")
    ),  # not to all ranks
    *(full for full in ROWS if full.endswith(("_inplace", "_single_coalesced", "wait_tensor"))),
    *(
        f"{FUNCTIONAL}.{name}_single{suffix}"
        for name in ("all_gather", "reduce_scatter")
        for suffix in ("", "_autograd")
    ),
    *(f"{FUNCTIONAL}.{name}_autograd" for name in ("reduce_scatter_tensor", "all_to_all_single")),
    *(f"{NN}.{name}" for name in ("reduce", "gather", "scatter", "all_to_all", "_all_gather_base")),
}


def own(*shape: int) -> Tensor:
    """This rank's numbers: other ones on every rank."""
    start = 1.0 + dist.get_rank() * 0.5
    return torch.arange(start, start + torch.Size(shape).numel(), dtype=torch.float64).reshape(shape)


def every(x: Tensor) -> Tensor:
    """All ranks' ``x``, stacked."""
    parts = [torch.empty_like(x) for _ in range(n())]
    dist.all_gather(parts, x.detach().contiguous())
    return torch.stack(parts)


def _quietly(look: Callable[[str, Call], bool], actions: tuple[str, ...] = ()) -> dict[str, bool]:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        return {full: look(full, call) for full, call in CALLS.items() if not actions or ROWS[full].action in actions}


def equal(reduction: str) -> dict[str, bool]:
    """Per function: whether all ranks get one value."""

    def look(_: str, call: Call) -> bool:
        found = every(call(own(2 * n(), 3), reduction))
        return all(torch.equal(one, found[0]) for one in found)

    return _quietly(look)


def sums(reduction: str) -> dict[str, bool]:
    """Per reducing function: whether it gives the sum of what the ranks put in."""

    def look(full: str, call: Call) -> bool:
        x = own(2 * n(), 3)
        total, result = every(x).sum(0), call(x, reduction)
        return torch.equal(result, total if result.shape == total.shape else total.chunk(n())[dist.get_rank()])

    return _quietly(look, ("all_reduce", "reduce_scatter"))


def gradients() -> dict[str, bool]:
    """Per function that returns its result: whether the gradient is that of the sum over ranks of what comes out,
    weighed rank by rank.  What works in place autograd does not see, or refuses.
    """
    return _quietly(_gradient)


def _gradient(full: str, call: Call) -> bool:
    if full.startswith(C10D):
        return False
    x = own(2 * n(), 1).requires_grad_()
    out = call(x, "sum")
    weights = own(*out.shape)
    expected = torch.zeros_like(x)
    for rank in range(n()):  # the calls are linear: what comes out of a unit is a column of their matrix
        for at in range(x.numel()):
            unit = torch.zeros_like(x, requires_grad=False)
            unit.view(-1)[at] = float(dist.get_rank() == rank)
            column = (call(unit, "sum").detach() * weights).sum()
            dist.all_reduce(column)
            if dist.get_rank() == rank:
                expected.view(-1)[at] = column
    try:
        torch.autograd.backward((out * weights).sum())
    except RuntimeError:  # no backward
        return False
    return x.grad is not None and torch.allclose(x.grad, expected)
