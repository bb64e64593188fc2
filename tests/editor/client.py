"""A language client, as small as will do: starts python-lsp-server and speaks JSON-RPC with it."""

from __future__ import annotations

import json
import os
import queue
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Mapping
from pathlib import Path
from types import TracebackType
from typing import Any

Message = dict[str, Any]
QUIET = ("pycodestyle", "pyflakes", "mccabe", "autopep8", "yapf", "jedi_completion", "rope_completion")


class Client:
    """``python-lsp-server`` over a project folder, with ``pylsp-mypy`` set as an editor would set it."""

    def __init__(self, folder: Path, mypy: Mapping[str, object], environment: Mapping[str, str]) -> None:
        self.folder = folder
        self.settings = {name: {"enabled": False} for name in QUIET} | {"pylsp_mypy": dict(mypy)}
        self._inbox: queue.Queue[Message] = queue.Queue()
        self._number = 0
        self._versions: dict[Path, int] = {}
        self._log = (folder / "server.log").open("w")
        self._process = subprocess.Popen(
            [sys.executable, "-m", "pylsp"], stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=self._log,
            cwd=folder, env=dict(environment),
        )  # fmt: skip
        threading.Thread(target=self._read, daemon=True).start()

    def __enter__(self) -> Client:
        root = {"processId": os.getpid(), "rootUri": self.folder.as_uri(), "capabilities": {}}
        self._send("initialize", root, request=True)
        self.wait(lambda m: m.get("id") == self._number, 60)
        self._send("initialized", {})
        self._send("workspace/didChangeConfiguration", {"settings": {"pylsp": {"plugins": self.settings}}})
        return self

    def __exit__(self, kind: type[BaseException] | None, value: BaseException | None, tb: TracebackType | None) -> None:
        self._process.kill()
        self._process.wait(10)
        self._log.close()

    # ---- what an editor does

    def open(self, file: Path) -> None:
        """Open a file."""
        document = {"uri": file.as_uri(), "languageId": "python", "version": 1, "text": file.read_text()}
        self._versions[file] = 1
        self._send("textDocument/didOpen", {"textDocument": document})

    def save(self, file: Path, text: str) -> None:
        """Change a file's text and save it."""
        self._versions[file] += 1
        document = {"uri": file.as_uri(), "version": self._versions[file]}
        file.write_text(text)
        self._send("textDocument/didChange", {"textDocument": document, "contentChanges": [{"text": text}]})
        self._send("textDocument/didSave", {"textDocument": {"uri": file.as_uri()}})

    def diagnostics(self, file: Path, wanted: Callable[[list[Message]], bool], timeout: float) -> list[Message]:
        """mypy's diagnostics of ``file``, as soon as they are such as ``wanted`` says."""
        found: list[Message] = []

        def published(message: Message) -> bool:
            if message.get("method") != "textDocument/publishDiagnostics" or message["params"]["uri"] != file.as_uri():
                return False
            found[:] = [d for d in message["params"]["diagnostics"] if d.get("source") == "mypy"]
            return wanted(found)

        self.wait(published, timeout)
        return found

    # ---- the wire

    def wait(self, wanted: Callable[[Message], bool], timeout: float) -> Message:
        """The next message such as ``wanted`` says; TimeoutError, with the server's log, where none comes."""
        end = time.monotonic() + timeout
        while time.monotonic() < end:
            try:
                message = self._inbox.get(timeout=0.2)
            except queue.Empty:
                continue
            if wanted(message):
                return message
        raise TimeoutError((self.folder / "server.log").read_text()[-4000:])

    def _send(self, method: str, params: Message, *, request: bool = False) -> None:
        message: Message = {"jsonrpc": "2.0", "method": method, "params": params}
        if request:
            self._number += 1
            message["id"] = self._number
        body = json.dumps(message).encode()
        assert self._process.stdin is not None
        self._process.stdin.write(b"Content-Length: %d\r\n\r\n" % len(body) + body)
        self._process.stdin.flush()

    def _read(self) -> None:
        stream = self._process.stdout
        assert stream is not None
        while header := stream.readline():
            length = 0
            while header.strip():
                if header.lower().startswith(b"content-length"):
                    length = int(header.split(b":")[1])
                header = stream.readline()
            self._inbox.put(json.loads(stream.read(length)))
