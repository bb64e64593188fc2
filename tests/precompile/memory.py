"""What a call does with memory and the network, on CPUs, from the profiler's record."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from torch.profiler import ProfilerActivity, profile


@dataclass(frozen=True)
class Record:
    """``peak``: the most bytes held at once beyond what there was before; ``calls`` of each operator."""

    peak: int
    calls: Counter[str]


def record(function: Callable[[], Any]) -> Record:
    """Run ``function`` once under the profiler."""
    with profile(activities=[ProfilerActivity.CPU], profile_memory=True) as profiler:
        result = function()
    held = peak = 0
    events = list(profiler.profiler.kineto_results.events())
    for event in sorted((e for e in events if e.name() == "[memory]"), key=lambda e: e.start_ns()):
        held += event.nbytes()
        peak = max(peak, held)
    del result
    return Record(peak, Counter(event.name() for event in events))
