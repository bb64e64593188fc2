"""assert_type, mutate_type: said of a tensor, checked where it is known; broadcast, shift, all_reduce in place."""

from __future__ import annotations

import torch
from typing_extensions import assert_type as same_type

from spmd_runtime import (
    CP,
    DP,
    TP,
    Group,
    I,
    P,
    R,
    S,
    Tensor,
    V,
    all_reduce,
    assert_type,
    broadcast,
    mutate_type,
    shift,
)


def declares(x: torch.Tensor) -> Tensor[V[DP], R[TP]]:
    assert_type(x, {TP: R, "dp": V})
    same_type(x, Tensor[V[DP], R[TP]])
    return x


def returns(x: torch.Tensor) -> Tensor[R[TP]]:
    return assert_type(x.clone(), {TP: R})


def confirms(x: Tensor[V[DP], R[TP]]) -> Tensor[V[DP], R[TP]]:
    return assert_type(x, {TP: R})


def refines(x: Tensor[V[TP]]) -> Tensor[S[TP, 0]]:
    assert_type(x, {TP: S(0)})
    return x


def keeps_a_shard(x: Tensor[S[TP, 0]]) -> Tensor[S[TP, 0]]:
    return assert_type(x, {TP: V})


def says_summands(x: Tensor[V[TP]]) -> Tensor[P[TP]]:
    return assert_type(x, {TP: P})


def of_a_constant() -> Tensor[V[DP], I[TP]]:
    return assert_type(torch.zeros(2), {TP: I, DP: V})


def mutates(x: Tensor[P[TP]]) -> Tensor[R[TP]]:
    mutate_type(x, TP, src=P, dst=R)
    return x.sqrt()


def mutates_several(x: Tensor[V[DP], P[TP]]) -> Tensor[R[DP], R[TP]]:
    return mutate_type(x, src={DP: V, TP: P}, dst={DP: R, TP: R})


def mutates_a_shard(x: Tensor[S[TP, 1]]) -> Tensor[R[TP]]:
    return mutate_type(x, "tp", src=V, dst=R)


def sent_from_one(x: Tensor[V[DP], V[TP]]) -> Tensor[V[DP], R[TP]]:
    y = broadcast(x, TP, dst=R)
    same_type(y, Tensor[V[DP], R[TP]])
    return y


def sent_from_one_as_one(x: Tensor[S[TP, 0]]) -> Tensor[I[TP]]:
    return broadcast(x, "tp", root=0, dst=I)


def shifted(x: Tensor[V[TP]], y: Tensor[S[TP, 1]]) -> tuple[Tensor[V[TP]], Tensor[S[TP, 1]]]:
    return shift(x, TP), shift(y, TP, offset=-1)


def in_place(x: Tensor[P[TP]]) -> Tensor[R[TP]]:
    y = x.clone()
    all_reduce(y, TP, dst=R, inplace=True)
    return y.sqrt()


def given(x: torch.Tensor) -> torch.Tensor:
    return x


def main() -> None:
    from spmd_runtime.mesh import lookup

    n = lookup(TP).size
    x = given(torch.full((2,), 4.0))
    for function in (declares, returns, confirms, refines, keeps_a_shard, says_summands):
        assert function(x).tolist() == x.tolist()  # type: ignore[spmd-escape]
    assert of_a_constant().sum() == 0
    assert torch.equal(mutates(x), x.sqrt())
    assert mutates_several(x) is x and mutates_a_shard(x) is x
    rank = given(torch.full((2,), float(lookup(TP).rank)))
    assert torch.equal(sent_from_one(rank), torch.zeros(2)) and torch.equal(sent_from_one_as_one(rank), torch.zeros(2))
    assert float(shifted(rank, rank)[0][0]) == float((lookup(TP).rank - 1) % n)
    assert torch.equal(in_place(x), (x * n).sqrt())
