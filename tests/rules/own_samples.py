"""Calls to simulate that torch's own tests do not have, or not so that a wrong claim shows.

A row is an operation, its positional arguments and its keyword arguments, drawn from a seeded generator.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator

import torch
from torch import Tensor

from tests.rules.samples import Row, make
from tests.rules.simulate import Sample

_generator = torch.Generator()


def t(*shape: int) -> Tensor:
    """Normal numbers."""
    return torch.randn(shape, generator=_generator, dtype=torch.float64)


def pos(*shape: int) -> Tensor:
    """Numbers in (0.1, 0.9)."""
    return torch.rand(shape, generator=_generator, dtype=torch.float64) * 0.8 + 0.1


def whole(*shape: int) -> Tensor:
    """Small whole numbers, a zero and a one among them, as floats."""
    x = torch.randint(-1, 2, shape, generator=_generator).double()
    x.view(-1)[0], x.view(-1)[-1] = 0, 1
    return x


def i(*values: int) -> Tensor:
    """Indices."""
    return torch.tensor(values)


def ints(*shape: int) -> Tensor:
    """Small positive integers."""
    return torch.randint(1, 4, shape, generator=_generator)


def b(*shape: int) -> Tensor:
    """A mask."""
    return torch.rand(shape, generator=_generator) > 0.5


def spd(n: int) -> Tensor:
    """A symmetric positive definite matrix."""
    x = t(n, n)
    return x @ x.mT + n * torch.eye(n, dtype=torch.float64)


def cx(*shape: int) -> Tensor:
    """Complex numbers."""
    return torch.complex(t(*shape), t(*shape))


def _operators() -> Iterator[Row]:
    yield "Tensor.__add__", (t(2, 3), t(2, 3)), {}
    yield "Tensor.__iadd__", (t(2, 3), t(3)), {}
    yield "Tensor.__radd__", (t(2, 3), 0), {}
    yield "Tensor.__radd__", (t(2, 3), 2.0), {}
    yield "Tensor.__rsub__", (t(2, 3), 1.0), {}
    yield "Tensor.__mul__", (t(2, 3), t(2, 3)), {}
    yield "Tensor.__truediv__", (t(2, 3), t(2, 3)), {}
    yield "Tensor.__rtruediv__", (t(2, 3), 2.0), {}
    yield "Tensor.__pow__", (pos(2, 3), pos(2, 3)), {}
    yield "Tensor.__pow__", (t(2, 3), 1), {}
    yield "Tensor.__matmul__", (t(2, 3), t(3, 2)), {}
    yield "Tensor.__lshift__", (ints(2, 3), ints(2, 3)), {}
    yield "Tensor.__rlshift__", (ints(2, 3), 2), {}
    yield "Tensor.__and__", (ints(2, 3), ints(2, 3)), {}
    yield "Tensor.__or__", (ints(2, 3), ints(2, 3)), {}
    yield "Tensor.__xor__", (ints(2, 3), ints(2, 3)), {}
    yield "Tensor.__invert__", (ints(2, 3),), {}
    yield "Tensor.__neg__", (t(2, 3),), {}


# Casts: torch's own samples may all have a memory format, which torch's stubs do not know.
_CASTS = ("float", "double", "half", "bfloat16", "long", "int", "short", "char", "byte", "bool")


def _elementwise() -> Iterator[Row]:
    for cast in _CASTS:
        yield f"Tensor.{cast}", (t(2, 3),), {}
    yield "torch.add", (t(2, 3), t(2, 3)), {"alpha": 2}
    yield "torch.add", (t(2, 3), t(2, 3)), {"out": torch.zeros(2, 3, dtype=torch.float64)}
    yield "torch.mul", (t(2, 3), t(2, 3)), {"out": torch.zeros(2, 3, dtype=torch.float64)}
    yield "torch.div", (t(2, 3), t(2, 3)), {"rounding_mode": "floor"}
    yield "torch.igamma", (pos(4), pos(4)), {}
    yield "torch.igammac", (pos(4), pos(4)), {}
    yield "torch.special.gammainc", (pos(4), pos(4)), {}
    yield "torch.special.gammaincc", (pos(4), pos(4)), {}
    yield "torch.special.zeta", (pos(4) + 1.5, pos(4)), {}
    yield "torch.grid_sampler_3d", (t(1, 1, 3, 3, 3), pos(1, 2, 2, 2, 3), 0, 0, False), {}
    yield "torch.grid_sampler_2d", (t(1, 1, 3, 3), pos(1, 2, 2, 2) - 0.5, 0, 0, False), {}
    yield "torch.grid_sampler", (t(1, 1, 3, 3), pos(1, 2, 2, 2) - 0.5, 0, 0, False), {}
    special = torch.tensor([1.0, float("nan"), float("inf"), -float("inf")], dtype=torch.float64)
    for name in ("isnan", "isinf", "isfinite", "isposinf", "isneginf", "nan_to_num"):
        yield f"torch.{name}", (special,), {}
        yield f"Tensor.{name}", (special,), {}
    yield "torch.isreal", (torch.complex(t(4), whole(4)),), {}
    yield "torch.isin", (whole(6), whole(2)), {}
    yield "torch.logical_not", (whole(6),), {}
    yield "Tensor.logical_not_", (whole(6),), {}
    yield "Tensor.bool", (whole(6),), {}
    yield "torch.where", (b(6), t(6), t(6)), {}
    yield "torch.where", (b(6), t(6), 0.0), {}
    yield "torch.where", (b(6), t(6), 1.0), {}
    yield "torch.masked_fill", (t(6), b(6), 0.0), {}
    yield "torch.masked_fill", (t(6), b(6), 1.0), {}
    yield "torch.clamp", (t(6), 0.0, 1.0), {}
    for name in ("type_as", "to"):
        yield f"Tensor.{name}", (t(3), t(2)), {}
    yield "Tensor.to", (t(3), torch.float32), {}
    yield "Tensor.to", (t(3), torch.int64), {}
    yield "Tensor.type", (t(3), torch.float32), {}
    yield "Tensor.type", (t(3), torch.int32), {}
    yield "Tensor.view", (t(3), torch.int64), {}
    for name in ("cpu", "to_dense", "share_memory_"):
        yield f"Tensor.{name}", (t(3),), {}
    yield "Tensor.copy_", (t(3), t(3)), {}
    yield "Tensor.zero_", (t(3),), {}
    yield "torch.zero_", (t(3),), {}
    yield "Tensor.fill_", (t(3), 0.0), {}
    yield "Tensor.fill_", (t(3), 2.0), {}
    yield "Tensor.fill_", (t(3), t()), {}
    yield "torch.fill_", (t(3), 2.0), {}
    yield "Tensor.fill_diagonal_", (t(3, 3), 0.0), {}
    yield "Tensor.fill_diagonal_", (t(3, 3), 1.0), {}
    yield "Tensor.apply_", (t(3), abs), {}
    yield "Tensor.map_", (t(3), t(3), max), {}
    yield "torch.quantize_per_tensor_dynamic", (t(3).float(), torch.qint8, False), {}
    yield "torch.fake_quantize_per_tensor_affine", (t(6).float(), 0.1, 0, 0, 255), {}


def _comparisons() -> Iterator[Row]:
    for name in ("eq", "ne", "not_equal", "isclose", "logical_and", "logical_or", "logical_xor"):
        yield f"torch.{name}", (whole(6), whole(6)), {}
        yield f"Tensor.{name}", (whole(6), whole(6)), {}
    for name in ("heaviside", "nextafter", "copysign"):
        yield f"torch.{name}", (whole(6), whole(6)), {}
        yield f"Tensor.{name}_", (whole(6), whole(6)), {}
    for name in ("logical_and", "logical_or", "logical_xor"):
        # Of floats V has other values, but no other zeros.
        yield f"Tensor.{name}", (whole(24).long(), whole(24).long()), {}
        yield f"Tensor.{name}_", (whole(24).long(), whole(24).long()), {}
    for name in ("eq", "ne", "not_equal"):
        yield f"Tensor.{name}_", (whole(6), whole(6)), {}


def _reductions() -> Iterator[Row]:
    yield "torch.nansum", (torch.tensor([1.0, float("nan"), 2.0], dtype=torch.float64),), {}
    yield "torch.nanmean", (torch.tensor([1.0, float("nan"), 2.0], dtype=torch.float64),), {}
    yield "torch.sum", (t(2, 3),), {"dtype": torch.int64}
    yield "torch.sum", (t(2, 3),), {"dtype": torch.float32}
    for name in ("all", "any", "count_nonzero"):
        yield f"torch.{name}", (torch.tensor([[1.0, 0.0], [0.0, 0.0]], dtype=torch.float64), 1), {}
        yield f"Tensor.{name}", (torch.tensor([[1.0, 0.0], [0.0, 0.0]], dtype=torch.float64), 1), {}
    yield "torch.linalg.matrix_rank", (torch.ones(3, 3, dtype=torch.float64),), {}
    yield "torch.matrix_rank", (torch.ones(3, 3, dtype=torch.float64),), {}
    yield "torch.frobenius_norm", (t(2, 3), [0, 1]), {}
    yield "torch.nuclear_norm", (t(2, 3),), {}
    yield "torch.native_norm", (t(2, 3), 2), {}
    yield "torch.norm_except_dim", (t(2, 3), 2, 0), {}
    yield "torch._foreach_norm", ([t(2), t(3)],), {}
    yield "torch._foreach_powsum", ([t(2), t(3)],), {}
    yield "torch.max", (t(2, 3), 1), {}
    yield "torch.max", (t(2, 3), t(2, 3)), {}
    yield "torch.bucketize", (t(5), torch.tensor([-1.0, 0.0, 1.0], dtype=torch.float64)), {}
    yield "torch.searchsorted", (torch.tensor([-1.0, 0.0, 1.0], dtype=torch.float64), t(5)), {}
    yield "torch.cdist", (t(2, 3), t(4, 3)), {}
    yield "torch.cosine_similarity", (t(2, 3), t(2, 3)), {}
    for name in ("quantile", "nanquantile"):
        yield f"torch.{name}", (t(7), 0.4), {}
        yield f"torch.{name}", (t(7), pos(2)), {}
        yield f"Tensor.{name}", (t(3, 4), pos(2), 1), {}
    yield "torch.histc", (t(7),), {"bins": 4, "min": -1, "max": 1}


def _shapes() -> Iterator[Row]:
    yield "torch.select_copy", (t(2, 3), 0, 1), {}
    yield "torch.slice_copy", (t(4, 3), 0, 1, 3), {}
    yield "torch.split_copy", (t(4, 3), 2), {}
    yield "torch.unsafe_split_with_sizes", (t(4, 3), [1, 3]), {}
    yield "torch.view_as_real_copy", (cx(3),), {}
    yield "torch.view_as_complex_copy", (t(3, 2),), {}
    yield "torch.native_channel_shuffle", (t(1, 4, 2, 2), 2), {}
    yield "Tensor.resize", (t(4), 2, 2), {}
    yield "Tensor.resize_as", (t(4), t(2, 2)), {}
    yield "Tensor.resize_", (t(4), (2, 2)), {}
    yield "Tensor.resize_as_", (t(4), t(2, 2)), {}
    for name in ("to_sparse_coo", "to_sparse_csr", "to_sparse_csc", "to_sparse"):
        yield f"Tensor.{name}", (t(3, 3),), {}
    yield "Tensor.to_sparse_bsr", (t(4, 4), (2, 2)), {}
    yield "Tensor.to_sparse_bsc", (t(4, 4), (2, 2)), {}
    yield "Tensor.__iter__", (t(3, 2),), {}
    yield "Tensor.__reversed__", (t(3, 2),), {}
    yield "torch.narrow", (t(4, 3), 0, torch.tensor(1), 2), {}
    yield "torch.tensor_split", (t(4, 3), i(1, 3)), {}
    yield "torch.cat", ([t(2), t(3)],), {}
    yield "torch.nn.utils.rnn.pad_sequence", ([t(2), t(3)],), {}
    yield "torch.nn.utils.rnn.pad_sequence", ([t(2), t(3)],), {"padding_value": 1.0}
    yield "torch.nn.utils.rnn.invert_permutation", (i(2, 0, 1),), {}
    yield "torch.nn.functional.pad", (t(2, 3), (1, 1)), {}
    yield "torch.nn.functional.pad", (t(2, 3), (1, 1)), {"value": 1.0}
    yield "torch.nn.functional.pad", (t(1, 2, 3), (1, 1)), {"mode": "reflect"}
    yield "torch.slice_inverse", (t(2, 3), t(4, 3), 0, 1, 3), {}
    yield "torch.diff", (t(4),), {"prepend": t(1), "append": t(1)}
    yield "torch.diff", (t(4),), {"append": t(1)}
    yield "torch.diff", (t(4),), {"prepend": t(1)}
    yield "torch.gradient", (t(5),), {"spacing": [torch.arange(5.0, dtype=torch.float64) ** 2]}
    yield "torch.trapezoid", (t(5), t(5)), {}


def _indexing() -> Iterator[Row]:
    yield "Tensor.__getitem__", (t(4, 3), i(1, 3)), {}
    yield "Tensor.__getitem__", (t(4, 3), (slice(None), i(1, 2))), {}
    yield "Tensor.__getitem__", (t(4), torch.tensor([True, False, True, False])), {}
    yield "Tensor.__setitem__", (t(4, 3), 0, t(3)), {}
    yield "Tensor.__setitem__", (t(4, 3), i(1, 3), t(3)), {}
    yield "Tensor.__setitem__", (t(4, 3), 0, 0.0), {}
    yield "Tensor.__setitem__", (t(4, 3), 0, 1.0), {}
    yield "Tensor.sparse_mask", (t(3, 3), torch.eye(3, dtype=torch.float64).to_sparse()), {}
    yield "Tensor.slice_scatter", (t(4, 3), t(2, 3), 0, 1, 3), {}
    yield "torch.slice_scatter", (t(4, 3), t(2, 3), 0, 1, 3), {}
    yield "torch.scatter", (t(2, 3), 1, i(0, 1).reshape(2, 1), t(2, 1)), {}
    yield "Tensor.scatter", (t(2, 3), 1, i(0, 1).reshape(2, 1), t(2, 1)), {"reduce": "add"}
    yield "Tensor.scatter", (t(2, 3), 1, i(0, 1).reshape(2, 1), t(2, 1)), {"reduce": "multiply"}
    yield "Tensor.scatter_reduce", (t(2, 3), 1, i(0, 1).reshape(2, 1), t(2, 1), "sum"), {}
    yield "Tensor.scatter_reduce", (t(2, 3), 1, i(0, 1).reshape(2, 1), t(2, 1), "amax"), {}
    for reduce in ("sum", "mean", "max"):
        yield "torch.segment_reduce", (t(5, 2), reduce), {"lengths": i(2, 3)}
    yield "torch.nn.functional.embedding", (i(0, 2, 1), t(3, 4)), {}
    yield "torch.nn.functional.embedding", (i(0, 2, 1), t(3, 4)), {"max_norm": 0.5}
    yield "torch.nn.functional.embedding_bag", (i(0, 2, 1, 1), t(3, 4), i(0, 2)), {"mode": "sum"}
    yield "torch.nn.functional.embedding_bag", (i(0, 2, 1, 1), t(3, 4), i(0, 2)), {"mode": "max"}
    per_sample: dict[str, object] = {"mode": "sum", "per_sample_weights": pos(4)}
    yield "torch.nn.functional.embedding_bag", (i(0, 2, 1, 1), t(3, 4), i(0, 2)), per_sample
    yield "torch.embedding_bag", (t(3, 4), i(0, 2, 1, 1), i(0, 2)), {}
    yield "torch.embedding_bag", (t(3, 4), i(0, 2, 1, 1), i(0, 2), False, 2), {}
    yield "torch.embedding", (t(3, 4), i(0, 2, 1)), {}
    yield "torch.embedding_renorm_", (t(3, 4), i(0, 2), 0.5, 2.0), {}
    yield "torch.bincount", (i(0, 1, 1, 2),), {"weights": t(4)}
    yield "torch.bincount", (i(0, 1, 1, 2),), {}
    checked: dict[str, object] = {"check_invariants": True}
    yield "torch.sparse_coo_tensor", (torch.tensor([[0, 1], [1, 0]]), t(2), (2, 2)), checked
    yield "torch.sparse_csr_tensor", (i(0, 1, 2), i(0, 1), t(2), (2, 2)), checked
    yield "torch.sparse_csc_tensor", (i(0, 1, 2), i(0, 1), t(2), (2, 2)), checked
    yield "torch.sparse_bsr_tensor", (i(0, 1), i(0), t(1, 2, 2), (2, 2)), checked
    yield "torch.sparse_bsc_tensor", (i(0, 1), i(0), t(1, 2, 2), (2, 2)), checked
    compressed = {"layout": torch.sparse_csr, **checked}
    yield "torch.sparse_compressed_tensor", (i(0, 1, 2), i(0, 1), t(2), (2, 2)), compressed

    coo = torch.eye(3, dtype=torch.float64).to_sparse().coalesce()
    for name in ("coalesce", "indices", "values"):
        yield f"Tensor.{name}", (coo,), {}
    for name in ("crow_indices", "col_indices", "values"):
        yield f"Tensor.{name}", (coo.to_sparse_csr(),), {}
    for name in ("ccol_indices", "row_indices"):
        yield f"Tensor.{name}", (coo.to_sparse_csc(),), {}


def _linalg() -> Iterator[Row]:
    yield (
        "torch.sspaddmm",
        (torch.eye(3, dtype=torch.float64).to_sparse(), torch.eye(3).double().to_sparse(), t(3, 3)),
        {},
    )
    yield "torch.addmm", (t(2, 4), t(2, 3), t(3, 4)), {"beta": 0}
    yield "Tensor.addmm_", (t(2, 4), t(2, 3), t(3, 4)), {"beta": 0}
    yield "torch.addmv", (t(2), t(2, 3), t(3)), {"beta": 0}
    yield "torch.baddbmm", (t(2, 2, 4), t(2, 2, 3), t(2, 3, 4)), {"beta": 0.0}
    yield "torch.addbmm", (t(2, 4), t(2, 2, 3), t(2, 3, 4)), {"beta": 0}
    yield "torch.addr", (t(2, 3), t(2), t(3)), {"beta": 0}
    yield "torch._grouped_mm", (t(2, 4, 8).bfloat16(), t(2, 8, 8).bfloat16()), {}
    yield "torch.ger", (t(2), t(3)), {}
    for name in ("smm", "spmm", "dsmm", "hsmm"):
        yield f"torch.{name}", (torch.eye(3, dtype=torch.float64).to_sparse(), t(3, 2)), {}
    yield "torch.hspmm", (torch.eye(3, dtype=torch.float64).to_sparse(), t(3, 2)), {}
    yield "torch.chain_matmul", (t(2, 3), t(3, 2)), {}
    yield "torch.linalg.multi_dot", ([t(2, 3), t(3, 4), t(4, 2)],), {}
    yield "torch.einsum", ("ij,jk->ik", t(2, 3), t(3, 2)), {}
    yield "torch.einsum", ("ij->ji", t(2, 3)), {}
    yield "torch.einsum", ("ij,jk,kl->il", t(2, 3), t(3, 2), t(2, 2)), {}
    yield "torch.det", (spd(3),), {}
    yield "torch.inverse", (spd(3),), {}
    yield "torch.linalg.inv", (spd(3),), {}
    yield "torch.matrix_power", (t(3, 3), 2), {}
    yield "torch.orgqr", (t(3, 2), t(2)), {}
    yield "torch.lobpcg", (spd(9), 2), {}
    yield "torch.svd_lowrank", (t(4, 3), 2), {}
    yield "torch.pca_lowrank", (t(4, 3), 2), {}
    yield "torch.linalg.lstsq", (t(4, 3), t(4, 2)), {}
    yield "torch.linalg.solve", (spd(3), t(3, 2)), {}
    yield "torch.linalg.ldl_solve", (*torch.linalg.ldl_factor(spd(3)), t(3, 2)), {}
    yield "torch.linalg.lu_solve", (*torch.linalg.lu_factor(spd(3)), t(3, 2)), {}
    yield "torch.nn.functional.grouped_mm", (t(2, 4, 8).bfloat16(), t(2, 8, 8).bfloat16()), {}
    yield "torch._int_mm", (ints(32, 8).char(), ints(8, 8).char()), {}
    yield "torch.stft", (t(16), 8), {"window": pos(8), "return_complex": True}
    yield "torch.istft", (cx(5, 9), 8), {"window": torch.ones(8, dtype=torch.float64)}


def _layers() -> Iterator[Row]:
    yield "torch.nn.functional.linear", (t(2, 3), t(4, 3), t(4)), {}
    yield "torch.conv_tbc", (t(4, 2, 3), t(2, 3, 5), t(5)), {}
    yield "torch.convolution", (t(1, 2, 5), t(3, 2, 2), t(3), [1], [0], [1], False, [0], 1), {}
    for training in (False, True):
        options: dict[str, object] = {"training": training}
        yield "torch.nn.functional.batch_norm", (t(4, 3), t(3), pos(3), t(3), t(3)), options
        yield "torch.native_batch_norm", (t(4, 3), t(3), t(3), t(3), pos(3), training, 0.1, 1e-5), {}
    yield "torch.nn.functional.batch_norm", (t(4, 3), t(3), pos(3)), {}
    yield "torch.nn.functional.instance_norm", (t(2, 3, 4), t(3), pos(3), t(3), t(3)), {}
    yield "torch.nn.functional.instance_norm", (t(2, 3, 4), t(3), pos(3), t(3), t(3)), {"use_input_stats": False}
    yield "torch.nn.functional.soft_margin_loss", (t(4), torch.sign(t(4))), {}
    yield "torch.native_dropout", (t(4), 0.5, True), {}
    yield "torch.native_dropout", (t(4), 0.5, False), {}
    yield "torch.nn.functional.dropout", (t(8), 0.5), {}
    yield "torch.nn.functional.dropout", (t(8), 0.5, False), {}
    yield "torch.nn.functional.dropout", (t(8),), {"p": 0.0}
    yield "torch.nn.functional.dropout1d", (t(2, 3, 4),), {}
    yield "torch.nn.functional.dropout3d", (t(2, 3, 2, 2, 2),), {}
    yield "torch.feature_dropout", (t(2, 3, 4), 0.5, True), {}
    yield "torch.nn.functional.gumbel_softmax", (t(4),), {}
    yield "torch.nn.functional.rrelu", (t(6),), {}
    yield "torch.nn.functional.rrelu", (t(6),), {"training": True}


def _pooling() -> Iterator[Row]:
    yield "torch.nn.functional.fractional_max_pool2d_with_indices", (t(1, 1, 6, 6), 2), {"output_size": (3, 3)}
    yield "torch.nn.functional.fractional_max_pool3d_with_indices", (t(1, 1, 4, 4, 4), 2), {"output_size": (2, 2, 2)}
    yield "torch.nn.functional.adaptive_avg_pool3d", (t(1, 1, 4, 4, 4), 2), {}
    yield "torch.mkldnn_adaptive_avg_pool2d", (t(1, 1, 4, 4).float(), 2), {}
    yield "torch.nn.functional.upsample", (t(1, 1, 4), 8), {}
    yield "torch.nn.functional.fold", (t(1, 4, 4), 3, 2), {}
    for pool in ("max_pool1d", "max_pool2d", "max_pool3d", "lp_pool1d", "lp_pool2d", "lp_pool3d"):
        shape = (1, 1, *[4] * int(pool[-2]))
        lp: tuple[object, ...] = (2.0,) if pool.startswith("lp") else ()
        yield f"torch.nn.functional.{pool}", (t(*shape), *lp, 2), {}
        if not lp:
            yield f"torch.nn.functional.{pool}_with_indices", (t(*shape), 2), {}
            yield f"torch.nn.functional.adaptive_{pool}_with_indices", (t(*shape), 2), {}
    yield "torch.nn.functional.affine_grid", (t(1, 2, 3), [1, 1, 2, 2]), {"align_corners": False}
    yield "torch.affine_grid_generator", (t(1, 2, 3), [1, 1, 2, 2], False), {}
    log_probs = torch.log_softmax(t(5, 2, 4), -1)
    yield "torch.nn.functional.ctc_loss", (log_probs, ints(2, 2), i(5, 5), i(2, 2)), {}
    yield "torch.nn.functional.nll_loss", (torch.log_softmax(t(3, 4), -1), i(0, 3, 1)), {"weight": pos(4)}
    yield "torch.nn.functional.cross_entropy", (t(3, 4), i(0, 3, 1)), {"weight": pos(4)}
    query = (t(1, 2, 3, 4), t(1, 2, 3, 4), t(1, 2, 3, 4))
    yield "torch.nn.functional.scaled_dot_product_attention", query, {}
    yield "torch.nn.functional.scaled_dot_product_attention", (*query, t(3, 3)), {}
    yield "torch.nn.functional.scaled_dot_product_attention", query, {"dropout_p": 0.5}
    query = (t(1, 1, 16, 16), t(1, 1, 16, 16), t(1, 1, 16, 16))
    yield "torch.nn.attention.flex_attention.flex_attention", query, {}


def _recurrent() -> Iterator[Row]:
    rnn = ([t(4, 3), t(4, 4), t(4), t(4)], True, 1, 0.0, False, False, False)
    for name in ("rnn_tanh", "rnn_relu"):
        yield f"torch.{name}", (t(2, 1, 3), t(1, 1, 4), *rnn), {}
        yield f"torch.{name}_cell", (t(1, 3), t(1, 4), t(4, 3), t(4, 4), t(4), t(4)), {}
    yield "torch.gru_cell", (t(1, 3), t(1, 4), t(12, 3), t(12, 4), t(12), t(12)), {}
    yield "torch.lstm_cell", (t(1, 3), [t(1, 4), t(1, 4)], t(16, 3), t(16, 4), t(16), t(16)), {}
    weights = [t(12, 3), t(12, 4), t(12), t(12)]
    yield "torch.gru", (t(2, 1, 3), t(1, 1, 4), weights, *rnn[1:]), {}
    weights = [t(16, 3), t(16, 4), t(16), t(16)]
    yield "torch.lstm", (t(2, 1, 3), [t(1, 1, 4), t(1, 1, 4)], weights, *rnn[1:]), {}
    yield "torch.batch_norm_update_stats", (t(4, 3), t(3), pos(3), 0.1), {}


def _others() -> Iterator[Row]:
    yield "torch.tensor", (t(3),), {}
    yield "torch.as_tensor", (t(3),), {}
    yield "torch.asarray", (t(3),), {}
    yield "Tensor.new_tensor", (t(2), t(3)), {}
    yield "torch.full_like", (t(3), 2.0), {}
    yield "torch.linspace", (t(), t(), 4), {}
    yield "torch.logspace", (t(), t(), 4), {}
    yield "torch.binomial", (whole(4).abs() * 5, pos(4)), {}
    yield "torch.poisson", (pos(4),), {}
    for name in ("random_", "normal_", "uniform_", "bernoulli_"):
        yield f"Tensor.{name}", (pos(4),), {}
    yield "Tensor.bernoulli_", (t(4), pos(4)), {}
    for name in (
        "normal_",
        "uniform_",
        "trunc_normal_",
        "ones_",
        "zeros_",
        "eye_",
        "xavier_normal_",
        "xavier_uniform_",
    ):
        yield f"torch.nn.init.{name}", (t(3, 3),), {}
    for name in ("kaiming_normal_", "kaiming_uniform_", "orthogonal_"):
        yield f"torch.nn.init.{name}", (t(3, 3),), {}
    yield "torch.nn.init.sparse_", (t(3, 3), 0.5), {}
    yield "torch.nn.init.dirac_", (t(2, 2, 3),), {}
    yield "torch.nn.init.constant_", (t(3), 0.0), {}
    yield "torch.nn.init.constant_", (t(3), 1.0), {}
    for name in ("detach", "data", "requires_grad_", "clone", "T", "mT", "H", "mH"):
        yield f"Tensor.{name}", (t(2, 3),), {}
    yield "torch.detach_copy", (t(3),), {}
    yield "torch.nn.Parameter", (t(3),), {}
    yield "torch.nn.Buffer", (t(3),), {}
    yield "torch.nn.utils.get_total_norm", ([t(2), t(3)],), {}
    yield "torch.nn.utils.parameters_to_vector", ([t(2), t(3)],), {}
    yield "builtins.sum", ([t(2), t(2)],), {}
    yield "builtins.abs", (t(2),), {}
    yield "copy.deepcopy", (t(2),), {}
    yield "copy.copy", (t(2),), {}
    yield "builtins.pow", (t(2), 2), {}
    for name in ("list", "tuple", "iter", "reversed"):
        yield f"builtins.{name}", (t(2),), {}
    yield "torch.nn.utils.vector_to_parameters", (t(2), [torch.nn.Parameter(t(2))]), {}
    for name in ("add", "mul", "maximum", "div", "sub", "copy_", "lerp", "addcmul", "addcdiv"):
        lists = {"lerp": 3, "addcmul": 3, "addcdiv": 3}.get(name, 2)
        yield f"torch._foreach_{name}", tuple([t(2)] for _ in range(lists)), {}
    yield "torch._foreach_add_", ([t(2)], [t(2)]), {}
    yield "torch._foreach_add", ([t(2)], 1.0), {}
    yield "torch._foreach_mul_", ([t(2)], 2.0), {}
    yield "torch._foreach_mul", ([t(2), t(2)], 2.0), {}
    yield "torch._foreach_mul", ([t(2), t(2)], [t(2), t(2)]), {}
    yield "torch._foreach_sqrt", ([pos(2)],), {}
    yield "torch._foreach_neg", ([t(2)],), {}
    yield "torch._foreach_zero_", ([t(2)],), {}


_GROUPS: tuple[Callable[[], Iterator[Row]], ...] = (
    _operators,
    _elementwise,
    _comparisons,
    _reductions,
    _shapes,
    _indexing,
    _linalg,
    _layers,
    _pooling,
    _recurrent,
    _others,
)


def rows() -> Iterator[Row]:
    """All calls of this module."""
    _generator.manual_seed(0)
    for group in _GROUPS:
        yield from group()


def own() -> Iterator[Sample]:
    """All samples of this module."""
    for op, args, keywords in rows():
        sample = make(op, args, keywords)
        assert sample is not None, f"no signature of {op} takes its sample"
        yield sample
