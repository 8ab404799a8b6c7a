"""Tests of the files that a run observes."""

import asyncio
import contextvars
import os
import shutil
import sqlite3
import subprocess
import sys
import tempfile
import threading
import time
import warnings
from contextlib import contextmanager
from pathlib import Path

import pytest

import esker
from esker import _observe


@pytest.fixture
def lab(own, workdir):
    """An open database, in a folder with some files."""
    for name in ("raw.txt", "more.txt", "log.txt"):
        Path(name).write_text(name)
    # The files must be older than a run by more than the resolution of file times.
    time.sleep(0.05)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        yield own


def files(db, run, edge):
    """Returns the files of a run by their paths below the working directory."""
    names = [str(name) for name in db.travel().v(run.id).e(edge).v()]
    assert all(name.startswith("file:/") for name in names)
    return sorted(os.path.relpath(name.removeprefix("file:"), os.path.realpath(".")) for name in names)


def used(db, run):
    """Returns the inputs and the outputs of a run."""
    return files(db, run, "read"), files(db, run, "write")


@contextmanager
def observed(db, **more):
    with esker.run("observed", db=db, observe=True, **more) as run:
        yield run


def put(path, text="x", mode="w"):
    with open(path, mode) as file:
        file.write(text)


def get(path):
    with open(path) as file:
        return file.read()


def update():
    with open("raw.txt", "r+") as file:
        file.write("y")


def replaced():
    """Changes a file as careful programs do: a new file gets the old one's name."""
    text = get("raw.txt")
    put("raw.txt.new", text + "2")
    os.replace("raw.txt.new", "raw.txt")


def temporary():
    with tempfile.NamedTemporaryFile("w", dir=".") as file:
        file.write("x")
        file.flush()
        get(file.name)


def descriptors():
    fd = os.open("raw.txt", os.O_RDONLY)
    out = os.open("out.txt", os.O_WRONLY | os.O_CREAT)
    os.write(out, os.read(fd, 10))
    os.close(fd)
    os.close(out)


def moved_folder():
    os.mkdir("a")
    put("a/deep.txt")
    os.rename("a", "b")


def in_another_folder():
    os.mkdir("sub")
    os.chdir("sub")
    try:
        put("out.txt", get("../raw.txt"))
    finally:
        os.chdir("..")


def failed_rename():
    put("out.txt")
    with pytest.raises(OSError):
        os.rename("out.txt", "absent/out.txt")
    put("more.out")


def failed_open():
    with pytest.raises(OSError):
        get("absent.txt")
    with pytest.raises(OSError):
        open("raw.txt", "x")
    with pytest.raises(OSError):
        put("absent/out.txt")


def database():
    with sqlite3.connect("lab.sqlite") as connection:
        connection.execute("CREATE TABLE t (n)")
    connection.close()


@pytest.mark.parametrize(
    ("work", "inputs", "outputs"),
    [
        (lambda: get("raw.txt"), ["raw.txt"], []),
        (lambda: put("out.txt"), [], ["out.txt"]),
        (lambda: put("out.txt", get("raw.txt") + get(os.path.abspath("more.txt"))), ["more.txt", "raw.txt"], ["out.txt"]),
        (lambda: (put("out.txt"), get("out.txt")), [], ["out.txt"]),
        (lambda: (get("raw.txt"), put("raw.txt", "new")), ["raw.txt"], ["raw.txt"]),
        (update, ["raw.txt"], ["raw.txt"]),
        (lambda: put("log.txt", "more", "a"), [], ["log.txt"]),
        (lambda: open("log.txt", "a").close(), [], []),
        (descriptors, ["raw.txt"], ["out.txt"]),
        (lambda: os.truncate("raw.txt", 1), [], ["raw.txt"]),
        (replaced, ["raw.txt"], ["raw.txt"]),
        (temporary, [], []),
        (lambda: (put("draft.txt"), os.rename("draft.txt", "out.txt")), [], ["out.txt"]),
        (lambda: (put("draft.txt"), os.rename("draft.txt", "out.txt"), put("draft.txt")), [], ["draft.txt", "out.txt"]),
        (lambda: os.rename("raw.txt", "moved.txt"), ["raw.txt"], ["moved.txt"]),
        (moved_folder, [], ["b/deep.txt"]),
        (failed_rename, [], ["more.out", "out.txt"]),
        (lambda: os.link("raw.txt", "second.txt"), ["raw.txt"], ["second.txt"]),
        (lambda: (put("out.txt"), os.remove("out.txt")), [], []),
        (lambda: shutil.copy("raw.txt", "copy.txt"), ["raw.txt"], ["copy.txt"]),
        (lambda: shutil.move("raw.txt", "moved.txt"), ["raw.txt"], ["moved.txt"]),
        (lambda: (os.mkdir("d"), shutil.copytree("d", "e"), put("e/x"), shutil.rmtree("e")), [], []),
        (lambda: Path("out.txt").write_bytes(Path("raw.txt").read_bytes()), ["raw.txt"], ["out.txt"]),
        (lambda: put(b"out.txt"), [], ["out.txt"]),
        (in_another_folder, ["raw.txt"], ["sub/out.txt"]),
        (lambda: (os.symlink("raw.txt", "link.txt"), get("link.txt")), ["raw.txt"], []),
        (failed_open, [], []),
        (database, [], ["lab.sqlite"]),
    ],
)
def test_opened_files_are_inputs_and_outputs(lab, work, inputs, outputs):
    with observed(lab) as run:
        work()
    assert used(lab, run) == (inputs, outputs)
    assert [os.path.relpath(path, os.path.realpath(".")) for path in sorted(run.outputs)] == outputs


