"""Training steps of the example, one for each thing that a compiled step must do, built as any rank of a mesh.

Each is made twice from the same :class:`Case`: with meta parameters for ``precompile`` (:func:`factory`), and with
numbers on a rank (:func:`real`).
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from functools import partial
from typing import Any

import torch
from torch.optim.adamw import adamw
from torch.utils import _pytree as pytree

from examples.llama.model import (
    Llama,
    LlamaConfig,
    SequenceParallelLlama,
    TensorParallelLlama,
    initial_state,
    load_full,
)
from examples.llama.step import clip, make_step
from spmd_runtime.precompile import TensorSpec, like

Inputs = tuple[Any, ...]
Step = Callable[..., Any]


@dataclass(frozen=True)
class Case:
    """A step: which model, how large, and what it does beside forward and backward."""

    model: str = "sp"
    layers: int = 1
    dim: int = 32
    vocab: int = 64
    length: int = 16
    batch: int = 2
    dtype: torch.dtype = torch.float32
    recompute: bool = False
    bf16: bool = False
    dynamic: bool = False
    micro: int = 1  # batches whose gradients are added up
    adamw: bool = False  # clip the gradients and update the parameters, in the step

    @property
    def config(self) -> LlamaConfig:
        heads = max(2, self.dim // 8)
        return LlamaConfig(
            vocab=self.vocab, dim=self.dim, layers=self.layers, heads=heads, kv_heads=heads // 2, ffn=2 * self.dim,
            recompute=self.recompute,
        )  # fmt: skip

    def ranges(self) -> dict[str, tuple[int, int]]:
        """``dynamic=`` of precompile."""
        return {"batch": (2, 8)} if self.dynamic else {}


def build_model(case: Case) -> Llama:
    """The part of the model that one rank has, without numbers."""
    with torch.device("meta"):
        model = SequenceParallelLlama(case.config) if case.model == "sp" else TensorParallelLlama(case.config)
        return model.to(case.dtype)


def build_step(case: Case, model: Llama) -> Step:
    """The step of a case: ``step(params, tokens, targets)``, with AdamW ``step(params, state, tokens, targets)``."""
    one = make_step(model, case.bf16)
    step = one if case.micro == 1 else partial(accumulated, one)
    return partial(updating, model, step) if case.adamw else step


def accumulated(
    step: Step, params: Mapping[str, torch.Tensor], tokens: torch.Tensor, targets: torch.Tensor
) -> tuple[torch.Tensor, dict[str, torch.Tensor]]:
    """Mean loss and summed gradients of several batches, ``(n, s, b)``."""
    losses = []
    total: dict[str, torch.Tensor] = {}
    for token, target in zip(tokens.unbind(), targets.unbind(), strict=True):
        loss, grads = step(params, token, target)
        losses.append(loss)
        total = {name: total[name] + grad if name in total else grad for name, grad in grads.items()}
    return torch.stack(losses).mean(), total


def updating(
    model: Llama,
    step: Step,
    params: Mapping[str, torch.Tensor],
    state: Mapping[str, Mapping[str, torch.Tensor]],
    *batch: torch.Tensor,
) -> tuple[torch.Tensor, torch.Tensor]:
    """Forward, backward, clipping and AdamW; parameters and state are updated in place.  Gives loss and norm."""
    loss, grads = step(params, *batch)
    with torch.no_grad():
        norm = clip(model, grads, 1.0)
        names = list(params)
        adamw(
            [params[name] for name in names], [grads[name] for name in names],
            [state["mean"][name] for name in names], [state["square"][name] for name in names], [],
            [state["step"][name] for name in names], foreach=False, amsgrad=False, beta1=0.9, beta2=0.95, lr=1e-2,
            weight_decay=0.1, eps=1e-8, maximize=False,
            capturable=torch.compiler.is_compiling(),  # the step's number stays a tensor; eager, CPUs cannot
        )  # fmt: skip
    return loss, norm


def optimizer_state(params: Mapping[str, torch.Tensor]) -> dict[str, dict[str, torch.Tensor]]:
    """AdamW's state before the first step."""
    return {
        "mean": {name: torch.zeros_like(param, requires_grad=False) for name, param in params.items()},
        "square": {name: torch.zeros_like(param, requires_grad=False) for name, param in params.items()},
        "step": {name: torch.zeros((), dtype=param.dtype, device=param.device) for name, param in params.items()},
    }


def factory(case: Case, device: str = "cpu") -> tuple[Step, Inputs]:
    """Step and inputs as ``precompile`` takes them from a factory, without numbers, for ``device``."""
    model = build_model(case)
    params: dict[str, Any] = dict(model.named_parameters())
    shape: tuple[Any, ...] = (case.length, "batch" if case.dynamic else case.batch)
    tokens = TensorSpec(shape if case.micro == 1 else (case.micro, *shape), torch.int64, device)
    state = (optimizer_state(params),) if case.adamw else ()
    params, *state = pytree.tree_map(lambda x: replace(like(x), device=device), (params, *state))
    return build_step(case, model), (params, *state, tokens, tokens)


def real(
    case: Case, dp: int, tp: int, *, batch: int | None = None, compiled_model: bool = False
) -> tuple[Step, Inputs]:
    """Step and inputs with numbers, on the rank (dp, tp) of a mesh whose axes are bound; the same for every call.

    ``compiled_model``: the model's forward is under torch.compile(fullgraph=True), and so its backward.
    """
    model = build_model(case).to_empty(device="cpu")
    if compiled_model:
        model.compile(fullgraph=True, dynamic=False)
    whole = initial_state(model, case.layers, seed=5)
    load_full(model, {name: value * 4 if value.dim() > 1 else value for name, value in whole.items()}, tp)
    params = {name: param.detach().clone().requires_grad_() for name, param in model.named_parameters()}
    generator = torch.Generator().manual_seed(11 + dp)
    shape = (case.length, batch or case.batch) if case.micro == 1 else (case.micro, case.length, batch or case.batch)
    tokens, targets = torch.randint(case.vocab, (2, *shape), generator=generator)
    state = (optimizer_state(params),) if case.adamw else ()
    return build_step(case, model), (params, *state, tokens, targets)


CASES: dict[str, Case] = {
    "tp": Case("tp"),
    "sp": Case("sp"),
    "float64": Case("sp", dtype=torch.float64),
    "recompute": Case("sp", layers=2, length=64, batch=4, recompute=True),
    "recompute tp": Case("tp", layers=2, recompute=True),
    "bf16": Case("tp", bf16=True),
    "dynamic": Case("sp", dynamic=True),
    "bf16 dynamic": Case("sp", bf16=True, dynamic=True),
    "accumulate": Case("sp", micro=2),
    "adamw": Case("sp", adamw=True),
    "all in float64": Case("tp", dtype=torch.float64, micro=2, adamw=True),
}
