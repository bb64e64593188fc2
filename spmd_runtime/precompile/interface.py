"""``precompile``, in one process, and ``load``, on every rank."""

from __future__ import annotations

import os
import shlex
from collections.abc import Callable, Collection, Mapping
from pathlib import Path
from typing import Any

import torch
from torch.distributed.device_mesh import DeviceMesh

from spmd_runtime.mesh import Bound, lookup, use_mesh
from spmd_runtime.precompile import archive, builder, compat, fingerprint, peers, scratch
from spmd_runtime.precompile import manifest as entries
from spmd_runtime.precompile.errors import PrecompileError, StaleArtifactError
from spmd_runtime.precompile.loaded import LoadedStep
from spmd_runtime.precompile.progress import Progress
from spmd_runtime.precompile.world import check_mesh


def precompile(
    step: Callable[..., Any] | Mapping[str, Any],
    inputs: Any = None,
    *,
    mesh: Mapping[str, int],
    out: str | os.PathLike[str],
    dynamic: Mapping[str, tuple[int, int]] | None = None,
    device: str | None = None,
    key_file: str | os.PathLike[str] | None = None,
    cache_dir: str | os.PathLike[str] | None = None,
    progress: Progress | None = None,
    command: str | None = None,
) -> dict[str, Any]:
    """Capture ``step`` as one graph, compile it once for all ranks of ``mesh``, and write it to the directory ``out``.

    ``step`` is a function or a module's bound method, called as ``step(*inputs)``, or ``step(**inputs)`` where
    ``inputs`` is a dict.  Inputs and results are pytrees of tensors; inputs may be real, meta or fake tensors or
    ``TensorSpec``.  A bound method of a module takes that module's parameters and buffers, by name, as a dict before
    its own arguments.  Without ``inputs``, ``step`` is a factory that is called as each rank, with the axes bound, and
    returns ``(step, inputs)``, or ``{name: (step, inputs)}`` for variants: ranks with other shapes run another variant.
    ``step`` may be such a dict itself.

    ``dynamic`` gives the range of each dim that has a name instead of a length.  ``device`` stands in for the device of
    meta tensors.  ``cache_dir`` keeps Inductor's files, which makes building again faster.  With a key
    ($SPMD_ARTIFACT_KEY or ``key_file``) the artifact is authenticated.  Runs in one process that has no
    ``torch.distributed``; returns the manifest.  Raises CaptureError for what no graph can hold, DisagreementError for
    what differs between ranks.
    """
    compat.require()
    target = Path(os.path.abspath(out))
    archive.check_target(target)
    key = archive.find_key(key_file)
    job = builder.Job(
        step, inputs, check_mesh(mesh), dict(dynamic or {}), device, Path(cache_dir) if cache_dir else None,
        progress or Progress(quiet=True), command or _python_command(step, target),
    )  # fmt: skip
    return builder.build(job, target, key)


def _python_command(step: Any, out: Path) -> str:
    name = getattr(getattr(step, "func", step), "__qualname__", type(step).__qualname__)  # func: of a partial
    return f"run precompile({name}, ..., out={str(out)!r}) again"


def load(
    folder: str | os.PathLike[str],
    mesh: DeviceMesh | None = None,
    *,
    trust: str | None = None,
    key_file: str | os.PathLike[str] | None = None,
    variant: str | None = None,
    ignore: Collection[str] = (),
) -> LoadedStep:
    """The compiled step in ``folder``, on this rank: nothing is traced or compiled.

    Every rank of ``mesh`` calls this; its axes are bound for good where they are not bound already.  Without ``mesh``
    the bound axes are used.  ``trust="directory"`` loads an artifact without a key.  ``variant`` picks one by name
    where several take the same inputs.  ``ignore`` names items of the fingerprint that may differ (no mesh sizes:
    they are compiled in).

    Raises UntrustedArtifactError, BrokenArtifactError, StaleArtifactError, and, where another rank could not load or
    has another artifact, PeerError that names it (without ``mesh``, a rank that cannot load cannot say so).
    """
    compat.require()
    try:
        step, digest, bound = _ready(Path(folder), mesh, trust, key_file, variant, ignore)
    except Exception:  # whatever it is, the other ranks must not wait for this one
        if mesh is not None:
            peers.exchange(None, mesh.get_all_groups(), torch.device(mesh.device_type))
        raise
    if bound and not compat.is_fake_world():
        axes = list(bound.values())
        peers.exchange(digest, mesh.get_all_groups() if mesh is not None else [a.group for a in axes], axes[0].device())
    if mesh is not None and not _is_bound(bound):
        use_mesh(mesh).keep()
    return step


