"""Run marked modules that import a module beside them."""

from __future__ import annotations

import sys
from pathlib import Path

from tests.plugin.execution import execute


def execute_beside(paths: list[str]) -> int:
    """Like ``execute``, with the files' folders on the path."""
    folders = sorted({str(Path(path).parent) for path in paths})
    sys.path[:0] = folders
    try:
        return execute(paths)
    finally:
        del sys.path[: len(folders)]
