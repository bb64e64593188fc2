"""mypy over the example and all its mutated copies, in one run."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from tests import mypy_runner
from tests.examples import mutations

TIMEOUT = 400.0


@dataclass(frozen=True)
class Report:
    """An error of mypy: line, code and message."""

    line: int
    code: str
    message: str


def module_name(mutation: mutations.Mutation) -> str:
    """The mutated file's name as a module of its own in the package, beside the example's files."""
    return f"{mutation.file.removesuffix('.py')}__{mutation.id.replace('-', '_')}"


def check_all(folder: Path) -> dict[str, list[Report]]:
    """Errors by mutation id; those of the unchanged example under "".

    Only the mutated file is copied: it imports the example's other file unchanged.  Everything in the example is
    annotated at the boundaries, so a mistake cannot show across files.
    """
    files = {f"llama/{name}": (mutations.LLAMA / name).read_text() for name in mutations.SOURCES}
    owner = dict.fromkeys(files, "")
    for mutation in mutations.read():
        name = f"llama/{module_name(mutation)}.py"
        files[name] = mutation.apply(files[f"llama/{mutation.file}"])
        owner[name] = mutation.id
    config = (mutations.LLAMA.parent / "pyproject.toml").read_text()
    project = mypy_runner.Project(folder, config)
    result = project.check(*project.write(files), timeout=TIMEOUT)
    reports: dict[str, list[Report]] = {id_: [] for id_ in owner.values()}
    for error in result.errors:
        reports[owner[error.file]].append(Report(error.line, error.code, error.message))
    return reports
