"""How a call is carried out: the row of the table, the kernel for it, and the gradient's way back.

A :class:`Plan` is what a call comes to once its axis, types and options are known.  Plans are kept, so that the next
call of the same kind only looks its plan up.  The gradient takes the plan of the row's backward, which has a backward
of its own: there is one autograd function for all rows, to any order.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

import torch
from torch import Tensor

from spmd_mypy.rules import collectives as table
from spmd_mypy.rules.collectives import Refusal, Transition
from spmd_mypy.rules.kinds import AxisType
from spmd_mypy.rules.kinds import shard as shard_kind
from spmd_runtime import eager, traced
from spmd_runtime.geometry import Geometry, as_sizes
from spmd_runtime.mesh import Bound, lookup
from spmd_runtime.types import I, P, R, Shard, V

_LETTER: Final = {R: "R", I: "I", V: "V", P: "P"}

_KERNELS: Final = {
    "all_reduce": "sum", "all_gather": "gather", "reduce_scatter": "scatter", "all_to_all": "exchange",
}  # fmt: skip


def _kernel(row: Transition) -> str:
    """Which kernel a row's forward is."""
    if row.op in _KERNELS:
        return _KERNELS[row.op]
    if row.op == "reinterpret":
        return "same"
    if row.dst in ("V", "S") and row.src in ("R", "I"):
        return "cut"
    if row.dst == "P" and row.src in ("R", "I"):
        return "first"
    if row.dst == "P" and row.src in ("V", "S"):
        return "place"
    return "same"


def kind(t: Any) -> AxisType:
    if isinstance(t, Shard):
        return shard_kind(t.dim)
    return AxisType(_LETTER[t])  # type: ignore[arg-type]


class Plan:
    def __init__(self, row: Transition, bound: Bound, geometry: Geometry, options: Mapping[str, Any]) -> None:
        self.row, self.bound, self.geometry, self.options = row, bound, geometry, options
        self.kernel = _kernel(row)
        self.communicates = self.kernel in _KERNELS.values()
        self._dual: Plan | None = None

    @property
    def dual(self) -> Plan:
        if self._dual is None:
            op, src, dst = self.row.backward
            geometry = self.geometry.swapped() if op == "all_to_all" else self.geometry
            row = table.TRANSITIONS[op][src, dst]
            self._dual = Plan(row, self.bound, geometry, self.options.get("backward_options") or {})
        return self._dual

    def forward(self, x: Tensor) -> Tensor:
        b, g = self.bound, self.geometry
        if torch.compiler.is_compiling() or torch._C._len_torch_dispatch_stack():
            fn = getattr(traced, ("start_" if self.communicates else "") + self.kernel)
            out = fn(x, b, g)
            if self.communicates:
                out = torch.ops._c10d_functional.wait_tensor(out)
                out = getattr(eager, "finish_" + self.kernel)(out, b, g)
            return out
        if not self.communicates:
            return getattr(eager, self.kernel)(x, b, g)
        out, work = getattr(eager, "start_" + self.kernel)(x, b, g, True)
        if work is not None:
            work.wait()
        return getattr(eager, "finish_" + self.kernel)(out, b, g)

    def __call__(self, x: Tensor) -> Tensor:
        return _Collective.apply(x, self)


class _Collective(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, x: Tensor, plan: Plan) -> Tensor:
        ctx.plan = plan
        return plan.forward(x)

    @staticmethod
    def backward(ctx: Any, g: Tensor) -> Any:
        return ctx.plan.dual(g), None


def perform(op: str, x: torch.Tensor, axis: Any, src: Any, dst: Any, **options: Any) -> Any:
    bound = lookup(axis)
    s, d = kind(src), kind(dst)
    row = table.transition(op, s, d, expert=options.get("expert_mode") or False)
    if isinstance(row, Refusal):
        raise ValueError(f"{op}({src} -> {dst}): {row}")
    dim = 0
    if row.op == "all_to_all":
        stack = (
            s.dim is None and d.dim is None and options["input_split_sizes"] is options["output_split_sizes"] is None
        )
        if s.dim is not None and d.dim is not None:
            dim, join = d.dim, s.dim
        else:
            dim = s.dim if s.dim is not None else options["split_dim"] or 0
            join = d.dim if d.dim is not None else options["concat_dim"] or 0
        geometry = Geometry(
            dim, stack, as_sizes(options["input_split_sizes"]), join, as_sizes(options["output_split_sizes"])
        )
    else:
        part = d if row.dst in ("V", "S") else s
        dim = part.dim if part.dim is not None else options.get("gather_dim") or options.get("scatter_dim") or 0
        geometry = Geometry(dim, part.dim is None, as_sizes(options.get("split_sizes")))
    plan = Plan(row, bound, geometry, {k: options.get(k) for k in ("op_dtype", "out_dtype", "backward_options")})
    plan.dual  # noqa: B018  # built before tracing: a traced backward may not change the plan
    return plan(x)
