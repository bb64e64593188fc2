"""Where ranks compare what they are about to do: through the store of the axis's group, by the number of the call."""

from __future__ import annotations

import contextlib
import json
import os
import threading
import time
from dataclasses import asdict, dataclass
from typing import Any, Final

import torch
import torch.distributed as dist
from torch import Tensor

from spmd_runtime.mesh import Bound

_POLL: Final = 0.002
_GRACE: Final = 1.0
_numbers: dict[str, tuple[Any, int]] = {}  # by group: the world it belongs to, and the last call's number
_lock = threading.Lock()


class Disagreement(RuntimeError):
    """The ranks of an axis are about to do different things, or hold different values that should be one."""


@dataclass(frozen=True)
class Record:
    """What a rank is about to do: the call, how it cuts and joins, on what tensor, at which line."""

    call: str
    how: str
    shape: list[int]
    dtype: str
    site: str
    digest: str
    dim: int
    sizes: list[int] | None
    join: int
    join_sizes: list[int] | None

    def __str__(self) -> str:
        sizes = "" if self.sizes is None else f", sizes {self.sizes}"
        sizes += "" if self.join_sizes is None else f", output sizes {self.join_sizes}"
        return f"{self.call} of {self.dtype} {tuple(self.shape)}{sizes} at {self.site}"

    def even_shape(self) -> list[int | None]:
        """The shape, without the dims whose length may be another on each rank."""
        shape: list[int | None] = list(self.shape)
        if self.sizes is not None and shape:
            shape[self.dim] = None
        if self.join_sizes is not None and shape:
            shape[self.join] = None
        return shape


def timeout() -> float:
    """Seconds to wait for another rank."""
    return float(os.environ.get("SPMD_DEBUG_TIMEOUT", "60"))


def can_meet(bound: Bound) -> bool:
    """Whether the axis's group has a store, as every group has that torch.distributed made."""
    return bound.group in dist.distributed_c10d._world.pg_map


def exchange(bound: Bound, record: Record) -> list[Record]:
    """Write the own record and read the others'; raises as soon as one is seen to differ, or when the time is over."""
    store, number = dist.distributed_c10d._world.pg_map[bound.group][1], _next(bound)
    _say_where(bound, number, record)
    store.set(f"spmd/{number}/{bound.rank}", json.dumps(asdict(record)))
    if number > 2:  # every rank has read that one: it has been seen in the call after it
        with contextlib.suppress(RuntimeError):
            store.delete_key(f"spmd/{number - 2}/{bound.rank}")
    found = {bound.rank: record}
    reason, deadline = "", time.monotonic() + timeout()
    while len(found) < bound.size and time.monotonic() < deadline:
        for rank in set(range(bound.size)) - set(found):
            if store.check([f"spmd/{number}/{rank}"]):
                found[rank] = Record(**json.loads(store.get(f"spmd/{number}/{rank}")))
                if not reason and (reason := difference(record, found[rank], bound.rank, rank)):
                    deadline = min(deadline, time.monotonic() + _GRACE)  # for the others to be in the message
        time.sleep(_POLL)
    if reason or len(found) < bound.size:
        raise Disagreement(_message(bound, number, found, reason or "not every rank has come"))
    return [found[rank] for rank in range(bound.size)]


def difference(mine: Record, theirs: Record, me: int, them: int) -> str:
    """In what the records of two ranks must be alike and are not; empty where they agree."""
    if mine.call != theirs.call or mine.how != theirs.how:
        return "the calls differ"
    if mine.dtype != theirs.dtype:
        return "the dtypes differ"
    if mine.even_shape() != theirs.even_shape():
        return "the shapes differ"
    if mine.join_sizes is None and theirs.join_sizes is None:
        if mine.sizes != theirs.sizes:
            return "the split sizes differ"
    elif (mine.sizes and theirs.join_sizes and mine.sizes[them] != theirs.join_sizes[me]) or (
        theirs.sizes and mine.join_sizes and theirs.sizes[me] != mine.join_sizes[them]
    ):
        return f"what rank {me} and rank {them} send and expect of each other differs"
    return "" if mine.site == theirs.site else "the calls stand at different lines"


def compare_values(bound: Bound, x: Tensor, claim: str, records: list[Record]) -> None:
    """Gather the tensor, which all ranks have in one shape, and say where it differs; raises :class:`Disagreement`."""
    own = x.detach().resolve_conj().resolve_neg().contiguous()
    parts = [torch.empty_like(own) for _ in range(bound.size)]
    dist.all_gather(parts, own, group=bound.group)
    tolerance = float(os.environ.get("SPMD_DEBUG_TOLERANCE", "0"))
    for rank, part in enumerate(parts[1:], 1):
        unlike = ~torch.isclose(part, parts[0], rtol=tolerance, atol=0, equal_nan=True)
        if unlike.any():
            where = tuple(int(i) for i in unlike.nonzero()[0])
            values = [f"rank {r} has {p[where].item()}" for r, p in enumerate(parts)]
            raise Disagreement(
                f"{claim} and is not the same on the ranks: {int(unlike.sum())} of {part.numel()} elements of rank "
                f"{rank} differ from rank 0's, first at {list(where)}: {', '.join(values)}; "
                f"at {records[bound.rank].site}"
            )


def _next(bound: Bound) -> int:
    """The number of this call on the axis's group, counted from 1 in every world."""
    with _lock:
        world, number = _numbers.get(bound.group.group_name, (None, 0))
        number = number + 1 if world is bound.world else 1
        _numbers[bound.group.group_name] = bound.world, number
        return number


def _say_where(bound: Bound, number: int, record: Record) -> None:
    """Leave in the world's store what this rank is at, for those who will miss it on another axis."""
    text = f"call {number} on axis {bound.name!r}: {record}"
    dist.distributed_c10d._get_default_store().set(f"spmd/at/{dist.get_rank()}", text)


def _message(bound: Bound, number: int, found: dict[int, Record], reason: str) -> str:
    lines = [f"call {number} on axis {bound.name!r}: {reason}"]
    for rank in range(bound.size):
        world_rank = dist.get_global_rank(bound.group, rank)
        name = f"rank {rank}" if world_rank == rank else f"rank {rank} (of the world {world_rank})"
        lines.append(f"  {name}: {found[rank] if rank in found else _missing(world_rank)}")
    return "\n".join(lines)


def _missing(world_rank: int) -> str:
    store, key = dist.distributed_c10d._get_default_store(), f"spmd/at/{world_rank}"
    seen = store.get(key).decode() if store.check([key]) else "it has made no call"
    return f"has not come (the time to wait is {timeout():g} s); last seen in {seen}"
