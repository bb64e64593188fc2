"""Seeded changes to a syntax tree: what people leave behind half way through an edit, and what nobody would write."""

from __future__ import annotations

import ast
import copy
import random
import warnings
from collections.abc import Callable
from typing import Final, TypeAlias

from tests.fuzz.corpus import Piece

Change: TypeAlias = Callable[[random.Random, ast.Module], None]

# Annotations and arguments that are right, half right and wrong.
_ANNOTATIONS: Final = (
    *("Tensor[P[TP]]", "Tensor[V[TP]]", "Tensor[R[TP], V[DP]]", "Tensor[I[TP], P[CP]]", "Tensor[S[TP, 0]]", "Tensor"),
    *("Tensor[S[TP, Literal[-1]], V[DP]]", "Parameter[V[TP]]", "Parameter[R[TP]]", "Tensor[P]", "Tensor[Any]"),
    *("Tensor[P[TP], V[TP]]", "Tensor[TP]", "Tensor[()]", "Tensor[P[TP]] | None", "list[Tensor[P[TP]]]", "Tensor[3]"),
    *("tuple[Tensor[R[TP]], ...]", "dict[str, Tensor[V[CP]]]", "Tensor[P[int]]", "Tensor[S[TP]]", "Group[TP]", "Any"),
    *(
        "Group[3]",
        "'Tensor[P[\"TP\"]]'",
        "P[TP]",
        "type[Tensor[P[TP]]]",
        "Tensor[*Ts]",
        "Callable[[Tensor[P[TP]]], Any]",
    ),
)
_EXPRESSIONS: Final = (
    *("None", "...", "()", "[]", "{}", "0", "-1", "True", "1.5", "'tp'", "TP", "P", "R", "S(0)", "lambda *a, **k: a"),
    *("all_reduce(x, TP, dst=R)", "dist.all_reduce(x)", "x[0]", "x.T", "x", "self", "[*x]", "{**x}", "(yield)"),
    *("torch.zeros(2)", "x.backward()", "x.grad", "super()", "[x for x in x]", "(x := x)", "F.gelu", "not x"),
    *("print", "x if x else x"),
    *("spmd.convert(x, 'tp', src=P, dst=R)", "all_gather(x, TP)", "f'{x}'", "x @ x", "x + 1", "await x", "x == x"),
)  # fmt: skip
_STATEMENTS: Final = (
    *("pass", "del x", "x = x", "x += x", "return", "raise", "x, *y = x", "global x", "assert x", "x: int", "break"),
    *("x[0] = x", "self.x = x", "import torch as x", "for x in x: x", "while x: break", "with x as x: x", "continue"),
    *("try:\n    x\nexcept Exception as x:\n    x\nfinally:\n    x", "def x(x=x, *, y): return x", "class x(x): x = x"),
    *("match x:\n    case [x, *y]: x\n    case _: x", "dist.all_reduce(x, group=x, async_op=True)", "x.add_(x)"),
    *("@x\ndef x(): yield x", "x = all_reduce(x, TP, dst=R)", "async def x(): await x", "nonlocal x"),
)  # fmt: skip
_OPERATORS: Final = (ast.Add, ast.Sub, ast.Mult, ast.Div, ast.MatMult, ast.Pow, ast.BitOr, ast.FloorDiv, ast.LShift)
_MOST_CHANGES: Final = 5


def mutant(piece: Piece, seed: int) -> str | None:
    """The text of the piece's mutant number ``seed``; None where the result is no Python."""
    chance = random.Random(f"{piece.origin}:{seed}")
    tree = ast.parse(piece.text)
    for _ in range(chance.randint(1, _MOST_CHANGES)):
        chance.choice(_CHANGES)(chance, tree)
    try:
        future, text = _text(tree)
        source = f"{future}{piece.prelude.replace(future, '') if future else piece.prelude}{text}"
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            compile(source, "<mutant>", "exec")
    except (SyntaxError, ValueError, RecursionError, AttributeError, TypeError):
        return None
    return source


