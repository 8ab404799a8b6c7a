"""Imports, exports and mounts by the command, and tables."""

import os
import warnings
from pathlib import Path

import pytest

import esker

LOGS = Path(__file__).resolve().parents[2] / "crates/cli/src/commands/demo"
FIGURE = "file:/lab/results/figure3.png"


@pytest.fixture
def db(tmp_path):
    with esker.open(tmp_path / "lab.esker", create=True) as db:
        yield db


def test_logs_are_imported_into_an_open_database(db):
    report = db.import_darshan(LOGS)
    assert (report["imported"], report["vertices_created"]) == (5, 25), report
    assert "file:/lab/input/topography.nc" in db.lineage(FIGURE).names
    # The logs that were imported before are skipped.
    again = db.import_darshan(*sorted(LOGS.glob("*.darshan")), jobs=1)
    assert (again["imported"], again["known"]) == (0, 5), again


def test_refusals_are_exceptions(db, tmp_path):
    with pytest.raises(esker.errors.InvalidError, match="no such file"):
        db.import_darshan(tmp_path / "absent")
    with pytest.raises(esker.errors.InvalidError, match="--no-such-option"):
        db.import_darshan(LOGS, no_such_option=True)
    (tmp_path / "bad.darshan").write_bytes(b"no log")
    with pytest.warns(UserWarning, match=r"bad\.darshan"):
        report = db.import_darshan(tmp_path / "bad.darshan")
    assert (report["logs"], report["imported"]) == (1, 0), report


def test_exports_and_trees(db, tmp_path):
    db.import_darshan(LOGS)
    db.export_prov(tmp_path / "figure.ttl", FIGURE, depth=1)
    text = (tmp_path / "figure.ttl").read_text()
    assert "figure3.png" in text and "topography" not in text
    with pytest.raises(esker.errors.InvalidError, match="figure.ttl"):
        db.export_prov(tmp_path / "figure.ttl", FIGURE)
    db.export_ro_crate(FIGURE, tmp_path / "crate", license="https://spdx.org/licenses/CC-BY-4.0")
    assert (tmp_path / "crate/ro-crate-metadata.json").exists()
    record = db.export_record(FIGURE, standard="schema-org", fields={"title": "A figure", "creator": ["Curie, Marie", "Curie, Pierre"]})
    assert record is not None
    assert (record["name"], [one["familyName"] for one in record["creator"]]) == ("A figure", ["Curie", "Curie"])
    assert any("mean.nc" in one["name"] for one in record["isBasedOn"]), record
    assert db.export_record(FIGURE, tmp_path / "figure.xml") is None
    assert "kernel-4" in (tmp_path / "figure.xml").read_text()
    with pytest.raises(esker.errors.InvalidError, match="unknown field `heading`"):
        db.export_record(FIGURE, fields={"heading": "x"})
    (tmp_path / "tree/deep").mkdir(parents=True)
    (tmp_path / "tree/deep/file").write_text("x")
    db.import_tree(tmp_path / "tree", at="/t")
    assert db.listdir("/t/deep") == ["file"]
    (tmp_path / "copy.ttl").write_text(text)
    with esker.open(tmp_path / "copy.esker", create=True) as copy:
        copy.import_prov(tmp_path / "copy.ttl")
        assert copy.get(FIGURE) is not None


@pytest.mark.skipif(os.geteuid() != 0 or not os.path.exists("/dev/fuse"), reason="needs root and /dev/fuse")
def test_a_database_is_mounted_for_a_block(db, tmp_path):
    (tmp_path / "mnt").mkdir()
    with db.mount(tmp_path / "mnt", data=tmp_path / "data") as at:
        (at / "file").write_text("text")
        assert (at / "file").read_text() == "text"
        assert db.listdir("/") == ["file"]
    assert not (tmp_path / "mnt/file").exists()


def test_parts_of_tables(db):
    with db.batch() as batch:
        for number in range(30):
            batch.insert(f"job:{number:02}", name=f"n{number}")
    table = db.vertices("Job", select=["name"])
    assert (len(table), table.shape) == (30, (30, len(table.columns)))
    rows = list(table)
    assert table[0] == rows[0] and table[-1] == rows[-1] and table[29] == rows[29]
    assert list(table[2:5]) == rows[2:5] and list(table[-3:]) == rows[-3:] and list(table[40:]) == []
    assert list(table.head(2)) == rows[:2] and list(table.tail(2)) == rows[-2:] and len(table.head(99)) == 30
    assert table["name"] == [row["name"] for row in rows] and table[1:3]["name"] == [row["name"] for row in rows[1:3]]
    assert table["name", "id"].columns == ["name", "id"] and table["name", "id"][3] == {"name": rows[3]["name"], "id": rows[3]["id"]}
    for wrong, error in [(30, IndexError), (-31, IndexError), ("nam", KeyError), (("name", "nam"), KeyError), (slice(0, 9, 2), ValueError), (1.5, TypeError)]:
        with pytest.raises(error):
            table[wrong]
    with pytest.raises(TypeError, match=r"to_polars\(\)\.sort"):
        table.sort_values("name")


def test_a_part_shares_the_memory_of_its_table(db):
    pyarrow = pytest.importorskip("pyarrow")
    with db.batch() as batch:
        for number in range(9):
            batch.insert(f"job:{number}", name=f"n{number}")
    table = db.vertices("Job", select=["name"])
    part = pyarrow.table(table[3:5]["name",])
    assert part.column_names == ["name"] and part.num_rows == 2
    whole, cut = (pyarrow.table(t)["name"].chunk(0).buffers()[2].address for t in (table, table[3:5]["name",]))
    assert whole == cut


def test_cut_cells_end_in_an_ellipsis(db):
    db.insert("job:1", name="x" * 100)
    text = repr(db.vertices("Job", select=["name"]))
    assert "x…" in text and "x" * 41 not in text


def test_no_warning_without_a_reason(db):
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        db.import_darshan(LOGS)
