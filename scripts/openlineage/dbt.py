"""Checks the jobs that the server received from dbt-ol."""

from __future__ import annotations

import json
import sys
import urllib.request

with urllib.request.urlopen(sys.argv[1] + "/api/v1/namespaces/dbt-lab/jobs") as response:
    jobs = {job["name"]: job for job in json.load(response)["jobs"]}
name = next(name for name in jobs if ".warmest." in name)
warmest = jobs[name]
assert [i["name"] for i in warmest["inputs"]] == ["lab.main.clean"], warmest
assert [o["name"] for o in warmest["outputs"]] == ["lab.main.warmest"], warmest
run = warmest["latestRun"]
assert run["state"] == "COMPLETED", run
assert "kelvin" in next(job for n, job in jobs.items() if ".clean." in n)["facets"]["sql"]["query"]
print(f"dbt-ol: {len(jobs)} jobs; {name} read lab.main.clean and wrote lab.main.warmest")
