#!/usr/bin/env python3
"""Set up and use a checkout with nothing but Python: ``python3 tools/dev.py demo|test|setup``.

Each makes a virtual environment in ``.venv`` (or ``$VENV``) and installs the project into it, editable: ``demo`` with
what users need, ``test`` and ``setup`` with what the tests and linters need too.  What stands for this pyproject.toml
is not installed again.  Torch comes first and by exact version, so that pip does not choose another build of it.
"""

from __future__ import annotations

import argparse
import hashlib
import os
import subprocess
import sys
import venv
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
TORCH = "torch==2.13.0"
EVERYTHING = "[dev,checkers,docs,editor]"
# mypy on the README's example, as it stands there, and on half a transformer block with its loss.
DEMO = ["--config-file", "examples/pyproject.toml", "examples/quickstart.py"]
BLOCK = [*DEMO[:-1], "examples/bugs/block.py"]


def environment_folder() -> Path:
    """The folder of the virtual environment: ``$VENV``, or ``.venv`` in the checkout."""
    return ROOT / os.environ.get("VENV", ".venv")


def python() -> str:
    """The interpreter of the virtual environment."""
    folder = environment_folder()
    return str(folder / ("Scripts/python.exe" if os.name == "nt" else "bin/python"))


def call(*command: str, cwd: Path = ROOT) -> int:
    """Run a command, shown on the screen, and return its exit status."""
    print("$ " + " ".join(Path(part).name if part == python() else part for part in command), flush=True)
    return subprocess.run(command, cwd=cwd, check=False).returncode


def setup(extras: str = "") -> None:
    """Make the virtual environment and install the project with these extras, unless that has been done."""
    folder = environment_folder()
    digest = hashlib.sha256((ROOT / "pyproject.toml").read_bytes()).hexdigest()
    stamps = {name: folder / f"installed{name}" for name in ("", EVERYTHING)}
    if any(s.exists() and s.read_text() == digest for name, s in stamps.items() if extras in name):
        return
    if not Path(python()).exists():
        venv.create(folder, with_pip=True)
    for packages in ([TORCH], ["--editable", f".{extras}"]):
        if call(python(), "-m", "pip", "install", "--quiet", "--disable-pip-version-check", *packages):
            sys.exit("The installation failed; pip says above why.")
    stamps[extras].write_text(digest)


def demo() -> int:
    """Run mypy on the examples with bugs; 0 when it reports them, as it should."""
    found = [call(python(), "-m", "mypy", *arguments) == 1 for arguments in (DEMO, BLOCK)]
    if all(found):
        print("\nEach is a bug that raises nothing when it runs, found without running anything.")
    return 0 if all(found) else 1


def test(arguments: list[str]) -> int:
    """Run the tests, two files at a time, with further pytest arguments."""
    return call(python(), "-m", "pytest", "-n", "2", "--dist", "loadfile", *arguments)


def main() -> int:
    """Read the command line and do what it names."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").split("\n\n", maxsplit=1)[0])
    parser.add_argument("command", choices=["demo", "test", "setup"])
    arguments, rest = parser.parse_known_args()
    if rest and arguments.command != "test":
        parser.error(f"unrecognized arguments: {' '.join(rest)}")
    setup("" if arguments.command == "demo" else EVERYTHING)
    if arguments.command == "demo":
        return demo()
    return test(rest) if arguments.command == "test" else 0


if __name__ == "__main__":
    sys.exit(main())
