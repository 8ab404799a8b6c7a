"""Checks the traces that servers, commands and clusters send to a real OpenTelemetry Collector.

Usage: check.py ESKER COLLECTOR FOLDER

ESKER is the command, COLLECTOR the program of this folder's `main.go`, FOLDER an empty folder for databases, logs and spans.
The client of HTTP and gRPC is a Python program that OpenTelemetry's own library traces, so that each trace has spans of two
implementations.
"""

from __future__ import annotations

import pathlib
import re
import secrets
import signal
import socket
import sys
from collections.abc import Callable

import grpc
from opentelemetry import propagate, trace
from opentelemetry.exporter.otlp.proto.grpc.trace_exporter import OTLPSpanExporter
from opentelemetry.sdk.resources import Resource
from opentelemetry.sdk.trace import TracerProvider
from opentelemetry.sdk.trace.export import BatchSpanProcessor
from processes import DEADLINE, Collector, Failed, Lab, Server, free_port, wait_for
from spans import CLIENT, ERROR, INTERNAL, SERVER, Span, Traces

SECRET = "hidden4711"
"""A part of all names, values and queries of this check. No span may contain it."""
NEVER = {"OTEL_BSP_SCHEDULE_DELAY": str(3_600_000)}
"""Setting by which spans are sent only when a process stops."""
OFTEN = {"OTEL_BSP_SCHEDULE_DELAY": "100"}
JSON = ("Content-Type", "application/json")
LINES = f"""{{"op": "put_vertex", "id": "file:/{SECRET}/a.h5", "attributes": {{"size": 7}}}}
{{"op": "put_edge", "src": "job:{SECRET}", "type": "write", "dst": "file:/{SECRET}/a.h5"}}
"""
ATTRIBUTES = {
    *("http.request.method", "http.response.status_code", "http.route", "url.scheme", "network.protocol.version"),
    *("rpc.system.name", "rpc.method", "rpc.response.status_code", "server.address", "server.port", "error.type"),
    *("process.executable.name", "process.exit.code"),
    *("esker.server", "esker.peer", "esker.group.size", "esker.mutations"),
    *("esker.request.bytes", "esker.answer.complete", "esker.spans_left_out"),
}
"""All attributes that a span may have. None of them has text of a client or of the data."""
RESOURCE = {
    *("service.name", "service.version", "service.instance.id", "host.name", "process.pid", "esker.cluster"),
    *("telemetry.sdk.name", "telemetry.sdk.version", "telemetry.sdk.language"),
}
"""All attributes that the resource of a span may have."""

SHOWN = 20
"""Failures, and spans of one failure, that are printed."""

failures: list[str] = []
passed = 0


def check(condition: object, message: Callable[[], str] | str) -> None:
    global passed
    if condition:
        passed += 1
    else:
        failures.append(message if isinstance(message, str) else message())


def listed(spans: list[Span]) -> str:
    return (
        "".join(f"\n    {span}" for span in spans[:SHOWN]) + (f"\n    … {len(spans)} in all" if spans[SHOWN:] else "")
        or " none"
    )


class Client:
    """A program that requests from a server and is traced by OpenTelemetry's library for Python."""

    def __init__(self, collector: Collector) -> None:
        self.provider = TracerProvider(resource=Resource.create({"service.name": "client"}))
        self.provider.add_span_processor(BatchSpanProcessor(OTLPSpanExporter(endpoint=collector.url, insecure=True)))
        self.tracer = self.provider.get_tracer("check")

    def request(
        self, server: Server, method: str, path: str, headers: tuple = (), body: str | None = None
    ) -> tuple[int, trace.SpanContext]:
        """Sends a request as a span of its own; returns the status of the answer and the context of the span."""
        with self.tracer.start_as_current_span("request", kind=trace.SpanKind.CLIENT) as span:
            carrier: dict[str, str] = {}
            propagate.inject(carrier)
            return server.request(method, path, [*carrier.items(), *headers], body), span.get_span_context()

    def call(self, server: Server, method: str) -> trace.SpanContext:
        """Makes a gRPC call with an empty request as a span of its own."""
        with (
            self.tracer.start_as_current_span("call", kind=trace.SpanKind.CLIENT) as span,
            grpc.insecure_channel(server.address) as channel,
        ):
            carrier: dict[str, str] = {}
            propagate.inject(carrier)
            channel.unary_unary(f"/{method}")(b"", metadata=list(carrier.items()), timeout=DEADLINE)
            return span.get_span_context()


