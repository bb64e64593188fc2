"""What a user's file for the command line looks like: ``make_step`` is called as each rank, gives step and inputs."""

from __future__ import annotations

import torch

from spmd_runtime.precompile import TensorSpec
from tests.precompile.tiny import shards, tiny


def make_step() -> object:
    params = {"w": torch.ones(6, 5, requires_grad=True), "b": torch.ones(5, requires_grad=True)}
    return tiny, (params, TensorSpec((4, 6)), 0.5)


def make_wider() -> object:
    params = {"w": torch.ones(6, 7, requires_grad=True), "b": torch.ones(7, requires_grad=True)}
    return tiny, (params, TensorSpec((4, 6)), 0.5)


def make_dynamic() -> object:
    return shards, (TensorSpec(("n", 3)),)


not_a_function = 3
