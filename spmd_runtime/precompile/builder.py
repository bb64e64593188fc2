"""Build an artifact: capture as several ranks, compare, compile once, pack."""

from __future__ import annotations

import contextlib
import shutil
import tempfile
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch

from spmd_runtime.precompile import agreement, archive, compat, fingerprint, kernels, manifest, methods
from spmd_runtime.precompile.capture import Captured, capture
from spmd_runtime.precompile.errors import CaptureError
from spmd_runtime.precompile.loaded import KERNELS
from spmd_runtime.precompile.progress import Progress
from spmd_runtime.precompile.specs import Signature, signature
from spmd_runtime.precompile.watch import Watch
from spmd_runtime.precompile.world import Coordinates, coordinates_text, fake_world, sample

ONLY = "step"  # the name of the variant where there is one


@dataclass(frozen=True)
class Variant:
    """A step with its inputs, captured only at the coordinates ``at`` where the user fixes some."""

    step: Callable[..., Any]
    inputs: Any
    at: tuple[tuple[str, int], ...] = ()


def variant(step: Callable[..., Any], inputs: Any, **at: int) -> Variant:
    """A variant for the ranks at these coordinates: ``variant(step, inputs, tp=-1)`` for the last along tp."""
    return Variant(step, inputs, tuple(sorted(at.items())))


@dataclass(frozen=True)
class Job:
    """What ``precompile`` was asked for."""

    step: Callable[..., Any]
    inputs: Any
    mesh: dict[str, int]
    dynamic: dict[str, tuple[int, int]]
    device: str | None
    cache_dir: Path | None
    progress: Progress
    command: str

    def variants(self) -> dict[str, Variant]:
        """The variants, as the rank that the process stands for."""
        made = (self.step, self.inputs) if self.inputs is not None else self.step()
        named = made if isinstance(made, Mapping) else {ONLY: made}
        found = {name: item if isinstance(item, Variant) else Variant(*item) for name, item in named.items()}
        bad = [name for name in found if not name.isidentifier()]
        if bad or not found:
            raise CaptureError(f"variants have names like 'even' or 'last', not {bad}")
        return found


def build(job: Job, out: Path, key: bytes | None) -> dict[str, Any]:
    """Build into ``out``; gives the manifest."""
    with fake_world(job.mesh):
        fixed = {name: dict(item.at) for name, item in job.variants().items()}
    watch = Watch()
    with archive.building(out) as folder, _cache(job.cache_dir) as cache:
        found = {
            name: part for one, at in fixed.items() for name, part in _build_variant(job, one, at, watch, folder, cache)
        }
        devices = sorted({d for entry in found.values() for d in entry["devices"]})
        content = {
            "mesh": job.mesh,
            "variants": found,
            "devices": devices,
            "fingerprint": fingerprint.environment(devices),
            "code": fingerprint.code_items(watch.files),
            "command": job.command,
            "seconds": {name: round(spent, 2) for name, spent in job.progress.seconds.items()},
        }
        with job.progress.stage("write", f"write {out}"):
            digest = archive.publish(folder, out, content, key)
    return {**content, "digest": digest}


def _build_variant(
    job: Job, name: str, at: Coordinates, watch: Watch, folder: Path, cache: Path
) -> Iterator[tuple[str, dict[str, Any]]]:
    """The manifest's entries of one variant: one, or two where a dim of its inputs may be 1.

    A dim of length 1 broadcasts, so that torch treats it as a case of its own.
    """
    for suffix, fixed, ranges in _cases(job.dynamic):
        case = name + suffix
        captured = _agreed(job, name, case, at, fixed, ranges, watch)
        (folder / case).mkdir()
        yield case, {**_compile(job, case, captured, ranges, folder, cache), "of": name}


def _cases(dynamic: Mapping[str, tuple[int, int]]) -> Iterator[tuple[str, dict[str, int], dict[str, tuple[int, int]]]]:
    """Suffix, fixed lengths and ranges of each case."""
    ones = [name for name, (low, _) in dynamic.items() if low == 1]
    for chosen in range(2 ** len(ones)):
        fixed = {name: 1 for i, name in enumerate(ones) if chosen >> i & 1}
        ranges = {name: (max(low, 2), high) for name, (low, high) in dynamic.items() if name not in fixed}
        if all(low <= high for low, high in ranges.values()):
            yield "".join(f"_{name}1" for name in fixed), fixed, ranges


def _agreed(
    job: Job,
    name: str,
    case: str,
    fixed_at: Coordinates,
    fixed: Mapping[str, int],
    ranges: dict[str, tuple[int, int]],
    watch: Watch,
) -> Captured:
    """The graph of a variant, the same as every rank that it is captured as."""
    places = sample(job.mesh, fixed_at)
    first: tuple[Captured, Coordinates] | None = None
    for count, at in enumerate([*places, *places[: len(places) == 1]]):  # twice at least
        with (
            job.progress.stage("capture", f"capture {case} as rank ({coordinates_text(at)})"),
            fake_world(job.mesh, at),
        ):
            watching = watch if count == 1 else contextlib.nullcontext()
            captured = _capture(job, name, fixed, ranges, watching)
        if first is None:
            first = captured, at
        else:
            agreement.compare(*first, captured, at, job.mesh)
    assert first is not None
    watch.check()
    return first[0]


def _capture(
    job: Job, name: str, fixed: Mapping[str, int], ranges: dict[str, tuple[int, int]], watching: Any
) -> Captured:
    item = job.variants()[name]
    step, inputs = methods.lifted(item.step, item.inputs)
    found: Signature = signature(step, inputs, job.device).fixed(fixed)
    used = {dim: ranges[dim] for dim in found.dims() if dim in ranges}
    if unused := set(ranges) - set(used):
        raise CaptureError(f"dynamic names {sorted(unused)}, but no input of {name} has such a dim")
    with watching:
        return capture(step, found, job.mesh, used)


def _compile(
    job: Job, case: str, captured: Captured, ranges: dict[str, tuple[int, int]], folder: Path, cache: Path
) -> dict[str, Any]:
    """Compile a captured graph into ``folder``; gives its entry in the manifest."""
    entry = manifest.describe(captured, ranges, job.mesh)
    (folder / case / "graph.txt").write_text(agreement.graph_text(captured.graph))
    with (
        job.progress.stage("compile", f"compile {case} ({len(captured.nodes())} operations)"),
        fake_world(job.mesh),
        compat.cache_directory(cache),
        kernels.recorded() as libraries,
    ):
        saved, _ = compat.compile_graph(captured.graph, captured.fakes, captured.mode)
    (folder / case / "step.bin").write_bytes(saved)
    (folder / KERNELS).mkdir(exist_ok=True)
    for key, library in libraries.items():
        shutil.copyfile(library, folder / KERNELS / f"{key}.so")
    devices = {torch.device(leaf.spec.device).type for leaf in captured.signature.tensors if leaf.spec}
    return {**entry, "kernels": sorted(libraries), "devices": sorted(devices)}


@contextlib.contextmanager
def _cache(chosen: Path | None) -> Iterator[Path]:
    """Where Inductor keeps its files: the user's directory, or one that is removed after."""
    if chosen is not None:
        yield chosen
        return
    with tempfile.TemporaryDirectory(prefix="spmd-build-") as folder:
        yield Path(folder)
