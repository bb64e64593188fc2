"""An artifact that is changed, swapped, half written, not authentic or stale is refused before any of it is used."""

from __future__ import annotations

import json
import multiprocessing
import os
import re
import shutil
import signal
import stat
import tempfile
from collections.abc import Callable
from pathlib import Path
from typing import Any
from unittest import mock

import pytest
import torch

from spmd_runtime.precompile import (
    BrokenArtifactError,
    PrecompileError,
    StaleArtifactError,
    UntrustedArtifactError,
    archive,
    compat,
    fake_world,
    fingerprint,
    interface,
    load,
    precompile,
)
from tests.precompile import tiny
from tests.precompile.conftest import KEY, MESH

Tamper = Callable[[Path], object]


@pytest.fixture(autouse=True)
def no_ambient_key(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv(archive.KEY_VARIABLE, raising=False)


def copy(folder: Path, tmp_path: Path) -> Path:
    return Path(shutil.copytree(folder, tmp_path / "copy"))


def load_unused(folder: Path, **options: Any) -> Any:
    """``load`` as one rank; fails the test if anything of the artifact is unpickled, executed or linked."""
    used = AssertionError("the artifact was used")
    with fake_world(MESH), mock.patch.object(compat, "revive", side_effect=used):
        return load(folder, **options)


def truncate(path: Path) -> None:
    path.write_bytes(path.read_bytes()[:-7])


def edit(path: Path) -> None:
    data = bytearray(path.read_bytes())
    data[len(data) // 2] ^= 1
    path.write_bytes(bytes(data))


def swap(folder: Path) -> None:
    first, second = sorted((folder / "kernels").glob("*.so"))[:2]
    data = first.read_bytes()
    first.write_bytes(second.read_bytes())
    second.write_bytes(data)


def link(folder: Path) -> None:
    kernel = next((folder / "kernels").glob("*.so"))
    kernel.rename(folder.parent / "elsewhere.so")
    kernel.symlink_to(folder.parent / "elsewhere.so")


def change_manifest(folder: Path, change: Callable[[dict[str, Any]], object]) -> None:
    manifest = json.loads((folder / "manifest.json").read_text())
    change(manifest)
    (folder / "manifest.json").write_text(json.dumps(manifest))


TAMPERINGS: dict[str, Tamper] = {
    "pickle cut short": lambda folder: truncate(folder / "step/step.bin"),
    "pickle edited": lambda folder: edit(folder / "step/step.bin"),
    "pickle missing": lambda folder: (folder / "step/step.bin").unlink(),
    "kernel cut short": lambda folder: truncate(next((folder / "kernels").glob("*.so"))),
    "kernel edited": lambda folder: edit(next((folder / "kernels").glob("*.so"))),
    "kernel missing": lambda folder: next((folder / "kernels").glob("*.so")).unlink(),
    "kernels swapped": swap,
    "kernel outside": link,
    "manifest cut short": lambda folder: truncate(folder / "manifest.json"),
    "manifest missing": lambda folder: (folder / "manifest.json").unlink(),
    "manifest empty": lambda folder: (folder / "manifest.json").write_text("[]"),
    "manifest without a part": lambda folder: change_manifest(folder, lambda m: m.pop("fingerprint")),
    "format of another version": lambda folder: change_manifest(folder, lambda m: m.update(format=0)),
    "file outside": lambda folder: change_manifest(
        folder, lambda m: m["files"].update({"../elsewhere.so": {"sha256": "0", "size": 0}})
    ),
    "variant outside": lambda folder: change_manifest(
        folder, lambda m: m["variants"].update({"../elsewhere": m["variants"]["step"]})
    ),
    "kernel that no file is": lambda folder: change_manifest(
        folder, lambda m: m["variants"]["step"]["kernels"].append("0" * 32)
    ),
}


@pytest.mark.parametrize("how", TAMPERINGS)
def test_tampering_is_found_before_anything_is_used(plain: Path, tmp_path: Path, how: str) -> None:
    folder = copy(plain, tmp_path)
    TAMPERINGS[how](folder)
    with pytest.raises(BrokenArtifactError, match=re.escape(str(folder))):
        load_unused(folder, trust="directory")


@pytest.mark.parametrize(
    "tamper",
    [
        lambda folder: edit(folder / "manifest.json"),
        lambda folder: edit(folder / "manifest.mac"),
        lambda folder: (folder / "manifest.mac").write_text("é" * 64),
        lambda folder: (folder / "manifest.mac").unlink(),
    ],
)
def test_manifest_must_be_authentic(
    signed: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, tamper: Tamper
) -> None:
    monkeypatch.setenv(archive.KEY_VARIABLE, KEY)
    folder = copy(signed, tmp_path)
    tamper(folder)
    with pytest.raises(BrokenArtifactError):
        load_unused(folder)
    with pytest.raises(BrokenArtifactError):
        load_unused(folder, trust="directory")  # a key that is there is used


def test_consistent_forgery_needs_the_key(signed: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A pickle and a manifest that agree, as somebody without the key can make them."""
    folder = copy(signed, tmp_path)
    edit(folder / "step/step.bin")
    manifest = json.loads((folder / "manifest.json").read_text())
    manifest["files"]["step/step.bin"]["sha256"] = archive.digest((folder / "step/step.bin").read_bytes())
    (folder / "manifest.json").write_text(json.dumps(manifest))
    monkeypatch.setenv(archive.KEY_VARIABLE, KEY)
    with pytest.raises(BrokenArtifactError, match="not authentic"):
        load_unused(folder)


def test_without_a_key_the_directory_must_be_trusted_in_so_many_words(plain: Path) -> None:
    with pytest.raises(UntrustedArtifactError, match=r"runs machine code(?s:.*)trust=\"directory\""):
        load_unused(plain)
    with pytest.raises(ValueError, match='"directory"'):
        load_unused(plain, trust="yes")


def test_keys(signed: Path, plain: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    key, short = tmp_path / "key", tmp_path / "short"
    key.write_text(KEY)
    short.write_text("dev")
    private = tmp_path / "private"
    private.mkdir()
    monkeypatch.setattr(tempfile, "tempdir", str(private))
    with fake_world(MESH):
        load(signed, key_file=key)
        assert not list(private.iterdir())  # the private copy is gone once it is linked
        monkeypatch.setenv(archive.KEY_VARIABLE, KEY)
        load(signed)
    monkeypatch.setenv(archive.KEY_VARIABLE, KEY + "another")
    with pytest.raises(BrokenArtifactError, match="another key"):
        load_unused(signed)
    with pytest.raises(BrokenArtifactError, match="without a key"):
        load_unused(plain)
    with pytest.raises(PrecompileError, match="3 bytes, at least 16"):
        load_unused(signed, key_file=short)
    with pytest.raises(PrecompileError, match="cannot be read"):
        load_unused(signed, key_file=tmp_path / "none")


def test_what_is_used_is_a_private_copy_of_what_was_checked(plain: Path) -> None:
    manifest, digest, private = archive.private_copy(plain, None, "directory")
    assert stat.S_IMODE(private.stat().st_mode) == 0o700
    assert plain not in private.parents
    assert digest == archive.digest((plain / "manifest.json").read_bytes())
    for name, entry in manifest["files"].items():
        assert archive.digest((private / name).read_bytes()) == entry["sha256"]
    shutil.rmtree(private)


def manifest_of(folder: Path) -> dict[str, Any]:
    found: dict[str, Any] = json.loads((folder / "manifest.json").read_text())
    return found


def test_fingerprint_holds_what_can_change_the_result(plain: Path) -> None:
    manifest = manifest_of(plain)
    items = manifest["fingerprint"]
    assert {"torch", "torch.git", "torch.sources", "python", "triton", "cpu.capability", "cpu.threads", "spmd"} <= set(
        items
    )
    assert {"deterministic", "matmul_precision"} <= set(items)
    assert "code tests.precompile.tiny" in manifest["code"]


def test_each_item_of_the_fingerprint_is_compared_and_named(plain: Path) -> None:
    now = fingerprint.environment(["cpu"])
    for name, value in now.items():
        other = {**now, name: "something else"}
        with (
            mock.patch.object(fingerprint, "environment", return_value=other),
            pytest.raises(StaleArtifactError) as info,
        ):
            load_unused(plain, trust="directory")
        assert info.value.differences == {name: (value, "something else")}
        assert f"{name}: built with {value}, here something else" in str(info.value)
        assert "run precompile(tiny, ..." in str(info.value)


def test_settings_of_the_process_are_seen(plain: Path) -> None:
    threads = torch.get_num_threads()
    torch.set_num_threads(threads + 1)
    torch.set_float32_matmul_precision("high")
    try:
        with torch._inductor.config.patch(epilogue_fusion=False), pytest.raises(StaleArtifactError) as info:
            load_unused(plain, trust="directory")
        wanted = {"cpu.threads", "matmul_precision", "inductor.epilogue_fusion"}
        assert set(info.value.differences) == wanted
        with fake_world(MESH), torch._inductor.config.patch(epilogue_fusion=False):
            load(plain, trust="directory", ignore=wanted)
    finally:
        torch.set_num_threads(threads)
        torch.set_float32_matmul_precision("highest")


def test_changed_model_code_is_seen_and_a_comment_is_not(tmp_path: Path) -> None:
    file = tmp_path / "model.py"
    file.write_text("def f(x):\n    return x + 1\n")
    before = fingerprint.code_digest(str(file))
    file.write_text("# faster\ndef f(x):\n\n    return x + 1  # one\n")
    assert fingerprint.code_digest(str(file)) == before
    file.write_text("def f(x):\n    return x + 2\n")
    assert fingerprint.code_digest(str(file)) != before
    assert fingerprint.code_digest(str(tmp_path / "none.py")) == fingerprint.MISSING


def test_changed_model_code_is_refused(plain: Path) -> None:
    real = fingerprint.code_digest

    def changed(file: str) -> str:
        return "changed" if file.endswith("tiny.py") else real(file)

    with mock.patch.object(fingerprint, "code_digest", changed), pytest.raises(StaleArtifactError) as info:
        load_unused(plain, trust="directory")
    assert set(info.value.differences) == {"code tests.precompile.tiny"}


def test_another_mesh_is_refused(plain: Path) -> None:
    with (
        fake_world({"tp": 4}),
        mock.patch.object(compat, "revive", side_effect=AssertionError),
        pytest.raises(StaleArtifactError, match=r"mesh.tp: built with 2, here 4"),
    ):
        load(plain, trust="directory")
    with fake_world({"tp": 4}), pytest.raises(ValueError, match="compiled in"):
        load(plain, trust="directory", ignore=["mesh.tp"])


def _killed_build(out: Path, where: tuple[Any, str]) -> None:
    """A build that is killed when it comes to ``where``."""
    torch.set_num_threads(1)
    with mock.patch.object(*where, side_effect=lambda *args: os.kill(os.getpid(), signal.SIGKILL)):
        precompile(tiny.update, (torch.ones(4), torch.ones(4)), mesh=MESH, out=out)


@pytest.mark.parametrize("where", [(compat, "compile_graph"), (archive, "_replace")])
def test_a_killed_build_leaves_nothing_that_loads(
    tmp_path: Path, tmp_path_factory: pytest.TempPathFactory, monkeypatch: pytest.MonkeyPatch, where: tuple[Any, str]
) -> None:
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path_factory.mktemp("temporary")))
    out = tmp_path / "step"
    if where[1] == "_replace":
        stand_in = mock.patch.object(compat, "compile_graph", return_value=(b"bytes", None))
    else:
        stand_in = mock.patch.object(compat, "fake_mode", compat.fake_mode)
    with stand_in:
        child = multiprocessing.get_context("fork").Process(target=_killed_build, args=(out, where))
        child.start()
        child.join(120)
        ended = not child.is_alive()
        child.kill()
    assert ended and child.exitcode == -signal.SIGKILL
    assert not out.exists()
    left = list(tmp_path.iterdir())
    assert len(left) == 1 and left[0].name.startswith(".step.building-")
    with archive.building(out):
        assert not left[0].exists()  # the next build removes it
    assert not list(tmp_path.iterdir())


EMPTY: dict[str, Any] = {
    "mesh": {}, "variants": {}, "devices": [], "fingerprint": {}, "code": {}, "command": "",
}  # fmt: skip


def _publish(out: Path, number: int, times: int) -> None:
    for turn in range(times):
        with archive.building(out) as folder:
            for name in ("a", "b", "c"):
                (folder / name).write_text(f"{number} {turn}" * 500)
            archive.publish(folder, out, EMPTY, KEY.encode())


def test_concurrent_builds_and_loads_do_not_disturb_each_other(tmp_path: Path) -> None:
    """Two builders replace the artifact over and over; whoever reads gets one of them whole."""
    out = tmp_path / "step"
    _publish(out, 0, 1)
    context = multiprocessing.get_context("fork")
    builders = [context.Process(target=_publish, args=(out, number, 40)) for number in (1, 2)]
    for builder in builders:
        builder.start()
    seen = set()
    for _ in range(40):
        manifest, _, private = archive.private_copy(out, KEY.encode(), None)
        contents = {(private / name).read_text() for name in manifest["files"]}
        assert len(contents) == 1
        seen |= contents
        shutil.rmtree(private)
    for builder in builders:
        builder.join(60)
        builder.kill()
        assert builder.exitcode == 0
    assert len(seen) > 1
    assert [path.name for path in tmp_path.iterdir()] == ["step"]


def test_a_torch_that_lacks_what_is_needed_is_named() -> None:
    with (
        mock.patch.object(compat, "_PARTS", (("torch._inductor.standalone_compile", "gone"),)),
        pytest.raises(PrecompileError, match=r"lacks.*standalone_compile.gone.*torch 2.13"),
    ):
        interface.load("anywhere")
