"""New tensors: from nothing, from numbers, like others."""

from __future__ import annotations

from typing import Final

ROWS: Final = """
zeros ones full arange linspace logspace eye scalar_tensor: shape(fill_value) -> factory
zeros_like ones_like full_like new_zeros new_ones new_full: shape(self, fill_value) -> factory
tensor: linear(data) -> detached
empty empty_like new_empty: shape(self) -> unknown
rand randn randint randperm: shape() -> unknown
rand_like randn_like randint_like: random(self) pointwise
"""
