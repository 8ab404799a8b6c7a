"""What is this file system's own."""

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
def far(site: Site) -> Any:
    return fsspec.filesystem("esker-site", via=site.via, origin="file://")


def test_urls(site: Site, tree: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    assert fsspec.get_filesystem_class("esker-site") is EskerSiteFileSystem
    fs, path = fsspec.url_to_fs(f"esker-site://file://{tree}/dir/", via=site.via)
    assert (fs.origin, path, fs.isdir(path)) == ("file://", f"{tree}/dir", True)
    assert fs.unstrip_protocol(path) == f"esker-site://file://{tree}/dir"
    assert fs.ls(f"esker-site://file://{tree}/empty") == []
    monkeypatch.setenv("ESKER_VIA", site.via)
    fs, path = fsspec.url_to_fs("esker-site://sftp://ann@far.example:2222/a//b c")
    assert (fs.origin, path, fs.tier.url) == ("sftp://ann@far.example:2222", "/a/b c", site.via)
    chain = _un_chain("dir::esker-site://sftp://far.example/data", {"esker-site": {"via": site.via}})
    assert chain[1] == ("/data", "esker-site", {"origin": "sftp://far.example", "via": site.via})
    with pytest.raises(ValueError, match="is of sftp://other"):
        fs.ls("esker-site://sftp://other/x")


def test_there_is_metadata_only(far: Any, tree: Path) -> None:
    path = f"{tree}/file.h5"
    for ask in (far.open, far.cat, far.cat_file, far.head, far.read_text, far.created, far.sign):
        with pytest.raises(NotImplementedError):
            ask(path)
    with pytest.raises(NotImplementedError, match="with its own protocol"):
        far.get(path, "/tmp/never")
    for change in (far.mkdir, far.makedirs, far.rm, far.rm_file, far.rmdir, far.touch, far.delete):
        with pytest.raises(OSError, match="read only"):
            change(path)
    for change in (far.cp, far.mv, far.put, far.copy, far.pipe, far.pipe_file, far.write_text):
        with pytest.raises(OSError, match="read only"):
            change(path, "x")
    assert (tree / "file.h5").stat().st_size == 70_000


def test_links_are_links(far: Any, tmp_path: Path) -> None:
    (tmp_path / "dir").mkdir()
    (tmp_path / "link").symlink_to("dir")
    (tmp_path / "dangling").symlink_to("nowhere")
    info = far.info(f"{tmp_path}/link")
    assert (info["type"], info["islink"], info["destination"]) == ("link", True, "dir")
    assert not far.isdir(f"{tmp_path}/link") and far.exists(f"{tmp_path}/dangling")
    assert [at for at, _, _ in far.walk(str(tmp_path))] == [str(tmp_path), f"{tmp_path}/dir"]
    assert far.find(str(tmp_path)) == [f"{tmp_path}/dangling", f"{tmp_path}/link"]


def test_changes_are_seen(site: Site, tmp_path: Path) -> None:
    fresh = fsspec.filesystem("esker-site", via=site.via, origin="file://", max_age=0)
    assert not fresh.exists(f"{tmp_path}/new")
    (tmp_path / "new").write_text("1")
    assert fresh.info(f"{tmp_path}/new")["size"] == 1
    (tmp_path / "new").write_text("12")
    info = fresh.info(f"{tmp_path}/new")
    assert (info["size"], info["age"]) == (2, 0)
    before = fresh.ukey(f"{tmp_path}/new")
    assert before == fresh.ukey(f"{tmp_path}/new")
    (tmp_path / "new").write_text("123")
    assert before != fresh.ukey(f"{tmp_path}/new")


def test_what_is_not_shown(sftp: tuple[Site, str]) -> None:
    site, origin = sftp
    if os.getuid() == 0:
        # Nothing is denied to root.
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
        # As fsspec's others, a walk passes over it, or tells.
        assert fs.find(folder) == []
        told: list[OSError] = []
        assert [at for at, _, _ in fs.walk(folder, on_error=told.append)] == [folder]
        assert isinstance(told[0], PermissionError)
        for ask in (lambda: list(fs.walk(folder, on_error="raise")), lambda: fs.find(str(secret))):
            with pytest.raises(PermissionError):
                ask()
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


def test_what_the_tier_refuses(site: Site, tmp_path_factory: pytest.TempPathFactory) -> None:
    fs = fsspec.filesystem("esker-site", via=site.via, origin="gopher://host")
    with pytest.raises(ValueError, match="no such protocol"):
        fs.ls("/")
    fs = fsspec.filesystem("esker-site", via=site.via, origin=f"ftp://127.0.0.1:{free_port()}")
    for ask in (fs.exists, fs.isdir, fs.find, fs.ls, fs.du):
        with pytest.raises(TierError, match="cannot be reached"):
            ask("/")
    only = Site(tmp_path_factory.mktemp("only"), allow='["sftp://far.example"]')
    fs = fsspec.filesystem("esker-site", via=only.via, origin="file://")
    with pytest.raises(ValueError, match="does not ask that origin"):
        fs.ls("/")
    only.stop()


def test_no_tier() -> None:
    fs = fsspec.filesystem("esker-site", via=f"http://127.0.0.1:{free_port()}", origin="file://")
    for ask in (fs.exists, fs.isfile, fs.find, fs.info, fs.glob):
        with pytest.raises(TierError, match="is it running"):
            ask("/x*")


def test_a_tier_that_starts_again(tmp_path_factory: pytest.TempPathFactory) -> None:
    folder = tmp_path_factory.mktemp("again")
    site = Site(folder)
    fs = fsspec.filesystem("esker-site", via=site.via, origin="file://")
    assert fs.isdir("/")
    site.stop()
    with pytest.raises(TierError):
        fs.isdir("/")


def answer_once(reply: bytes) -> str:
    """A server that says this to each connection and hangs up."""
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
def test_whoever_is_no_tier(reply: bytes) -> None:
    fs = fsspec.filesystem("esker-site", via=answer_once(reply), origin="file://")
    for ask in (fs.exists, fs.ls, fs.find):
        with pytest.raises(TierError):
            ask("/")


def test_many_threads(far: Any, tree: Path) -> None:
    with concurrent.futures.ThreadPoolExecutor(16) as pool:
        sizes = list(pool.map(far.size, [f"{tree}/dir/run{n % 50:02}.h5" for n in range(400)]))
    assert sizes == [n % 50 for n in range(400)]


def test_a_child_process_has_connections_of_its_own(far: Any, tree: Path) -> None:
    assert far.exists(str(tree))
    child = os.fork()
    if child == 0:
        os._exit(0 if all(far.exists(str(tree)) for _ in range(20)) else 1)
    assert all(far.exists(str(tree)) for _ in range(20))
    assert os.waitpid(child, 0)[1] == 0
