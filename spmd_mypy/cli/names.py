"""Names in the configuration that name nothing: own axes, groups, rules, and the parameters that rules speak of.

The plugin meets a name only where code uses it, and what is misspelled is never used.  Here the modules are
looked up as mypy looks them up, and read without being run.  Where a module leaves open what it holds, nothing is said.
"""

from __future__ import annotations

import ast
import difflib
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final, TypeAlias

from spmd_mypy.cli import settings as reader
from spmd_mypy.cli.finding import Finding, Level, shown
from spmd_mypy.cli.settings import Settings
from spmd_mypy.config import Config, ConfigError, load

Definition: TypeAlias = ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef
_FUNCTIONS: Final = (ast.FunctionDef, ast.AsyncFunctionDef)
# Decorators that leave the parameters as they are; behind any other they may be others.
_HARMLESS: Final = frozenset(
    {"overload", "staticmethod", "classmethod", "custom_op", "compile", "script", "no_grad", "jit"}
)
_MOST_IMPORTS: Final = 5  # followed from one module to the next


@dataclass(frozen=True, slots=True)
class Wrong:
    """What is wrong with a name: a sentence's end, and what to do; ``certain`` unless a module was not found."""

    text: str
    advice: str
    certain: bool = True


@dataclass(frozen=True, slots=True)
class Module:
    """A module's top level: its definitions, what it imports from where, and whether that is all it holds."""

    definitions: Mapping[str, list[Definition]]
    imported: Mapping[str, str]
    others: frozenset[str]
    closed: bool

    @property
    def names(self) -> list[str]:
        """All names that are known to be there."""
        return [*self.definitions, *self.imported, *self.others]


def names(settings: Settings) -> Iterator[Finding]:
    """The names of the configuration that name nothing."""
    for finding, _ in _found(settings):
        yield finding


def certain(settings: Settings) -> Iterator[Finding]:
    """Those of which there is no doubt, whatever is checked."""
    for finding, wrong in _found(settings):
        if wrong.certain:
            yield finding


def _found(settings: Settings) -> Iterator[tuple[Finding, Wrong]]:
    try:
        config = load(settings.config_file)
    except ConfigError:
        return  # the finding `configuration`
    file, section = shown(settings.config_file), "tool.spmd-mypy" if _is_toml(settings) else "spmd-mypy"
    search = _Search(settings)
    for key, name, roles in _named(config):
        wrong = search.wrong(name, roles, is_axis=key == "axes")
        if wrong is not None:
            level: Level = "problem" if wrong.certain or key == "axes" else "warning"
            yield Finding(level, "names", f"{file}: [{section}] {key}: {name}: {wrong.text}", wrong.advice), wrong


def _is_toml(settings: Settings) -> bool:
    return (settings.config_file or "").endswith(".toml")


def _named(config: Config) -> Iterator[tuple[str, str, Mapping[str, Any]]]:
    """Key, dotted path and, for a rule, its roles."""
    for axis in config.axes:
        if not axis.is_builtin:
            yield "axes", axis.fullname, {}
    for name in config.groups:
        yield "groups", name, {}
    for name, roles in config.rules.items():
        yield "rules", name, roles


