"""All ranks have loaded the same artifact, or all of them raise."""

from __future__ import annotations

from collections.abc import Sequence

import torch
import torch.distributed as dist

from spmd_runtime.precompile.errors import PeerError

_DIGEST = 32  # bytes of a SHA-256
_RANK = 8
_BROKEN = bytes(_DIGEST)


def exchange(digest: str | None, groups: Sequence[dist.ProcessGroup], device: torch.device) -> None:
    """Compare the artifact's digest over all ranks of the mesh that ``groups``, one for each axis, span.

    All of them call this; None: this rank could not load.  Raises PeerError that names the rank with another artifact,
    or the one that has none.
    """
    mine = bytes.fromhex(digest) if digest is not None else _BROKEN
    row = mine + dist.get_rank().to_bytes(_RANK, "big")
    table = torch.tensor(list(row), dtype=torch.uint8, device=device)
    for group in groups:  # after the last axis, every rank has the rows of all
        table = _gather(table, group)
    if digest is not None:
        rows = [bytes(found) for found in table.view(-1, len(row)).tolist()]
        _compare({int.from_bytes(found[_DIGEST:], "big"): found[:_DIGEST] for found in rows}, mine)


def _gather(x: torch.Tensor, group: dist.ProcessGroup) -> torch.Tensor:
    parts = [torch.empty_like(x) for _ in range(group.size())]
    dist.all_gather(parts, x, group=group)
    return torch.cat(parts)


def _compare(found: dict[int, bytes], mine: bytes) -> None:
    broken = sorted(rank for rank, digest in found.items() if digest == _BROKEN)
    if broken:
        raise PeerError(f"{_ranks(broken)} could not load the artifact; the error is there")
    digests = list(found.values())
    common = max(digests, key=lambda digest: (digests.count(digest), digest == found[min(found)]))
    odd = sorted(rank for rank, digest in found.items() if digest != common)
    if odd:
        raise PeerError(
            f"the ranks have different artifacts: {_ranks(odd)} has {found[odd[0]].hex()[:12]}, the others have "
            f"{common.hex()[:12]}; this rank has {mine.hex()[:12]}; give all ranks the same directory"
        )


def _ranks(ranks: list[int]) -> str:
    shown = ", ".join(map(str, ranks[:8])) + (" ..." if len(ranks) > 8 else "")
    return f"rank {shown}" if len(ranks) == 1 else f"ranks {shown}"
