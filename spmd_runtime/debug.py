"""SPMD_DEBUG=1."""

from __future__ import annotations

import os
from typing import Any, Final

ENABLED: Final = os.environ.get("SPMD_DEBUG", "") not in ("", "0")


def before(plan: Any, x: Any) -> None: ...
def after(plan: Any, x: Any) -> None: ...
