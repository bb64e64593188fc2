"""Containers of modules and parameters keep what they hold."""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Iterator

import torch
import torch.nn.functional as F
from torch import nn
from typing_extensions import assert_type

from spmd_runtime import TP, I, P, Parameter, R, Tensor, V, all_reduce, convert


class Block(nn.Module):
    def __init__(self, scale: float = 1.0) -> None:
        super().__init__()
        self.scale = scale

    def forward(self, x: Tensor[R[TP]]) -> Tensor[R[TP]]:
        return x * self.scale


class Taller(Block):
    pass


class Split(nn.Module):
    def forward(self, x: Tensor[R[TP]]) -> Tensor[P[TP]]:
        return convert(x, TP, src=R, dst=P)


class Join(nn.Module):
    def forward(self, x: Tensor[P[TP]]) -> Tensor[R[TP]]:
        return all_reduce(x, TP, dst=R)


class Plain(nn.Module):
    def forward(self, x):  # type: ignore[no-untyped-def]
        return x


def make(count: int) -> list[Block]:
    return [Block() for _ in range(count)]


class Holder(nn.Module):
    declared: nn.ModuleList[Block]

    def __init__(self, deep: bool = True) -> None:
        super().__init__()
        self.comprehended = nn.ModuleList([Block() for _ in range(3)])
        self.generated = nn.ModuleList(Block() for _ in range(3))
        self.multiplied = nn.ModuleList([Block()] * 3)
        self.added = nn.ModuleList([Block()] + [Taller() for _ in range(2)])
        self.starred = nn.ModuleList([Block(), *make(2)])
        self.made = nn.ModuleList(make(3))
        self.declared = nn.ModuleList(make(2))
        self.pair = nn.ModuleList([Split(), Join()])
        self.chosen = nn.ModuleList([Block() if deep else Taller()])
        self.appended = nn.ModuleList()
        for _ in range(3):
            self.appended.append(Block())
        self.through_name = nn.ModuleList()
        for i in range(3):
            block = Block(float(i)) if deep else Taller()
            self.through_name.append(block)
        self.extended = nn.ModuleList([Block()])
        self.extended.extend([Block() for _ in range(2)])
        self.summed = nn.ModuleList()
        self.summed += [Block(), Block()]
        blocks = []
        for _ in range(3):
            blocks.append(Block())
        self.listed = nn.ModuleList(blocks)
        self.sequence = nn.Sequential(Block(), Split(), Join())
        self.repeated = nn.Sequential(*[Block() for _ in range(3)])
        self.spread = nn.Sequential(*blocks)
        self.ordered = nn.Sequential(OrderedDict([("split", Split()), ("join", Join())]))
        self.named = nn.ModuleDict({"split": Split(), "join": Join()})
        self.equal = nn.ModuleDict({"a": Block(), "b": Block()})
        self.filled = nn.ModuleDict()
        for key in ("a", "b"):
            self.filled[key] = Block()
        self.by_key = nn.ModuleDict({str(i): Block() for i in range(2)})
        self.mixed = nn.ModuleList([Block(), Plain()])
        self.popped = nn.ModuleList([Split(), Join()])
        self.popped.pop(0)
        self.odd = nn.ModuleList()
        for some in [Block()]:
            self.odd.append(some)

    def lists(self, x: Tensor[R[TP]]) -> None:
        for layers in (self.comprehended, self.generated, self.multiplied, self.made, self.listed):
            assert_type(layers[0](x), Tensor[R[TP]])
        assert_type(self.added[-1](x), Tensor[R[TP]])
        assert_type(self.starred[1](x), Tensor[R[TP]])
        assert_type(self.declared[0](x), Tensor[R[TP]])
        assert_type(self.chosen[0](x), Tensor[R[TP]])
        for layer in self.appended:
            assert_type(layer(x), Tensor[R[TP]])
        for layer in self.through_name:
            assert_type(layer(x), Tensor[R[TP]])
        for layer in self.extended:
            assert_type(layer(x), Tensor[R[TP]])
        for layer in self.summed:
            assert_type(layer(x), Tensor[R[TP]])
        assert_type(self.pair[0](x), Tensor[P[TP]])
        assert_type(self.pair[1](self.pair[0](x)), Tensor[R[TP]])
        assert_type(self.pair[-1](self.pair[-2](x)), Tensor[R[TP]])
        assert_type(self.pair[1:][0](self.pair[0](x)), Tensor[R[TP]])
        split, join = self.pair
        join(split(x))  # of unknown type, both: a loop or an unpacking cannot tell them apart

    def ways_in(self, x: Tensor[R[TP]]) -> Tensor[R[TP]]:
        for i, layer in enumerate(self.comprehended):
            assert_type(layer(x), Tensor[R[TP]])
            assert_type(self.comprehended[i](x), Tensor[R[TP]])
        for one, two in zip(self.comprehended, self.made, strict=True):
            x = two(one(x))
        for layer in self.comprehended[1:]:
            x = layer(x)
        for layer in reversed(self.made):
            x = layer(x)
        for layer in list(self.made):
            x = layer(x)
        for layer in self.blocks():
            x = layer(x)
        x = [layer(x) for layer in self.made][-1]
        x = next(iter(self.made))(x)
        assert_type(x, Tensor[R[TP]])
        return x

    def blocks(self) -> Iterator[Block]:
        yield from self.comprehended

    def sequences(self, x: Tensor[R[TP]]) -> None:
        assert_type(self.sequence(x), Tensor[R[TP]])
        assert_type(self.repeated(x), Tensor[R[TP]])
        assert_type(self.spread(x), Tensor[R[TP]])
        assert_type(self.ordered(x), Tensor[R[TP]])
        assert_type(self.sequence[1](x), Tensor[P[TP]])
        assert_type(self.sequence[:2](x), Tensor[P[TP]])
        assert_type(self.sequence[1:](x), Tensor[R[TP]])
        assert_type(nn.Sequential(self.sequence, Split())(x), Tensor[P[TP]])
        for layer in self.repeated:
            assert_type(layer(x), Tensor[R[TP]])
        for anything in self.sequence:
            anything(x)

    def dicts(self, x: Tensor[R[TP]], which: str, key: str) -> None:
        assert_type(self.named["join"](self.named["split"](x)), Tensor[R[TP]])
        self.named[which](x)
        for layer in self.named.values():
            layer(x)
        assert_type(self.equal[key](x), Tensor[R[TP]])
        assert_type(self.filled[key](x), Tensor[R[TP]])
        assert_type(self.by_key["0"](x), Tensor[R[TP]])
        for name, layer in self.equal.items():
            assert_type(layer(x), Tensor[R[TP]])
            assert_type(name, str)
        for layer in self.filled.values():
            assert_type(layer(x), Tensor[R[TP]])
        for name in self.equal:
            assert_type(self.equal[name](x), Tensor[R[TP]])
        for name in self.equal.keys():
            self.equal[name](x)

    def shortened(self, x: Tensor[R[TP]], p: Tensor[P[TP]]) -> None:
        self.popped[0](p)  # Split has gone: of what is first now, nothing is said
        for layer in self.popped:
            layer(x)

    def unknown(self, p: Tensor[P[TP]]) -> None:
        for layer in self.mixed:
            F.gelu(layer(p))
        for layer in self.odd:
            layer(p)


