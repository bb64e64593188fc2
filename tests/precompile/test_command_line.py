"""``python -m spmd_runtime.precompile``: build, inspect, verify, diff, for people and as JSON."""

from __future__ import annotations

import io
import json
import re
import shutil
from pathlib import Path
from typing import Any
from unittest import mock

import pytest
import torch.distributed as dist

from examples.llama import artifact
from spmd_runtime.precompile import fake_world
from spmd_runtime.precompile.__main__ import main, parser
from spmd_runtime.precompile.progress import Progress

Capture = pytest.CaptureFixture[str]
MY_TRAIN = "tests.precompile.my_train"
README = (Path(__file__).parents[2] / "README.md").read_text()


@pytest.fixture(scope="module")
def built(tmp_path_factory: pytest.TempPathFactory, cache: Path) -> Path:
    out = tmp_path_factory.mktemp("cli") / "step"
    arguments = ["build", f"{MY_TRAIN}:make_step", "--mesh", "tp=2", "--out", str(out), "--cache-dir", str(cache)]
    assert main(arguments) == 0
    return out


def run(capsys: Capture, *arguments: object) -> tuple[int, str, str]:
    status = main([str(argument) for argument in arguments])
    captured = capsys.readouterr()
    return status, captured.out, captured.err


def run_json(capsys: Capture, *arguments: object) -> tuple[int, Any]:
    status, out, _ = run(capsys, *arguments, "--json")
    return status, json.loads(out)


def test_build_tells_each_stage_in_plain_lines_and_prints_json(capsys: Capture, tmp_path: Path, cache: Path) -> None:
    status, out, err = run(
        capsys, "build", f"{MY_TRAIN}:make_dynamic", "--mesh", "dp=4,tp=2", "--dynamic", "n=1:8", "--out",
        tmp_path / "step", "--cache-dir", cache, "--json",
    )  # fmt: skip
    assert status == 0
    report = json.loads(out)
    assert report["mesh"] == {"dp": 4, "tp": 2} and list(report["variants"]) == ["step", "step_n1"]
    lines = err.splitlines()
    assert re.match(r"capture step as rank \(dp 0, tp 0\)  \d+\.\d s$", lines[0])
    assert any(re.match(r"compile step \(\d+ operations\)  ", line) for line in lines)
    assert lines[-1].startswith("write ") and "\r" not in err


def test_inspect_tells_what_is_in_it(capsys: Capture, built: Path) -> None:
    status, out, _ = run(capsys, "inspect", built)
    assert status == 0
    assert "a step for the mesh (tp 2)" in out and "not signed" in out
    assert "params['w']: float32[6, 5] on cpu" in out and "scale: 0.5" in out
    assert re.search(
        r"1 all_reduce over tp \(size 2\), float32\[4, 5\], .*tiny\.py:\d+, in tiny: y = all_reduce\(", out
    )
    assert "code tests.precompile.tiny:" in out and "torch: " in out
    assert f"build {MY_TRAIN}:make_step --mesh tp=2" in out


def test_inspect_as_json_has_the_collectives_in_order(capsys: Capture, built: Path) -> None:
    _, report = run_json(capsys, "inspect", built)
    (variant,) = report["variants"].values()
    (collective,) = variant["collectives"]
    assert (collective["op"], collective["axis"], collective["size"]) == ("all_reduce", "tp", 2)
    assert collective["phase"] == "forward" and "tiny.py" in collective["line"]
    assert variant["kernels"] and report["bytes"] == sum(file["size"] for file in report["files"].values())


def test_verify(capsys: Capture, built: Path, tmp_path: Path) -> None:
    assert run(capsys, "verify", built, "--trust", "directory")[0] == 0
    status, report = run_json(capsys, "verify", built)
    assert status == 1 and not report["ok"] and "no key" in report["error"]
    copy = Path(shutil.copytree(built, tmp_path / "copy"))
    (copy / "step/step.bin").write_bytes(b"")
    status, report = run_json(capsys, "verify", copy, "--trust", "directory")
    assert status == 1 and "step.bin has 0 bytes" in report["error"]


