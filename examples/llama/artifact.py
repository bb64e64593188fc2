"""The step to compile once and load on every rank.

    python -m spmd_runtime.precompile build examples.llama.artifact:make_step --mesh dp=2,tp=2 --out artifacts/llama

Called as each rank that the step is captured as, with the axes bound; nothing here needs numbers or memory.
"""

from __future__ import annotations

import torch

from spmd_runtime.precompile import TensorSpec

from .model import LlamaConfig, SequenceParallelLlama
from .step import Step
from .step import make_step as step_of

LENGTH, BATCH = 64, 8  # tokens per sequence, sequences per dp rank


def make_step() -> tuple[Step, tuple[object, ...]]:
    """Loss and gradients of the sequence-parallel model: ``step(params, tokens, targets)``."""
    with torch.device("meta"):
        model = SequenceParallelLlama(LlamaConfig())
    tokens = TensorSpec((LENGTH, BATCH), torch.int64)
    return step_of(model), (dict(model.named_parameters()), tokens, tokens)
