"""Fields of what torch's operations return together: ``x.max(0).values`` has the type of the first output.

torch's stubs declare these classes as tuples, with a property for each item that says ``Tensor``.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Final

from mypy.plugin import AttributeContext
from mypy.types import TupleType, Type, get_proper_type

MODULE: Final = "torch.return_types"

# Fields in the order of the tuple, by class.
FIELDS: Final = {
    **dict.fromkeys(
        ("max", "min", "median", "nanmedian", "mode", "sort", "topk", "kthvalue", "cummax", "cummin"), "values indices"
    ),
    "aminmax": "min max",
    "frexp": "mantissa exponent",
    "geqrf": "a tau",
    "histogram": "hist bin_edges",
    "lu_unpack": "P L U",
    "qr": "Q R",
    "slogdet": "sign logabsdet",
    "svd": "U S V",
    "triangular_solve": "solution cloned_coefficient",
    "_linalg_eigh": "eigenvalues eigenvectors",
    "_linalg_svd": "U S Vh",
}


def field(at: int, ctx: AttributeContext) -> Type:
    """The attribute that names item ``at`` of a tuple."""
    t = get_proper_type(ctx.type)
    return t.items[at] if isinstance(t, TupleType) and at < len(t.items) else ctx.default_attr_type


def attributes() -> dict[str, Callable[[AttributeContext], Type]]:
    """Hooks by full name."""
    return {
        f"{MODULE}.{name}.{attribute}": partial(field, at)
        for name, fields in FIELDS.items()
        for at, attribute in enumerate(fields.split())
    }
