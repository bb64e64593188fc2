"""The one-line mistakes of ``mutations.toml``, and copies of the example with one of them."""

from __future__ import annotations

import sys
from dataclasses import dataclass
from pathlib import Path
from typing import Final

if sys.version_info >= (3, 11):
    import tomllib
else:
    import tomli as tomllib

LLAMA: Final = Path(__file__).resolve().parents[2] / "examples" / "llama"
SOURCES: Final = ("__init__.py", "model.py", "step.py")

# A mutated line may use names that the file has no use for; they are imported on a line that is there already, so that
# line numbers stay.
_FUTURE: Final = "from __future__ import annotations\n"
_IMPORTS: Final = "from __future__ import annotations; from spmd_runtime import DP, S, reduce_scatter\n"


@dataclass(frozen=True)
class Mutation:
    """One mistake; the fields are those of ``mutations.toml``, ``miss`` is "" where mypy is to report it."""

    id: str
    file: str
    model: str
    mistake: str
    old: str
    new: str
    miss: str = ""

    @property
    def models(self) -> tuple[str, ...]:
        """The models that show the mistake."""
        return ("tp", "sp") if self.model == "both" else (self.model,)

    def line(self, text: str) -> int:
        """The number of the mutated line in ``text``; ValueError if the old line is not there exactly once."""
        found = [number for number, line in enumerate(text.splitlines(), 1) if line.strip() == self.old]
        if len(found) != 1:
            raise ValueError(f"{self.id}: {len(found)} lines of {self.file} read {self.old!r}, not one")
        return found[0]

    def apply(self, text: str) -> str:
        """The file's text with the mistake in it."""
        lines = text.splitlines(keepends=True)
        at = self.line(text) - 1
        lines[at] = lines[at].replace(self.old, self.new)
        return "".join(lines).replace(_FUTURE, _IMPORTS, 1)


def read() -> list[Mutation]:
    """All mutations, in the order of the file."""
    data = tomllib.loads(Path(__file__).with_name("mutations.toml").read_text())
    return [Mutation(**row) for row in data["mutation"]]


def write_copy(folder: Path, mutation: Mutation) -> Path:
    """A copy of the example with the mistake, as the package ``llama`` in the folder that is returned."""
    copy = folder / mutation.id
    (copy / "llama").mkdir(parents=True)
    for name in SOURCES:
        text = (LLAMA / name).read_text()
        (copy / "llama" / name).write_text(mutation.apply(text) if name == mutation.file else text)
    return copy
