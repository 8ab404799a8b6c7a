#!/usr/bin/env python3
"""What other databases take for SoMeta's BOSS case, beside `esker bench boss`.

    esker bench boss --write-data boss.csv
    boss_peers.py boss.csv > peers.json
    esker bench boss --peers peers.json

SQLite (Python's), DuckDB (PyPI) and PostgreSQL (Debian; started here on a scratch folder and a Unix socket, stopped
again) get the same objects and answer the same questions. Each is set up for what Esker calls relaxed durability where
it can be: a commit survives the death of the process, and the disk has it a moment later.

  SQLite      write-ahead log, synchronous = normal: no wait for the disk at a commit
  DuckDB      as it comes: it has no such setting, and waits for the disk at each commit
  PostgreSQL  synchronous_commit = off; shared_buffers = 256 MB; else as it comes

An answer is fetched into the caller's own values by the quickest way that a client has (`fetchall`; DuckDB: the quicker
of that and `fetchnumpy`). Rows named `... inside` read the same columns and only give a sum, so that no time goes into
Python's objects.
"""

import argparse
import json
import os
import pwd
import shutil
import signal
import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from random import Random

PARTS = (1, 2, 4, 8, 16, 32)
LOOKUPS = 20_000
SLOW_LOOKUPS = 2_000


def read(path):
    """Objects as (plate, mjd, fiber, name), from the file that `esker bench boss --write-data` writes."""
    with open(path, encoding="utf-8") as file:
        next(file)
        for line in file:
            plate, mjd, fiber, name = line.rstrip("\n").split(",")
            yield int(plate), int(mjd), int(fiber), name


