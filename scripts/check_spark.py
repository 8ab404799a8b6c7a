"""Compares Spark's counts of vertices and edges in an exported graph with those of `esker stats`, and joins two tables.

Usage: check_spark.py GRAPHAR STATS
"""

import json
import sys
from pathlib import Path

from pyspark.sql import SparkSession

folder, stats = Path(sys.argv[1]), json.loads(Path(sys.argv[2]).read_text())
spark = SparkSession.builder.master("local[2]").config("spark.ui.enabled", "false").config("spark.sql.shuffle.partitions", "4").getOrCreate()
spark.sparkContext.setLogLevel("ERROR")
read = spark.read.option("recursiveFileLookup", "true").parquet
for kind in sorted((folder / "vertex").iterdir()):
    rows = read(str(kind / "all"))
    found = rows.filter("not deleted").count()
    print(f"{kind.name}: {found} vertices, {len(rows.columns)} columns")
    assert found == stats["vertices"][kind.name], kind.name
for kind in sorted((folder / "edge").iterdir()):
    source, name, to = kind.name.split("_")
    edges = read(str(kind / "ordered_by_source/adj_list"))
    print(f"{kind.name}: {edges.count()} edges")
    assert edges.count() == stats["edges"][name], kind.name
writes = read(str(folder / "edge/Job_write_File/ordered_by_source/adj_list"))
jobs = read(str(folder / "vertex/Job/all"))
writers = (
    writes.groupBy("_graphArSrcIndex").count()
    .join(jobs, jobs["_graphArVertexIndex"] == writes["_graphArSrcIndex"])
    .select("id", "count", "start").orderBy("count", ascending=False)
)  # fmt: skip
writers.show(3, truncate=60)
assert writers.first()["count"] > 0 and writers.first()["start"] is not None
print("Spark's counts equal Esker's counts")