def test_diff(capsys: Capture, built: Path, tmp_path: Path, cache: Path) -> None:
    other = tmp_path / "other"
    run(capsys, "build", f"{MY_TRAIN}:make_wider", "--mesh", "tp=2", "--out", other, "--cache-dir", cache)
    assert run(capsys, "diff", built, built)[:2] == (0, "the artifacts hold the same\n")
    status, out, _ = run(capsys, "diff", built, other)
    assert status == 1
    assert "- 1 x params['w']: float32[6, 5] on cpu" in out and "+ 1 x params['w']: float32[6, 7] on cpu" in out
    assert "first operation that differs" in out
    status, report = run_json(capsys, "diff", built, other)
    assert status == 1 and not report["same"] and "step: graph" in report["items"]


@pytest.mark.parametrize(
    ("factory", "message"),
    [
        ("nowhere:make_step", "nowhere cannot be imported"),
        (f"{MY_TRAIN}:nothing", "has no nothing"),
        (f"{MY_TRAIN}:not_a_function", "is a int, not a function"),
        ("make_step", "is not like my_train:make_step"),
    ],
)
def test_a_factory_that_is_none_is_an_error(capsys: Capture, tmp_path: Path, factory: str, message: str) -> None:
    status, _, err = run(capsys, "build", factory, "--mesh", "tp=2", "--out", tmp_path / "out")
    assert status == 2 and message in err


@pytest.mark.parametrize("arguments", [["--mesh", "tp"], ["--mesh", "tp=0"], ["--mesh", "tp=2", "--dynamic", "n=3"]])
def test_wrong_options_show_what_is_right(capsys: Capture, tmp_path: Path, arguments: list[str]) -> None:
    with pytest.raises(SystemExit) as info:
        main(["build", f"{MY_TRAIN}:make_step", "--out", str(tmp_path / "out"), *arguments])
    assert info.value.code == 2 and "is not like" in capsys.readouterr().err


def test_no_artifact_is_an_error(capsys: Capture, tmp_path: Path) -> None:
    status, _, err = run(capsys, "inspect", tmp_path)
    assert status == 2 and "has no readable manifest" in err


def test_the_readmes_commands_are_there(monkeypatch: pytest.MonkeyPatch) -> None:
    """Build and inspect by their own parser, the example's program by its own, and the factory by its name."""
    found = re.findall(
        r"^\$ .*?(?:-m) (spmd_runtime\.precompile|examples\.llama\.artifact) (.*)$", README, re.MULTILINE
    )
    assert [(name, rest.split()[0]) for name, rest in found] == [
        ("spmd_runtime.precompile", "build"), ("spmd_runtime.precompile", "inspect"),
        ("examples.llama.artifact", "artifacts/llama"),
    ]  # fmt: skip
    build, inspect, run = (rest.split() for _, rest in found)
    args = parser().parse_args(build)
    assert args.factory == "examples.llama.artifact:make_step" and str(args.out) == inspect[1] == run[0]
    with fake_world(args.mesh):
        step, inputs = artifact.make_step()
    assert callable(step) and len(inputs) == 3
    monkeypatch.setattr(artifact, "train", lambda *given: pytest.fail(f"{given}"))
    monkeypatch.setattr("sys.argv", ["artifact", *run])
    with (
        fake_world(args.mesh),
        mock.patch.object(dist, "destroy_process_group"),
        pytest.raises(pytest.fail.Exception) as info,
    ):
        artifact.main()
    assert "('artifacts/llama', 20, DeviceMesh(" in str(info.value) and "'directory')" in str(info.value)


class Terminal(io.StringIO):
    def isatty(self) -> bool:
        return True


def test_progress_rewrites_its_line_on_a_terminal_alone() -> None:
    for stream, ending in ((Terminal(), "\033[K"), (io.StringIO(), "")):
        progress = Progress(stream)
        with progress.stage("one", "first stage"):
            pass
        with pytest.raises(KeyError), progress.stage("two", "second stage"):
            raise KeyError
        text = stream.getvalue()
        assert ("\r" in text) == bool(ending)
        assert re.search(r"first stage  \d+\.\d s", text) and "second stage: failed" in text
        assert list(progress.seconds) == ["one"]
