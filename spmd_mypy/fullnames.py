"""Full names as mypy sees them, and the names under which users know torch's operations."""

from __future__ import annotations

from typing import Final

from spmd_mypy.patterns import lazily

TENSOR: Final = "torch._tensor.Tensor"
PARAMETER: Final = "torch.nn.parameter.Parameter"
BUFFER: Final = "torch.nn.parameter.Buffer"
TENSOR_BASE: Final = "torch._C.TensorBase"
MODULE: Final = "torch.nn.modules.module.Module"
FUNCTION: Final = "torch.autograd.function.Function"
PROCESS_GROUP: Final = frozenset(
    {"torch._C._distributed_c10d.ProcessGroup", "torch.distributed.distributed_c10d.ProcessGroup"}
)

# Classes of torch that get a type variable for the layout.
GENERIC_TENSORS: Final = frozenset({TENSOR, PARAMETER, BUFFER})

RUNTIME: Final = "spmd_runtime"
TYPES: Final = f"{RUNTIME}.types"
AXES: Final = f"{RUNTIME}.axes"
GROUP_ALIAS: Final = f"{TYPES}.Group"  # as users write it
INFERRED: Final = f"{RUNTIME}.inferred"
GROUP: Final = f"{INFERRED}.Group"
MESH: Final = f"{INFERRED}.DeviceMesh"
PENDING: Final = f"{RUNTIME}.pending.Pending"
REDUCED: Final = f"{TYPES}.Reduced"
IN_FLIGHT: Final = f"{TYPES}.InFlight"
MESH_AXIS: Final = f"{AXES}.MeshAxis"
SPMD_TYPE: Final = f"{TYPES}.SpmdType"
SHARD: Final = f"{TYPES}.Shard"

# Annotation names that stand for a tensor class of torch.
TENSOR_ALIASES: Final = {
    f"{TYPES}.Tensor": TENSOR,
    f"{TYPES}.Parameter": PARAMETER,
    f"{TYPES}.Buffer": BUFFER,
    TENSOR: TENSOR,
    PARAMETER: PARAMETER,
    BUFFER: BUFFER,
}

# Where torch's stubs define what users call by a shorter name; longest prefix first.
_CANONICAL: Final = (
    ("torch._C._nn.log_sigmoid", "torch.nn.functional.logsigmoid"),
    ("torch.nn.utils.clip_grad._clip_grads_with_norm_", "torch.nn.utils.clip_grads_with_norm_"),
    ("torch.nn.utils.clip_grad._get_total_norm", "torch.nn.utils.get_total_norm"),
    ("torch._C._VariableFunctions.", "torch."),
    ("torch._C.TensorBase.", "Tensor."),
    ("torch._tensor.Tensor.", "Tensor."),
    ("torch.nn.parameter.Parameter.", "Tensor."),
    ("torch.nn.parameter.Buffer.", "Tensor."),
    ("torch._C._nn.", "torch.nn.functional."),
    ("torch._C._linalg.", "torch.linalg."),
    ("torch._C._fft.", "torch.fft."),
    ("torch._C._special.", "torch.special."),
    ("torch.functional.", "torch."),
    ("torch._ops.", ""),
    ("_operator.", "operator."),
)
_RENAMED: Final = tuple(prefix for prefix, _ in _CANONICAL)


# How mypy names a method of a union's members, of whose class it has a short name only: ``__radd__ of TensorBase``.
_OF_UNION: Final = lazily(r"(\w+) of (?:Tensor|TensorBase|Parameter|Buffer)")


def method_of_union(fullname: str) -> str | None:
    """The name by which users know a method of tensors that mypy calls on a union; None for other names."""
    found = _OF_UNION.fullmatch(fullname) if " of " in fullname else None
    return None if found is None else f"Tensor.{found.group(1)}"


def canonical(fullname: str) -> str:
    """The name by which users know an operation: ``torch._C.TensorBase.view`` is ``Tensor.view``."""
    for prefix, name in _CANONICAL if fullname.startswith(_RENAMED) else ():
        if fullname.startswith(prefix):
            return name + fullname[len(prefix) :]
    return fullname
