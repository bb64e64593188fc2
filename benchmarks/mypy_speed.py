"""What the plugin costs mypy: time and memory with it against without it, in turn, on generated projects.

    python benchmarks/mypy_speed.py                      # 200 and 1,000 modules, and the examples
    python benchmarks/mypy_speed.py --modules 200 --rounds 5 --record

The projects are those of ``generated.py``: tensor-parallel models in the code around them, modules that import each
other as a tree, as dense in tensor expressions as published projects (the numbers are printed).  Each figure is
processor time of the mypy process and its children, the median over the rounds.  With and without run at the same time
on one processor core, which the system gives to them in turn every few milliseconds: where a machine is shared and its
speed changes by the second, both meet the same, and the ratios of a pair differ by a hundredth or two from those of the
next.  Memory is the largest resident size of one process.  ``--record`` keeps the tables in
``benchmarks/results/mypy_speed.md``.

Situations: *cold* (no cache), *stale* (every module of the project changed, torch cached), *warm* (nothing changed),
*parallel* (as stale, with ``-n 2``; the time of the workers that mypy leaves behind is counted on Linux alone).
"""

from __future__ import annotations

import argparse
import os
import platform
import shutil
import signal
import statistics
import subprocess
import sys
import tempfile
from collections import defaultdict
from collections.abc import Iterator
from dataclasses import dataclass, field, replace
from importlib.metadata import version
from pathlib import Path
from typing import Final

ROOT: Final = Path(__file__).resolve().parent.parent
sys.path.insert(0, str(ROOT))

from benchmarks.generated import density, write_project  # noqa: E402

RESULTS: Final = ROOT / "benchmarks" / "results" / "mypy_speed.md"
LIMITS: Final = {"cold": 1.10, "stale": 1.12, "warm": 1.2, "memory, cold": 1.05}
REAPER: Final = (sys.executable, str(ROOT / "benchmarks" / "reaper.py"))
WORKERS: Final = ("-n", "2")
LARGE: Final = 1000  # modules of a project that is measured less often

CONFIG: Final = """[tool.mypy]
allow_redefinition = true
{plugin}
[tool.spmd-mypy]
axes = ["dp", "tp"]
"""


@dataclass(frozen=True)
class Cost:
    """Processor seconds and peak memory (MiB) of one mypy run."""

    seconds: float
    memory: float


def mypy_command(folder: Path, plugin: bool) -> tuple[list[str], dict[str, str]]:
    """The command and the environment of a mypy run with the cache that belongs to it."""
    config = folder / f"config_{plugin}.toml"
    config.write_text(CONFIG.format(plugin='plugins = ["spmd_mypy.plugin"]' if plugin else ""))
    command = [sys.executable, "-m", "mypy", "--config-file", str(config), "--cache-dir", str(cache_of(folder, plugin))]
    environment = {**os.environ, "PYTHONPATH": str(ROOT), "MYPYPATH": str(ROOT)}
    environment.pop("PYTHONDONTWRITEBYTECODE", None)  # as for users: the plugin is compiled once, not in every run
    return command, environment


@dataclass
class Run:
    """A mypy run that has been started."""

    process: subprocess.Popen[bytes]
    output: Path

    def cost(self) -> Cost:
        """What the run cost, once it has ended; RuntimeError, with its output, where mypy did not get through."""
        _, status, usage = os.wait4(self.process.pid, 0)
        self.process.returncode = os.waitstatus_to_exitcode(status)
        if self.process.returncode not in (0, 1):
            raise RuntimeError(f"mypy ended with {self.process.returncode}:\n{self.output.read_text()[-3000:]}")
        return Cost(usage.ru_utime + usage.ru_stime, usage.ru_maxrss / 1024)


