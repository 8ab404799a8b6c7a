"""Checks packaging/prometheus, packaging/grafana and docs/book/monitoring.md against a real Prometheus that reads real servers.

Usage: check.py PROMETHEUS METRICS PID…

PROMETHEUS is the address of Prometheus. The file METRICS has the concatenated answers of `/metrics` of all kinds of servers. After all other checks, the
script ends the servers, which are the processes PID, and waits until Prometheus has the alerts for that.
"""

from __future__ import annotations

import json
import os
import pathlib
import re
import signal
import sys
import time
import urllib.error
import urllib.parse
import urllib.request
from collections.abc import Iterator

ROOT = pathlib.Path(__file__).resolve().parents[2]
DASHBOARD = ROOT / "packaging" / "grafana" / "esker.json"
TESTS = ROOT / "packaging" / "prometheus" / "esker.rules.test.yml"
PAGE = ROOT / "docs" / "book" / "monitoring.md"
DEADLINE = 180
"""Seconds after which a missing result is an error. The usual time is 3 to 10 s."""
STOPPED = {"EskerServerDown", "EskerStoreUnserved", "EskerMemberServesNothing"}
"""Alerts that must be there after all servers have stopped."""
VARIABLES = {"$job": ".+", "$instance": ".+", "$__rate_interval": "1m"}
KEYWORDS = {"and", "or", "unless", "bool", "offset"}
GROUPING = re.compile(r"\b(?:by|on|without|ignoring)\s*\(([^)]*)\)")
SELECTOR = re.compile(r"([a-zA-Z_:][\w:]*)\b(?!\s*\()(\{[^}]*\})?")

prometheus = ""
failures: list[str] = []
summaries: list[str] = []


def get(path: str, **parameters: str) -> object:
    url = f"{prometheus}/api/v1/{path}?{urllib.parse.urlencode(parameters)}"
    try:
        with urllib.request.urlopen(url, timeout=60) as response:
            return json.load(response)["data"]
    except urllib.error.HTTPError as error:
        raise ValueError(json.load(error)["error"]) from None


def result(expression: str) -> list[dict]:
    return get("query", query=expression)["result"]  # type: ignore[index,return-value]


def selectors(expression: str) -> set[str]:
    """Returns the vector selectors of a PromQL expression, without their ranges."""
    without = re.sub(r"\[[^\]]*\]", "", GROUPING.sub("", expression))
    return {m[0] for m in SELECTOR.finditer(without) if m[1] not in KEYWORDS}


def names(expression: str) -> set[str]:
    return {selector.split("{")[0] for selector in selectors(expression)}


def labels_of(expression: str) -> set[str]:
    """Returns the labels of all series that the expression reads."""
    return {label for name in names(expression) for series in get("series", **{"match[]": name}) for label in series}  # type: ignore[attr-defined]


def check_labels(where: str, expression: str, templates: str) -> None:
    """Groupings and the templates of legends and annotations use only labels that the series have."""
    grouped = {label.strip() for group in GROUPING.findall(expression) for label in group.split(",")} - {""}
    for label in sorted(grouped - labels_of(expression)):
        failures.append(f"{where}: no series has the label `{label}` of `{expression}`")
    # A grouping keeps no other labels. The labels of a recorded series are those of its rule.
    kept = grouped if GROUPING.search(expression) else labels_of(expression)
    for label in sorted(set(re.findall(r"\$labels\.(\w+)|\{\{(\w+)\}\}", templates))):
        name = "".join(label)
        if name not in kept:
            failures.append(f"{where}: the series of `{expression}` have no label `{name}`")


def panels(items: list[dict]) -> Iterator[dict]:
    for panel in items:
        yield from panels(panel["panels"]) if panel["type"] == "row" and panel.get("panels") else [panel]


