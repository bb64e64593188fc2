"""Build an artifact: capture as several ranks, compare, compile once, pack."""

from __future__ import annotations

import contextlib
import shutil
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import torch

from spmd_runtime.precompile import (
    agreement,
    archive,
    compat,
    fingerprint,
    kernels,
    manifest,
    methods,
    scratch,
    symbols,
)
from spmd_runtime.precompile.capture import Captured, capture
from spmd_runtime.precompile.errors import CaptureError, DisagreementError
from spmd_runtime.precompile.loaded import KERNELS
from spmd_runtime.precompile.progress import Progress
from spmd_runtime.precompile.specs import signature
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

    step: Callable[..., Any] | Mapping[str, Any]
    inputs: Any
    mesh: dict[str, int]
    dynamic: dict[str, tuple[int, int]]
    device: str | None
    cache_dir: Path | None
    progress: Progress
    command: str

    def variants(self) -> dict[str, Variant]:
        """The variants, as the rank that the process stands for."""
        named = self._made()
        wrong = [name for name, item in named.items() if not isinstance(item, Variant) and not _is_pair(item)]
        if wrong:
            raise CaptureError(
                f"{', '.join(map(str, wrong))}: a step with its inputs is a pair (step, inputs); without inputs=, the "
                "step is a factory that returns such a pair, or a dict of them"
            )
        found = {name: item if isinstance(item, Variant) else Variant(*item) for name, item in named.items()}
        bad = [name for name in found if not name.isidentifier()]
        if bad or not found:
            raise CaptureError(f"variants have names like 'even' or 'last', not {bad}")
        return found

    def _made(self) -> Mapping[str, Any]:
        if isinstance(self.step, Mapping):
            return self.step
        made = (self.step, self.inputs) if self.inputs is not None else self.step()
        return made if isinstance(made, Mapping) else {ONLY: made}


def _is_pair(item: Any) -> bool:
    return isinstance(item, (tuple, list)) and len(item) == 2


def build(job: Job, out: Path, key: bytes | None) -> dict[str, Any]:
    """Build into ``out``; gives the manifest."""
    symbols.check_limits(job.dynamic)
    with fake_world(job.mesh):
        ranges = {name: _ranges(item, job) for name, item in job.variants().items()}
    symbols.check_names(job.dynamic, {name for own in ranges.values() for name in own})
    with archive.building(out) as folder, _cache(job.cache_dir) as cache:
        work = _Work(job, folder, cache)
        found = {case.label: work.entry(case) for name in ranges for case in _cases(name, ranges[name])}
        devices = sorted({device for entry in found.values() for device in entry["devices"]})
        content = {
            "mesh": job.mesh,
            "variants": found,
            "devices": devices,
            "fingerprint": fingerprint.environment(devices),
            "code": fingerprint.code_items(work.watch.files),
            "command": job.command,
            "seconds": {name: round(spent, 2) for name, spent in job.progress.seconds.items()},
        }
        with job.progress.stage("write", f"write {out}"):
            digest = archive.publish(folder, out, content, key)
    return {**content, "digest": digest}


def _ranges(item: Variant, job: Job) -> dict[str, tuple[int, int]]:
    """The ranges of the dims that a variant's inputs have."""
    dims = signature(*methods.lifted(item.step, item.inputs), job.device).dims()
    return {name: job.dynamic[name] for name in dims if name in job.dynamic}


@dataclass(frozen=True)
class Case:
    """One graph to compile: a variant, with some named dims fixed at length 1 and ranges for the others."""

    variant: str
    label: str
    fixed: dict[str, int]
    ranges: dict[str, tuple[int, int]]


