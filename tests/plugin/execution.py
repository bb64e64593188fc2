"""Run marked modules whose every line is right: they must be Python that works, on one rank or several."""

from __future__ import annotations

import importlib.util
import sys
from pathlib import Path

import torch.distributed as dist
from torch.distributed.device_mesh import init_device_mesh

from spmd_runtime import use_mesh


def execute(paths: list[str]) -> int:
    """Run ``main()`` of each file on a mesh with all ranks on tp; gives how many were run."""
    mesh = init_device_mesh("cpu", (1, 1, dist.get_world_size()), mesh_dim_names=("dp", "cp", "tp"))
    with use_mesh(mesh):
        for path in paths:
            try:
                _run(Path(path))
            except Exception as error:
                raise RuntimeError(f"{path} does not run") from error
    return len(paths)


def _run(path: Path) -> None:
    """Import a file as a module, which torch.compile and custom operators look up by name, and call its ``main()``."""
    name = f"marked_{path.parent.name}_{path.stem}"
    spec = importlib.util.spec_from_file_location(name, path)
    assert spec is not None and spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    sys.modules[name] = module
    try:
        spec.loader.exec_module(module)
        module.main()
    finally:
        del sys.modules[name]
