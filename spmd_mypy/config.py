"""``[tool.spmd-mypy]``: what the user configures, read from the file that mypy reads its own configuration from."""

from __future__ import annotations

import configparser
import os
import sys
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from fnmatch import fnmatchcase
from functools import partial
from pathlib import Path
from typing import Any, Final, NamedTuple

from spmd_mypy.fullnames import AXES

if sys.version_info >= (3, 11):
    import tomllib
else:
    import tomli as tomllib

BUILTIN_AXES: Final = ("DP", "FSDP", "CP", "TP", "SP", "EP", "EDP", "ETP", "PP")
CONFIGURATION_VARIABLE: Final = "SPMD_CONFIGURATION"
_DEFAULT_AXES: Final = ("dp", "cp", "tp")
_DEFAULT_REDUCED: Final = ("dp", "fsdp", "cp", "edp")


class ConfigError(Exception):
    """A wrong configuration; the message names file and key and says what is expected."""


class Axis(NamedTuple):
    """A mesh axis: its class's full name, and its own name (the class name in lower case)."""

    fullname: str

    @property
    def cls(self) -> str:
        """The class name, as messages print it: ``TP``."""
        return self.fullname.rpartition(".")[2]

    @property
    def name(self) -> str:
        """The name as a string: ``tp``."""
        return self.cls.lower()

    @property
    def spelled(self) -> str:
        """As the configuration spells it: ``tp``, or the dotted path of a project's own."""
        return self.name if self.is_builtin else self.fullname

    @property
    def shown(self) -> str:
        """As a message names one that is not configured: ``TP``, or the dotted path of a project's own."""
        return self.cls if self.is_builtin else self.fullname

    @property
    def is_builtin(self) -> bool:
        """Whether it is one of ``spmd_runtime``'s."""
        return self.fullname == f"{AXES}.{self.cls}"


@dataclass(frozen=True)
class Config:
    """The whole configuration, checked.

    ``axes`` fixes the order of a layout's slots; ``meshes`` holds the axis indices of each mesh (one mesh unless
    ``meshes`` is configured); ``reduced`` are the indices of axes over which a wrapper reduces gradients.
    """

    axes: tuple[Axis, ...]
    meshes: tuple[frozenset[int], ...]
    default_axis: int | None
    reduced: frozenset[int]
    strict: bool = False
    rng: str = "synced"
    groups: Mapping[str, int] = field(default_factory=dict)
    rules: Mapping[str, Mapping[str, Any]] = field(default_factory=dict)
    strict_modules: tuple[tuple[tuple[str, ...], bool], ...] = ()
    configuration: str | None = None
    flags: Mapping[str, Any] = field(default_factory=dict)
    size_one: frozenset[int] = frozenset()
    by_text: dict[str, int] = field(default_factory=dict, init=False, repr=False, compare=False)

    def __post_init__(self) -> None:
        self.by_text.update({axis.name: i for i, axis in enumerate(self.axes)})
        self.by_text.update({axis.fullname: i for i, axis in enumerate(self.axes)})

    def by_name(self, name: str) -> int | None:
        """The index of the axis called ``name`` (``"tp"``), or None."""
        return self.by_text.get(name) if "." not in name else None

    def by_fullname(self, fullname: str) -> int | None:
        """The index of the axis whose class is ``fullname``, or None."""
        return self.by_text.get(fullname)

    def names(self) -> str:
        """All axis names, for messages."""
        return ", ".join(axis.name for axis in self.axes)

    def spelled(self) -> str:
        """All axes as the configuration spells them, for messages about one that is not there."""
        return ", ".join(axis.spelled for axis in self.axes)

    def is_strict(self, module: str) -> bool:
        """Whether ``module`` is checked with ``strict = true``; the last matching override wins."""
        strict = self.strict
        for patterns, value in self.strict_modules:
            if any(fnmatchcase(module, p) or (p.endswith(".*") and module == p[:-2]) for p in patterns):
                strict = value
        return strict


class _Table:
    """A configuration table that knows its file and path, so that errors can name them."""

    def __init__(self, file: str, path: str, items: Mapping[str, Any]) -> None:
        self.file, self.path, self.items = file, path, items

    def error(self, key: str, what: str) -> ConfigError:
        return ConfigError(f"{self.file}: [{self.path}] {key}: {what}")

    def known(self, keys: frozenset[str]) -> None:
        for key in self.items:
            if key not in keys:
                raise self.error(key, f"unknown key; known keys are {', '.join(sorted(keys))}")

    def get(self, key: str, default: Any, check: Callable[[Any], bool], expected: str) -> Any:
        if key not in self.items:
            return default
        value = self.items[key]
        if not check(value):
            raise self.error(key, f"expected {expected}, got {value!r}")
        return value

    def flag(self, key: str, default: bool) -> bool:
        return bool(self.get(key, default, lambda v: isinstance(v, bool), "true or false"))

    def table(self, key: str) -> _Table:
        value = self.get(key, {}, lambda v: isinstance(v, dict), "a table")
        return _Table(self.file, f"{self.path}.{key}", value)


