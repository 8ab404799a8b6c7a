"""Requests of one user to each interface of a server, and the comparison of the answers with what the user's process found."""

from __future__ import annotations

import json
import os
import random
import re
import time
import urllib.parse
from collections.abc import Callable, Sequence
from functools import partial

from .facts import JOBS, WORDS, Facts, Recorder, numbers, own_sums, path_of, vertex_of
from .oracle import UserView
from .service import Answer, Service
from .tree import TOKEN_LENGTH, TOKENS, Entry, describe_acl

NO_TOKEN = "zq" + "2" * (TOKEN_LENGTH - 2)
"""A token that no name has."""
SETTLE = 300.0
"""Seconds within which names for search and completion, which are cached, have to become current. It only ends a hang."""


class Difference(Exception):
    """An answer that differs from what the user's process found."""


class Scene:
    """One state of a tree and of the facts about it, with what each user may see."""

    def __init__(
        self, service: Service, recorder: Recorder, known: dict[str, Entry], facts: Facts, rng: random.Random, sample: int
    ) -> None:
        self.service, self.recorder, self.known, self.facts, self.rng, self.sample = (
            service,
            recorder,
            known,
            facts,
            rng,
            sample,
        )
        self.root = recorder.root
        self.by_inode: dict[int, Entry] = {one.inode: one for one in known.values()}
        self.children: dict[str, list[str]] = {path: [] for path, one in known.items() if one.kind == "directory"}
        for path in known:
            if path != self.root:
                self.children[path.rpartition("/")[0]].append(path)
        self.vertices = [path for kind in WORDS.values() for path in facts.vertices[kind]]
        self.with_vertex = {known[path].inode for path in self.vertices}
        self.gone = [of for listed in facts.edges.values() for of, path in listed if not self.exists(path)]
        """Types of edges to files that were removed: their last state decides, which is not in the tree any more."""

    def exists(self, path: str) -> bool:
        """Whether a path in an answer is that of a vertex that exists. It may also be the last one of a removed vertex."""
        return path in self.known and self.known[path].inode in self.with_vertex

    def describe(self, path: str) -> str:
        """Describes the rights on the way to a path."""
        lines, at = [], self.root
        for name in ["", *path.removeprefix(self.root).strip("/").split("/")]:
            at = f"{at}/{name}" if name else at
            one = self.known.get(at)
            lines.append(
                f"    {at}: {one.kind} {one.mode:04o} {one.uid}:{one.gid}; {describe_acl(at)}" if one else f"    {at}: none"
            )
        return "\n".join(dict.fromkeys(lines))


