"""Whatever the syntax tree holds, mypy with the plugin finishes.

Every snippet is a module of its own; all are checked in one run, in which a hook that fails raises instead of
keeping silent, so that mypy would end with an internal error.
"""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.mypy_runner import Project, Result
from tests.safety.corpus import Snippet, snippets

# Checked for Python 3.13 whatever runs mypy: some snippets use newer syntax.
VERSION = ("--python-version", "3.13")
# What every checked module ends in; if it is reported, mypy read the module to its end with the plugin at work.
PROBE = "def probe(probed: Tensor[P[TP]]) -> Tensor[P[TP]]: return F.gelu(probed)\n"
PROBE_IMPORTS = "import torch.nn.functional as F\nfrom spmd_runtime import P, TP, Tensor\n"


def run(folder: Path, chosen: list[Snippet]) -> Result:
    """Check the snippets in one mypy run, whatever it ends with."""
    project = Project(folder)
    files = {s.module: f"{s.source}{PROBE_IMPORTS}{PROBE}" for s in chosen}
    return project.run(*VERSION, *project.write(files))


def unreached(result: Result, chosen: list[Snippet]) -> list[str]:
    """The snippets at whose ends the plugin reported nothing."""
    reached = {m.file for m in result.errors if m.code == "spmd-partial" and "probed" in m.message}
    return [f"{s.module}: {s.title}" for s in chosen if s.module not in reached]


def test_mypy_finishes(tmp_path: Path) -> None:
    chosen = snippets()
    result = run(tmp_path, chosen)
    print(f"\n{len(chosen)} pieces of odd code, {len(result.errors)} errors reported in them")
    assert len(chosen) >= 200
    assert len({s.title for s in chosen}) == len(chosen), "a heading twice"
    assert result.status == 1, result.output[-6000:]
    assert "INTERNAL ERROR" not in result.output
    assert "Traceback" not in result.output
    unread = unreached(result, chosen)
    assert not unread, "the plugin reported nothing at the end of:\n" + "\n".join(unread)


@pytest.mark.parametrize("hook", ["method", "function", "type_analyze"])
def test_a_failing_hook_is_seen(hook: str, tmp_path: Path) -> None:
    """The harness would notice: a plugin whose hook raises makes the run fail."""
    (tmp_path / "broken.py").write_text(
        "from mypy.plugin import Plugin\n"
        "def fail(ctx):\n    raise RuntimeError('seeded')\n"
        "class Broken(Plugin):\n"
        f"    def get_{hook}_hook(self, fullname):\n"
        "        return fail if fullname in ('seeded.A', 'seeded.A.method', 'seeded.function') else None\n"
        "def plugin(version):\n    return Broken\n"
    )
    project = Project(tmp_path, '[tool.mypy]\nplugins = ["broken.py"]\n', cache=tmp_path / "cache")
    source = "class A:\n    def method(self) -> int: ...\ndef function() -> A: ...\nx: A = function()\nx.method()\n"
    result = project.run(*project.write({"seeded.py": source}))
    assert result.status == 2
    assert "INTERNAL ERROR" in result.output