def wait_for_targets() -> None:
    """Waits until each job has a target that Prometheus has read."""
    jobs = set(re.findall(r"^ *- job_name: (.*)", get("status/config")["yaml"], re.M))  # type: ignore[index]
    end = time.monotonic() + DEADLINE
    while missing := jobs - {series["metric"]["job"] for series in result("up == 1")}:
        if time.monotonic() > end:
            errors = {target["lastError"] for target in get("targets")["activeTargets"]}  # type: ignore[index]
            sys.exit(f"monitoring: Prometheus reads no target of {', '.join(sorted(missing))}: {errors}")
        time.sleep(0.3)


def wait_for_data(expressions: dict[str, str]) -> None:
    """Asks Prometheus for each expression until it has data. The values of `expressions` name their places."""
    recorded = {rule["name"] for group in get("rules")["groups"] for rule in group["rules"]}  # type: ignore[index]
    known = recorded | set(get("label/__name__/values"))  # type: ignore[call-overload]
    waiting = {}
    for expression, where in expressions.items():
        if unknown := names(expression) - known:
            failures.append(f"{where}: no server has the metric {', '.join(sorted(unknown))}: `{expression}`")
        else:
            waiting[expression] = where
    end = time.monotonic() + DEADLINE
    while waiting and time.monotonic() < end:
        for expression, where in list(waiting.items()):
            try:
                if result(expression):
                    del waiting[expression]
            except ValueError as error:
                failures.append(f"{where}: `{expression}`: {error}")
                del waiting[expression]
        time.sleep(0.3)
    failures.extend(f"{where}: `{expression}` has no data" for expression, where in waiting.items())


def check_dashboard() -> set[str]:
    """Returns the metrics that the dashboard uses."""
    board = json.loads(DASHBOARD.read_text())
    used, wanted, titles = set(), {}, []
    for panel in panels(board["panels"]):
        if panel["type"] == "row":
            continue
        titles.append(panel["title"])
        where = f"dashboard, panel `{panel['title']}`"
        if not panel.get("description") or not panel["fieldConfig"]["defaults"].get("unit"):
            failures.append(f"{where} has no description or no unit")
        for target in panel["targets"]:
            expression = target["expr"]
            for variable, value in VARIABLES.items():
                expression = expression.replace(variable, value)
            wanted[expression] = where
            used |= names(expression)
            target["expr"] = expression
    for variable in board["templating"]["list"]:
        for inside in re.findall(r"label_values\((.*), (\w+)\)", str(variable.get("query", ""))):
            expression = inside[0].replace("$job", ".+")
            wanted[f"group by ({inside[1]}) ({expression})"] = f"dashboard, variable `{variable['name']}`"
    wait_for_data(wanted)
    for panel in panels(board["panels"]):
        for target in panel.get("targets") or []:
            check_labels(f"dashboard, panel `{panel['title']}`", target["expr"], target["legendFormat"])
    summaries.append(f"{len(titles)} panels and {len(board['templating']['list'])} variables of the dashboard: {len(wanted)} expressions have data")
    return used