def new_parent(flags: str = "01") -> str:
    """Returns a new `traceparent` of a span that the collector does not have."""
    return f"00-{secrets.token_hex(16)}-{secrets.token_hex(8)}-{flags}"


def trace_of(parent: str) -> str:
    return parent.split("-")[1]


def check_all(traces: Traces, remote: set[str], secret_texts: list[str]) -> None:
    """Checks facts that all spans have in common; `remote` are the ids of parents that the collector does not have."""
    for span in traces.spans:
        check(
            re.fullmatch("[0-9a-f]{32}", span.trace) and re.fullmatch("[0-9a-f]{16}", span.id),
            lambda span=span: f"{span}: bad ids",
        )
        check(0 < span.start <= span.end, lambda span=span: f"{span}: begins at {span.start} and ends at {span.end}")
        check(
            not span.parent or traces.parent(span) or span.parent in remote,
            lambda span=span: f"{span}: the collector has no span with the id of its parent",
        )
        if span.resource.get("service.name") == "client":
            continue
        check(
            span.resource.get("service.name") == "esker",
            lambda span=span: f"{span}: `service.name` is not `esker`: {span.resource}",
        )
        for given, allowed in ((span.attributes, ATTRIBUTES), (span.resource, RESOURCE)):
            check(
                given.keys() <= allowed,
                lambda span=span, given=given, allowed=allowed: f"{span}: unknown attributes {sorted(given.keys() - allowed)}",
            )
    text = traces.file.read_text()
    for secret in [SECRET, *secret_texts]:
        check(secret not in text, f"{traces.file}: spans contain `{secret}`, which is part of the data or of a request")


def check_served(traces: Traces, context: trace.SpanContext, expected: dict[str, object]) -> Span | None:
    """Finds the server's span for a request of the Python client, and compares its name and attributes."""
    parent = traces.by_id.get((f"{context.trace_id:032x}", f"{context.span_id:016x}"))
    found = [span for span in traces.children(parent) if span.kind == SERVER] if parent else []
    if len(found) != 1 or not parent:
        check(False, lambda: f"{expected['name']}: expected one span of the server below the client's, found{listed(found)}")
        return None
    (span,) = found
    for key, value in expected.items():
        actual = span.name if key == "name" else span.attributes.get(key)
        check(actual == value, f"{span}: `{key}` is {actual!r}, expected {value!r}")
    # The server's span may end after the client has the answer.
    check(parent.start <= span.start <= parent.end, f"{span}: begins outside the time of {parent}")
    return span


