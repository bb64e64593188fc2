"""Temporary directories that do not outlive their process for long, even one that is killed.

Each is locked by the process that has made it for as long as that lives.  Whoever makes another one removes those of
the same user that nobody holds any more.
"""

from __future__ import annotations

import atexit
import contextlib
import fcntl
import os
import shutil
import tempfile
import time
from pathlib import Path
from typing import Final

_YOUNG: Final = 60.0  # seconds that a directory may be without a lock: it is being made
_held: dict[Path, tuple[int | None, int]] = {}  # the lock and the process that made it


def make(prefix: str) -> Path:
    """A fresh directory, readable by this user alone; gone at the end of the process or with :func:`drop`."""
    _remove_abandoned(prefix)
    folder = Path(tempfile.mkdtemp(prefix=prefix))
    try:
        lock: int | None = _lock(folder)
    except OSError:  # a file system without locks
        lock = None
    _held[folder] = lock, os.getpid()
    return folder


def drop(folder: Path) -> None:
    """Remove a directory of :func:`make`."""
    shutil.rmtree(folder, ignore_errors=True)
    lock, _ = _held.pop(folder, (None, 0))
    if lock is not None:
        os.close(lock)


def _lock(folder: Path) -> int:
    """Lock a directory; raises OSError where another process has it."""
    found = os.open(folder, os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW)
    try:
        fcntl.flock(found, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except OSError:
        os.close(found)
        raise
    return found


def _remove_abandoned(prefix: str) -> None:
    for folder in Path(tempfile.gettempdir()).glob(f"{prefix}*"):
        with contextlib.suppress(OSError):
            about = folder.lstat()
            if about.st_uid == os.getuid() and about.st_mtime < time.time() - _YOUNG:
                lock = _lock(folder)
                shutil.rmtree(folder, ignore_errors=True)
                os.close(lock)


def _drop_all() -> None:
    for folder, (_, process) in list(_held.items()):
        if process == os.getpid():  # a forked child shares its parent's locks
            drop(folder)


atexit.register(_drop_all)
