"""Runs a small Spark job whose OpenLineage listener sends events to a server."""

from __future__ import annotations

import sys
from pathlib import Path

from pyspark.sql import SparkSession

url, jar, folder = sys.argv[1:]
settings = {
    "spark.ui.enabled": "false",
    "spark.jars": jar,
    "spark.extraListeners": "io.openlineage.spark.agent.OpenLineageSparkListener",
    "spark.openlineage.transport.type": "http",
    "spark.openlineage.transport.url": url,
    "spark.openlineage.transport.compression": "gzip",
    "spark.openlineage.namespace": "spark-lab",
}
builder = SparkSession.builder.appName("lab").master("local[1]")
for key, value in settings.items():
    builder = builder.config(key, value)
spark = builder.getOrCreate()
Path(folder, "in.csv").write_text("id,v\n1,2\n2,3\n")
table = spark.read.csv(f"file://{folder}/in.csv", header=True)
table.selectExpr("id", "v * 2 as w").write.parquet(f"file://{folder}/out.parquet")
spark.stop()
