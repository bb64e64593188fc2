"""Run a function on several gloo ranks, fast and never for ever.

    results = run(function, 2, argument, timeout=30)

calls ``function(argument)`` in two processes in which ``torch.distributed`` is initialised (gloo, world size 2) and
gives the list of what the ranks returned.  ``function`` is a function at the top of an importable module; arguments and
results are pickled.  Where a rank raises, :class:`RanksFailed` shows each rank's traceback; where the time is over, the
stacks at which the ranks stand; then the processes are killed.

The processes are forked from a server that has torch imported, and are used again by the next call: a call costs some
ten milliseconds.
"""

from __future__ import annotations

import atexit
import contextlib
import datetime
import faulthandler
import importlib
import multiprocessing
import os
import signal
import tempfile
import time
import traceback
from collections.abc import Callable, Iterator
from multiprocessing import connection
from pathlib import Path
from typing import Any

MAX_RANKS = 4
GRACE = 3.0  # seconds that the other ranks get once one has failed


class RanksFailed(AssertionError):
    """A rank raised, died or did not end in time; ``errors`` has the text per rank."""

    def __init__(self, function: str, errors: dict[int, str]) -> None:
        self.errors = errors
        super().__init__(f"{function} failed:\n" + "\n".join(f"--- rank {r}:\n{text}" for r, text in errors.items()))


def run(function: Callable[..., Any], ranks: int, *args: Any, timeout: float = 60, backend: str = "gloo") -> list[Any]:
    """``function(*args)`` on ``ranks`` ranks; the list of their results.

    ``backend=""`` leaves ``torch.distributed`` uninitialised.  Raises :class:`RanksFailed`.
    """
    if not 1 <= ranks <= MAX_RANKS:
        raise ValueError(f"1 to {MAX_RANKS} ranks, not {ranks}")
    return _pool().run(function, ranks, args, timeout, backend)


class _Worker:
    """One process that takes calls from a pipe."""

    def __init__(self, context: Any) -> None:
        self.pipe, theirs = context.Pipe()
        self.stacks = Path(tempfile.mkstemp(prefix="stacks-")[1])
        self.process = context.Process(target=_work, args=(theirs, str(self.stacks)), daemon=True)
        self.process.start()
        theirs.close()

    def where(self) -> str:
        """The stacks at which the process stands."""
        if self.process.pid is None or not self.process.is_alive():
            return f"the process has ended with exit code {self.process.exitcode}"
        os.kill(self.process.pid, signal.SIGUSR1)
        time.sleep(0.3)
        return "still running after the time was over, at\n" + self.stacks.read_text()

    def kill(self) -> None:
        """End the process, whatever it does."""
        self.process.kill()
        self.process.join(10)
        self.pipe.close()
        self.stacks.unlink(missing_ok=True)


class _Pool:
    def __init__(self) -> None:
        self.context = multiprocessing.get_context("forkserver")
        self.context.set_forkserver_preload(["torch.distributed", "spmd_runtime"])
        self.workers: list[_Worker] = []

    def run(self, function: Callable[..., Any], ranks: int, args: Any, timeout: float, backend: str) -> list[Any]:
        while len(self.workers) < ranks:
            self.workers.append(_Worker(self.context))
        workers = self.workers[:ranks]
        with tempfile.TemporaryDirectory(prefix="store-") as folder:
            for rank, worker in enumerate(workers):
                call = (function.__module__, function.__qualname__, args)
                worker.pipe.send((call, rank, ranks, backend, f"{folder}/store", timeout))
            results, errors = _collect(workers, time.monotonic() + timeout)
            if errors:
                for rank in set(range(ranks)) - set(results) - set(errors):
                    errors[rank] = workers[rank].where()
                self.close()
        if errors:
            raise RanksFailed(function.__qualname__, dict(sorted(errors.items())))
        return [results[rank] for rank in range(ranks)]

    def close(self) -> None:
        """Kill all processes; the next call starts new ones."""
        for worker in self.workers:
            worker.kill()
        self.workers = []


def _collect(workers: list[_Worker], deadline: float) -> tuple[dict[int, Any], dict[int, str]]:
    """What the ranks answer until the deadline, which comes nearer when one fails."""
    results: dict[int, Any] = {}
    errors: dict[int, str] = {}
    waiting = {worker.pipe: rank for rank, worker in enumerate(workers)}
    while waiting:
        ready = connection.wait(list(waiting), max(0.0, deadline - time.monotonic()))
        if not ready:
            errors.update({rank: workers[rank].where() for rank in waiting.values()})
            break
        for pipe in ready:
            rank = waiting.pop(pipe)  # type: ignore[call-overload]
            try:
                ok, answer = workers[rank].pipe.recv()
            except (EOFError, ConnectionError):
                workers[rank].process.join(1)
                ok, answer = False, f"the process died with exit code {workers[rank].process.exitcode}"
            (results if ok else errors)[rank] = answer
            if not ok:
                deadline = min(deadline, time.monotonic() + GRACE)
    return results, errors


def _work(pipe: Any, stacks: str) -> None:
    """The loop of a worker process."""
    import torch  # noqa: PLC0415

    torch.set_num_threads(1)
    with open(stacks, "w") as file:
        faulthandler.register(signal.SIGUSR1, file=file, all_threads=True)
        while True:
            try:
                call, rank, ranks, backend, store, timeout = pipe.recv()
            except EOFError:
                return
            try:
                module, name, args = call
                with _world(backend, store, rank, ranks, timeout):
                    answer = True, _function(module, name)(*args)
            except BaseException:
                answer = False, traceback.format_exc()
            pipe.send(answer)


@contextlib.contextmanager
def _world(backend: str, store: str, rank: int, ranks: int, timeout: float) -> Iterator[None]:
    """``torch.distributed``, initialised."""
    import torch.distributed as dist  # noqa: PLC0415

    if backend:
        where, limit = f"file://{store}", datetime.timedelta(seconds=timeout)
        dist.init_process_group(backend, init_method=where, rank=rank, world_size=ranks, timeout=limit)
        dist.barrier()  # a rank that is done at once must not leave while another still connects to it
    try:
        yield
    finally:
        if dist.is_initialized():
            dist.destroy_process_group()


def _function(module: str, name: str) -> Any:
    found: Any = importlib.import_module(module)
    for part in name.split("."):
        found = getattr(found, part)
    return found


_the_pool: _Pool | None = None


def _pool() -> _Pool:
    global _the_pool  # noqa: PLW0603
    if _the_pool is None:
        _the_pool = _Pool()
        atexit.register(_the_pool.close)
    return _the_pool
