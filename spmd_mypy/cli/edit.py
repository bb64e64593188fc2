"""Put the plugin into the text of a configuration file, and leave the rest of the text alone.

TOML goes through tomlkit, which keeps comments and order; ini files are edited line by line.  Either way the result is
parsed again and compared with what was meant before it is handed out.
"""

from __future__ import annotations

import configparser
import copy
import re
import sys
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any, Final

import tomlkit
from tomlkit.exceptions import TOMLKitError

from spmd_mypy.cli.settings import PLUGIN

if sys.version_info >= (3, 11):
    import tomllib
else:
    import tomli as tomllib

DEFAULT_AXES: Final = ("dp", "cp", "tp")
AXES_GIVEN: Final = "the mesh axes, by name"
AXES_GUESSED: Final = "placeholders: write the dims of your device mesh"
_REDEFINITION: Final = "lets `x = all_reduce(x, ...)` give x a new type"


class EditError(Exception):
    """The file cannot be edited safely; the message says why, and what to write by hand."""


@dataclass
class Edited:
    """The new text, one line per change, and whether the mesh axes in it are placeholders."""

    text: str
    done: list[str] = field(default_factory=list)
    guessed: bool = False


def _by_hand(axes: Sequence[str]) -> str:
    return (
        f'add plugins = ["{PLUGIN}"] and allow_redefinition = true to [tool.mypy], '
        f"and axes = [{', '.join(repr(a) for a in axes)}] to [tool.spmd-mypy] by hand"
    )


def _line_end(text: str) -> str:
    return "\r\n" if text.count("\r\n") * 2 > text.count("\n") else "\n"


# ---- TOML


def toml(text: str, axes: Sequence[str]) -> Edited:
    """``text`` of a pyproject.toml with the plugin in it; raises EditError."""
    try:
        before = tomllib.loads(text)
        document = tomlkit.parse(text)
    except (tomllib.TOMLDecodeError, TOMLKitError) as error:
        raise EditError(f"this is no TOML: {error}") from None
    wanted, missing = _wanted(before, axes)
    if not missing:
        return Edited(text)
    edited = Edited(text, guessed="axes" in missing and not axes)
    mypy = before.get("tool", {}).get("mypy")
    if mypy is not None and missing.keys() & {"plugins", "allow_redefinition"}:
        try:
            _into_table(document["tool"]["mypy"], missing)
        except (TOMLKitError, KeyError, TypeError, AttributeError):
            raise EditError(_by_hand(axes or DEFAULT_AXES)) from None
        edited.text = tomlkit.dumps(document)
    comment = AXES_GUESSED if edited.guessed else AXES_GIVEN
    edited.text = _with_tables(edited.text, mypy is None, missing, comment, _line_end(text))
    edited.done = _told(missing)
    try:
        same = tomllib.loads(edited.text) == wanted
    except tomllib.TOMLDecodeError:
        same = False
    if not same:
        raise EditError(f"it is laid out in a way that this command cannot edit; {_by_hand(axes or DEFAULT_AXES)}")
    return edited


def _wanted(before: dict[str, Any], axes: Sequence[str]) -> tuple[dict[str, Any], dict[str, Any]]:
    """The parsed file as it should be, and what is missing in it."""
    after = copy.deepcopy(before)
    tool = after.setdefault("tool", {})
    mypy, spmd = tool.setdefault("mypy", {}), tool.setdefault("spmd-mypy", {})
    missing: dict[str, Any] = {}
    plugins = mypy.get("plugins", [])
    names = plugins.split(",") if isinstance(plugins, str) else plugins
    if PLUGIN not in [name.strip() for name in names]:
        together = [*(name.strip() for name in names), PLUGIN]
        mypy["plugins"] = missing["plugins"] = ", ".join(together) if isinstance(plugins, str) else together
    if "allow_redefinition" not in mypy:
        mypy["allow_redefinition"] = missing["allow_redefinition"] = True
    there = spmd.get("axes", spmd.get("meshes"))
    if there is None:
        spmd["axes"] = missing["axes"] = list(axes or DEFAULT_AXES)
    elif axes and there != list(axes):
        raise EditError(f"[tool.spmd-mypy] has mesh axes already ({there}); change them there if they are wrong")
    return after, missing


def _into_table(table: Any, missing: dict[str, Any]) -> None:
    if "plugins" in missing:
        if isinstance(table.get("plugins"), list):
            table["plugins"].append(PLUGIN)
        else:
            table["plugins"] = missing["plugins"]
    if "allow_redefinition" in missing:
        table["allow_redefinition"] = True


def _with_tables(text: str, new_mypy: bool, missing: dict[str, Any], comment: str, end: str) -> str:
    """The tables that the file does not have, behind its last line."""
    lines: list[str] = []
    if new_mypy:
        lines += ["", "[tool.mypy]", f'plugins = ["{PLUGIN}"]', f"allow_redefinition = true  # {_REDEFINITION}"]
    if "axes" in missing:
        axes = f"axes = [{', '.join(f'{chr(34)}{axis}{chr(34)}' for axis in missing['axes'])}]  # {comment}"
        header = re.search(r"^\[tool\.spmd-mypy\][ \t]*(#.*)?\r?$", text, re.M)
        if header is not None:
            return f"{text[: header.end()].rstrip(chr(13))}{end}{axes}{text[header.end() :]}"
        lines += ["", "[tool.spmd-mypy]", axes]
    if not lines:
        return text
    if not text.strip():
        return end.join([*lines[1:], ""])
    return text.rstrip("\r\n") + end + end.join([*lines, ""])


