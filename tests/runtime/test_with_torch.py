"""The collectives beside the rest of torch: checkpointing, autocast, transforms, profiler, DTensor, checkpoints."""

from __future__ import annotations

from collections.abc import Iterator
from functools import partial
from pathlib import Path
from typing import Any

import pytest
import torch
import torch.distributed as dist
from torch import Tensor, nn
from torch.distributed.device_mesh import init_device_mesh
from torch.utils.checkpoint import checkpoint

import spmd_runtime as spmd
from spmd_runtime import DP, TP, I, P, R, S, V
from spmd_runtime.checkpoint import load, save, saved_layouts
from tests.runtime.gloo import run


def bound() -> spmd.Binding:
    world = dist.group.WORLD
    assert world is not None
    return spmd.bind(TP, world)


def mlp(x: Tensor, up: Tensor, down: Tensor) -> Tensor:
    """A tensor-parallel MLP: x is I, up is cut by columns, down by rows."""
    h = torch.tanh(spmd.convert(x, TP, src=I, dst=R) @ up)
    return spmd.all_reduce(h @ down, TP, dst=I)


def parts(seed: int = 0) -> tuple[Tensor, Tensor, Tensor]:
    """An input, and this rank's columns of one weight and rows of another; all leaves."""
    torch.manual_seed(seed)
    x, up, down = (torch.randn(s, dtype=torch.float64) for s in ((3, 4), (4, 8), (8, 4)))
    n, rank = dist.get_world_size(), dist.get_rank()
    return tuple(t.clone().requires_grad_() for t in (x, up.chunk(n, 1)[rank], down.chunk(n, 0)[rank]))  # type: ignore[return-value]


def gradients(call: Any) -> list[Tensor]:
    leaves = parts()
    call(*leaves).square().sum().backward()
    return [leaf.grad for leaf in leaves if leaf.grad is not None]


def recomputed() -> None:
    with bound():
        plain = gradients(mlp)
        for reentrant in (False, True):
            again = gradients(partial(checkpoint, mlp, use_reentrant=reentrant))
            assert len(again) == 3
            assert all(map(torch.equal, plain, again))


def test_activation_checkpointing() -> None:
    run(recomputed, 2)


def autocast() -> None:
    with bound(), torch.autocast("cpu", dtype=torch.bfloat16):
        x = torch.randn(4, 4, requires_grad=True)
        h = x @ x
        assert h.dtype == torch.bfloat16
        with pytest.raises(ValueError, match="in which precision"):
            spmd.all_reduce(h, TP, dst=R)
        y = spmd.all_reduce(h, TP, dst=I)
        z = spmd.all_gather(h, TP, src=S(0), dst=R, backward_options={"op_dtype": torch.float32})
        assert y.dtype == z.dtype == torch.bfloat16
        assert spmd.all_reduce(x, TP, dst=I).dtype == torch.float32
    (y.sum().float() + z.sum().float()).backward()
    assert x.grad is not None
    assert x.grad.dtype == torch.float32


def test_autocast() -> None:
    run(autocast, 2)


def transforms() -> None:
    """Each transform against the same by hand."""
    func = torch.func
    with bound():
        x, up, down = (t.detach() for t in parts())
        loss = lambda x, up: mlp(x, up, down).square().sum()  # noqa: E731
        wanted = gradients(mlp)
        got = func.grad(loss, argnums=(0, 1))(x, up)
        assert all(map(torch.equal, got, wanted[:2]))
        tangent = torch.ones_like(x)
        value, moved = func.jvp(lambda x: mlp(x, up, down), (x,), (tangent,))
        assert torch.equal(value, mlp(x, up, down))
        step = 1e-6
        near = (mlp(x + step * tangent, up, down) - mlp(x - step * tangent, up, down)) / (2 * step)
        torch.testing.assert_close(moved, near, rtol=1e-6, atol=1e-8)
        batch = torch.stack([x, 2 * x, -x], 1)
        rows = func.vmap(lambda x: mlp(x, up, down), in_dims=1)(batch)
        torch.testing.assert_close(rows, torch.stack([mlp(b, up, down) for b in batch.unbind(1)]))
        per_sample = func.vmap(func.grad(loss), in_dims=(1, None))(batch, up)
        single = [func.grad(loss)(b, up) for b in batch.unbind(1)]
        torch.testing.assert_close(per_sample, torch.stack(single))
        (hessian,) = (func.jacrev(func.grad(lambda x: loss(x, up)))(x),)
        twice = torch.autograd.functional.hessian(lambda x: loss(x, up), x)
        torch.testing.assert_close(hessian, twice)


