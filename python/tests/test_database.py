"""Tests of writes, reads and queries through the public interface."""

import asyncio
import gzip
import inspect
import os
import shutil
import signal
import stat
import subprocess
import sys
import threading
from datetime import datetime, timezone

import pytest
from conftest import command

import esker
from esker import aio


@pytest.fixture
def lab(db):
    """raw -> job:1 (of user:7) -> clean -> job:2 -> plot"""
    with db.batch() as b:
        b.insert("job:1", name="preprocess", k=3)
        b.insert("job:2", name="plot")
        b.link("user:7", "run", "job:1")
        b.link("job:1", "read", "file:/raw.nc")
        b.link("job:1", "write", "file:/clean.nc", bytes=12)
        b.link("job:2", "read", "file:/clean.nc")
        b.link("job:2", "write", "file:/plot.png")
    return db


def test_edges_are_found_by_paths(lab, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    lab.link("job:1", "write", f"file:{tmp_path}/clean.nc", bytes=5)
    assert lab.edge("job:1", "write", "clean.nc") == {"bytes": 5}
    assert lab.edge("job:1", "write", tmp_path / "clean.nc") == {"bytes": 5}
    assert [event.value for event in lab.edge_history("clean.nc", "wasWrittenBy", "job:1")] == [{"bytes": 5}]


def test_the_default_durability_is_that_of_the_command():
    default = inspect.signature(esker.open).parameters["durability"].default
    done = subprocess.run([command(), "get", "--help"], capture_output=True, text=True, check=True)
    about = done.stdout.partition("--durability")[2].partition("\n  -")[0]
    assert f"[default: {default}]" in about, about


def test_a_database_is_its_owners_alone(tmp_path):
    folder = tmp_path / "lab.esker"
    umask = os.umask(0)
    try:
        esker.open(str(folder), create=True).close()
    finally:
        os.umask(umask)
    assert stat.S_IMODE(folder.stat().st_mode) == 0o700
    assert stat.S_IMODE((folder / "store").stat().st_mode) == 0o700


def test_a_vertex_comes_back_as_it_was_written(db):
    when = datetime(2026, 3, 1, 12, 0, tzinfo=timezone.utc)
    tags = {"t": when, "b": b"\x00\xff", "l": [1, "a", None], "f": 0.5, "on": True, "k": -(2**63)}
    commit = db.insert("job:1", tags, name="x")
    found = db["job:1"]
    assert (found.attributes, found.tags) == ({"name": "x"}, tags)
    assert found.version == commit.version
    assert commit.vertices_created == 1
    assert "job:1" in db and "job:2" not in db


def test_the_past_is_readable(db):
    first = db.insert("job:1", k=1).version
    db.set("job:1", k=2)
    db.delete("job:1")
    assert db.get("job:1") is None
    assert db.get("job:1", as_of=first)["k"] == 1
    events = db.history("job:1")
    assert events[0].what == "deleted"
    assert [e.value for e in events if e.what == "set"] == [("k", 2), ("k", 1)]
    db.link("job:1", "read", "file:/a", n=1)
    db.unlink("job:1", "read", "file:/a")
    assert db.edge("job:1", "read", "file:/a") is None
    assert [e.value for e in db.edge_history("job:1", "read", "file:/a")] == [None, {"n": 1}]


def test_errors_say_what_to_do(db):
    with pytest.raises(esker.InvalidError, match="TYPE:KEY"):
        db.insert("nonsense")
    with pytest.raises(esker.InvalidError, match="unknown vertex type `jab`"):
        db.insert("jab:1")
    with pytest.raises(esker.InvalidError, match="64 bits"):
        db.insert("job:1", k=2**63)
    with pytest.raises(esker.InvalidError, match="a set is not a value"):
        db.insert("job:1", k={1})
    with pytest.raises(esker.InvalidError, match="no time zone"):
        db.insert("job:1", k=datetime(2026, 1, 1))
    with pytest.raises(esker.MissingError):
        db.lineage("file:/none")
    with pytest.raises(LookupError):
        db["job:9"]
    with pytest.raises(ValueError, match="expected a value"):
        db.find("a =")
    db.close()
    with pytest.raises(esker.UnavailableError, match="closed"):
        db.get("job:1")
    with pytest.raises(esker.InvalidError):
        esker.open("/nonexistent/lab.esker")


def test_a_batch_applies_whole_or_not_at_all(db):
    with pytest.raises(esker.InvalidError), db.batch() as b:
        b.insert("job:1")
        b.link("job:1", "reed", "file:/a")
    with pytest.raises(RuntimeError), db.batch() as b:
        b.insert("job:1")
        raise RuntimeError
    assert "job:1" not in db


def test_lineage_and_impact(lab):
    found = lab.lineage("file:/plot.png")
    assert found.paths() == [["file:/plot.png", "job:2", "file:/clean.nc", "job:1", "file:/raw.nc"]]
    assert found.complete and "written by job:2" in str(found)
    assert {"user:7", "job:1"} <= set(found.names)
    assert not lab.lineage("file:/plot.png", depth=1).complete
    by_user = lab.impact("file:/raw.nc").by_user()
    assert ("user:7", ["file:/clean.nc"], 12) in [(u.user, u.files, u.bytes) for u in by_user]


def test_traversals_by_calls_and_by_text(lab):
    chain = lab.travel().v("file:/plot.png").e("wasWrittenBy").v().e("read").v().repeat().return_fp()
    paths = chain.paths()
    assert ["file:/plot.png", "wasWrittenBy", "job:2", "read", "file:/clean.nc"] == min(paths, key=len)[:5]
    assert lab.travel(str(chain)).paths() == paths
    found = lab.travel().v(type="Job").where("name = 'plot'").e("write").v().run()
    assert found.names == ["file:/plot.png"]
    found = lab.travel().v("job:1").e("write").where("bytes > 100").v().run()
    assert found.names == []
    with pytest.raises(esker.InvalidError):
        lab.travel("v(")
    with pytest.raises(esker.InvalidError, match="did you mean `wasWrittenBy`"):
        lab.travel('v("file:/plot.png").e("write").v()')


def test_differences(lab):
    before = lab["job:1"].version
    lab.set("job:1", k=4)
    rows = [r for r in lab.diff(before) if r["id"] == "job:1" and r["kind"] == "vertex"]
    assert [(r["change"], r["before"], r["after"]) for r in rows] == [
        ("changed", '{"k":3,"name":"preprocess"}', '{"k":4,"name":"preprocess"}')
    ]
    rows = {(r["part"], r["name"]): (r["change"], r["before"]) for r in lab.diff("job:1", "job:2")}
    assert rows["tag", "k"] == ("removed", "4")
    assert rows["input", "/raw.nc"][0] == "removed"


def test_objects_and_files(db):
    for level in range(4):
        db.create_object("tas", app="cmip", step=level, tags={"variable": "tas", "level": level})
    assert db.count("level >= 2") == 2
    assert sorted(db.find("level >= 2", select=["level"])["level"]) == [2, 3]
    assert db.tag("level = 0", {"note": "it's"}) == 1
    assert db.find("note = 'it''s'")["level"] == [0]
    with pytest.raises(esker.InvalidError, match="did you mean `level`"):
        db.find("levle = 1")
    with pytest.raises(esker.InvalidError, match="`step` holds numbers; 'first' matches none"):
        db.find("step = 'first'")
    assert len(db.find("step = 'first'", lenient=True)) == 0
    with pytest.raises(esker.InvalidError, match="`step` holds numbers"):
        db.count("step = 'first'")
    with pytest.raises(esker.InvalidError, match="`step` holds numbers"):
        db.tag("step = 'first'", {"note": 1})
    db.mkdir("/d")
    db.create("/d/f")
    db.rename("/d/f", "/d/g")
    assert db.listdir("/d") == ["g"] and not db.stat("/d/g")["is_dir"]
    db.remove("/d/g")
    with pytest.raises(esker.MissingError):
        db.stat("/d/g")


def test_sparql(db):
    assert db.sparql_update("INSERT DATA { <urn:a> <urn:n> 1 , 2 . <urn:b> <urn:n> 'x' }") == (3, 0)
    found = db.sparql("SELECT ?n { <urn:a> <urn:n> ?n } ORDER BY ?n")
    assert list(found) == [{"n": 1}, {"n": 2}] and found.types == {"n": "Int64"}
    assert db.sparql("ASK { <urn:b> <urn:n> 'x' }") is True
    with pytest.raises(esker.InvalidError, match="sparql_update"):
        db.sparql("DELETE DATA { <urn:b> <urn:n> 'x' }")
    triples = db.sparql("CONSTRUCT WHERE { <urn:a> <urn:n> ?n }")
    assert sorted(triples["subject"]) == ["<urn:a>", "<urn:a>"]


@pytest.mark.parametrize("packed", [False, True])
def test_rdf_is_loaded(db, tmp_path, packed):
    text = b'<urn:a> <urn:n> 1 , 2.5 , true , "x"@en .'
    path = tmp_path / ("a.ttl.gz" if packed else "a.ttl")
    path.write_bytes(gzip.compress(text) if packed else text)
    db.load_rdf(path)
    db.load_rdf(path, graph="urn:g")
    found = db.sparql("SELECT (COUNT(*) AS ?n) { GRAPH <urn:g> { ?s ?p ?o } }")
    assert list(found) == [{"n": 4}]
    assert db.sparql("SELECT ?o { <urn:a> <urn:n> ?o FILTER(isNumeric(?o)) }").types == {"o": "Float64"}
    path.write_bytes(gzip.compress(b"<urn:a> <urn:n>") if packed else b"<urn:a> <urn:n>")
    with pytest.raises(esker.InvalidError):
        db.load_rdf(path)
    with pytest.raises(esker.EskerError):
        db.load_rdf(tmp_path / "a.csv")


def test_changes_are_watched(db):
    if db.role == "attached":
        with pytest.raises(esker.InUseError):
            db.watch()
        return
    changes = db.watch(period=0.01)
    db.link("job:1", "read", "file:/a")
    change = next(changes)
    assert ("job:1", "read", "file:/a") in change.edges
    assert list(db.watch(period=0.01, timeout=0.05)) == []


def test_asyncio(tmp_path):
    async def run():
        async with await aio.open(str(tmp_path / "a.esker"), create=True) as db:
            await asyncio.gather(*(db.insert(f"job:{i}") for i in range(20)))
            return await db.counts()

    assert asyncio.run(run())[0]["Job"] == 20


def test_a_second_process_attaches(own):
    db = own
    db.insert("job:1", k=1)
    code = f"import esker; db = esker.open({db.target!r}); print(db.role, db['job:1']['k']); db.insert('job:2')"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.split() == ["attached", "1"]
    assert "job:2" in db


def test_the_command_is_in_the_wheel(db):
    program = shutil.which("esker", path=str(__import__("pathlib").Path(sys.executable).parent))
    assert program, "the folder of python has no esker"
    db.link("job:1", "write", "file:/a")
    done = subprocess.run([program, "lineage", db.target, "file:/a"], capture_output=True, text=True, check=True)
    assert "written by job:1" in done.stdout


def test_ctrl_c_ends_long_work(db):
    """The signal arrives while the engine works without the GIL; the call must raise the handler's exception."""
    pa = pytest.importorskip("pyarrow")
    n = 20_000
    edges = pa.table({"source": ["job:1"] * n, "destination": [f"file:/{i}" for i in range(n)]})
    main = threading.main_thread().ident

    def interrupt(done, total):
        signal.pthread_kill(main, signal.SIGINT)

    with pytest.raises(KeyboardInterrupt):
        db.insert_many(edges=edges, edge_type="write", rows=100, progress=interrupt)
    assert 0 < len(db.scan("job:1")) < n


def test_what_progress_raises_is_raised(db):
    pa = pytest.importorskip("pyarrow")

    def fail(done, total):
        raise RuntimeError(f"{done} of {total}")

    with pytest.raises(RuntimeError, match="2 of 3"):
        db.insert_many(vertices=pa.table({"id": ["job:1", "job:2", "job:3"]}), rows=2, progress=fail)
