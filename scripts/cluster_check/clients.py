"""Clients: sessions over HTTP, and the operations that writers and readers draw."""

from __future__ import annotations

import http.client
import json
import random
import threading
import time
import urllib.parse
from typing import Any

from .cluster import Cluster
from .history import FAIL, INFO, OK, History, Operation

ATTEMPT = 10.0
"""Seconds that a client waits for one answer."""
PATIENCE = 90.0
"""Seconds for which a client repeats a request before it gives up; the outcome is then unknown."""
SLOW = 2.0
"""Seconds after which an answer is noted in the history."""
LISTS, LIST_LENGTH = 4, 300
REGISTERS, PAIRS, TAGS, GROUP = 6, 2, 4, 20
SEEN = "esker-at-least"
"""Header of answers and requests: the highest version that a session has seen."""


class Undecided(Exception):
    """A request had no answer within the client's patience."""


class Refused(Exception):
    """The server has refused a request for good."""


class Shared:
    """State that clients share: the numbers of elements in lists, and names to create."""

    def __init__(self, history: History, cluster: Cluster, seed: int) -> None:
        self.history, self.cluster, self.seed = history, cluster, seed
        self.stop = threading.Event()
        self.lock = threading.Lock()
        self.appended = [0] * LISTS
        self.used: set[str] = set()
        self.names: list[str] = []
        self.objects: dict[str, str] = {}
        self.snapshots: list[tuple[str, str]] = []

    def hub(self, index: int) -> str:
        """Returns the present hub of a list; a full list is followed by another one."""
        with self.lock:
            self.appended[index] += 1
            hub = f"job:list-{index}-{self.appended[index] // LIST_LENGTH}"
            self.used.add(hub)
            return hub


