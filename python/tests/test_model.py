"""Compares the database with a model of dicts after random changes, in the current state and as of each commit."""

import shutil
import tempfile
from pathlib import Path

from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, precondition, rule

import esker

NAMES = st.sampled_from([f"job:{i}" for i in range(3)])
FILES = st.sampled_from([f"file:/{i}" for i in range(3)])
TYPES = st.sampled_from(["read", "write"])
VALUES = st.one_of(
    st.none(),
    st.booleans(),
    st.integers(-(2**63), 2**63 - 1),
    st.floats(allow_nan=False),
    st.text(max_size=5),
    st.binary(max_size=5),
    st.lists(st.integers(0, 9), max_size=3),
)
KEYS = st.sampled_from(["k", "note"])


class Model(RuleBasedStateMachine):
    def __init__(self):
        super().__init__()
        self.folder = Path(tempfile.mkdtemp())
        self.db = esker.open(str(self.folder / "m.esker"), create=True, durability="relaxed")
        self.vertices, self.edges = {}, {}
        self.past = []

    def committed(self, commit):
        self.past.append((commit.version, {k: dict(v) for k, v in self.vertices.items()}, dict(self.edges)))

    @rule(name=NAMES, key=KEYS, value=VALUES)
    def insert(self, name, key, value):
        tags = self.vertices.setdefault(name, {})
        tags[key] = value
        self.committed(self.db.insert(name, {key: value}))

    @precondition(lambda self: self.vertices)
    @rule(data=st.data(), key=KEYS)
    def unset(self, data, key):
        name = data.draw(st.sampled_from(sorted(self.vertices)))
        self.vertices[name].pop(key, None)
        self.committed(self.db.set(name, remove=[key]))

    @precondition(lambda self: self.vertices)
    @rule(data=st.data())
    def delete(self, data):
        name = data.draw(st.sampled_from(sorted(self.vertices)))
        del self.vertices[name]
        self.committed(self.db.delete(name))

    @rule(source=NAMES, type=TYPES, to=FILES, value=VALUES)
    def link(self, source, type, to, value):
        self.vertices.setdefault(source, {})
        self.vertices.setdefault(to, {})
        self.edges[source, type, to] = {"p": value}
        self.committed(self.db.link(source, type, to, p=value))

    @precondition(lambda self: self.edges)
    @rule(data=st.data())
    def unlink(self, data):
        key = data.draw(st.sampled_from(sorted(self.edges)))
        del self.edges[key]
        self.committed(self.db.unlink(*key))

    @rule()
    def reopen(self):
        self.db.close()
        self.db = esker.open(str(self.folder / "m.esker"), durability="relaxed")

    def check(self, vertices, edges, when):
        for name in [f"job:{i}" for i in range(3)] + [f"file:/{i}" for i in range(3)]:
            found = self.db.get(name, as_of=when)
            assert (None if found is None else found.tags) == vertices.get(name)
        found = self.db.scan(as_of=when)
        assert {(r["source"], r["type"], r["destination"]) for r in found} == set(edges)
        for key, properties in edges.items():
            assert self.db.edge(*key, as_of=when) == properties

    @invariant()
    def now(self):
        self.check(self.vertices, self.edges, None)

    def teardown(self):
        for version, vertices, edges in self.past:
            self.check(vertices, edges, version)
        self.db.close()
        shutil.rmtree(self.folder)


TestModel = Model.TestCase
TestModel.settings = settings(max_examples=15, stateful_step_count=20, deadline=None, derandomize=True)
