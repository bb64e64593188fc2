"""Run a command and wait for all that it started, whatever it left behind, so that its processor time is counted.

mypy leaves workers that take more than a second to end: nobody waits for them, and their time is counted nowhere.
Linux hands them to this process (``prctl(2)``, ``PR_SET_CHILD_SUBREAPER``); elsewhere they stay uncounted.
"""

from __future__ import annotations

import ctypes
import os
import subprocess
import sys
from typing import Final

PR_SET_CHILD_SUBREAPER: Final = 36


def main(command: list[str]) -> int:
    """Run ``command``; its exit status."""
    if sys.platform == "linux":
        ctypes.CDLL(None).prctl(PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0)
    status = subprocess.call(command)
    try:
        while True:
            os.wait()
    except ChildProcessError:
        return status


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
