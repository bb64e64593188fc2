"""``python -m spmd_mypy.cli`` is ``spmd``."""

from __future__ import annotations

from spmd_mypy.cli.main import main

main()
