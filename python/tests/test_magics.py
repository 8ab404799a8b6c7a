"""Runs the magics in notebook cells of a real kernel."""

from __future__ import annotations

import pathlib
import re
import subprocess
from typing import Any

import nbformat
import pytest
from conftest import command
from nbclient import NotebookClient
from nbclient.exceptions import CellExecutionError

import esker
from esker import _command


def run_cells(folder: pathlib.Path, *cells: str) -> list[list[Any]]:
    """Runs cells as a notebook; returns the outputs of each cell."""
    book = nbformat.v4.new_notebook(cells=[nbformat.v4.new_code_cell(c) for c in cells])
    NotebookClient(book, timeout=600, kernel_name="python3", resources={"metadata": {"path": str(folder)}}).execute()
    return [cell["outputs"] for cell in book["cells"]]


@pytest.fixture
def lab(tmp_path: pathlib.Path) -> pathlib.Path:
    with esker.open(str(tmp_path / "lab.esker"), create=True) as db:
        db.link("job:1", "read", "file:/data/<raw>.h5", bytes=7)
        db.link("job:1", "write", "file:/data/plot.png")
        db.create_object("tas", tags={"level": 2})
        db.create_object("pr", tags={"level": 1})
        db.sparql_update("INSERT DATA { <http://e/s> <http://e/p> 42 }")
    return tmp_path


def test_each_magic_shows_and_assigns(lab: pathlib.Path) -> None:
    outputs = run_cells(
        lab,
        "%load_ext esker\n%esker lab.esker",
        "%lineage file:/data/plot.png --depth 3",
        "%impact file:/data/<raw>.h5 -o made\nprint(sorted(made.names))",
        "%find -o rows level >= 2",
        "[row['name'] for row in rows]",
        "%%travel -o ends\nv(\"file:/data/plot.png\").e(\"wasWrittenBy\").v()",
        "%%sparql -o answer\nSELECT ?s WHERE { ?s ?p 42 }",
        "answer['s']",
        "%sparql ASK { ?s ?p 43 }",
        "name = 'file:/data/plot.png'\n%lineage {name}",
    )
    assert "lab.esker" in outputs[0][0]["data"]["text/plain"]
    shown = outputs[1][0]["data"]
    assert "job:1" in shown["text/plain"]
    # Names in the drawing must be escaped.
    assert "<svg" in shown["text/html"] and "&lt;raw&gt;.h5" in shown["text/html"] and "<raw>" not in shown["text/html"]
    assert "'file:/data/plot.png'" in outputs[2][0]["text"]
    assert "tas" in outputs[3][0]["data"]["text/html"]
    assert outputs[4][0]["data"]["text/plain"] == "['tas']"
    assert "esker.Found: 1" in str(outputs[5])
    assert outputs[7][0]["data"]["text/plain"] == "['http://e/s']"
    assert outputs[8][0]["data"]["text/plain"] == "False"
    assert "<svg" in outputs[9][0]["data"]["text/html"]


@pytest.mark.parametrize(
    ("cell", "expected"),
    [
        ("%lineage file:/none", "no vertex `file:/none`"),
        ("%lineage", "usage: %lineage"),
        ("%lineage file:/x --depth deep", "invalid int value: 'deep'"),
        ("%lineage file:/data/plot.png -o 1x", "`1x` is not a variable name"),
        ("%lineage 'file:/x", "No closing quotation"),
        ("%find level >", "level >"),
        ("%find levle > 1", "did you mean `level`"),
        ("%%sparql more\nASK {}", "is not allowed on the line"),
        ("%%sparql\nNONSENSE", "the query is not SPARQL"),
        ("%%sparql\nDELETE WHERE { ?s ?p ?o }", "update"),
        ("%travel", "usage: %%travel"),
        ("%esker nowhere.esker", "nowhere.esker"),
        ("%%esker run\n1", "usage: %%esker run"),
        ("%%esker log\n1", "expected `%%esker run NAME` above a cell, not `%%esker log`"),
        ("%%esker run step --param k\n1", "--param: expected NAME=VALUE, not `k`"),
        ("%%esker run step -o 1x\n1", "`1x` is not a variable name"),
        ("%%esker run step\nimport asyncio\nawait asyncio.sleep(0)", "use `with esker.run(…):` in the cell"),
        ("%%esker run step\n%lineage file:/none", "no vertex `file:/none`"),
        ("%esker get job:4711", "`esker get job:4711` ended with code 1"),
        ("%esker find --no-such-option", "ended with code 2"),
    ],
)
def test_mistakes_are_one_message(lab: pathlib.Path, cell: str, expected: str) -> None:
    with pytest.raises(CellExecutionError) as failed:
        run_cells(lab, "%load_ext esker\n%esker lab.esker", cell)
    assert failed.value.ename == "UsageError", failed.value
    assert expected in failed.value.evalue, failed.value.evalue


def text_of(outputs: list[Any]) -> str:
    """Returns what a cell printed."""
    return "".join(output["text"] for output in outputs if output["output_type"] == "stream")


