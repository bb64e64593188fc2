"""Artifacts that several tests share; each is built once in a session."""

from __future__ import annotations

from pathlib import Path

import pytest

from spmd_runtime.precompile import TensorSpec, like, precompile
from tests.precompile import tiny

MESH = {"tp": 2}
KEY = "0123456789abcdef-a-key-for-tests"


@pytest.fixture(scope="session")
def cache(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Inductor's files of all builds: a kernel that two steps share is built once."""
    return tmp_path_factory.mktemp("inductor")


@pytest.fixture(scope="session")
def plain(tmp_path_factory: pytest.TempPathFactory, cache: Path) -> Path:
    """``tiny.tiny``, built without a key."""
    out = tmp_path_factory.mktemp("plain") / "step"
    precompile(tiny.tiny, tiny.tiny_inputs(), mesh=MESH, out=out, cache_dir=cache)
    return out


@pytest.fixture(scope="session")
def signed(tmp_path_factory: pytest.TempPathFactory, cache: Path) -> Path:
    """``tiny.tiny``, built with a key."""
    folder = tmp_path_factory.mktemp("signed")
    (folder / "key").write_text(KEY + "\n")
    precompile(tiny.tiny, tiny.tiny_inputs(), mesh=MESH, out=folder / "step", cache_dir=cache, key_file=folder / "key")
    return folder / "step"


@pytest.fixture(scope="session")
def varied(tmp_path_factory: pytest.TempPathFactory, cache: Path) -> Path:
    """``tiny.shards`` in two variants with other shapes, and with a dim that varies from 1 to 8."""
    out = tmp_path_factory.mktemp("varied") / "step"

    def make() -> object:
        return {
            "even": (tiny.shards, (TensorSpec(("n", 3)),)),
            "last": (tiny.shards, (TensorSpec(("n", 2)),)),
        }

    precompile(make, mesh=MESH, out=out, cache_dir=cache, dynamic={"n": (1, 8)})
    return out


@pytest.fixture(scope="session")
def writing(tmp_path_factory: pytest.TempPathFactory, cache: Path) -> Path:
    """``tiny.update``, which writes into an input."""
    import torch  # noqa: PLC0415

    out = tmp_path_factory.mktemp("writing") / "step"
    x = torch.ones(6, 4).t()
    precompile(tiny.update, (torch.ones(4, 6), like(x)), mesh=MESH, out=out, cache_dir=cache)
    return out
