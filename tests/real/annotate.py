"""Put SPMD types into a file of somebody else's, by name: nothing of the file itself is kept here.

``annotate`` gives functions' parameters and results, and classes' attributes, the types that a table says; ``Edit``s
change single lines where a type alone does not do.  Everything is checked to be there, so that another version of the
package fails with a sentence instead of testing less.
"""

from __future__ import annotations

import ast
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

RETURN = "return"


@dataclass(frozen=True)
class Edit:
    """Replace what ``pattern`` matches; it must match ``count`` times."""

    pattern: str
    replacement: str
    count: int = 1


@dataclass(frozen=True)
class Mutation:
    """A seeded bug in the annotated file, and the error code that must be reported for it."""

    name: str
    edit: Edit
    code: str


@dataclass(frozen=True)
class Case:
    """One file of a package, how it is annotated, and bugs to seed into it."""

    package: str
    file: str
    imports: str
    signatures: Mapping[str, Mapping[str, str]]
    attributes: Mapping[str, Mapping[str, str]] = field(default_factory=dict)
    edits: Sequence[Edit] = ()
    mutations: Sequence[Mutation] = ()


class DoesNotFit(AssertionError):
    """The file is not the one that the annotations were written for."""


def apply(text: str, edit: Edit) -> str:
    """``text`` with one edit made."""
    changed, count = re.subn(edit.pattern, edit.replacement, text, flags=re.MULTILINE)
    if count != edit.count:
        raise DoesNotFit(f"{edit.pattern!r} is there {count} times, not {edit.count}")
    return changed


def annotate(text: str, case: Case) -> str:
    """The file with its types, attributes and imports."""
    tree = ast.parse(text)
    functions, classes = _definitions(tree)
    insertions: list[tuple[int, int, str]] = []
    for name, types in case.signatures.items():
        if name not in functions:
            raise DoesNotFit(f"there is no function {name}")
        insertions.extend(_signature(text, functions[name], types))
    for name, attributes in case.attributes.items():
        if name not in classes:
            raise DoesNotFit(f"there is no class {name}")
        first = classes[name].body[0]
        decorators = getattr(first, "decorator_list", [])
        start = _offset(text, min(node.lineno for node in (first, *decorators)), 0)
        lines = "".join(f"    {attribute}: {declared}\n" for attribute, declared in attributes.items())
        insertions.append((start, start, lines))
    start = _offset(text, next(n.lineno for n in tree.body if isinstance(n, (ast.Import, ast.ImportFrom))), 0)
    insertions.append((start, start, f"from __future__ import annotations\n{case.imports}\n"))
    for start, end, new in sorted(insertions, reverse=True):
        text = text[:start] + new + text[end:]
    for edit in case.edits:
        text = apply(text, edit)
    return text


def _definitions(tree: ast.Module) -> tuple[dict[str, ast.FunctionDef], dict[str, ast.ClassDef]]:
    functions: dict[str, ast.FunctionDef] = {}
    classes: dict[str, ast.ClassDef] = {}
    todo: list[tuple[str, ast.stmt]] = [("", node) for node in tree.body]
    for prefix, node in todo:
        if isinstance(node, ast.FunctionDef):
            functions[prefix + node.name] = node
        elif isinstance(node, ast.ClassDef):
            classes[prefix + node.name] = node
            todo.extend((f"{prefix}{node.name}.", inner) for inner in node.body)
    return functions, classes


def _signature(text: str, function: ast.FunctionDef, types: Mapping[str, str]) -> list[tuple[int, int, str]]:
    """What to replace: start, end and new text."""
    arguments = function.args
    by_name = {a.arg: a for a in (*arguments.posonlyargs, *arguments.args, *arguments.kwonlyargs)}
    found = []
    for name, declared in types.items():
        if name == RETURN:
            found.append(_result(text, function, declared))
        elif name not in by_name:
            raise DoesNotFit(f"{function.name} has no parameter {name}")
        else:
            found.append(_parameter(text, by_name[name], declared))
    return found


def _parameter(text: str, argument: ast.arg, declared: str) -> tuple[int, int, str]:
    old = argument.annotation
    if old is not None:
        return _start(text, old), _end(text, old), declared
    end = _end(text, argument)
    return end, end, f": {declared}"


def _result(text: str, function: ast.FunctionDef, declared: str) -> tuple[int, int, str]:
    if function.returns is not None:
        return _start(text, function.returns), _end(text, function.returns), declared
    arguments = function.args
    last = max(
        (_end(text, node) for node in ast.walk(arguments) if isinstance(node, (ast.arg, ast.expr))),
        default=_start(text, function),
    )
    closing = re.compile(r"\)(?=\s*:)").search(text, last)
    if closing is None:
        raise DoesNotFit(f"cannot find the end of the parameters of {function.name}")
    return closing.end(), closing.end(), f" -> {declared}"


def _offset(text: str, line: int, column: int) -> int:
    lines = text.splitlines(keepends=True)
    before = sum(len(part) for part in lines[: line - 1])
    return before + len(lines[line - 1].encode()[:column].decode())


def _start(text: str, node: ast.expr | ast.arg | ast.FunctionDef) -> int:
    return _offset(text, node.lineno, node.col_offset)


def _end(text: str, node: ast.expr | ast.arg) -> int:
    assert node.end_lineno is not None and node.end_col_offset is not None
    return _offset(text, node.end_lineno, node.end_col_offset)