def check_requests(lab: Lab) -> None:
    """HTTP, gRPC and commands, one server. It sends its spans when it stops."""
    collector = Collector(lab, "requests").start()
    server = Server(lab, "requests-server", f'[tracing]\notlp = "{collector.url}"\nsample = 1.0\n', NEVER)
    client = Client(collector)
    token = server.token
    query = f'SELECT * {{ ?s ?p "{SECRET}" }}'

    requests: list[tuple[str, str, str, int, tuple, str | None]] = [
        ("GET", "/api/v1/stats", "/api/v1/stats", 200, (("Authorization", f"Bearer {token}"),), None),
        ("POST", f"/api/v1/apply?once={SECRET}", "/api/v1/apply", 200, (JSON,), LINES),
        ("GET", f"/api/v1/vertex?id=file:/{SECRET}/a.h5", "/api/v1/vertex", 200, (), None),
        ("GET", "/api/v1/objects/4711", "/api/v1/objects/{id}", 404, (), None),
        ("POST", "/api/v1/travel", "/api/v1/travel", 200, (JSON,), f'{{"chain": "v(\\"job:{SECRET}\\").e(write).v()"}}'),
        ("POST", "/sparql", "/sparql", 200, (("Content-Type", "application/sparql-query"),), query),
    ]
    sent = []
    for method, path, route, status, headers, body in requests:
        answered, context = client.request(server, method, path, headers, body)
        check(answered == status, f"{method} {path}: answered {answered}, expected {status}")
        expected = {
            "http.request.method": method,
            "http.route": route,
            "http.response.status_code": status,
            "url.scheme": "http",
        }
        sent.append((context, {"name": f"{method} {route}", **expected}))
    counts = client.call(server, "esker.v1.Esker/Counts")

    # Each invalid context begins a new trace: an unknown version, zeros, upper case, too short, too long, sent twice.
    valid = new_parent()
    invalid = [
        [valid.replace("00-", "ff-", 1)],
        [f"00-{'0' * 32}-{'1' * 16}-01"],
        [f"00-{secrets.token_hex(16)}-{'0' * 16}-01"],
        [f"00-{secrets.token_hex(15).upper()}AB-{'1' * 16}-01"],
        [valid[:-1]],
        [f"{new_parent()}-{SECRET}"],
        [new_parent(), new_parent()],
        [SECRET * 1_000],
    ]
    for parents in invalid:
        answered = server.request("GET", "/api/v1/tags", [("traceparent", parent) for parent in parents])
        check(answered == 200, f"traceparent {parents[0][:80]}: answered {answered}, expected 200")
    later = f"01{new_parent()[2:]}-more"
    server.request("GET", "/api/v1/schema", [("traceparent", later)])
    unsampled, refused, probe = new_parent("00"), new_parent(), new_parent()
    server.request("GET", "/api/v1/schema", [("traceparent", unsampled)])
    answered = server.request("GET", "/api/v1/schema", [("traceparent", refused), ("Origin", f"http://{SECRET}.example")])
    check(answered in (401, 403), f"a request for a page of another site: answered {answered}, expected 401 or 403")
    server.request("GET", "/healthz", [("traceparent", probe)])

    traced = {"OTEL_EXPORTER_OTLP_ENDPOINT": collector.url}
    outer = new_parent()
    lab.run("link", server.url, f"job:{SECRET}", "write", f"file:/{SECRET}/b.h5", "--create", "--quiet", environment=traced)
    lab.run("get", server.url, f"file:/{SECRET}/b.h5", environment=traced | {"TRACEPARENT": outer})
    lab.run("get", server.url, f"file:/{SECRET}/absent", environment=traced, status=1)
    lab.run("get", server.url, f"file:/{SECRET}/b.h5", environment={"TRACEPARENT": (inner := new_parent())})

    check(server.process.stop() == 0, f"the server has not stopped in good order:\n{server.process.log.read_text()}")
    client.provider.shutdown()
    collector.stop()
    traces = Traces(collector.file)
    known = [outer, inner, later]
    check_all(traces, {parent.split("-")[2] for parent in known}, [token])

    served = [check_served(traces, context, expected) for context, expected in sent]
    for span in served[1:3]:
        check(span is None or traces.children(span), lambda span=span: f"{span}: expected spans of its work below it")
    check(
        all(span is None or span.status != ERROR for span in served),
        "a request that the server has answered counts as an error",
    )
    expected = {
        "name": "esker.v1.Esker/Counts",
        "rpc.system.name": "grpc",
        "rpc.method": "esker.v1.Esker/Counts",
        "rpc.response.status_code": "OK",
    }
    check_served(traces, counts, expected)

    begun = [span for span in traces.spans if span.attributes.get("http.route") == "/api/v1/tags"]
    check(
        len(begun) == len(invalid) and not any(span.parent for span in begun),
        lambda: f"requests with an invalid traceparent: expected {len(invalid)} roots, found{listed(begun)}",
    )
    for parents in invalid:
        for parent in parents:
            fields = parent.split("-")
            check(
                len(fields) < 2 or fields[1].lower() not in traces.by_trace,
                f"traceparent {parent[:80]} is invalid, and a trace has its id",
            )
    check(
        trace_of(later) in traces.by_trace,
        f"traceparent {later}: a later version begins like version 00, and no span has its trace",
    )
    for parent, name in ((unsampled, "with an unsampled parent"), (refused, "that was refused"), (probe, "of a health check")):
        check(
            trace_of(parent) not in traces.by_trace,
            lambda parent=parent, name=name: f"a request {name} has{listed(traces.by_trace[trace_of(parent)])}",
        )
    check_commands(traces, outer, inner)


