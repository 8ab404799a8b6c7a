"""Fixtures: tiers over a folder of this machine, and over SFTP to a real sshd."""

from __future__ import annotations

import os
import shutil
import socket
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path

import pytest


class Site:
    """A running tier."""

    def __init__(self, folder: Path, environment: dict[str, str] | None = None, **origins: str) -> None:
        esker = os.environ.get("ESKER_BIN")
        if not esker:
            pytest.exit("ESKER_BIN must name the esker binary: scripts/check-fsspec.sh sets it", 2)
        folder.mkdir(parents=True, exist_ok=True)
        allow = origins.get("allow", '["*", "file://"]')
        (folder / "site.toml").write_text(f'listen = "127.0.0.1:0"\n[origins]\nallow = {allow}\n')
        self.port_file = folder / "port"
        self.process = subprocess.Popen(
            [esker, "site", "serve", "site.toml", "--port-file", "port", "--log", "error"],
            cwd=folder,
            env={**os.environ, "HOME": str(folder), **(environment or {})},
            stdin=subprocess.DEVNULL,
        )
        until = time.monotonic() + 50
        while not self.port_file.exists() or not self.port_file.read_text().strip():
            assert self.process.poll() is None and time.monotonic() < until, "the tier did not start"
            time.sleep(0.02)
        self.via = f"http://{self.port_file.read_text().strip()}"

    def stop(self) -> None:
        self.process.terminate()
        self.process.wait(20)


@pytest.fixture(scope="session")
def site(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Site]:
    running = Site(tmp_path_factory.mktemp("site"))
    yield running
    running.stop()


@pytest.fixture(scope="session")
def tree(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with files and directories of unusual names and different sizes, but without links."""
    root = tmp_path_factory.mktemp("tree")
    root.chmod(0o755)
    # The user that sshd logs in as must be able to enter the folder.
    root.parent.chmod(0o755)
    for name, size in [("a b", 4), ("plus+and%41", 1), ("été", 2), ("file.h5", 70_000), ("question?", 3), ("[x]", 5)]:
        (root / name).write_bytes(b"x" * size)
    deep = root / "dir" / "deeper" / "deepest"
    deep.mkdir(parents=True)
    (root / "empty").mkdir()
    for n in range(50):
        (root / "dir" / f"run{n:02}.h5").write_bytes(b"y" * n)
    (deep / "last.h5").write_bytes(b"z" * 9)
    with open(os.fsencode(root) + b"/dir/latin\xe9", "wb") as file:
        file.write(b"12345")
    return root


def free_port() -> int:
    with socket.socket() as listener:
        listener.bind(("127.0.0.1", 0))
        return int(listener.getsockname()[1])


@pytest.fixture(scope="session")
def sftp() -> Iterator[tuple[Site, str]]:
    """A tier that may connect to a real sshd, and the origin of that sshd."""
    sshd = shutil.which("sshd") or "/usr/sbin/sshd"
    if not Path(sshd).exists():
        pytest.fail("sshd is missing: run `make setup`")
    # Other users must be able to enter the folder.
    folder = Path(tempfile.mkdtemp())
    folder.chmod(0o755)
    if os.getuid() == 0:
        Path("/run/sshd").mkdir(exist_ok=True)
    for key in ("host", "user"):
        subprocess.run(["ssh-keygen", "-q", "-t", "ed25519", "-N", "", "-f", folder / key], check=True)
    port = free_port()
    host_key = (folder / "host.pub").read_text()
    (folder / "known").write_text(f"[127.0.0.1]:{port} {host_key}")
    shutil.copy(folder / "user.pub", folder / "authorized")
    (folder / "config").write_text(
        f"Port {port}\nListenAddress 127.0.0.1\nHostKey {folder}/host\nPidFile none\nUsePAM no\nStrictModes no\n"
        f"AuthorizedKeysFile {folder}/authorized\nPasswordAuthentication no\nKbdInteractiveAuthentication no\n"
        "UseDNS no\nSubsystem sftp internal-sftp\n"
    )
    server = subprocess.Popen([sshd, "-D", "-e", "-f", folder / "config"], stdin=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    until = time.monotonic() + 20
    while True:
        try:
            socket.create_connection(("127.0.0.1", port)).close()
            break
        except OSError:
            assert server.poll() is None and time.monotonic() < until, "sshd did not start"
            time.sleep(0.02)
    ssh = f"ssh -F none -oIdentitiesOnly=yes -oGlobalKnownHostsFile=none -oIdentityFile={folder}/user -oUserKnownHostsFile={folder}/known"
    site = Site(folder / "site", {"ESKER_SSH": ssh})
    user = subprocess.run(["id", "-un"], check=True, capture_output=True, text=True).stdout.strip()
    yield site, f"sftp://{user}@127.0.0.1:{port}"
    site.stop()
    server.terminate()
    server.wait(20)
    shutil.rmtree(folder)


if sys.platform != "linux":
    pytest.exit("these tests run on Linux", 2)
