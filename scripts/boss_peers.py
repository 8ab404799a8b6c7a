#!/usr/bin/env python3
"""Measures SoMeta's BOSS case with other databases, for a comparison with `esker bench boss`.

    esker bench boss --write-data boss.csv
    boss_peers.py boss.csv > peers.json
    esker bench boss --peers peers.json

SQLite (of Python), DuckDB (PyPI) and PostgreSQL (Debian) get the same objects and run the same queries. The script starts
PostgreSQL with a scratch folder and a Unix socket, and stops it at the end. Each database is configured for Esker's relaxed
durability if it can be: a commit survives the end of the process, and reaches the disk a moment later.

  SQLite      write-ahead log, synchronous = normal: a commit does not wait for the disk
  DuckDB      default settings: a commit waits for the disk, and no setting changes that
  PostgreSQL  synchronous_commit = off; shared_buffers = 256 MB; otherwise default settings

The script fetches results as Python values with the client's fastest method (`fetchall`; for DuckDB the faster one of
`fetchall` and `fetchnumpy`). Rows named `... inside` read the same columns and return only a sum, so that they take no time
for Python objects.
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
    """Yields objects as (plate, mjd, fiber, name) from a file of `esker bench boss --write-data`."""
    with open(path, encoding="utf-8") as file:
        next(file)
        for line in file:
            plate, mjd, fiber, name = line.rstrip("\n").split(",")
            yield int(plate), int(mjd), int(fiber), name


def bounds(rows):
    """Returns for each percentage the smallest plate that bounds at least this part of the objects, as in `esker bench boss`."""
    plates = sorted(row[0] for row in rows)
    return {part: plates[(len(plates) * part + 99) // 100 - 1] for part in PARTS}


class Clock:
    """Measures calls, and collects the results."""

    def __init__(self, rounds):
        self.rounds = rounds
        self.rows = {}

    def measure_once(self, name, work):
        began = time.perf_counter()
        work()
        self.rows[name] = {"ms": (time.perf_counter() - began) * 1e3}

    def measure_median(self, name, work, counted=None):
        times = []
        for turn in range(self.rounds):
            began = time.perf_counter()
            got = work(turn)
            times.append((time.perf_counter() - began) * 1e3)
            if counted is not None and got != counted:
                sys.exit(f"{name}: {got} objects, expected {counted}")
        self.rows[name] = {"ms": statistics.median(times)}

    def measure_rate(self, name, items, work):
        began = time.perf_counter()
        for item in items:
            work(item)
        self.rows[name] = {"per_s": len(items) / (time.perf_counter() - began)}


def measure(clock, db, rows):
    """Runs all measurements with one database."""
    limits = bounds(rows)
    expected = {part: sum(row[0] <= plate for row in rows) for part, plate in limits.items()}
    triples = [row[:3] for row in Random(1).sample(rows, LOOKUPS)]
    lookups = triples if db.fast_lookups else triples[:SLOW_LOOKUPS]
    clock.measure_once("load", lambda: db.load(rows))
    clock.measure_once("index", db.index)

    def lookup(triple):
        if db.lookup(triple) != 1:
            sys.exit(f"{triple} was not found exactly once")

    clock.measure_rate("esearch", lookups, lookup)
    clock.measure_rate("tag one", lookups, db.tag_one)
    for part, plate in limits.items():
        clock.measure_median(f"group {part}", lambda turn: db.group(f"group{part}_{turn}", plate), expected[part])
    db.settle()
    for part, plate in limits.items():
        clock.measure_median(f"retrieve {part}", lambda _: db.retrieve(f"group{part}_0"), expected[part])
        clock.measure_median(f"retrieve {part} inside", lambda _: db.retrieve_inside(f"group{part}_0"), expected[part])
        clock.measure_median(f"ids {part}", lambda _: db.ids(f"group{part}_0"), expected[part])
    for part, plate in limits.items():
        clock.measure_median(f"range {part}", lambda _: db.range(plate), expected[part])
        clock.measure_median(f"range {part} inside", lambda _: db.range_inside(plate), expected[part])


COLUMNS = "plate, mjd, fiber, name"
SUMS = "count(*), sum(plate), sum(mjd), sum(fiber), sum(length(name))"
OF_TAG = "FROM tags t JOIN objects o ON o.id = t.object WHERE t.name = "


# Both tables have a column `name`, so the queries must qualify it.
def of_tag(columns):
    return columns.replace("name", "o.name")


class SQLite:
    fast_lookups = True
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
    fast_lookups = False
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

    def fetch(self, sql, parameters):
        """Fetches a result by the faster method; the first call of each query measures both."""
        times = self.__dict__.setdefault("times", {}).setdefault(sql, {})

        def numpy():
            columns = self.db.execute(sql, parameters).fetchnumpy()
            return len(next(iter(columns.values())))

        def values():
            return len(self.db.execute(sql, parameters).fetchall())

        for method in (numpy, values):
            if method.__name__ not in times:
                began = time.perf_counter()
                method()
                times[method.__name__] = time.perf_counter() - began
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
    """Stores each tag as a row."""

    fast_lookups = True
    embedded = False
    variant = "one row a tag"

    def __init__(self, server, data):
        import psycopg

        self.data = data
        self.db = psycopg.connect(server.address, autocommit=True)
        version = self.db.info.server_version
        self.title = f"PostgreSQL {version // 10000}.{version % 10000}"
        self.db.execute("DROP TABLE IF EXISTS tags; DROP TABLE IF EXISTS objects")

    def run(self, sql, parameters=()):
        # The client converts binary values faster than text; the server keeps the plan of a repeated query.
        return self.db.execute(sql, parameters, binary=True)

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
    """Stores tags in a jsonb column with a GIN index."""

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
    """A PostgreSQL server with a scratch folder and a Unix socket."""

    def __init__(self, folder):
        programs = sorted(Path("/usr/lib/postgresql").glob("*/bin"))
        if not programs:
            sys.exit("boss_peers: /usr/lib/postgresql has no PostgreSQL: install it (as `make bench-boss` does), or use --skip postgres")
        self.folder, self.data = folder, folder / "data"
        # PostgreSQL refuses to run as root.
        self.user = "postgres" if os.geteuid() == 0 else None
        folder.mkdir()
        if self.user:
            owner = pwd.getpwnam(self.user)
            os.chown(folder, owner.pw_uid, owner.pw_gid)
            # The user of PostgreSQL must be able to enter the scratch folder.
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
        sys.exit("boss_peers: PostgreSQL did not start:\n" + (self.folder / "log").read_text(errors="replace")[-2000:])

    def stop(self):
        self.process.send_signal(signal.SIGINT)
        self.process.wait()


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("data", type=Path, help="a file of `esker bench boss --write-data`")
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--scratch", type=Path, help="a folder for a scratch folder, on the file system to measure")
    parser.add_argument("--skip", action="append", default=[], choices=["sqlite", "duckdb", "postgres"])
    args = parser.parse_args()
    data = args.data.resolve()
    rows = list(read(data))
    folder = Path(tempfile.mkdtemp(prefix="boss-peers-", dir=args.scratch)).resolve()
    server = None
    peers = []

    def run(kind, location):
        db = kind(location, data)
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
