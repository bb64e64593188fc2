"""What the plugin costs in an editor: dmypy's re-check after a one-line edit, with it against without it.

    python benchmarks/daemon.py --modules 200 --edits 9 --record

On the project that ``generated.py`` writes.  Each edit changes one line in another module and asks the daemon to
check again; the figure is the median over the edits, as processor time of the daemon (the machine is shared, so that
wall time says little) and as wall time.  ``--record`` keeps the table in ``benchmarks/results/daemon.md``.
"""

from __future__ import annotations

import argparse
import json
import os
import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import Final

ROOT: Final = Path(__file__).resolve().parent.parent
sys.path.insert(0, str(ROOT))

from benchmarks.generated import write_project  # noqa: E402
from benchmarks.mypy_speed import CONFIG  # noqa: E402

LIMIT: Final = 0.5  # seconds beyond what mypy alone takes
EDITED: Final = "        return F.rms_norm(x, self.weight.shape, self.weight, self.eps)\n"


class Daemon:
    """dmypy over a project folder, in a status file of its own."""

    def __init__(self, folder: Path, plugin: bool) -> None:
        self.folder = folder
        config = folder / f"config_{plugin}.toml"
        config.write_text(CONFIG.format(plugin='plugins = ["spmd_mypy.plugin"]' if plugin else ""))
        self.status = folder / f"status_{plugin}.json"
        cache = folder / f"cache_{plugin}"
        self._call("start", "--", "--config-file", str(config), "--cache-dir", str(cache))
        self._call("check", "project")
        self.pid = int(json.loads(self.status.read_text())["pid"])

    def _call(self, *arguments: str) -> str:
        command = [sys.executable, "-m", "mypy.dmypy", "--status-file", str(self.status), *arguments]
        environment = {**os.environ, "PYTHONPATH": str(ROOT), "MYPYPATH": str(ROOT)}
        done = subprocess.run(
            command, cwd=self.folder, env=environment, capture_output=True, text=True, timeout=900, check=False
        )
        if done.returncode not in (0, 1):
            raise RuntimeError(done.stdout + done.stderr)
        return done.stdout

    def _cpu(self) -> float:
        fields = Path(f"/proc/{self.pid}/stat").read_text().rpartition(")")[2].split()
        return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")

    def recheck(self) -> tuple[float, float]:
        """Processor and wall seconds of a check after an edit."""
        cpu, wall = self._cpu(), time.perf_counter()
        self._call("recheck")
        return self._cpu() - cpu, time.perf_counter() - wall

    def stop(self) -> None:
        """End the daemon."""
        self._call("kill")


def measure(folder: Path, modules: int, edits: int) -> dict[bool, list[tuple[float, float]]]:
    """(processor, wall) seconds of each re-check, without and with the plugin, in turn."""
    times: dict[bool, list[tuple[float, float]]] = {False: [], True: []}
    daemons: dict[bool, Daemon] = {}
    try:
        for plugin in times:
            daemons[plugin] = Daemon(folder, plugin)
        for number in range(edits):
            file = folder / "project" / f"m{(number * 37) % modules}.py"
            before = file.read_text()
            if EDITED not in before:
                raise RuntimeError(f"{file.name} has no line {EDITED.strip()!r} to edit")
            file.write_text(before.replace(EDITED, f"        x = x * {number + 2}\n" + EDITED, 1))
            time.sleep(1.1)  # dmypy compares whole seconds
            for plugin, daemon in daemons.items():
                times[plugin].append(daemon.recheck())
    finally:
        for daemon in daemons.values():
            daemon.stop()
    return times


def main() -> int:
    """Measure, print, and fail beyond the limit."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--modules", type=int, default=200)
    parser.add_argument("--edits", type=int, default=9)
    parser.add_argument("--record", action="store_true")
    args = parser.parse_args()
    with tempfile.TemporaryDirectory(prefix="spmd-daemon-") as folder:
        write_project(Path(folder), args.modules)
        times = measure(Path(folder), args.modules, args.edits)
    rows = ["| dmypy, re-check after a one-line edit | processor s | wall s |", "|---|---|---|"]
    median = {k: [statistics.median(column) for column in zip(*v, strict=True)] for k, v in times.items()}
    for plugin, name in ((False, "without the plugin"), (True, "with the plugin")):
        rows.append(f"| {name} | {median[plugin][0]:.2f} | {median[plugin][1]:.2f} |")
    extra = median[True][0] - median[False][0]
    rows.append(f"| difference (limit {LIMIT}) | {extra:.2f} | {median[True][1] - median[False][1]:.2f} |")
    command = f"python benchmarks/daemon.py --modules {args.modules} --edits {args.edits} --record"
    head = f"{args.modules} modules, median of {args.edits} edits; made by `{command}`.\n\n"
    text = head + "\n".join(rows) + "\n"
    print(text)
    if args.record:
        (ROOT / "benchmarks/results").mkdir(exist_ok=True)
        (ROOT / "benchmarks/results/daemon.md").write_text(text)
    return int(extra > LIMIT)


if __name__ == "__main__":
    sys.exit(main())
