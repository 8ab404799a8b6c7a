"""The history of a run: operations of clients with their times and outcomes, as JSON lines."""

from __future__ import annotations

import itertools
import json
import threading
import time
from dataclasses import dataclass
from pathlib import Path
from typing import Any

OK, FAIL, INFO = "ok", "fail", "info"


@dataclass
class Operation:
    """One operation of one process. Times are seconds of the monotonic clock."""

    process: str
    f: str
    key: str
    value: Any
    begin: float
    end: float = float("inf")
    outcome: str = INFO
    """`ok`: it took effect; `fail`: it did not; `info`: unknown."""
    result: Any = None
    version: str | None = None
    """Version that the server gave to an acknowledged write."""
    attempts: int = 0

    def text(self) -> str:
        """Returns the operation as a line for people."""
        end = f"{self.end:.3f}" if self.end != float("inf") else "…"
        shown = json.dumps(self.result, default=str)
        shown = shown if len(shown) <= 200 else f"{shown[:120]} … {shown[-60:]}"
        request = f"{self.process} {self.f} {self.key} {json.dumps(self.value)} [{self.begin:.3f}, {end}]"
        return f"{request} {self.outcome} {shown} {self.version or ''}".rstrip()


class History:
    """All operations, in the order in which they began. Threads may record at the same time."""

    def __init__(self, path: Path | None) -> None:
        self.operations: list[Operation] = []
        self.notes: list[dict[str, Any]] = []
        self.origin = time.monotonic()
        self._lock = threading.Lock()
        self._file = path.open("w") if path else None
        self._numbers = itertools.count(1)

    def number(self) -> int:
        """Returns a number that no other call has returned."""
        return next(self._numbers)

    def now(self) -> float:
        """Returns the seconds since the run began."""
        return time.monotonic() - self.origin

    def _write(self, event: dict[str, Any]) -> None:
        if self._file:
            self._file.write(json.dumps(event, default=str) + "\n")

    def begin(self, process: str, f: str, key: str, value: Any) -> Operation:
        """Records that an operation begins."""
        with self._lock:
            operation = Operation(process, f, key, value, self.now())
            self.operations.append(operation)
            self._write({"process": process, "type": "invoke", "f": f, "key": key, "value": value, "time": operation.begin})
        return operation

    def complete(self, operation: Operation, outcome: str, result: Any = None, version: str | None = None) -> None:
        """Records the outcome. An unknown outcome may take effect at any later time."""
        with self._lock:
            operation.outcome, operation.result, operation.version = outcome, result, version
            now = self.now()
            if outcome != INFO:
                operation.end = now
            event = {"process": operation.process, "type": outcome, "f": operation.f, "key": operation.key, "value": operation.value}
            self._write(event | {"result": result, "version": version, "attempts": operation.attempts, "time": now})

    def note(self, f: str, **more: Any) -> None:
        """Records an event of the test itself, such as a fault."""
        with self._lock:
            event = {"process": "nemesis", "type": "info", "f": f, "time": self.now()} | more
            self.notes.append(event)
            self._write(event)

    def close(self) -> None:
        """Writes everything to the file."""
        if self._file:
            self._file.close()