class Session:
    """A client's session: it reads what it has written, through any member."""

    def __init__(self, shared: Shared, name: str) -> None:
        self.shared, self.name = shared, name
        self.random = random.Random(f"{shared.seed} {name}")
        self.member = self.random.randrange(len(shared.cluster.members))
        self.connections: dict[int, http.client.HTTPConnection] = {}
        self.seen = 0

    def _attempt(self, method: str, path: str, body: str | None, kind: str) -> tuple[int, Any]:
        member = self.shared.cluster.members[self.member]
        connection = self.connections.get(self.member)
        if connection is None:
            connection = http.client.HTTPConnection(member.host, member.port, timeout=ATTEMPT)
            self.connections[self.member] = connection
        headers = {SEEN: str(self.seen)} if self.seen else {}
        if body is not None:
            headers["content-type"] = kind
        try:
            connection.request(method, path, body, headers)
            answer = connection.getresponse()
            text = answer.read()
        except (OSError, http.client.HTTPException):
            connection.close()
            del self.connections[self.member]
            raise
        self.seen = max(self.seen, int(answer.headers.get(SEEN, 0)))
        return answer.status, json.loads(text or b"null")

    def send(self, operation: Operation | None, method: str, path: str, body: str | None = None, kind: str = "application/json") -> Any:
        """Sends a request until it has an answer, to one member after the other. A server recognizes repetitions by the key in `once`."""
        until = time.monotonic() + PATIENCE
        # A session may use any member at any time.
        self.member = self.random.randrange(len(self.shared.cluster.members))
        while True:
            if operation:
                operation.attempts += 1
            began = time.monotonic()
            try:
                status, answer = self._attempt(method, path, body, kind)
            except (OSError, http.client.HTTPException) as error:
                status, answer = 0, {"error": str(error) or type(error).__name__}
            if (seconds := time.monotonic() - began) > SLOW:
                why = None if status == 200 else answer.get("error")
                self.shared.history.note("slow", client=self.name, member=self.member, seconds=seconds, path=path, status=status, why=why)
            if status == 200:
                return answer
            if 400 <= status < 500 and status != 429:
                raise Refused(status, answer.get("error"))
            if time.monotonic() > until or (self.shared.stop.is_set() and time.monotonic() > until - PATIENCE / 2):
                raise Undecided(answer.get("error"))
            self.member = (self.member + 1) % len(self.shared.cluster.members)
            time.sleep(0.05)

    def get(self, operation: Operation | None, path: str, **query: Any) -> Any:
        """Reads a path."""
        return self.send(operation, "GET", f"{path}?{urllib.parse.urlencode(query)}")

    def run(self, f: str, key: str, value: Any, work) -> Operation:
        """Records an operation; `work` returns its result and its version."""
        operation = self.shared.history.begin(self.name, f, key, value)
        try:
            result, version = work(operation)
            self.shared.history.complete(operation, OK, result, version)
        except Refused as refused:
            self.shared.history.complete(operation, FAIL, refused.args)
        except Undecided as undecided:
            self.shared.history.complete(operation, INFO, undecided.args)
        return operation

    def apply(self, f: str, key: str, value: Any, lines: list[dict[str, Any]]) -> Operation:
        """Applies a batch; each repetition has the same idempotency key."""
        once = f"{self.name}-{self.shared.history.number()}"

        def work(operation: Operation):
            body = "".join(json.dumps(line) + "\n" for line in lines)
            answer = self.send(operation, "POST", f"/api/v1/apply?once={once}", body, "application/x-ndjson")
            return None, answer["version"]

        return self.run(f, key, value, work)

    # Reads.

    def edges(self, operation: Operation | None, hub: str, **more: Any) -> list[list[Any]]:
        """Returns the elements of a list with their versions, in the order of versions."""
        try:
            answer = self.get(operation, "/api/v1/edges", id=hub, type="write", limit=100_000, **more)
        except Refused as refused:
            if refused.args[0] != 404:
                raise
            return []
        found = [[int(edge["dst"].rpartition("-")[2]), edge["version"]] for edge in answer["edges"]]
        return sorted(found, key=lambda pair: (pair[1].partition("~")[0], int(pair[1].partition("~")[2] or 0), pair[0]))

    def read_list(self, hub: str, value: Any = None) -> Operation:
        """Reads a list."""
        return self.run("list", hub, value, lambda operation: (self.edges(operation, hub), None))

    def read_lists_as_of(self, hubs: str, version: str) -> Operation:
        """Reads several lists as of one version."""
        return self.run("lists-as-of", hubs, version, lambda o: ([self.edges(o, hub, as_of=version) for hub in hubs.split()], None))

    def read_registers(self, key: str, value: Any = None) -> Operation:
        """Reads registers that are written together; the result is a list if there are several."""

        def work(operation: Operation):
            vertices = key.split()
            chain = "v(" + ", ".join(f'"{vertex}"' for vertex in vertices) + ").rtn()"
            answer = self.send(operation, "POST", "/api/v1/travel", json.dumps({"chain": chain}))
            found = {one["id"]: one["attributes"].get("value") for one in answer["sets"][0]["vertices"]} if answer["sets"] else {}
            values = [found.get(vertex) for vertex in vertices]
            return values if len(values) > 1 else values[0], None

        return self.run("read", key, value, work)

    def read_tag(self, key: str, value: Any = None) -> Operation:
        """Reads a tag of an object."""
        path = f"/api/v1/objects/{self.shared.objects[key]}"
        return self.run("read", key, value, lambda operation: (self.get(operation, path)["tags"].get("value"), None))

    def by_name(self, operation: Operation | None, name: str, app: str) -> dict[str, Any] | None:
        """Returns the object of a name, if there is one."""
        try:
            return self.get(operation, "/api/v1/objects", name=name, app=app, owner=1)
        except Refused as refused:
            if refused.args[0] != 404:
                raise
            return None

    def read_holder(self, name: str, value: Any = None) -> Operation:
        """Reads who has created a name."""

        def work(operation: Operation):
            found = self.by_name(operation, name, "claims")
            return found["tags"].get("by") if found else None, None

        return self.run("holder", name, value, work)

    def search_marks(self) -> Operation:
        """Searches all objects of the marked group."""

        def work(operation: Operation):
            until = time.monotonic() + PATIENCE
            while True:
                answer = self.get(operation, "/api/v1/find", filter="app = 'marks'")
                if answer.get("complete", True) and not answer.get("missing"):
                    return [one["tags"].get("mark") for one in answer["objects"]], None
                if time.monotonic() > until:
                    raise Undecided("a server is missing in the answers of searches")
                time.sleep(0.05)

        return self.run("marked", "marks", GROUP, work)


