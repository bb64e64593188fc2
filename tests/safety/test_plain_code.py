"""Code without SPMD types gets, byte for byte, what mypy says without the plugin.

Compared are the types and errors of the odd snippets with their layouts taken out, of a file of ordinary torch code,
and the errors in torch's own modules that a model imports.  ``python -m tests.safety.test_plain_code`` compares all of
torch (some minutes).
"""

from __future__ import annotations

import difflib
import sys
import tempfile
from collections.abc import Mapping
from pathlib import Path

import pytest

from tests.mypy_runner import Project, Result, configuration
from tests.safety.corpus import PLAIN, erased, snippets

WITHOUT_PLUGIN = {"plugins": None}
TORCH_MODULES = [
    *("-p", "torch.nn", "-p", "torch.optim", "-p", "torch.autograd", "-p", "torch.func"),
    *("-m", "torch", "-m", "torch._tensor", "-m", "torch.functional", "-m", "torch.overrides"),
    *("-m", "torch.utils.checkpoint", "-m", "torch.distributed", "-m", "torch.distributed.device_mesh"),
    *("-m", "torch.distributed.distributed_c10d", "-m", "torch.distributed._functional_collectives"),
]


def both(
    folder: Path, files: dict[str, str], *arguments: str, options: Mapping[str, object] | None = None
) -> list[Result]:
    """Run mypy without and with the plugin over the same files and arguments."""
    results = []
    for extra in (WITHOUT_PLUGIN, {}):
        project = Project(folder, configuration(options={**(options or {}), **extra}))
        results.append(project.run(*arguments, *project.write(files), timeout=900))
    return results


def only(result: Result, prefix: str) -> Result:
    """The part of a result that is about files whose names start so."""
    lines = [line for line in result.output.splitlines(keepends=True) if line.startswith(prefix)]
    return Result(result.status, [m for m in result.messages if m.file.startswith(prefix)], "".join(lines))


def difference(without: Result, plugin: Result) -> str:
    """The lines that differ; empty where the outputs are the same bytes."""
    assert without.status in (0, 1), without.output[-3000:]
    if without.output == plugin.output:
        return ""
    lines = difflib.unified_diff(without.output.splitlines(), plugin.output.splitlines(), n=0, lineterm="")
    return "\n".join(list(lines)[:60]) or "line ends differ"


def test_odd_code(tmp_path: Path) -> None:
    """Also where modules with SPMD types are checked in the same run: nothing of theirs comes over."""
    files = {f"plain_{s.module}": text for s in snippets() if (text := erased(s)) is not None}
    typed = {s.module: s.source for s in snippets()}
    without, plugin = (only(r, "plain_") for r in both(tmp_path, {**files, **typed}, "--python-version", "3.13"))
    revealed = sum(m.revealed is not None for m in without.messages)
    print(f"\n{len(files)} pieces of odd code, {len(without.errors)} errors and {revealed} revealed types compared")
    assert len(files) > 100
    assert revealed > 500
    assert difference(without, plugin) == ""


@pytest.mark.parametrize("strict", [False, True], ids=["default", "strict"])
def test_ordinary_code(strict: bool, tmp_path: Path) -> None:
    names = [
        "strict",
        "warn_unreachable",
        "extra_checks",
        "strict_equality",
        "local_partial_types",
        "allow_redefinition",
    ]
    options = dict.fromkeys(names, strict)
    without, plugin = both(tmp_path, {"plain.py": PLAIN.read_text()}, options=options)
    assert difference(without, plugin) == ""


def test_nothing_comes_over(tmp_path: Path) -> None:
    """An error of ours in one module leaves mypy's own error on the same line of another as it is."""
    typed = "from spmd_runtime import P, TP, Tensor\n\ndef f(x: Tensor[P[TP]]) -> None:\n    x.exp()\n"
    plain = "import torch\nimport typed\ndef f(x: torch.Tensor) -> None:\n    torch.add(x, 'a')\n"
    without, plugin = both(tmp_path, {"plain.py": plain, "typed.py": typed})
    assert [m.code for m in plugin.errors if m.file == "typed.py"] == ["spmd-partial"]
    assert difference(only(without, "plain.py"), only(plugin, "plain.py")) == ""


# Errors inside torch, which mypy never shows to users: of a call with a generic method as argument another argument is
# blamed, and a container's own body is checked as the generic class that the plugin makes it.
KNOWN = ("torch/_tensor.py:1585:", "torch/nn/modules/container.py:418:")


def test_torch_itself(tmp_path: Path) -> None:
    results = both(tmp_path, {}, *TORCH_MODULES)
    print(f"\n{len(results[0].errors)} errors in torch's own modules compared")
    assert len(results[0].errors) > 100
    without, plugin = (_without_known(result) for result in results)
    assert difference(without, plugin) == ""


def _without_known(result: Result) -> Result:
    lines = result.output.splitlines(keepends=True)
    kept = "".join(line for line in lines if not any(place in line for place in KNOWN))
    return Result(result.status, result.messages, kept)


if __name__ == "__main__":
    with tempfile.TemporaryDirectory() as temporary:
        everything = both(Path(temporary), {"all.py": "import torch\n"}, options={"no_silence_site_packages": True})
    found = difference(*everything)
    print(found or f"no difference in {len(everything[0].errors)} errors")
    sys.exit(bool(found))
