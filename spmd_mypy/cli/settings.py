"""What mypy will do in this folder: its options, its configuration file, and where it finds torch.

mypy has no public way to ask; its own argument parser is called here, and only here.  Where a version of mypy lacks a
part, the answer is "not known", and the checks that need it say nothing.
"""

from __future__ import annotations

import io
import os
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

PLUGIN: Final = "spmd_mypy.plugin"
# In the order in which mypy looks for them; the first that has a section of mypy's wins.
CANDIDATES: Final = ("mypy.ini", ".mypy.ini", "pyproject.toml", "setup.cfg")


@dataclass(frozen=True, slots=True)
class Settings:
    """mypy's options after command line, configuration file and environment; ``options`` is mypy's own object."""

    options: Any
    sources: tuple[Any, ...] = ()

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
    """mypy refuses its arguments or configuration; the message is mypy's."""


def read(arguments: Sequence[str], *, targets: bool = False) -> Settings:
    """The settings of ``mypy ARGUMENTS``, run in the current folder.

    ``targets`` asks for something to check, as mypy does.  Raises SettingsError where mypy would end with status 2.
    """
    from mypy.fscache import FileSystemCache  # noqa: PLC0415 - mypy is slow to import, and most commands do without
    from mypy.main import process_options  # noqa: PLC0415

    out, err = io.StringIO(), io.StringIO()
    try:
        sources, options = process_options(
            list(arguments), stdout=out, stderr=err, require_targets=targets, fscache=FileSystemCache()
        )
    except SystemExit:
        text = (err.getvalue() + out.getvalue()).strip()
        raise SettingsError(text or "mypy refuses its arguments") from None
    return Settings(options, tuple(sources))


def sections(folder: Path) -> Iterator[Path]:
    """The files in ``folder`` that hold a configuration of mypy's, the one that wins first."""
    for name in CANDIDATES:
        path = folder / name
        if path.is_file() and (name.endswith("mypy.ini") or _has_section(path)):
            yield path


def _has_section(path: Path) -> bool:
    head = "[tool.mypy" if path.suffix == ".toml" else "[mypy"
    try:
        return any(line.strip().startswith(head) for line in path.read_text(encoding="utf-8").splitlines())
    except (OSError, UnicodeDecodeError):
        return False


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
