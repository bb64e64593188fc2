"""Checkpoints of plain local tensors, through ``torch.distributed.checkpoint``.

    save(model.state_dict(), layouts, mesh, "step-100")
    load(model.state_dict(), layouts, mesh, "step-100")     # into the tensors, whatever mesh saved them

``layouts`` says for each name what the tensor is: ``{"up": {DP: I, TP: S(1)}, ...}``.  They are kept beside the data:
``saved_layouts("step-100")``.  A checkpoint can be loaded with other layouts and on another mesh.
"""

from __future__ import annotations

import json
import os
from collections.abc import Mapping
from pathlib import Path
from typing import Any, TypeAlias

import torch
import torch.distributed as dist
from torch.distributed.device_mesh import DeviceMesh

from spmd_runtime.dtensor import by_name, to_dtensor
from spmd_runtime.types import I, Kind, P, R, S, Shard, V

Layouts: TypeAlias = "Mapping[str, Mapping[Any, Kind]]"

FILE = "spmd-layouts.json"
_LETTERS: dict[Any, str] = {R: "R", I: "I", V: "V", P: "P"}


def save(state: Mapping[str, torch.Tensor], layouts: Layouts, mesh: DeviceMesh, path: str | os.PathLike[str]) -> None:
    """Write the tensors of ``state``, each a rank's part as ``layouts`` says; every rank calls it.

    Raises ValueError where a tensor has no layout, or one that is not of a stored value: a pending sum (reduce it
    first), or a V (say S(i)).
    """
    from torch.distributed.checkpoint.state_dict_saver import save as write  # noqa: PLC0415  # takes long to import

    write(_placed(state, layouts, mesh, "save"), checkpoint_id=path)
    if dist.get_rank() == 0:
        text = {name: {axis: _spelled(kind) for axis, kind in by_name(layouts[name]).items()} for name in state}
        Path(path, FILE).write_text(json.dumps(text, indent=1))
    dist.barrier()


def load(state: Mapping[str, torch.Tensor], layouts: Layouts, mesh: DeviceMesh, path: str | os.PathLike[str]) -> None:
    """Read into the tensors of ``state``, each a rank's part as ``layouts`` says; every rank calls it."""
    from torch.distributed.checkpoint.state_dict_loader import load as read  # noqa: PLC0415  # takes long to import

    read(_placed(state, layouts, mesh, "load"), checkpoint_id=path)


def saved_layouts(path: str | os.PathLike[str]) -> dict[str, dict[str, Kind]]:
    """The layouts that a checkpoint was saved with: per tensor, per axis name."""
    letters = {letter: kind for kind, letter in _LETTERS.items()}
    text = json.loads(Path(path, FILE).read_text())
    return {
        name: {axis: letters[kind] if kind in letters else S(int(kind[2:-1])) for axis, kind in layout.items()}
        for name, layout in text.items()
    }


def _spelled(kind: Kind) -> str:
    return str(kind) if isinstance(kind, Shard) else _LETTERS[kind]


def _placed(state: Mapping[str, torch.Tensor], layouts: Layouts, mesh: DeviceMesh, what: str) -> dict[str, Any]:
    placed = {}
    for name, x in state.items():
        if name not in layouts:
            raise ValueError(f"{what}: no layout is given for {name!r}")
        if P in layouts[name].values():
            raise ValueError(f"{what}: {name!r} is a pending sum on some axis; reduce it first")
        placed[name] = to_dtensor(x.detach(), mesh, layouts[name])
    return placed
