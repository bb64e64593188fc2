"""What mypy will do in this folder: its options, its configuration file, and where it finds torch.

mypy has no public way to ask; its own argument parser is called here, and only here.  Where a version of mypy lacks a
part, the answer is "not known", and the checks that need it say nothing.
"""

from __future__ import annotations

import configparser
import io
import os
import sys
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final, NoReturn

if sys.version_info >= (3, 11):
    import tomllib
else:
    import tomli as tomllib

PLUGIN: Final = "spmd_mypy.plugin"
# In the order in which mypy looks for them; the first that has a section of mypy's wins.
CANDIDATES: Final = ("mypy.ini", ".mypy.ini", "pyproject.toml", "setup.cfg")
# What is checked where neither the command line nor the configuration names anything.
DEFAULT_TARGET: Final = "."


@dataclass(frozen=True, slots=True)
class Settings:
    """mypy's options after command line, configuration file and environment; ``options`` is mypy's own object.

    ``arguments`` is the command line, with the default target where nothing else names one; ``remarks`` is what mypy
    says of a configuration that it reads all the same.
    """

    options: Any
    sources: tuple[Any, ...] = ()
    arguments: tuple[str, ...] = ()
    remarks: tuple[str, ...] = ()

    @property
    def config_file(self) -> str | None:
        """The configuration file that mypy reads, or None where there is none."""
        found = getattr(self.options, "config_file", None)
        return str(found) if found else None

    @property
    def cache_dir(self) -> str:
        """Where mypy caches."""
        return str(getattr(self.options, "cache_dir", ".mypy_cache"))

    @property
    def python(self) -> str | None:
        """The interpreter whose packages mypy sees; None where it is to see no packages."""
        found = getattr(self.options, "python_executable", None)
        return str(found) if found else None

    @property
    def has_plugin(self) -> bool:
        """Whether the configuration loads the plugin."""
        names = [str(name).partition(":")[0] for name in getattr(self.options, "plugins", ())]
        return any(name == PLUGIN or name.replace(os.sep, "/").endswith("spmd_mypy/plugin.py") for name in names)

    def for_module(self, module: str) -> Any:
        """The options that hold in a module."""
        return self.options.clone_for_module(module)


class SettingsError(Exception):
    """mypy ends at once: it refuses its arguments or configuration (``status`` 2), or was asked for its help (0).

    The message is mypy's.
    """

    def __init__(self, message: str, status: int = 2) -> None:
        super().__init__(message)
        self.status = status


def read(arguments: Sequence[str], *, default_target: bool = True) -> Settings:
    """The settings of ``mypy ARGUMENTS``, run in the current folder.

    What is checked is what the arguments name, else what mypy's configuration names (``files``, ``packages``,
    ``modules``), else the current folder, unless that is not wanted.  Raises SettingsError where mypy would end before
    it checks anything.
    """
    found = _processed(arguments)
    return found if found.sources or not default_target else _processed([*arguments, DEFAULT_TARGET], found)


def _processed(arguments: Sequence[str], without: Settings | None = None) -> Settings:
    """mypy's answer; that of a run ``without`` a target where the default one holds no Python file."""
    from mypy.fscache import FileSystemCache  # noqa: PLC0415 - mypy is slow to import, and most commands do without
    from mypy.main import process_options  # noqa: PLC0415

    out, err = io.StringIO(), io.StringIO()
    try:
        sources, options = process_options(
            list(arguments), stdout=out, stderr=err, require_targets=False, fscache=FileSystemCache()
        )
    except SystemExit as end:
        if without is not None:
            return Settings(without.options, (), tuple(arguments), without.remarks)
        _refused(out.getvalue() + err.getvalue(), end)
    remarks = [line for line in err.getvalue().splitlines() if line.strip()]
    return Settings(options, tuple(sources), tuple(arguments), tuple(remarks))


