"""Fixtures of the tests: a database opened by this process, through its owner, and on a server."""

import os
import subprocess
import sys
import sysconfig
import time
from pathlib import Path

import pytest

import esker

OWNER = """
import sys, esker
with esker.open(sys.argv[1], create=True, durability="relaxed"):
    print("open", flush=True)
    sys.stdin.read()
"""


def command() -> str:
    """Returns the path of the command that the wheel installed."""
    return str(Path(sysconfig.get_path("scripts")) / "esker")


@pytest.fixture
def workdir(tmp_path, monkeypatch):
    """The working directory, with a spool of its own."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("ESKER_SPOOL", str(tmp_path / "spool"))
    return tmp_path


@pytest.fixture
def folder(tmp_path):
    return str(tmp_path / "lab.esker")


@pytest.fixture
def attached(folder):
    """A folder that another process has open."""
    owner = subprocess.Popen([sys.executable, "-c", OWNER, folder], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
    assert owner.stdout.readline() == "open\n"
    yield folder
    owner.communicate("")
    assert owner.returncode == 0


@pytest.fixture
def served(tmp_path, folder):
    """The address of a server."""
    port = tmp_path / "port"
    call = [command(), "serve", folder, "--create", "--listen", "127.0.0.1:0", "--port-file", str(port), "--quiet"]
    server = subprocess.Popen(call, env={**os.environ, "HOME": str(tmp_path)})
    until = time.monotonic() + 600
    while not port.exists():
        assert server.poll() is None and time.monotonic() < until, "the server did not start"
        time.sleep(0.01)
    yield f"esker://{port.read_text().strip()}"
    server.terminate()
    server.wait(600)


@pytest.fixture(params=["owner", "attached", "client"])
def db(request):
    """An open database: owned by this process, owned by another process, or on a server."""
    fixture = {"owner": "folder", "attached": "attached", "client": "served"}[request.param]
    with esker.open(request.getfixturevalue(fixture), create=request.param == "owner", durability="relaxed") as db:
        assert db.role == request.param
        yield db


@pytest.fixture
def own(folder):
    """An open database that this process owns."""
    with esker.open(folder, create=True, durability="relaxed") as db:
        yield db
