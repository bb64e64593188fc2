"""Steps that no graph can hold or that differ between ranks, each with the line that is to blame marked ``# here``."""

from __future__ import annotations

import os
import random
from typing import Any

import torch
import torch.distributed as dist
import torch.nn.functional as F
from torch import nn

from spmd_runtime import DP, TP, I, P, R, all_reduce, axis_index, axis_size

ROWS = 8
history: list[Any] = []
calls = 0


@torch.library.custom_op("spmd_faulty::no_fake", mutates_args=())
def _no_fake(x: torch.Tensor) -> torch.Tensor:
    return x + 1


def embed(rank: int, table: torch.Tensor, ids: torch.Tensor) -> torch.Tensor:
    local = ids - rank * ROWS  # here: offset
    ours = (local >= 0) & (local < ROWS)
    found = F.embedding(local.clamp(0, ROWS - 1), table) * ours.unsqueeze(-1)
    return all_reduce(found, TP, src=P, dst=I)


def offset(table: torch.Tensor, ids: torch.Tensor) -> torch.Tensor:
    return embed(dist.get_rank() % axis_size(TP), table, ids).sum()


def offset_as_tensor(table: torch.Tensor, ids: torch.Tensor) -> torch.Tensor:
    local = ids - axis_index(TP) * ROWS
    ours = (local >= 0) & (local < ROWS)
    found = F.embedding(local.clamp(0, ROWS - 1), table) * ours.unsqueeze(-1)
    return all_reduce(found, TP, src=P, dst=I).sum()


class Scale(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, x: torch.Tensor) -> torch.Tensor:
        return x * 2

    @staticmethod
    def backward(ctx: Any, grad: torch.Tensor) -> torch.Tensor:
        return grad * (2 + dist.get_rank())  # here: own_backward


def own_backward(w: torch.Tensor) -> torch.Tensor:
    return torch.autograd.grad(Scale.apply(w).sum(), w)[0]  # type: ignore[no-untyped-call]


def torch_backward(w: torch.Tensor) -> torch.Tensor:
    y = w ** (2 + dist.get_rank())  # here: torch_backward
    return torch.autograd.grad(y.sum(), w)[0]


def branch(w: torch.Tensor) -> torch.Tensor:
    if dist.get_rank() == 0:
        w = w * 2
    return all_reduce(w, TP, src=P, dst=R)  # here: branch


def literal(w: torch.Tensor) -> torch.Tensor:
    return w * torch.tensor([1.0, float(dist.get_rank()), 3.0, 4.0])  # here: literal


def returned_number(w: torch.Tensor) -> Any:
    return w + 1, dist.get_rank()


def item(w: torch.Tensor) -> torch.Tensor:
    scale = w.sum().item()  # here: item
    return w * scale


def truth(w: torch.Tensor) -> torch.Tensor:
    if (w > 0).all():  # here: truth
        return w * 2
    return w


def nonzero(w: torch.Tensor) -> torch.Tensor:
    return w[w > 0].sum()  # here: nonzero


def to_numpy(w: torch.Tensor) -> torch.Tensor:
    return w * float(w.detach().numpy().mean())  # here: to_numpy


def no_fake(w: torch.Tensor) -> torch.Tensor:
    return torch.ops.spmd_faulty.no_fake(w)  # type: ignore[no-any-return]  # here: no_fake


def append(w: torch.Tensor) -> torch.Tensor:
    history.append(1)
    return w * 2


def count(w: torch.Tensor) -> torch.Tensor:
    global calls  # noqa: PLW0603
    calls += 1
    return w * 2


class Counting(nn.Module):
    """Counts its calls in an attribute."""

    def __init__(self) -> None:
        super().__init__()
        self.weight = nn.Parameter(torch.ones(4))
        self.seen = 0

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        self.seen += 1
        return x * self.weight


outside = torch.arange(4.0)


def closure(w: torch.Tensor) -> torch.Tensor:
    return w * outside  # here: closure


def backward_only(w: torch.Tensor) -> torch.Tensor:
    loss = (w * w).sum()
    torch.autograd.backward(loss)
    return loss.detach()


def backward_returned(w: torch.Tensor) -> Any:
    loss = (w * w).sum()
    torch.autograd.backward(loss)
    return loss.detach(), w.grad


def raw_collective(w: torch.Tensor) -> torch.Tensor:
    w = w.clone()
    dist.all_reduce(w)  # here: raw_collective
    return w


def world_group(w: torch.Tensor) -> torch.Tensor:
    found = torch.ops._c10d_functional.all_reduce(w, "sum", dist.group.WORLD.group_name)  # type: ignore[union-attr]  # here: world_group
    return torch.ops._c10d_functional.wait_tensor(found)  # type: ignore[no-any-return]


def reduced(w: torch.Tensor) -> torch.Tensor:
    return all_reduce(w, DP, src=P, dst=R)


def no_axis(w: torch.Tensor) -> torch.Tensor:
    return all_reduce(w, "cp", src=P, dst=R)  # here: no_axis


def environment(w: torch.Tensor) -> torch.Tensor:
    return w * int(os.environ["RANK"])  # here: environment


def python_random(w: torch.Tensor) -> torch.Tensor:
    return w * random.random()  # here: python_random


remembered: dict[str, torch.Tensor] = {}


def memo(w: torch.Tensor) -> torch.Tensor:
    if "w" not in remembered:
        remembered["w"] = w * 2
    return w + remembered["w"]  # here: memo


factor = torch.tensor(3.0)


def number(w: torch.Tensor) -> torch.Tensor:
    return w * factor  # here: number


def own_generator(w: torch.Tensor) -> torch.Tensor:
    generator = torch.Generator().manual_seed(1)
    return w + torch.randn(4, generator=generator)  # here: own_generator


def seeding(w: torch.Tensor) -> torch.Tensor:
    torch.manual_seed(0)  # here: seeding
    return w + torch.randn(4)


def users_error(w: torch.Tensor) -> torch.Tensor:
    raise ValueError("too bad")  # here: users_error


class Keeping:
    """Keeps its last result, and calls itself something other than self."""

    def __call__(this, w: torch.Tensor) -> torch.Tensor:  # noqa: N805
        this.last = w * 2
        return this.last


class Tied(nn.Module):
    """Embedding and head are one parameter."""

    def __init__(self) -> None:
        super().__init__()
        self.embedding = nn.Embedding(8, 4)
        self.head = nn.Linear(4, 8, bias=False)
        self.head.weight = self.embedding.weight

    def loss(self, ids: torch.Tensor) -> Any:
        loss = F.cross_entropy(self.head(self.embedding(ids)), ids)
        return loss.detach(), torch.autograd.grad(loss, list(self.parameters()))


def no_tensor(w: torch.Tensor) -> Any:
    return None


def fixed_length(x: torch.Tensor) -> torch.Tensor:
    if x.shape[0] > 4:  # here: fixed_length
        return x * 2
    return x
