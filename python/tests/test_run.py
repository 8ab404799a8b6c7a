"""Tests of recorded runs of Python programs."""

import asyncio
import subprocess
import sys
import warnings
from pathlib import Path

import pytest

import esker


def write(path, text="x"):
    Path(path).write_text(text)
    return path


def record(db, source, result, **more):
    with esker.run("preprocess", db=db, params={"k": 3, "api_token": "abc"}, **more) as run:
        run.read(write(source))
        run.write(write(result, "clean"), tags={"variable": "tas", "level": 2})
    return run


def test_a_run_explains_its_output(db, workdir):
    run = record(db, "raw.nc", "clean.nc")
    lineage = db.lineage("clean.nc")
    assert lineage.names[:3] == [f"file:{workdir}/clean.nc", run.id, f"file:{workdir}/raw.nc"]
    assert db.impact(Path("raw.nc")).by_user()[0].files == [f"file:{workdir}/clean.nc"]
    paths = db.travel().v("file:clean.nc").e("wasWrittenBy").v().e("read").v().return_fp().paths()
    assert paths[0][-1] == f"file:{workdir}/raw.nc"
    recorded = db[run.id]
    assert recorded["name"] == "preprocess"
    assert recorded["settings"] == ["api_token=[redacted]", "k=3"]
    assert recorded["exit"] == 0
    assert recorded["python"].startswith("3.")
    assert db["clean.nc"]["level"] == 2
    assert db.edge(run.id, "write", f"file:{workdir}/clean.nc")["size"] == len("clean")
    assert not list((workdir / "spool").iterdir()), "the spool still has the delivered run"


def test_two_runs_are_compared(db, workdir):
    first = record(db, "raw.nc", "clean.nc", tags={"campaign": "winter"})
    write("raw.nc", "another raw")
    second = record(db, "more.nc", "clean.nc", tags={"campaign": "summer"})
    rows = {(r["part"], r["name"].removeprefix(f"{workdir}/")): r for r in db.diff(first, second)}
    assert (rows["tag", "campaign"]["before"], rows["tag", "campaign"]["after"]) == ("winter", "summer")
    assert rows["input", "more.nc"]["change"] == "added"
    assert rows["input", "raw.nc"]["change"] == "removed"
    assert ("setting", "k") not in rows
    everything = db.diff(first.id, "last", all=True).to_polars()
    assert "same" in everything["change"].to_list()
    with pytest.raises(esker.InvalidError, match="there is no run `job:4711`"):
        db.diff(first, "job:4711")


def test_a_run_that_fails_says_why(db, workdir):
    with pytest.raises(ValueError, match="no such grid"):
        with esker.run("model", db=db) as run:
            raise ValueError("no such grid")
    recorded = db[run.id]
    assert (recorded["exit"], recorded["ended"]) == (1, "ValueError: no such grid")
    with pytest.raises(SystemExit):
        with esker.run("model", db=db) as run:
            sys.exit(3)
    assert db[run.id]["exit"] == 3


def test_each_call_of_a_function_is_a_run(db, workdir):
    @esker.run("step", db=db)
    def step(n):
        return n + 1

    assert [step(1), step(2)] == [2, 3]
    assert len(db.vertices("Execution", where="name = 'step'")) == 2


def outputs_of(db, run):
    return sorted(Path(path).name for path in db.scan(run, types=["write"])["destination"])


