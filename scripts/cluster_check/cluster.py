"""Processes of a cluster: etcd and members, started and stopped as an operator does."""

from __future__ import annotations

import http.client
import os
import shutil
import signal
import socket
import subprocess
import time
from pathlib import Path

FIRST_GROUP = 61000
"""Group ids of the members' processes: rules of nftables tell members apart by them."""
FAKETIME = ("/usr/lib/*/faketime/libfaketime.so.1", "/usr/lib*/faketime/libfaketime.so.1")


def free_port(address: str) -> int:
    """Returns a port that no process listens at."""
    with socket.create_server((address, 0)) as listener:
        return int(listener.getsockname()[1])


def faketime() -> str | None:
    """Returns the path of libfaketime, if it is installed."""
    return next((str(path) for pattern in FAKETIME for path in Path("/").glob(pattern[1:])), None)


class Process:
    """A child process that is started again with the same command."""

    def __init__(self, name: str, command: list[str], folder: Path, environment: dict[str, str], group: int | None) -> None:
        self.name, self.command, self.group = name, command, group
        self.environment = os.environ | environment
        self.log = folder / f"{name}.log"
        self.child: subprocess.Popen[bytes] | None = None

    def start(self) -> None:
        """Starts the process; it ends with this one."""
        command = ["setpriv", "--pdeathsig", "KILL", *self.command] if shutil.which("setpriv") else self.command
        with self.log.open("ab") as log:
            self.child = subprocess.Popen(
                command, env=self.environment, stdin=subprocess.DEVNULL, stdout=log, stderr=log, process_group=0, group=self.group
            )

    def signal(self, number: signal.Signals) -> None:
        """Sends a signal to the process, if it runs."""
        if self.child and self.child.poll() is None:
            self.child.send_signal(number)

    def kill(self) -> None:
        """Kills the process and waits for its end."""
        if self.child:
            self.signal(signal.SIGKILL)
            self.child.wait()

    def running(self) -> bool:
        """Whether the process runs."""
        return self.child is not None and self.child.poll() is None


class Member(Process):
    """A member of the cluster."""

    def __init__(self, index: int, address: str, command: list[str], folder: Path, preload: str | None, grouped: bool) -> None:
        self.host, _, port = address.partition(":")
        self.port = int(port)
        self.address = address
        self.skew = folder / f"skew-{index}"
        environment = {"ESKER_LOG": os.environ.get("ESKER_LOG", "info")}
        if preload:
            self.skew.write_text("+0\n")
            # A jump of a clock changes neither the monotonic clock nor the times of files.
            environment |= {
                "LD_PRELOAD": preload,
                "FAKETIME_TIMESTAMP_FILE": str(self.skew),
                "FAKETIME_NO_CACHE": "1",
                "FAKETIME_DONT_FAKE_MONOTONIC": "1",
                "NO_FAKE_STAT": "1",
            }
        super().__init__(f"member-{index}", command, folder, environment, FIRST_GROUP + index if grouped else None)

    def ready(self) -> str | None:
        """Returns why the member is not ready, or None if it is."""
        connection = http.client.HTTPConnection(self.host, self.port, timeout=2)
        try:
            connection.request("GET", "/readyz")
            answer = connection.getresponse()
            text = answer.read().decode(errors="replace").strip()
            return None if answer.status == 200 else text
        except OSError as error:
            return str(error) or type(error).__name__
        finally:
            connection.close()


class Cluster:
    """etcd and the members of one cluster, in a folder."""

    def __init__(self, folder: Path, esker: str, etcd: str, members: int, stores: int, lease: int, preload: str | None, grouped: bool) -> None:
        self.folder, self.lease = folder, lease
        self.etcd_port = free_port("127.0.0.1")
        endpoint, peer = f"http://127.0.0.1:{self.etcd_port}", f"http://127.0.0.1:{free_port('127.0.0.1')}"
        command = [etcd, "--data-dir", str(folder / "etcd"), "--listen-client-urls", endpoint, "--advertise-client-urls", endpoint]
        command += ["--listen-peer-urls", peer, "--initial-advertise-peer-urls", peer, "--initial-cluster", f"default={peer}"]
        self.etcd = Process("etcd", [*command, "--auto-compaction-retention", "1"], folder, {}, None)
        addresses = [f"127.0.0.{index + 1}:{free_port(f'127.0.0.{index + 1}')}" for index in range(members)]
        file = folder / "lab.toml"
        # A low threshold makes hubs split during the test.
        file.write_text(
            f'servers = {addresses}\nstores = {stores}\nmemory = "96MiB"\nvnodes = 64\nthreshold = 64\n'.replace("'", '"')
            + f'[etcd]\nendpoints = ["{endpoint}"]\nlease = "{lease}s"\n'
        )
        self.members = [
            Member(index, address, [esker, "cluster", "server", str(file), "--id", str(index)], folder, preload, grouped)
            for index, address in enumerate(addresses)
        ]

    def start(self) -> None:
        """Starts everything and waits until all members are ready."""
        (self.folder / "lab.cluster").mkdir(mode=0o700)
        self.etcd.start()
        for member in self.members:
            member.start()
        why = self.wait_until_ready(60)
        if why:
            raise SystemExit(f"cluster-check: the cluster is not ready after 60 s: {why}; its logs are in {self.folder}")

    def wait_until_ready(self, seconds: float) -> str | None:
        """Waits until all members are ready; returns why one is not."""
        until = time.monotonic() + seconds
        while True:
            why = next((f"{member.address}: {reason}" for member in self.members if (reason := member.ready())), None)
            if why is None or time.monotonic() > until:
                return why
            time.sleep(0.05)

    def stop(self) -> None:
        """Ends all processes."""
        for process in (*self.members, self.etcd):
            process.signal(signal.SIGCONT)
            process.kill()
