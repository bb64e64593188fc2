"""Reports in the formats that people and CI systems read: one function from a report to a text each."""

from __future__ import annotations

import hashlib
import json
import os
import re
import xml.etree.ElementTree as ET
from collections import Counter
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any, Final

import click

from spmd_mypy.cli.diagnostics import Diagnostic, Report, configuration_note, counted, excerpt, scope
from spmd_mypy.cli.sarif import sarif

_UNFINISHED: Final = "mypy did not finish"
_NOT_XML: Final = re.compile("[^\t\n\r\u0020-\ud7ff\ue000-\ufffd\U00010000-\U0010ffff]")


@dataclass(frozen=True, slots=True)
class Style:
    """How ``text`` prints: in colour, with columns."""

    coloured: bool = False
    columns: bool = False


def _notes(d: Diagnostic, report: Report) -> Iterator[str]:
    yield from d.notes
    where = configuration_note(d, report.configurations)
    if where:
        yield where


# ---- text


def text(report: Report, style: Style) -> str:
    """As mypy prints it, and a summary."""

    def paint(part: str, **how: Any) -> str:
        return click.style(part, **how) if style.coloured else part

    lines = list(report.other)
    for d in report.diagnostics:
        where = f"{d.file}:{d.line}:{d.column}" if style.columns else f"{d.file}:{d.line}"
        colour = "red" if d.is_error else "blue"
        code = paint(f"  [{d.code}]", fg="yellow") if d.code and d.is_error else ""
        lines.append(f"{where}: {paint(d.severity + ':', fg=colour, bold=True)} {d.message}{code}")
        lines.extend(f"{where}: {paint('note:', fg='blue')} {note}" for note in _notes(d, report))
    errors, files = counted(report.diagnostics)
    if report.status == 2 and not errors:
        return "".join(line + "\n" for line in lines)
    if errors:
        summary = f"Found {errors} error{'s' * (errors != 1)} in {files} file{'s' * (files != 1)}"
        lines.append(paint(summary, fg="red", bold=True))
    else:
        lines.append(paint("Success: no issues found", fg="green", bold=True))
    return "".join(line + "\n" for line in lines)


# ---- json


def as_json(report: Report, style: Style) -> str:
    """A JSON array with one object per error or note."""
    del style
    rows = [
        {
            "file": d.file,
            "line": d.line,
            "column": d.column,
            "end_line": d.end_line,
            "end_column": d.end_column,
            "severity": d.severity,
            "code": d.code,
            "message": d.message,
            "notes": list(d.notes),
            **({"configurations": list(d.configurations)} if report.configurations else {}),
        }
        for d in report.diagnostics
    ]
    return json.dumps(rows, indent=2) + "\n"


def _below(variable: str, file: str) -> str:
    """A path as a CI system wants it: from the folder that a variable of its names, with forward slashes."""
    top, path = os.environ.get(variable), os.path.abspath(file)
    if top and path.startswith(os.path.join(os.path.abspath(top), "")):
        file = os.path.relpath(path, top)
    return file.replace(os.sep, "/")


# ---- GitHub Actions


def _data(value: str) -> str:
    return value.replace("%", "%25").replace("\r", "%0D").replace("\n", "%0A")


def _property(value: object) -> str:
    return _data(str(value)).replace(":", "%3A").replace(",", "%2C")


def github(report: Report, style: Style) -> str:
    """Workflow commands, which GitHub Actions shows as annotations in a pull request; notes are notices."""
    del style
    lines = []
    if report.status == 2 and not report.errors:
        lines.append(f"::error title=mypy::{_data(chr(10).join(report.other) or _UNFINISHED)}")
    for d in report.diagnostics:
        where = {
            "file": _below("GITHUB_WORKSPACE", d.file),
            "line": d.line,
            "endLine": d.end_line,
            "title": d.code or "mypy",
        }
        if d.column and d.end_line == d.line:  # GitHub takes columns only within one line
            where |= {"col": d.column, "endColumn": d.end_column}
        properties = ",".join(f"{key}={_property(value)}" for key, value in where.items())
        message = _data("\n".join([d.message, *_notes(d, report)]))
        lines.append(f"::{'error' if d.is_error else 'notice'} {properties}::{message}")
    return "".join(line + "\n" for line in lines)


# ---- GitLab


def gitlab(report: Report, style: Style) -> str:
    """GitLab's code quality report: fingerprints stay the same when lines move; notes are no findings."""
    del style
    seen: Counter[str] = Counter()
    rows = []
    for d in report.errors:
        key = "\0".join([d.file, d.code or "", d.message, excerpt(d), scope(d)])
        seen[key] += 1
        fingerprint = hashlib.sha256(f"{key}\0{seen[key]}".encode()).hexdigest()
        rows.append(
            {
                "description": "\n".join([d.message, *_notes(d, report)]),
                "check_name": d.code or "mypy",
                "fingerprint": fingerprint,
                "severity": "major",
                "location": {
                    "path": _below("CI_PROJECT_DIR", d.file),
                    "lines": {"begin": max(d.line, 1), "end": max(d.end_line, 1)},
                },
            }
        )
    return json.dumps(rows, indent=2) + "\n"


# ---- JUnit


def _xml_text(value: str) -> str:
    """With a mark for each character that XML 1.0 cannot hold (section 2.2), such as the halves of a surrogate."""
    return _NOT_XML.sub("\N{REPLACEMENT CHARACTER}", value)


def junit(report: Report, style: Style) -> str:
    """JUnit XML: one failed test per error, or one that passed where there is none; notes are output."""
    del style
    errors = report.errors
    failed = len(errors)
    broken = int(report.status == 2 and not errors)
    attributes = {"name": "spmd check", "tests": str(max(failed, 1)), "failures": str(failed), "errors": str(broken)}
    root = ET.Element("testsuites")
    suite = ET.SubElement(root, "testsuite", {**attributes, "skipped": "0", "time": "0"})
    for d in errors:
        file = _xml_text(d.file)
        place = {"classname": file, "name": f"line {d.line}", "file": file, "line": str(d.line), "time": "0"}
        case = ET.SubElement(suite, "testcase", place)
        failure = ET.SubElement(case, "failure", {"message": _xml_text(d.message), "type": d.code or "mypy"})
        failure.text = _xml_text("\n".join([f"{d.file}:{d.line}: {d.message}", *_notes(d, report)]))
    if not errors:
        case = ET.SubElement(suite, "testcase", {"classname": "mypy", "name": "spmd check", "time": "0"})
        if broken:
            ET.SubElement(case, "error", {"message": _UNFINISHED}).text = _xml_text("\n".join(report.other))
    if report.remarks:
        remarks = [f"{d.file}:{d.line}: note: {d.message}" for d in report.remarks]
        ET.SubElement(suite, "system-out").text = _xml_text("\n".join(remarks))
    ET.indent(root)
    return '<?xml version="1.0" encoding="utf-8"?>\n' + ET.tostring(root, encoding="unicode") + "\n"


def _sarif(report: Report, style: Style) -> str:
    del style
    return json.dumps(sarif(report), indent=2) + "\n"


FORMATS: Final[dict[str, Callable[[Report, Style], str]]] = {
    "text": text,
    "json": as_json,
    "github": github,
    "sarif": _sarif,
    "gitlab": gitlab,
    "junit": junit,
}
