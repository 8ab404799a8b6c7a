"""Tests of a database's namespace through fsspec: fsspec's abstract tests, and tests of names, errors and URLs.

The tests need the package `esker`; `scripts/check-python.sh` installs it and runs them.
"""

from __future__ import annotations

import os
import pathlib
from collections.abc import Iterator
from typing import Any

import fsspec
import pytest
from fsspec.tests import abstract

esker = pytest.importorskip("esker")

from esker_fsspec import EskerFileSystem  # noqa: E402

CONTENTS = "the file system has names and attributes only; contents are read and written below a mount"


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    path = str(tmp_path_factory.mktemp("lab") / "lab.esker")
    with esker.open(path, create=True):
        yield path


class Fixtures(abstract.AbstractFixtures):
    @pytest.fixture
    def fs(self, folder: str) -> EskerFileSystem:
        return EskerFileSystem(target=folder)

    @pytest.fixture
    def fs_path(self) -> str:
        return "/tests"

    @pytest.fixture(autouse=True)
    def clean(self, fs: EskerFileSystem) -> Iterator[None]:
        fs.makedirs("/tests", exist_ok=True)
        yield
        if fs.exists("/tests"):
            fs.rm("/tests", recursive=True)

    @pytest.fixture
    def fs_10_files_with_hashed_names(self) -> None:
        pytest.xfail(CONTENTS)

    @pytest.fixture
    def local_10_files_with_hashed_names(self) -> None:
        pytest.xfail(CONTENTS)


class TestCopy(abstract.AbstractCopyTests, Fixtures):
    pass


class TestGet(abstract.AbstractGetTests, Fixtures):
    pass


class TestPut(abstract.AbstractPutTests, Fixtures):
    pass


@pytest.mark.xfail(raises=NotImplementedError, strict=True, reason=CONTENTS)
class TestOpen(abstract.AbstractOpenTests, Fixtures):
    pass


@pytest.mark.xfail(raises=NotImplementedError, strict=True, reason=CONTENTS)
class TestPipe(abstract.AbstractPipeTests, Fixtures):
    pass


@pytest.fixture
def fs(tmp_path: pathlib.Path) -> EskerFileSystem:
    return EskerFileSystem(target=str(tmp_path / "lab.esker"), create=True, skip_instance_cache=True)


def test_names_and_attributes(fs: EskerFileSystem) -> None:
    fs.makedirs("/a/b/c")
    fs.touch("/a/b/one.nc")
    fs.touch("/a/two.h5")
    assert fs.ls("/a", detail=False) == ["/a/b", "/a/two.h5"]
    entry = fs.info("a/two.h5")
    assert (entry["name"], entry["type"], entry["size"]) == ("/a/two.h5", "file", 0)
    assert entry["uid"] == os.getuid() and entry["mode"] & 0o777 == 0o644
    assert fs.modified("/a/two.h5").tzinfo is not None
    assert fs.find("/") == ["/a/b/one.nc", "/a/two.h5"]
    assert fs.glob("/a/**/*.nc") == ["/a/b/one.nc"]
    assert [sorted(names) for _, names, _ in fs.walk("/a")] == [["b"], ["c"], []]
    assert fs.du("/") == 0 and fs.isdir("/") and not fs.exists("/nothing")


def test_a_renamed_file_keeps_its_lineage(fs: EskerFileSystem) -> None:
    fs.makedirs("/data")
    fs.touch("/data/old.nc")
    fs.db.link("job:1", "write", "file:/data/old.nc")
    fs.mv("/data/old.nc", "/data/new.nc")
    assert "job:1" in fs.db.lineage("file:/data/new.nc").names
    fs.touch("/top.nc")
    fs.mv("/top.nc", "/data")
    assert fs.ls("/data", detail=False) == ["/data/new.nc", "/data/top.nc"]


def test_errors_are_those_of_python_files(fs: EskerFileSystem) -> None:
    fs.makedirs("/d/e")
    fs.touch("/d/f")
    for error, call in [
        (FileNotFoundError, lambda: fs.info("/none")),
        (FileNotFoundError, lambda: fs.ls("/none")),
        (FileNotFoundError, lambda: fs.rm_file("/none")),
        (FileNotFoundError, lambda: fs.mv("/none", "/x")),
        (FileExistsError, lambda: fs.mkdir("/d")),
        (FileExistsError, lambda: fs.makedirs("/d")),
        (FileExistsError, lambda: fs.open("/d/f", "xb")),
        (OSError, lambda: fs.rmdir("/d")),
        (NotADirectoryError, lambda: fs.rmdir("/d/f")),
        (IsADirectoryError, lambda: fs.cat_file("/d")),
        (NotImplementedError, lambda: fs.pipe_file("/d/g", b"x")),
        (ValueError, lambda: fs.open("/d/f", "r+b")),
    ]:
        with pytest.raises(error):
            call()
    with pytest.raises(NotImplementedError, match="esker mount"), fs.open("/d/h", "wb") as f:
        f.write(b"contents")
    assert not fs.exists("/d/h") and not fs.exists("/d/g")
    assert fs.cat_file("/d/f") == b""
    with fs.open("/d/h", "wb"):
        pass
    assert fs.isfile("/d/h")


def test_urls(fs: EskerFileSystem, monkeypatch: pytest.MonkeyPatch) -> None:
    fs.makedirs("/x")
    fs.touch("/x/y")
    target = fs.db.target
    other, path = fsspec.url_to_fs(f"esker://{os.path.abspath(target)}!/x/y")
    assert path == "/x/y" and other.isfile(path)
    assert fsspec.url_to_fs(other.unstrip_protocol(path))[1] == "/x/y"
    split: Any = EskerFileSystem._split
    assert split("esker://host:7400/a/b") == ("esker://host:7400", "a/b")
    assert split("esker://host:7400") == ("esker://host:7400", "")
    assert split("esker:///lab.esker!/a") == ("/lab.esker", "a")
    assert split("esker:///lab.esker") == ("/lab.esker", "")
    assert split("/a/b") == (None, "/a/b")
    monkeypatch.delenv("ESKER_TARGET", raising=False)
    with pytest.raises(ValueError, match="which database"):
        EskerFileSystem(skip_instance_cache=True)
    monkeypatch.setenv("ESKER_TARGET", target)
    assert EskerFileSystem(skip_instance_cache=True).isfile("/x/y")
    with pytest.raises((OSError, ValueError)):
        EskerFileSystem(target="/nowhere/lab.esker", skip_instance_cache=True)
