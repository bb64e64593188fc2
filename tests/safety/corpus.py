"""The odd code in ``odd/*.txt``: snippets under headings ``#: what it is``, each of which becomes a module."""

from __future__ import annotations

import ast
from dataclasses import dataclass
from pathlib import Path

from tests.mypy_runner import PRELUDE

ODD = Path(__file__).parent / "odd"
PLAIN = Path(__file__).parent / "plain" / "ordinary.txt"
HEADING = "#: "
# What an annotation of ours is without the plugin: torch's own class.
PLAIN_PRELUDE = """\
from __future__ import annotations
from typing import Any, Literal
import torch
import torch.distributed as dist
import torch.nn as nn
import torch.nn.functional as F
from torch import Tensor
from torch.nn import Buffer, Parameter
"""


@dataclass(frozen=True)
class Snippet:
    """A piece of odd code: the file it stands in, its heading and its text."""

    file: str
    number: int
    title: str
    text: str

    @property
    def module(self) -> str:
        """The file name of the module it becomes."""
        return f"odd_{self.file}_{self.number:03}.py"

    @property
    def source(self) -> str:
        """The module's text, its heading first."""
        return f"# {self.title}\n{PRELUDE}{self.text}"


def snippets() -> list[Snippet]:
    """Every snippet, in the order of files and lines."""
    found = []
    for path in sorted(ODD.glob("*.txt")):
        for number, part in enumerate(path.read_text().split(f"\n{HEADING}"), 1):
            title, _, text = part.removeprefix(HEADING).partition("\n")
            found.append(Snippet(path.stem, number, title, text.rstrip("\n") + "\n"))
    return found


class _Erase(ast.NodeTransformer):
    """Takes the layouts out: ``Tensor[...]`` becomes ``Tensor``, ``Group[...]`` torch's process group.

    Expressions that stand as statements get a ``reveal_type``, so that not only errors but types are compared.
    """

    def visit_Subscript(self, node: ast.Subscript) -> ast.AST:
        self.generic_visit(node)
        if isinstance(node.value, ast.Name) and node.value.id in {"Tensor", "Parameter", "Buffer"}:
            return node.value
        if isinstance(node.value, ast.Name) and node.value.id == "Group":
            return ast.parse("dist.ProcessGroup", mode="eval").body
        return node

    def visit_Constant(self, node: ast.Constant) -> ast.AST:
        if isinstance(node.value, str) and "Tensor[" in node.value:
            return ast.Constant("Tensor")
        return node

    def visit_Expr(self, node: ast.Expr) -> ast.AST:
        self.generic_visit(node)
        if not isinstance(node.value, (ast.Yield, ast.YieldFrom, ast.Await, ast.Constant, ast.NamedExpr, ast.Starred)):
            node.value = ast.Call(ast.Name("reveal_type", ast.Load()), [node.value], [])
        return node


def erased(snippet: Snippet) -> str | None:
    """The snippet as a module without SPMD types; None where nothing is left or this Python cannot parse it."""
    try:
        tree = ast.parse(snippet.text)
    except SyntaxError:
        return None
    text = ast.unparse(ast.fix_missing_locations(_Erase().visit(tree)))
    names = {node.id for node in ast.walk(ast.parse(text)) if isinstance(node, ast.Name)}
    if names & {"spmd", "TP", "DP", "CP", "R", "I", "V", "P", "S", "Group"} or "spmd" in text:
        return None
    return f"# {snippet.title}\n{PLAIN_PRELUDE}{text}\n"
