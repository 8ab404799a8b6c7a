"""Writes the dashboard for Grafana, packaging/grafana/esker.json, with Grafana's own library (`grafana-foundation-sdk`).

Usage: dashboard.py > packaging/grafana/esker.json
"""

from __future__ import annotations

from grafana_foundation_sdk.builders import prometheus, stat, timeseries
from grafana_foundation_sdk.builders.common import ReduceDataOptions, VizLegendOptions
from grafana_foundation_sdk.builders.dashboard import Dashboard, DatasourceVariable, QueryVariable, Row
from grafana_foundation_sdk.cog.encoder import JSONEncoder
from grafana_foundation_sdk.models.common import LegendDisplayMode, LegendPlacement
from grafana_foundation_sdk.models.dashboard import DataSourceRef, GridPos, VariableRefresh

SOURCE = DataSourceRef(type_val="prometheus", uid="${datasource}")
SERVERS = 'job=~"$job",instance=~"$instance"'
RATE = "$__rate_interval"
# Calls that read or change a few entries; the other calls may take as long as their data are large.
SHORT = "read_vertices|read_edges|apply|stat_file|change_files|look_file|file_ids"
OF_SERVER = "{{instance}} {{store}}"

Panel = tuple[str, str, str, list[tuple[str, str]]]
"""Title, unit, description, and the expressions with the names of their series."""


def rate(metric: str, by: str = "instance, store", labels: str = "") -> str:
    return f"sum by ({by}) (rate({metric}{{{SERVERS}{labels}}}[{RATE}]))"


def gauge(metric: str) -> str:
    return f"{metric}{{{SERVERS}}}"


def p99(by: str, labels: str = "") -> str:
    return f"histogram_quantile(0.99, {rate('esker_request_seconds_bucket', f'{by}, le', labels)})"


STATS: list[Panel] = [
    ("Targets up", "none", "Targets that Prometheus can read. A member of a cluster with `stores` is a target for each of its stores.", [(f"sum(up{{{SERVERS}}})", "")]),
    ("Requests", "reqps", "Requests answered in a second, by all servers together.", [(f"sum(rate(esker_request_seconds_count{{{SERVERS}}}[{RATE}]))", "")]),
    (
        "Failures",
        "percentunit",
        "Part of the requests that had an error as their answer. Clients' mistakes count, too.",
        [(f"sum(rate(esker_request_failures_total{{{SERVERS}}}[{RATE}])) / sum(rate(esker_request_seconds_count{{{SERVERS}}}[{RATE}]))", "")],
    ),
    (
        "99th percentile of short calls",
        "s",
        "99 % of the calls that read or change a few entries take at most this time.",
        [(f"histogram_quantile(0.99, sum by (le) (rate(esker_request_seconds_bucket{{{SERVERS},call=~\"{SHORT}\"}}[{RATE}])))", "")],
    ),
    ("Requests that wait", "none", "Requests that wait for a thread, of all servers.", [(f"sum({gauge('esker_waiting_reads')}) + sum({gauge('esker_waiting_scans')}) + sum({gauge('esker_waiting_writes')})", "")]),
    ("Data on disk", "bytes", "Tables of all servers. RDF data and the archive are not counted.", [(f"sum({gauge('esker_store_table_bytes')})", "")]),
]

