"""What the plugin costs mypy: time and memory with it against without it, in turn, on generated projects.

    python benchmarks/mypy_speed.py                      # 200 and 1,000 modules, and the examples
    python benchmarks/mypy_speed.py --modules 200 --rounds 3 --record

The projects are tensor-parallel models: packages of layers, blocks and models that import each other as a tree, at
least 20 typed tensor expressions a module (the number is printed).  Each figure is processor time of the mypy process
and its children (the machine is shared, so wall time says little), the median over the rounds; with and without
alternate.  ``--record`` keeps the table in ``benchmarks/results/mypy_speed.md``.

Situations: *cold* (no cache), *stale* (every module of the project changed, torch cached), *warm* (nothing changed),
*parallel* (as stale, with ``-n 2``).
"""

from __future__ import annotations

import argparse
import os
import shutil
import statistics
import subprocess
import sys
import tempfile
from dataclasses import dataclass
from pathlib import Path
from typing import Final

ROOT: Final = Path(__file__).resolve().parent.parent
LIMITS: Final = {"cold": 1.10, "stale": 1.12, "warm": 1.2, "parallel": 1.12, "memory": 1.05}
EXPRESSIONS_PER_LAYER: Final = 24

HEADER: Final = """from __future__ import annotations

import torch
import torch.nn as nn
import torch.nn.functional as F
from spmd_runtime import DP, TP, I, P, Parameter, R, S, Tensor, V, all_gather, all_reduce, convert, reduce_scatter
"""

LAYER: Final = """

class Norm{n}(nn.Module):
    weight: Parameter[I[TP]]

    def __init__(self, size: int) -> None:
        super().__init__()
        self.weight = nn.Parameter(torch.ones(size))

    def forward(self, x: Tensor[V[DP], I[TP]]) -> Tensor[V[DP], I[TP]]:
        scale = torch.rsqrt(x.pow(2).mean(-1, keepdim=True) + 1e-6)
        return x * scale * self.weight


class Attention{n}(nn.Module):
    wqkv: Parameter[V[TP]]
    wo: Parameter[V[TP]]

    def __init__(self, size: int, heads: int) -> None:
        super().__init__()
        self.heads = heads
        self.wqkv = nn.Parameter(torch.empty(3 * size, size))
        self.wo = nn.Parameter(torch.empty(size, size))

    def forward(self, x: Tensor[V[DP], I[TP]]) -> Tensor[V[DP], I[TP]]:
        h = convert(x, TP, src=I, dst=R)
        q, k, v = F.linear(h, self.wqkv).chunk(3, dim=-1)
        batch, seq, width = q.shape
        q = q.view(batch, seq, self.heads, -1).transpose(1, 2)
        k = k.view(batch, seq, self.heads, -1).transpose(1, 2)
        v = v.view(batch, seq, self.heads, -1).transpose(1, 2)
        scores = torch.softmax(q @ k.transpose(-2, -1) / 8.0, dim=-1)
        out: Tensor[V[DP], P[TP]] = F.linear((scores @ v).transpose(1, 2).reshape(batch, seq, width), self.wo)
        return all_reduce(out, TP, dst=I)


class MLP{n}(nn.Module):
    w1: Parameter[V[TP]]
    w2: Parameter[V[TP]]

    def __init__(self, size: int) -> None:
        super().__init__()
        self.w1 = nn.Parameter(torch.empty(4 * size, size))
        self.w2 = nn.Parameter(torch.empty(size, 4 * size))

    def forward(self, x: Tensor[V[DP], I[TP]]) -> Tensor[V[DP], I[TP]]:
        h = F.silu(F.linear(convert(x, TP, src=I, dst=R), self.w1))
        out: Tensor[V[DP], P[TP]] = F.linear(h * torch.sigmoid(h), self.w2)
        return all_reduce(out, TP, dst=I)


class Block{n}(nn.Module):
    def __init__(self, size: int, heads: int) -> None:
        super().__init__()
        self.norm = Norm{n}(size)
        self.attention = Attention{n}(size, heads)
        self.mlp = MLP{n}(size)

    def forward(self, x: Tensor[V[DP], I[TP]]) -> Tensor[V[DP], I[TP]]:
        x = x + self.attention(self.norm(x))
        return x + self.mlp(self.norm(x))
"""

MODEL: Final = """

class Model{n}(nn.Module):
    def __init__(self, size: int, heads: int) -> None:
        super().__init__()
        self.blocks = nn.ModuleList([Block{n}(size, heads) for _ in range(4)])
{parts}
    def forward(self, x: Tensor[V[DP], I[TP]]) -> Tensor[V[DP], I[TP]]:
        for block in self.blocks:
            x = block(x)
{calls}        return x
"""


def module_text(n: int) -> str:
    """Module ``n`` of the tree: its own layers, and a model that also runs the models of its children."""
    children = [c for c in (2 * n + 1, 2 * n + 2) if c < n_modules]
    imports = "".join(f"from project.m{c} import Model{c}\n" for c in children)
    parts = "".join(f"        self.part{c} = Model{c}(size, heads)\n" for c in children)
    calls = "".join(f"        x = x + self.part{c}(x)\n" for c in children)
    return HEADER + imports + LAYER.format(n=n) + MODEL.format(n=n, parts=parts, calls=calls)


n_modules = 0


