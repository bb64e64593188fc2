"""All ranks have loaded the same artifact, or all of them raise."""

from __future__ import annotations

import torch
import torch.distributed as dist
from torch.distributed.device_mesh import DeviceMesh

from spmd_runtime.precompile.errors import PeerError

_BYTES = 32  # of a SHA-256
_BROKEN = bytes(_BYTES)


def exchange(digest: str | None, mesh: DeviceMesh) -> None:
    """Compare the artifact's digest over all ranks of the mesh, which all call this; None: this rank could not load.

    Raises PeerError that names the rank with another artifact, or the one that has none.
    """
    mine = bytes.fromhex(digest) if digest is not None else _BROKEN
    table = torch.tensor(list(mine), dtype=torch.uint8, device=mesh.device_type)
    for dim in reversed(range(mesh.ndim)):  # after the last dim, every rank has the table of all
        table = _gather(table, mesh.get_group(dim))
    if digest is not None:
        _compare([bytes(row) for row in table.view(-1, _BYTES).tolist()], mine, mesh.mesh.flatten().tolist())


def _gather(x: torch.Tensor, group: dist.ProcessGroup) -> torch.Tensor:
    parts = [torch.empty_like(x) for _ in range(group.size())]
    dist.all_gather(parts, x, group=group)
    return torch.cat(parts)


def _compare(rows: list[bytes], mine: bytes, ranks: list[int]) -> None:
    broken = [rank for rank, row in zip(ranks, rows, strict=True) if row == _BROKEN]
    if broken:
        raise PeerError(f"{_ranks(broken)} could not load the artifact; the error is there")
    common = max(rows, key=lambda row: (rows.count(row), row == rows[0]))
    odd = [rank for rank, row in zip(ranks, rows, strict=True) if row != common]
    if odd:
        other = rows[ranks.index(odd[0])].hex()[:12]
        raise PeerError(
            f"the ranks have different artifacts: {_ranks(odd)} has {other}, the others have {common.hex()[:12]}; "
            f"this rank has {mine.hex()[:12]}; give all ranks the same directory"
        )


def _ranks(ranks: list[int]) -> str:
    shown = ", ".join(map(str, ranks[:8])) + (" ..." if len(ranks) > 8 else "")
    return f"rank {shown}" if len(ranks) == 1 else f"ranks {shown}"
