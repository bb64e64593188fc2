"""Bindings of axes to groups: how many communicators, from which thread, after a fork, and what is left behind."""

from __future__ import annotations

import os
import threading
from typing import Any

import pytest
import torch
import torch.distributed as dist
from torch import nn
from torch.distributed.device_mesh import DeviceMesh, init_device_mesh
from torch.utils.checkpoint import checkpoint

import spmd_runtime as spmd
from spmd_runtime import CP, DP, EP, ETP, TP, I, P, R, S, V
from tests.runtime import simulated
from tests.runtime.gloo import run


def communicators() -> int:
    return len(dist.distributed_c10d._world.pg_map)


class Layer(nn.Module):
    """A tensor- and sequence-parallel layer, with gradients summed over dp."""

    def __init__(self) -> None:
        super().__init__()
        self.up, self.down = nn.Parameter(torch.randn(4, 8)), nn.Parameter(torch.randn(8, 4))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        h = spmd.all_gather(x, TP, src=S(0), dst=R)
        up, down = spmd.convert(self.up, DP, src=I, dst=R), spmd.convert(self.down, DP, src=I, dst=R)
        return x + spmd.reduce_scatter(torch.tanh(h @ up) @ down, TP, dst=S(0))


def sixty_four_layers() -> tuple[int, ...]:
    mesh = init_device_mesh("cpu", (2, 2), mesh_dim_names=("dp", "tp"))
    counts = [communicators()]
    flat = mesh["dp", "tp"]._flatten("dp_tp")
    counts.append(communicators())
    with spmd.use_mesh(mesh, flat):
        x = torch.randn(2, 4)
        for layer in [Layer() for _ in range(64)]:
            x = checkpoint(layer, x, use_reentrant=False)
        spmd.all_reduce(x.sum(), "dp_tp", dst=I).backward()
        counts.append(communicators())
        torch.compile(Layer(), backend="aot_eager", fullgraph=True)(torch.randn(2, 4)).sum().backward()
        counts.append(communicators())
    counts.append(communicators())
    return tuple(counts)


def test_one_communicator_per_axis_however_many_layers() -> None:
    """The world, dp and tp; the flattened combination is the world itself; nothing more comes, nothing stays."""
    assert run(sixty_four_layers, 4, timeout=120) == [(3, 3, 3, 3, 3)] * 4


def two_meshes() -> list[Any]:
    dense = init_device_mesh("cpu", (1, 2, 2), mesh_dim_names=("dp", "cp", "tp"))
    sparse = init_device_mesh("cpu", (1, 4, 1), mesh_dim_names=("edp", "ep", "etp"))
    with spmd.use_mesh(dense), spmd.use_mesh(sparse):
        x = torch.ones(4)
        experts = spmd.reinterpret_mesh(x, {EP: R, ETP: R})
        assert experts is x
        sizes = [spmd.axis_size(axis) for axis in (DP, CP, TP, EP, ETP)]
        sums = [spmd.all_reduce(x[0], axis, dst=R).item() for axis in (CP, EP)]
        index = [int(spmd.axis_index(axis)) for axis in ("cp", "tp", "ep")]
    return [sizes, sums, index]