def _text(tree: ast.Module) -> tuple[str, str]:
    """The unparsed tree, what it imports from the future apart."""
    text = ast.unparse(ast.fix_missing_locations(tree))
    line = "from __future__ import annotations\n"
    return (line, text.replace(line, "")) if line in text else ("", text)


# ---- where to change something


def _all(tree: ast.Module, kind: type | tuple[type, ...]) -> list[ast.AST]:
    return [node for node in ast.walk(tree) if isinstance(node, kind)]


def _slots(tree: ast.Module) -> list[tuple[ast.AST, str, int | None]]:
    """Every place that holds an expression which is read: node, field and index."""
    found: list[tuple[ast.AST, str, int | None]] = []
    for node in ast.walk(tree):
        for name, value in ast.iter_fields(node):
            if _is_read(value):
                found.append((node, name, None))
            elif isinstance(value, list):
                found.extend((node, name, i) for i, item in enumerate(value) if _is_read(item))
    return found


def _is_read(value: object) -> bool:
    return isinstance(value, ast.expr) and not isinstance(getattr(value, "ctx", ast.Load()), (ast.Store, ast.Del))


def _put(slot: tuple[ast.AST, str, int | None], value: object) -> None:
    node, name, index = slot
    if index is None:
        setattr(node, name, value)
    else:
        getattr(node, name)[index] = value


def _bodies(tree: ast.Module) -> list[list[ast.stmt]]:
    return [
        body
        for node in ast.walk(tree)
        for name in ("body", "orelse", "finalbody")
        if isinstance(body := getattr(node, name, None), list) and body and isinstance(body[0], ast.stmt)
    ]


def _names(chance: random.Random, tree: ast.Module) -> str:
    """A name that the module uses."""
    names = sorted({node.id for node in ast.walk(tree) if isinstance(node, ast.Name)}) or ["x"]
    return chance.choice(names)


def _parsed(chance: random.Random, tree: ast.Module, text: str) -> ast.Module:
    """Code of the tables, with names of the module in the place of ``x``."""
    made = ast.parse(text)
    for node in ast.walk(made):
        if isinstance(node, ast.Name) and node.id == "x":
            node.id = _names(chance, tree)
    return made


# ---- changes


def _splice(chance: random.Random, tree: ast.Module) -> None:
    """An expression in the place of another."""
    slots = _slots(tree)
    if slots:
        node, name, index = chance.choice(slots)
        found = getattr(node, name) if index is None else getattr(node, name)[index]
        _put(chance.choice(slots), copy.deepcopy(found))


def _expression(chance: random.Random, tree: ast.Module) -> None:
    slots = _slots(tree)
    if slots:
        made = _parsed(chance, tree, chance.choice(_EXPRESSIONS)).body[0]
        assert isinstance(made, ast.Expr)
        _put(chance.choice(slots), made.value)


def _statement(chance: random.Random, tree: ast.Module) -> None:
    body = chance.choice(_bodies(tree))
    body[chance.randint(0, len(body)) :][:0] = []
    body.insert(chance.randint(0, len(body)), _parsed(chance, tree, chance.choice(_STATEMENTS)).body[0])


def _annotate(chance: random.Random, tree: ast.Module) -> None:
    """Annotations of some parameters, results and attributes."""
    chosen = [n for n in _all(tree, (ast.arg, ast.FunctionDef, ast.AnnAssign)) if chance.random() < 0.5]
    for node in chosen:
        made = ast.parse(chance.choice(_ANNOTATIONS), mode="eval").body
        setattr(node, "returns" if isinstance(node, ast.FunctionDef) else "annotation", made)


def _drop(chance: random.Random, tree: ast.Module) -> None:
    body = chance.choice(_bodies(tree))
    body[chance.randrange(len(body))] = ast.Pass()