def _strings(value: Any) -> bool:
    return isinstance(value, list) and all(isinstance(v, str) and v for v in value)


def _is_scalar(value: Any) -> bool:
    return isinstance(value, bool | int | float | str)


def _axis(table: _Table, key: str, text: str) -> Axis:
    if "." in text:
        if not all(part.isidentifier() for part in text.split(".")):
            raise table.error(key, f"{text!r} is not a dotted path to an axis class")
        return Axis(text)
    if text.upper() not in BUILTIN_AXES:
        known = ", ".join(name.lower() for name in BUILTIN_AXES)
        raise table.error(key, f"unknown axis {text!r}; built-in axes are {known}; write an own axis as a dotted path")
    return Axis(f"{AXES}.{text.upper()}")


def _axes(table: _Table) -> tuple[tuple[Axis, ...], tuple[frozenset[int], ...]]:
    """The axes in slot order, and which of them make up each mesh."""
    if "meshes" in table.items:
        if "axes" in table.items:
            raise table.error("meshes", "give either axes or meshes, not both")
        expected = 'a list of lists of axis names, such as [["dp", "tp"], ["ep"]]'
        meshes = table.get("meshes", [], lambda v: isinstance(v, list) and bool(v) and all(map(_strings, v)), expected)
        key = "meshes"
    else:
        expected = 'a list of axis names, such as ["dp", "tp"]'
        meshes = [table.get("axes", list(_DEFAULT_AXES), lambda v: _strings(v) and bool(v), expected)]
        key = "axes"
    axes: list[Axis] = []
    groups: list[frozenset[int]] = []
    for mesh in meshes:
        start = len(axes)
        for text in mesh:
            axis = _axis(table, key, text)
            if any(axis.name == other.name for other in axes):
                raise table.error(key, f"axis {axis.name!r} is given twice")
            axes.append(axis)
        groups.append(frozenset(range(start, len(axes))))
    return tuple(axes), tuple(groups)


def _index(table: _Table, key: str, text: str, axes: tuple[Axis, ...]) -> int:
    for i, axis in enumerate(axes):
        if text in (axis.name, axis.fullname):
            return i
    raise table.error(key, f"{text!r} is not among the axes {', '.join(a.name for a in axes)}")


def _default_axis(table: _Table, axes: tuple[Axis, ...]) -> int | None:
    text = table.get("default_axis", None, lambda v: isinstance(v, str), "an axis name")
    if text is not None:
        return _index(table, "default_axis", text, axes)
    names = [axis.name for axis in axes]
    if "tp" in names:
        return names.index("tp")
    return 0 if len(axes) == 1 else None


def _reduced(table: _Table, axes: tuple[Axis, ...]) -> frozenset[int]:
    if "grad_reduced" not in table.items:
        return frozenset(i for i, axis in enumerate(axes) if axis.name in _DEFAULT_REDUCED)
    names = table.get("grad_reduced", [], _strings, "a list of axis names")
    # As in the default, a built-in axis may be named that this project does not configure.
    absent = {name.lower() for name in BUILTIN_AXES} - {axis.name for axis in axes}
    return frozenset(_index(table, "grad_reduced", name, axes) for name in names if name not in absent)


def _dotted(table: _Table, name: str) -> str:
    """``name``, which must be a dotted path; TOML takes an unquoted one for tables within tables."""
    if "." in name and all(part.isidentifier() for part in name.split(".")):
        return name
    hint = f'"{name}.NAME" = ..., with the quotation marks' if name.isidentifier() else f"not {name!r}"
    raise table.error(name, f"expected the dotted path of a function or method, {hint}")


def _groups(table: _Table, axes: tuple[Axis, ...]) -> dict[str, int]:
    groups = table.table("groups")
    found: dict[str, int] = {}
    for name in map(partial(_dotted, groups), groups.items):
        text = groups.get(name, "", lambda v: isinstance(v, str), "an axis name")
        found[name] = _index(groups, name, text, axes)
    return found


def _rules(table: _Table) -> dict[str, Mapping[str, Any]]:
    from spmd_mypy.rules import ops  # noqa: PLC0415 - the table is only needed where a project brings rules of its own

    rules = table.table("rules")
    found: dict[str, Mapping[str, Any]] = {}
    for name in map(partial(_dotted, rules), rules.items):
        row = rules.get(name, {}, lambda v: isinstance(v, dict), 'a table such as { nonlinear = ["x"] }')
        try:
            ops.custom(name, row)
        except ValueError as error:
            raise rules.error(name, str(error)) from None
        found[name] = row
    return found


def _overrides(table: _Table) -> tuple[tuple[tuple[str, ...], bool], ...]:
    rows = table.get(
        "overrides", [], lambda v: isinstance(v, list) and all(isinstance(r, dict) for r in v), "an array of tables"
    )
    found = []
    for items in rows:
        row = _Table(table.file, f"{table.path}.overrides", items)
        row.known(frozenset({"module", "strict"}))
        module = row.get("module", None, lambda v: isinstance(v, str) or _strings(v), "a module pattern or a list")
        if module is None:
            raise row.error("module", "missing; say which modules the override is for")
        patterns = (module,) if isinstance(module, str) else tuple(module)
        found.append((patterns, row.flag("strict", False)))
    return tuple(found)


