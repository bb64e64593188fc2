"""The signatures of torch's callables, read from its stub files as a type checker reads them (nothing is imported).

``overloads("torch.add")``, ``overloads("Tensor.add_")``, ``overloads("torch.nn.functional.pad")``, ... give the formal
parameters; ``bind`` puts the arguments of a call in their places.  ``torch.linalg``, ``torch.fft`` and
``torch.special`` have no stubs: there the first line of the documentation says it.
"""

from __future__ import annotations

import ast
import importlib.util
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cache
from pathlib import Path


@dataclass(frozen=True)
class Formal:
    """A formal parameter; ``kind`` is "positional", "keyword" (only) or "star"."""

    name: str
    kind: str
    annotation: str
    required: bool

    @property
    def takes_tensor(self) -> bool:
        """Whether tensors may be given here, as far as the stub says."""
        if not self.annotation or self.annotation in ("Any", "_Any", "ParamSpec"):
            return not self.name.startswith("_")
        return "Tensor" in self.annotation and "TensorType" not in self.annotation

    @property
    def only_tensor(self) -> bool:
        """Whether nothing but tensors may be given here."""
        return self.annotation in ("Tensor", "torch.Tensor")


@dataclass(frozen=True)
class Signature:
    """One overload."""

    formals: tuple[Formal, ...]
    returns: str


def torch_folder() -> Path:
    """The installed torch, unimported."""
    spec = importlib.util.find_spec("torch")
    assert spec is not None and spec.origin is not None
    return Path(spec.origin).parent


def _text(node: ast.expr | None) -> str:
    return ast.unparse(node) if node is not None else ""


def _signature(node: ast.FunctionDef) -> Signature:
    arguments = node.args
    formals = []
    plain = [*arguments.posonlyargs, *arguments.args]
    first_default = len(plain) - len(arguments.defaults)
    for at, item in enumerate(plain):
        formals.append(Formal(item.arg, "positional", _text(item.annotation), at < first_default))
    if arguments.vararg:
        formals.append(Formal(arguments.vararg.arg, "star", _text(arguments.vararg.annotation), False))
    for item, default in zip(arguments.kwonlyargs, arguments.kw_defaults, strict=True):
        formals.append(Formal(item.arg, "keyword", _text(item.annotation), default is None))
    return Signature(tuple(formals), _text(node.returns))


@cache
def _functions(file: str, klass: str = "") -> dict[str, tuple[Signature, ...]]:
    path = torch_folder() / file
    body: list[ast.stmt] = ast.parse(path.read_text()).body
    if klass:
        body = next(node.body for node in body if isinstance(node, ast.ClassDef) and node.name == klass)
    found: dict[str, list[ast.FunctionDef]] = {}
    for node in _static(body):
        if isinstance(node, ast.FunctionDef):
            found.setdefault(node.name, []).append(node)
    signatures = {}
    for name, nodes in found.items():
        overloaded = [node for node in nodes if any("overload" in _text(mark) for mark in node.decorator_list)]
        signatures[name] = tuple(_signature(node) for node in overloaded or nodes[-1:])
    return signatures


def _static(body: list[ast.stmt]) -> Iterator[ast.stmt]:
    """The statements that a type checker sees."""
    for node in body:
        if isinstance(node, ast.If):
            yield from _static(node.body if "TYPE_CHECKING" in _text(node.test) else node.orelse)
        else:
            yield node


_TORCH = ("_C/_VariableFunctions.pyi", "functional.py", "__init__.py", "_lowrank.py", "_linalg_utils.py", "_lobpcg.py")


@cache
def _documented(module: str) -> dict[str, tuple[Signature, ...]]:
    import importlib  # noqa: PLC0415  (these modules have no stubs; their documentation is in the live objects)

    found = {}
    for name, value in vars(importlib.import_module(module)).items():
        if name.startswith("_") or not callable(value) or not value.__doc__:
            continue
        for line in value.__doc__.strip().splitlines():
            text = line.strip().removeprefix("torch.").removeprefix("linalg.").removeprefix("special.")
            if text.startswith(name + "(") and ")" in text:
                found[name] = _from_documentation(text)
                break
    return found


