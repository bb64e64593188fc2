"""Static checking of SPMD tensor types: a mypy plugin and the rules behind it.

This package root imports neither mypy nor torch, so that ``spmd_runtime`` can
read the rules without paying for either.
"""

__version__ = "0.1.0"
