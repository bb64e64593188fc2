"""An artifact's directory: written beside and renamed, authenticated and checked before anything in it is used.

    manifest.json    what is in the artifact, with the SHA-256 of every other file
    manifest.mac     HMAC-SHA256 of manifest.json, where the builder had a key
    VARIANT/step.bin, VARIANT/graph.txt
    kernels/*.so     machine code by the digest of its source

``step.bin`` is a pickle and ``*.so`` is machine code: whoever can write them can run anything.  So they are not looked
at before the manifest is authentic and their digests are right, and what is used is a private copy of the very bytes
that were checked.
"""

from __future__ import annotations

import contextlib
import ctypes
import hashlib
import hmac
import json
import os
import shutil
import socket
import uuid
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any, Final

from spmd_runtime.precompile import scratch
from spmd_runtime.precompile.errors import BrokenArtifactError, PrecompileError, UntrustedArtifactError

FORMAT: Final = 2
MANIFEST, MAC = "manifest.json", "manifest.mac"
_KEYS: Final = ("mesh", "variants", "devices", "fingerprint", "code", "command", "files")
KEY_VARIABLE: Final = "SPMD_ARTIFACT_KEY"
SHORTEST_KEY: Final = 16
_ATTEMPTS: Final = 20
_EXCHANGE: Final = 2  # RENAME_EXCHANGE
_AT_FDCWD: Final = -100


def find_key(key_file: str | os.PathLike[str] | None) -> bytes | None:
    """The key in ``key_file``, else in $SPMD_ARTIFACT_KEY, else None; raises PrecompileError for one too short."""
    if key_file is not None:
        try:
            key, source = Path(key_file).read_bytes().strip(), str(key_file)
        except OSError as error:
            raise PrecompileError(f"the key file cannot be read: {error}") from error
    elif KEY_VARIABLE in os.environ:
        key, source = os.environ[KEY_VARIABLE].encode(), f"${KEY_VARIABLE}"
    else:
        return None
    if len(key) < SHORTEST_KEY:
        raise PrecompileError(
            f"the key in {source} has {len(key)} bytes, at least {SHORTEST_KEY} are needed; make one: "
            "python -c 'import secrets; print(secrets.token_hex(32))'"
        )
    return key


def digest(data: bytes) -> str:
    return hashlib.sha256(data).hexdigest()


@contextlib.contextmanager
def building(out: Path) -> Iterator[Path]:
    """A directory beside ``out`` to build in; removed unless :func:`publish` has moved it."""
    out.parent.mkdir(parents=True, exist_ok=True)
    _remove_abandoned(out)
    folder = out.parent / f".{out.name}.building-{socket.gethostname()}-{os.getpid()}-{uuid.uuid4().hex[:8]}"
    folder.mkdir(mode=0o755)
    try:
        yield folder
    finally:
        shutil.rmtree(folder, ignore_errors=True)


def _remove_abandoned(out: Path) -> None:
    """Remove what killed builds of this machine have left."""
    prefix = f".{out.name}.building-{socket.gethostname()}-"
    for folder in out.parent.glob(f"{prefix}*"):
        pid = folder.name.removeprefix(prefix).partition("-")[0]
        if pid.isdigit() and not Path(f"/proc/{pid}").exists() and Path("/proc/self").exists():
            shutil.rmtree(folder, ignore_errors=True)


def check_target(out: Path) -> None:
    """Raise PrecompileError where ``out`` is something that a build must not replace."""
    if out.is_symlink() or (out.exists() and not out.is_dir()):
        raise PrecompileError(f"{out} is no directory; give another out=")
    if out.is_dir() and any(out.iterdir()) and not (out / MANIFEST).exists():
        raise PrecompileError(
            f"{out} holds something other than an artifact, which a build would replace; give another out="
        )


def publish(folder: Path, out: Path, manifest: Mapping[str, Any], key: bytes | None) -> str:
    """Write the manifest over all files in ``folder``, move it to ``out`` in one step; gives the manifest's digest."""
    files = {}
    for path in sorted(folder.rglob("*")):
        if path.is_file():
            data = path.read_bytes()
            files[path.relative_to(folder).as_posix()] = {"sha256": digest(data), "size": len(data)}
            _flush(path)
    text = json.dumps({"format": FORMAT, **manifest, "files": files}, indent=1, sort_keys=True).encode()
    if key is not None:
        (folder / MAC).write_text(hmac.new(key, text, "sha256").hexdigest() + "\n")
    (folder / MANIFEST).write_bytes(text)
    _flush(folder / MANIFEST)
    _replace(folder, out)
    return digest(text)


def _flush(path: Path) -> None:
    with open(path, "rb") as file:
        os.fsync(file.fileno())


def _replace(folder: Path, out: Path) -> None:
    """Put ``folder`` at ``out``: where there is one already, exchange the two, so that there is always one."""
    while True:
        try:
            os.rename(folder, out)
            return
        except OSError:
            if not out.is_dir():
                raise
        if _exchange(folder, out):
            return
        old = folder.with_name(folder.name + "-old")
        os.rename(out, old)
        shutil.rmtree(old, ignore_errors=True)


def _exchange(a: Path, b: Path) -> bool:
    """Linux's atomic exchange of two names; False where the system or the file system has none."""
    libc = ctypes.CDLL(None, use_errno=True)
    if not hasattr(libc, "renameat2"):
        return False
    return bool(libc.renameat2(_AT_FDCWD, os.fsencode(a), _AT_FDCWD, os.fsencode(b), _EXCHANGE) == 0)


