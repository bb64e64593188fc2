"""Writing a file in one step."""

from __future__ import annotations

import os
import tempfile
from pathlib import Path

_MODE = 0o644  # of a new file


def replace(path: Path, text: str, *, errors: str = "strict") -> None:
    """Replace a file so that no reader ever sees half of it; its permissions stay.  Raises OSError.

    ``errors`` says what becomes of characters that UTF-8 does not have.
    """
    path = path.resolve()
    mode = path.stat().st_mode & 0o777 if path.exists() else _MODE
    handle, name = tempfile.mkstemp(dir=path.parent, prefix=f".{path.name}.")
    try:
        with open(handle, "w", encoding="utf-8", newline="", errors=errors) as new:
            new.write(text)
        os.chmod(name, mode)
        os.replace(name, path)
    except BaseException:
        Path(name).unlink(missing_ok=True)
        raise
