"""Where gradients start and stop."""

from __future__ import annotations

from typing import Final

ROWS: Final = """
detach data: linear(self) -> detached pointwise view
requires_grad_: linear(self) -> leaf pointwise
"""