class _Search:
    """Looks names up in modules as mypy finds them."""

    def __init__(self, settings: Settings) -> None:
        self.find: Callable[[str], reader.Found | None] = lambda module: reader.find(settings, module)

    def wrong(self, name: str, roles: Mapping[str, Any], *, is_axis: bool) -> Wrong | None:
        """What is wrong with a dotted path and its roles; None where nothing is, or nobody can tell."""
        module, path, rest = self._split(name)
        if module is None or (rest and Path(path).is_dir()):  # the folder is a namespace package, without a file
            return Wrong(
                "mypy does not find its module",
                "correct the path, or leave the entry out: it has no effect",
                certain=False,
            )
        tree = _read(path, module)
        if tree is None or not rest or _is_beside(path, rest[0]):
            return None
        if rest[0] in tree.imported and rest[0] not in tree.definitions:
            return self._elsewhere(tree, rest)
        if rest[0] not in tree.names:
            return _missing(module, rest[0], [*tree.names, *_beside(path)]) if tree.closed else None
        found = tree.definitions.get(rest[0], [])
        if is_axis and found and not any(isinstance(node, ast.ClassDef) and node.bases for node in found):
            return Wrong(f"{rest[0]} is no mesh axis", "name a class that derives from spmd_runtime.MeshAxis")
        return _in_definition(name, found, rest[1:], roles)

    def _split(self, name: str) -> tuple[str | None, str, list[str]]:
        """The longest part of a path that mypy finds as a module, its file, and what is left."""
        parts = name.split(".")
        for i in range(len(parts) - 1, 0, -1):
            found = self.find(".".join(parts[:i]))
            if found is not None and found.path is not None:
                return ".".join(parts[:i]), found.path, parts[i:]
        return None, "", parts

    def _elsewhere(self, tree: Module, rest: list[str]) -> Wrong | None:
        """A name that a module only imports: the plugin knows things by the place where they are defined."""
        target = ".".join([tree.imported[rest[0]], *rest[1:]])
        for _ in range(_MOST_IMPORTS):
            module, path, left = self._split(target)
            found = _read(path, module) if module is not None and left else None
            if found is None:
                return None
            if left[0] in found.definitions:
                return Wrong(f"{rest[0]} is only imported there", f'write the path of its definition, "{target}"')
            if left[0] not in found.imported:
                return None
            target = ".".join([found.imported[left[0]], *left[1:]])
        return None


def _missing(module: str, name: str, known: list[str]) -> Wrong:
    near = difflib.get_close_matches(name, known, 1)
    advice = f"did you mean {module}.{near[0]}?" if near else "correct the path, or leave the entry out"
    return Wrong(f"there is no {name} in {module}", advice)


def _in_definition(name: str, found: list[Definition], rest: list[str], roles: Mapping[str, Any]) -> Wrong | None:
    """The rest of the path inside a class, and the roles' parameters in a function."""
    if rest:
        cls = found[0] if len(found) == 1 and isinstance(found[0], ast.ClassDef) else None
        if cls is None or len(rest) > 1:
            return None
        inner = _module(cls.body)
        known = [*inner.names, *_assigned(cls)]
        if rest[0] not in known and inner.closed and not _is_open(cls):
            return _missing(name.rpartition(".")[0], rest[0], known)
        found = inner.definitions.get(rest[0], [])
    functions = [node for node in found if isinstance(node, _FUNCTIONS)]
    if not roles or not functions or len(functions) != len(found) or not all(map(_is_plain, functions)):
        return None
    if any(function.args.kwarg for function in functions):
        return None
    known = [a.arg for function in functions for a in _parameters(function)]
    for role, given in roles.items():
        for parameter in [given] if isinstance(given, str) else given if isinstance(given, list) else []:
            if isinstance(parameter, str) and parameter.isidentifier() and parameter not in known:
                return _no_parameter(name, role, parameter, list(dict.fromkeys(known)))
    return None


def _assigned(cls: ast.ClassDef) -> list[str]:
    """The attributes that methods set: ``self.group = ...``."""
    return [n.attr for n in ast.walk(cls) if isinstance(n, ast.Attribute) and isinstance(n.ctx, ast.Store)]


def _is_open(cls: ast.ClassDef) -> bool:
    """Whether a class may have names from elsewhere."""
    return bool(cls.bases or cls.keywords or cls.decorator_list) or any(map(_is_dynamic, cls.body))


def _no_parameter(name: str, role: str, parameter: str, known: list[str]) -> Wrong:
    near = difflib.get_close_matches(parameter, known, 1)
    has = f"it has {', '.join(known)}" if known else "it has none"
    text = f"{role} names {parameter}, which is no parameter of {name.rpartition('.')[2]}"
    return Wrong(text, f"did you mean {near[0]}? {has}" if near else f"{has}; correct the name")


