"""The test harness itself: results, exceptions, deaths and hangs."""

from __future__ import annotations

import os
import time

import pytest
import torch
import torch.distributed as dist

from tests.runtime.gloo import RanksFailed, run


def summed(value: float) -> tuple[int, float]:
    x = torch.tensor(value + dist.get_rank())
    dist.all_reduce(x)
    return dist.get_world_size(), x.item()


def fails_on_rank_one() -> None:
    if dist.get_rank() == 1:
        raise ValueError("broken on purpose")
    dist.barrier()


def dies_on_rank_one() -> None:
    if dist.get_rank() == 1:
        os._exit(7)
    dist.barrier()


def hangs_on_rank_zero() -> None:
    if dist.get_rank() == 0:
        time.sleep(1000)


@pytest.mark.parametrize("ranks", [1, 2, 3, 4])
def test_results_come_back_in_order(ranks: int) -> None:
    assert run(summed, ranks, 1.0) == [(ranks, sum(range(1, ranks + 1)))] * ranks


def test_an_exception_is_shown_with_its_rank() -> None:
    with pytest.raises(RanksFailed, match="broken on purpose") as info:
        run(fails_on_rank_one, 2, timeout=20)
    assert "broken on purpose" in info.value.errors[1]
    assert run(summed, 2, 0.0) == [(2, 1.0)] * 2


def test_a_death_is_reported() -> None:
    with pytest.raises(RanksFailed) as info:
        run(dies_on_rank_one, 2, timeout=20)
    assert "exit code 7" in info.value.errors[1]


def test_a_hang_ends_in_time_and_shows_where() -> None:
    start = time.monotonic()
    with pytest.raises(RanksFailed, match="hangs_on_rank_zero") as info:
        run(hangs_on_rank_zero, 2, timeout=3)
    assert "still running" in info.value.errors[0]
    assert time.monotonic() - start < 20
