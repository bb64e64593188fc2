"""Code to mutate: the examples, the marked modules of the plugin's tests, and classes and functions of torch's own.

Torch's sources are those of the installed package; nothing of them is kept here.  A piece is small (the examples are
taken whole), so that many mutants are checked in little time.
"""

from __future__ import annotations

import ast
import importlib.util
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Final

from tests.mypy_runner import PRELUDE, ROOT

_FOLDERS: Final = ("examples", "tests/plugin/core", "tests/plugin/flow", "tests/plugin/modules")
_MORE_FOLDERS: Final = ("tests/plugin/functions", "tests/plugin/autograd", "tests/plugin/configurations")
_TORCH: Final = (
    *("torch.nn.modules.activation", "torch.nn.modules.batchnorm", "torch.nn.modules.container"),
    *("torch.nn.modules.linear", "torch.nn.modules.loss", "torch.nn.modules.normalization"),
    *("torch.nn.modules.sparse", "torch.nn.modules.transformer", "torch.utils.checkpoint"),
    *("torch.distributed.nn.functional", "torch.distributed._functional_collectives"),
    *("torch.distributed.tensor.parallel.loss", "torch.optim.sgd", "torch.nn.utils.clip_grad"),
)
_SMALLEST, _LARGEST = 5, 250  # lines


@dataclass(frozen=True)
class Piece:
    """A module's text to be mutated: where it is from, and what stands before it in every mutant."""

    origin: str
    text: str
    prelude: str = ""


@cache
def pieces() -> tuple[Piece, ...]:
    """Everything, in a fixed order."""
    own = [p for folder in (*_FOLDERS, *_MORE_FOLDERS) for p in sorted((ROOT / folder).rglob("*.py"))]
    found = [Piece(str(path.relative_to(ROOT)), path.read_text()) for path in own if path.name != "__init__.py"]
    for module in _TORCH:
        found.extend(_of_torch(module))
    return tuple(found)


def _of_torch(module: str) -> Iterator[Piece]:
    """Each class and function of a module of torch's, with the module's imports before it."""
    spec = importlib.util.find_spec(module)
    if spec is None or spec.origin is None:
        return
    tree = ast.parse(Path(spec.origin).read_text())
    package = module.rpartition(".")[0]
    imports = [_absolute(node, package) for node in tree.body if isinstance(node, (ast.Import, ast.ImportFrom))]
    future = [node for node in imports if isinstance(node, ast.ImportFrom) and node.module == "__future__"]
    text = "\n".join(ast.unparse(node) for node in imports if node not in future)
    for node in tree.body:
        if isinstance(node, (ast.ClassDef, ast.FunctionDef)) and _SMALLEST <= _lines(node) <= _LARGEST:
            yield Piece(f"{module}.{node.name}", ast.unparse(_Bare().visit(node)), f"{PRELUDE}{text}\n")


def _lines(node: ast.stmt) -> int:
    return (node.end_lineno or node.lineno) - node.lineno


def _absolute(node: ast.Import | ast.ImportFrom, package: str) -> ast.Import | ast.ImportFrom:
    if isinstance(node, ast.ImportFrom) and node.level:
        parts = package.split(".")
        base = parts[: len(parts) - node.level + 1]
        return ast.ImportFrom(".".join([*base, *filter(None, [node.module])]), node.names, 0)
    return node


class _Bare(ast.NodeTransformer):
    """Takes docstrings out: they would be most of the text."""

    def visit_Expr(self, node: ast.Expr) -> ast.AST:
        is_text = isinstance(node.value, ast.Constant) and isinstance(node.value.value, str)
        return ast.Pass() if is_text else node
