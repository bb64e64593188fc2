"""One answer to the question what keeps the plugin from working."""

from __future__ import annotations

import os
from dataclasses import dataclass
from typing import Literal

Level = Literal["ok", "warning", "problem"]


@dataclass(frozen=True, slots=True)
class Finding:
    """What was looked at, what was found, and what to do where it is wrong."""

    level: Level
    about: str
    text: str
    advice: str = ""


def shown(file: str | None) -> str:
    """A file as messages print it: relative where it lies below the current folder."""
    if file is None:
        return "no file"
    relative = os.path.relpath(file)
    return file if relative.startswith("..") else relative