def test_several_meshes_at_once() -> None:
    results = run(two_meshes, 4)
    for rank, (sizes, sums, index) in enumerate(results):
        assert sizes == [1, 2, 2, 4, 1]
        assert sums == [2.0, 4.0]
        assert index == [rank // 2, rank % 2, rank]


def threads_and_leaving() -> None:
    mesh = init_device_mesh("cpu", (2,), mesh_dim_names=("tp",))
    found: list[float] = []

    def elsewhere() -> None:
        x = torch.ones(2, requires_grad=True)
        y = checkpoint(lambda t: spmd.all_reduce(t * t, TP, dst=R), x, use_reentrant=False)
        y.sum().backward()
        assert x.grad is not None
        found.append(x.grad.sum().item())

    with spmd.use_mesh(mesh):
        thread = threading.Thread(target=elsewhere)
        thread.start()
        thread.join(30)
        c10d = torch._C._distributed_c10d
        assert c10d._resolve_process_group("tp") is mesh.get_group()
        with spmd.bind(TP, dist.new_group([dist.get_rank()], use_local_synchronization=True)):
            assert spmd.axis_size(TP) == 1
            assert c10d._resolve_process_group("tp").size() == 1
        assert spmd.axis_size(TP) == 2
    assert found == [8.0]
    with pytest.raises(LookupError, match="axis 'tp' is bound to no process group.*use_mesh"):
        spmd.all_reduce(torch.ones(1), TP, dst=R)
    with pytest.raises(RuntimeError):
        c10d._resolve_process_group("tp")


def test_other_threads_nesting_and_leaving() -> None:
    run(threads_and_leaving, 2)


def again() -> list[int]:
    """End torch.distributed and start it again, with an axis bound for good."""
    where = os.environ.get("TMPDIR", "/tmp")
    sizes = []
    spmd.use_mesh(init_device_mesh("cpu", (2,), mesh_dim_names=("tp",))).keep()
    for attempt in range(2):
        sizes.append(spmd.axis_size(TP))
        rank = dist.get_rank()
        assert torch.equal(spmd.all_reduce(torch.ones(1), TP, dst=R), torch.tensor([2.0]))
        store = [f"{where}/again-{os.getppid()}-{attempt}-{os.urandom(4).hex()}"]
        dist.broadcast_object_list(store, 0)
        dist.destroy_process_group()
        dist.init_process_group("gloo", init_method=f"file://{store[0]}", rank=rank, world_size=2)
        with pytest.raises(LookupError, match="has ended; bind it again"):
            spmd.all_reduce(torch.ones(1), TP, dst=R)
        spmd.use_mesh(init_device_mesh("cpu", (2,), mesh_dim_names=("tp",))).keep()
        dist.barrier()
        if rank == 0:
            os.unlink(store[0])
    return sizes


def test_torch_distributed_may_end_and_start_again() -> None:
    assert run(again, 2) == [[2, 2]] * 2


def forked() -> int:
    """Fork with an axis bound: the child must not use the parent's group, and can bind its own."""
    world = dist.group.WORLD
    assert world is not None
    spmd.bind(TP, world).keep()
    spmd.all_reduce(torch.ones(1), TP, dst=R)
    pid = os.fork()
    if pid == 0:
        try:
            spmd.all_reduce(torch.ones(1), TP, dst=R)
        except LookupError:
            results = simulated.run(lambda group: spmd.all_reduce(torch.ones(1), group, dst=R), 2)
            os._exit(0 if results[0].item() == 2 else 2)
        os._exit(1)
    code = os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1])
    assert spmd.all_reduce(torch.ones(1), TP, dst=R).item() == 2
    return code


def test_a_forked_child_does_not_use_its_parents_groups() -> None:
    assert run(forked, 2) == [0, 0]


def test_what_cannot_be_bound() -> None:
    with pytest.raises(TypeError, match="expected a process group"):
        spmd.bind(TP, None)  # type: ignore[arg-type]
    with pytest.raises(TypeError, match="MeshAxis class, a process group or a name"):
        spmd.axis_size(3)  # type: ignore[arg-type]
    with pytest.raises(LookupError, match=r"bound: none|bound:"):
        spmd.convert(torch.ones(2), "nothing", src=R, dst=P)


def nameless() -> None:
    with pytest.raises(ValueError, match="mesh_dim_names"):
        spmd.use_mesh(DeviceMesh("cpu", [0, 1]))
    only_first = DeviceMesh("cpu", [0], mesh_dim_names=("tp",))
    if dist.get_rank() == 1:
        with pytest.raises(ValueError, match="not in the mesh"):
            spmd.use_mesh(only_first)


def test_meshes_that_cannot_be_used() -> None:
    run(nameless, 2)


def test_a_group_bound_to_no_axis_serves_too() -> None:
    """A ProcessGroup as axis needs no binding; S(i) on it keeps its meaning."""

    def on_thread(group: dist.ProcessGroup) -> torch.Tensor:
        own = torch.full((1,), float(group.rank()))
        return spmd.all_gather(own, group, src=S(0), dst=R) + spmd.all_gather(own, group, src=V, dst=R).view(-1)

    assert torch.equal(simulated.run(on_thread, 3)[0], torch.tensor([0.0, 2.0, 4.0]))
