"""What lies around the plugin: versions, other mypys on the path, caches and daemons."""

from __future__ import annotations

import importlib.metadata
import json
import os
import re
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import Final

import spmd_mypy
from spmd_mypy.cli import settings as reader
from spmd_mypy.cli.finding import Finding, shown
from spmd_mypy.cli.settings import Settings

OLDEST_MYPY: Final = (2, 0)
OLDEST_TORCH: Final = (2, 9)
OLDEST_PYTHON: Final = (3, 10)
# The newest that were tested (docs/versions.md).
NEWEST_MYPY: Final = (2, 4)
NEWEST_TORCH: Final = (2, 14)
NEWEST_PYTHON: Final = (3, 14)
_PATIENCE: Final = 60.0  # seconds for another mypy's answer


# ---- versions


def _numbers(text: str) -> tuple[int, ...]:
    return tuple(int(n) for n in text.partition("+")[0].split(".")[:2] if n.isdigit())


def _dotted(version: tuple[int, ...]) -> str:
    return ".".join(map(str, version))


def _installed(package: str) -> str | None:
    try:
        return importlib.metadata.version(package)
    except importlib.metadata.PackageNotFoundError:
        return None


def _torch_version(settings: Settings) -> str | None:
    """The version of the torch that mypy reads, which may be another than the one beside the plugin."""
    found = reader.find(settings, "torch")
    if found is not None and found.path is not None:
        try:
            text = Path(found.path).with_name("version.py").read_text(encoding="utf-8")
        except OSError:
            text = ""
        if match := re.search(r"""^__version__ = ['"]([^'"]+)""", text, re.M):
            return match[1]
    return _installed("torch")


def versions(settings: Settings) -> Iterator[Finding]:
    """Versions that are not supported, or that nobody has tested yet."""
    good: list[str] = []
    given = (
        ("Python", sys.version.split()[0], OLDEST_PYTHON, NEWEST_PYTHON),
        ("mypy", _installed("mypy"), OLDEST_MYPY, NEWEST_MYPY),
        ("torch", _torch_version(settings), OLDEST_TORCH, NEWEST_TORCH),
    )
    for name, text, oldest, newest in given:
        wanted = f"{name} {_dotted(oldest)} or newer"
        if text is None:
            yield Finding("problem", name.lower(), f"{name} is not installed beside spmd-mypy",
                          f"pip install {name} in the environment of {sys.executable}")  # fmt: skip
        elif _numbers(text) < oldest:
            yield Finding("problem", name.lower(), f"{name} {text} is too old", f"use {wanted}")
        elif _numbers(text) > newest:
            last = f"{name} {_dotted(newest)}"
            yield Finding("warning", name.lower(), f"{name} {text} is newer than {last}, the newest tested",
                          f"where a message looks wrong, see whether it is there with {last}, too")  # fmt: skip
        else:
            good.append(f"{name} {text}")
    if good:
        yield Finding("ok", "versions", f"{', '.join(good)} in {sys.prefix}")


# ---- other environments


def other_mypy(settings: Settings) -> Iterator[Finding]:
    """A ``mypy`` (or ``dmypy``, ``pylsp``) on the path that belongs to another environment and lacks the plugin."""
    del settings
    same: list[str] = []
    for name in ("mypy", "dmypy", "pylsp"):
        found = shutil.which(name)
        if found is None:
            if name == "mypy":
                yield Finding("warning", "path", "there is no mypy on the path",
                              "run it as `python -m mypy`, or `spmd check`")  # fmt: skip
        elif _is_here(Path(found)):
            same.append(name)
        else:
            yield _foreign(name, found)
    if same:
        listed = " and ".join(filter(None, [", ".join(same[:-1]), same[-1]]))
        yield Finding("ok", "path", f"{listed} on the path: beside the plugin")