def check_commands(traces: Traces, outer: str, inner: str) -> None:
    """Commands whose environment names the collector have spans from the command to the server's work."""
    roots = {
        span.name: span for span in traces.spans if span.kind == INTERNAL and span.name.startswith("esker ") and not span.parent
    }
    below = [span for span in traces.by_trace[trace_of(outer)] if span.name == "esker get"]
    check(
        len(below) == 1 and below[0].parent == outer.split("-")[2],
        lambda: f"`esker get` with TRACEPARENT={outer}: expected one span below it, found{listed(below)}",
    )
    for root, method in (
        (roots.get("esker link"), "esker.v1.Esker/Apply"),
        (roots.get("esker get"), None),
        (below[0] if below else None, None),
    ):
        if not root:
            check(False, "a command with OTEL_EXPORTER_OTLP_ENDPOINT has no span of its own")
            continue
        spans = traces.by_trace[root.trace]
        pairs = [(traces.parent(span), span) for span in spans if span.kind == SERVER]
        check(pairs, lambda root=root: f"{root}: its trace has no span of the server")
        check(not method or any(span.name == method for _, span in pairs), f"{root}: its trace has no call of {method}")
        for parent, span in pairs:
            check(
                parent is not None and parent.kind == CLIENT and parent.name == span.name and root in traces.ancestors(span),
                lambda span=span, parent=parent: f"{span}: expected the command's call as its parent, found {parent}",
            )
            if parent is not None:
                check(span.instance != parent.instance, f"{span}: its parent is of the same process")
                check(span.attributes.get("rpc.method") == span.name, f"{span}: `rpc.method` is not its name")
    for name, expected in (("esker link", 0), ("esker get", 1)):
        if root := roots.get(name):
            code = root.attributes.get("process.exit.code")
            check(code == expected, f"{root}: `process.exit.code` is {code}, expected {expected}")
    passed_on = traces.by_trace[trace_of(inner)]
    check(
        passed_on
        and all(span.kind != CLIENT for span in passed_on)
        and any(span.parent == inner.split("-")[2] for span in passed_on),
        lambda: f"a command without a collector passes TRACEPARENT on to the server; found{listed(passed_on)}",
    )


def check_cluster(lab: Lab) -> None:
    """A trace continues from a command to a server, and from there to the other server."""
    collector = Collector(lab, "cluster").start()
    ports = free_port(), free_port()
    file = lab.folder / "cluster.toml"
    servers = ", ".join(f'"127.0.0.1:{port}"' for port in ports)
    file.write_text(f'servers = [{servers}]\n[tracing]\notlp = "{collector.url}"\nsample = 1.0\n')
    members = lab.start([lab.esker, "cluster", "up", str(file)], "cluster-up", NEVER)
    members.wait_until(lambda: re.search("^ready", members.log.read_text(), re.MULTILINE) is not None, "ready")
    commands = 24
    for number in range(commands):
        names = f"job:{SECRET}-{number}", "write", f"file:/{SECRET}/{number}"
        lab.run(
            "link",
            f"esker://127.0.0.1:{ports[0]}",
            *names,
            "--create",
            "--quiet",
            environment={"OTEL_EXPORTER_OTLP_ENDPOINT": collector.url},
        )
    code = members.stop()
    check(code == 0, f"`esker cluster up` has ended with {code}:\n{members.log.read_text()}")
    collector.stop()
    traces = Traces(collector.file)
    check_all(traces, set(), [])
    # The program that waits until the cluster is ready may begin traces, too; requests between servers alone may not.
    roots = [span for span in traces.spans if not span.parent]
    linked = [span for span in roots if span.name == "esker link"]
    check(len(linked) == commands, lambda: f"expected {commands} traces of `esker link`, found{listed(roots)}")
    check(
        not any(span.name.startswith("esker.v1.Peer/") for span in roots),
        lambda: f"requests between servers that no client has caused are traced; found{listed(roots)}",
    )
    complete = 0
    for span in traces.spans:
        if span.kind == SERVER and span.name.startswith("esker.v1.Peer/"):
            sent = traces.parent(span)
            check(
                sent is not None and sent.kind == CLIENT and sent.name == span.name and sent.instance != span.instance,
                lambda span=span, sent=sent: f"{span}: expected the request of the other server as its parent, found {sent}",
            )
            above = traces.ancestors(span)
            names = {ancestor.name for ancestor in above if ancestor.kind == SERVER}
            complete += "esker.v1.Esker/Apply" in names and above[-1].name == "esker link"
    check(complete, "no trace reaches from `esker link` through one server to the other")
    instances = {span.instance for span in traces.spans if span.kind == SERVER}
    check(len(instances) == len(ports), f"expected spans of {len(ports)} servers, found those of {instances}")


