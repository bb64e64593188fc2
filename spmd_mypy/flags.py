"""Flags that the chosen configuration gives values, for mypy's own analysis of what is reachable."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from mypy.options import Options


def decide(options: Options, flags: Mapping[str, Any]) -> None:
    """Have mypy take ``if self.config.sequence_parallel:`` one way, as ``always_true`` and ``always_false`` do.

    The only options of mypy's that the plugin sets, and only where ``[tool.spmd-mypy.configurations]`` has flags.
    mypy reads them when it parses, so the branch not taken is not even looked at.  What they do not cover
    (comparisons with a flag's value, ``a if flag else b``) is done by ``hooks.configurations``.

    Args:
        options: mypy's options; names already there are not put there twice (workers get the options of their parent).
        flags: name -> value; a value that is not a boolean counts as Python takes it in a condition.
    """
    for key, truth in (("always_true", True), ("always_false", False)):
        names = [name for name, value in flags.items() if "." not in name and bool(value) is truth]
        known = list(getattr(options, key))
        setattr(options, key, known + [name for name in names if name not in known])
