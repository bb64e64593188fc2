"""Regular expressions that are compiled when they are first used.

Most of the plugin's belong to messages, and most runs have none to print: compiling them all takes as long as
importing a third of the plugin.
"""

from __future__ import annotations

import re
from typing import Any, Final, cast


class _Lazy:
    """Stands for a compiled pattern: has its methods."""

    def __init__(self, pattern: str, flags: int) -> None:
        self.pattern = pattern
        self._flags = flags

    def __getattr__(self, name: str) -> Any:
        found = getattr(re.compile(self.pattern, self._flags), name)
        setattr(self, name, found)
        return found


def lazily(pattern: str, flags: int = 0) -> re.Pattern[str]:
    """``re.compile(pattern, flags)``, done with the first call of one of its methods."""
    return cast("re.Pattern[str]", _Lazy(pattern, flags))


QUOTED: Final = lazily(r'"([^"]*)"')  # a type or a name in one of mypy's messages
