"""What is in an artifact, and how two differ: as data and as text.  Reads the manifest and nothing else."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from spmd_runtime.precompile import archive, fingerprint
from spmd_runtime.precompile.errors import BrokenArtifactError

Report = dict[str, Any]
_MAX_LEAVES = 12  # shown of the inputs


def read_manifest(folder: Path) -> Report:
    """The manifest as it lies there, not authenticated: for reading only, nothing of the artifact is used."""
    try:
        text = (folder / archive.MANIFEST).read_bytes()
    except OSError as error:
        raise BrokenArtifactError(f"{folder} has no readable manifest: {error}") from error
    return {**archive.parse(text, folder), "digest": archive.digest(text), "signed": (folder / archive.MAC).exists()}


def inspect(folder: Path) -> Report:
    """What ``inspect --json`` prints."""
    manifest = read_manifest(folder)
    return {**manifest, "bytes": sum(entry["size"] for entry in manifest["files"].values())}


def text(report: Report, folder: Path) -> str:
    """A report for people."""
    mesh = ", ".join(f"{axis} {size}" for axis, size in report["mesh"].items())
    lines = [
        f"{folder}: a step for the mesh ({mesh})",
        f"  digest {report['digest'][:16]}, {'signed' if report['signed'] else 'not signed'}, "
        f"{report['bytes'] / 1e6:.1f} MB in {len(report['files'])} files",
        f"  build anew: {report['command']}",
    ]
    for name, entry in report["variants"].items():
        lines += ["", *_variant(name, entry)]
    lines += ["", "fingerprint"]
    lines += [f"  {name}: {value}" for name, value in fingerprint.built_items(report).items()]
    return "\n".join(lines)


def _variant(name: str, entry: Mapping[str, Any]) -> list[str]:
    collectives = entry["collectives"]
    ranges = ", ".join(f"{dim} from {low} to {high}" for dim, (low, high) in entry["ranges"].items())
    lines = [
        f"variant {name}: {entry['operations']} operations, {len(collectives)} collectives, "
        f"{len(entry['kernels'])} kernels" + (f", {ranges}" if ranges else ""),
        "  inputs",
        *(f"    {line}" for line in _inputs(entry["inputs"])),
        "  results",
        *(f"    {line}" for line in _shortened(entry["results"])),
    ]
    if entry["mutated"]:
        lines += ["  writes into", *(f"    {line}" for line in _shortened(entry["mutated"]))]
    counts = Counter((c["phase"], c["op"], c["axis"]) for c in collectives)
    lines.append(
        "  collectives: " + ", ".join(f"{n} x {op} over {axis} ({phase})" for (phase, op, axis), n in counts.items())
    )
    lines += [f"    {_collective(i, c)}" for i, c in enumerate(collectives, 1)]
    return lines


def _collective(number: int, c: Mapping[str, Any]) -> str:
    return (
        f"{number:3d} {c['op']} over {c['axis']} (size {c['size']}), {c['value'].partition(' stride')[0]}, {c['line']}"
    )


def _inputs(leaves: list[Mapping[str, Any]]) -> list[str]:
    return _shortened([_input(leaf) for leaf in leaves])


def _input(leaf: Mapping[str, Any]) -> str:
    if "shape" in leaf:
        shape = ", ".join(map(str, leaf["shape"]))
        return f"{leaf['name']}: {leaf['dtype']}[{shape}] on {leaf['device']}"
    return f"{leaf['name']}: " + (
        f"the same as input {leaf['same_as']}" if "same_as" in leaf else repr(leaf["constant"])
    )


def _shortened(lines: list[str]) -> list[str]:
    if len(lines) <= _MAX_LEAVES:
        return lines
    half = _MAX_LEAVES // 2
    return [*lines[:half], f"... {len(lines) - 2 * half} more ...", *lines[-half:]]


def diff(one: Path, other: Path) -> Report:
    """How two artifacts differ: ``{"same": bool, "items": {name: [one, other]}, "operations": {variant: [...]}}``."""
    reports = [inspect(folder) for folder in (one, other)]
    flat = [_flat(report) for report in reports]
    names = list(dict.fromkeys([*flat[0], *flat[1]]))
    items = {name: [flat[0].get(name), flat[1].get(name)] for name in names if flat[0].get(name) != flat[1].get(name)}
    operations = {
        name: found for name in reports[0]["variants"]
        if name in reports[1]["variants"] and (found := _first_difference(one / name, other / name))
    }  # fmt: skip
    return {"same": not items, "items": items, "operations": operations}


def _flat(report: Report) -> dict[str, Any]:
    items: dict[str, Any] = {f"mesh.{axis}": size for axis, size in report["mesh"].items()}
    items.update(fingerprint.built_items(report))
    for name, entry in report["variants"].items():
        items[f"{name}: graph"] = entry["graph"][:16]
        items[f"{name}: operations"] = entry["operations"]
        items[f"{name}: kernels"] = len(entry["kernels"])
        items[f"{name}: inputs"] = [_input(leaf) for leaf in entry["inputs"]]
        items[f"{name}: results"] = entry["results"]
        items[f"{name}: collectives"] = [f"{c['op']} over {c['axis']}" for c in entry["collectives"]]
    return items


def _first_difference(one: Path, other: Path) -> list[str]:
    """The first line in which two graphs differ."""
    try:
        graphs = [(folder / "graph.txt").read_text().splitlines() for folder in (one, other)]
    except OSError:
        return []
    for a, b in zip(*graphs, strict=False):
        if a != b:
            return [a, b]
    return []


def diff_text(report: Report) -> str:
    """A difference for people."""
    if report["same"]:
        return "the artifacts hold the same"
    lines = []
    for name, (a, b) in report["items"].items():
        if isinstance(a, list) and isinstance(b, list):
            lines += [f"{name}:", *_list_difference(a, b)]
        else:
            lines.append(f"{name}: {a} -> {b}")
    for name, (a, b) in report["operations"].items():
        lines += [f"{name}: first operation that differs", f"  - {a}", f"  + {b}"]
    return "\n".join(lines)


def _list_difference(a: list[Any], b: list[Any]) -> list[str]:
    gone, new = Counter(a) - Counter(b), Counter(b) - Counter(a)
    lines = [f"  - {n} x {item}" for item, n in gone.items()] + [f"  + {n} x {item}" for item, n in new.items()]
    return lines or ["  the same, in another order"]
