"""Names of torch's callables in a wheel, read from its stubs without installing it.

    python -m tests.rules.versions torch-2.9.0-*.whl [...]

Prints, for each wheel, the names that only it or only the installed torch has, and those that the table does not know.
"""

from __future__ import annotations

import ast
import sys
import zipfile
from collections.abc import Iterable, Iterator

from spmd_mypy.rules import ops
from tests.rules import signatures, surface

# Where names are defined, and the prefix under which users know them.
SOURCES = (
    ("torch/_C/_VariableFunctions.pyi", "", "torch."),
    ("torch/functional.py", "", "torch."),
    ("torch/_C/__init__.pyi", "TensorBase", "Tensor."),
    ("torch/_tensor.py", "Tensor", "Tensor."),
    ("torch/nn/functional.pyi", "", "torch.nn.functional."),
    ("torch/nn/functional.py", "", "torch.nn.functional."),
    ("torch/linalg/__init__.py", "", "torch.linalg."),
    ("torch/fft/__init__.py", "", "torch.fft."),
    ("torch/special/__init__.py", "", "torch.special."),
    ("torch/nn/init.py", "", "torch.nn.init."),
    ("torch/nn/utils/clip_grad.py", "", "torch.nn.utils."),
    ("torch/nn/modules/__init__.py", "", "torch.nn."),
)


NOT_CALLED = frozenset(f"torch.nn.{name}" for name in surface.CONTAINERS | {"LinearCrossEntropyOptions"})


def _defined(source: str, klass: str) -> Iterator[str]:
    """Public functions, and public names bound to something, of a module or class."""
    body: list[ast.stmt] = ast.parse(source).body
    if klass:
        body = next(node.body for node in body if isinstance(node, ast.ClassDef) and node.name == klass)
    for node in body:
        if isinstance(node, ast.FunctionDef):
            yield node.name
        elif isinstance(node, ast.Assign) and isinstance(node.value, ast.Call):
            yield from (target.id for target in node.targets if isinstance(target, ast.Name))


def _exported(source: str) -> Iterator[str]:
    """The names in ``__all__``."""
    for node in ast.parse(source).body:
        if isinstance(node, ast.Assign) and ast.unparse(node.targets[0]) == "__all__":
            yield from ast.literal_eval(node.value)


def names(read: Iterable[tuple[str, str, str]]) -> set[str]:
    """Callables by the name that users know, from (text, class, prefix) of files."""
    found: set[str] = set()
    for source, klass, prefix in read:
        listed = _exported(source) if prefix == "torch.nn." else _defined(source, klass)
        found |= {prefix + name for name in listed if not name.startswith("_") or name.startswith("_foreach_")}
    return found


def in_wheel(path: str) -> set[str]:
    """The callables of the torch in a wheel."""
    with zipfile.ZipFile(path) as wheel:
        files = set(wheel.namelist())
        return names((wheel.read(file).decode(), klass, prefix) for file, klass, prefix in SOURCES if file in files)


def installed() -> set[str]:
    """The callables of the installed torch."""
    folder = signatures.torch_folder().parent
    return names(
        ((folder / file).read_text(), klass, prefix) for file, klass, prefix in SOURCES if (folder / file).exists()
    )


def main() -> int:
    here, unknown_anywhere = installed(), False
    for path in sys.argv[1:]:
        there = in_wheel(path)
        unknown = sorted(name for name in there - NOT_CALLED if not ops.known(name))
        unknown_anywhere |= bool(unknown)
        sys.stdout.write(f"{path}: {len(there)} names\n")
        sys.stdout.write(f"  only there: {' '.join(sorted(there - here))}\n")
        sys.stdout.write(f"  only here: {' '.join(sorted(here - there))}\n")
        sys.stdout.write(f"  unknown to the table: {' '.join(unknown)}\n")
    return unknown_anywhere


if __name__ == "__main__":
    sys.exit(main())
