"""SARIF 2.1.0, which GitHub code scanning and most viewers read.

The shape follows the OASIS standard "Static Analysis Results Interchange Format"; the tests hold it against the
standard's JSON schema.
"""

from __future__ import annotations

import hashlib
from collections import Counter
from pathlib import Path
from typing import Any, Final
from urllib.parse import quote

from spmd_mypy import __version__, codes
from spmd_mypy.cli import pages
from spmd_mypy.cli.diagnostics import Diagnostic, Report, configuration_note, excerpt, scope

SCHEMA: Final = "https://docs.oasis-open.org/sarif/sarif/v2.1.0/errata01/os/schemas/sarif-schema-2.1.0.json"


def sarif(report: Report) -> dict[str, Any]:
    """A SARIF log with one run: errors are results, and notes, which ask nothing of anybody, notifications."""
    rules = sorted({_rule_id(d) for d in report.errors})
    index = {rule: i for i, rule in enumerate(rules)}
    driver = {
        "name": "spmd",
        "version": __version__,
        "semanticVersion": __version__,
        "rules": [_rule(rule) for rule in rules],
    }
    invocation: dict[str, Any] = {"executionSuccessful": report.status != 2, "exitCode": report.status}
    level = "error" if report.status == 2 else "note"
    notifications: list[dict[str, Any]] = [{"level": level, "message": {"text": line}} for line in report.other]
    notifications += [
        {"level": "note", "message": {"text": d.message}, "locations": [_location(d)]} for d in report.remarks
    ]
    if notifications:
        invocation["toolExecutionNotifications"] = notifications
    seen: Counter[str] = Counter()
    run = {
        "tool": {"driver": driver},
        "invocations": [invocation],
        "columnKind": "unicodeCodePoints",
        "originalUriBaseIds": {"SRCROOT": {"uri": Path.cwd().as_uri() + "/"}},
        "results": [_result(d, report, index, seen) for d in report.errors],
    }
    return {"$schema": SCHEMA, "version": "2.1.0", "runs": [run]}


def _rule_id(d: Diagnostic) -> str:
    return d.code or "mypy"


def _rule(rule: str) -> dict[str, Any]:
    """A rule's metadata: for the plugin's codes the page that ``spmd explain`` prints."""
    ours = {code.code: code.description for code in (codes.SPMD, *codes.ALL)}
    entry: dict[str, Any] = {"id": rule, "name": rule, "shortDescription": {"text": ours.get(rule) or _mypys(rule)}}
    page = pages.find(rule)
    if rule in ours and page is not None:
        entry["fullDescription"] = {"text": page.summary}
        entry["help"] = {"text": page.text, "markdown": page.text}
    entry["properties"] = {"tags": ["spmd" if rule in ours else "mypy", "correctness"]}
    return entry


def _mypys(rule: str) -> str:
    from mypy.errorcodes import error_codes  # noqa: PLC0415

    found = error_codes.get(rule)
    return found.description if found is not None else "An error of mypy's"


def _uri(file: str) -> dict[str, str]:
    path = Path(file)
    if path.is_absolute():
        return {"uri": path.as_uri()}
    return {"uri": quote(path.as_posix()), "uriBaseId": "SRCROOT"}


def _location(d: Diagnostic) -> dict[str, Any]:
    return {"physicalLocation": {"artifactLocation": _uri(d.file), "region": _region(d)}}


def _region(d: Diagnostic) -> dict[str, int]:
    region = {"startLine": max(d.line, 1), "endLine": max(d.end_line, d.line, 1)}
    if d.column:
        region["startColumn"] = d.column
        region["endColumn"] = max(d.end_column + 1, 1)  # SARIF's end is behind the last character
        if region["endLine"] == region["startLine"]:
            region["endColumn"] = max(region["endColumn"], region["startColumn"])
    return region


def _result(d: Diagnostic, report: Report, index: dict[str, int], seen: Counter[str]) -> dict[str, Any]:
    key = "\0".join([d.file, _rule_id(d), d.message, excerpt(d), scope(d)])
    seen[key] += 1
    where = configuration_note(d, report.configurations)
    result: dict[str, Any] = {
        "ruleId": _rule_id(d),
        "ruleIndex": index[_rule_id(d)],
        "level": "error",
        "message": {"text": "\n".join([d.message, *d.notes, *([where] if where else [])])},
        "locations": [_location(d)],
        "partialFingerprints": {"spmd/v1": hashlib.sha256(f"{key}\0{seen[key]}".encode()).hexdigest()},
    }
    if d.configurations:
        result["properties"] = {"configurations": list(d.configurations)}
    return result
