"""A generated project of tensor-parallel models, for the benchmarks of mypy with the plugin.

Every module holds what a module of such a project holds: a configuration that is read and checked, layers with typed
tensors, and the code around them (checkpoint names, a schedule, counts of parameters and operations, a log of the
training, its data, options of the command).  Modules import each other as a tree.

How dense they are is taken from published projects; ``python benchmarks/generated.py FOLDER`` counts the same way.
Megatron-LM's core has 28 tensor expressions a module and 6.4 in a hundred lines, torchtitan's models have 23 and 7.6;
the modules here have 27 and 8.3.  With ``dense`` their layers are written longhand, 40 and 12.1: denser than the
densest folder of Megatron-LM, ``transformer``, with 11.1 in a hundred lines.
"""

from __future__ import annotations

import ast
import sys
from pathlib import Path
from typing import Final

ROOT: Final = Path(__file__).resolve().parent.parent
sys.path.insert(0, str(ROOT))

from benchmarks.generated_layers import ATTENTION, FEED_FORWARD, LONGHAND, MODEL, NORM, SHORT  # noqa: E402

HEADER: Final = '''"""Part {n} of the model: {what}."""

from __future__ import annotations

import argparse
import json
import logging
import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import torch
import torch.nn as nn
import torch.nn.functional as F
from spmd_runtime import DP, TP, I, P, Parameter, R, Tensor, V, all_reduce, convert

logger = logging.getLogger(__name__)
'''

CONFIG: Final = '''

@dataclass
class Config{n}:
    """Sizes of this part, as the checkpoint's ``config.json`` has them."""

    hidden_size: int = 1024
    num_heads: int = 16
    ffn_size: int = 4096
    num_layers: int = 4
    norm_eps: float = 1e-6
    activation: str = "silu"
    tie_embeddings: bool = False
    extra: dict[str, str] = field(default_factory=dict)

    def __post_init__(self) -> None:
        if self.hidden_size % self.num_heads != 0:
            raise ValueError(f"hidden_size {{self.hidden_size}} is not a multiple of num_heads {{self.num_heads}}")
        if self.activation not in ("silu", "gelu"):
            raise ValueError(f"unknown activation {{self.activation!r}}")

    @property
    def head_size(self) -> int:
        return self.hidden_size // self.num_heads

    @classmethod
    def from_file(cls, path: Path) -> Config{n}:
        """Read the file, leaving out what this part does not know."""
        raw: dict[str, Any] = json.loads(path.read_text())
        known = {{name: value for name, value in raw.items() if name in cls.__dataclass_fields__}}
        unknown = sorted(set(raw) - set(known))
        if unknown:
            logger.warning("%s: ignoring %s", path, ", ".join(unknown))
        return cls(**known)
'''

CHECKPOINT: Final = '''

RENAMED{n}: dict[str, str] = {{
    "attention.query_key_value.weight": "wqkv",
    "attention.dense.weight": "wo",
    "mlp.dense_h_to_4h.weight": "w1",
    "mlp.dense_4h_to_h.weight": "w2",
    "input_layernorm.weight": "norm.weight",
}}


def renamed(names: Sequence[str], prefix: str = "layers.") -> Iterator[tuple[str, str]]:
    """Pairs of a name in the checkpoint and one in this model; others are logged and left out."""
    for name in names:
        if not name.startswith(prefix):
            logger.info("not of this part: %s", name)
            continue
        number, _, rest = name.removeprefix(prefix).partition(".")
        new = RENAMED{n}.get(rest)
        if new is None or not number.isdigit():
            logger.warning("cannot place %s", name)
            continue
        yield name, f"{{prefix}}{{int(number)}}.{{new}}"


def shards_of(folder: Path) -> dict[int, list[Path]]:
    """The files of a checkpoint by rank."""
    found: dict[int, list[Path]] = {{}}
    for path in sorted(folder.glob("*.pt")):
        rank = path.stem.rpartition("_")[2]
        if rank.isdigit():
            found.setdefault(int(rank), []).append(path)
    missing = [rank for rank in range(max(found, default=-1) + 1) if rank not in found]
    if missing:
        raise FileNotFoundError(f"{{folder}}: no files of the ranks {{missing}}")
    return found
'''

