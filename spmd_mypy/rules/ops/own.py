"""Rows of a project's own operations, from the roles that its configuration or ``spmd.rule`` gives.

``{"linear": ["x"], "factor": ["weight"], "index": ["idx"], "mutated": ["out"]}`` reads: linear in ``x``, linear in
``weight`` by itself, selecting with ``idx``, writing to ``out``.  Parameters that are not named and get tensors are
nonlinear.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from spmd_mypy.rules.grammar import Expression, Parameter, Rule

ROLES: Final = ("linear", "factor", "nonlinear", "index", "shape")
KEYS: Final = (*ROLES, "mutated")


def _names(key: str, value: object) -> tuple[str, ...]:
    if isinstance(value, str):
        value = [value]
    if not isinstance(value, (list, tuple)) or not all(isinstance(name, str) and name.isidentifier() for name in value):
        raise ValueError(f'{key} takes parameter names, as in {key} = ["x"], not {value!r}')
    return tuple(value)


def read(roles: Mapping[str, object]) -> dict[str, tuple[str, ...]]:
    """Parameter names by key, checked.

    Raises ValueError for an unknown key, for what is no list of names, for a parameter with two roles and where no
    parameter is named at all.
    """
    unknown = [key for key in roles if key not in KEYS]
    if unknown:
        raise ValueError(f"unknown role {unknown[0]!r}; the roles are {', '.join(KEYS)}")
    named = {key: _names(key, value) for key, value in roles.items()}
    seen: dict[str, str] = {}
    for role in ROLES:
        for name in named.get(role, ()):
            if name in seen:
                raise ValueError(f"parameter {name!r} cannot be both {seen[name]} and {role}")
            seen[name] = role
    if not seen and not named.get("mutated"):
        raise ValueError(f"no parameter has a role; give at least one of {', '.join(KEYS)}")
    return named


def _group(role: str, names: tuple[str, ...]) -> tuple[Expression, ...]:
    return (Expression(role, tuple(Parameter((name,)) for name in names)),) if names else ()


def rule(roles: Mapping[str, object]) -> Rule:
    """The rule of those roles: a product of what is linear together, each factor, and the rest."""
    named = read(roles)
    factors = tuple(Parameter((name,)) for name in named.get("factor", ()))
    groups = [_group(role, named.get(role, ())) for role in ("linear", "nonlinear", "index", "shape")]
    items: tuple[Parameter | Expression, ...] = (*factors, *(group for found in groups for group in found))
    mutated = named.get("mutated", ())
    read_too = {name for role in ROLES for name in named.get(role, ())}
    # What is written to and has no other role has no old value that counts.
    return Rule(
        Expression("product", items),
        writes=tuple(name for name in mutated if name in read_too),
        overwrites=tuple(name for name in mutated if name not in read_too),
    )
