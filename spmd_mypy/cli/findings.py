"""What can keep the plugin from checking anything, one function each; ``doctor`` asks all, ``check`` the fatal ones."""

from __future__ import annotations

import importlib.metadata
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Final

from spmd_mypy.cli import settings as reader
from spmd_mypy.cli.finding import Finding, shown
from spmd_mypy.cli.names import certain, names
from spmd_mypy.cli.settings import Settings
from spmd_mypy.cli.surroundings import cache, daemon, other_mypy, versions

# Where one of these is not followed, tensors are Any.
_NEEDED: Final = ("torch", "torch._tensor", "torch.nn.functional", "torch.distributed", "spmd_runtime")

# ---- fatal: nothing is checked


def plugin(settings: Settings) -> Iterator[Finding]:
    """Whether the configuration that mypy reads loads the plugin, and whether mypy can read the file at all."""
    file = settings.config_file
    unread = list(reader.broken(settings))
    for found in unread:
        yield Finding("problem", "configuration", f"{found.path} cannot be parsed: {found.reason}",
                      "correct that line; until then mypy passes over the file")  # fmt: skip
    if settings.has_plugin:
        yield Finding("ok", "plugin", f"{shown(file)} loads {reader.PLUGIN}")
    elif file is not None:
        yield Finding("problem", "plugin", f"{shown(file)}, which mypy reads, does not load {reader.PLUGIN}",
                      "run `spmd init`, or add it to `plugins` there")  # fmt: skip
    elif not unread:
        yield Finding("problem", "plugin", "mypy finds no configuration file here, so it loads no plugin",
                      "run `spmd init` in the folder in which mypy is run")  # fmt: skip


def torch(settings: Settings) -> Iterator[Finding]:
    """Whether mypy sees torch; where it does not, every tensor is Any and no error is ever reported."""
    for module in _NEEDED:
        how = settings.for_module(module).follow_imports
        if how in ("skip", "error"):
            yield Finding("problem", "torch", f"follow_imports = {how} holds for {module}: every type of its is Any",
                          "leave follow_imports out, or set it to normal or silent for that module")  # fmt: skip
            return
    places: list[str] = []
    for package in ("torch", "spmd_runtime"):
        found = reader.find(settings, package)
        if found is None:
            continue
        if found.path is None:
            yield Finding("problem", "torch", f"mypy does not find {package}: every tensor is Any", _why(settings))
        elif package == "torch" and not _is_pytorch(Path(found.path)):
            yield Finding("problem", "torch", f"mypy takes {found.path} for torch, which is not PyTorch",
                          "rename it, or take it off mypy_path")  # fmt: skip
        else:
            places.append(f"{package} from {found.path}")
    if places:
        yield Finding("ok", "torch", f"mypy reads {', '.join(places)}")


def _is_pytorch(path: Path) -> bool:
    """Whether that is the package itself; what replaces it has a finding of its own."""
    return path.with_name("_tensor.py").exists() or "torch-stubs" in path.parts


def _why(settings: Settings) -> str:
    if settings.python is None:
        return "no_site_packages or --no-site-packages is set: mypy sees no installed package"
    if Path(settings.python).resolve() != Path(sys.executable).resolve():
        return f"mypy is told to look in the environment of {settings.python}; install torch and spmd-mypy there"
    return "install torch where mypy runs; an isolated environment, as pre-commit makes by default, has none"


def stubs(settings: Settings) -> Iterator[Finding]:
    """A ``torch-stubs`` package takes torch's place."""
    found = reader.find(settings, "torch")
    first = [Path(found.path).parent.parent] if found is not None and found.path else []
    for folder in [*first, *map(Path, getattr(settings.options, "mypy_path", ())), *reader.package_folders(settings)]:
        if (folder / "torch-stubs").is_dir():
            owner = _owner(folder)
            yield Finding(
                "problem", "stubs", f"{folder / 'torch-stubs'} replaces torch's own types, which the plugin extends",
                f"uninstall the package that brings it, {owner}" if owner else "delete it, or take it off mypy_path",
            )  # fmt: skip
            return


def _owner(folder: Path) -> str:
    for distribution in importlib.metadata.distributions(path=[str(folder)]):
        if any(str(file).startswith("torch-stubs/") for file in distribution.files or ()):
            return distribution.metadata["Name"]
    return ""


# ---- the configuration