SCHEDULE: Final = '''

@dataclass(frozen=True)
class Schedule{n}:
    """Learning rate: linear warm-up, then half a cosine."""

    peak: float = 3e-4
    floor: float = 3e-5
    warmup: int = 2000
    steps: int = 100_000

    def at(self, step: int) -> float:
        if step < self.warmup:
            return self.peak * (step + 1) / self.warmup
        if step >= self.steps:
            return self.floor
        done = (step - self.warmup) / max(1, self.steps - self.warmup)
        return self.floor + 0.5 * (self.peak - self.floor) * (1.0 + math.cos(math.pi * done))

    def table(self, points: int = 10) -> list[tuple[int, float]]:
        every = max(1, self.steps // points)
        return [(step, self.at(step)) for step in range(0, self.steps, every)]


def groups{n}(names: Sequence[str], decay: float) -> list[dict[str, object]]:
    """Parameter groups: no weight decay on norms and biases."""
    plain: list[str] = []
    decayed: list[str] = []
    for name in names:
        if name.endswith("bias") or "norm" in name:
            plain.append(name)
        else:
            decayed.append(name)
    logger.info("%d parameters with weight decay, %d without", len(decayed), len(plain))
    return [{{"names": decayed, "weight_decay": decay}}, {{"names": plain, "weight_decay": 0.0}}]
'''

COUNTS: Final = '''

def parameters{n}(config: Config{n}) -> dict[str, int]:
    """How many parameters each kind of layer has."""
    attention = 4 * config.hidden_size * config.hidden_size
    feed_forward = 3 * config.hidden_size * config.ffn_size
    norms = 2 * config.hidden_size
    counts = {{"attention": attention, "feed_forward": feed_forward, "norm": norms}}
    return {{name: config.num_layers * count for name, count in counts.items()}}


def operations{n}(config: Config{n}, length: int, batch: int = 1) -> int:
    """Multiplications and additions of a step, forward and backward."""
    per_token = 2 * sum(parameters{n}(config).values())
    scores = 2 * config.num_layers * config.hidden_size * length
    return 3 * batch * length * (per_token + scores)


def summary{n}(config: Config{n}, length: int) -> str:
    """A table for the log."""
    counts = parameters{n}(config)
    width = max(len(name) for name in counts)
    rows = [f"{{name:<{{width}}}}  {{count:>12,}}" for name, count in sorted(counts.items())]
    rows.append(f"{{'total':<{{width}}}}  {{sum(counts.values()):>12,}}")
    rows.append(f"{{operations{n}(config, length) / 1e12:.1f}} TFLOP a step of {{length}} tokens")
    return "\\n".join(rows)
'''

LOG: Final = '''

@dataclass
class Log{n}:
    """Means of what is measured, over a window of steps."""

    every: int = 50
    window: int = 200
    values: dict[str, list[float]] = field(default_factory=dict)

    def add(self, step: int, measured: Mapping[str, float]) -> None:
        for name, value in measured.items():
            if math.isnan(value):
                raise FloatingPointError(f"{{name}} is not a number at step {{step}}")
            kept = self.values.setdefault(name, [])
            kept.append(value)
            del kept[: -self.window]
        if step % self.every == 0:
            logger.info("step %d: %s", step, ", ".join(self.shown()))

    def shown(self) -> Iterator[str]:
        for name, values in sorted(self.values.items()):
            if values:
                yield f"{{name}} {{sum(values) / len(values):.4g}}"

    def save(self, path: Path) -> None:
        try:
            path.write_text(json.dumps(self.values, indent=1))
        except OSError as error:
            logger.error("cannot write %s: %s", path, error)
'''

DATA: Final = '''

@dataclass(frozen=True)
class Document{n}:
    """Where the tokens of one document lie in a file."""

    path: Path
    offset: int
    length: int

    @property
    def end(self) -> int:
        return self.offset + self.length


def documents{n}(index: Path) -> Iterator[Document{n}]:
    """The documents that an index lists, one a line: file, offset, length."""
    for number, line in enumerate(index.read_text().splitlines(), 1):
        fields = line.split("\\t")
        if not line or line.startswith("#"):
            continue
        if len(fields) != 3:
            raise ValueError(f"{{index}}, line {{number}}: {{len(fields)}} fields in place of 3")
        name, offset, length = fields
        yield Document{n}(index.parent / name, int(offset), int(length))


def packed{n}(documents: Sequence[Document{n}], length: int) -> list[list[Document{n}]]:
    """Documents put together into sequences of at most ``length`` tokens, the longest first."""
    open_ones: list[tuple[int, list[Document{n}]]] = []
    full: list[list[Document{n}]] = []
    for document in sorted(documents, key=lambda d: d.length, reverse=True):
        for at, (free, members) in enumerate(open_ones):
            if document.length <= free:
                members.append(document)
                open_ones[at] = (free - document.length, members)
                break
        else:
            open_ones.append((length - document.length, [document]))
        while open_ones and open_ones[0][0] <= 0:
            full.append(open_ones.pop(0)[1])
    return full + [members for _, members in open_ones]


def shares{n}(packed: Sequence[Sequence[Document{n}]], ranks: int) -> dict[int, list[int]]:
    """Which sequences each rank reads, by their numbers."""
    share: dict[int, list[int]] = {{rank: [] for rank in range(ranks)}}
    for number, members in enumerate(packed):
        if members:
            share[number % ranks].append(number)
    shortest = min((len(numbers) for numbers in share.values()), default=0)
    return {{rank: numbers[:shortest] for rank, numbers in share.items()}}
'''

