"""Why a call is not accepted: one entry per kind of violation.

``code`` is the error code without its ``spmd-``; ``clause`` the rule in one clause.  In a clause ``{op}`` is the
operation, ``{why}`` what is lost where it is nonlinear; ``{first}`` and ``{second}`` are the operands that the
violation names, by their source text, ``{kind}`` and ``{other}`` their types and ``{axis}`` the axis; ``{written}`` is
what a call in place would make of the first.
"""

from __future__ import annotations

from typing import Final, NamedTuple


class Reason(NamedTuple):
    """The error code of a kind of violation, and its rule as a clause to fill in."""

    code: str
    clause: str


REASONS: Final[dict[str, Reason]] = {
    key: Reason(code, clause)
    for key, code, clause in (
        ("mix", "mix",
         "{first} is Invariant on {axis} and {second} is {other}: the gradient of {first} would differ by rank"),
        ("varying", "mix",
         "{first} is Partial on {axis} and {second} is Varying: a pending sum does not meet local values"),
        ("affine", "mix", "{first} is Partial on {axis} and {second} is not: {second} would be summed once per rank"),
        ("number", "partial", "{first} is Partial on {axis}: {second} would be summed once per rank"),
        ("nonlinear", "partial",
         "{op} is nonlinear and {first} is Partial on {axis}: {why}"),
        ("product", "partial",
         "{first} and {second} are both Partial on {axis}: the product of two pending sums is not the sum of products"),
        ("divisor", "partial",
         "{first} is Partial on {axis} and is divided by: the quotient by a pending sum is not a sum of quotients"),
        ("index", "partial", "{first} is Partial on {axis} and is used as an index or mask: a summand selects nothing"),
        ("discrete", "partial",
         "{op} rounds {first}, which is Partial on {axis}: rounded summands do not sum to the rounded sum"),
        ("random", "partial",
         "{op} draws random numbers and {first} is Partial on {axis}: each rank would draw its own"),
        ("per_rank", "mix", "{op} draws other numbers on each rank of {axis}, where {first} is the same on all"),
        ("inplace", "inplace",
         "{op} makes {first} {written} on {axis} in place, but {first} is {kind} there: others still see {kind}"),
        ("escape", "escape", "{op} reads {first}, which is Partial on {axis}: each rank sees its summand, not the sum"),
        ("loss", "loss", "backward starts at {first}, which is {kind} on {axis}, neither Invariant nor Partial"),
        ("grad", "grad", "{first} is a parameter and Replicate on {axis}: its gradient is Partial and nothing sums it"),
    )
}  # fmt: skip