def _double(chance: random.Random, tree: ast.Module) -> None:
    body = chance.choice(_bodies(tree))
    body.insert(chance.randint(0, len(body)), copy.deepcopy(chance.choice(body)))


def _swap(chance: random.Random, tree: ast.Module) -> None:
    body = chance.choice(_bodies(tree))
    i, j = chance.randrange(len(body)), chance.randrange(len(body))
    body[i], body[j] = body[j], body[i]


def _wrap(chance: random.Random, tree: ast.Module) -> None:
    """A statement within a branch, a loop, a with or a try."""
    body = chance.choice(_bodies(tree))
    at = chance.randrange(len(body))
    templates = (
        *("if x:\n    0", "if x:\n    0\nelse:\n    x", "for x in x:\n    0", "while x:\n    0", "with x:\n    0"),
        *(
            "try:\n    0\nexcept Exception:\n    x",
            "with torch.no_grad():\n    0",
            "def x(x):\n    0",
            "class x:\n    0",
        ),
        *("if TYPE_CHECKING:\n    0", "for _ in range(2):\n    0", "match x:\n    case x:\n        0"),
    )
    outer = _parsed(chance, tree, chance.choice(templates)).body[0]
    inner = _bodies(ast.Module([outer], []))[1]
    inner[0] = body[at]
    body[at] = outer


def _rename(chance: random.Random, tree: ast.Module) -> None:
    names = _all(tree, ast.Name)
    if names:
        node = chance.choice(names)
        assert isinstance(node, ast.Name)
        node.id = _names(chance, tree)


def _attribute(chance: random.Random, tree: ast.Module) -> None:
    nodes = _all(tree, ast.Attribute)
    if nodes:
        first, second = chance.choice(nodes), chance.choice(nodes)
        assert isinstance(first, ast.Attribute) and isinstance(second, ast.Attribute)
        first.attr = second.attr


def _arguments(chance: random.Random, tree: ast.Module) -> None:
    """A call with an argument less, more, starred, by another keyword, or in another place."""
    calls = _all(tree, ast.Call)
    if not calls:
        return
    call = chance.choice(calls)
    assert isinstance(call, ast.Call)
    extra = ast.Name(_names(chance, tree), ast.Load())
    actions: tuple[Callable[[], object], ...] = (
        lambda: call.args and call.args.pop(chance.randrange(len(call.args))),
        lambda: call.args.insert(chance.randint(0, len(call.args)), extra),
        lambda: call.args.append(ast.Starred(extra, ast.Load())),
        lambda: call.keywords.append(ast.keyword(None, extra)),
        lambda: call.keywords.append(
            ast.keyword(chance.choice(["src", "dst", "group", "async_op", "out", "dim"]), extra)
        ),
        lambda: call.keywords and call.keywords.pop(chance.randrange(len(call.keywords))),
        lambda: chance.shuffle(call.args),
    )
    chance.choice(actions)()


def _operator(chance: random.Random, tree: ast.Module) -> None:
    nodes = _all(tree, (ast.BinOp, ast.AugAssign))
    if nodes:
        node = chance.choice(nodes)
        assert isinstance(node, (ast.BinOp, ast.AugAssign))
        node.op = chance.choice(_OPERATORS)()


def _constant(chance: random.Random, tree: ast.Module) -> None:
    nodes = _all(tree, ast.Constant)
    if nodes:
        node = chance.choice(nodes)
        assert isinstance(node, ast.Constant)
        node.value = chance.choice([0, -1, 10**30, 1.5, "tp", "", None, True, b"", ..., 1j])


_CHANGES: Final[tuple[Change, ...]] = (
    *(_splice, _splice, _expression, _expression, _statement, _statement, _annotate, _annotate, _drop, _double, _swap),
    *(_wrap, _rename, _rename, _attribute, _arguments, _arguments, _operator, _constant),
)
