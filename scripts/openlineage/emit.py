"""Sends events with unmodified openlineage-python, and checks the runs, jobs and datasets on the server."""

from __future__ import annotations

import json
import sys
import urllib.parse
import urllib.request
from typing import Any

from openlineage.client import OpenLineageClient
from openlineage.client import facet_v2 as facets
from openlineage.client.event_v2 import (
    DatasetEvent,
    InputDataset,
    Job,
    JobEvent,
    OutputDataset,
    Run,
    RunEvent,
    RunState,
    StaticDataset,
)
from openlineage.client.transport.http import HttpCompression, HttpConfig, HttpTransport

url = sys.argv[1]
RUN = "01912a4b-0000-7000-8000-000000000001"
UNKNOWN = {"_producer": "https://example.org", "_schemaURL": "https://example.org/s.json", "deep": {"a": [1, 2.5, "x"]}}


def get(path: str) -> Any:
    with urllib.request.urlopen(url + path) as response:
        return json.load(response)


def quoted(name: str) -> str:
    return urllib.parse.quote(name, safe="")


def run_event(state: RunState, time: str) -> RunEvent:
    done = state == RunState.COMPLETE
    figures = facets.output_statistics_output_dataset.OutputStatisticsOutputDatasetFacet(rowCount=10, size=1000)
    parent = facets.parent_run.ParentRunFacet(
        run=facets.parent_run.Run("01912a4b-0000-7000-8000-000000000002"), job=facets.parent_run.Job("lab", "dag")
    )
    return RunEvent(
        eventTime=time,
        eventType=state,
        producer="https://example.org",
        run=Run(RUN, {"parent": parent, "unknownFacet": UNKNOWN}),
        job=Job("lab", "dag.task", {"sql": facets.sql_job.SQLJobFacet("select 1")}),
        inputs=[InputDataset("file", "/data/a.csv")],
        outputs=[OutputDataset("s3://lake", "x/y.parquet", outputFacets={"outputStatistics": figures} if done else {})],
    )


def all_events(client: OpenLineageClient) -> None:
    client.emit(run_event(RunState.START, "2026-01-01T00:00:00Z"))
    client.emit(run_event(RunState.COMPLETE, "2026-01-01T00:01:00Z"))
    static = [InputDataset("s3://lake", "x/y.parquet")], [OutputDataset("file", "/data/z.png")]
    client.emit(
        JobEvent(
            eventTime="2026-01-01T00:00:00Z",
            producer="https://example.org",
            job=Job("lab", "plot"),
            inputs=static[0],
            outputs=static[1],
        )
    )
    about = facets.documentation_dataset.DocumentationDatasetFacet("what it is")
    dataset = StaticDataset("s3://lake", "x/y.parquet", facets={"documentation": about})
    client.emit(DatasetEvent(eventTime="2026-01-02T00:00:00Z", producer="https://example.org", dataset=dataset))


counts = []
for compression in (None, HttpCompression.GZIP, None):
    all_events(OpenLineageClient(transport=HttpTransport(HttpConfig(url=url, compression=compression))))
    stats = get("/api/v1/stats")
    counts.append((stats["vertices"], stats["edges"]))
assert counts[0] == counts[1] == counts[2], "repeated events changed the graph"

run = get(f"/api/v1/jobs/runs/{RUN}")
assert run["state"] == "COMPLETED" and run["durationMs"] == 60000, run
assert run["facets"]["unknownFacet"] == UNKNOWN, run["facets"]
job = get("/api/v1/namespaces/lab/jobs/dag.task")
assert job["facets"]["sql"]["query"] == "select 1", job
assert job["inputs"] == [{"namespace": "file", "name": "/data/a.csv"}], job
data = get(f"/api/v1/namespaces/{quoted('s3://lake')}/datasets/{quoted('x/y.parquet')}")
assert data["description"] == "what it is", data
graph = get(f"/api/v1/lineage?nodeId={quoted('dataset:file:/data/a.csv')}")["graph"]
assert {node["id"] for node in graph} == {
    "dataset:file:/data/a.csv",
    "dataset:s3://lake:x/y.parquet",
    "dataset:file:/data/z.png",
    "job:lab:dag.task",
    "job:lab:plot",
}, graph
print("openlineage-python: RunEvent, JobEvent, DatasetEvent, plain and gzip; repeated events change nothing; facets are unchanged")