def test_the_state_of_an_input_is_that_before_the_run_changed_it(lab):
    with observed(lab) as run:
        get("raw.txt")
        put("raw.txt", "much longer than before")
    assert lab.edge(run.id, "read", Path("raw.txt"))["size"] == len("raw.txt")
    assert lab.edge(run.id, "write", Path("raw.txt"))["size"] == len("much longer than before")


def test_files_of_the_system_and_of_python_are_no_data(lab, workdir, monkeypatch):
    home = workdir / "home"
    monkeypatch.setenv("HOME", str(home))
    (home / ".cache").mkdir(parents=True)
    for name in (".cache/fonts.json", ".netrc", "data.txt", "sans.ttf"):
        put(home / name)
    monkeypatch.setenv("MPLCONFIGDIR", str(workdir / "matplotlib"))
    os.mkdir("matplotlib")
    put("module_of_this_test.py", "value = 1")
    monkeypatch.syspath_prepend(str(workdir))
    with observed(lab) as run:
        for path in ("/etc/passwd", "/proc/self/status", "/dev/null", os.__file__, pytest.__file__):
            get(path)
        for name in (".cache/fonts.json", ".netrc", "data.txt", "sans.ttf"):
            get(home / name)
        put(home / ".cache/more.json")
        put("matplotlib/fonts.json")
        import module_of_this_test

        assert module_of_this_test.value == 1
        put("made.py")
    assert used(lab, run) == (["home/data.txt"], ["made.py"])


def test_a_folder_is_ignored_on_request(lab):
    os.mkdir("scratch")
    with observed(lab, ignore=["scratch"]) as run:
        put("scratch/out.txt")
        put("out.txt")
    assert used(lab, run) == ([], ["out.txt"])


def test_a_declaration_takes_precedence(lab):
    with observed(lab) as run:
        get(run.read("raw.txt", tags={"level": 2}))
        put(run.write("out.txt"))
        get("more.txt")
        put("seen.txt")
        put("second.txt", get("log.txt"))
        run.read("log.txt", tags={"level": 3})
        run.write("second.txt")
    assert used(lab, run) == (["log.txt", "more.txt", "raw.txt"], ["out.txt", "second.txt", "seen.txt"])
    assert (lab["raw.txt"]["level"], lab["log.txt"]["level"]) == (2, 3)
    evidence = [lab.edge(run.id, "read", name)["evidence"] for name in ("raw.txt", "log.txt", "more.txt")]
    evidence += [lab.edge(run.id, "write", name)["evidence"] for name in ("out.txt", "second.txt", "seen.txt")]
    assert evidence == ["declared", "declared", "observed"] * 2


def test_without_observe_no_file_is_recorded(lab):
    with esker.run("plain", db=lab) as run:
        put("out.txt", get("raw.txt"))
    assert used(lab, run) == ([], [])
    with observed(lab):
        pass
    put("late.txt")
    assert run.outputs == []


def test_the_innermost_observed_run_gets_the_file(lab):
    with observed(lab) as outer:
        get("raw.txt")
        with observed(lab) as inner:
            put("inner.txt", get("more.txt"))
        with esker.run("not observed", db=lab) as plain:
            put("plain.txt")
        put("outer.txt")
    assert used(lab, inner) == (["more.txt"], ["inner.txt"])
    assert used(lab, plain) == ([], [])
    assert used(lab, outer) == (["raw.txt"], ["outer.txt", "plain.txt"])


def in_thread(work):
    thread = threading.Thread(target=work)
    thread.start()
    thread.join()


def test_a_thread_belongs_to_the_only_run(lab):
    with observed(lab) as run:
        in_thread(lambda: put("out.txt", get("raw.txt")))
    assert used(lab, run) == (["raw.txt"], ["out.txt"])


def test_a_run_of_another_thread_that_is_not_observed_gets_no_file_recorded(lab):
    def unobserved():
        with esker.run("not observed", db=lab):
            put("other.txt")

    with observed(lab) as run:
        in_thread(unobserved)
        put("out.txt")
    assert used(lab, run) == ([], ["out.txt"])


def test_two_runs_at_the_same_time_do_not_mix(lab):
    runs = {}
    meet = threading.Barrier(2, timeout=600)

    def work(name):
        with observed(lab) as runs[name]:
            meet.wait()
            put(f"{name}.txt")
            meet.wait()

    threads = [threading.Thread(target=work, args=[name]) for name in "ab"]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert [used(lab, runs[name]) for name in "ab"] == [([], ["a.txt"]), ([], ["b.txt"])]


