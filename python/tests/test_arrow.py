"""Tests of tables from and to other libraries that use Arrow."""

import duckdb
import networkx
import pandas
import polars
import pyarrow as pa
import pytest

import esker

FRAMES = {
    "polars": lambda d: polars.DataFrame(d),
    "pyarrow": lambda d: pa.table(d),
    "pandas": lambda d: pandas.DataFrame(d),
    "categories": lambda d: polars.DataFrame(d).with_columns(polars.col(polars.String).cast(polars.Categorical)),
    "duckdb": lambda d: duckdb.from_arrow(pa.table(d)).to_arrow_table(),
}


@pytest.mark.parametrize("frame", FRAMES.values(), ids=FRAMES.keys())
def test_inserted_rows_are_read_back(db, frame):
    vertices = frame({"id": ["job:1", "job:2"], "name": ["a", "b"], "k": [1, 2], "x": [0.5, 1.5], "on": [True, False]})
    edges = frame(
        {
            "source": ["job:1", "job:2"],
            "destination": ["file:/a", "file:/b"],
            "type": ["read", "write"],
            "n": [10, 20],
        }
    )
    done = db.insert_many(vertices, edges)
    assert (done.vertices, done.edges, done.vertices_created, done.edges_created) == (2, 2, 4, 2)
    assert db["job:1"].attributes == {"name": "a"}
    assert db["job:2"].tags == {"k": 2, "x": 1.5, "on": False}
    found = db.scan()
    for rows in (
        found.to_polars().to_dicts(),
        found.to_arrow().to_pylist(),
        found.to_pandas().to_dict("records"),
        # DuckDB needs pytz to return columns with times, so the projection omits them.
        [
            dict(zip(("source", "type", "destination", "n"), r, strict=True))
            for r in duckdb.from_arrow(found.to_arrow()).project("source, type, destination, n").fetchall()
        ],
        list(found),
    ):
        assert sorted((r["source"], r["type"], r["destination"], r["n"]) for r in rows) == [
            ("job:1", "read", "file:/a", 10),
            ("job:2", "write", "file:/b", 20),
        ]


def test_a_table_of_edges_is_inserted_into_another_database(db, tmp_path):
    """The column has complete versions, so that the other database gets the same history."""
    db.link("job:1", "read", "file:/a", n=1)
    db.link("job:1", "write", "file:/b", n=2)
    with esker.open(str(tmp_path / "other.esker"), create=True) as other:
        other.insert_many(edges=db.scan())
        assert list(other.scan()) == list(db.scan())
        assert other.edge_history("job:1", "read", "file:/a") == db.edge_history("job:1", "read", "file:/a")


def test_bad_rows_say_where(db):
    edges = {"source": ["job:1", "job:1", "job"], "destination": ["file:/a", "file:/b", "file:/c"]}
    with pytest.raises(esker.InvalidError, match=r"edges, row 2: `job` names no vertex.*2 edges before it"):
        db.insert_many(edges=pa.table(edges), edge_type="read", rows=2)
    with pytest.raises(esker.InvalidError, match="expected a column source; the table has: a"):
        db.insert_many(edges=pa.table({"a": [1]}))
    with pytest.raises(esker.InvalidError, match="column `d` is of Arrow type"):
        db.insert_many(vertices=pa.table({"id": ["job:1"], "d": pa.array([{"x": 1}])}))
    with pytest.raises(esker.InvalidError, match="__arrow_c_stream__"):
        db.insert_many(vertices=[1])


def test_graphs(db):
    igraph = pytest.importorskip("igraph")
    db.link("job:1", "read", "file:/a", n=1)
    db.link("job:1", "write", "file:/b")
    graph = db.to_networkx()
    assert networkx.descendants(graph, "job:1") == {"file:/a", "file:/b"}
    assert graph.edges["job:1", "file:/a", "read"]["n"] == 1
    assert isinstance(db.to_igraph(types=["read"]), igraph.Graph)
    assert db.to_igraph(types=["read"]).vs["name"] == ["job:1", "file:/a"]


def test_tables_are_printed(db):
    db.link("job:1", "read", "file:/<a>")
    found = db.scan()
    assert "(1 rows, 4 columns)" in repr(found)
    assert "file:/&lt;a&gt;" in found._repr_html_()
    assert found.shape == (1, 4) and found["source"] == ["job:1"]