def _is_here(script: Path) -> bool:
    """Whether a script belongs to this environment: lies there, links there, or names its interpreter."""
    here = Path(sys.executable).parent.resolve()
    folders = [script.parent.resolve(), script.resolve().parent]
    interpreter = _interpreter(script)
    if interpreter is not None:
        folders.append(interpreter.parent.resolve())
    return here in folders


def _interpreter(script: Path) -> Path | None:
    """The Python that runs a script, from its first lines; None for what names none, such as pyenv's shims."""
    try:
        head = script.read_bytes()[:1000].decode("utf-8", "replace").splitlines()[:3]
    except OSError:
        return None
    match = re.match(r"#!\s*(?:/\S*/env\s+)?(\S*python\S*)", head[0] if head else "")
    match = match or re.search(r"""exec' ["']?(/.*?python[\w.]*)""", "\n".join(head))  # the form for long paths
    found = shutil.which(match[1]) if match else None
    return Path(found) if found else None


def _foreign(name: str, found: str) -> Finding:
    where = f"{name} on the path is {found}, of another environment than {sys.executable}"
    beside = Path(found).with_name("mypy")
    if name != "pylsp" and beside.exists() and _loads_plugin(str(beside)):
        return Finding("warning", "path", f"{where}; it has the plugin, too", "keep to one of the two environments")
    here = Path(sys.executable).parent
    return Finding(
        "problem", "path", where, f"install spmd-mypy where that {name} is, or take {here} first on the path"
    )


def _loads_plugin(mypy: str) -> bool:
    """Whether that mypy is new enough, can load the plugin and finds torch: it is asked."""
    version = re.search(r"\d+(\.\d+)+", _said(mypy, "--version"))
    if version is None or _numbers(version[0]) < OLDEST_MYPY:
        return False
    with tempfile.TemporaryDirectory() as folder:
        config = Path(folder) / "mypy.ini"
        config.write_text(
            f"[mypy]\nplugins = {reader.PLUGIN}\nfollow_imports = skip\n"
        )  # skip: finds, but does not read
        options = ("--config-file", str(config), "--cache-dir", os.devnull)
        return "Success" in _said(mypy, *options, "-c", "import torch, spmd_runtime")


def _said(*command: str) -> str:
    """What a command prints; nothing where it cannot be run."""
    try:
        return subprocess.run(command, capture_output=True, text=True, timeout=_PATIENCE, check=False).stdout
    except (OSError, subprocess.TimeoutExpired):
        return ""


# ---- caches and daemons


def cache(settings: Settings) -> Iterator[Finding]:
    """A cache that another version left, that follows no change of the plugin, or that cannot be written."""
    folder = Path(settings.cache_dir)
    if os.environ.get("SPMD_MYPY_KEEP_INSTALLED"):
        yield Finding("warning", "cache", "SPMD_MYPY_KEEP_INSTALLED is set: torch's cache outlives the plugin",
                      "unset it; it is for work on the plugin itself")  # fmt: skip
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
        started = file.stat().st_mtime
    except (OSError, ValueError, KeyError, TypeError):
        return
    config = settings.config_file
    if not _alive(pid):
        yield Finding("warning", "daemon", f"{file} names a daemon that has ended", "delete it, or run `dmypy start`")
    elif config and Path(config).stat().st_mtime > started:
        yield Finding(
            "problem", "daemon", f"dmypy runs since before {shown(config)} was changed", "run `dmypy restart`"
        )
    elif _plugin_changed() > started:
        yield Finding(
            "problem", "daemon", "dmypy runs since before the plugin was installed anew", "run `dmypy restart`"
        )
    else:
        yield Finding("ok", "daemon", f"dmypy runs (process {pid})")


def _plugin_changed() -> float:
    """When a file of the plugin last changed; the command decides nothing and does not count."""
    top = Path(spmd_mypy.__file__).parent
    return max(file.stat().st_ctime for file in top.rglob("*.py") if "cli" not in file.relative_to(top).parts)


def _alive(pid: int) -> bool:
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return False
    except OSError:
        return True
    return True