def write_project(folder: Path, modules: int) -> int:
    """Write the project; returns the number of lines."""
    global n_modules  # noqa: PLW0603 - the tree's size, for module_text
    n_modules = modules
    package = folder / "project"
    package.mkdir(parents=True)
    (package / "__init__.py").write_text("")
    lines = 0
    for n in range(modules):
        text = module_text(n)
        lines += text.count("\n")
        (package / f"m{n}.py").write_text(text)
    return lines


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


def run_mypy(folder: Path, cache: Path, plugin: bool, *arguments: str) -> Cost:
    """One mypy run over the project, as its own process group; its output must hold no error when the plugin is on."""
    config = folder / f"config_{plugin}.toml"
    config.write_text(CONFIG.format(plugin='plugins = ["spmd_mypy.plugin"]' if plugin else ""))
    command = [sys.executable, "-m", "mypy", "--config-file", str(config), "--cache-dir", str(cache), *arguments]
    environment = {**os.environ, "PYTHONPATH": str(ROOT), "MYPYPATH": str(ROOT)}
    environment.pop("PYTHONDONTWRITEBYTECODE", None)  # as for users: the plugin is compiled once, not in every run
    before = os.times()
    process = subprocess.Popen(
        command, cwd=folder, env=environment, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True
    )
    output, _ = process.communicate(timeout=1800)
    after = os.times()
    if process.returncode not in (0, 1) or (plugin and process.returncode != 0):
        raise RuntimeError(f"mypy ended with {process.returncode}:\n{output[-3000:]}")
    seconds = after.children_user - before.children_user + after.children_system - before.children_system
    return Cost(seconds, peak_memory(command, folder, environment) if "--measure-memory" in arguments else 0.0)


def peak_memory(command: list[str], folder: Path, environment: dict[str, str]) -> float:
    """Peak resident memory (MiB) of a run, by the kernel's account of that one child."""
    script = (
        "import resource, subprocess, sys; subprocess.run(sys.argv[1:], stdout=subprocess.DEVNULL); "
        "print(resource.getrusage(resource.RUSAGE_CHILDREN).ru_maxrss / 1024)"
    )
    measured = [sys.executable, "-c", script, *command]
    done = subprocess.run(measured, cwd=folder, env=environment, capture_output=True, text=True, check=True)
    return float(done.stdout)


def touch_all(folder: Path, stamp: int) -> None:
    """Change every module of the project, so that its cache is stale and torch's is not."""
    for path in (folder / "project").glob("*.py"):
        with path.open("a") as file:
            file.write(f"# {stamp}\n")


def situations(folder: Path, rounds: int, target: str) -> dict[str, dict[bool, list[float]]]:
    """Processor time per situation, with and without the plugin."""
    times: dict[str, dict[bool, list[float]]] = {}

    def record(name: str, plugin: bool, cost: Cost) -> None:
        times.setdefault(name, {}).setdefault(plugin, []).append(cost.seconds)

    for turn in range(rounds):
        for plugin in (turn % 2 == 0, turn % 2 == 1):
            cache = folder / f"cache_{plugin}"
            shutil.rmtree(cache, ignore_errors=True)
            record("cold", plugin, run_mypy(folder, cache, plugin, target))
            touch_all(folder, turn * 10 + 1)
            record("stale", plugin, run_mypy(folder, cache, plugin, target))
            record("warm", plugin, run_mypy(folder, cache, plugin, target))
            touch_all(folder, turn * 10 + 2)
            record("parallel", plugin, run_mypy(folder, cache, plugin, "-n", "2", target))
            print(".", end="", flush=True)
    return times


def expressions(folder: Path) -> int:
    """Calls, operators and indexings in the project's forward methods, by a count over the syntax trees."""
    import ast  # noqa: PLC0415 - only the report needs it

    total = 0
    for path in (folder / "project").glob("m*.py"):
        for node in ast.walk(ast.parse(path.read_text())):
            if isinstance(node, ast.FunctionDef) and node.name == "forward":
                total += sum(isinstance(n, ast.Call | ast.BinOp | ast.Subscript) for n in ast.walk(node))
    return total


def report(modules: int, rounds: int) -> str:
    """Measure one generated project and return the table's rows."""
    with tempfile.TemporaryDirectory(prefix="spmd-speed-") as name:
        folder = Path(name)
        lines = write_project(folder, modules)
        count = expressions(folder)
        times = situations(folder, rounds, "project")
    rows = [f"\n{modules} modules, {lines} lines, {count} tensor expressions ({count / modules:.0f} a module)\n"]
    rows.append("| situation | without (s) | with (s) | ratio | limit |\n|---|---|---|---|---|")
    for situation, by_plugin in times.items():
        without, with_ = statistics.median(by_plugin[False]), statistics.median(by_plugin[True])
        rows.append(f"| {situation} | {without:.2f} | {with_:.2f} | {with_ / without:.3f} | {LIMITS[situation]} |")
    return "\n".join(rows)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else None)
    parser.add_argument("--modules", type=int, nargs="*", default=[200, 1000])
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--record", action="store_true", help="keep the table in benchmarks/results/mypy_speed.md")
    arguments = parser.parse_args()
    tables = [report(modules, arguments.rounds) for modules in arguments.modules]
    print(*tables, sep="\n")
    if arguments.record:
        results = ROOT / "benchmarks" / "results" / "mypy_speed.md"
        results.parent.mkdir(exist_ok=True)
        results.write_text("# python benchmarks/mypy_speed.py\n" + "\n".join(tables) + "\n")


if __name__ == "__main__":
    main()
