"""Names that only some versions of torch have; the table knows them all.

Compared: the stubs of 2.9.0, 2.13.0 and 2.14.1 (``python -m tests.rules.versions WHEEL``).
"""

from __future__ import annotations

from typing import Final

# In 2.9, no longer in 2.13: named tensors.
GONE: Final = (
    "Tensor.align_as",
    "Tensor.align_to",
    "Tensor.has_names",
    "Tensor.refine_names",
    "Tensor.rename",
    "Tensor.rename_",
    "torch.align_tensors",
)

# In 2.13, not yet in 2.9.
ADDED: Final = (
    "Tensor.index",
    "torch._foreach_clone",
    "torch._foreach_mm",
    "torch._foreach_powsum",
    "torch.miopen_ctc_loss",
    "torch.nn.LinearCrossEntropyLoss",
    "torch.nn.functional.grouped_mm",
    "torch.nn.functional.linear_cross_entropy",
    "torch.nn.functional.scaled_grouped_mm",
    "torch.nn.functional.scaled_mm",
)

# In 2.14, not yet in 2.13, and the other way round.
LATER: Final = ("torch.linalg.matrix_sqrth", "torch.linalg.polar")
LEAVING: Final = ("torch.cholesky", "torch.qr")