def _cases(variant: str, dynamic: Mapping[str, tuple[int, int]]) -> Iterator[Case]:
    """The cases of a variant: a dim of length 1 broadcasts, so that torch treats it as a case of its own."""
    ones = [name for name, (low, _) in dynamic.items() if low == 1]
    for chosen in range(2 ** len(ones)):
        fixed = {name: 1 for i, name in enumerate(ones) if chosen >> i & 1}
        ranges = {name: (max(low, 2), high) for name, (low, high) in dynamic.items() if name not in fixed}
        if all(low <= high for low, high in ranges.values()):
            yield Case(variant, variant + "".join(f"_{name}1" for name in fixed), fixed, ranges)


@dataclass
class _Work:
    """A build under way: into ``folder``, with Inductor's files in ``cache``."""

    job: Job
    folder: Path
    cache: Path
    watch: Watch = field(default_factory=Watch)

    def entry(self, case: Case) -> dict[str, Any]:
        """Capture and compile one case; gives its entry in the manifest."""
        captured = self._agreed(case)
        (self.folder / case.label).mkdir()
        return {**self._compile(case, captured), "of": case.variant}

    def _agreed(self, case: Case) -> Captured:
        """The graph of a case, the same as every rank that it is captured as."""
        with fake_world(self.job.mesh):
            places = sample(self.job.mesh, dict(self.job.variants()[case.variant].at))
        first: tuple[Captured, Coordinates] | None = None
        for count, at in enumerate([*places, *places[: len(places) == 1]]):  # twice at least
            title = f"capture {case.label} as rank ({coordinates_text(at)})"
            watching = self.watch if count == 1 else contextlib.nullcontext()
            with self.job.progress.stage("capture", title), fake_world(self.job.mesh, at):
                captured = self._capture(case, watching)
            if first is None:
                first = captured, at
            else:
                self._compare(case, *first, captured, at)
        assert first is not None
        self.watch.check()
        return first[0]

    def _compare(self, case: Case, first: Captured, at: Coordinates, other: Captured, there: Coordinates) -> None:
        """Raise DisagreementError where two ranks differ, and say whether one rank differs from itself, too."""
        try:
            agreement.compare(first, at, other, there, self.job.mesh)
        except DisagreementError:
            with fake_world(self.job.mesh, at):
                again = self._capture(case, contextlib.nullcontext())
            agreement.compare(first, at, again, at, self.job.mesh)  # which has another cause than the rank
            raise

    def _capture(self, case: Case, watching: Any) -> Captured:
        item = self.job.variants()[case.variant]
        step, inputs = methods.lifted(item.step, item.inputs)
        found = signature(step, inputs, self.job.device).fixed(case.fixed)
        with watching:
            return capture(step, found, self.job.mesh, case.ranges)

    def _compile(self, case: Case, captured: Captured) -> dict[str, Any]:
        """Compile a captured graph into the folder; gives its entry in the manifest."""
        entry = manifest.describe(captured, case.ranges, self.job.mesh)
        devices = {torch.device(leaf.spec.device).type for leaf in captured.signature.tensors if leaf.spec}
        (self.folder / case.label / "graph.txt").write_text(agreement.graph_text(captured.graph))
        with (
            self.job.progress.stage("compile", f"compile {case.label} ({len(captured.nodes())} operations)"),
            fake_world(self.job.mesh),
            compat.cache_directory(self.cache),
            kernels.recorded() as libraries,
        ):
            saved, _ = compat.compile_graph(captured.graph, captured.fakes, captured.mode)
            kernels.add_triton_helpers(self.cache, self.folder, devices)
        (self.folder / case.label / "step.bin").write_bytes(saved)
        (self.folder / KERNELS).mkdir(exist_ok=True)
        for key, library in libraries.items():
            shutil.copyfile(library, self.folder / KERNELS / f"{key}.so")
        return {**entry, "kernels": sorted(libraries), "devices": sorted(devices)}


@contextlib.contextmanager
def _cache(chosen: Path | None) -> Iterator[Path]:
    """Where Inductor keeps its files: the user's directory, or one that is removed after."""
    if chosen is not None:
        yield chosen
        return
    folder = scratch.make("spmd-build-")
    try:
        yield folder
    finally:
        scratch.drop(folder)
