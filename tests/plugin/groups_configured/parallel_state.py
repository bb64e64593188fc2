"""A package of somebody else, without SPMD types: the configuration says which axes its groups have."""

from __future__ import annotations

from typing import Any

import torch.distributed as dist

from spmd_runtime.mesh import lookup


def get_tensor_model_parallel_group() -> dist.ProcessGroup:
    return lookup("tp").group


def get_data_parallel_group(with_context_parallel=False):  # type: ignore[no-untyped-def]
    return lookup("dp").group


def maybe_group() -> dist.ProcessGroup | None:
    return lookup("tp").group


class Collection:
    tp: dist.ProcessGroup
    rest: Any

    def __init__(self) -> None:
        self.tp = lookup("tp").group

    def data(self) -> dist.ProcessGroup:
        return lookup("dp").group

    @property
    def model(self) -> dist.ProcessGroup:
        return lookup("tp").group