class Client(threading.Thread):
    """A thread with a session that makes one operation after the other."""

    def __init__(self, shared: Shared, name: str, choices: list[str], rest: float) -> None:
        super().__init__(name=name, daemon=True)
        self.session, self.choices, self.rest = Session(shared, name), choices, rest
        self.shared, self.random = shared, self.session.random
        self.files = 0
        self.error: BaseException | None = None

    def run(self) -> None:
        try:
            while not self.shared.stop.is_set():
                getattr(self, self.random.choice(self.choices))()
                time.sleep(self.random.uniform(0, 2 * self.rest))
        except BaseException as error:  # noqa: B036 - the main thread reports it
            self.error = error

    def append(self) -> None:
        """Appends to one list, or to two in one batch."""
        session, number = self.session, self.shared.history.number()
        indexes = self.random.sample(range(LISTS), self.random.choice([1, 1, 2]))
        chosen = " ".join(self.shared.hub(index) for index in sorted(indexes))
        lines = [{"op": "put_edge", "src": hub, "type": "write", "dst": f"file:element-{number}"} for hub in chosen.split()]
        done = session.apply("append", chosen, number, lines)
        if done.outcome == OK and len(indexes) > 1 and self.random.random() < 0.2:
            with self.shared.lock:
                self.shared.snapshots.append((chosen, done.version))
            session.read_lists_as_of(chosen, done.version)

    def write(self) -> None:
        """Writes a register, or two of one pair in a batch."""
        number = self.shared.history.number()
        if self.random.random() < 0.5:
            key = f"job:register-{self.random.randrange(REGISTERS)}"
        else:
            pair = self.random.randrange(PAIRS)
            key = f"job:pair-{pair}-a job:pair-{pair}-b"
        lines = [{"op": "set", "id": vertex, "set": {"value": number}} for vertex in key.split()]
        self.session.apply("write", key, number, lines)

    def tag(self) -> None:
        """Sets a tag of an object."""
        key = self.random.choice(sorted(self.shared.objects))
        number = self.shared.history.number()
        path = f"/api/v1/objects/{self.shared.objects[key]}?once={self.session.name}-{number}"
        body = json.dumps({"set": {"value": number}})
        self.session.run("write", key, number, lambda o: (None, self.session.send(o, "PATCH", path, body)["version"]))

    def claim(self) -> None:
        """Creates a name that other writers try to create as well."""
        with self.shared.lock:
            # A name is claimed by several writers at about the same time.
            if not self.shared.names or self.random.random() < 0.3:
                self.shared.names.append(f"claim-{len(self.shared.names)}")
            name = self.shared.names[-1]
        number = self.shared.history.number()
        by = f"{self.session.name}-{number}"
        body = json.dumps({"name": name, "app": "claims", "owner": 1, "tags": {"by": by}})
        self.session.run("claim", name, by, lambda o: (self.session.send(o, "POST", f"/api/v1/objects?once={by}", body), None))

    def name_file(self) -> None:
        """Creates a name of this client, renames it and deletes it, and looks for it between these steps."""
        self.files += 1
        session, key = self.session, f"{self.session.name}-{self.files}"
        identity = {"app": "names", "owner": 1}
        number: str | None = None

        def change(action: str, suffix: str | None, method: str, path: str, body: Any) -> Operation:
            once = f"{session.name}-{self.shared.history.number()}"
            text = json.dumps(body) if body is not None else None
            return session.run("name", key, [action, suffix], lambda o: (session.send(o, method, f"{path}?once={once}", text), None))

        def look(suffix: str) -> None:
            session.run("name", key, ["look", suffix], lambda o: (session.by_name(o, f"{key}-{suffix}", "names") is not None, None))

        done = change("create", "a", "POST", "/api/v1/objects", {"name": f"{key}-a", **identity})
        look("a")
        if done.outcome != OK:
            return
        number = done.result["id"]
        path = f"/api/v1/objects/{number}"
        if change("rename", "b", "PATCH", path, {"set": {"name": f"{key}-b"}}).outcome != OK:
            return
        look("b")
        look("a")
        if self.random.random() < 0.5:
            change("delete", None, "DELETE", path, None)
            look("b")

    def mark(self) -> None:
        """Sets a tag on all objects of a group."""
        number = self.shared.history.number()
        body = json.dumps({"filter": "app = 'marks'", "set": {"mark": number}})
        self.session.run("mark", "marks", number, lambda o: (self.session.send(o, "POST", f"/api/v1/tag?once=mark-{number}", body), None))

    def read(self) -> None:
        """Reads something that writers change."""
        kind = self.random.choice(["list", "list", "register", "register", "pair", "tag", "marks", "holder", "as of"])
        with self.shared.lock:
            used, names, snapshots = sorted(self.shared.used), self.shared.names[-3:], list(self.shared.snapshots)
        if kind == "list" and used:
            present = used if self.random.random() < 0.1 else [f"job:list-{index}-{n // LIST_LENGTH}" for index, n in enumerate(self.shared.appended)]
            self.session.read_list(self.random.choice(present))
        elif kind == "register":
            self.session.read_registers(f"job:register-{self.random.randrange(REGISTERS)}")
        elif kind == "pair":
            pair = self.random.randrange(PAIRS)
            self.session.read_registers(f"job:pair-{pair}-a job:pair-{pair}-b")
        elif kind == "tag":
            self.session.read_tag(self.random.choice(sorted(self.shared.objects)))
        elif kind == "marks":
            self.session.search_marks()
        elif kind == "holder" and names:
            self.session.read_holder(self.random.choice(names))
        elif snapshots:
            self.session.read_lists_as_of(*self.random.choice(snapshots[-40:]))