def _is_plain(function: ast.FunctionDef | ast.AsyncFunctionDef) -> bool:
    """Whether the parameters are those that its caller sees."""
    nodes = [d.func if isinstance(d, ast.Call) else d for d in function.decorator_list]
    return all(getattr(n, "attr", getattr(n, "id", "")) in _HARMLESS for n in nodes)


def _parameters(function: ast.FunctionDef | ast.AsyncFunctionDef) -> list[ast.arg]:
    arguments = function.args
    rest = [arguments.vararg] if arguments.vararg else []
    return [*arguments.posonlyargs, *arguments.args, *rest, *arguments.kwonlyargs]


# ---- a module's top level


def _beside(path: str) -> list[str]:
    """What lies in the folder of a package, and may be one of its modules."""
    if Path(path).stem != "__init__":
        return []
    return sorted({inner.name.partition(".")[0] for inner in Path(path).parent.iterdir() if inner.name[0] not in "._"})


def _is_beside(path: str, name: str) -> bool:
    """Whether a package has something by that name that mypy does not find as a module, such as a binary."""
    return Path(path).stem == "__init__" and any(
        p.name.partition(".")[0] == name for p in Path(path).parent.glob(f"{name}*")
    )


def _read(path: str, module: str) -> Module | None:
    """The module in a file; None for a folder, and for what cannot be parsed."""
    package = module if Path(path).stem == "__init__" else module.rpartition(".")[0]
    try:
        return _module(ast.parse(Path(path).read_text(encoding="utf-8")).body, package)
    except (OSError, UnicodeDecodeError, SyntaxError, ValueError):
        return None


def _module(body: list[ast.stmt], package: str = "") -> Module:
    """What a body of statements defines; ``package`` is where relative imports start."""
    definitions: dict[str, list[Definition]] = {}
    imported: dict[str, str] = {}
    others: set[str] = set()
    closed = True
    for node in _statements(body):
        if isinstance(node, Definition):
            definitions.setdefault(node.name, []).append(node)
            closed = closed and node.name != "__getattr__"
        elif isinstance(node, ast.ImportFrom):
            closed = closed and not any(alias.name == "*" for alias in node.names)
            source = _source(node, package)
            imported.update({alias.asname or alias.name: f"{source}.{alias.name}" for alias in node.names})
        elif isinstance(node, ast.Import):
            others.update(alias.asname or alias.name.partition(".")[0] for alias in node.names)
        else:
            others.update(_bound(node))
            closed = closed and not _is_dynamic(node)
    others.update(name for node in body for n in ast.walk(node) if isinstance(n, ast.Global) for name in n.names)
    return Module(definitions, imported, frozenset(others), closed)


def _source(node: ast.ImportFrom, package: str) -> str:
    """The module that a name is imported from."""
    above = package.split(".")[: len(package.split(".")) - node.level + 1] if node.level else []
    return ".".join([*above, *([node.module] if node.module else [])])


def _statements(body: list[ast.stmt]) -> Iterator[ast.stmt]:
    """All statements at the top level, those in branches and loops, too."""
    for node in body:
        yield node
        if not isinstance(node, Definition):
            for name in ("body", "orelse", "finalbody"):
                yield from _statements(getattr(node, name, []))
            for part in (*getattr(node, "handlers", []), *getattr(node, "cases", [])):
                yield from _statements(part.body)


def _bound(node: ast.stmt) -> Iterator[str]:
    """The names that a statement gives a value."""
    for inner in ast.walk(node) if not isinstance(node, ast.If | ast.Try | ast.While | ast.Match) else ():
        if isinstance(inner, ast.Name) and isinstance(inner.ctx, ast.Store):
            yield inner.id


def _is_dynamic(node: ast.stmt) -> bool:
    """Whether a statement may bring names that nobody can read off: ``globals()``, ``exec``, ``setattr``."""
    called = [inner.func for inner in ast.walk(node) if isinstance(inner, ast.Call)]
    return any(isinstance(f, ast.Name) and f.id in ("globals", "exec", "setattr", "vars", "locals") for f in called)
