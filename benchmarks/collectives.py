"""What a typed collective costs beside the same thing written by hand, spmd_types, and the bare collective.

    python benchmarks/collectives.py --write     # prints the tables, and keeps them in benchmarks/collectives.md

Each call is timed forward alone and with its backward, on a small and a large tensor, over the fake backend (which
moves nothing: what is left is the call's own cost) and over gloo on two ranks; then a transformer block, forward and
backward.
The contenders take turns within every round, so that what disturbs one disturbs the others; a figure is the median
over the rounds, a ratio the median of the rounds' ratios.  ``spmd_types`` takes part where it is installed
(``pip install --no-deps spmd_types==0.3.1``).
"""

from __future__ import annotations

import argparse
import os
import platform
import random
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

os.environ.setdefault("OMP_NUM_THREADS", "1")
ROOT = Path(__file__).resolve().parent.parent
sys.path.insert(0, str(ROOT))

import collectives_contenders as contenders  # noqa: E402
import torch  # noqa: E402
import torch.distributed as dist  # noqa: E402
import torch.multiprocessing as mp  # noqa: E402

import spmd_runtime as spmd  # noqa: E402

Step = Callable[[], Any]
ORDER = ("bare", "by hand", "spmd_types", "ours")


@dataclass(frozen=True)
class Figure:
    """Median seconds per contender, and the median over the rounds of ours against each."""

    name: str
    seconds: dict[str, float]
    ratios: dict[str, float]