def configuration(settings: Settings) -> Iterator[Finding]:
    """Several configuration files, of which mypy reads one; and keys that mypy or the plugin refuses."""
    from spmd_mypy.config import ConfigError, load  # noqa: PLC0415

    file = settings.config_file
    if file is None:
        return
    unread = tuple(found.path for found in reader.broken(settings))
    for remark in settings.remarks:
        if not remark.startswith(unread):
            yield Finding("warning", "configuration", f"mypy says: {remark}", "correct it; mypy passes over the key")
    try:
        config = load(file)
    except ConfigError as error:
        yield Finding("problem", "configuration", str(error), "correct the key; mypy ends with status 2 until then")
        return
    for path in reader.sections(Path(file).parent):
        if path.resolve() != Path(file).resolve():
            section = "[tool.mypy]" if path.suffix == ".toml" else "[mypy]"
            yield Finding("warning", "configuration", f"mypy reads {shown(file)} and ignores {section} in {path.name}",
                          "keep one of them; only pyproject.toml can hold all of [tool.spmd-mypy]")  # fmt: skip
    yield Finding("ok", "configuration", f"mesh axes: {config.names()}")


def misplaced(settings: Settings) -> Iterator[Finding]:
    """The plugin's section in another file than the one that mypy reads: nobody reads it."""
    if settings.config_file is None or reader.asked(settings.arguments):
        return
    file = Path(settings.config_file).resolve()
    holders = [path.resolve() for path in reader.sections(file.parent, "spmd-mypy")]
    if holders and file not in holders:
        names = " and ".join(path.name for path in holders)
        yield Finding("problem", "configuration", f"{names} configures the plugin, but mypy reads {shown(str(file))}",
                      f"move the section to {file.name}, or mypy's own configuration to {holders[0].name}")  # fmt: skip


def options(settings: Settings) -> Iterator[Finding]:
    """Options of mypy's without which much stays unchecked."""
    if not settings.options.allow_redefinition:
        yield Finding("warning", "options", "allow_redefinition is off: `x = all_reduce(x, ...)` cannot re-type x",
                      "set allow_redefinition = true, at least for the modules that use SPMD types")  # fmt: skip
    if not settings.options.check_untyped_defs:
        yield Finding("warning", "options", "check_untyped_defs is off: unannotated functions are not checked",
                      "set check_untyped_defs = true (or strict = true)")  # fmt: skip


# ---- the proof: mypy is run


_PROBE: Final = """\
import torch
import spmd_runtime as spmd
from {module} import {axis}
x: spmd.Tensor[spmd.V[{axis}]]
reveal_type(x)
reveal_type(torch.relu(x))
"""
_PLAIN: Final = ("--no-error-summary", "--no-pretty", "--no-color-output", "--hide-error-context")


def probe(settings: Settings) -> Iterator[Finding]:
    """Run mypy over a few lines and look at what it makes of a tensor."""
    from spmd_mypy.config import ConfigError, load  # noqa: PLC0415

    try:
        first = load(settings.config_file).axes[0]
    except ConfigError:
        return
    module = first.fullname.rpartition(".")[0]
    found = reader.find(settings, module)
    if not settings.has_plugin or found is None or found.path is None:
        return
    arguments = ["--config-file", settings.config_file or "", *_PLAIN, "--cache-dir", settings.cache_dir,
                 "-c", _PROBE.format(module=module, axis=first.cls)]  # fmt: skip
    done = subprocess.run([sys.executable, "-m", "mypy", *arguments], capture_output=True, text=True, check=False)
    wanted = f'Revealed type is "Tensor[V[{first.cls}]]"'
    seen = [line for line in done.stdout.splitlines() if "Revealed type" in line]
    if len(seen) == 2 and all(wanted in line for line in seen):
        yield Finding("ok", "probe", f"mypy follows a Tensor[V[{first.cls}]] through torch.relu")
    else:
        text = (done.stdout + done.stderr).strip() or "nothing"
        yield Finding("problem", "probe", f"mypy does not follow a tensor's type; it says:\n{text}",
                      f"delete {settings.cache_dir} and try again; if that does not help, report it")  # fmt: skip


# Those of which one is enough for nothing, or not what was meant, to be checked.
FATAL: Final = (plugin, torch, stubs, misplaced, certain)
ALL: Final = (
    versions,
    plugin,
    configuration,
    misplaced,
    names,
    options,
    other_mypy,
    torch,
    stubs,
    cache,
    daemon,
    probe,
)