def _from_documentation(text: str) -> tuple[Signature, ...]:
    head, _, returns = text.partition("->")
    head = head.strip()
    try:
        tree = ast.parse(f"def {head[: head.rindex(')') + 1]}: ...").body[0]
    except SyntaxError:
        return ()
    assert isinstance(tree, ast.FunctionDef)
    return (_signature(tree),)


# Where a module's functions have their signatures, the first file that has the name counts.
_FILES = {
    "Tensor": (("_tensor.py", "Tensor"), ("_C/__init__.pyi", "TensorBase")),
    "torch": tuple((file, "") for file in _TORCH),
    "torch.nn.functional": (
        ("nn/functional.pyi", ""),
        ("_C/_nn.pyi", ""),
        ("_C/_VariableFunctions.pyi", ""),
        ("nn/functional.py", ""),
    ),
}


@cache
def overloads(op: str) -> tuple[Signature, ...]:
    """All overloads of a callable, named as in ``Call.op``; empty where no signature is found."""
    module, _, name = op.rpartition(".")
    if module in ("torch.linalg", "torch.fft", "torch.special"):
        return _documented(module).get(name, ())
    for file, klass in _FILES.get(module, ()):
        if found := _functions(file, klass).get(name):
            return found
    return () if module in _FILES else _python(module).get(name, ())


def _python(module: str) -> dict[str, tuple[Signature, ...]]:
    path = module.removeprefix("torch.").replace(".", "/")
    for file in (f"{path}.py", f"{path}/__init__.py"):
        if (torch_folder() / file).exists():
            return _functions(file)
    return {}


def tensor_formals(op: str) -> Iterator[Formal]:
    """Every formal parameter, of any overload, that may take tensors."""
    for signature in overloads(op):
        for formal in signature.formals:
            if formal.name == "self" or formal.takes_tensor:
                yield formal


def _accepts(formal: Formal, value: object) -> bool:
    """Whether a value (anything with ``layout`` is a tensor) may stand at a parameter, as far as the stub says."""
    if hasattr(value, "layout"):
        return formal.takes_tensor
    if isinstance(value, (list, tuple)) and any(hasattr(item, "layout") for item in value):
        return formal.takes_tensor or "Any" in formal.annotation
    if formal.only_tensor:
        return False
    if formal.annotation.startswith("_dtype"):
        return value is None or not isinstance(value, (int, str, list, tuple))
    return formal.annotation != "_bool" or not isinstance(value, (int, float)) or isinstance(value, bool)


def _place(signature: Signature, args: list[object], keywords: dict[str, object]) -> list[tuple[str, object]] | None:
    """Each argument with its parameter's name, or None where the signature does not take them."""
    plain = [formal for formal in signature.formals if formal.kind == "positional"]
    star = next((formal for formal in signature.formals if formal.kind == "star"), None)
    names = {formal.name: formal for formal in signature.formals if formal.kind != "star"}
    if len(args) > len(plain) and star is None and not _variadic_last(plain, args):
        return None
    placed: list[tuple[Formal, object]] = []
    for at, value in enumerate(args):
        formal = plain[at] if at < len(plain) else star or plain[-1]
        placed.append((formal, value))
    for name, value in keywords.items():
        if name not in names:
            return None
        placed.append((names[name], value))
    given = {formal.name for formal, _ in placed}
    if any(formal.required and formal.name not in given for formal in signature.formals):
        return None
    if not all(_accepts(formal, value) for formal, value in placed):
        return None
    return [(formal.name, value) for formal, value in placed]


def _variadic_last(plain: list[Formal], args: list[object]) -> bool:
    """``x.view(2, 3)``: torch takes the last sequence of numbers as single arguments too."""
    return bool(plain) and "_size" in plain[-1].annotation and all(isinstance(value, int) for value in args[1:])


def bind(op: str, args: list[object], keywords: dict[str, object]) -> list[tuple[str, object]] | None:
    """Put the arguments of a call in their places, by the first overload that takes them."""
    for signature in overloads(op):
        placed = _place(signature, args, keywords)
        if placed is not None:
            return placed
    return None