class Opened:
    """An artifact whose manifest has been read and authenticated: ``manifest``, ``digest``, and files on demand."""

    def __init__(self, folder: Path, key: bytes | None, trust: str | None) -> None:
        self.folder = folder
        if not folder.is_dir():
            raise BrokenArtifactError(f"there is no artifact at {folder}")
        self._fd = os.open(folder, os.O_RDONLY | os.O_DIRECTORY)
        try:
            text = self._read(MANIFEST)
            _authenticate(text, self._read_mac(), key, trust, folder)
            self.digest = digest(text)
            self.manifest = parse(text, folder)
        except BaseException:
            self.close()
            raise

    def close(self) -> None:
        os.close(self._fd)

    def _read(self, name: str) -> bytes:
        """A file of this very directory, also if another one is moved to its place meanwhile."""
        try:
            with open(os.open(name, os.O_RDONLY | os.O_NOFOLLOW, dir_fd=self._fd), "rb") as file:
                return file.read()
        except OSError as error:
            raise BrokenArtifactError(f"{self.folder / name} cannot be read: {error.strerror}") from error

    def _read_mac(self) -> bytes | None:
        try:
            return self._read(MAC).strip()
        except BrokenArtifactError:
            return None

    def read(self, name: str) -> bytes:
        """The bytes of a file, which are what the manifest says they are."""
        entry = self.manifest["files"].get(name)
        if entry is None:
            raise BrokenArtifactError(f"{self.folder}: the manifest has no file {name}")
        data = self._read(name)
        if len(data) != entry["size"]:
            raise BrokenArtifactError(f"{self.folder / name} has {len(data)} bytes, not {entry['size']}; build it anew")
        if digest(data) != entry["sha256"]:
            raise BrokenArtifactError(f"{self.folder / name} has been changed since it was built; build it anew")
        return data

    def copy_to(self, target: Path) -> None:
        """Check every file and write the bytes that were checked below ``target``."""
        for name in self.manifest["files"]:
            data = self.read(name)
            path = target / name
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_bytes(data)


def _authenticate(text: bytes, mac: bytes | None, key: bytes | None, trust: str | None, folder: Path) -> None:
    if trust not in (None, "directory"):
        raise ValueError(f'trust is "directory" or nothing, not {trust!r}')
    if key is None:
        if trust == "directory":
            return
        raise UntrustedArtifactError(
            f"{folder} cannot be authenticated: there is no key (${KEY_VARIABLE}, or key_file=). Loading it runs "
            "machine code and unpickles, so whoever can write into that directory can run anything here. Give the key "
            'that it was built with, or, if only people you trust can write there, say so: trust="directory"'
        )
    if mac is None:
        raise BrokenArtifactError(
            f"{folder} was built without a key ({MAC} is missing); build it anew with ${KEY_VARIABLE} set"
        )
    if not hmac.compare_digest(hmac.new(key, text, "sha256").hexdigest().encode(), mac):
        raise BrokenArtifactError(f"{folder / MANIFEST} is not authentic: it was changed, or built with another key")


def parse(text: bytes, folder: Path) -> dict[str, Any]:
    """A manifest's content; raises BrokenArtifactError where it is none that a build has written."""
    try:
        manifest: dict[str, Any] = json.loads(text)
        found = manifest["format"]
        if found != FORMAT:
            raise BrokenArtifactError(f"{folder} has format {found}, this version reads {FORMAT}; build it anew")
        files, needed = manifest["files"], _needed(manifest["variants"])
        absent = [name for name in _KEYS if name not in manifest] + [name for name in needed if name not in files]
        outside = [name for name in files if name.startswith("/") or ".." in name.split("/")]
    except (ValueError, KeyError, TypeError, AttributeError) as error:
        raise BrokenArtifactError(f"{folder / MANIFEST} is damaged ({error!r}); build it anew") from error
    if outside:
        raise BrokenArtifactError(f"{folder / MANIFEST} names files outside the artifact: {outside}")
    if absent:
        raise BrokenArtifactError(f"{folder / MANIFEST} is damaged (it lacks {', '.join(absent)}); build it anew")
    return manifest


def _needed(variants: Mapping[str, Any]) -> list[str]:
    """The files that variants are made of."""
    steps = [f"{name}/step.bin" for name in variants]
    return [*steps, *(f"kernels/{key}.so" for entry in variants.values() for key in entry["kernels"])]


def open_artifact(folder: Path, key: bytes | None, trust: str | None) -> Opened:
    """The artifact at ``folder``, authenticated; raises BrokenArtifactError or UntrustedArtifactError."""
    return Opened(folder, key, trust)


def private_copy(folder: Path, key: bytes | None, trust: str | None) -> tuple[dict[str, Any], str, Path]:
    """Manifest, digest and a fresh directory, readable by this user alone, with checked copies of all files.

    Where a build replaces the artifact meanwhile, the new one is taken.
    """
    for attempt in range(_ATTEMPTS):
        before = _identity(folder)
        target = scratch.make("spmd-step-")
        try:
            with contextlib.closing(open_artifact(folder, key, trust)) as opened:
                opened.copy_to(target)
                return opened.manifest, opened.digest, target
        except BaseException as error:
            scratch.drop(target)
            replaced = isinstance(error, BrokenArtifactError) and _identity(folder) != before
            if not replaced or attempt + 1 == _ATTEMPTS:
                raise
    raise AssertionError("unreachable")


def _identity(folder: Path) -> tuple[int, ...] | None:
    """What tells one artifact at this path from the next; the number of a removed directory is given out again."""
    try:
        found = os.stat(folder)
    except OSError:
        return None
    return found.st_dev, found.st_ino, found.st_mtime_ns, found.st_ctime_ns