def _ready(
    folder: Path,
    mesh: DeviceMesh | None,
    trust: str | None,
    key_file: str | os.PathLike[str] | None,
    variant: str | None,
    ignore: Collection[str],
) -> tuple[LoadedStep, str, dict[str, Bound]]:
    """The step of an artifact that is authentic, whole and made for here, its digest, and its axes."""
    manifest, digest, private = archive.private_copy(folder, archive.find_key(key_file), trust)
    files_are_needed = False
    try:
        axes = _axes(manifest["mesh"], mesh)
        _check_fit(manifest, mesh, axes, ignore)
        step = LoadedStep(_chosen(manifest["variants"], variant), private, {n: a.group for n, a in axes.items()})
        step.revive()
        files_are_needed = manifest["devices"] != ["cpu"]  # a GPU's binaries may be read at their first launch
    finally:
        if not files_are_needed:
            scratch.drop(private)
    return step, digest, axes


def _axes(sizes: Mapping[str, int], mesh: DeviceMesh | None) -> dict[str, Bound]:
    """The axes of ``mesh`` or, without one, those that are bound, under the names that the artifact has."""
    if mesh is None:
        return {name: lookup(name) for name in sizes}
    names = mesh.mesh_dim_names or ()
    return {name: Bound(name, mesh.get_group(name)) for name in sizes if name in names}


def _is_bound(axes: Mapping[str, Bound]) -> bool:
    """Whether the axes are bound to these groups already."""
    try:
        return all(lookup(name).group is axis.group for name, axis in axes.items())
    except LookupError:
        return False


def _check_fit(
    manifest: Mapping[str, Any], mesh: DeviceMesh | None, axes: Mapping[str, Bound], ignore: Collection[str]
) -> None:
    """Raise StaleArtifactError unless the artifact was built for this mesh, machine and code."""
    sizes = {name: axis.size for name, axis in axes.items()}
    if mesh is not None:
        sizes.update({name: mesh.size(i) for i, name in enumerate(mesh.mesh_dim_names or ())})
    built = fingerprint.mesh_items(manifest["mesh"]) | fingerprint.built_items(manifest)
    here = fingerprint.mesh_items(sizes) | fingerprint.items_now(manifest)
    fingerprint.compare(built, here, ignore, manifest["command"])
    _check_device(manifest["devices"])
    _check_operators(
        {name: module for one in manifest["variants"].values() for name, module in one["operators"].items()}
    )


def _check_operators(needed: Mapping[str, str]) -> None:
    """Raise PrecompileError for operators that nothing in this process has registered."""
    if any(name.startswith("spmd_runtime::") for name in needed):
        import spmd_runtime.traced  # noqa: F401, PLC0415  # registers ours
    missing = {name: module for name, module in needed.items() if not compat.has_operator(name)}
    if missing:
        said = ", ".join(f"{name} (of {module})" if module else name for name, module in missing.items())
        raise PrecompileError(
            f"the step uses operators that are not registered in this process: {said}; import the modules that "
            "register them before load()"
        )


def _check_device(devices: list[str]) -> None:
    """Inductor's code names device 0 of its process."""
    if "cuda" in devices and torch.cuda.current_device() != 0:
        raise StaleArtifactError(
            f"this rank computes on cuda:{torch.cuda.current_device()}, and compiled code names device 0 of its "
            "process: let every rank see its own GPU only, CUDA_VISIBLE_DEVICES=$LOCAL_RANK, and compute on cuda:0",
            {},
        )


def _chosen(found: Mapping[str, Any], name: str | None) -> list[entries.Variant]:
    if name is not None and name not in found:
        raise PrecompileError(f"the artifact has no variant {name!r}; it has {', '.join(found)}")
    variants = [entries.read(key, entry) for key, entry in found.items() if name in (None, key, entry["of"])]
    for i, one in enumerate(variants):
        for other in variants[i + 1 :]:
            if entries.overlap(one, other):
                raise PrecompileError(
                    f"variants {one.name!r} and {other.name!r} may take the same inputs: say which this rank runs, "
                    f"load(..., variant={one.name!r})"
                )
    return variants


def rebuild_command(arguments: list[str]) -> str:
    """The command line that builds an artifact anew."""
    return "python -m spmd_runtime.precompile build " + shlex.join(arguments)
