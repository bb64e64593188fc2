"""What must be the same where an artifact is built and where it runs, item by item."""

from __future__ import annotations

import ast
import hashlib
import importlib.metadata
import importlib.util
import platform
import sys
from collections.abc import Callable, Iterable, Mapping
from pathlib import Path
from typing import Any, Final

import torch

import spmd_mypy
from spmd_runtime.precompile import compat
from spmd_runtime.precompile.errors import StaleArtifactError
from spmd_runtime.precompile.provenance import is_installed

Fingerprint = dict[str, str]
MISSING: Final = "(missing)"
_HINTS: Final = {"cpu.threads": " (OMP_NUM_THREADS, which torchrun sets to 1, or torch.set_num_threads)"}


def _triton_version() -> str:
    try:
        return importlib.metadata.version("triton")
    except importlib.metadata.PackageNotFoundError:
        return "none"


# What holds for any device.
_ITEMS: Final[dict[str, Callable[[], object]]] = {
    "spmd": lambda: spmd_mypy.__version__,
    "torch": lambda: torch.__version__,
    "torch.git": lambda: torch.version.git_version,
    "torch.sources": compat.torch_key,
    "python": platform.python_version,
    "machine": platform.machine,
    "triton": _triton_version,
    "default_dtype": torch.get_default_dtype,
    "deterministic": torch.are_deterministic_algorithms_enabled,
    "matmul_precision": torch.get_float32_matmul_precision,
}
_BY_DEVICE: Final[dict[str, dict[str, Callable[[], object]]]] = {
    "cpu": {
        "cpu.capability": torch.backends.cpu.get_cpu_capability,
        "cpu.threads": torch.get_num_threads,
        "cpu.mkldnn": lambda: torch.backends.mkldnn.enabled,
    },
    "cuda": {
        "cuda": lambda: torch.version.cuda,
        "cuda.gpu": torch.cuda.get_device_name,
        "cuda.capability": torch.cuda.get_device_capability,
        "cuda.driver": compat.cuda_driver,
        "cuda.cudnn": torch.backends.cudnn.version,
        "cuda.cudnn.tf32": lambda: torch.backends.cudnn.allow_tf32,
        "cuda.cudnn.benchmark": lambda: torch.backends.cudnn.benchmark,
        "cuda.tf32": lambda: torch.backends.cuda.matmul.allow_tf32,
        "cuda.bf16_reduction": lambda: torch.backends.cuda.matmul.allow_bf16_reduced_precision_reduction,
        "cuda.nccl": compat.nccl_version,
    },
}


def environment(devices: Iterable[str]) -> Fingerprint:
    """The items of this process, for a step on these types of device."""
    items = {name: str(read()) for name, read in _ITEMS.items()}
    for device in sorted(set(devices)):
        items.update({name: str(read()) for name, read in _BY_DEVICE.get(device, {}).items()})
    items.update({f"inductor.{name}": value for name, value in compat.inductor_settings().items()})
    return items


def code_digest(file: str) -> str:
    """The digest of a Python file's meaning: comments and layout do not count."""
    try:
        source = Path(file).read_bytes()
    except OSError:
        return MISSING
    try:
        text = ast.dump(ast.parse(source))
    except SyntaxError:
        return hashlib.sha256(source).hexdigest()[:16]
    return hashlib.sha256(text.encode()).hexdigest()[:16]


def code_items(files: Mapping[str, str]) -> dict[str, dict[str, str]]:
    """For each module whose code the step ran, its file and digest, or the version of the package that it is from."""
    items = {}
    packages: Mapping[str, Any] | None = None
    for module, file in sorted(files.items()):
        if is_installed(file):
            packages = packages if packages is not None else importlib.metadata.packages_distributions()
            names = packages.get(module.partition(".")[0], [])
            items.update({f"package {name}": {"version": importlib.metadata.version(name)} for name in names})
        else:
            items[f"code {module}"] = {"file": file, "digest": code_digest(file)}
    return items


def code_now(items: Mapping[str, Mapping[str, str]]) -> Fingerprint:
    """The same items as they are in this process."""
    return {
        name: _version(name) if "version" in item else code_digest(_locate(name, item)) for name, item in items.items()
    }


def _version(name: str) -> str:
    try:
        return importlib.metadata.version(name.removeprefix("package "))
    except importlib.metadata.PackageNotFoundError:
        return MISSING


def _locate(name: str, item: Mapping[str, str]) -> str:
    """The file of a module here: where it is imported from, would be imported from, or was at the build."""
    module = name.removeprefix("code ")
    if module in ("__main__", "__mp_main__", "?"):
        return item["file"]
    loaded = sys.modules.get(module)
    if loaded is not None and getattr(loaded, "__file__", None):
        return str(loaded.__file__)
    try:
        spec = importlib.util.find_spec(module)
    except (ImportError, ValueError, AttributeError):
        spec = None
    return spec.origin if spec is not None and spec.origin else item["file"]


def built_items(manifest: Mapping[str, Any]) -> Fingerprint:
    """The items that an artifact was built with."""
    code = {name: item.get("digest") or item["version"] for name, item in manifest["code"].items()}
    return {**manifest["fingerprint"], **code}


def items_now(manifest: Mapping[str, Any]) -> Fingerprint:
    """The same items in this process."""
    return {**environment(manifest["devices"]), **code_now(manifest["code"])}


def mesh_items(sizes: Mapping[str, int]) -> Fingerprint:
    """An item for each axis of a mesh."""
    return {f"mesh.{name}": str(size) for name, size in sizes.items()}


def compare(built: Mapping[str, str], here: Mapping[str, str], ignore: Iterable[str], rebuild: str) -> None:
    """Raise StaleArtifactError that names each differing item, both values, and the command to build anew."""
    skipped = set(ignore)
    if sizes := sorted(name for name in skipped if name.startswith("mesh.")):
        raise ValueError(
            f"ignore={sizes}: the sizes of the mesh are compiled in and cannot differ; build for this mesh"
        )
    names = [name for name in (*built, *(name for name in here if name not in built)) if name not in skipped]
    different: dict[str, tuple[object, object]] = {
        name: (built.get(name, _absent(name)), here.get(name, _absent(name))) for name in names
        if built.get(name) != here.get(name)
    }  # fmt: skip
    if not different:
        return
    lines = ["the artifact was built for something else:"]
    lines += [f"  {name}: built with {old}, here {new}{_HINTS.get(name, '')}" for name, (old, new) in different.items()]
    lines.append(f"Build it anew: {rebuild}")
    raise StaleArtifactError("\n".join(lines), different)


def _absent(name: str) -> str:
    return "(default)" if name.startswith("inductor.") else "(none)"