def _refused(text: str, end: SystemExit) -> NoReturn:
    status = end.code if isinstance(end.code, int) else 2 if end.code else 0
    raise SettingsError(text.strip() or "mypy refuses its arguments", status) from None


# ---- configuration files


@dataclass(frozen=True, slots=True)
class Broken:
    """A configuration file that cannot be parsed, and why: the parser's message, with the line."""

    path: str
    reason: str


def broken(settings: Settings) -> Iterator[Broken]:
    """The files that mypy passes over, on its way to the one that it reads, because it cannot parse them."""
    chosen = Path(settings.config_file).resolve() if settings.config_file else None
    for path in asked(settings.arguments) or _on_the_way():
        reason = _unparsable(path) if path.is_file() else None
        if reason is not None:
            yield Broken(str(path), reason)
        if path.resolve() == chosen:
            return


def asked(arguments: Sequence[str]) -> list[Path]:
    """The file of ``--config-file FILE``."""
    for i, argument in enumerate(arguments):
        name, equals, value = argument.partition("=")
        if name == "--config-file":
            return [Path(value if equals else "".join(arguments[i + 1 : i + 2]))]
    return []


def _on_the_way() -> Iterator[Path]:
    """Every file that may hold a configuration of mypy's, in its order: upwards, as far as the project goes."""
    for folder in (Path.cwd(), *Path.cwd().parents):
        for name in CANDIDATES:
            path = Path(os.path.relpath(folder / name))
            if path.is_file():
                yield path
        if (folder / ".git").exists() or (folder / ".hg").exists():
            return


def _unparsable(path: Path) -> str | None:
    """Why a file cannot be parsed; None where it can."""
    try:
        text = path.read_text(encoding="utf-8")
        if path.suffix == ".toml":
            tomllib.loads(text)
        else:
            configparser.RawConfigParser().read_string(text, str(path))
    except (tomllib.TOMLDecodeError, UnicodeDecodeError, OSError) as error:
        return str(error)
    except configparser.Error as error:
        return " ".join(str(error).split())
    return None


def sections(folder: Path, section: str = "mypy") -> Iterator[Path]:
    """The files in ``folder`` that hold a configuration of mypy's (``section`` "spmd-mypy": of the plugin's)."""
    for name in CANDIDATES:
        path = folder / name
        if path.is_file() and _has_section(path, section):
            yield path


def _has_section(path: Path, section: str) -> bool:
    head = f"[tool.{section}" if path.suffix == ".toml" else f"[{section}"
    try:
        lines = path.read_text(encoding="utf-8").splitlines()
    except (OSError, UnicodeDecodeError):
        return False
    return any(line.strip().lstrip("[").startswith(head[1:]) and line.strip().startswith("[") for line in lines)


# ---- torch


@dataclass(frozen=True, slots=True)
class Found:
    """Where mypy finds a package: ``path``, or the ``reason`` why it does not."""

    path: str | None
    reason: str = ""


def find(settings: Settings, module: str) -> Found | None:
    """Where mypy finds ``module``; None where this version of mypy does not tell."""
    try:
        from mypy.build import default_data_dir  # noqa: PLC0415
        from mypy.fscache import FileSystemCache  # noqa: PLC0415
        from mypy.modulefinder import FindModuleCache, compute_search_paths  # noqa: PLC0415

        paths = compute_search_paths(list(settings.sources), settings.options, default_data_dir())
        found = FindModuleCache(paths, FileSystemCache(), settings.options).find_module(module)
    except (ImportError, AttributeError, TypeError):
        return None
    return Found(found) if isinstance(found, str) else Found(None, getattr(found, "name", str(found)).lower())


def package_folders(settings: Settings) -> list[Path]:
    """The folders in which mypy looks for installed packages."""
    try:
        from mypy.modulefinder import get_search_dirs  # noqa: PLC0415

        path, site = get_search_dirs(settings.python)
    except (ImportError, AttributeError, TypeError, ValueError):
        return []
    return [Path(p) for p in dict.fromkeys([*path, *site])]