def start_mypy(folder: Path, plugin: bool, target: str, *arguments: str) -> Run:
    """Start mypy over ``target``, with the cache that belongs to it."""
    command, environment = mypy_command(folder, plugin)
    command = [*REAPER, *command] if arguments else command
    output = folder / f"output_{plugin}.txt"
    with output.open("w") as file:
        process = subprocess.Popen(
            [*command, *arguments, target],
            cwd=folder,
            env=environment,
            stdout=file,
            stderr=subprocess.STDOUT,
            start_new_session=True,  # to end workers, too
        )
    return Run(process, output)


def run_mypy(folder: Path, plugin: bool, target: str) -> Cost:
    """One mypy run over ``target``, with the cache that belongs to it."""
    return start_mypy(folder, plugin, target).cost()


def run_both(folder: Path, target: str, first: bool, core: int, *arguments: str) -> dict[bool, Cost]:
    """Two runs at the same time on one core, with the plugin and without; ``first`` says which is started first."""
    runs: dict[bool, Run] = {}
    for plugin in (first, not first):
        runs[plugin] = start_mypy(folder, plugin, target, *arguments)
        if hasattr(os, "sched_setaffinity"):  # elsewhere they run side by side
            os.sched_setaffinity(runs[plugin].process.pid, {core})
    try:
        return {plugin: run.cost() for plugin, run in runs.items()}
    finally:
        for run in runs.values():
            if run.process.returncode is None:  # the other one failed
                os.killpg(run.process.pid, signal.SIGKILL)
                run.process.wait()


def run_with_workers(folder: Path, target: str, first: bool, core: int, tries: int = 5) -> dict[bool, Cost]:
    """Two such runs, each with two workers; again where these start too slowly for mypy."""
    try:
        return run_both(folder, target, first, core, *WORKERS)
    except RuntimeError as error:
        if tries <= 1 or "Failed to establish connection" not in str(error):
            raise
    return run_with_workers(folder, target, first, core, tries - 1)


def cache_of(folder: Path, plugin: bool) -> Path:
    """The cache of the runs with, or without, the plugin."""
    return folder / f"cache_{plugin}"


def touch_all(folder: Path, stamp: int) -> None:
    """Change every module of the project, so that its cache is stale and torch's is not."""
    for path in folder.rglob("*.py"):
        with path.open("a") as file:
            file.write(f"# {stamp}\n")


@dataclass
class Figures:
    """What was measured, by situation, without (False) and with (True) the plugin."""

    costs: dict[str, dict[bool, list[float]]] = field(default_factory=lambda: defaultdict(lambda: defaultdict(list)))

    def add(self, situation: str, plugin: bool, value: float) -> None:
        """Keep one figure."""
        self.costs[situation][plugin].append(value)

    def rows(self) -> Iterator[str]:
        """The table: the medians, the median of the ratios of pairs, all of them, the limit.

        Beside it the ratio of the least figures: what else runs on a machine only ever adds to a run.
        """
        yield "| situation | without | with | ratio | of the least | each | limit |"
        yield "|---|---|---|---|---|---|---|"
        for situation, costs in self.costs.items():
            unit = "MiB" if situation.startswith("memory") else "s"
            without, with_ = (statistics.median(costs[plugin]) for plugin in (False, True))
            ratios = [b / a for a, b in zip(costs[False], costs[True], strict=True)]
            each = ", ".join(f"{ratio:.2f}" for ratio in ratios)
            shown = f"{without:.0f} {unit} | {with_:.0f}" if unit == "MiB" else f"{without:.2f} {unit} | {with_:.2f}"
            ratio = f"{statistics.median(ratios):.3f} | {min(costs[True]) / min(costs[False]):.3f}"
            yield f"| {situation} | {shown} {unit} | {ratio} | {each} | {LIMITS.get(situation, '')} |"


@dataclass(frozen=True)
class Plan:
    """How much to measure: rounds, cold runs alone or everything, and the core for pairs of runs."""

    rounds: int
    cold: bool
    core: int


