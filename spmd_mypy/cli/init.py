"""``spmd init``: switch the plugin on in the configuration that mypy reads."""

from __future__ import annotations

import difflib
import os
import tempfile
from collections.abc import Sequence
from pathlib import Path

import click

from spmd_mypy.cli import edit, settings
from spmd_mypy.cli.terminal import fail, say
from spmd_mypy.config import BUILTIN_AXES, ConfigError, build

DEFAULT_AXES = ("dp", "cp", "tp")


def run(folder: Path, *, axes: str, dry_run: bool) -> int:
    """Edit or make the file; nothing is written unless the whole edit is right."""
    wanted = _axes(axes)
    path = target(folder)
    _say_which(folder, path)
    old = _read(path)
    try:
        changed = edit.toml(old, wanted) if path.suffix == ".toml" else edit.ini(old, wanted)
    except edit.EditError as error:
        fail(f"{_shown(path)}: {error}", "nothing was written")
        return 2
    if changed.text == old:
        click.echo(f"{_shown(path)} has all of it: plugin, options and mesh axes. Next: spmd check")
        return 0
    if dry_run:
        click.echo("".join(_difference(path, old, changed.text)), nl=False)
        return 0
    write(path, changed.text)
    click.echo(f"{_shown(path)}:")
    for line in changed.done:
        click.echo(f"  {line}")
    click.echo("Next: spmd check")
    return 0


def _axes(text: str) -> tuple[str, ...]:
    """The axes of the command line; none where it names none."""
    names = tuple(part.strip() for part in text.split(",") if part.strip())
    try:
        build("--axes", {"axes": list(names or DEFAULT_AXES)})
    except ConfigError:
        known = ", ".join(name.lower() for name in BUILTIN_AXES)
        fail(
            f"--axes {text}: not a list of different mesh axes",
            f"built in are {known}; an own axis is a dotted path: my_project.mesh.Seq",
        )
    return names


def target(folder: Path) -> Path:
    """The file that mypy reads when it is run in ``folder``; pyproject.toml there if it reads none of the project's."""
    try:
        found = settings.read([]).config_file
    except settings.SettingsError as error:
        fail(f"mypy refuses its configuration: {error}", "correct it first; nothing was written")
        raise
    if found is None or _is_personal(Path(found)):
        return folder / "pyproject.toml"
    return Path(found).resolve()


def _is_personal(path: Path) -> bool:
    """A configuration in the home folder, which is no project's."""
    home = Path(os.environ.get("XDG_CONFIG_HOME", Path.home() / ".config")) / "mypy"
    return path.resolve() == (Path.home() / ".mypy.ini").resolve() or home.resolve() in path.resolve().parents


def _say_which(folder: Path, path: Path) -> None:
    beaten = [other for other in settings.sections(path.parent) if other.resolve() != path.resolve()]
    if beaten:
        names = " and ".join(other.name for other in beaten)
        say(f"mypy reads {_shown(path)}, which wins over {names}; that is the file to edit")
    elif path.parent.resolve() != folder.resolve():
        say(f"mypy reads {_shown(path)} when it is run here")
    if path.suffix != ".toml":
        say(f"{path.name} takes the plain keys; tables such as groups, rules and configurations need pyproject.toml")


def _read(path: Path) -> str:
    try:
        with open(path, encoding="utf-8", newline="") as file:
            return file.read()
    except FileNotFoundError:
        return ""
    except (OSError, UnicodeDecodeError) as error:
        fail(f"cannot read {_shown(path)}: {error}")
        raise


def write(path: Path, text: str) -> None:
    """Replace a file in one step, so that no reader ever sees half of it; its permissions stay."""
    path = path.resolve()
    mode = path.stat().st_mode & 0o777 if path.exists() else 0o644
    try:
        with tempfile.NamedTemporaryFile(
            "w", dir=path.parent, prefix=f".{path.name}.", encoding="utf-8", newline="", delete=False
        ) as new:
            new.write(text)
        os.chmod(new.name, mode)
        os.replace(new.name, path)
    except OSError as error:
        Path(new.name).unlink(missing_ok=True) if "new" in locals() else None
        fail(f"cannot write {_shown(path)}: {error.strerror or error}")


def _difference(path: Path, old: str, new: str) -> Sequence[str]:
    return list(difflib.unified_diff(old.splitlines(True), new.splitlines(True), _shown(path), _shown(path)))


def _shown(path: Path) -> str:
    relative = os.path.relpath(path)
    return str(path) if relative.startswith("..") else relative