OPTIONS: Final = '''

def options{n}() -> argparse.ArgumentParser:
    """The options of the command that trains this part alone."""
    parser = argparse.ArgumentParser(prog="train-part{n}", description=__doc__)
    parser.add_argument("--config", type=Path, required=True, help="the config.json of the checkpoint")
    parser.add_argument("--index", type=Path, help="the documents to train on")
    parser.add_argument("--steps", type=int, default=1000, metavar="N")
    parser.add_argument("--batch", type=int, default=8, metavar="N", help="sequences a step, on all ranks")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--resume", action="store_true", help="go on from the last checkpoint")
    return parser


def settings{n}(arguments: Sequence[str], environment: Mapping[str, str]) -> dict[str, int | str]:
    """The settings of a run: options first, then the variables that the launcher sets."""
    given = options{n}().parse_args(list(arguments))
    ranks, rank = int(environment.get("WORLD_SIZE", "1")), int(environment.get("RANK", "0"))
    if given.batch % ranks:
        raise SystemExit(f"--batch {{given.batch}} cannot be divided by {{ranks}} ranks")
    config = Config{n}.from_file(given.config)
    found: dict[str, int | str] = {{"rank": rank, "ranks": ranks, "batch": given.batch // ranks}}
    found.update(steps=given.steps, seed=given.seed + rank, name=f"{{given.config.stem}}-{{config.num_layers}}")
    if given.index is not None:
        found["documents"] = sum(1 for _ in documents{n}(given.index))
    for name, value in sorted(found.items()):
        logger.info("%s = %s", name, value)
    return found
'''

_AROUND: Final = (CHECKPOINT, SCHEDULE, COUNTS, LOG, DATA, OPTIONS)
_SMALLEST: Final = 10  # lines of a module that counts


def module_text(n: int, modules: int, dense: bool = False) -> str:
    """Module ``n`` of a tree of ``modules``: its own layers, and a model that also runs the models of its children."""
    children = [c for c in (2 * n + 1, 2 * n + 2) if c < modules]
    imports = "".join(f"from project.m{c} import Config{c}, Model{c}\n" for c in children)
    parts = "".join(f"        self.part{c} = Model{c}(Config{c}(), ranks)\n" for c in children)
    calls = "".join(f"        x = x + self.part{c}(x)\n" for c in children)
    layer, what = (ATTENTION, "attention") if n % 2 == 0 else (FEED_FORWARD, "feed-forward")
    header = HEADER.replace("\nlogger =", f"{imports}\nlogger =") if imports else HEADER
    steps = LONGHAND if dense else SHORT
    texts = (header, CONFIG, NORM, layer, *_AROUND, MODEL)
    return "".join(text.format(n=n, what=what, parts=parts, calls=calls, **steps) for text in texts)


def write_project(folder: Path, modules: int, dense: bool = False) -> int:
    """Write the project as the package ``project``; returns the number of lines."""
    package = folder / "project"
    package.mkdir(parents=True)
    (package / "__init__.py").write_text("")
    lines = 0
    for n in range(modules):
        text = module_text(n, modules, dense)
        lines += text.count("\n")
        (package / f"m{n}.py").write_text(text)
    return lines


class _Expressions(ast.NodeVisitor):
    """Counts calls, operators and indexings in functions that take tensors, annotations aside."""

    def __init__(self) -> None:
        self.count = 0
        self._inside = False

    def visit_FunctionDef(self, node: ast.FunctionDef) -> None:
        before, self._inside = self._inside, self._inside or "Tensor" in ast.unparse(node.args)
        for statement in node.body:
            self.visit(statement)
        self._inside = before

    def visit_AnnAssign(self, node: ast.AnnAssign) -> None:
        if node.value is not None:
            self.visit(node.value)

    def generic_visit(self, node: ast.AST) -> None:
        self.count += self._inside and isinstance(node, ast.Call | ast.BinOp | ast.Subscript)
        super().generic_visit(node)


def expressions(text: str) -> int:
    """How many tensor expressions a module has; an upper bound, since not all in such functions are of tensors."""
    counter = _Expressions()
    counter.visit(ast.parse(text))
    return counter.count


def density(folder: Path) -> str:
    """How many modules, lines and tensor expressions a folder has, tests and modules under ten lines aside."""
    texts = [path.read_text() for path in folder.rglob("*.py") if "test" not in path.name]
    texts = [text for text in texts if text.count("\n") >= _SMALLEST]
    lines, found = sum(text.count("\n") for text in texts), sum(map(expressions, texts))
    return (
        f"{len(texts)} modules, {lines} lines, {found} tensor expressions: "
        f"{found / len(texts):.0f} a module, {100 * found / lines:.1f} in a hundred lines"
    )


if __name__ == "__main__":
    print(density(Path(sys.argv[1])))