ROWS: list[tuple[str, bool, list[Panel]]] = [
    (
        "Requests",
        False,
        [
            ("Requests by call", "reqps", "Requests answered in a second, by call.", [(rate("esker_request_seconds_count", "call"), "{{call}}")]),
            ("99th percentile by call", "s", "Long calls, such as `find` and `travel`, take as long as their data are large.", [(p99("call"), "{{call}}")]),
            ("Failures by call", "reqps", "Requests that had an error as their answer, by call.", [(rate("esker_request_failures_total", "call"), "{{call}}")]),
            ("Refused access", "reqps", "Requests refused for lack of access, by reason: docs/book/access.md.", [(rate("esker_refused_total", "why"), "{{why}}")]),
            (
                "Audit log",
                "reqps",
                "Records written, and requests without a record: docs/book/audit.md.",
                [(rate("esker_audit_records_total"), f"records {OF_SERVER}"), (rate("esker_audit_lost_total"), f"lost {OF_SERVER}")],
            ),
            (
                "Refused for load",
                "reqps",
                "Requests and connections refused because a limit was reached. Clients repeat such requests.",
                [(rate("esker_shed_total"), f"requests {OF_SERVER}"), (rate("esker_connections_refused_total"), f"connections {OF_SERVER}")],
            ),
            ("Refused by quotas", "reqps", "Requests that a quota refused or ended, by limit: docs/book/quotas.md.", [(rate("esker_quota_refused_total", "limit"), "{{limit}}")]),
            ("HTTP requests", "reqps", "Requests to the HTTP API.", [(rate("esker_http_requests_total"), OF_SERVER)]),
        ],
    ),
    (
        "Load",
        False,
        [
            (
                "Queues",
                "none",
                "Requests that wait for a thread. The limit is `limits.waiting`, 16,384 for each queue by default.",
                [(gauge(f"esker_waiting_{kind}"), f"{kind} {OF_SERVER}") for kind in ("reads", "scans", "writes")],
            ),
            (
                "Wait for a thread",
                "s",
                "99 % of the requests waited at most this time for a thread, by thread pool.",
                [(f"histogram_quantile(0.99, sum by (le, pool) (rate(esker_wait_seconds_bucket{{{SERVERS}}}[{RATE}])))", "{{pool}}")],
            ),
            ("In progress", "none", "Requests in progress and open connections.", [(gauge("esker_in_flight"), f"requests {OF_SERVER}"), (gauge("esker_connections"), f"connections {OF_SERVER}")]),
            ("Memory of requests", "bytes", "Requests and answers in memory. At `limits.memory`, 512 MiB by default, the server refuses requests.", [(gauge("esker_memory_bytes"), OF_SERVER)]),
            ("Traffic", "Bps", "Bytes of requests, and of answers on Exchange streams.", [(rate("esker_received_bytes_total"), f"received {OF_SERVER}"), (rate("esker_sent_bytes_total"), f"sent {OF_SERVER}")]),
            ("Mutations", "ops", "Changes of single entries, in batches of clients.", [(rate("esker_batch_mutations_sum"), OF_SERVER)]),
            (
                "Batches in one commit",
                "none",
                "Mean number of batches that share a commit. It grows when many clients write at once.",
                [(f"{rate('esker_group_batches_sum')} / {rate('esker_group_batches_count')}", OF_SERVER)],
            ),
        ],
    ),
    (
        "Store",
        False,
        [
            ("Entries", "none", "Vertices and edges that exist now. Each edge counts twice, with its inverse.", [(gauge("esker_vertices"), f"vertices {OF_SERVER}"), (gauge("esker_edges"), f"edges {OF_SERVER}")]),
            ("Tables on disk", "bytes", "`names` has files, `objects` objects, `rows` the graph, and `history` superseded versions.", [(f"sum by (table) ({gauge('esker_store_table_bytes')})", "{{table}}")]),
            ("Write-ahead log", "bytes", "Writes that are not in tables yet. A start reads this log.", [(gauge("esker_store_log_bytes"), OF_SERVER)]),
            (
                "Caches",
                "bytes",
                "Blocks of tables and adjacency lists in memory. `--memory` limits both.",
                [(gauge("esker_store_cache_bytes"), f"blocks {OF_SERVER}"), (gauge("esker_adjacency_bytes"), f"adjacency {OF_SERVER}")],
            ),
            ("Adjacency lists", "none", "Lists of edges in the cache.", [(gauge("esker_adjacency_lists"), OF_SERVER)]),
            (
                "Spools",
                "none",
                "Runs that wait in spools, and runs and files of the last hour.",
                [
                    (gauge("esker_spool_waiting"), f"waiting {OF_SERVER}"),
                    (f"increase({gauge('esker_spool_runs_total')}[1h])", f"delivered {OF_SERVER}"),
                    (f"increase({gauge('esker_spool_aside_total')}[1h])", f"moved aside {OF_SERVER}"),
                    (f"increase({gauge('esker_spool_failures_total')}[1h])", f"failed scans {OF_SERVER}"),
                ],
            ),
        ],
    ),
    (
        "Cluster (no data for a single server)",
        True,
        [
            ("Stores served", "none", "1 while a member serves the store, for clusters whose file has `stores`.", [('max by (store) (up{job=~"$job",store!=""})', "store {{store}}")]),
            ("Requests to other servers", "reqps", "Requests that a server sends to another one.", [(rate("esker_peer_calls_total", "instance, server"), "{{instance}} to {{server}}")]),
            ("Requests without an answer", "reqps", "Requests to another server that had no answer.", [(rate("esker_peer_failures_total", "instance, server"), "{{instance}} to {{server}}")]),
            (
                "Time of requests to other servers",
                "s",
                "Mean time to the answer.",
                [(f"{rate('esker_peer_seconds_total', 'instance, server')} / {rate('esker_peer_calls_total', 'instance, server')}", "{{instance}} to {{server}}")],
            ),
            ("Writes without a checkpoint", "none", "Only with `durability = \"window\"`.", [(gauge("esker_window_writes"), "{{instance}}")]),
            ("Age of the oldest of them", "s", "Only with `durability = \"window\"`.", [(gauge("esker_window_age_seconds"), "{{instance}}")]),
            (
                "Checkpoints",
                "none",
                "Checkpoints of the last hour; `stuck` is 1 while no folder accepts one. Only with `durability = \"window\"`.",
                [
                    (f"increase({gauge('esker_checkpoint_segments_total')}[1h])", "windows {{instance}}"),
                    (f"increase({gauge('esker_checkpoint_bases_total')}[1h])", "all rows {{instance}}"),
                    (gauge("esker_window_stuck"), "stuck {{instance}}"),
                ],
            ),
            ("Bytes of checkpoints", "Bps", "Only with `durability = \"window\"`.", [(rate("esker_checkpoint_segment_bytes_total", "instance"), "{{instance}}")]),
            (
                "Splits of directories",
                "none",
                "Partitions that moved to another server in the last hour, and tables that their receiver could not read.",
                [
                    (f"increase({gauge('esker_given_partitions_total')}[1h])", "by {{by}} {{instance}} {{store}}"),
                    (f"increase({gauge('esker_given_tables_unread_total')}[1h])", f"unread {OF_SERVER}"),
                ],
            ),
            ("Entries moved by splits", "none", "Entries that moved to another server, in a second.", [(rate("esker_given_rows_total", "instance, store, by"), "by {{by}} {{instance}} {{store}}")]),
            (
                "Bytes moved by splits",
                "Bps",
                "Bytes of the files and messages that moved entries to another server.",
                [(rate("esker_given_file_bytes_total"), f"files {OF_SERVER}"), (rate("esker_given_message_bytes_total"), f"messages {OF_SERVER}")],
            ),
            ("Blocked by splits", "percentunit", "Part of the time in which a directory was blocked by its split.", [(rate("esker_given_seconds_total"), OF_SERVER)]),
        ],
    ),
]