class Weights(nn.Module):
    declared: nn.ParameterList[Parameter[V[TP]]]

    def __init__(self, w: Parameter[V[TP]], norm: Parameter[I[TP]]) -> None:
        super().__init__()
        self.equal = nn.ParameterList([w, w])
        self.declared = nn.ParameterList([nn.Parameter(torch.ones(2)) for _ in range(2)])
        self.named = nn.ParameterDict({"w": w, "norm": norm})
        self.untyped = nn.ParameterList([nn.Parameter(torch.ones(2))])

    def forward(self, r: Tensor[R[TP]], i: Tensor[I[TP]]) -> None:
        assert_type(r * self.equal[0], Tensor[V[TP]])
        for w in self.declared:
            assert_type(r * w, Tensor[V[TP]])
        for n, w in enumerate(self.equal):
            assert_type(r * w, Tensor[V[TP]])
        assert_type(r * self.named["w"], Tensor[V[TP]])
        assert_type(i * self.named["norm"], Tensor[I[TP]])
        for name, parameter in self.named.items():
            assert_type(name, str)
            parameter.numel()
        r * self.untyped[0]


class Stack(nn.ModuleList):
    """A subclass says nothing of its elements."""

    def forward(self, x: Tensor[R[TP]]) -> Tensor[R[TP]]:
        for layer in self:
            x = layer(x)
        return x


class Declared(nn.Module):
    """What is declared to be a container holds what the class puts there."""

    layers: nn.ModuleList
    stages: nn.Sequential
    table: nn.ModuleDict
    mixed: nn.ModuleList
    given: nn.ModuleList

    def __init__(self, count: int, given: nn.ModuleList) -> None:
        super().__init__()
        self.layers = nn.ModuleList([Block() for _ in range(count)])
        self.stages = nn.Sequential(Block(), Block())
        self.table = nn.ModuleDict({"a": Block()})
        self.mixed = nn.ModuleList([Block(), nn.Identity()])
        self.given = given
        self.annotated: nn.ModuleList = nn.ModuleList()
        for _ in range(count):
            self.annotated.append(Block())

    def forward(self, x: Tensor[R[TP]]) -> Tensor[R[TP]]:
        for layer in self.layers:
            assert_type(layer, Block)
            x = layer(x)
        for layer in self.annotated:
            assert_type(layer, Block)
        assert_type(self.stages(x), Tensor[R[TP]])
        assert_type(self.table["a"](x), Tensor[R[TP]])
        for any_layer in self.mixed:
            any_layer(x)
        return self.layers[0](x)


def refilled(model: Declared, holder: Holder) -> None:
    """Nobody has declared of what a container is, so that others may be put there."""
    model.layers = nn.ModuleList(list(model.layers)[:1])
    model.layers = nn.ModuleList([nn.Identity()])
    model.layers.append(nn.Identity())
    model.table["b"] = nn.Identity()
    holder.comprehended = nn.ModuleList([nn.Identity()])


def passed(layers: nn.ModuleList[Block], x: Tensor[R[TP]]) -> Tensor[R[TP]]:
    for layer in layers:
        x = layer(x)
    return x


def handed_on(holder: Holder, x: Tensor[R[TP]], any_list: nn.ModuleList) -> None:
    assert_type(passed(holder.comprehended, x), Tensor[R[TP]])
    assert_type(passed(holder.added, x), Tensor[R[TP]])
    passed(nn.ModuleList([Block()]), x)
    for layer in any_list:
        layer(x)


def main() -> None:
    x = torch.randn(3)
    holder = Holder()
    holder.lists(x)
    assert torch.equal(holder.ways_in(x), x)
    holder.sequences(x)
    holder.dicts(x, "split", "a")
    holder.shortened(x, x)
    holder.unknown(x)
    Weights(nn.Parameter(torch.ones(2)), nn.Parameter(torch.ones(2)))(torch.ones(2), torch.ones(2))
    assert torch.equal(Stack([Block()])(x), x)
    declared = Declared(2, nn.ModuleList([nn.Identity()]))
    declared(x)
    refilled(declared, holder)
    handed_on(Holder(), x, nn.ModuleList([Block()]))
