"""SPMD_DEBUG=1: every rank says what it is about to do before it does it, and no rank waits for a call that differs.

In eager mode each call first writes its function, axis, types, shape, dtype and call site to the group's store, under
the number of the call on that axis, and reads what the other ranks wrote.  Where ranks disagree each raises
:class:`Disagreement`, which says which rank does what at which line; a rank that has written nothing when
SPMD_DEBUG_TIMEOUT (default 60 s) is over is named, with what it was last seen to do.  A tensor that is claimed to be R
or I (``src``, and the result of a reduction) is compared too, up to SPMD_DEBUG_TOLERANCE (relative, default 0).
"""

from __future__ import annotations

import contextlib
import hashlib
import os
import sys
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

import torch
from torch import Tensor

from spmd_runtime import meeting
from spmd_runtime.meeting import Disagreement, Record
from spmd_runtime.mesh import changed

if TYPE_CHECKING:
    from spmd_runtime.plan import Plan

__all__ = ["ENABLED", "Disagreement", "after", "backward_of", "before", "enable", "site"]

ENABLED: bool = os.environ.get("SPMD_DEBUG", "") not in ("", "0")

# Directories whose frames are not the caller's.
_INSIDE: Final = (str(Path(__file__).parent), str(Path(torch.__file__).parent))
_here = threading.local()


def enable(on: bool = True) -> None:
    """Switch the checks on or off, as SPMD_DEBUG does for the whole process; all ranks must do so."""
    global ENABLED  # noqa: PLW0603
    ENABLED = on
    changed()


def site() -> str:
    """The caller's line; in a backward that of the forward call."""
    forward = getattr(_here, "forward", None)
    if forward is not None:
        return f"the backward of {forward}"
    frame = sys._getframe(1)
    while frame.f_back is not None and frame.f_code.co_filename.startswith(_INSIDE):
        frame = frame.f_back
    return f"{Path(frame.f_code.co_filename).name}:{frame.f_lineno} in {frame.f_code.co_name}"


@contextlib.contextmanager
def backward_of(forward: str | None) -> Iterator[None]:
    """In this thread, calls belong to the backward of the call at ``forward``."""
    before, _here.forward = getattr(_here, "forward", None), forward
    try:
        yield
    finally:
        _here.forward = before


def before(plan: Plan, x: Tensor) -> None:
    """Compare the call with the other ranks', and ``x`` where it is claimed R or I; raises :class:`Disagreement`."""
    claimed = plan.row.src if plan.row.src in ("R", "I") else None
    if plan.communicates or claimed:
        _meet(plan, x, claimed, "")


def after(plan: Plan, result: Tensor) -> None:
    """Compare the result of a reduction, which all ranks must have alike; raises :class:`Disagreement`."""
    if plan.kernel == "sum":
        _meet(plan, result, plan.row.dst, "the result of ")


def _meet(plan: Plan, x: Tensor, claimed: str | None, what: str) -> None:
    if plan.bound.size == 1 or not meeting.can_meet(plan.bound):
        return
    digest = hashlib.sha1(_bytes(x), usedforsecurity=False).hexdigest() if claimed else ""
    records = meeting.exchange(plan.bound, _record(plan, x, what, digest))
    if len({record.digest for record in records}) > 1:
        meeting.compare_values(plan.bound, x, f"{what}{plan}: the tensor is claimed {claimed}", records)


def _record(plan: Plan, x: Tensor, what: str, digest: str) -> Record:
    g = plan.geometry
    how = f"dim {g.dim}{' stacked' if g.stack else ''}, join {g.join}, at {g.place}"
    sizes, join_sizes = (list(sizes) if sizes is not None else None for sizes in (g.sizes, g.join_sizes))
    return Record(f"{what}{plan}", how, list(x.shape), str(x.dtype), site(), digest, g.dim, sizes, g.join, join_sizes)


def _bytes(x: Tensor) -> Any:
    flat = x.detach().resolve_conj().resolve_neg().contiguous().cpu().reshape(-1)
    return flat.view(torch.uint8).numpy().data if flat.numel() else b""