def query(number: int, expression: str, legend: str) -> prometheus.Dataquery:
    return prometheus.Dataquery().ref_id(chr(ord("A") + number)).expr(expression).legend_format(legend or "__auto").datasource(SOURCE)


def number_panel(panel: Panel, place: GridPos) -> stat.Panel:
    title, unit, description, expressions = panel
    out = stat.Panel().title(title).unit(unit).description(description).datasource(SOURCE).grid_pos(place)
    out = out.reduce_options(ReduceDataOptions().calcs(["lastNotNull"]))
    for number, (expression, legend) in enumerate(expressions):
        out = out.with_target(query(number, expression, legend))
    return out


def graph_panel(panel: Panel, place: GridPos) -> timeseries.Panel:
    title, unit, description, expressions = panel
    out = timeseries.Panel().title(title).unit(unit).description(description).datasource(SOURCE).grid_pos(place).min(0)
    out = out.legend(VizLegendOptions().display_mode(LegendDisplayMode.LIST).placement(LegendPlacement.BOTTOM).show_legend(True))
    for number, (expression, legend) in enumerate(expressions):
        out = out.with_target(query(number, expression, legend))
    return out


def choice(name: str, label: str, values: str) -> QueryVariable:
    out = QueryVariable(name).label(label).datasource(SOURCE).query(f"label_values({values}, {name})")
    return out.refresh(VariableRefresh.ON_TIME_RANGE_CHANGED).multi(True).include_all(True).all_value(".+")


def dashboard() -> Dashboard:
    out = Dashboard("Esker").uid("esker").tags(["esker"]).refresh("30s").time("now-3h", "now").timezone("browser").editable()
    out = out.description("Servers and clusters of Esker. docs/book/monitoring.md explains the metrics.")
    out = out.with_variable(DatasourceVariable("datasource").label("Prometheus").type("prometheus"))
    out = out.with_variable(choice("job", "Job", "esker_in_flight")).with_variable(choice("instance", "Server", 'esker_in_flight{job=~"$job"}'))
    for number, panel in enumerate(STATS):
        out = out.with_panel(number_panel(panel, GridPos(h=4, w=4, x=4 * number, y=0)))
    y = 4
    for title, collapsed, panels in ROWS:
        row = Row(title).grid_pos(GridPos(h=1, w=24, x=0, y=y)).collapsed(collapsed)
        y += 1
        graphs = [graph_panel(panel, GridPos(h=8, w=8, x=8 * (i % 3), y=y + 8 * (i // 3))) for i, panel in enumerate(panels)]
        y += 8 * -(-len(panels) // 3)
        # The panels of a collapsed row are inside of it; those of an open row follow it.
        for graph in graphs if collapsed else []:
            row = row.with_panel(graph)
        out = out.with_row(row)
        for graph in [] if collapsed else graphs:
            out = out.with_panel(graph)
    return out


if __name__ == "__main__":
    print(JSONEncoder(sort_keys=True, indent=2).encode(dashboard().build()))
