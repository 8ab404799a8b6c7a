"""Processes of the check: a collector, servers, commands, and free ports for them."""

from __future__ import annotations

import http.client
import os
import pathlib
import random
import signal
import socket
import subprocess
import time
from collections.abc import Callable

CONFIG = pathlib.Path(__file__).with_name("collector.yaml")
DEADLINE = 300
"""Seconds after which a missing event is an error. The usual time is below 3 s."""
ENVIRONMENT = {name: value for name, value in os.environ.items() if not name.startswith(("OTEL_", "TRACE", "ESKER_TARGET"))}
"""The environment without variables that would change traces."""


class Failed(Exception):
    """A check has failed in a way that leaves nothing to check after it."""


def free_port() -> int:
    """Finds a port that is free now. It is below the range that the system gives to clients."""
    while True:
        port = random.randrange(10_000, 30_000)
        try:
            with socket.create_server(("127.0.0.1", port)):
                return port
        except OSError:
            continue


def wait_for(event: Callable[[], bool], name: str) -> None:
    """Waits until an event has happened."""
    until = time.monotonic() + DEADLINE
    while not event():
        if time.monotonic() > until:
            raise Failed(f"{name}: this has not happened within {DEADLINE} s")
        time.sleep(0.05)


class Process:
    """A child process that writes its messages to a file."""

    def __init__(self, arguments: list[str], log: pathlib.Path, environment: dict[str, str]) -> None:
        self.name, self.log = pathlib.Path(arguments[0]).name + " " + log.stem, log
        with log.open("ab") as output:
            self.child = subprocess.Popen(
                arguments, stdout=output, stderr=output, stdin=subprocess.DEVNULL, env=ENVIRONMENT | environment
            )

    def check_running(self) -> None:
        if self.child.poll() is not None:
            raise Failed(f"{self.name} has ended with {self.child.returncode}:\n{self.log.read_text()}")

    def wait_until(self, event: Callable[[], bool], name: str) -> None:
        """Waits until an event has happened, or fails if the process ends first."""

        def happened() -> bool:
            self.check_running()
            return event()

        wait_for(happened, f"{self.name}: {name}")

    def stop(self, number: signal.Signals = signal.SIGTERM) -> int:
        """Ends the process by a signal and returns its exit code."""
        if self.child.poll() is None:
            self.child.send_signal(number)
        try:
            return self.child.wait(DEADLINE)
        except subprocess.TimeoutExpired:
            self.child.kill()
            self.child.wait()
            raise Failed(
                f"{self.name} has not ended within {DEADLINE} s after {number.name}:\n{self.log.read_text()}"
            ) from None


class Lab:
    """The programs, a scratch folder, and all processes that run."""

    def __init__(self, esker: str, collector: str, folder: pathlib.Path) -> None:
        self.esker, self.program, self.folder = esker, collector, folder
        self.processes: list[Process] = []

    def start(self, arguments: list[str], log: str, environment: dict[str, str]) -> Process:
        process = Process(arguments, self.folder / f"{log}.log", environment)
        self.processes.append(process)
        return process

    def stop(self) -> None:
        for process in self.processes:
            process.child.kill()
            process.child.wait()

    def run(self, *arguments: str, environment: dict[str, str] | None = None, status: int = 0) -> str:
        """Runs a command, compares its exit code and returns its output."""
        command = f"`esker {' '.join(arguments)}`"
        try:
            done = subprocess.run(
                [self.esker, *arguments],
                env=ENVIRONMENT | (environment or {}),
                stdin=subprocess.DEVNULL,
                capture_output=True,
                text=True,
                timeout=DEADLINE,
            )
        except subprocess.TimeoutExpired:
            raise Failed(f"{command} has not ended within {DEADLINE} s, expected exit code {status}") from None
        output = done.stdout + done.stderr
        if done.returncode != status:
            raise Failed(f"{command} has ended with {done.returncode}, expected {status}:\n{output}")
        return output


class Collector:
    """A collector on a port of its own, whose spans are in a file."""

    def __init__(self, lab: Lab, name: str) -> None:
        self.lab, self.name, self.port = lab, name, free_port()
        self.url = f"http://127.0.0.1:{self.port}"
        self.file = lab.folder / f"{name}.json"
        self.process: Process | None = None

    def accepts(self) -> bool:
        try:
            socket.create_connection(("127.0.0.1", self.port), 5).close()
        except OSError:
            return False
        return True

    def start(self) -> Collector:
        environment = {"COLLECTOR_ADDRESS": f"127.0.0.1:{self.port}", "COLLECTOR_FILE": str(self.file)}
        self.process = self.lab.start([self.lab.program, "--config", f"file:{CONFIG}"], f"{self.name}-collector", environment)
        self.process.wait_until(self.accepts, "listening")
        return self

    def stop(self, number: signal.Signals = signal.SIGTERM) -> None:
        """Ends the collector; on SIGTERM it writes the spans that it has received."""
        if self.process:
            self.process.stop(number)


class Server:
    """A server of a new database."""

    def __init__(self, lab: Lab, name: str, settings: str, environment: dict[str, str]) -> None:
        config, port, target = (lab.folder / f"{name}.{end}" for end in ("toml", "port", "esker"))
        config.write_text(settings)
        self.folder = str(target)
        lab.run("init", self.folder, "--quiet")
        # A server reads tokens at its start, and then about once a second.
        self.token = lab.run("grant", self.folder, "--token", "--role", "read", "--for", "8h").split()[-1]
        arguments = [
            lab.esker,
            "serve",
            self.folder,
            "--config",
            str(config),
            "--listen",
            "127.0.0.1:0",
            "--port-file",
            str(port),
        ]
        self.process = lab.start(arguments, name, environment)
        self.process.wait_until(lambda: port.exists() and port.read_text() != "", "listening")
        self.address = port.read_text().strip()
        self.url = f"esker://{self.address}"

    def request(self, method: str, path: str, headers: list[tuple[str, str]], body: str | None = None) -> int:
        """Sends a request whose headers may repeat, reads the answer and returns its status."""
        connection = http.client.HTTPConnection(self.address, timeout=DEADLINE)
        try:
            connection.putrequest(method, path)
            for name, value in headers:
                connection.putheader(name, value)
            if body is not None:
                connection.putheader("Content-Length", str(len(body.encode())))
            connection.endheaders(body.encode() if body is not None else None)
            response = connection.getresponse()
            response.read()
            return response.status
        finally:
            connection.close()
