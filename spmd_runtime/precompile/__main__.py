"""The command line: build, inspect, verify and diff artifacts.

    python -m spmd_runtime.precompile build my_train:make_step --mesh dp=4,tp=2 --out artifacts/llama
    python -m spmd_runtime.precompile inspect artifacts/llama
    python -m spmd_runtime.precompile verify artifacts/llama
    python -m spmd_runtime.precompile diff artifacts/old artifacts/new

Exit status: 0 all is well; 1 the artifacts differ, or verify found something; 2 a wrong command line or another error.
"""

from __future__ import annotations

import argparse
import importlib
import json
import os
import shlex
import sys
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

from spmd_runtime.precompile import archive, fingerprint, inspect, scratch
from spmd_runtime.precompile.errors import PrecompileError
from spmd_runtime.precompile.interface import precompile
from spmd_runtime.precompile.progress import Progress


def parser() -> argparse.ArgumentParser:
    """The parser of the command line."""
    made = argparse.ArgumentParser(
        prog="python -m spmd_runtime.precompile", description="Compile a training step once."
    )
    commands = made.add_subparsers(dest="command", required=True)
    build = commands.add_parser("build", help="capture and compile a step")
    build.add_argument("factory", help="MODULE:FUNCTION, which returns (step, inputs) when called as a rank")
    build.add_argument("--mesh", required=True, type=_mesh, help="axes and sizes: dp=4,tp=2")
    build.add_argument("--out", required=True, type=Path, help="the artifact's directory")
    build.add_argument("--dynamic", action="append", default=[], type=_range, metavar="NAME=LOW:HIGH")
    build.add_argument("--device", help="the device of meta tensors")
    build.add_argument("--cache-dir", type=Path, help="keep Inductor's files here: building again is faster")
    for name, text in (
        ("inspect", "what is in an artifact"),
        ("verify", "whether it is authentic, whole and fits here"),
    ):
        commands.add_parser(name, help=text).add_argument("artifact", type=Path)
    diff = commands.add_parser("diff", help="how two artifacts differ")
    diff.add_argument("artifact", type=Path)
    diff.add_argument("other", type=Path)
    for command in commands.choices.values():
        command.add_argument("--json", action="store_true", help="one JSON object on standard output")
    for command in (build, commands.choices["verify"]):
        command.add_argument("--key-file", type=Path, help=f"default: ${archive.KEY_VARIABLE}")
    commands.choices["verify"].add_argument("--trust", choices=["directory"], help="check without a key")
    return made


def _mesh(value: str) -> dict[str, int]:
    pairs = [part.partition("=") for part in value.split(",")]
    if not all(name and size.isdigit() and int(size) > 0 for name, _, size in pairs):
        raise argparse.ArgumentTypeError(f"{value!r} is not like dp=4,tp=2")
    return {name.strip(): int(size) for name, _, size in pairs}


def _range(value: str) -> tuple[str, tuple[int, int]]:
    name, _, limits = value.partition("=")
    low, _, high = limits.partition(":")
    if not (name and low.isdigit() and high.isdigit()):
        raise argparse.ArgumentTypeError(f"{value!r} is not like batch=1:64")
    return name, (int(low), int(high))


def _factory(name: str) -> Callable[..., Any]:
    """The function that ``MODULE:FUNCTION`` names, importable from the working directory."""
    module, _, attribute = name.partition(":")
    if not (module and attribute):
        raise PrecompileError(f"{name!r} is not like my_train:make_step")
    sys.path.insert(0, os.getcwd())
    try:
        found: Any = importlib.import_module(module)
    except ImportError as error:
        raise PrecompileError(f"{module} cannot be imported: {error}") from error
    for part in attribute.split("."):
        if not hasattr(found, part):
            raise PrecompileError(f"{module} has no {attribute}")
        found = getattr(found, part)
    if not callable(found):
        raise PrecompileError(f"{name} is a {type(found).__qualname__}, not a function that returns (step, inputs)")
    return found  # type: ignore[no-any-return]


def _build(args: argparse.Namespace, argv: Sequence[str]) -> int:
    again = [part for part in argv if part != "--json"]
    manifest = precompile(
        _factory(args.factory),
        mesh=args.mesh,
        out=args.out,
        dynamic=dict(args.dynamic),
        device=args.device,
        key_file=args.key_file,
        cache_dir=args.cache_dir,
        progress=Progress(sys.stderr),
        command="python -m spmd_runtime.precompile " + shlex.join(again),
    )
    if args.json:
        print(json.dumps(manifest))
    else:
        total = sum(manifest["seconds"].values())
        print(
            f"{args.out}: {', '.join(manifest['variants'])}, digest {manifest['digest'][:16]}, built in {total:.1f} s"
        )
    return 0


def _inspect(args: argparse.Namespace, argv: Sequence[str]) -> int:
    report = inspect.inspect(args.artifact)
    print(json.dumps(report) if args.json else inspect.text(report, args.artifact))
    return 0


def _verify(args: argparse.Namespace, argv: Sequence[str]) -> int:
    """Everything that ``load`` checks on one rank, except the mesh; unpickles and runs nothing of the artifact."""
    report = {"artifact": str(args.artifact), "ok": True, "error": ""}
    try:
        manifest, digest, private = archive.private_copy(args.artifact, archive.find_key(args.key_file), args.trust)
        scratch.drop(private)
        report["digest"] = digest
        built, here = fingerprint.built_items(manifest), fingerprint.items_now(manifest)
        fingerprint.compare(built, here, (), manifest["command"])
    except PrecompileError as error:
        report |= {"ok": False, "error": str(error)}
    if args.json:
        print(json.dumps(report))
    else:
        print(
            f"{args.artifact}: "
            + ("authentic, whole and built for this machine" if report["ok"] else str(report["error"]))
        )
    return 0 if report["ok"] else 1


def _diff(args: argparse.Namespace, argv: Sequence[str]) -> int:
    report = inspect.diff(args.artifact, args.other)
    print(json.dumps(report) if args.json else inspect.diff_text(report))
    return 0 if report["same"] else 1


_COMMANDS = {"build": _build, "inspect": _inspect, "verify": _verify, "diff": _diff}


def main(argv: Sequence[str] | None = None) -> int:
    """Run one command; gives the exit status."""
    given = list(sys.argv[1:] if argv is None else argv)
    args = parser().parse_args(given)
    try:
        return _COMMANDS[args.command](args, given)
    except (PrecompileError, ValueError, OSError) as error:
        print(f"error: {error}", file=sys.stderr)
        return 2


if __name__ == "__main__":
    sys.exit(main())
