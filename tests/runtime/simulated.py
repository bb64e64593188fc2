"""All ranks in one process: a thread each, and a process group that meets in memory.

    results = run(function, 3)       # function(group), on three threads

The group is a ``ProcessGroup`` with the methods that the runtime calls, each written out as what it must do, so that a
test on it does not trust any backend.
"""

from __future__ import annotations

import threading
from collections.abc import Callable
from typing import Any

import torch
import torch.distributed as dist

TIMEOUT = 20.0


class _Meeting:
    """Where the ranks exchange what they send."""

    def __init__(self, size: int) -> None:
        self.barrier = threading.Barrier(size)
        self.sent: list[Any] = [None] * size


class SimulatedGroup(dist.ProcessGroup):
    """One rank's end of a simulated group."""

    def __init__(self, rank: int, size: int, meeting: _Meeting) -> None:
        super().__init__(rank, size)
        self._meeting, self._rank, self._size = meeting, rank, size

    def rank(self) -> int:
        return self._rank

    def size(self) -> int:
        return self._size

    @property
    def group_name(self) -> str:
        return "simulated"

    @property
    def _device_types(self) -> list[torch.device]:
        return [torch.device("cpu")]

    def _swap(self, call: str, value: Any) -> list[Any]:
        """What every rank sent; all must make the same call."""
        meeting = self._meeting
        meeting.sent[self._rank] = (call, value)
        meeting.barrier.wait(TIMEOUT)
        sent = list(meeting.sent)
        meeting.barrier.wait(TIMEOUT)
        calls = {name for name, _ in sent}
        assert calls == {call}, f"the ranks make different calls: {sorted(calls)}"
        return [value for _, value in sent]

    def allreduce(self, tensors: list[torch.Tensor], options: Any = None) -> None:
        (x,) = tensors
        assert x.is_contiguous()
        total = sum(self._swap("allreduce", x.clone()))
        x.copy_(total)

    def _allgather_base(self, out: torch.Tensor, x: torch.Tensor, options: Any = None) -> None:
        assert out.is_contiguous() and x.is_contiguous()
        parts = self._swap("allgather", x.clone())
        out.view(-1).copy_(torch.cat([part.reshape(-1) for part in parts]))

    def _reduce_scatter_base(self, out: torch.Tensor, x: torch.Tensor, options: Any = None) -> None:
        assert out.is_contiguous() and x.is_contiguous()
        total = sum(self._swap("reduce_scatter", x.clone()))
        out.view(-1).copy_(total.reshape(self._size, -1)[self._rank])

    def alltoall_base(
        self, out: torch.Tensor, x: torch.Tensor, received: list[int], sent: list[int], options: Any = None
    ) -> None:
        assert out.is_contiguous() and x.is_contiguous()
        parts = x.clone().split(sent) if sent else x.clone().chunk(self._size)
        arrived = [theirs[self._rank] for theirs in self._swap("alltoall", parts)]
        if received:
            assert [part.shape[0] for part in arrived] == received
        out.copy_(torch.cat(arrived).view(out.shape))

    def broadcast(self, tensors: list[torch.Tensor], options: Any) -> None:
        (x,) = tensors
        x.copy_(self._swap("broadcast", x.clone())[options.rootRank])

    def reduce(self, tensors: list[torch.Tensor], options: Any) -> None:
        (x,) = tensors
        total = sum(self._swap("reduce", x.clone()))
        if self._rank == options.rootRank:
            x.copy_(total)


def run(function: Callable[[dist.ProcessGroup], Any], ranks: int) -> list[Any]:
    """``function(group)`` on every rank's thread; the list of the results, or the first exception."""
    meeting = _Meeting(ranks)
    results: list[Any] = [None] * ranks
    errors: list[BaseException] = []

    def work(rank: int) -> None:
        try:
            results[rank] = function(SimulatedGroup(rank, ranks, meeting))
        except BaseException as error:
            errors.append(error)
            meeting.barrier.abort()

    threads = [threading.Thread(target=work, args=(rank,), daemon=True) for rank in range(ranks)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(2 * TIMEOUT)
        assert not thread.is_alive(), "a simulated rank hangs"
    for error in errors:
        if not isinstance(error, threading.BrokenBarrierError):
            raise error
    assert not errors, "a simulated rank waited in vain"
    return results