def check_rules() -> set[str]:
    """Returns the metrics that the rules use."""
    groups = get("rules")["groups"]  # type: ignore[index]
    rules = [rule for group in groups for rule in group["rules"]]
    used, wanted = set(), {}
    for rule in rules:
        where = f"rule `{rule['name']}`"
        used |= names(rule["query"])
        if rule["type"] == "recording":
            wanted[rule["name"]] = where
        # An alert has no data while all is well, but the series that it reads must exist.
        for selector in selectors(rule["query"]):
            wanted[selector] = where
    wait_for_data(wanted)
    alerts = [rule for rule in rules if rule["type"] == "alerting"]
    for rule in rules:
        check_labels(f"rule `{rule['name']}`", rule["query"], json.dumps(rule.get("annotations", "")))
        if rule["health"] != "ok":
            failures.append(f"rule `{rule['name']}`: {rule.get('lastError')}")
    for rule in alerts:
        missing = {"summary", "description", "runbook"} - rule["annotations"].keys()
        if missing or "severity" not in rule["labels"]:
            failures.append(f"alert `{rule['name']}` lacks {', '.join(sorted(missing)) or 'severity'}")
            continue
        page, _, anchor = rule["annotations"]["runbook"].partition("#")
        if not (ROOT / page).is_file() or anchor and anchor not in anchors((ROOT / page).read_text()):
            failures.append(f"alert `{rule['name']}`: {page} has no section `{anchor}`")
    tested = set(re.findall(r'alertname="(\w+)"', TESTS.read_text()))
    failures.extend(f"alert `{rule['name']}` has no unit test" for rule in alerts if rule["name"] not in tested)
    on_page = set(re.findall(r"^\| `(Esker\w+)` \| (\w+) \|", PAGE.read_text(), re.M))
    for name, severity in sorted({(rule["name"], rule["labels"]["severity"]) for rule in alerts} ^ on_page):
        failures.append(f"the alert `{name}` ({severity}) is in only one of the rules and the table of {PAGE.name}")
    summaries.append(f"{len(rules)} rules, of which {len(alerts)} are alerts: the {len(wanted)} series that they read exist; each alert has a test and a line on the page")
    return used


def anchors(page: str) -> set[str]:
    headings = re.findall(r"^#+ (.*)", page, re.M)
    return {re.sub(r"[^\w -]", "", heading.lower()).replace(" ", "-") for heading in headings}


def check_metrics(metrics: str, used: set[str]) -> None:
    """The table of the page has each metric of the servers, and no other. The dashboard or a rule uses each."""
    printed = set(re.findall(r"^# TYPE (\w+) ", metrics, re.M))
    on_page = set(re.findall(r"^\| `(esker_\w+)`", PAGE.read_text(), re.M))
    for name in sorted(printed ^ on_page):
        failures.append(f"the metric `{name}` is in only one of /metrics and the table of {PAGE.name}")
    bases = {re.sub(r"_(bucket|sum|count)$", "", name) for name in used} | used
    for name in sorted(printed - bases):
        failures.append(f"neither the dashboard nor a rule uses the metric `{name}`")
    config = (ROOT / "packaging" / "prometheus" / "prometheus.yml").read_text()
    for block in re.findall(r"^```yaml\n(.*?)^```", PAGE.read_text(), re.M | re.S):
        if block not in config:
            failures.append(f"{PAGE.name}: a block is not a part of packaging/prometheus/prometheus.yml:\n{block}")
    summaries.append(f"{len(printed)} metrics of /metrics are in the table of {PAGE.name}, and in the dashboard or a rule")


def check_stopped(servers: list[str]) -> None:
    """Stops the servers; Prometheus then has the alerts for that."""
    early = {alert["labels"]["alertname"] for alert in get("alerts")["alerts"]} & STOPPED  # type: ignore[index]
    if early:
        failures.append(f"alerts while all servers run: {', '.join(sorted(early))}")
    for server in servers:
        os.kill(int(server), signal.SIGTERM)
    end = time.monotonic() + DEADLINE
    missing = STOPPED
    while missing and time.monotonic() < end:
        time.sleep(0.3)
        missing = STOPPED - {alert["labels"]["alertname"] for alert in get("alerts")["alerts"]}  # type: ignore[index]
    if missing:
        failures.append(f"no alert after all servers have stopped: {', '.join(sorted(missing))}")
    summaries.append(f"after the end of all servers, Prometheus has the alerts {', '.join(sorted(STOPPED))}")


def main(address: str, metrics: str, servers: list[str]) -> int:
    global prometheus
    prometheus = address
    wait_for_targets()
    used = check_rules() | check_dashboard()
    check_metrics(pathlib.Path(metrics).read_text(), used)
    check_stopped(servers)
    for failure in failures:
        print(f"monitoring: {failure}", file=sys.stderr)
    for summary in [] if failures else summaries:
        print(f"monitoring: {summary}")
    return 1 if failures else 0


sys.exit(main(sys.argv[1], sys.argv[2], sys.argv[3:]))
