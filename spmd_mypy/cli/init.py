"""``spmd init``: switch the plugin on in the configuration that mypy reads."""

from __future__ import annotations

import difflib
import os
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Final

import click

from spmd_mypy.cli import edit, files, settings
from spmd_mypy.cli.terminal import fail, say
from spmd_mypy.config import BUILTIN_AXES, ConfigError, build

_QUESTION: Final = "Mesh axes, as your device mesh names its dims"
_GUESSED: Final = """\
The mesh axes are placeholders: write those of your device mesh to {file}, in any order.
Built in are {known}; an own axis is the dotted path of its class: my_project.mesh.Seq
Next: edit the axes, then spmd check"""


def run(folder: Path, *, axes: str, dry_run: bool) -> int:
    """Edit or make the file; nothing is written unless the whole edit is right."""
    wanted = _axes(axes)
    path = target(folder)
    _say_which(folder, path)
    old = _read(path)
    changed = _edited(path, old, wanted)
    if changed.guessed and not dry_run and _is_interactive():
        changed = _edited(path, old, _axes(click.prompt(_QUESTION, default=", ".join(edit.DEFAULT_AXES))))
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
    click.echo(_GUESSED.format(file=_shown(path), known=_known()) if changed.guessed else "Next: spmd check")
    return 0


def _edited(path: Path, old: str, axes: Sequence[str]) -> edit.Edited:
    try:
        return edit.toml(old, axes) if path.suffix == ".toml" else edit.ini(old, axes)
    except edit.EditError as error:
        fail(f"{_shown(path)}: {error}", "nothing was written")
        raise


def _is_interactive() -> bool:
    """Whether somebody can be asked."""
    return sys.stdin.isatty() and sys.stdout.isatty()


def _known() -> str:
    return ", ".join(name.lower() for name in BUILTIN_AXES)


def _axes(text: str) -> tuple[str, ...]:
    """The axes of the command line; none where it names none."""
    names = tuple(part.strip() for part in text.split(",") if part.strip())
    try:
        build("--axes", {"axes": list(names or edit.DEFAULT_AXES)})
    except ConfigError:
        fail(
            f"--axes {text}: not a list of different mesh axes",
            f"built in are {_known()}; an own axis is a dotted path: my_project.mesh.Seq",
        )
    return names


def target(folder: Path) -> Path:
    """The file that mypy reads when it is run in ``folder``; pyproject.toml there if it reads none of the project's."""
    try:
        found = settings.read([], default_target=False)
    except settings.SettingsError as error:
        fail(f"mypy refuses its configuration: {error}", "correct it first; nothing was written")
        raise
    for broken in settings.broken(found):
        fail(f"{broken.path} cannot be parsed: {broken.reason}", "correct it first; nothing was written")
    if found.config_file is None or _is_personal(Path(found.config_file)):
        return folder / "pyproject.toml"
    return Path(found.config_file).resolve()


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
    unread = [other for other in settings.sections(path.parent, "spmd-mypy") if other.resolve() != path.resolve()]
    for other in unread:
        say(f"{other.name} has a section for the plugin, which mypy does not read there; move what is in it")
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
    """Replace the file; where that cannot be done, end."""
    try:
        files.replace(path, text)
    except OSError as error:
        fail(f"cannot write {_shown(path)}: {error.strerror or error}")


def _difference(path: Path, old: str, new: str) -> Sequence[str]:
    return list(difflib.unified_diff(old.splitlines(True), new.splitlines(True), _shown(path), _shown(path)))


def _shown(path: Path) -> str:
    relative = os.path.relpath(path)
    return str(path) if relative.startswith("..") else relative