def test_the_run_of_a_generator_lasts_until_it_ends(db, workdir):
    @esker.run("items", db=db, observe=True)
    def items(n, fails=False):
        for i in range(n):
            write(f"made-{i}")
            sent = yield i
            if sent:
                yield sent
        if fails:
            raise ValueError("no more")
        return "end"

    def all_items():
        return (yield from items(2))

    def runs():
        return db.vertices("Execution", where="name = 'items'")["id"]

    first = items(3)
    assert next(first) == 0
    write("of-the-consumer")
    with esker.run("consumer", db=db) as consumer:
        assert first.send("sent") == "sent"
    assert runs() == []
    assert list(first) == [1, 2]
    (run,) = runs()
    assert db.edge(consumer.id, "belongs", run) is None
    assert outputs_of(db, run) == ["made-0", "made-1", "made-2"]
    generator = all_items()
    with pytest.raises(StopIteration) as ended:
        while True:
            next(generator)
    assert ended.value.value == "end"
    stopped = items(9)
    next(stopped)
    stopped.close()
    with pytest.raises(ValueError, match="no more"):
        list(items(1, fails=True))
    assert sorted(db[run]["exit"] for run in runs()) == [0, 0, 0, 1]


def test_the_run_of_an_asynchronous_generator_lasts_until_it_ends(db, workdir):
    @esker.run("items", db=db, observe=True)
    async def items(n):
        for i in range(n):
            await asyncio.sleep(0)
            write(f"made-{i}")
            yield i

    async def consume():
        taken = []
        async for item in items(2):
            with esker.run("consumer", db=db) as consumer:
                await asyncio.sleep(0)
            write("of-the-consumer")
            taken.append((item, consumer.id))
        stopped = items(9)
        await anext(stopped)
        await stopped.aclose()
        return taken

    taken = asyncio.run(consume())
    assert [item for item, _ in taken] == [0, 1]
    runs = db.vertices("Execution", where="name = 'items'")["id"]
    assert sorted(outputs_of(db, run) for run in runs) == [["made-0"], ["made-0", "made-1"]]
    assert all(db.edge(consumer, "belongs", run) is None for _, consumer in taken for run in runs)


def test_a_run_within_a_run_belongs_to_it(db, workdir):
    with esker.run("outer", db=db) as outer:
        with esker.run("inner", db=db) as inner:
            pass
    assert db.edge(inner.id, "belongs", outer.id) == {"evidence": "observed"}


def test_a_run_waits_in_the_spool_for_an_unreachable_database(workdir):
    lab = str(workdir / "lab.esker")
    with pytest.warns(RuntimeWarning, match="esker spool deliver"):
        with esker.run("far", db="esker://127.0.0.1:1?timeout=0.2s") as run:
            run.note({"late": True}, seed=7)
    waiting = list((workdir / "spool").iterdir())
    assert len(waiting) == 1 and waiting[0].suffix == ".done"
    assert run.id.split(":")[1] in waiting[0].name
    # A missing folder is created, and the database is open only for the delivery.
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        with esker.run("near", db=lab) as run:
            run.note({"late": True}, seed=7)
    with esker.open(lab) as db:
        assert db[run.id]["settings"] == ["late=true"]
        assert db[run.id]["seed"] == 7


def test_an_unusable_spool_is_a_warning(db, workdir):
    write("spool")
    with pytest.warns(RuntimeWarning, match="cannot be recorded"):
        with esker.run("full", db=db) as run:
            pass
    assert db[run.id]["exit"] == 0, "the database lacks the run"


def test_misuse_raises(workdir, monkeypatch):
    monkeypatch.delenv("ESKER_TARGET", raising=False)
    with pytest.raises(esker.InvalidError, match="ESKER_TARGET"):
        esker.run("nowhere")
    run = esker.run("x", db="lab.esker")
    with pytest.raises(esker.InvalidError, match="with"):
        run.read("a")


def test_a_run_records_its_script(workdir):
    script = write(
        "job.py",
        "import esker\nwith esker.run('job', db='lab.esker') as r:\n    print(r.id)\n",
    )
    done = subprocess.run([sys.executable, script, "--password", "abc"], capture_output=True, text=True, check=True)
    with esker.open("lab.esker") as db:
        recorded = db[done.stdout.strip()]
        assert recorded["script"] == f"{workdir}/job.py"
        assert recorded["command"].endswith("job.py --password [redacted]")