class Questions:
    """The requests of one user about one state."""

    def __init__(self, scene: Scene, view: UserView, token: str, past: set[str], earlier: dict[str, str]) -> None:
        self.scene, self.view, self.token, self.earlier = scene, view, token, earlier
        self.service, self.root, self.known, self.facts = scene.service, scene.root, scene.known, scene.facts
        self.compared = 0
        recorder = scene.recorder
        notes = {note for note, inode in recorder.notes.items() if inode in view.inodes and inode in scene.with_vertex}
        self.allowed = view.tokens | past | notes | view.objects
        """Tokens that answers may have. `past` has those of names that are gone, `earlier` the paths of all names."""

    def differ(self, interface: str, expected: object, got: object, paths: Sequence[str] = ()) -> Difference:
        on_the_way = "".join(f"\n  {path}\n{self.scene.describe(path)}" for path in paths[:3])
        return Difference(
            f"user {self.view.person.text()}, {interface}\n"
            f"  expected: {str(expected)[:600]}\n  got:      {str(got)[:600]}{on_the_way}"
        )

    def equal(self, interface: str, expected: object, got: object, paths: Sequence[str] = ()) -> None:
        self.compared += 1
        if expected != got:
            raise self.differ(interface, expected, got, paths)

    def same_paths(self, interface: str, expected: set[str], got: set[str]) -> None:
        """Compares sets of paths."""
        self.compared += 1
        missing, extra = sorted(expected - got), sorted(got - expected)
        if missing or extra:
            told = f"{len(missing)} missing {missing[:2]}, {len(extra)} too many {extra[:2]}"
            raise self.differ(interface, f"{len(expected)} paths", told, [*extra[:2], *missing[:2]])

    def same_files(self, interface: str, expected: set[str], got: list[str], extra: bool = False) -> None:
        """Compares files that are named by one of their paths; each name in the answer has to be one that the user may read.

        With `extra` the answer may also have files that were removed.
        """
        if extra:
            got = [path for path in got if self.scene.exists(path)]
        self.same_paths(f"{interface}: names", set(), {path for path in got if path not in self.view.readable})
        inodes = {self.known[path].inode for path in expected}
        found = {self.known[path].inode for path in got}
        self.compared += 1
        if inodes != found:
            wrong = [self.scene.by_inode[inode].path for inode in inodes ^ found]
            told = f"{len(found - inodes)} files too many, {len(inodes - found)} missing"
            raise self.differ(interface, f"{len(inodes)} files", told, wrong)

    def send(self, method: str, target: str, body: bytes | None = None, headers: Sequence[tuple[str, str]] = ()) -> Answer:
        """Sends a request; fails if the answer has the name of a file or an object that the user may not see."""
        answer = self.service.request(self.token, method, target, body, headers)
        self.search_hidden(
            f"{method} {target}", answer.text + json.dumps(answer.headers), urllib.parse.unquote(target) + str(body)
        )
        return answer

    def search_hidden(self, request: str, text: str, said: str = "") -> None:
        self.compared += 1
        hidden = set(TOKENS.findall(text)) - self.allowed - set(TOKENS.findall(said))
        if hidden:
            paths = [path for path, one in self.known.items() if one.token in hidden]
            paths += [path for token, path in self.earlier.items() if token in hidden and path not in self.known]
            place = text.find(min(hidden))
            raise self.differ(
                request,
                "no name of a hidden item",
                f"{sorted(hidden)[:3]} …{text[max(0, place - 200) : place + 100]}…",
                paths,
            )

    def get(self, what: str, /, **parameters: str | int) -> Answer:
        query = urllib.parse.urlencode(parameters)
        return self.send("GET", f"{what}?{query}" if query else what)

    def found(self, what: str, /, **parameters: str | int) -> dict:
        """Returns the JSON of a request that has to succeed."""
        answer = self.get(what, **parameters)
        if answer.status != 200:
            raise self.differ(f"{what} {parameters}", "status 200", f"{answer.status} {answer.text[:300]}")
        return answer.json()

    def some(self, paths: Sequence[str], count: int) -> list[str]:
        return self.scene.rng.sample(paths, min(count, len(paths)))

    def everything(self, share: float) -> None:
        """Asks for all files, and each other interface with the probability `share`."""
        parts = [
            self.lists,
            self.stats,
            self.links,
            self.space,
            self.vertices,
            self.graph,
            self.runs,
            self.objects,
            self.sparql,
            self.records,
        ]
        self.walks()
        for part in (*parts, self.tags, self.pages, self.names):
            if self.scene.rng.random() < share:
                part()

    # The namespace.

    def walk(self, path: str) -> dict[str, tuple]:
        """Returns all files at and below a path, by several requests where one answer has not all of them."""
        answer = self.found("/api/v1/files/find", path=path, limit=100_000)
        if answer["complete"]:
            return {one["path"]: attributes_of(one) for one in answer["files"]}
        listed = self.list(path)
        found = {one["path"]: attributes_of(one) for one in listed}
        for one in listed:
            if one["kind"] == "directory" and self.view.lists(one["path"]):
                found |= self.walk(one["path"])
        return found

    def list(self, path: str) -> list[dict]:
        listed, after = list[dict](), dict[str, str]()
        while True:
            page = self.found("/api/v1/files/list", path=path, limit=100_000, **after)
            listed += page["entries"]
            if not page["next"]:
                return listed
            after = {"after": page["next"]}

    def walks(self) -> None:
        got = self.walk(self.root)
        got.setdefault(self.root, self.known[self.root].attributes())
        self.same_paths("files/find", self.view.walked, set(got))
        for path, attributes in got.items():
            if attributes != self.known[path].attributes():
                raise self.differ(f"files/find, attributes of {path}", self.known[path].attributes(), attributes, [path])
        self.compared += len(got)

    def tags(self) -> None:
        """Searches for tags: those of files that may not be read are not found."""
        tagged = {note: inode for note, inode in self.scene.recorder.notes.items() if inode in self.scene.by_inode}
        for note, inode in self.scene.rng.sample(sorted(tagged.items()), min(3, len(tagged))):
            names = {path for path in self.view.walked if self.known[path].inode == inode and path in self.view.readable}
            answer = self.get("/api/v1/files/find", path=self.root, filter=f"note = '{note}'", limit=100)
            got = {one["path"] for one in answer.json().get("files", [])}
            self.same_paths(f"files/find note = '{note}'", names if inode in self.scene.with_vertex else set(), got)

    def lists(self) -> None:
        for path in self.some(list(self.scene.children), self.scene.sample):
            if not self.view.lists(path):
                self.refused("/api/v1/files/list", path)
                continue
            got = {one["path"]: attributes_of(one) for one in self.list(path)}
            expected = {child: self.known[child].attributes() for child in self.scene.children[path]}
            self.equal(f"files/list {path}", expected, got, [path])

    def refused(self, what: str, path: str) -> None:
        """Demands a refusal. Hidden names in the path are not confirmed: names that do not exist get the same answer."""
        answer = self.get(what, path=path)
        self.equal(f"{what} {path}", "EACCES", error_of(answer.json()), [path])
        made_up, told = path, answer.text
        for token in set(TOKENS.findall(path)) - self.view.tokens:
            made_up, told = made_up.replace(token, NO_TOKEN), told.replace(token, NO_TOKEN)
        if made_up != path:
            other = self.get(what, path=made_up)
            self.equal(
                f"{what} {path}, and {made_up}, which does not exist", (answer.status, told), (other.status, other.text), [path]
            )

    def stats(self) -> None:
        hidden = [path for path in self.known if path not in self.view.reached]
        for path in [*self.some(list(self.known), self.scene.sample), *self.some(hidden, self.scene.sample // 2)]:
            if path in self.view.reached:
                answer = self.get("/api/v1/files/stat", path=path)
                self.equal(f"files/stat {path}", self.known[path].attributes(), attributes_of(answer.json()), [path])
                continue
            self.refused("/api/v1/files/stat", path)

    def links(self) -> None:
        for path, expected in self.view.through:
            answer = self.get("/api/v1/files/stat", path=path, follow="true").json()
            if isinstance(expected, str):
                self.equal(f"files/stat {path}, followed", expected, error_of(answer), [path])
            else:
                self.equal(
                    f"files/stat {path}, followed", self.scene.by_inode[expected].attributes(), attributes_of(answer), [path]
                )

    def space(self) -> None:
        listable = {path for path in self.scene.children if path in self.view.walked and self.view.lists(path)}
        for what, more in (("files/usage", {"depth": 1_000}), ("files/top", {"by": "dir"})):
            rows = self.found(f"/api/v1/{what}", path=self.root, limit=100_000, **more)["rows"]
            got = {row["key"]: numbers(row) for row in rows}
            self.same_paths(what, listable, set(got))
            # Each directory counts what it has itself, and only the directories below it that the user may search.
            own = own_sums(got)
            for path in listable:
                if own[path] != (wanted := self.facts.sums[path]):
                    raise self.differ(f"{what} {path}: its own files, directories, bytes, blocks", wanted, own[path], [path])
            self.compared += len(listable)
        for by in ("user", "group", "kind", "type", "age"):
            self.equal(f"files/top by={by}", 400, self.get("/api/v1/files/top", by=by).status)
        self.get("/api/v1/view/space", path=self.root, depth=6)

    # The graph.

    def vertices(self) -> None:
        for kind in WORDS.values():
            expected = {path for path in self.facts.vertices[kind] if self.view.sees(path)}
            got: list[str] = []
            after: dict[str, str] = {}
            while True:
                page = self.found("/api/v1/vertices", type=kind, limit=100_000, **after)
                got += [path_of(one["id"]) or "" for one in page["vertices"]]
                if not page["next"]:
                    break
                after = {"after": page["next"]}
            self.same_files(f"vertices type={kind}", expected, got)
            self.equal(f"vertices type={kind}: number", len(expected), len(got))
        for path in [*self.some(self.scene.vertices, self.scene.sample), *self.some(list(self.known), 4)]:
            one = self.known[path]
            answer = self.get("/api/v1/vertex", id=vertex_of(one))
            exists = self.visible(path)
            if exists and path not in self.view.reached:
                # The first name of a file leads to it, wherever it is now.
                continue
            self.equal(f"vertex {path}", 200 if exists else 404, answer.status, [path])
            if exists:
                self.same_files(f"vertex {path}", {path}, [path_of(answer.json()["id"]) or ""])
                note = answer.json()["attributes"].get("note")
                self.equal(
                    f"vertex {path}: its tag", True, note is None or self.scene.recorder.notes[note] == one.inode, [path]
                )
            else:
                missing = self.get("/api/v1/vertex", id=vertex_of(one).replace(one.token, NO_TOKEN))
                self.equal(
                    f"vertex {path}, and one that does not exist",
                    missing.text,
                    answer.text.replace(one.token, NO_TOKEN),
                    [path],
                )
            history = self.found("/api/v1/history", id=vertex_of(one))["events"]
            self.equal(f"history {path}", exists, bool(history), [path])

    def graph(self) -> None:
        counts = self.found("/api/v1/stats")
        for kind in WORDS.values():
            expected = {self.known[path].inode for path in self.facts.vertices[kind] if self.view.sees(path)}
            self.equal(f"stats: vertices of type {kind}", len(expected), counts["vertices"][kind])
        self.equal("stats: objects", len(self.view.objects), counts["vertices"]["Object"])
        for kind in ("read", "write"):
            live = sum(1 for listed in self.facts.edges.values() for of, path in listed if of == kind and self.visible(path))
            gone = self.scene.gone.count(kind)
            got = counts["edges"][kind]
            self.equal(
                f"stats: edges of type {kind}",
                f"{live} to {live + gone}",
                f"{live} to {live + gone}" if live <= got <= live + gone else got,
            )
        body = json.dumps({"chain": 'v(type="Job").e("read").v()'}).encode()
        answer = self.send("POST", "/api/v1/travel", body, [("Content-Type", "application/json")])
        got = [path_of(one["id"]) or "" for one in answer.json()["sets"][0]["vertices"]]
        self.same_files(
            "travel",
            {path for listed in self.facts.edges.values() for of, path in listed if of == "read" and self.visible(path)},
            got,
            True,
        )

    def visible(self, path: str) -> bool:
        return self.scene.exists(path) and self.view.sees(path)

    def runs(self) -> None:
        """Asks for edges and lineage of jobs and files."""
        for job in self.some([f"job:{n}" for n in range(JOBS)], max(2, self.scene.sample // 4)):
            listed = self.found("/api/v1/edges", id=job, limit=100_000)["edges"]
            for kind in ("read", "write"):
                expected = {path for of, path in self.facts.edges[job] if of == kind and self.visible(path)}
                self.same_files(
                    f"edges {job} {kind}", expected, [path_of(one["dst"]) or "" for one in listed if one["type"] == kind], True
                )
            self.found("/api/v1/runs/one", id=job)
            self.story("lineage", job)
            self.story("impact", job)
            self.get(f"/api/v1/{self.scene.rng.choice(['view/lineage', 'view/neighbourhood', 'export/lineage'])}", id=job)
        for path in self.some([path for path in self.scene.vertices if path in self.view.reached], 2):
            if self.view.sees(path):
                self.story("lineage", vertex_of(self.known[path]))
                self.story("impact", vertex_of(self.known[path]))
            else:
                self.equal(f"lineage {path}", 404, self.get("/api/v1/lineage", id=vertex_of(self.known[path])).status, [path])
        self.get("/api/v1/runs", limit=1_000)

    def story(self, what: str, start: str) -> None:
        """Compares lineage or impact with a search over the edges to visible files."""
        to_job, from_job = ("write", "read") if what == "lineage" else ("read", "write")
        jobs, files, left = set(), set(), [start]
        while left:
            at = left.pop()
            if path_of(at) is None:
                if at not in jobs:
                    jobs.add(at)
                    left += [
                        vertex_of(self.known[path])
                        for of, path in self.facts.edges[at]
                        if of == from_job and self.visible(path)
                    ]
                continue
            inode = self.known[path_of(at) or ""].inode
            if inode not in files:
                files.add(inode)
                edges = ((job, of, path) for job, listed in self.facts.edges.items() for of, path in listed)
                left += [
                    job
                    for job, of, path in edges
                    if of == to_job and self.scene.exists(path) and self.known[path].inode == inode
                ]
        answer = self.found(f"/api/v1/{what}", id=start)
        got = [one["id"] for one in answer["vertices"]]
        paths = [path for one in got if (path := path_of(one)) is not None]
        if self.scene.gone:
            self.same_paths(
                f"{what} {start}", set(), {path for path in paths if self.scene.exists(path) and not self.view.sees(path)}
            )
            return
        self.same_files(f"{what} {start}", {self.scene.by_inode[inode].path for inode in files}, paths)
        self.equal(f"{what} {start}: jobs", jobs, {one for one in got if path_of(one) is None})

    # Objects, RDF, catalogue, console.

    def objects(self) -> None:
        expected = self.view.objects
        found = self.found("/api/v1/find", filter="", limit=100_000)
        self.equal("find", expected, {one["attributes"]["name"] for one in found["objects"]})
        self.equal("find: number", len(expected), self.found("/api/v1/find", filter="", count="true")["matches"])
        tags = {one["name"]: one["objects"] for one in self.found("/api/v1/tags")["tags"]}
        self.equal("tags", len(expected), tags.get("energy", 0))
        self.get("/api/v1/tags/values", name="name", filter="", limit=100_000)
        for name in self.some(sorted(self.scene.recorder.objects), 6):
            number = self.scene.recorder.objects[name]
            self.equal(f"objects/{number}", 200 if name in expected else 404, self.get(f"/api/v1/objects/{number}").status)
            self.equal(
                f"find name = '{name}'", int(name in expected), self.found("/api/v1/find", filter=f"name = '{name}'")["matches"]
            )
        identifiers: set[str] = set()
        page = self.get("/oai", verb="ListIdentifiers", metadataPrefix="oai_dc").text
        while True:
            identifiers |= set(re.findall(r"object:(\d+)</identifier>", page))
            more = re.search(r"<resumptionToken[^>]*>([^<]+)<", page)
            if not more:
                break
            page = self.get("/oai", verb="ListIdentifiers", resumptionToken=more[1]).text
        self.equal("oai", {self.scene.recorder.objects[name] for name in expected}, identifiers)

    def sparql(self) -> None:
        query = "SELECT ?path { GRAPH <urn:esker:meta> { ?file <urn:esker:terms/path> ?path } }"
        answer = self.get("/sparql", query=query, format="json")
        got = [row["path"]["value"] for row in answer.json()["results"]["bindings"]]
        self.same_files("sparql", {path for path in self.scene.vertices if self.view.sees(path)}, got, True)

    def records(self) -> None:
        for path in self.some(self.scene.vertices, 4):
            one = self.known[path]
            if path not in self.view.reached and self.view.sees(path):
                # The first name of a file leads to it, wherever it is now.
                continue
            status = self.send("GET", f"/records/{urllib.parse.quote(vertex_of(one))}").status
            if one.kind == "directory" and path in self.view.reached:
                # The record of a directory has its entries; that the directory exists is visible.
                self.equal(f"records {path}", self.view.lists(path), status == 200, [path])
            else:
                # A file that may not be read has a record of what stat(2) shows.
                self.equal(f"records {path}", 200 if path in self.view.reached else 404, status, [path])

    def pages(self) -> None:
        for what in ("home", "cluster", "runs", "news", "namespaces", "jobs", "schema"):
            self.found(f"/api/v1/{what}")
        self.get("/api/v1/rdf/dump", graph="urn:esker:meta", format="nt")
        for what in ("/metrics", "/api/v1/site", "/api/v1/sessions"):
            self.equal(what, True, self.get(what).status in (401, 403))

    def names(self) -> None:
        """Compares search and completion, whose names may be older than the other answers."""
        self.settled(self.search)
        for path in self.some(self.scene.vertices, 4):
            self.settled(partial(self.suggest, path))

    def settled(self, part: Callable[[], None]) -> None:
        until = time.monotonic() + SETTLE
        while True:
            try:
                part()
                return
            except Difference:
                if time.monotonic() > until:
                    raise
                time.sleep(0.25)

    def search(self) -> None:
        for kind in WORDS.values():
            expected = {path for path in self.facts.vertices[kind] if self.view.sees(path)}
            got: list[str] = []
            skip: int | None = 0
            while skip is not None:
                answer = self.found("/api/v1/search", q="", type=kind, limit=1_000, skip=skip)
                got += [path_of(one["id"]) or "" for one in answer["items"]]
                skip = answer["skip"]
                self.equal(f"search type={kind}: number", len(expected), answer["matches"])
            self.same_files(f"search type={kind}", expected, got)

    def suggest(self, path: str) -> None:
        token = self.known[path].token
        for what, of in (
            ("suggest", {"q": token}),
            ("search", {"q": token}),
            ("complete", {"what": "travel", "text": f'v("file:{path[:-2]}'}),
        ):
            answer = self.found(f"/api/v1/{what}", **of)
            if self.known[path].links == 1 and what != "complete":
                got = any(token in json.dumps(one) for one in answer["items"])
                self.equal(f"{what} {token}", self.view.sees(path) or got and self.contains(path), got, [path])

    def contains(self, path: str) -> bool:
        """Whether the user sees a vertex below a directory, whose path has the directory's name."""
        return any(other.startswith(f"{path}/") and self.view.sees(other) for other in self.scene.vertices)


def error_of(answer: dict) -> str:
    """Returns the name of an error of POSIX in an answer."""
    found = re.search(r"\((E[A-Z]+)\)$", str(answer.get("error", answer)))
    return found[1] if found else str(answer)[:200]


def attributes_of(one: dict) -> tuple:
    """Returns the attributes in an answer, in the form of `Entry.attributes`."""
    if "kind" not in one:
        return (str(one),)
    plain = one["kind"] != "directory"
    return (
        one["kind"],
        one["mode"],
        one["uid"],
        one["gid"],
        one["size"] if plain else None,
        one["links"] if plain else None,
        one["target"],
    )


def paths_through(scene_known: dict[str, Entry], rng: random.Random, count: int) -> list[str]:
    """Returns paths that lead through symbolic links."""
    sticky = protected_links()
    links = [one for one in scene_known.values() if one.kind == "symlink"]
    found: list[str] = []
    for link in rng.sample(links, min(count, len(links))):
        place = scene_known[link.path.rpartition("/")[0]]
        if sticky and place.mode & 0o1002 == 0o1002:
            # Linux follows this link only for its owner, which is no matter of rights to the file.
            continue
        found.append(link.path)
        if os.path.isdir(link.path):
            with os.scandir(link.path) as listed:
                found += [one.path for one in listed][:3]
    return found


def protected_links() -> bool:
    try:
        with open("/proc/sys/fs/protected_symlinks") as setting:
            return setting.read().strip() == "1"
    except OSError:
        return False