@dataclass(frozen=True)
class Effort:
    """How often to measure, and by which clock.

    Over the fake backend it is the thread's own time, which others on the machine do not disturb; where ranks wait for
    each other it is the clock on the wall.
    """

    rounds: int
    repeats: int
    clock: Callable[[], float]

    def lighter(self) -> Effort:
        """For calls that take long."""
        return replace(self, repeats=max(1, self.repeats // 10))


def measured(name: str, steps: dict[str, Step], effort: Effort) -> Figure:
    """Time ``steps`` in turn; every rank does so in the same order."""
    for step in steps.values():
        for _ in range(3):
            step()
    shuffled = random.Random(0)
    times: dict[str, list[float]] = {contender: [] for contender in steps}
    for _ in range(effort.rounds):
        turn = list(steps)
        shuffled.shuffle(turn)
        for contender in turn:
            step = steps[contender]
            start = effort.clock()
            for _ in range(effort.repeats):
                step()
            times[contender].append((effort.clock() - start) / effort.repeats)
    ours = times["ours"]
    ratios = {
        contender: statistics.median(a / b for a, b in zip(ours, others, strict=True))
        for contender, others in times.items() if contender != "ours"
    }  # fmt: skip
    return Figure(name, {contender: statistics.median(t) for contender, t in times.items()}, ratios)


def backward_of(step: Callable[[torch.Tensor], torch.Tensor], x: torch.Tensor) -> Step:
    """Forward and backward of ``step`` on ``x``; the gradient is made once."""
    grad = torch.ones_like(step(x))

    def both() -> Any:
        return torch.autograd.grad(step(x), x, grad)

    return both


def calls(group: dist.ProcessGroup, rows: int, columns: int) -> Iterator[tuple[str, dict[str, Step]]]:
    """Each call on a rows x columns tensor, forward and with backward."""
    for name, makers in contenders.calls(group).items():
        x = torch.randn(rows, columns, requires_grad=True)
        no_grad = x.detach()
        forward = {who: (lambda call=call, no_grad=no_grad: call(no_grad)) for who, call in makers.items()}
        yield f"{name}, forward", forward
        differentiable = {who: call for who, call in makers.items() if who != "bare"}
        yield f"{name}, with backward", {who: backward_of(call, x) for who, call in differentiable.items()}


def blocks(group: dist.ProcessGroup, hidden: int, tokens: int) -> Iterator[tuple[str, dict[str, Step]]]:
    """A transformer block, forward and backward, tensor parallel with and without sequence parallelism."""
    for sequence_parallel in (False, True):
        steps = {}
        for who, collectives in contenders.block_collectives(group, sequence_parallel).items():
            torch.manual_seed(0)
            block = contenders.Block(hidden, 4, group.size(), collectives)
            x = torch.randn(tokens // (group.size() if sequence_parallel else 1), 1, hidden, requires_grad=True)

            def step(block: Any = block, x: torch.Tensor = x) -> None:
                block(x).sum().backward()

            steps[who] = step
        yield f"transformer block{', sequence parallel' if sequence_parallel else ''}", steps


def suite(group: dist.ProcessGroup, effort: Effort) -> list[tuple[str, list[Figure]]]:
    """All figures over one backend, in sections."""
    found = []
    for title, shape in (("small: 16 x 32", (16, 32)), ("large: 1024 x 1024 (4 MiB)", (1024, 1024))):
        one = effort if shape[0] < 100 else effort.lighter()
        found.append((title, [measured(name, steps, one) for name, steps in calls(group, *shape)]))
    for hidden, tokens in ((64, 32), (256, 128)):
        title = f"block: hidden {hidden}, {tokens} tokens"
        found.append(
            (title, [measured(name, steps, effort.lighter()) for name, steps in blocks(group, hidden, tokens)])
        )
    return found


def table(sections: list[tuple[str, list[Figure]]]) -> Iterator[str]:
    """The sections as Markdown; microseconds, and ours against the others."""
    present = [who for who in ORDER if any(who in f.seconds for _, figures in sections for f in figures)]
    others = [who for who in present if who not in ("ours", "bare")]
    yield (
        "| call | "
        + " | ".join(f"{who}, us" for who in present)
        + " | "
        + " | ".join(f"ours / {w}" for w in others)
        + " |"
    )
    yield "|---|" + "--:|" * (len(present) + len(others))
    for title, figures in sections:
        yield f"| **{title}** |" + " |" * (len(present) + len(others))
        for figure in figures:
            micro = [f"{1e6 * figure.seconds[who]:.1f}" if who in figure.seconds else "" for who in present]
            ratios = [f"{figure.ratios[who]:.2f}" if who in figure.ratios else "" for who in others]
            yield f"| {figure.name} | {' | '.join(micro)} | {' | '.join(ratios)} |"
    for who in others:
        every = [figure.ratios[who] for _, figures in sections for figure in figures if who in figure.ratios]
        yield (
            f"| **median of ours / {who}** |"
            + " |" * (len(present) + others.index(who))
            + f" **{statistics.median(every):.3f}** |"
            + " |" * (len(others) - others.index(who) - 1)
        )


def fake(quick: bool) -> list[str]:
    """The suite over the fake backend, as lines."""
    from torch.testing._internal.distributed.fake_pg import FakeStore  # noqa: PLC0415

    dist.init_process_group("fake", rank=0, world_size=2, store=FakeStore())
    world = dist.group.WORLD
    assert world is not None
    with spmd.bind(spmd.TP, world):
        lines = list(table(suite(world, Effort(7 if quick else 101, 20, time.thread_time))))
    dist.destroy_process_group()
    return lines


def on_gloo(rank: int, folder: str, quick: bool) -> None:
    """One rank of the suite over gloo; rank 0 writes the lines."""
    torch.set_num_threads(1)
    dist.init_process_group("gloo", init_method=f"file://{folder}/store", rank=rank, world_size=2)
    world = dist.group.WORLD
    assert world is not None
    with spmd.bind(spmd.TP, world):
        lines = list(table(suite(world, Effort(5 if quick else 41, 20, time.perf_counter))))
    if rank == 0:
        Path(folder, "lines").write_text("\n".join(lines))
    dist.destroy_process_group()


def import_cost() -> str:
    """Milliseconds that importing spmd_runtime takes beyond torch's own, bytecode in place: the median of seven."""
    code = (
        "import time, torch, torch.distributed; start = time.perf_counter(); import spmd_runtime; "
        "print(time.perf_counter() - start)"
    )
    with tempfile.TemporaryDirectory() as cache:
        env = {**os.environ, "PYTHONPYCACHEPREFIX": cache, "PYTHONPATH": str(ROOT)}
        env.pop("PYTHONDONTWRITEBYTECODE", None)
        command = [sys.executable, "-c", code]
        times = [float(subprocess.run(command, env=env, capture_output=True, check=True).stdout) for _ in range(8)]
    return (
        f"Importing spmd_runtime takes {1e3 * statistics.median(times[1:]):.0f} ms beyond `import torch` (target: 50)."
    )


def main() -> None:
    """Run the benchmark, print it, and with ``--write`` keep it."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--quick", action="store_true", help="few rounds, to see that it runs")
    parser.add_argument("--write", action="store_true", help="keep the tables in benchmarks/collectives.md")
    options = parser.parse_args()
    torch.set_num_threads(1)
    lines = ["# What a typed collective costs", ""]
    lines += [
        f"`python benchmarks/collectives.py --write`, torch {torch.__version__}, Python {platform.python_version()},"
    ]
    lines += [
        f"{os.cpu_count()} cores, one thread per rank.  Microseconds per call, medians:",
        "over the fake backend of the thread's own time, over gloo by the clock.",
        import_cost(),
        "",
    ]
    lines += ["## Over the fake backend: the call's own cost", "", *fake(options.quick), ""]
    with tempfile.TemporaryDirectory() as folder:
        mp.spawn(on_gloo, (folder, options.quick), 2)
        lines += ["## Over gloo, two ranks", "", *Path(folder, "lines").read_text().splitlines()]
    text = "\n".join(lines) + "\n"
    print(text)
    if options.write:
        Path(__file__).with_suffix(".md").write_text(text)


if __name__ == "__main__":
    main()
