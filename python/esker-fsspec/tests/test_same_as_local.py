"""Far files as fsspec's own local file system has them."""

from __future__ import annotations

import datetime
import os
from pathlib import Path
from typing import Any

import fsspec
import pytest

LOCAL = fsspec.filesystem("file")


@pytest.fixture(params=["file", "sftp"])
def far(request: pytest.FixtureRequest) -> Any:
    if request.param == "file":
        return fsspec.filesystem("esker-site", via=request.getfixturevalue("site").via, origin="file://")
    site, origin = request.getfixturevalue("sftp")
    return fsspec.filesystem("esker-site", via=site.via, origin=origin)


def test_find(far: Any, tree: Path) -> None:
    root = str(tree)
    assert far.find(root) == LOCAL.find(root)
    for options in ({"maxdepth": 1}, {"maxdepth": 2, "withdirs": True}, {"withdirs": True}):
        assert far.find(root, **options) == LOCAL.find(root, **options)
    detailed, own = far.find(root, detail=True), LOCAL.find(root, detail=True)
    for name, info in own.items():
        assert (detailed[name]["size"], detailed[name]["type"]) == (info["size"], info["type"])
    assert far.find(f"{root}/file.h5") == [f"{root}/file.h5"]
    assert far.find(f"{root}/none") == LOCAL.find(f"{root}/none") == []


@pytest.mark.parametrize("topdown", [True, False])
def test_walk(far: Any, tree: Path, topdown: bool) -> None:
    def shape(fs: Any) -> dict[str, tuple[list[str], list[str]]]:
        return {at: (sorted(dirs), sorted(files)) for at, dirs, files in fs.walk(str(tree), topdown=topdown)}

    assert shape(far) == shape(LOCAL)
    first = [at for at, _, _ in far.walk(str(tree), topdown=topdown)]
    assert first[0 if topdown else -1] == str(tree)
    for at in first:
        above = at.rsplit("/", 1)[0]
        if above in first:
            assert (first.index(above) < first.index(at)) == topdown


def test_walk_goes_where_its_caller_wants(far: Any, tree: Path) -> None:
    seen = []
    for at, dirs, _ in far.walk(str(tree)):
        seen.append(at)
        if "deeper" in dirs:
            dirs.remove("deeper")
    assert f"{tree}/dir" in seen and f"{tree}/dir/deeper" not in seen


@pytest.mark.parametrize("pattern", ["*", "**", "*.h5", "dir/run0?.h5", "dir/**/*.h5", "**/deep*", "d[ij]r/*", "none*", "*/"])
def test_glob(far: Any, tree: Path, pattern: str) -> None:
    assert far.glob(f"{tree}/{pattern}") == LOCAL.glob(f"{tree}/{pattern}")


def test_du(far: Any, tree: Path) -> None:
    root = str(tree)
    assert far.du(root) == LOCAL.du(root)
    assert far.du(root, total=False) == LOCAL.du(root, total=False)
    assert far.du(root, maxdepth=1) == LOCAL.du(root, maxdepth=1)
    assert far.du(root, total=False, withdirs=True) == LOCAL.du(root, total=False, withdirs=True)
    assert far.du(f"{root}/file.h5") == 70_000


def test_info(far: Any, tree: Path) -> None:
    for below in ("", "/dir", "/file.h5", "/a b", "/été", "/question?", "/[x]", "/plus+and%41", "/dir/latin\udce9"):
        path = f"{tree}{below}"
        info, own = far.info(path), LOCAL.info(path)
        assert (info["name"], info["type"]) == (own["name"], own["type"])
        assert far.size(path) == LOCAL.size(path)
        # SFTP tells whole seconds.
        assert int(info["mtime"]) == int(own["mtime"])
        assert abs(far.modified(path) - LOCAL.modified(path)) < datetime.timedelta(seconds=1)
        assert (info["mode"] & 0o777, info["uid"]) == (own["mode"] & 0o777, own["uid"])
        assert info["age"] >= 0 and isinstance(info["told"], bool) and isinstance(info["hit"], bool)
        assert (far.isdir(path), far.isfile(path), far.exists(path)) == (LOCAL.isdir(path), LOCAL.isfile(path), True)


def test_ls(far: Any, tree: Path) -> None:
    for below in ("", "/dir", "/empty", "/file.h5", "/dir/"):
        path = f"{tree}{below}"
        assert far.ls(path, detail=False) == sorted(LOCAL.ls(path, detail=False))
    names = far.ls(f"{tree}/dir", detail=False)
    assert os.fsencode(tree) + b"/dir/latin\xe9" in [os.fsencode(name) for name in names]
    assert far.listdir(str(tree))[0]["name"].startswith(str(tree))
    assert far.sizes([f"{tree}/a b", f"{tree}/file.h5"]) == [4, 70_000]


def test_what_is_not_there(far: Any, tree: Path) -> None:
    path = f"{tree}/none/at/all"
    assert not (far.exists(path) or far.isdir(path) or far.isfile(path))
    for ask in (far.info, far.ls, far.modified, far.size, far.du):
        with pytest.raises(FileNotFoundError) as raised:
            ask(path)
        assert raised.value.filename == path


def test_second_answers_come_from_the_tier(far: Any, tree: Path) -> None:
    far.ls(f"{tree}/dir")
    assert far.info(f"{tree}/dir/run01.h5")["hit"]
    far.invalidate_cache(f"{tree}/dir/run01.h5")
    assert not far.info(f"{tree}/dir/run01.h5")["hit"]