def test_a_cell_is_recorded_as_a_run(lab: pathlib.Path) -> None:
    (lab / "raw.txt").write_text("1 2 3")
    outputs = run_cells(
        lab,
        "%load_ext esker\n%esker lab.esker",
        "%%esker run clean --param k=3 --tag campaign=winter -o done\n"
        "numbers = [int(word) for word in open('raw.txt').read().split()]\n"
        "with open('clean.txt', 'w') as file:\n"
        "    print(sum(numbers), file=file)\n"
        "api_token = 'hunter2'\n"
        "numbers",
        "(len(numbers), done.id)",
        "%lineage clean.txt",
        "%%esker run second --no-observe\nopen('raw.txt').close()",
    )
    assert outputs[1][0]["data"]["text/plain"] == "[1, 2, 3]"
    assert "clean: 1 files read, 1 written" in text_of(outputs[1])
    assert outputs[2][0]["data"]["text/plain"].startswith("(3, 'execution:")
    assert "raw.txt" in outputs[3][0]["data"]["text/plain"]
    assert "files read" not in text_of(outputs[4])
    with esker.open(str(lab / "lab.esker")) as db:
        [run] = db.vertices("Execution", where="name = 'clean'")["id"]
        assert (db[run]["exit"], db[run]["campaign"]) == (0, "winter")
        cell, k = db[run]["settings"]
        assert cell.startswith("cell=numbers = [int(word)") and "hunter2" not in cell and k == "k=3"
        assert db.travel().v(run).e("write").v().run().names == [f"file:{lab}/clean.txt"]
        [second] = db.vertices("Execution", where="name = 'second'")["id"]
        assert db.travel().v(second).e("read").v().run().names == []


@pytest.mark.parametrize(
    ("code", "name", "message"),
    [("def wrong():\n    1 / 0\nwrong()", "ZeroDivisionError", "division by zero"), ("1 +", "SyntaxError", "invalid syntax")],
)
def test_a_cell_that_fails_is_recorded_and_shown_once(lab: pathlib.Path, code: str, name: str, message: str) -> None:
    with pytest.raises(CellExecutionError) as failed:
        run_cells(lab, "%load_ext esker\n%esker lab.esker", f"%%esker run step\n{code}")
    assert (failed.value.ename, failed.value.evalue.partition(" (")[0]) == (name, message)
    shown = re.sub(r"\x1b\[[0-9;]*m", "", failed.value.traceback)
    assert shown.count(f"{name}: {message}") == 1, shown
    # IPython shows all frames of a syntax error.
    assert name == "SyntaxError" or ("magics.py" not in shown and "in wrong()" in shown), shown
    with esker.open(str(lab / "lab.esker")) as db:
        [run] = db.vertices("Execution", where="name = 'step'")["id"]
        assert db[run]["exit"] == 1 and db[run]["ended"].startswith(f"{name}: {message}")


def test_commands_use_the_open_database(lab: pathlib.Path) -> None:
    outputs = run_cells(
        lab,
        "%load_ext esker\n%esker lab.esker",
        "%esker find \"level >= 2\"",
        "name = 'job:1'\n%esker edges {name} --format csv",
        "%esker init second.esker",
        "%esker second.esker\n%esker find \"level >= 2\" --lenient",
    )
    assert "tas" in text_of(outputs[1]) and "pr" not in text_of(outputs[1]).split()
    assert "file:/data/<raw>.h5" in text_of(outputs[2])
    assert "second.esker" in text_of(outputs[3])
    assert "tas" not in text_of(outputs[4])


def test_a_command_needs_no_open_database(lab: pathlib.Path) -> None:
    outputs = run_cells(lab, "%load_ext esker", "%esker find lab.esker \"level >= 2\"", "%esker ./lab.esker")
    assert "tas" in text_of(outputs[1])
    assert "lab.esker" in outputs[2][0]["data"]["text/plain"]


def test_the_names_of_commands_are_those_of_the_program() -> None:
    text = subprocess.run([command(), "--help"], capture_output=True, text=True, check=True).stdout
    commands = re.findall(r"^  ([a-z]+) +[A-Z]", text.partition("\nOptions")[0], re.M)
    assert len(commands) > 40
    assert set(commands) == _command.COMMANDS


def test_the_database_of_a_variable_is_used(lab: pathlib.Path) -> None:
    with pytest.raises(CellExecutionError, match="no database is open: %esker TARGET"):
        run_cells(lab, "%load_ext esker", "%find level = 1")
    outputs = run_cells(lab, "%load_ext esker\nimport esker\ndb = esker.open('lab.esker')", "%find -o one level = 1", "len(one)")
    assert outputs[2][0]["data"]["text/plain"] == "1"


def test_a_drawing_has_a_limit(tmp_path: pathlib.Path) -> None:
    with esker.open(str(tmp_path / "db"), create=True) as db:
        for i in range(70):
            db.link("job:1", "read", f"file:/in/{i}")
        db.link("job:1", "write", "file:/out")
        assert db.lineage("file:/out").to_svg() is None
        assert db.lineage("file:/in/1", depth=0).to_svg() is None
        single = db.lineage("file:/out", depth=0)
        assert single._repr_html_().startswith("<pre")


def test_cycles_are_drawn(tmp_path: pathlib.Path) -> None:
    with esker.open(str(tmp_path / "db"), create=True) as db:
        db.link("job:1", "read", "file:/a", at="2026-01-01")
        db.link("job:1", "write", "file:/b", at="2026-01-01")
        db.link("job:2", "read", "file:/b", at="2026-01-02")
        db.link("job:2", "write", "file:/a", at="2026-01-02")
        picture = db.lineage("file:/a").to_svg()
        assert picture is not None
        assert picture.count("<rect") in (3, 4)