def _told(missing: dict[str, Any]) -> list[str]:
    texts = {
        "plugins": f"plugins: {PLUGIN} added",
        "allow_redefinition": f"allow_redefinition: set, which {_REDEFINITION}",
        "axes": f"mesh axes: {', '.join(missing.get('axes', ()))}",
    }
    return [texts[key] for key in missing]


# ---- mypy.ini and setup.cfg


def ini(text: str, axes: Sequence[str]) -> Edited:
    """``text`` of a mypy.ini or setup.cfg with the plugin in it; raises EditError."""
    parser = _parsed(text)
    end = _line_end(text)
    lines = text.splitlines()
    done: list[str] = []
    if not parser.has_section("mypy"):
        lines += [*([""] if lines else []), "[mypy]"]
    plugins = parser.get("mypy", "plugins", fallback=None)
    if plugins is None:
        _insert(lines, "mypy", f"plugins = {PLUGIN}")
        done.append(f"plugins: {PLUGIN} added")
    elif PLUGIN not in [part.strip() for part in plugins.replace("\n", ",").split(",")]:
        _extend(lines, "mypy", "plugins")
        done.append(f"plugins: {PLUGIN} added")
    if parser.get("mypy", "allow_redefinition", fallback=None) is None:
        _insert(lines, "mypy", "allow_redefinition = True")
        done.append(f"allow_redefinition: set, which {_REDEFINITION}")
    guessed = _ini_axes(parser, lines, axes, done) and not axes
    if not done:
        return Edited(text)
    new = end.join([*lines, ""])
    _verify(parser, _parsed(new))
    return Edited(new, done, guessed)


def _ini_axes(parser: configparser.RawConfigParser, lines: list[str], axes: Sequence[str], done: list[str]) -> bool:
    """Write the mesh axes where there are none; returns whether it did."""
    there = parser.get("spmd-mypy", "axes", fallback=None)
    if there is not None:
        names = [part.strip() for part in there.replace("\n", ",").split(",") if part.strip()]
        if axes and names != list(axes):
            raise EditError(
                f"[spmd-mypy] has mesh axes already ({', '.join(names)}); change them there if they are wrong"
            )
        return False
    shown = ", ".join(axes or DEFAULT_AXES)
    if not parser.has_section("spmd-mypy"):
        lines += ["", "[spmd-mypy]"]
    if not axes:
        _insert(lines, "spmd-mypy", f"# {AXES_GUESSED}")
        lines.insert(lines.index(f"# {AXES_GUESSED}") + 1, f"axes = {shown}")
    else:
        _insert(lines, "spmd-mypy", f"axes = {shown}")
    done.append(f"mesh axes: {shown}")
    return True


def _parsed(text: str) -> configparser.RawConfigParser:
    parser = configparser.RawConfigParser()
    try:
        parser.read_string(text)
    except configparser.Error as error:
        raise EditError(f"this is no ini file: {error}") from None
    return parser


def _header(lines: Sequence[str], section: str) -> int:
    pattern = re.compile(rf"^\[{re.escape(section)}\]\s*([#;].*)?$")
    return next(i for i, line in enumerate(lines) if pattern.match(line))


def _insert(lines: list[str], section: str, line: str) -> None:
    """A key behind the section's last key."""
    at = start = _header(lines, section)
    for i in range(start + 1, len(lines)):
        if lines[i].startswith("["):
            break
        if lines[i].strip():
            at = i
    lines.insert(at + 1, line)


def _extend(lines: list[str], section: str, key: str) -> None:
    """One more item behind a comma-separated value, which may go over several lines."""
    start = _header(lines, section)
    at = next(i for i in range(start, len(lines)) if re.match(rf"{key}\s*[=:]", lines[i]))
    last = at
    for i in range(at + 1, len(lines)):
        if not lines[i][:1].isspace():
            break
        if lines[i].strip() and not lines[i].strip().startswith(("#", ";")):
            last = i
    value = lines[last].rstrip()
    if last == at:
        lines[last] = f"{value.rstrip(',')}, {PLUGIN}" if not value.endswith(("=", ":")) else f"{value} {PLUGIN}"
    else:
        indent = lines[last][: len(lines[last]) - len(lines[last].lstrip())]
        lines[last] = value.rstrip(",") + ","
        lines.insert(last + 1, f"{indent}{PLUGIN}")


def _verify(old: configparser.RawConfigParser, new: configparser.RawConfigParser) -> None:
    """Every value that was there is there still, but for the longer list of plugins."""
    for section in old.sections():
        for key, value in old.items(section):
            if new.get(section, key, fallback=None) != value and (section, key) != ("mypy", "plugins"):
                raise EditError(f"it is laid out in a way that this command cannot edit; {_by_hand(DEFAULT_AXES)}")
    if PLUGIN not in new.get("mypy", "plugins", fallback=""):
        raise EditError(f"it is laid out in a way that this command cannot edit; {_by_hand(DEFAULT_AXES)}")