def test_files_of_a_thread_that_may_belong_to_two_runs_are_counted(lab):
    with pytest.warns(RuntimeWarning, match="threads opened files 2 times"):
        with observed(lab) as outer:
            with observed(lab) as inner:
                in_thread(lambda: put("lost.txt", get("raw.txt")))
                context = contextvars.copy_context()
                in_thread(lambda: context.run(put, "kept.txt"))
    assert used(lab, inner) == ([], ["kept.txt"])
    assert used(lab, outer) == ([], [])
    assert lab[inner.id]["trace_unassigned"] == 2


def test_tasks_of_asyncio_keep_their_run(lab):
    async def step(name, meet):
        with observed(lab) as run:
            await meet.wait()
            put(f"{name}.txt", await asyncio.to_thread(get, "raw.txt"))
            await meet.wait()
        return run

    class Meet:
        """Waits for two tasks (`asyncio.Barrier` needs Python 3.11)."""

        def __init__(self):
            self.count, self.event = 0, asyncio.Event()

        async def wait(self):
            self.count += 1
            event = self.event
            if self.count == 2:
                self.count, self.event = 0, asyncio.Event()
                event.set()
            await event.wait()

    async def both():
        meet = Meet()
        return await asyncio.gather(step("a", meet), step("b", meet))

    first, second = asyncio.run(both())
    assert used(lab, first) == (["raw.txt"], ["a.txt"])
    assert used(lab, second) == (["raw.txt"], ["b.txt"])


def test_a_task_that_outlives_its_run_belongs_to_the_run_around_it(lab):
    async def work():
        with observed(lab) as outer:
            ended = asyncio.Event()

            async def task_of_run():
                await ended.wait()
                put("late.txt")

            with observed(lab) as inner:
                task = asyncio.create_task(task_of_run())
            ended.set()
            await task
        return outer, inner

    outer, inner = asyncio.run(work())
    assert (files(lab, outer, "write"), files(lab, inner, "write")) == (["late.txt"], [])


def test_files_beyond_the_limit_are_counted(lab, monkeypatch):
    monkeypatch.setattr(_observe, "FILES_MAX", 2)
    with pytest.warns(RuntimeWarning, match="3 files beyond the first 2; they are not recorded"):
        with observed(lab) as run:
            for n in range(5):
                put(f"{n}.txt")
            put("0.txt")
    assert used(lab, run) == ([], ["0.txt", "1.txt"])
    assert lab[run.id]["trace_left_out"] == 3


def test_a_failed_run_has_its_files(lab):
    with pytest.raises(ValueError):
        with observed(lab) as run:
            put("out.txt", get("raw.txt"))
            raise ValueError("no such grid")
    assert used(lab, run) == (["raw.txt"], ["out.txt"])


def test_each_call_of_a_function_has_its_files(lab):
    runs = []

    @esker.run("step", db=lab, observe=True)
    def step(source, target):
        put(target, get(source))

    @esker.run("later", db=lab, observe=True)
    async def later(source, target):
        await asyncio.sleep(0)
        put(target, get(source))

    step("raw.txt", "a.txt")
    asyncio.run(later("a.txt", "b.txt"))
    for name in ("step", "later"):
        [run] = lab.vertices("Execution", where=f"name = '{name}'")["id"]
        runs.append((sorted(lab.travel().v(run).e("read").v()), sorted(lab.travel().v(run).e("write").v())))
    here = f"file:{os.path.realpath('.')}"
    assert runs == [([f"{here}/raw.txt"], [f"{here}/a.txt"]), ([f"{here}/a.txt"], [f"{here}/b.txt"])]


def test_a_failure_of_observation_is_no_failure_of_the_program(lab, monkeypatch):
    def broken(self, path, flags):
        raise RuntimeError("broken")

    monkeypatch.setattr(_observe.Observer, "opened", broken)
    with observed(lab) as run:
        put("out.txt", get("raw.txt"))
    assert used(lab, run) == ([], [])
    assert get("out.txt") == "raw.txt"


def test_a_run_in_a_removed_folder_is_not_observed(lab, workdir, monkeypatch):
    os.mkdir("removed")
    monkeypatch.chdir("removed")
    os.rmdir(workdir / "removed")
    with pytest.warns(RuntimeWarning, match="the files of this run are not observed: FileNotFoundError"):
        with observed(lab) as run:
            get(workdir / "raw.txt")
    monkeypatch.chdir(workdir)
    assert used(lab, run) == ([], [])


def test_a_forked_process_is_not_observed(lab):
    with observed(lab) as run:
        child = os.fork()
        if child == 0:
            put("child.txt")
            os._exit(0)
        assert os.waitpid(child, 0)[1] == 0
        put("out.txt", get("child.txt"))
    assert used(lab, run) == (["child.txt"], ["out.txt"])


def test_nothing_is_installed_without_observation(workdir):
    code = """
import sys, esker
hooks = []
sys.addaudithook = hooks.append
finders = list(sys.meta_path)
with esker.run("plain", db="lab.esker"):
    open("out.txt", "w").close()
assert not hooks and sys.meta_path == finders
"""
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