def prepare(shared: Shared) -> None:
    """Creates the vertices and objects whose attributes and tags clients write."""
    session = Session(shared, "setup")
    registers = [f"job:register-{index}" for index in range(REGISTERS)] + [f"job:pair-{pair}-{half}" for pair in range(PAIRS) for half in "ab"]
    lines = "".join(json.dumps({"op": "put_vertex", "id": vertex}) + "\n" for vertex in registers)
    session.send(None, "POST", "/api/v1/apply?once=setup", lines, "application/x-ndjson")
    for index in range(TAGS):
        made = session.send(None, "POST", "/api/v1/objects", json.dumps({"name": f"tagged-{index}", "app": "tags", "owner": 1}))
        shared.objects[f"tagged-{index}"] = made["id"]
    for index in range(GROUP):
        session.send(None, "POST", "/api/v1/objects", json.dumps({"name": f"marked-{index}", "app": "marks", "owner": 1, "tags": {"mark": 0}}))


def read_everything(shared: Shared, seen: int) -> None:
    """Reads all that was written, after all faults, in a session that relies on a version."""
    session = Session(shared, "last")
    session.seen = seen
    for hub in sorted(shared.used):
        session.read_list(hub, "last")
    for index in range(REGISTERS):
        session.read_registers(f"job:register-{index}", "last")
    for pair in range(PAIRS):
        session.read_registers(f"job:pair-{pair}-a job:pair-{pair}-b", "last")
    for key in sorted(shared.objects):
        session.read_tag(key, "last")
    for name in shared.names:
        session.read_holder(name, "last")
    for hubs, version in shared.snapshots[-40:]:
        session.read_lists_as_of(hubs, version)
    session.search_marks()
