"""The error codes.  Every code is a sub-code of ``spmd``."""

from __future__ import annotations

from typing import Final

from mypy.errorcodes import ErrorCode

CATEGORY: Final = "SPMD"

SPMD: Final = ErrorCode("spmd", "SPMD types: every check of spmd_mypy", CATEGORY)


def _sub(name: str, description: str) -> ErrorCode:
    return ErrorCode(f"spmd-{name}", description, CATEGORY, sub_code_of=SPMD)


MIX: Final = _sub("mix", "Operands whose types do not go together on a mesh axis")
PARTIAL: Final = _sub("partial", "A Partial tensor where the pending sum must be reduced first")
COLLECTIVE: Final = _sub("collective", "A collective whose tensor, axis, src or dst does not fit")
SHARD: Final = _sub("shard", "A collective whose shard dim contradicts the tensor's")
INPLACE: Final = _sub("inplace", "An in-place operation that would change its target's type")
LOSS: Final = _sub("loss", "backward() of a loss whose type gives wrong gradients")
GRAD: Final = _sub("grad", "A gradient that nobody reduces, or of the wrong type")
ESCAPE: Final = _sub("escape", "A pending sum that leaves the tensor world as a Python value")
ANNOTATION: Final = _sub("annotation", "A wrong SPMD type annotation")
ARG: Final = _sub("arg", "An argument of another SPMD type than the parameter's")
RETURN: Final = _sub("return", "A returned value of another SPMD type than declared")
ASSIGN: Final = _sub("assign", "An assigned value of another SPMD type than declared")

ALL: Final = (MIX, PARTIAL, COLLECTIVE, SHARD, INPLACE, LOSS, GRAD, ESCAPE, ANNOTATION, ARG, RETURN, ASSIGN)
