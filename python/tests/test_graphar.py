"""Tests of a GraphAr export with pyarrow and DuckDB."""

import subprocess
from pathlib import Path

import duckdb
import pyarrow
import pyarrow.parquet as parquet
import pytest
from conftest import command

CHUNK = 4


@pytest.fixture
def lab(own, tmp_path):
    with own.batch() as batch:
        for job in range(11):
            batch.link(f"user:{job % 3}", "run", f"job:{job}")
            for file in range(job):
                batch.link(f"job:{job}", "write", f"file:/out/{job}/{file}", bytes=file)
                batch.link(f"job:{job}", "read", f"file:/out/{(job + file) % 11}/0")
    own.set("file:/out/7/3", size=7)
    folder = tmp_path / "graphar"
    subprocess.run([command(), "export", "graphar", own.target, str(folder), "--chunk-size", str(CHUNK), "--quiet"], check=True)
    return folder


def table(folder: Path) -> pyarrow.Table:
    """Reads all chunks below a folder in order."""
    files = sorted(folder.rglob("chunk*"), key=lambda f: [int(p.lstrip("chunkpart")) for p in f.relative_to(folder).parts])
    return pyarrow.concat_tables([parquet.read_table(f) for f in files])


def test_indexes_and_offsets_are_consistent(own, lab):
    vertices = {kind.name: table(kind / "all") for kind in (lab / "vertex").iterdir()}
    assert {kind: rows.num_rows for kind, rows in vertices.items()} == {k: n for k, n in own.counts()[0].items() if n}
    for rows in vertices.values():
        assert rows["_graphArVertexIndex"].to_pylist() == list(range(rows.num_rows))
    names = {kind: rows["id"].to_pylist() for kind, rows in vertices.items()}
    sizes = dict(zip(names["File"], vertices["File"]["size"].to_pylist(), strict=True))
    assert sizes["file:/out/7/3"] == 7 and sizes["file:/out/7/2"] is None
    edges = 0
    for kind in (lab / "edge").iterdir():
        source, name, to = kind.name.split("_")
        at = kind / "ordered_by_source"
        ends, properties = table(at / "adj_list"), table(at / "all")
        assert properties["type"].unique().to_pylist() == [name]
        assert [names[source][i] for i in ends["_graphArSrcIndex"].to_pylist()] == properties["source"].to_pylist()
        assert [names[to][i] for i in ends["_graphArDstIndex"].to_pylist()] == properties["destination"].to_pylist()
        edges += ends.num_rows
        # The offsets of a part must delimit the edges of each source.
        for part in range(-(-len(names[source]) // CHUNK)):
            offsets = parquet.read_table(at / f"offset/chunk{part}")["_graphArOffset"].to_pylist()
            count = int.from_bytes((at / f"edge_count{part}").read_bytes(), "little")
            assert offsets[0] == 0 and offsets[-1] == count
            sources = table(at / f"adj_list/part{part}")["_graphArSrcIndex"].to_pylist() if count else []
            for i in range(len(offsets) - 1):
                assert set(sources[offsets[i] : offsets[i + 1]]) <= {part * CHUNK + i}
    assert edges == sum(n for t, n in own.counts()[1].items() if t in ("run", "write", "read"))


def test_duckdb_joins_it(lab):
    found = duckdb.sql(f"""
        SELECT j.id, count(*) FROM read_parquet('{lab}/edge/Job_write_File/ordered_by_source/adj_list/*/*') e
        JOIN read_parquet('{lab}/vertex/Job/all/*') j ON j._graphArVertexIndex = e._graphArSrcIndex GROUP BY ALL
    """).fetchall()
    assert dict(found) == {f"job:{n}": n for n in range(1, 11)}
