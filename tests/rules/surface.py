"""The public surface of torch: every callable or property whose name is a user's business.

``public()`` yields names as in ``Call.op``.  Classes are left out, except the modules of ``torch.nn``.
"""

from __future__ import annotations

import inspect
from collections.abc import Iterator
from types import ModuleType

import torch
import torch.nn.functional
import torch.nn.utils.rnn
from torch import nn

FUNCTIONS: dict[str, ModuleType] = {
    "torch": torch,
    "torch.nn.functional": torch.nn.functional,
    "torch.linalg": torch.linalg,
    "torch.fft": torch.fft,
    "torch.special": torch.special,
    "torch.nn.init": torch.nn.init,
    "torch.nn.utils": torch.nn.utils,
    "torch.nn.utils.rnn": torch.nn.utils.rnn,
    "torch.autograd": torch.autograd,
}

# Modules that hold others; the checker looks inside instead.
CONTAINERS = frozenset(
    {"Module", "ModuleList", "ModuleDict", "ParameterList", "ParameterDict", "BufferDict", "Sequential", "Container"}
    | {"DataParallel", "RNNBase", "RNNCellBase"}
)


def functions() -> Iterator[str]:
    """The functions of torch's modules, ``torch._foreach_*`` included."""
    for prefix, module in FUNCTIONS.items():
        for name in sorted(vars(module)):
            value = getattr(module, name)
            if name.startswith("_") and not name.startswith("_foreach_"):
                continue
            if callable(value) and not inspect.isclass(value) and not _typing(value):
                yield f"{prefix}.{name}"


def _typing(value: object) -> bool:
    return getattr(value, "__module__", None) == "typing"


def members() -> Iterator[str]:
    """Methods, operators and properties of a tensor."""
    for name in sorted(dir(torch.Tensor)):
        if not name.startswith("_") or name.startswith("__"):
            yield f"Tensor.{name}"


def modules() -> Iterator[str]:
    """The modules of ``torch.nn`` that compute something themselves."""
    for name in sorted(dir(nn)):
        value = getattr(nn, name)
        if inspect.isclass(value) and issubclass(value, nn.Module) and name not in CONTAINERS:
            yield f"torch.nn.{name}"


def optimizers() -> Iterator[str]:
    """The steps of ``torch.optim``."""
    for name in sorted(dir(torch.optim)):
        value = getattr(torch.optim, name)
        if inspect.isclass(value) and issubclass(value, torch.optim.Optimizer):
            yield f"torch.optim.{name}.step"


def public() -> Iterator[str]:
    """All of it."""
    yield from functions()
    yield from members()
    yield from modules()
    yield from optimizers()
