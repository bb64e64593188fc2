"""The machine code of an artifact: C++ kernels by the digest of their source.

Inductor finds a C++ kernel under a name made of its source and of the whole compiler command, with the paths of this
machine in it, and builds it where it is not found.  An artifact has each ``.so`` under the digest of the source alone;
while an artifact is revived, Inductor's look-up is replaced by one in the artifact, which builds nothing and asks no
compiler.  Triton's binaries travel inside ``step.bin`` (Inductor bundles them), and the library with which Triton talks
to the driver, which it would build with a C compiler in every new cache directory, beside it.
"""

from __future__ import annotations

import contextlib
import hashlib
import shutil
from collections.abc import Callable, Collection, Iterator, Mapping
from pathlib import Path
from typing import Any, Final
from unittest import mock

from spmd_runtime.precompile import compat
from spmd_runtime.precompile.errors import BrokenArtifactError

TRITON: Final = "triton"  # Triton's part of Inductor's cache directory, and of an artifact


def source_key(source: str, optimized: str | None, device: str) -> str:
    """The name of a kernel: a digest of its source."""
    return hashlib.sha256("\0".join((source, optimized or "", device)).encode()).hexdigest()[:32]


@contextlib.contextmanager
def recorded() -> Iterator[dict[str, Path]]:
    """The shared libraries that Inductor builds or finds inside, by :func:`source_key`; filled at the end.

    What an earlier build in this process has loaded is not taken: its files may be gone.
    """
    cache = compat.part("torch._inductor.codecache", "CppCodeCache")
    original = cache.load_async.__func__
    pending: dict[str, Callable[[], Any]] = {}

    def load_async(cls: Any, main_code: str, device_type: str = "cpu", *args: Any, **kwargs: Any) -> Any:
        loader: Callable[[], Any] = original(cls, main_code, device_type, *args, **kwargs)
        pending[source_key(main_code, kwargs.get("optimized_code"), device_type)] = loader
        return loader

    found: dict[str, Path] = {}
    with mock.patch.object(cache, "load_async", classmethod(load_async)), compat.no_loaded_kernels():
        yield found
        for key, loader in pending.items():
            library = loader()
            found[key] = Path(getattr(library, "__file__", None) or library._name)


@contextlib.contextmanager
def shipped(libraries: Mapping[str, Path]) -> Iterator[None]:
    """Inductor takes its C++ kernels from ``libraries`` inside, and raises BrokenArtifactError for another one."""
    cache = compat.part("torch._inductor.codecache", "CppCodeCache")

    def load_async(cls: Any, main_code: str, device_type: str = "cpu", *args: Any, **kwargs: Any) -> Any:
        key = source_key(main_code, kwargs.get("optimized_code"), device_type)
        if key not in libraries:
            raise BrokenArtifactError(f"the artifact has no machine code for kernel {key}; build it anew")
        library = cls._load_library(str(libraries[key]), f"spmd_{key}")
        return lambda: library

    with mock.patch.object(cache, "load_async", classmethod(load_async)):
        yield


def add_triton_helpers(cache: Path, artifact: Path, devices: Collection[str]) -> None:
    """Copy the libraries that Triton itself loads on a GPU from Inductor's cache directory into the artifact."""
    if "cuda" in devices:
        compat.build_triton_driver()
        for library in (cache / TRITON).rglob("*.so"):
            target = artifact / TRITON / library.relative_to(cache / TRITON)
            target.parent.mkdir(parents=True, exist_ok=True)
            shutil.copyfile(library, target)


def use_triton_helpers(artifact: Path, cache: Path) -> None:
    """Have Triton load them from a private copy of the artifact; ``cache`` is Inductor's cache directory now."""
    if (artifact / TRITON).is_dir():
        shutil.copytree(artifact / TRITON, cache / TRITON, dirs_exist_ok=True)
        compat.use_triton_driver()
