"""A module's bound method as a step: its parameters and buffers become the first input."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import torch
from torch import nn


def lifted(step: Callable[..., Any], inputs: Any) -> tuple[Callable[..., Any], Any]:
    """``step`` and ``inputs`` as they are or, for a bound method of a module, with the module's state put first.

    The state is a dict of all parameters and buffers by name; within the step they are the module's own.
    """
    owner = step if isinstance(step, nn.Module) else getattr(step, "__self__", None)
    if not isinstance(owner, nn.Module):
        return step, inputs
    method = owner.forward if step is owner else step
    tensors = {**dict(owner.named_parameters()), **dict(owner.named_buffers())}
    call = _Bound(owner, method)
    if isinstance(inputs, Mapping):
        return call, {"state": tensors, **inputs}
    return call, (tensors, *inputs)


class _Bound:
    """Calls a method of a module with other tensors in the place of its parameters and buffers."""

    def __init__(self, module: nn.Module, method: Callable[..., Any]) -> None:
        self.module, self.method = module, method

    def __call__(self, state: Mapping[str, torch.Tensor], *args: Any, **kwargs: Any) -> Any:
        with nn.utils.stateless._reparametrize_module(self.module, dict(state), tie_weights=True):
            return self.method(*args, **kwargs)
