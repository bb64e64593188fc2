"""Compile a training step once, in one process, and run it on every rank.

    precompile(step, inputs, mesh={"dp": 4, "tp": 2}, out="artifacts/llama")     # one process
    step = load("artifacts/llama", mesh=device_mesh)                             # every rank
    loss, grads = step(params, batch)

``python -m spmd_runtime.precompile`` has the same on the command line: build, inspect, verify, diff.
"""

from __future__ import annotations

from spmd_runtime.precompile.builder import variant
from spmd_runtime.precompile.errors import (
    BrokenArtifactError,
    CaptureError,
    DisagreementError,
    InputError,
    PeerError,
    PrecompileError,
    StaleArtifactError,
    UntrustedArtifactError,
)
from spmd_runtime.precompile.interface import load, precompile
from spmd_runtime.precompile.loaded import LoadedStep
from spmd_runtime.precompile.specs import TensorSpec, like
from spmd_runtime.precompile.world import fake_world

__all__ = [
    "BrokenArtifactError", "CaptureError", "DisagreementError", "InputError", "LoadedStep", "PeerError",
    "PrecompileError", "StaleArtifactError", "TensorSpec", "UntrustedArtifactError", "fake_world", "like", "load",
    "precompile", "variant",
]  # fmt: skip
