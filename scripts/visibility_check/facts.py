"""Facts about files of a tree that the owner records: vertices, tags, edges of jobs, objects."""

from __future__ import annotations

import os
import random
from dataclasses import dataclass, field
from pathlib import Path

from .service import Service
from .tree import FILE_MODES, Entry, Person, new_token

JOBS = 24
NOBODYS_GID = 29_999
"""Group of the stand-ins of objects that have no group: no user is in it."""
WORDS = {"file": "File", "directory": "Directory"}


def vertex_of(entry: Entry) -> str:
    return f"{'directory' if entry.kind == 'directory' else 'file'}:{entry.path}"


def path_of(vertex: str) -> str | None:
    """Returns the path in the name of a file's vertex; None for other vertices."""
    kind, _, key = vertex.partition(":")
    return key if kind in WORDS else None


@dataclass
class Facts:
    """The owner's view of everything that the graph has at a moment."""

    vertices: dict[str, set[str]] = field(default_factory=dict)
    """For File and Directory: the paths of all vertices that exist."""
    edges: dict[str, list[tuple[str, str]]] = field(default_factory=dict)
    """For each job its edges, as type and path."""
    sums: dict[str, tuple[int, ...]] = field(default_factory=dict)
    """For each directory the numbers that it has itself, without the directories in it: files, directories, bytes, blocks."""


class Recorder:
    """Records facts as the owner, and remembers the objects and the tags with tokens."""

    def __init__(self, service: Service, token: str, rng: random.Random, root: str) -> None:
        self.service, self.token, self.rng, self.root = service, token, rng, root
        self.objects: dict[str, str] = {}
        """Names of objects and their numbers."""
        self.stand_ins: dict[str, str] = {}
        """Names of objects and the files that have their rights."""
        self.notes: dict[str, int] = {}
        """Tokens in tags, and the files that have them."""
        self.note_paths: dict[str, str] = {}
        """Tokens in tags, and the paths for which they were recorded."""

    def record_files(self, known: dict[str, Entry], share: float) -> None:
        rng, lines = self.rng, list[dict]()
        chosen = [one for one in known.values() if one.path != self.root and rng.random() < share]
        for one in chosen:
            lines.append({"op": "ensure_vertex", "id": vertex_of(one)})
            if rng.random() < 0.3 and one.inode not in self.notes.values():
                note = new_token(rng)
                self.notes[note], self.note_paths[note] = one.inode, one.path
                lines.append({"op": "set", "id": vertex_of(one), "set": {"note": note}})
        for job in range(JOBS):
            lines.append({"op": "put_vertex", "id": f"job:{job}", "attributes": {"command": "simulate"}})
        for one in chosen:
            for _ in range(rng.choice([0, 0, 1, 1, 2])):
                lines.append(
                    {
                        "op": "put_edge",
                        "src": f"job:{rng.randrange(JOBS)}",
                        "type": rng.choice(["read", "write"]),
                        "dst": vertex_of(one),
                    }
                )
        self.service.apply(self.token, lines)

    def record_objects(self, folder: Path, who: list[Person], count: int) -> None:
        """Creates objects, and for each a file with its owner, group and mode."""
        rng, lines = self.rng, list[dict]()
        folder.mkdir()
        folder.chmod(0o755)
        for _ in range(count):
            name, owner = new_token(rng), rng.choice(who)
            gid = rng.choice([None, *rng.choice(who).gids])
            mode = rng.choice([0o644, 0o640, *FILE_MODES, rng.randrange(0o1000)])
            attributes = {"mode": mode} | ({} if gid is None else {"gid": gid})
            lines.append(
                {
                    "op": "create_object",
                    "name": name,
                    "app": "lab",
                    "owner": owner.uid,
                    "attributes": attributes,
                    "tags": {"energy": rng.randrange(9)},
                }
            )
            path = str(folder / name)
            os.close(os.open(path, os.O_CREAT | os.O_EXCL))
            os.chown(path, owner.uid, NOBODYS_GID if gid is None else gid)
            os.chmod(path, mode)
            self.stand_ins[name] = path
        self.service.apply(self.token, lines)
        for one in self.service.get(self.token, "/api/v1/find", filter="", limit=100_000).json()["objects"]:
            self.objects[one["attributes"]["name"]] = one["id"]

    def facts(self) -> Facts:
        """Reads what there is, as the owner."""
        found = Facts()
        for kind in WORDS.values():
            found.vertices[kind] = {path_of(vertex) or "" for vertex in vertices(self.service, self.token, kind)}
        for job in range(JOBS):
            found.edges[f"job:{job}"] = edges(
                self.service.get(self.token, "/api/v1/edges", id=f"job:{job}", limit=100_000).json()["edges"]
            )
        rows = self.service.get(self.token, "/api/v1/files/usage", path=self.root, depth=1_000, limit=100_000).json()["rows"]
        found.sums = own_sums({row["key"]: numbers(row) for row in rows})
        return found


def numbers(row: dict) -> tuple[int, ...]:
    return (row["files"], row["directories"], row["bytes"], row["blocks"])


def own_sums(totals: dict[str, tuple[int, ...]]) -> dict[str, tuple[int, ...]]:
    """Takes the totals of directories from those of their parents."""
    own = {path: list(total) for path, total in totals.items()}
    for path, total in totals.items():
        parent = own.get(path.rpartition("/")[0])
        if parent is not None:
            parent[:] = [a - b for a, b in zip(parent, total, strict=True)]
    return {path: tuple(total) for path, total in own.items()}


def vertices(service: Service, token: str, kind: str) -> list[str]:
    """Returns the names of all vertices of a type."""
    found: list[str] = []
    after: dict[str, str] = {}
    while True:
        page = service.get(token, "/api/v1/vertices", type=kind, limit=100_000, **after).json()
        found += [one["id"] for one in page["vertices"]]
        if not page["next"]:
            return found
        after = {"after": page["next"]}


def edges(listed: list[dict]) -> list[tuple[str, str]]:
    return [(one["type"], path) for one in listed if (path := path_of(one["dst"])) is not None]