def situations(folder: Path, target: str, plan: Plan) -> Figures:
    """Measure every situation in every round, stale and warm twice; or cold runs alone.

    Which goes first, with or without, changes from round to round.
    """
    figures = Figures()
    stamp = 0

    def both(situation: str, first: bool, memory: bool) -> None:
        costs = run_both(folder, target, first, plan.core)
        for plugin, cost in costs.items():
            figures.add(situation, plugin, cost.seconds)
            if memory:
                figures.add(f"memory, {situation}", plugin, cost.memory)

    for turn in range(plan.rounds):
        first = turn % 2 == 0
        for plugin in (first, not first):
            shutil.rmtree(cache_of(folder, plugin), ignore_errors=True)
        both("cold", first, memory=True)
        print(".", end="", flush=True)
        if plan.cold:
            continue
        for starts in (first, not first):
            stamp += 1
            touch_all(folder / target, stamp)
            both("stale", starts, memory=True)
            both("warm", starts, memory=False)
        stamp += 1
        touch_all(folder / target, stamp)
        for plugin, cost in run_with_workers(folder, target, first, plan.core).items():
            figures.add("parallel", plugin, cost.seconds)
    return figures


def generated(modules: int, dense: bool, plan: Plan) -> str:
    """Measure one generated project; its table."""
    with tempfile.TemporaryDirectory(prefix="spmd-speed-") as name:
        folder = Path(name)
        write_project(folder, modules, dense)
        count = density(folder)
        figures = situations(folder, "project", plan)
    return "\n".join([f"\n{count}; {plan.rounds} rounds.\n", *figures.rows()])


def examples(plan: Plan) -> str:
    """Measure the repository's examples; their table."""
    with tempfile.TemporaryDirectory(prefix="spmd-speed-") as name:
        folder = Path(name)
        shutil.copytree(ROOT / "examples", folder / "examples", ignore=shutil.ignore_patterns(".mypy_cache"))
        figures = situations(folder, "examples", plan)
    return "\n".join([f"\nThe examples; {plan.rounds} rounds.\n", *figures.rows()])


def setting() -> str:
    """What was measured with, as a sentence."""
    return f"mypy {version('mypy')}, torch {version('torch')}, Python {platform.python_version()}."


def main() -> None:
    """Measure, print, and keep the tables."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--modules", type=int, nargs="*", default=[200, 1000])
    parser.add_argument(
        "--rounds", type=int, default=3, help="rounds; a third of them, but at least one, at 1,000 modules"
    )
    parser.add_argument("--examples", action=argparse.BooleanOptionalAction, default=True)
    parser.add_argument("--dense", action="store_true", help="longhand layers, 12 expressions in 100 lines")
    parser.add_argument("--cold", action="store_true", help="cold runs alone")
    parser.add_argument("--core", type=int, default=0, help="the processor core that pairs of runs share")
    parser.add_argument("--record", action="store_true", help="keep the tables in benchmarks/results/mypy_speed.md")
    arguments = parser.parse_args()
    command = " ".join(["python benchmarks/mypy_speed.py", *sys.argv[1:]])
    what = "Processor seconds and peak memory, medians;\nthe ratios are of runs at the same time on one core."
    text = f"# {command}\n\n{setting()} {what}\n"
    print(text)
    plan = Plan(arguments.rounds, arguments.cold, arguments.core)
    if arguments.examples:
        text = keep(text, examples(plan), arguments.record)
    for modules in arguments.modules:
        rounds = arguments.rounds if modules < LARGE else max(1, arguments.rounds // 3)
        text = keep(text, generated(modules, arguments.dense, replace(plan, rounds=rounds)), arguments.record)


def keep(text: str, table: str, record: bool) -> str:
    """Print a table, and keep all that there are."""
    print(table, flush=True)
    if record:
        RESULTS.parent.mkdir(exist_ok=True)
        RESULTS.write_text(f"{text}{table}\n")
    return f"{text}{table}\n"


if __name__ == "__main__":
    main()
