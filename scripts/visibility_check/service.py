"""A server of a database in a folder, and requests to it."""

from __future__ import annotations

import http.client
import json
import os
import signal
import subprocess
import time
import urllib.parse
from collections.abc import Sequence
from pathlib import Path

from .tree import Person

PATIENCE = 300.0
"""Seconds after which an unanswered request is an error: it only ends a hang."""
CONFIG = """listen = "127.0.0.1:0"
[access]
loopback = "socket"   # a process of the owner at the port has only the rights of its token
[limits]
time = "0s"
"""


class Answer:
    """The answer of a request over HTTP."""

    def __init__(self, status: int, body: bytes, headers: dict[str, str]) -> None:
        self.status, self.body, self.headers = status, body, headers

    @property
    def text(self) -> str:
        return self.body.decode(errors="replace")

    def json(self) -> dict:
        try:
            return json.loads(self.body)
        except ValueError:
            raise ValueError(f"status {self.status}, no JSON: {self.text[:300]!r}") from None


class Service:
    """A database in a folder, and the process that serves it."""

    def __init__(self, esker: str, folder: Path) -> None:
        self.folder, self.database = folder, folder / "lab.esker"
        self.program = os.open(esker, os.O_RDONLY | os.O_CLOEXEC)
        self.environment = {"PATH": os.environ["PATH"], "HOME": str(folder), "ESKER_LOG": "warn"}
        self.process: subprocess.Popen | None = None
        self.connections: dict[str, http.client.HTTPConnection] = {}
        self.run("init", str(self.database))
        # All users may attach to the process that has the folder open; the kernel tells it who they are.
        os.chmod(self.database, 0o711)
        (self.database / "owner").mkdir(exist_ok=True)
        os.chmod(self.database / "owner", 0o755)

    def command(self, *words: str) -> tuple[list[str], int]:
        # The program may be in a folder that other users may not search; its descriptor leads to it all the same.
        return [f"/proc/self/fd/{self.program}", "--quiet", *words], self.program

    def run(self, *words: str, person: Person | None = None, check: bool = True) -> subprocess.CompletedProcess:
        """Runs a command as user 0 or as another user."""
        line, descriptor = self.command(*words)
        done = subprocess.run(
            line,
            pass_fds=[descriptor],
            env=self.environment,
            cwd="/",
            capture_output=True,
            check=False,
            timeout=PATIENCE,
            user=person.uid if person else None,
            group=person.gids[0] if person else None,
            extra_groups=list(person.gids) if person else None,
        )
        if check and done.returncode:
            raise RuntimeError(f"esker {' '.join(words)}: exit code {done.returncode}\n{done.stderr.decode(errors='replace')}")
        return done

    def grant(self, *words: str) -> str:
        return self.run("grant", str(self.database), "--token", *words).stdout.decode().strip()

    def grant_key(self, person: Person) -> Path:
        """Makes an SSH key that is bound to a user."""
        key = self.folder / f"key-{person.uid}"
        subprocess.run(["ssh-keygen", "-q", "-t", "ed25519", "-N", "", "-f", str(key)], check=True)
        self.run("grant", str(self.database), "--key", f"{key}.pub", "--as", person.text())
        return key

    def with_key(self, key: Path) -> str:
        """Returns the address of the server for a client with this key."""
        known = urllib.parse.quote(str(self.folder / "known_hosts"))
        return f"esker://{self.address}?key={urllib.parse.quote(str(key))}&ssh=on&trust-new-host&known-hosts={known}"

    def start(self) -> None:
        config, port = self.folder / "server.toml", self.folder / "port"
        config.write_text(CONFIG)
        line, descriptor = self.command("serve", str(self.database), "--config", str(config), "--port-file", str(port))
        log = (self.folder / "server.log").open("wb")
        self.process = subprocess.Popen(line, pass_fds=[descriptor], env=self.environment, cwd="/", stdout=log, stderr=log)
        until = time.monotonic() + PATIENCE
        while not port.exists() or not port.read_text().endswith("\n"):
            if self.process.poll() is not None or time.monotonic() > until:
                raise RuntimeError(f"the server does not start: {(self.folder / 'server.log').read_text()}")
            time.sleep(0.01)
        self.address = port.read_text().strip()

    def stop(self) -> None:
        for connection in self.connections.values():
            connection.close()
        if self.process and self.process.poll() is None:
            self.process.send_signal(signal.SIGTERM)
            try:
                self.process.wait(60)
            except subprocess.TimeoutExpired:
                self.process.kill()
                self.process.wait()
        os.close(self.program)

    def request(
        self, token: str, method: str, target: str, body: bytes | None = None, headers: Sequence[tuple[str, str]] = ()
    ) -> Answer:
        """Sends a request as it is given, with a token unless the headers have another one."""
        try:
            return self.send(token, method, target, body, headers)
        except (OSError, http.client.HTTPException):
            # The server closes connections after some refusals; on a new one the request has to be answered.
            return self.send(token, method, target, body, headers)

    def send(self, token: str, method: str, target: str, body: bytes | None, headers: Sequence[tuple[str, str]]) -> Answer:
        connection = self.connections.setdefault(token, http.client.HTTPConnection(self.address, timeout=PATIENCE))
        try:
            connection.putrequest(
                method, target, skip_host=any(name == "Host" for name, _ in headers), skip_accept_encoding=True
            )
            if not any(name == "Authorization" for name, _ in headers):
                connection.putheader("Authorization", f"Bearer {token}")
            for name, value in headers:
                connection.putheader(name, value)
            if body is not None:
                connection.putheader("Content-Length", str(len(body)))
            connection.endheaders(body)
            answer = connection.getresponse()
            return Answer(answer.status, answer.read(), dict(answer.getheaders()))
        except (OSError, ValueError, http.client.HTTPException):
            connection.close()
            del self.connections[token]
            raise

    def get(self, token: str, what: str, /, **parameters: str | int) -> Answer:
        query = urllib.parse.urlencode(parameters)
        return self.request(token, "GET", f"{what}?{query}" if query else what)

    def apply(self, token: str, lines: list[dict]) -> None:
        """Applies operations in batches of 5,000."""
        for begin in range(0, len(lines), 5_000):
            body = "\n".join(json.dumps(line) for line in lines[begin : begin + 5_000]).encode()
            answer = self.request(token, "POST", "/api/v1/apply", body, [("Content-Type", "application/x-ndjson")])
            if answer.status != 200:
                raise RuntimeError(f"apply: {answer.status} {answer.text[:500]}")
