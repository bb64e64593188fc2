"""What can keep the plugin from checking anything, one function each; ``doctor`` asks all, ``check`` the fatal ones."""

from __future__ import annotations

import importlib.metadata
import json
import os
import shutil
import subprocess
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Final, Literal

from spmd_mypy.cli import settings as reader
from spmd_mypy.cli.settings import Settings

Level = Literal["ok", "warning", "problem"]

OLDEST_MYPY: Final = (2, 0)
OLDEST_TORCH: Final = (2, 9)
OLDEST_PYTHON: Final = (3, 10)


@dataclass(frozen=True, slots=True)
class Finding:
    """One answer: what was looked at, what was found, and what to do where it is wrong."""

    level: Level
    about: str
    text: str
    advice: str = ""


# ---- fatal: nothing is checked


def plugin(settings: Settings) -> Iterator[Finding]:
    """Whether the configuration that mypy reads loads the plugin."""
    file = settings.config_file
    if settings.has_plugin:
        yield Finding("ok", "plugin", f"{_shown(file)} loads {reader.PLUGIN}")
    elif file is None:
        yield Finding("problem", "plugin", "mypy finds no configuration file here, so it loads no plugin",
                      "run `spmd init` in the folder in which mypy is run")  # fmt: skip
    else:
        yield Finding("problem", "plugin", f"{_shown(file)}, which mypy reads, does not load {reader.PLUGIN}",
                      "run `spmd init`, or add it to `plugins` there")  # fmt: skip


def torch(settings: Settings) -> Iterator[Finding]:
    """Whether mypy sees torch; where it does not, every tensor is Any and no error is ever reported."""
    if settings.for_module("torch").follow_imports == "skip":
        yield Finding("problem", "torch", "the configuration sets follow_imports = skip for torch: every tensor is Any",
                      "leave follow_imports out, or set it to normal or silent for torch")  # fmt: skip
        return
    for package in ("torch", "spmd_runtime"):
        found = reader.find(settings, package)
        if found is None:
            continue
        if found.path is None:
            yield Finding("problem", "torch", f"mypy does not find {package}: every tensor is Any", _why(settings))
        else:
            yield Finding("ok", "torch", f"mypy reads {package} from {found.path}")


def _why(settings: Settings) -> str:
    if settings.python is None:
        return "no_site_packages or --no-site-packages is set: mypy sees no installed package"
    if Path(settings.python).resolve() != Path(sys.executable).resolve():
        return f"mypy is told to look in the environment of {settings.python}; install torch and spmd-mypy there"
    return "install torch where mypy runs; an isolated environment, as pre-commit makes by default, has none"


def stubs(settings: Settings) -> Iterator[Finding]:
    """A ``torch-stubs`` package takes torch's place."""
    for folder in [*map(Path, getattr(settings.options, "mypy_path", ())), *reader.package_folders(settings)]:
        if (folder / "torch-stubs").is_dir():
            yield Finding(
                "problem", "stubs", f"{folder / 'torch-stubs'} replaces torch's own types, which the plugin extends",
                f"uninstall the package that brings it ({_owner(folder) or 'pip show -f tells'})",
            )  # fmt: skip
            return
    yield Finding("ok", "stubs", "no other package replaces torch's types")


def _owner(folder: Path) -> str:
    for distribution in importlib.metadata.distributions(path=[str(folder)]):
        if any(str(file).startswith("torch-stubs/") for file in distribution.files or ()):
            return distribution.metadata["Name"]
    return ""


FATAL: Final = (plugin, torch)


# ---- versions


def _version(package: str) -> tuple[str, tuple[int, ...]] | None:
    try:
        text = importlib.metadata.version(package)
    except importlib.metadata.PackageNotFoundError:
        return None
    numbers = text.split("+")[0].split(".")
    return text, tuple(int(n) for n in numbers[:2] if n.isdigit())


def versions(settings: Settings) -> Iterator[Finding]:
    """Versions that are not supported."""
    del settings
    if sys.version_info[:2] < OLDEST_PYTHON:
        yield Finding("problem", "python", f"Python {sys.version.split()[0]} is too old", "use Python 3.10 or newer")
    else:
        yield Finding("ok", "python", f"Python {sys.version.split()[0]} at {sys.executable}")
    for package, oldest in (("mypy", OLDEST_MYPY), ("torch", OLDEST_TORCH)):
        found = _version(package)
        wanted = ".".join(map(str, oldest))
        if found is None:
            yield Finding("problem", package, f"{package} is not installed beside spmd-mypy",
                          f"pip install {package} in the environment of {sys.executable}")  # fmt: skip
        elif found[1] < oldest:
            yield Finding("problem", package, f"{package} {found[0]} is too old", f"use {package} {wanted} or newer")
        else:
            yield Finding("ok", package, f"{package} {found[0]}")


# ---- which mypy, which configuration


def other_mypy(settings: Settings) -> Iterator[Finding]:
    """A ``mypy`` (or ``dmypy``, ``pylsp``) on the path that belongs to another environment and lacks the plugin."""
    here = Path(sys.executable).parent.resolve()
    for name in ("mypy", "dmypy", "pylsp"):
        found = shutil.which(name)
        if found is None:
            if name == "mypy":
                yield Finding(
                    "warning", "path", "there is no mypy on the path", "run it as `python -m mypy`, or `spmd check`"
                )
            continue
        if Path(found).parent.resolve() == here:
            yield Finding("ok", "path", f"{name} on the path is the one beside the plugin")
        else:
            yield Finding(
                "problem", "path", f"{name} on the path is {found}, of another environment than {sys.executable}",
                f"install spmd-mypy where that {name} is, or take {here} first on the path",
            )  # fmt: skip
    del settings


