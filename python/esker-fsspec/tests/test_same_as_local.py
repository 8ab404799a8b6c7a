"""Results for remote files must equal those of fsspec's local file system."""

from __future__ import annotations

import datetime
import os
from pathlib import Path
from typing import Any

import fsspec
import pytest

LOCAL = fsspec.filesystem("file")


@pytest.fixture(params=["file", "sftp"])
def remote(request: pytest.FixtureRequest) -> Any:
    if request.param == "file":
        return fsspec.filesystem("esker-site", via=request.getfixturevalue("site").via, origin="file://")
    site, origin = request.getfixturevalue("sftp")
    return fsspec.filesystem("esker-site", via=site.via, origin=origin)


def test_find(remote: Any, tree: Path) -> None:
    root = str(tree)
    assert remote.find(root) == LOCAL.find(root)
    for options in ({"maxdepth": 1}, {"maxdepth": 2, "withdirs": True}, {"withdirs": True}):
        assert remote.find(root, **options) == LOCAL.find(root, **options)
    detailed, own = remote.find(root, detail=True), LOCAL.find(root, detail=True)
    for name, info in own.items():
        assert (detailed[name]["size"], detailed[name]["type"]) == (info["size"], info["type"])
    assert remote.find(f"{root}/file.h5") == [f"{root}/file.h5"]
    assert remote.find(f"{root}/none") == LOCAL.find(f"{root}/none") == []


@pytest.mark.parametrize("topdown", [True, False])
def test_walk(remote: Any, tree: Path, topdown: bool) -> None:
    def shape(fs: Any) -> dict[str, tuple[list[str], list[str]]]:
        return {at: (sorted(dirs), sorted(files)) for at, dirs, files in fs.walk(str(tree), topdown=topdown)}

    assert shape(remote) == shape(LOCAL)
    first = [at for at, _, _ in remote.walk(str(tree), topdown=topdown)]
    assert first[0 if topdown else -1] == str(tree)
    for at in first:
        above = at.rsplit("/", 1)[0]
        if above in first:
            assert (first.index(above) < first.index(at)) == topdown


def test_walk_skips_directories_that_the_caller_removes(remote: Any, tree: Path) -> None:
    visited = []
    for at, dirs, _ in remote.walk(str(tree)):
        visited.append(at)
        if "deeper" in dirs:
            dirs.remove("deeper")
    assert f"{tree}/dir" in visited and f"{tree}/dir/deeper" not in visited


@pytest.mark.parametrize("pattern", ["*", "**", "*.h5", "dir/run0?.h5", "dir/**/*.h5", "**/deep*", "d[ij]r/*", "none*", "*/"])
def test_glob(remote: Any, tree: Path, pattern: str) -> None:
    assert remote.glob(f"{tree}/{pattern}") == LOCAL.glob(f"{tree}/{pattern}")


def test_du(remote: Any, tree: Path) -> None:
    root = str(tree)
    assert remote.du(root) == LOCAL.du(root)
    assert remote.du(root, total=False) == LOCAL.du(root, total=False)
    assert remote.du(root, maxdepth=1) == LOCAL.du(root, maxdepth=1)
    assert remote.du(root, total=False, withdirs=True) == LOCAL.du(root, total=False, withdirs=True)
    assert remote.du(f"{root}/file.h5") == 70_000


def test_info(remote: Any, tree: Path) -> None:
    for below in ("", "/dir", "/file.h5", "/a b", "/été", "/question?", "/[x]", "/plus+and%41", "/dir/latin\udce9"):
        path = f"{tree}{below}"
        info, own = remote.info(path), LOCAL.info(path)
        assert (info["name"], info["type"]) == (own["name"], own["type"])
        assert remote.size(path) == LOCAL.size(path)
        # SFTP has times in seconds.
        assert int(info["mtime"]) == int(own["mtime"])
        assert abs(remote.modified(path) - LOCAL.modified(path)) < datetime.timedelta(seconds=1)
        assert (info["mode"] & 0o777, info["uid"]) == (own["mode"] & 0o777, own["uid"])
        assert info["age"] >= 0 and isinstance(info["subscribed"], bool) and isinstance(info["hit"], bool)
        assert (remote.isdir(path), remote.isfile(path), remote.exists(path)) == (LOCAL.isdir(path), LOCAL.isfile(path), True)


def test_ls(remote: Any, tree: Path) -> None:
    for below in ("", "/dir", "/empty", "/file.h5", "/dir/"):
        path = f"{tree}{below}"
        assert remote.ls(path, detail=False) == sorted(LOCAL.ls(path, detail=False))
    names = remote.ls(f"{tree}/dir", detail=False)
    assert os.fsencode(tree) + b"/dir/latin\xe9" in [os.fsencode(name) for name in names]
    assert remote.listdir(str(tree))[0]["name"].startswith(str(tree))
    assert remote.sizes([f"{tree}/a b", f"{tree}/file.h5"]) == [4, 70_000]


def test_missing_path(remote: Any, tree: Path) -> None:
    path = f"{tree}/none/at/all"
    assert not (remote.exists(path) or remote.isdir(path) or remote.isfile(path))
    for call in (remote.info, remote.ls, remote.modified, remote.size, remote.du):
        with pytest.raises(FileNotFoundError) as raised:
            call(path)
        assert raised.value.filename == path


def test_second_answers_come_from_the_tier(remote: Any, tree: Path) -> None:
    remote.ls(f"{tree}/dir")
    assert remote.info(f"{tree}/dir/run01.h5")["hit"]
    remote.invalidate_cache(f"{tree}/dir/run01.h5")
    assert not remote.info(f"{tree}/dir/run01.h5")["hit"]