def _configuration(table: _Table, axes: tuple[Axis, ...]) -> tuple[str | None, dict[str, Any], frozenset[int]]:
    """The chosen entry of ``configurations``: its name, its flags, and its axes of size 1."""
    tables = table.table("configurations")
    wanted = os.environ.get(CONFIGURATION_VARIABLE)
    if wanted and wanted not in tables.items:
        known = ", ".join(tables.items) or "none"
        raise tables.error(wanted, f"{CONFIGURATION_VARIABLE} names a configuration that is not there (known: {known})")
    if not tables.items:
        return None, {}, frozenset()
    for name in tables.items:
        _flags(tables.table(name), axes)
    name = wanted or next(iter(tables.items))
    flags, size_one = _flags(tables.table(name), axes)
    return name, flags, size_one


def _flags(table: _Table, axes: tuple[Axis, ...]) -> tuple[dict[str, Any], frozenset[int]]:
    flags: dict[str, Any] = {}
    for key, value in table.items.items():
        if key == "size_one":
            continue
        flags[key] = table.get(key, value, _is_scalar, "a boolean, a number or a string")
    names = table.get("size_one", [], _strings, "a list of axis names")
    return flags, frozenset(_index(table, "size_one", name, axes) for name in names)


_KEYS: Final = frozenset(
    {
        "axes",
        "meshes",
        "default_axis",
        "grad_reduced",
        "strict",
        "rng",
        "groups",
        "rules",
        "overrides",
        "configurations",
    }
)
_INI_LISTS: Final = frozenset({"axes", "grad_reduced"})


def build(file: str, items: Mapping[str, Any], path: str = "tool.spmd-mypy") -> Config:
    """The configuration of a parsed table; raises ConfigError."""
    table = _Table(file, path, items)
    table.known(_KEYS)
    axes, meshes = _axes(table)
    configuration, flags, size_one = _configuration(table, axes)
    rng = table.get("rng", "synced", lambda v: v in ("synced", "per-rank"), '"synced" or "per-rank"')
    return Config(
        axes=axes,
        meshes=meshes,
        default_axis=_default_axis(table, axes),
        reduced=_reduced(table, axes),
        strict=table.flag("strict", False),
        rng=rng,
        groups=_groups(table, axes),
        rules=_rules(table) if "rules" in items else {},
        strict_modules=_overrides(table),
        configuration=configuration,
        flags=flags,
        size_one=size_one,
    )


def _ini_items(parser: configparser.ConfigParser, file: str) -> dict[str, Any]:
    """The flat keys of ``[spmd-mypy]`` in mypy.ini or setup.cfg."""
    items: dict[str, Any] = {}
    for key, text in parser.items("spmd-mypy"):
        if key in _INI_LISTS:
            items[key] = [part.strip() for part in text.replace("\n", ",").split(",") if part.strip()]
        elif key == "strict":
            if text.lower() not in configparser.ConfigParser.BOOLEAN_STATES:
                raise ConfigError(f"{file}: [spmd-mypy] strict: expected true or false, got {text!r}")
            items[key] = configparser.ConfigParser.BOOLEAN_STATES[text.lower()]
        elif key in ("default_axis", "rng"):
            items[key] = text.strip()
        elif key in _KEYS:
            raise ConfigError(f"{file}: [spmd-mypy] {key}: only pyproject.toml can hold this key")
        else:
            items[key] = text
    return items


def load(config_file: str | None) -> Config:
    """Read the configuration from mypy's own configuration file; defaults where there is none."""
    if config_file is None or not Path(config_file).is_file():
        return build("pyproject.toml", {})
    shown = os.path.relpath(config_file) if not os.path.relpath(config_file).startswith("..") else config_file
    if config_file.endswith(".toml"):
        try:
            data = tomllib.loads(Path(config_file).read_text(encoding="utf-8"))
        except (tomllib.TOMLDecodeError, UnicodeDecodeError) as error:
            raise ConfigError(f"{shown}: {error}") from None
        tools = data.get("tool", {})
        if "spmd_mypy" in tools:
            raise ConfigError(f"{shown}: [tool.spmd_mypy]: the table's name has a hyphen, [tool.spmd-mypy]")
        items = tools.get("spmd-mypy", {})
        if not isinstance(items, dict):
            raise ConfigError(f"{shown}: [tool.spmd-mypy]: expected a table, got {items!r}")
        return build(shown, items)
    parser = configparser.RawConfigParser()
    try:
        parser.read(config_file, encoding="utf-8")
    except configparser.Error as error:
        raise ConfigError(f"{shown}: {error}") from None
    items = _ini_items(parser, shown) if parser.has_section("spmd-mypy") else {}  # type: ignore[arg-type]
    return build(shown, items, "spmd-mypy")
