"""Tests of URLs, errors, freshness and connections of `esker-site`."""

from __future__ import annotations

import concurrent.futures
import os
import socket
import tempfile
import threading
from pathlib import Path
from typing import Any

import fsspec
import pytest
from conftest import Site, free_port
from esker_fsspec import EskerSiteFileSystem, TierError
from fsspec.core import _un_chain


@pytest.fixture
def remote(site: Site) -> Any:
    return fsspec.filesystem("esker-site", via=site.via, origin="file://")


def test_urls(site: Site, tree: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    assert fsspec.get_filesystem_class("esker-site") is EskerSiteFileSystem
    fs, path = fsspec.url_to_fs(f"esker-site://file://{tree}/dir/", via=site.via)
    assert (fs.origin, path, fs.isdir(path)) == ("file://", f"{tree}/dir", True)
    assert fs.unstrip_protocol(path) == f"esker-site://file://{tree}/dir"
    assert fs.ls(f"esker-site://file://{tree}/empty") == []
    monkeypatch.setenv("ESKER_VIA", site.via)
    fs, path = fsspec.url_to_fs("esker-site://sftp://ann@remote.example:2222/a//b c")
    assert (fs.origin, path, fs.tier.url) == ("sftp://ann@remote.example:2222", "/a/b c", site.via)
    chain = _un_chain("dir::esker-site://sftp://remote.example/data", {"esker-site": {"via": site.via}})
    assert chain[1] == ("/data", "esker-site", {"origin": "sftp://remote.example", "via": site.via})
    with pytest.raises(ValueError, match="belongs to sftp://other"):
        fs.ls("esker-site://sftp://other/x")


def test_contents_raise_errors(remote: Any, tree: Path) -> None:
    path = f"{tree}/file.h5"
    for call in (remote.open, remote.cat, remote.cat_file, remote.head, remote.read_text, remote.created, remote.sign):
        with pytest.raises(NotImplementedError):
            call(path)
    with pytest.raises(NotImplementedError, match="with its own protocol"):
        remote.get(path, "/tmp/never")
    for change in (remote.mkdir, remote.makedirs, remote.rm, remote.rm_file, remote.rmdir, remote.touch, remote.delete):
        with pytest.raises(OSError, match="read only"):
            change(path)
    for change in (remote.cp, remote.mv, remote.put, remote.copy, remote.pipe, remote.pipe_file, remote.write_text):
        with pytest.raises(OSError, match="read only"):
            change(path, "x")
    assert (tree / "file.h5").stat().st_size == 70_000


def test_links_are_links(remote: Any, tmp_path: Path) -> None:
    (tmp_path / "dir").mkdir()
    (tmp_path / "link").symlink_to("dir")
    (tmp_path / "dangling").symlink_to("nowhere")
    info = remote.info(f"{tmp_path}/link")
    assert (info["type"], info["islink"], info["destination"]) == ("link", True, "dir")
    assert not remote.isdir(f"{tmp_path}/link") and remote.exists(f"{tmp_path}/dangling")
    assert [at for at, _, _ in remote.walk(str(tmp_path))] == [str(tmp_path), f"{tmp_path}/dir"]
    assert remote.find(str(tmp_path)) == [f"{tmp_path}/dangling", f"{tmp_path}/link"]


def test_max_age_zero_reads_changes(site: Site, tmp_path: Path) -> None:
    uncached = fsspec.filesystem("esker-site", via=site.via, origin="file://", max_age=0)
    assert not uncached.exists(f"{tmp_path}/new")
    (tmp_path / "new").write_text("1")
    assert uncached.info(f"{tmp_path}/new")["size"] == 1
    (tmp_path / "new").write_text("12")
    info = uncached.info(f"{tmp_path}/new")
    assert (info["size"], info["age"]) == (2, 0)
    before = uncached.ukey(f"{tmp_path}/new")
    assert before == uncached.ukey(f"{tmp_path}/new")
    (tmp_path / "new").write_text("123")
    assert before != uncached.ukey(f"{tmp_path}/new")


def test_permission_denied(sftp: tuple[Site, str]) -> None:
    site, origin = sftp
    if os.getuid() == 0:
        # Root may read all files, so the test logs in as another user.
        origin = origin.replace("root@", "nobody@")
    with tempfile.TemporaryDirectory() as folder:
        os.chmod(folder, 0o755)
        secret = Path(folder, "secret")
        secret.mkdir()
        (secret / "x").write_text("")
        secret.chmod(0)
        fs = fsspec.filesystem("esker-site", via=site.via, origin=origin)
        with pytest.raises(PermissionError):
            fs.ls(str(secret))
        with pytest.raises(PermissionError):
            fs.exists(f"{secret}/x")
        # Like other file systems of fsspec, a walk skips the directory, or reports it to `on_error`.
        assert fs.find(folder) == []
        errors: list[OSError] = []
        assert [at for at, _, _ in fs.walk(folder, on_error=errors.append)] == [folder]
        assert isinstance(errors[0], PermissionError)
        for call in (lambda: list(fs.walk(folder, on_error="raise")), lambda: fs.find(str(secret))):
            with pytest.raises(PermissionError):
                call()
        secret.chmod(0o700)


def test_wrong_arguments() -> None:
    for arguments, why in [
        ({}, "which origin"),
        ({"origin": "host"}, "is not an origin"),
        ({"origin": "sftp://host/path"}, "without a path"),
        ({"origin": "file://", "via": "ftp://x"}, "is not an address of a tier"),
        ({"origin": "file://", "max_age": -1}, "expected seconds"),
    ]:
        with pytest.raises(ValueError, match=why):
            fsspec.filesystem("esker-site", skip_instance_cache=True, **arguments)


def test_refused_origins(site: Site, tmp_path_factory: pytest.TempPathFactory) -> None:
    fs = fsspec.filesystem("esker-site", via=site.via, origin="gopher://host")
    with pytest.raises(ValueError, match="no such protocol"):
        fs.ls("/")
    fs = fsspec.filesystem("esker-site", via=site.via, origin=f"ftp://127.0.0.1:{free_port()}")
    for call in (fs.exists, fs.isdir, fs.find, fs.ls, fs.du):
        with pytest.raises(TierError, match="cannot be reached"):
            call("/")
    only = Site(tmp_path_factory.mktemp("only"), allow='["sftp://remote.example"]')
    fs = fsspec.filesystem("esker-site", via=only.via, origin="file://")
    with pytest.raises(ValueError, match="does not ask that origin"):
        fs.ls("/")
    only.stop()


def test_unreachable_tier() -> None:
    fs = fsspec.filesystem("esker-site", via=f"http://127.0.0.1:{free_port()}", origin="file://")
    for call in (fs.exists, fs.isfile, fs.find, fs.info, fs.glob):
        with pytest.raises(TierError, match="is it running"):
            call("/x*")


def test_a_stopped_tier_raises(tmp_path_factory: pytest.TempPathFactory) -> None:
    folder = tmp_path_factory.mktemp("stopped")
    site = Site(folder)
    fs = fsspec.filesystem("esker-site", via=site.via, origin="file://")
    assert fs.isdir("/")
    site.stop()
    with pytest.raises(TierError):
        fs.isdir("/")


def serve_reply(reply: bytes) -> str:
    """Starts a server that sends these bytes to each connection and closes it; returns its URL."""
    listener = socket.create_server(("127.0.0.1", 0))

    def serve() -> None:
        while True:
            connection, _ = listener.accept()
            with connection:
                connection.recv(65_536)
                connection.sendall(reply)

    threading.Thread(target=serve, daemon=True).start()
    return f"http://127.0.0.1:{listener.getsockname()[1]}"


@pytest.mark.parametrize(
    "reply",
    [
        b"",
        b"SSH-2.0-OpenSSH_9.2\r\n",
        b"HTTP/1.1 200 OK\r\nContent-Length: 5\r\n\r\nhello",
        b"HTTP/1.1 200 OK\r\nContent-Length: 50\r\n\r\n{}",
        b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\n[]",
        b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\n{}",
        b"HTTP/1.1 404 Not Found\r\nContent-Length: 0\r\n\r\n",
        b"HTTP/1.1 404 Not Found\r\nContent-Length: 2\r\n\r\n{}",
        b"HTTP/1.1 500 Oh\r\nContent-Length: 4\r\n\r\n\xff\xfe{}",
    ],
)
def test_server_that_is_not_a_tier(reply: bytes) -> None:
    fs = fsspec.filesystem("esker-site", via=serve_reply(reply), origin="file://")
    for call in (fs.exists, fs.ls, fs.find):
        with pytest.raises(TierError):
            call("/")


def test_many_threads(remote: Any, tree: Path) -> None:
    with concurrent.futures.ThreadPoolExecutor(16) as pool:
        sizes = list(pool.map(remote.size, [f"{tree}/dir/run{n % 50:02}.h5" for n in range(400)]))
    assert sizes == [n % 50 for n in range(400)]


def test_a_child_process_has_connections_of_its_own(remote: Any, tree: Path) -> None:
    assert remote.exists(str(tree))
    child = os.fork()
    if child == 0:
        os._exit(0 if all(remote.exists(str(tree)) for _ in range(20)) else 1)
    assert all(remote.exists(str(tree)) for _ in range(20))
    assert os.waitpid(child, 0)[1] == 0