def test_torch_func() -> None:
    run(transforms, 2, timeout=120)


def rows_under_vmap() -> Iterator[tuple[str, dict[str, Any], tuple[int, ...]]]:
    yield "all_gather", {"src": S(0), "dst": R}, (2, 3)
    yield "all_gather", {"src": S(-1), "dst": R}, (2, 3)
    yield "all_gather", {"src": V, "dst": R}, (2, 3)
    yield "all_gather", {"src": V, "dst": R, "gather_dim": 1}, (2, 3)
    yield "reduce_scatter", {"dst": S(1)}, (3, 4)
    yield "reduce_scatter", {"dst": V}, (2, 3)
    yield "all_to_all", {"src": S(0), "dst": S(1)}, (3, 4)
    yield "all_to_all", {"src": V, "dst": V}, (2, 3)
    yield "convert", {"src": R, "dst": S(0)}, (4, 3)
    yield "convert", {"src": R, "dst": V}, (2, 3)
    yield "convert", {"src": V, "dst": P, "expert_mode": True}, (2, 3)
    yield "convert", {"src": R, "dst": P}, (2, 3)
    yield "shift", {}, (2, 3)
    yield "broadcast", {"dst": R, "root": 1}, (2, 3)


def batched() -> None:
    with bound():
        for op, options, shape in rows_under_vmap():
            call = lambda x, op=op, options=options: getattr(spmd, op)(x, TP, **options)  # noqa: E731
            xs = torch.randn(5, *shape)
            assert torch.equal(torch.func.vmap(call)(xs), torch.stack([call(x) for x in xs])), op


def test_every_kernel_under_vmap() -> None:
    run(batched, 2)


def forward_mode() -> None:
    with bound(), torch.autograd.forward_ad.dual_level():
        x = torch.autograd.forward_ad.make_dual(torch.ones(2), torch.full((2,), dist.get_rank() + 1.0))
        y = torch.autograd.forward_ad.unpack_dual(spmd.all_reduce(x, TP, dst=R))
        assert y.primal.tolist() == [2.0, 2.0]
        assert y.tangent.tolist() == [3.0, 3.0]


def test_forward_mode_ad() -> None:
    run(forward_mode, 2)


def profiled() -> tuple[int, set[str]]:
    """Names while no profiler runs, and while one does."""
    made: list[str] = []
    honest = torch.autograd.profiler.record_function

    class Counted(honest):  # type: ignore[misc,valid-type]
        def __init__(self, name: str) -> None:
            made.append(name)
            super().__init__(name)

    torch.autograd.profiler.record_function = Counted  # type: ignore[misc]
    try:
        with bound():
            x = torch.ones(2, 2, requires_grad=True)
            spmd.all_gather(x, TP, src=S(0), dst=R).sum().backward()
            silent = len(made)
            with torch.profiler.profile() as profile:
                spmd.all_gather(x, TP, src=S(0), dst=R).sum().backward()
                spmd.convert(x, TP, src=R, dst=P)
    finally:
        torch.autograd.profiler.record_function = honest  # type: ignore[misc]
    return silent, {event.key for event in profile.key_averages() if event.key.startswith("spmd::")}


def test_names_in_the_profile_only_while_a_profiler_runs() -> None:
    assert run(profiled, 2) == [(0, {"spmd::all_gather[tp]", "spmd::reduce_scatter[tp]"})] * 2


