"""A wrong configuration ends the run with mypy's exit status 2 and a message that names key and file."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.mypy_runner import Project

MYPY = '[tool.mypy]\nplugins = ["spmd_mypy.plugin"]\n'
# What stands below ``[tool.spmd-mypy]`` -> what the message must name beside the file.
WRONG = {
    "axis = ['tp']": "axis",
    "axes = 'tp'": "axes",
    "axes = []": "axes",
    "axes = ['tp', 'tp']": "axes",
    "axes = ['tp', 3]": "axes",
    "axes = ['nonsense']": "nonsense",
    "axes = ['not a path.Axis']": "axes",
    "axes = ['tp']\nmeshes = [['tp']]": "meshes",
    "meshes = ['tp']": "meshes",
    "meshes = [['tp'], ['tp']]": "tp",
    "axes = ['tp']\ndefault_axis = 'dp'": "default_axis",
    "default_axis = 3": "default_axis",
    "grad_reduced = 'dp'": "grad_reduced",
    "grad_reduced = [1]": "grad_reduced",
    "grad_reduced = ['nonsense']": "grad_reduced",
    "strict = 'yes'": "strict",
    "strict = 1": "strict",
    "groups = ['tp']": "groups",
    "[tool.spmd-mypy.groups]\n'my.group' = 'nonsense'": "my.group",
    "[tool.spmd-mypy.groups]\n'my.group' = 3": "my.group",
    "[tool.spmd-mypy.rules]\n'my.op' = 3": "my.op",
    "[tool.spmd-mypy.rules]\n'my.op' = { nonsense = ['x'] }": "nonsense",
    "[tool.spmd-mypy.rules]\n'my.op' = { linear = 3 }": "linear",
    "[[tool.spmd-mypy.overrides]]\nstrict = true": "module",
    "[[tool.spmd-mypy.overrides]]\nmodule = 'm'\nnonsense = true": "nonsense",
    "[[tool.spmd-mypy.overrides]]\nmodule = 'm'\nstrict = 'no'": "strict",
    "overrides = 3": "overrides",
    "[tool.spmd_mypy]\naxes = ['tp']": "the table's name has a hyphen",
}


def run(folder: Path, config: str, name: str = "pyproject.toml") -> tuple[int, str]:
    """Check an empty module under a configuration; exit status and output."""
    project = Project(folder, config, name, cache=folder / "cache")
    result = project.run(*project.write({"empty.py": ""}))
    return result.status, result.output


@pytest.mark.parametrize("text", WRONG)
def test_wrong(text: str, tmp_path: Path) -> None:
    status, output = run(tmp_path, f"{MYPY}\n[tool.spmd-mypy]\n{text}\n")
    assert status == 2, output
    assert WRONG[text] in output
    assert "pyproject.toml" in output
    assert "Traceback" not in output
    assert "INTERNAL ERROR" not in output


@pytest.mark.parametrize(
    "config",
    [
        MYPY,
        f"{MYPY}\n[tool.spmd-mypy]\n",
        f'{MYPY}\n[tool.spmd-mypy]\naxes = ["tp"]\n',
        f'{MYPY}\n[tool.spmd-mypy]\nmeshes = [["dp", "tp"], ["edp", "ep"]]\ndefault_axis = "tp"\n',
        f'{MYPY}\n[tool.spmd-mypy]\naxes = ["my_project.mesh.Seq"]\n',
        f"{MYPY}\n[tool.spmd-mypy]\nstrict = true\n[[tool.spmd-mypy.overrides]]\nmodule = ['a.*', 'b']\nstrict = false",
        f"{MYPY}\n[tool.spmd-mypy.rules]\n'my.op' = {{ linear = ['x'], index = ['i'] }}\n",
    ],
    ids=["no table", "empty", "axes", "meshes", "own axis", "overrides", "rules"],
)
def test_right(config: str, tmp_path: Path) -> None:
    assert run(tmp_path, config) == (0, "")


INI = "[mypy]\nplugins = spmd_mypy.plugin\n"


@pytest.mark.parametrize("name", ["mypy.ini", "setup.cfg"])
@pytest.mark.parametrize(
    ("keys", "named"),
    [
        ("axes = dp, tp\n", ""),
        ("axes = dp, tp\ndefault_axis = dp\nstrict = true\n", ""),
        ("axis = tp\n", "axis"),
        ("axes = tp, tp\n", "axes"),
        ("axes = nonsense\n", "nonsense"),
        ("strict = perhaps\n", "strict"),
        ("groups = a\n", "groups"),
    ],
)
def test_ini(keys: str, named: str, name: str, tmp_path: Path) -> None:
    """The flat keys stand in ``[spmd-mypy]``."""
    status, output = run(tmp_path, f"{INI}\n[spmd-mypy]\n{keys}", name)
    assert status == (2 if named else 0), output
    if named:
        assert named in output
        assert name in output
        assert "Traceback" not in output


def test_the_file_that_mypy_reads_wins(tmp_path: Path) -> None:
    """A mypy.ini beside the pyproject.toml: mypy reads that one, and so does the plugin."""
    (tmp_path / "pyproject.toml").write_text(f"{MYPY}\n[tool.spmd-mypy]\nnonsense = 1\n")
    assert run(tmp_path, f"{INI}\n[spmd-mypy]\naxes = tp\n", "mypy.ini") == (0, "")