def check_absent_collector(lab: Lab) -> None:
    """A server whose collector is absent answers, and sends spans later. The environment has the collector's address."""
    collector = Collector(lab, "absent")
    traced = {"OTEL_EXPORTER_OTLP_ENDPOINT": collector.url}
    server = Server(lab, "absent-server", "[tracing]\nsample = 0.0\n", traced | OFTEN)

    def request(parent: str | None = None) -> str:
        answered = server.request(
            "GET", "/api/v1/stats" if parent else "/api/v1/tags", [("traceparent", parent)] if parent else []
        )
        check(answered == 200, f"a request while the collector is absent: answered {answered}, expected 200")
        return parent or ""

    def command() -> None:
        lab.run("link", server.url, f"job:{SECRET}", "write", f"file:/{SECRET}", "--create", "--quiet", environment=traced)

    for _ in range(3):
        request(new_parent())
        command()
    collector.start()
    arrived: set[str] = set()
    sent: set[str] = set()

    def has_arrived() -> bool:
        # The server sends spans in the order in which they end: a span of the first request would be in the file before.
        request()
        sent.add(trace_of(request(new_parent())))
        arrived.update(sent & Traces(collector.file).by_trace.keys())
        return bool(arrived)

    wait_for(has_arrived, "spans in a collector that was started after the server")
    roots = [span for span in Traces(collector.file).spans if span.attributes.get("http.route") == "/api/v1/tags"]
    check(not roots, lambda: f"tracing.sample = 0.0, and requests without a parent have{listed(roots)}")
    collector.stop(signal.SIGKILL)
    request(new_parent())
    # A program at the collector's port accepts connections and never answers.
    with socket.create_server(("127.0.0.1", collector.port)):
        request(new_parent())
        command()
        check(server.process.stop() == 0, f"the server has not stopped in good order:\n{server.process.log.read_text()}")
    check_all(Traces(collector.file), {span.parent for span in Traces(collector.file).spans if span.kind == SERVER}, [])


def check_settings(lab: Lab) -> None:
    """A mistake in a setting is named with its place, before the server starts."""
    folder = str(lab.folder / "settings.esker")
    lab.run("init", folder, "--quiet")
    config = lab.folder / "settings.toml"
    serve = ("serve", folder, "--listen", "127.0.0.1:0", "--config", str(config))
    for line, environment, expected in (
        ('otlp = "ftp://127.0.0.1"', {}, ["settings.toml:2:", "`tracing.otlp`", "http://"]),
        ('otlp = "127.0.0.1:4317"', {}, ["settings.toml:2:", "`tracing.otlp`", "http://"]),
        ("sample = 1.5", {}, ["settings.toml:2:", "`tracing.sample`"]),
        ("", {"OTEL_EXPORTER_OTLP_ENDPOINT": "ftp://127.0.0.1"}, ["OTEL_EXPORTER_OTLP_ENDPOINT", "http://"]),
    ):
        config.write_text(f"[tracing]\n{line}\n")
        said = lab.run(*serve, environment=environment, status=2)
        for text in expected:
            check(text in said, f"{line or environment}: expected `{text}` in the message:\n{said}")


def main() -> None:
    lab = Lab(sys.argv[1], sys.argv[2], pathlib.Path(sys.argv[3]))
    for part in (check_settings, check_requests, check_cluster, check_absent_collector):
        try:
            part(lab)
        except Failed as failed:
            failures.append(f"{part.__name__}: {failed}")
        finally:
            lab.stop()
    for failure in failures[:SHOWN]:
        print(f"tracing: {failure}", file=sys.stderr)
    print(f"{passed} passed, {len(failures)} failed")
    sys.exit(1 if failures else 0)


if __name__ == "__main__":
    main()
