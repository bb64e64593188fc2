"""What mypy loads: put ``plugins = ["spmd_mypy.plugin"]`` into the mypy configuration."""

from __future__ import annotations

from mypy.plugin import Plugin

from spmd_mypy.dispatch import SpmdPlugin


def plugin(version: str) -> type[Plugin]:
    """mypy's entry point."""
    return SpmdPlugin
