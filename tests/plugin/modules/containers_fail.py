"""What goes through a container is what each element takes and gives."""

from __future__ import annotations

import torch.nn.functional as F
from torch import nn

from spmd_runtime import TP, I, P, Parameter, R, Tensor, V, all_reduce, convert


class Block(nn.Module):
    def forward(self, x: Tensor[R[TP]]) -> Tensor[R[TP]]:
        return x


class Split(nn.Module):
    def forward(self, x: Tensor[R[TP]]) -> Tensor[P[TP]]:
        return convert(x, TP, src=R, dst=P)


class Join(nn.Module):
    def forward(self, x: Tensor[P[TP]]) -> Tensor[R[TP]]:
        return all_reduce(x, TP, dst=R)


class Open(nn.Module):
    layers: nn.ModuleList

    def __init__(self) -> None:
        super().__init__()
        self.layers = nn.ModuleList([Split() for _ in range(2)])

    def forward(self, x: Tensor[R[TP]]) -> Tensor[R[TP]]:
        for layer in self.layers:
            layer(F.relu(layer(x)))  # E: spmd-partial
        return self.layers[0](x)  # E: spmd-return


class Holder(nn.Module):
    declared: nn.ModuleList[Block]

    def __init__(self) -> None:
        super().__init__()
        self.blocks = nn.ModuleList([Block() for _ in range(3)])
        self.declared = nn.ModuleList([Block(), Block()])
        self.pair = nn.ModuleList([Split(), Join()])
        self.splits = nn.ModuleList()
        for _ in range(2):
            self.splits.append(Split())
        self.sequence = nn.Sequential(Block(), Split(), Join())
        self.wrong_order = nn.Sequential(Split(), Block(), Join())
        self.repeated = nn.Sequential(*[Split() for _ in range(3)])
        self.named = nn.ModuleDict({"split": Split(), "join": Join()})
        self.equal = nn.ModuleDict({"a": Block(), "b": Block()})

    def lists(self, x: Tensor[R[TP]], p: Tensor[P[TP]]) -> None:
        self.blocks[0](p)  # E: spmd-arg
        self.blocks[0:2][0](p)  # E: spmd-arg
        self.declared[1](p)  # E: spmd-arg
        self.pair[0](self.pair[0](x))  # E: spmd-arg
        self.pair[1](x)  # E: spmd-arg
        for layer in self.blocks:
            layer(p)  # E: spmd-arg
        for i, layer in enumerate(self.blocks):
            layer(p)  # E: spmd-arg
        for one, two in zip(self.blocks, self.splits, strict=True):
            one(two(x))  # E: spmd-arg
        for layer in reversed(self.blocks):
            layer(p)  # E: spmd-arg
        [layer(p) for layer in self.blocks]  # E: spmd-arg
        for split in self.splits:
            F.relu(split(x))  # E: spmd-partial

    def looped(self, x: Tensor[R[TP]]) -> Tensor[R[TP]]:
        for split in self.splits:
            x = split(x)  # E: spmd-arg
        return x  # E: spmd-return

    def sequences(self, x: Tensor[R[TP]], p: Tensor[P[TP]]) -> None:
        self.sequence(p)  # E: spmd-arg
        self.wrong_order(x)  # E: spmd-arg
        self.repeated(x)  # E: spmd-arg
        F.relu(self.sequence[:2](x))  # E: spmd-partial
        self.sequence[2](x)  # E: spmd-arg

    def dicts(self, x: Tensor[R[TP]], p: Tensor[P[TP]], key: str) -> None:
        self.named["join"](x)  # E: spmd-arg
        self.equal[key](p)  # E: spmd-arg
        for name, layer in self.equal.items():
            layer(p)  # E: spmd-arg
        for layer in self.equal.values():
            layer(p)  # E: spmd-arg


class Weights(nn.Module):
    declared: nn.ParameterList[Parameter[I[TP]]]

    def __init__(self, w: Parameter[V[TP]], norm: Parameter[I[TP]]) -> None:
        super().__init__()
        self.equal = nn.ParameterList([w, w])
        self.named = nn.ParameterDict({"w": w, "norm": norm})

    def forward(self, v: Tensor[V[TP]], p: Tensor[P[TP]]) -> None:
        p * self.equal[0]  # E: spmd-mix
        for w in self.equal:
            p * w  # E: spmd-mix
        for norm in self.declared:
            v * norm  # E: spmd-mix
        v * self.named["norm"]  # E: spmd-mix
        for parameter in self.named.values():
            v * parameter  # E: spmd-mix


def passed(layers: nn.ModuleList[Block], x: Tensor[R[TP]]) -> Tensor[R[TP]]:
    for layer in layers:
        x = layer(x)
    return x


def handed_on(holder: Holder, x: Tensor[R[TP]]) -> None:
    passed(holder.splits, x)  # E: arg-type
    wrong: nn.ModuleList[int] = nn.ModuleList()  # E: type-var, assignment