def there_and_back() -> None:
    from torch.distributed.tensor import DTensor, Partial, Replicate, Shard  # noqa: PLC0415

    mesh = init_device_mesh("cpu", (2, 2), mesh_dim_names=("dp", "tp"))
    rank = dist.get_rank()
    dp, tp = divmod(rank, 2)
    with spmd.use_mesh(mesh):
        x = torch.full((2, 2), float(rank), requires_grad=True)
        d = spmd.to_dtensor(x, mesh, {DP: S(0), "tp": S(1)})
        assert d.placements == (Shard(0), Shard(1))
        assert d.shape == (4, 4)
        assert d.full_tensor().tolist() == [[0.0, 0, 1, 1]] * 2 + [[2.0, 2, 3, 3]] * 2
        back = spmd.from_dtensor(d, {"dp": S(0), TP: S(-1)})
        assert torch.equal(back, x)
        (back * rank).sum().backward()
        assert x.grad is not None
        assert x.grad.eq(rank).all()
        # The gradient of an R is a pending sum, of an I one value, of a P the whole one.
        for kind, placed in ((R, Replicate()), (I, Replicate()), (P, Partial())):
            y = torch.full((2,), 3.0, requires_grad=True)
            d = spmd.to_dtensor(y, mesh, {DP: I, TP: kind})
            assert d.placements == (Replicate(), placed)
            (d.redistribute(mesh, [Replicate(), Replicate()]).to_local() * 5).sum().backward()
            assert y.grad is not None
            total = spmd.all_reduce(y.grad, TP, dst=R) if kind is R else y.grad
            assert total.eq(5).all(), kind
            if kind is R:
                assert y.grad.eq(5 if tp == 0 else 0).all()
        for kind, expected in ((R, 1.0 + 2.0), (I, 7.0)):
            whole = DTensor.from_local(torch.ones(2), mesh, [Replicate(), Replicate()]).requires_grad_()
            local = spmd.from_dtensor(whole, {DP: I, TP: kind})
            # an R is used by each rank for itself, an I by all alike
            (local * (tp + 1 if kind is R else 7)).sum().backward()
            assert whole.grad is not None
            assert whole.grad.full_tensor().eq(expected).all(), kind
        with pytest.raises(ValueError, match="placed as .* on 'tp', asked for as .*redistribute it first"):
            spmd.from_dtensor(whole, {DP: R, TP: S(0)})
        with pytest.raises(ValueError, match="names \\['tp'\\], the mesh has \\['dp', 'tp'\\]"):
            spmd.to_dtensor(x, mesh, {TP: R})
        with pytest.raises(ValueError, match="V on 'tp' is no placement.*S\\(i\\)"):
            spmd.to_dtensor(x, mesh, {DP: R, TP: V})
        with pytest.raises(TypeError, match="DTensor.*from_dtensor"):
            spmd.all_reduce(whole, TP, dst=R)
        sizes = [1, 3]
        mine = torch.arange(4.0)[sum(sizes[:tp]) :][: sizes[tp]]
        d = spmd.to_dtensor(mine, mesh, {DP: I, TP: S(0)}, shape=torch.Size([4]), stride=(1,))
        assert d.shape == (4,)
    assert dp in (0, 1)


def test_dtensor_both_ways() -> None:
    run(there_and_back, 4, timeout=120)


class Linear(nn.Module):
    """A layer whose weight is cut along dim 0 over tp, its bias whole."""

    def __init__(self, value: float, ranks: int) -> None:
        super().__init__()
        whole = torch.arange(8.0).view(4, 2) + value
        self.weight = nn.Parameter(whole.chunk(ranks, 0)[dist.get_rank() % ranks].clone())
        self.bias = nn.Parameter(torch.full((3,), value))


LAYOUTS = {"weight": {DP: I, TP: S(0)}, "bias": {DP: I, TP: R}}


def checkpointed(folder: str) -> None:
    mesh = init_device_mesh("cpu", (2, 2), mesh_dim_names=("dp", "tp"))
    with spmd.use_mesh(mesh):
        save(Linear(10.0, 2).state_dict(), LAYOUTS, mesh, folder)
        other = Linear(0.0, 2)
        load(other.state_dict(), LAYOUTS, mesh, folder)
        assert torch.equal(other.weight, Linear(10.0, 2).weight)
        assert torch.equal(other.bias, torch.full((3,), 10.0))
        layouts = saved_layouts(folder)
        assert layouts == {"weight": {"dp": I, "tp": S(0)}, "bias": {"dp": I, "tp": R}}
        with pytest.raises(ValueError, match="'bias' is a pending sum"):
            save({"bias": other.bias}, {"bias": {DP: I, TP: P}}, mesh, folder)
        with pytest.raises(ValueError, match="no layout is given for 'bias'"):
            save({"bias": other.bias}, {}, mesh, folder)
    # on another mesh, cut along another dim
    line = init_device_mesh("cpu", (1, 4), mesh_dim_names=("dp", "tp"))
    with spmd.use_mesh(line):
        column = torch.zeros(1, 2)
        load({"weight": column}, {"weight": {DP: I, TP: S(0)}}, line, folder)
        assert torch.equal(column, torch.arange(8.0).view(4, 2)[dist.get_rank()].view(1, 2) + 10)
    with spmd.use_mesh(mesh):
        half = torch.zeros(4, 1)
        load({"weight": half}, {"weight": {DP: R, TP: S(1)}}, mesh, folder)
        assert torch.equal(half, torch.arange(8.0).view(4, 2).chunk(2, 1)[dist.get_rank() % 2] + 10)


def test_checkpoints_keep_layouts_and_load_on_another_mesh(tmp_path: Path) -> None:
    run(checkpointed, 4, str(tmp_path / "step"), timeout=120)