def bounds(rows):
    """For each part of a hundred the plate up to which at least that many objects lie; as in `esker bench boss`."""
    plates = sorted(row[0] for row in rows)
    return {part: plates[(len(plates) * part + 99) // 100 - 1] for part in PARTS}


class Clock:
    """Collects what was measured."""

    def __init__(self, rounds):
        self.rounds = rounds
        self.rows = {}

    def once(self, name, work):
        began = time.perf_counter()
        work()
        self.rows[name] = {"ms": (time.perf_counter() - began) * 1e3}

    def middle(self, name, work, counted=None):
        times = []
        for turn in range(self.rounds):
            began = time.perf_counter()
            got = work(turn)
            times.append((time.perf_counter() - began) * 1e3)
            if counted is not None and got != counted:
                sys.exit(f"{name}: {got} objects, expected {counted}")
        self.rows[name] = {"ms": statistics.median(times)}

    def rate(self, name, items, work):
        began = time.perf_counter()
        for item in items:
            work(item)
        self.rows[name] = {"per_s": len(items) / (time.perf_counter() - began)}


def measure(clock, db, rows):
    """What is asked of each of them, in the same order."""
    limits = bounds(rows)
    expected = {part: sum(row[0] <= plate for row in rows) for part, plate in limits.items()}
    triples = [row[:3] for row in Random(1).sample(rows, LOOKUPS)]
    some = triples if db.quick else triples[:SLOW_LOOKUPS]
    clock.once("load", lambda: db.load(rows))
    clock.once("index", db.index)

    def lookup(triple):
        if db.lookup(triple) != 1:
            sys.exit(f"{triple} is not there once")

    clock.rate("esearch", some, lookup)
    clock.rate("tag one", some, db.tag_one)
    for part, plate in limits.items():
        clock.middle(f"group {part}", lambda turn: db.group(f"group{part}_{turn}", plate), expected[part])
    db.settle()
    for part, plate in limits.items():
        clock.middle(f"retrieve {part}", lambda _: db.retrieve(f"group{part}_0"), expected[part])
        clock.middle(f"retrieve {part} inside", lambda _: db.retrieve_inside(f"group{part}_0"), expected[part])
        clock.middle(f"ids {part}", lambda _: db.ids(f"group{part}_0"), expected[part])
    for part, plate in limits.items():
        clock.middle(f"range {part}", lambda _: db.range(plate), expected[part])
        clock.middle(f"range {part} inside", lambda _: db.range_inside(plate), expected[part])


COLUMNS = "plate, mjd, fiber, name"
SUMS = "count(*), sum(plate), sum(mjd), sum(fiber), sum(length(name))"
OF_TAG = "FROM tags t JOIN objects o ON o.id = t.object WHERE t.name = "


# Both tables have a column of that name.
def of_tag(columns):
    return columns.replace("name", "o.name")


class SQLite:
    quick = True
    embedded = True
    variant = "one row a tag"

    def __init__(self, folder, _):
        import sqlite3

        self.title = f"SQLite {sqlite3.sqlite_version}"
        self.db = sqlite3.connect(folder / "boss.sqlite", isolation_level=None)
        self.db.execute("PRAGMA journal_mode = WAL")
        self.db.execute("PRAGMA synchronous = NORMAL")
        self.db.execute("PRAGMA cache_size = -262144")

    def load(self, rows):
        self.db.execute("CREATE TABLE objects (id INTEGER PRIMARY KEY, plate INT, mjd INT, fiber INT, name TEXT)")
        self.db.execute("CREATE TABLE tags (object INT, name TEXT, value INT, PRIMARY KEY (name, object)) WITHOUT ROWID")
        self.db.execute("BEGIN")
        self.db.executemany(f"INSERT INTO objects ({COLUMNS}) VALUES (?, ?, ?, ?)", rows)
        self.db.execute("COMMIT")

    def index(self):
        self.db.execute("CREATE UNIQUE INDEX triple ON objects (plate, mjd, fiber)")
        self.db.execute("ANALYZE")

    def lookup(self, triple):
        sql = f"SELECT {COLUMNS} FROM objects WHERE plate = ? AND mjd = ? AND fiber = ?"
        return len(self.db.execute(sql, triple).fetchall())

    def tag_one(self, triple):
        sql = "INSERT OR REPLACE INTO tags SELECT id, 'checked', 1 FROM objects WHERE plate = ? AND mjd = ? AND fiber = ?"
        self.db.execute(sql, triple)

    def group(self, tag, plate):
        sql = "INSERT OR REPLACE INTO tags SELECT id, ?, 1 FROM objects WHERE plate <= ?"
        return self.db.execute(sql, (tag, plate)).rowcount

    def settle(self):
        self.db.execute("ANALYZE")

    def retrieve(self, tag):
        return len(self.db.execute(f"SELECT {of_tag(COLUMNS)} {OF_TAG} ?", (tag,)).fetchall())

    def retrieve_inside(self, tag):
        return self.db.execute(f"SELECT {of_tag(SUMS)} {OF_TAG} ?", (tag,)).fetchone()[0]

    def ids(self, tag):
        return len(self.db.execute("SELECT object FROM tags WHERE name = ?", (tag,)).fetchall())

    def range(self, plate):
        return len(self.db.execute(f"SELECT {COLUMNS} FROM objects WHERE plate <= ?", (plate,)).fetchall())

    def range_inside(self, plate):
        return self.db.execute(f"SELECT {SUMS} FROM objects WHERE plate <= ?", (plate,)).fetchone()[0]

    def close(self):
        self.db.close()


class DuckDB:
    quick = False
    embedded = True
    variant = "one row a tag"

    def __init__(self, folder, data):
        import duckdb

        self.title = f"DuckDB {duckdb.__version__}"
        self.data = data
        self.db = duckdb.connect(str(folder / "boss.duckdb"))

    def load(self, _):
        self.db.execute("CREATE SEQUENCE numbers")
        self.db.execute(
            "CREATE TABLE objects (id INT DEFAULT nextval('numbers'), plate INT, mjd INT, fiber INT, name TEXT)"
        )
        self.db.execute("CREATE TABLE tags (object INT, name TEXT, value INT)")
        self.db.execute(f"COPY objects ({COLUMNS}) FROM '{self.data}' (HEADER)")

    def index(self):
        self.db.execute("CREATE INDEX triple ON objects (plate, mjd, fiber)")

    def lookup(self, triple):
        sql = f"SELECT {COLUMNS} FROM objects WHERE plate = ? AND mjd = ? AND fiber = ?"
        return len(self.db.execute(sql, triple).fetchall())

    def tag_one(self, triple):
        sql = "INSERT INTO tags SELECT id, 'checked', 1 FROM objects WHERE plate = ? AND mjd = ? AND fiber = ?"
        self.db.execute(sql, triple)

    def group(self, tag, plate):
        sql = "INSERT INTO tags SELECT id, ?, 1 FROM objects WHERE plate <= ?"
        return self.db.execute(sql, (tag, plate)).fetchone()[0]

    def settle(self):
        pass

    def fetch(self, sql, of):
        """By the quicker way, which the first two calls of each question find."""
        times = self.__dict__.setdefault("times", {}).setdefault(sql, {})

        def numpy():
            columns = self.db.execute(sql, of).fetchnumpy()
            return len(next(iter(columns.values())))

        def values():
            return len(self.db.execute(sql, of).fetchall())

        for way in (numpy, values):
            if way.__name__ not in times:
                began = time.perf_counter()
                way()
                times[way.__name__] = time.perf_counter() - began
        return (numpy if times["numpy"] <= times["values"] else values)()

    def retrieve(self, tag):
        return self.fetch(f"SELECT {of_tag(COLUMNS)} {OF_TAG} ?", (tag,))

    def retrieve_inside(self, tag):
        return self.db.execute(f"SELECT {of_tag(SUMS)} {OF_TAG} ?", (tag,)).fetchone()[0]

    def ids(self, tag):
        return self.fetch("SELECT object FROM tags WHERE name = ?", (tag,))

    def range(self, plate):
        return self.fetch(f"SELECT {COLUMNS} FROM objects WHERE plate <= ?", (plate,))

    def range_inside(self, plate):
        return self.db.execute(f"SELECT {SUMS} FROM objects WHERE plate <= ?", (plate,)).fetchone()[0]

    def close(self):
        self.db.close()


class Postgres:
    """One row a tag."""

    quick = True
    embedded = False
    variant = "one row a tag"

    def __init__(self, server, data):
        import psycopg

        self.data = data
        self.db = psycopg.connect(server.address, autocommit=True)
        version = self.db.info.server_version
        self.title = f"PostgreSQL {version // 10000}.{version % 10000}"
        self.db.execute("DROP TABLE IF EXISTS tags; DROP TABLE IF EXISTS objects")

    def run(self, sql, of=()):
        # Binary values are made faster than text is read; a plan is kept after some calls.
        return self.db.execute(sql, of, binary=True)

    def copy(self):
        with self.db.cursor() as cursor, open(self.data, "rb") as file:
            with cursor.copy(f"COPY objects ({COLUMNS}) FROM STDIN (FORMAT csv, HEADER)") as copy:
                while block := file.read(1 << 20):
                    copy.write(block)

    def load(self, _):
        self.db.execute(
            "CREATE TABLE objects (id INT GENERATED ALWAYS AS IDENTITY PRIMARY KEY, plate INT, mjd INT, fiber INT, name TEXT)"
        )
        self.db.execute("CREATE TABLE tags (object INT, name TEXT, value INT, PRIMARY KEY (name, object))")
        self.copy()

    def index(self):
        self.db.execute("CREATE UNIQUE INDEX triple ON objects (plate, mjd, fiber)")
        self.db.execute("VACUUM ANALYZE objects")

    def lookup(self, triple):
        sql = f"SELECT {COLUMNS} FROM objects WHERE plate = %s AND mjd = %s AND fiber = %s"
        return len(self.run(sql, triple).fetchall())

    def tag_one(self, triple):
        self.db.execute(
            "INSERT INTO tags SELECT id, 'checked', 1 FROM objects WHERE plate = %s AND mjd = %s AND fiber = %s"
            " ON CONFLICT (name, object) DO UPDATE SET value = 1",
            triple,
        )

    def group(self, tag, plate):
        return self.db.execute(
            "INSERT INTO tags SELECT id, %s, 1 FROM objects WHERE plate <= %s"
            " ON CONFLICT (name, object) DO UPDATE SET value = 1",
            (tag, plate),
        ).rowcount

    def settle(self):
        self.db.execute("VACUUM ANALYZE")

    def retrieve(self, tag):
        return len(self.run(f"SELECT {of_tag(COLUMNS)} {OF_TAG} %s", (tag,)).fetchall())

    def retrieve_inside(self, tag):
        return self.run(f"SELECT {of_tag(SUMS)} {OF_TAG} %s", (tag,)).fetchone()[0]

    def ids(self, tag):
        return len(self.run("SELECT object FROM tags WHERE name = %s", (tag,)).fetchall())

    def range(self, plate):
        return len(self.run(f"SELECT {COLUMNS} FROM objects WHERE plate <= %s", (plate,)).fetchall())

    def range_inside(self, plate):
        return self.run(f"SELECT {SUMS} FROM objects WHERE plate <= %s", (plate,)).fetchone()[0]

    def close(self):
        self.db.close()


class PostgresJson(Postgres):
    """Tags in a column of jsonb with a GIN index."""

    variant = "jsonb, GIN"

    def load(self, _):
        self.db.execute(
            "CREATE TABLE objects (id INT GENERATED ALWAYS AS IDENTITY PRIMARY KEY, plate INT, mjd INT, fiber INT, name TEXT,"
            " tags JSONB NOT NULL DEFAULT '{}')"
        )
        self.copy()

    def index(self):
        super().index()
        self.db.execute("CREATE INDEX tagged ON objects USING GIN (tags jsonb_path_ops)")

    def tag_one(self, triple):
        self.db.execute(
            """UPDATE objects SET tags = tags || '{"checked": 1}' WHERE plate = %s AND mjd = %s AND fiber = %s""", triple
        )

    def group(self, tag, plate):
        return self.db.execute(
            "UPDATE objects SET tags = tags || jsonb_build_object(%s::text, 1) WHERE plate <= %s", (tag, plate)
        ).rowcount

    HAS = "FROM objects WHERE tags @> jsonb_build_object(%s::text, 1)"

    def retrieve(self, tag):
        return len(self.run(f"SELECT {COLUMNS} {self.HAS}", (tag,)).fetchall())

    def retrieve_inside(self, tag):
        return self.run(f"SELECT {SUMS} {self.HAS}", (tag,)).fetchone()[0]

    def ids(self, tag):
        return len(self.run(f"SELECT id {self.HAS}", (tag,)).fetchall())


class Server:
    """PostgreSQL on a scratch folder and a Unix socket."""

    def __init__(self, folder):
        programs = sorted(Path("/usr/lib/postgresql").glob("*/bin"))
        if not programs:
            sys.exit("boss_peers: no PostgreSQL under /usr/lib/postgresql: install it (make bench-boss does), or --skip postgres")
        self.folder, self.data = folder, folder / "data"
        # It does not run as root.
        self.user = "postgres" if os.geteuid() == 0 else None
        folder.mkdir()
        if self.user:
            owner = pwd.getpwnam(self.user)
            os.chown(folder, owner.pw_uid, owner.pw_gid)
            # The scratch folder around it is ours, and nobody else's so far.
            folder.parent.chmod(0o711)
        name = self.user or pwd.getpwuid(os.geteuid()).pw_name
        quiet = {"stdout": subprocess.DEVNULL, "cwd": folder, "user": self.user}
        subprocess.run(
            [programs[-1] / "initdb", "-D", self.data, "-A", "trust", "-U", name, "-E", "UTF8", "--locale=C"], check=True, **quiet
        )
        settings = {
            "listen_addresses": "",
            "unix_socket_directories": folder,
            "synchronous_commit": "off",
            "shared_buffers": "256MB",
        }
        options = [word for key, value in settings.items() for word in ("-c", f"{key}={value}")]
        self.process = subprocess.Popen(
            [programs[-1] / "postgres", "-D", self.data, *options], stderr=open(folder / "log", "wb"), **quiet
        )
        self.address = f"host={folder} user={name} dbname=postgres"
        self.wait()

    def wait(self):
        import psycopg

        for _ in range(300):
            try:
                psycopg.connect(self.address).close()
                return
            except psycopg.OperationalError:
                if self.process.poll() is not None:
                    break
                time.sleep(0.1)
        sys.exit("boss_peers: PostgreSQL does not start:\n" + (self.folder / "log").read_text(errors="replace")[-2000:])

    def stop(self):
        self.process.send_signal(signal.SIGINT)
        self.process.wait()


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("data", type=Path, help="the file that `esker bench boss --write-data` wrote")
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--scratch", type=Path, help="where to make a scratch folder: the file system to measure")
    parser.add_argument("--skip", action="append", default=[], choices=["sqlite", "duckdb", "postgres"])
    args = parser.parse_args()
    data = args.data.resolve()
    rows = list(read(data))
    folder = Path(tempfile.mkdtemp(prefix="boss-peers-", dir=args.scratch)).resolve()
    server = None
    peers = []

    def run(kind, place):
        db = kind(place, data)
        print(f"{db.title}, {db.variant}", file=sys.stderr)
        clock = Clock(args.rounds)
        measure(clock, db, rows)
        db.close()
        peers.append({"peer": db.title, "variant": db.variant, "embedded": db.embedded, "rows": clock.rows})

    try:
        if "sqlite" not in args.skip:
            run(SQLite, folder)
        if "duckdb" not in args.skip:
            run(DuckDB, folder)
        if "postgres" not in args.skip:
            server = Server(folder / "postgres")
            run(Postgres, server)
            run(PostgresJson, server)
    finally:
        if server:
            server.stop()
        shutil.rmtree(folder, ignore_errors=True)
    json.dump({"objects": len(rows), "peers": peers}, sys.stdout, indent=1)
    print()


if __name__ == "__main__":
    main()
