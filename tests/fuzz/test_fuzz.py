"""A part of the fuzz sweep: mypy with the plugin gets through seeded mutants of real code."""

from __future__ import annotations

import ast
import json
from pathlib import Path

from tests.fuzz.corpus import pieces
from tests.fuzz.mutants import mutant
from tests.fuzz.sweep import RESULTS, summary, sweep
from tests.fuzz.worker import Report, check, options, sources
from tests.mypy_runner import Project, cache_folder, configuration

COUNT = 150


def test_mutants_are_checked(tmp_path: Path) -> None:
    """Other mutants than those of the kept sweep, every time the corpus changes."""
    report = sweep(tmp_path, 10_000, COUNT)
    print(f"\n{summary(report)}")
    assert report.failures == []
    assert report.checked > 0.8 * COUNT
    assert report.spmd_errors > COUNT // 15, "the plugin has seen little of them"


def test_mutants_are_seeded_and_differ() -> None:
    piece = next(p for p in pieces() if p.origin == "examples/llama/model.py")
    texts = [mutant(piece, seed) for seed in range(20)]
    assert texts == [mutant(piece, seed) for seed in range(20)]
    valid = [text for text in texts if text is not None]
    assert len(set(valid)) == len(valid) > 10
    assert ast.unparse(ast.parse(piece.text)) not in valid


def test_a_failing_hook_is_counted(tmp_path: Path) -> None:
    """A plugin whose hook raises is seen, and bisected down to the mutants that make it raise."""
    (tmp_path / "broken.py").write_text(
        "from mypy.plugin import Plugin\n"
        "def fail(ctx):\n    raise RuntimeError('seeded')\n"
        "class Broken(Plugin):\n"
        "    def get_function_hook(self, fullname):\n"
        "        return fail if fullname == 'mutant_1.f' else None\n"
        "def plugin(version):\n    return Broken\n"
    )
    project = Project(tmp_path, '[tool.mypy]\nplugins = ["broken.py"]\n')
    found = options(str(project.folder / "pyproject.toml"), str(tmp_path / "cache"))
    report = Report()
    batch = list(sources(0, 3, report))
    for source in batch:
        source.text = "def f() -> int: ...\nf()\n"
    check(batch, found, report)
    assert len(report.failures) == 1
    assert "mutant_1" in report.failures[0] and "seeded" in report.failures[0]
    assert report.checked == len(batch)


def test_the_kept_sweep() -> None:
    kept = json.loads(RESULTS.read_text())
    assert kept["checked"] >= 2000
    assert kept["failures"] == []


def test_options_are_the_command_line_s(tmp_path: Path) -> None:
    """Else every run would read torch anew."""
    project = Project(tmp_path)
    found = options(str(project.folder / "pyproject.toml"), str(cache_folder(configuration())))
    assert found.allow_redefinition
    assert found.plugins == ["spmd_mypy.plugin"]