def configuration(settings: Settings) -> Iterator[Finding]:
    """Several configuration files, of which mypy reads one; and keys that the plugin refuses."""
    from spmd_mypy.config import ConfigError, load  # noqa: PLC0415

    file = settings.config_file
    try:
        config = load(file)
    except ConfigError as error:
        yield Finding("problem", "configuration", str(error), "correct the key; mypy ends with status 2 until then")
        return
    folder = Path(file).parent if file else Path.cwd()
    others = [path for path in reader.sections(folder) if file and path.resolve() != Path(file).resolve()]
    for path in others:
        yield Finding("warning", "configuration", f"mypy reads {_shown(file)} and ignores [tool.mypy] in {path.name}"
                      if path.suffix == ".toml" else f"mypy reads {_shown(file)} and ignores {path.name}",
                      "keep one of them; only pyproject.toml can hold all of [tool.spmd-mypy]")  # fmt: skip
    yield Finding("ok", "configuration", f"mesh axes: {config.names()}")


def options(settings: Settings) -> Iterator[Finding]:
    """Options of mypy's without which much stays unchecked."""
    if not settings.options.allow_redefinition:
        yield Finding("warning", "options", "allow_redefinition is off: `x = all_reduce(x, ...)` cannot re-type x",
                      "set allow_redefinition = true, at least for the modules that use SPMD types")  # fmt: skip
    if not settings.options.check_untyped_defs:
        yield Finding("warning", "options", "check_untyped_defs is off: unannotated functions are not checked",
                      "set check_untyped_defs = true (or strict = true)")  # fmt: skip


# ---- caches and daemons


def cache(settings: Settings) -> Iterator[Finding]:
    """A cache that another version of mypy left, or that cannot be written."""
    folder = Path(settings.cache_dir)
    if str(folder) in (os.devnull, ""):
        yield Finding("warning", "cache", "there is no cache: every run reads torch anew", "leave --cache-dir out")
        return
    if folder.exists() and not os.access(folder, os.W_OK):
        yield Finding("problem", "cache", f"{folder} cannot be written", "delete it, or give another --cache-dir")
        return
    stale = _old_caches(folder)
    if stale:
        yield Finding("warning", "cache", f"{folder} holds caches of other Python versions: {', '.join(stale)}",
                      f"delete {folder} if types look wrong that should not")  # fmt: skip
    else:
        yield Finding("ok", "cache", f"{folder}" + ("" if folder.exists() else " (made by the first run)"))


def _old_caches(folder: Path) -> list[str]:
    mine = f"{sys.version_info[0]}.{sys.version_info[1]}"
    return sorted(p.name for p in folder.glob("[23].*") if p.is_dir() and p.name != mine)


def daemon(settings: Settings) -> Iterator[Finding]:
    """A daemon that was started before the configuration or the plugin changed."""
    file = Path(".dmypy.json")
    try:
        pid = int(json.loads(file.read_text())["pid"])
    except (OSError, ValueError, KeyError):
        return
    config = settings.config_file
    if not _alive(pid):
        yield Finding("warning", "daemon", f"{file} names a daemon that has ended", "delete it, or run `dmypy start`")
    elif config and Path(config).stat().st_mtime > file.stat().st_mtime:
        yield Finding(
            "problem", "daemon", f"dmypy runs since before {_shown(config)} was changed", "run `dmypy restart`"
        )
    else:
        yield Finding("ok", "daemon", f"dmypy runs (process {pid})")


def _alive(pid: int) -> bool:
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return False
    except OSError:
        return True
    return True


# ---- the proof: mypy is run


_PROBE: Final = """\
import torch
import spmd_runtime as spmd
x: spmd.Tensor[spmd.V[spmd.{axis}]]
reveal_type(x)
reveal_type(torch.relu(x))
"""


def probe(settings: Settings) -> Iterator[Finding]:
    """Run mypy over three lines and look at what it makes of a tensor."""
    from spmd_mypy.config import BUILTIN_AXES, ConfigError, load  # noqa: PLC0415

    try:
        axes = [a.cls for a in load(settings.config_file).axes]
    except ConfigError:
        return
    axis = next((a for a in axes if a in BUILTIN_AXES), None)
    if axis is None or not settings.has_plugin:
        return
    arguments = ["--config-file", settings.config_file or "", "--no-error-summary", "--cache-dir", settings.cache_dir,
                 "-c", _PROBE.format(axis=axis)]  # fmt: skip
    done = subprocess.run([sys.executable, "-m", "mypy", *arguments], capture_output=True, text=True, check=False)
    wanted = f'Revealed type is "Tensor[V[{axis}]]"'
    seen = [line for line in done.stdout.splitlines() if "Revealed type" in line]
    if len(seen) == 2 and all(wanted in line for line in seen):
        yield Finding("ok", "probe", f"mypy follows a Tensor[V[{axis}]] through torch.relu")
    else:
        text = (done.stdout + done.stderr).strip() or "nothing"
        yield Finding("problem", "probe", f"mypy does not follow a tensor's type; it says:\n{text}",
                      f"delete {settings.cache_dir} and try again; if that does not help, report it")  # fmt: skip


ALL: Final = (versions, plugin, configuration, options, other_mypy, torch, stubs, cache, daemon, probe)


def _shown(file: str | None) -> str:
    if file is None:
        return "no file"
    relative = os.path.relpath(file)
    return file if relative.startswith("..") else relative
