"""Real training code, annotated: nearly every tensor expression has a type, and seeded bugs are reported.

The packages are downloaded and annotated in a copy (``cases``); where that is not possible the tests are skipped.
``python -m tests.real.test_real`` keeps the figures in ``tests/results/real.json``.
"""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
import tempfile
import time
import zipfile
from pathlib import Path
from typing import Any, Final

import pytest

from tests.mypy_runner import ROOT, Message, Project, cache_folder, configuration, environment
from tests.real.annotate import Case, annotate, apply
from tests.real.cases import CASES

RESULTS: Final = ROOT / "tests" / "results" / "real.json"
SHARE: Final = 90.0
_OPTIONS: Final = {"ignore_missing_imports": True, "follow_imports": "silent", "explicit_package_bases": True}
_COVERAGE: Final = "from spmd_mypy.cli.main import main; main()"


class Unavailable(Exception):
    """The package cannot be downloaded; the message says why."""


def unpacked(package: str, folder: Path) -> Path:
    """The package's wheel, downloaded into ``folder`` and unpacked there; raises Unavailable."""
    target = folder / package
    if target.exists():
        return target
    wheels = folder / "wheels"
    options = ["--quiet", "--no-deps", "--only-binary=:all:", "--dest", str(wheels)]
    pip = [sys.executable, "-m", "pip", "download", *options]
    try:
        done = subprocess.run([*pip, package], capture_output=True, text=True, timeout=120, check=False)
    except subprocess.TimeoutExpired:
        raise Unavailable(f"pip does not get {package} in time") from None
    name, _, version = package.partition("==")
    found = list(wheels.glob(f"{name.replace('-', '_')}-{version}-*.whl"))
    if done.returncode or not found:
        raise Unavailable(f"pip cannot download {package}: {done.stderr.strip().splitlines()[-1:]}")
    partly = Path(tempfile.mkdtemp(dir=folder))
    with zipfile.ZipFile(found[0]) as wheel:
        wheel.extractall(partly)
    partly.rename(target)
    return target


class Annotated:
    """A file in its package, beside it the annotated copy and one more copy for each mutation."""

    def __init__(self, case: Case, folder: Path) -> None:
        root = unpacked(case.package, folder)
        original = root / case.file
        text = annotate(original.read_text(), case)
        self.file = original.with_name(f"{original.stem}_annotated.py")
        self.file.write_text(text)
        self.mutants = {m.name: original.with_name(f"{original.stem}_{m.name}.py") for m in case.mutations}
        for mutation in case.mutations:
            self.mutants[mutation.name].write_text(apply(text, mutation.edit))
        options = {**_OPTIONS, "mypy_path": str(root)}
        run = folder / f"run-{case.package}-{original.stem}"
        self.project = Project(run, configuration(options=options), cache=cache_folder(configuration()))

    def errors(self) -> dict[str, list[Message]]:
        """The SPMD errors in each copy, by its file name."""
        result = self.project.check(self.file, *self.mutants.values())
        found: dict[str, list[Message]] = {path.name: [] for path in (self.file, *self.mutants.values())}
        for message in result.errors:
            if message.code.startswith("spmd"):
                found[Path(message.file).name].append(message)
        return found

    def coverage(self) -> dict[str, Any]:
        """What ``spmd coverage`` says of the annotated copy, on tp."""
        config = str(self.project.folder / self.project.config_name)
        arguments = ["coverage", "--axis", "tp", "--output-format", "json", "--config-file", config]
        command = [sys.executable, "-c", _COVERAGE, *arguments, "--cache-dir", str(self.project.cache), str(self.file)]
        result = self.project.command(command)
        start = re.search(r"^\{", result.output, re.MULTILINE)
        assert result.status == 0 and start is not None, result.output[-3000:]
        report: dict[str, Any] = json.JSONDecoder().raw_decode(result.output[start.start() :])[0]
        return report


@pytest.fixture(scope="module")
def downloads() -> Path:
    """Beside mypy's cache, which knows the packages by their paths: where that is kept, so are they."""
    folder = cache_folder(configuration()).parent / "real"
    folder.mkdir(parents=True, exist_ok=True)
    return folder


@pytest.mark.parametrize("name", CASES)
def test_annotated_code(name: str, downloads: Path) -> None:
    case = CASES[name]
    try:
        annotated = Annotated(case, downloads)
    except Unavailable as error:
        pytest.skip(str(error))
    errors = annotated.errors()
    assert errors[annotated.file.name] == []
    for mutation in case.mutations:
        codes = {message.code for message in errors[annotated.mutants[mutation.name].name]}
        assert mutation.code in codes, f"{mutation.name}: expected {mutation.code}, got {sorted(codes)}"
    total = annotated.coverage()["total"]
    print(f"\n{case.file}: {total['typed']} of {total['tensors']} tensor expressions typed")
    assert total["tensors"] > 50
    assert total["percent"] >= SHARE


def test_code_as_it_is_has_no_errors(downloads: Path) -> None:
    """Without the annotations nothing is reported: that the mutations are is due to the types."""
    case = CASES["loss"]
    try:
        root = unpacked(case.package, downloads)
    except Unavailable as error:
        pytest.skip(str(error))
    project = Project(
        downloads / "plain",
        configuration(options={**_OPTIONS, "mypy_path": str(root)}),
        cache=cache_folder(configuration()),
    )
    result = project.check(root / case.file)
    assert [message for message in result.errors if message.code.startswith("spmd")] == []


def main() -> None:
    """Keep the figures in the repository."""
    rows = {}
    with tempfile.TemporaryDirectory(prefix="spmd-real-") as folder:
        for name, case in CASES.items():
            annotated = Annotated(case, Path(folder))
            errors, total = annotated.errors(), annotated.coverage()["total"]
            reported = [m.name for m in case.mutations if errors[annotated.mutants[m.name].name]]
            rows[name] = {
                "package": case.package,
                "file": case.file,
                "tensor_expressions": total["tensors"],
                "typed": total["typed"],
                "percent": total["percent"],
                "errors": len(errors[annotated.file.name]),
                "mutations": len(case.mutations),
                "mutations_reported": len(reported),
            }
            print(name, rows[name])
    document = {"command": "python -m tests.real.test_real", "date": time.strftime("%Y-%m-%d"), "files": rows}
    RESULTS.parent.mkdir(parents=True, exist_ok=True)
    RESULTS.write_text(json.dumps(document, indent=2) + "\n")


if __name__ == "__main__":
    os.environ.update(environment())
    main()
