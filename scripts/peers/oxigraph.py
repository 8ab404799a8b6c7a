"""A peer of `esker bench rdf`: Oxigraph in memory. `esker bench rdf --help` describes its input and output."""

from __future__ import annotations

import json
import os
import statistics
import time
from pathlib import Path

import pyoxigraph


def main() -> None:
    runs = int(os.environ["ESKER_BENCH_RUNS"])
    limit = float(os.environ["ESKER_BENCH_SECONDS"])
    store = pyoxigraph.Store()
    begun = time.process_time()
    for path in os.environ["ESKER_BENCH_DATA"].splitlines():
        file_format = pyoxigraph.RdfFormat.from_extension(Path(path).suffix[1:])
        store.bulk_load(path=path, format=file_format)
    loaded = time.process_time() - begun
    print(json.dumps({"load": True, "cpu_s": loaded, "quads": len(store)}), flush=True)
    for path in map(Path, os.environ["ESKER_BENCH_QUERIES"].splitlines()):
        answer: dict[str, object] = {"query": path.stem}
        times: list[float] = []
        # The first run warms up.
        for _ in range(runs + 1):
            begun = time.process_time()
            result = store.query(path.read_text())
            # ASK has one answer, other queries are read to their end.
            rows = 1 if isinstance(result, pyoxigraph.QueryBoolean) else sum(1 for _ in result)
            times.append((time.process_time() - begun) * 1000)
            answer["rows"] = rows
            if sum(times) > limit * 1000:
                break
        answer["cpu_ms"] = statistics.median(times[1:] or times)
        print(json.dumps(answer), flush=True)


main()
