#!/usr/bin/env python3
"""Writes the five Darshan logs (format 3.41) that `esker demo` imports: an invented ensemble of a climate model, with its analysis.

    make darshan-logs && target/darshan/venv/bin/python scripts/demo-logs.py crates/cli/src/commands/demo

PyDarshan gives the order of the counters, and reads each log again as a check. The same script always writes the same bytes.
"""

import hashlib
import struct
import sys
import zlib
from pathlib import Path

import darshan
from darshan.backend.cffi_backend import counter_names, fcounter_names

MAGIC = 6567223
HEADER_BYTES = 1328
POSIX, POSIX_VERSION, MODULES = 1, 4, 64
MIB = 1 << 20
LAB = "/lab"
# (job, user id, processes, start in seconds since 1970, duration in seconds, command, {file: bytes read}, {file: bytes written})
JOBS = [
    (4101, 1001, 64, 1772438400, 5400, "bin/simulate --member 1", {"input/namelist.txt": 4096, "input/topography.nc": 12 * MIB}, {"run7/member1.nc": 3200 * MIB}),
    (4102, 1001, 64, 1772438460, 5520, "bin/simulate --member 2", {"input/namelist.txt": 4096, "input/topography.nc": 12 * MIB}, {"run7/member2.nc": 3200 * MIB}),
    (4110, 1002, 16, 1772449200, 840, "bin/ensemble-mean run7", {"run7/member1.nc": 3200 * MIB, "run7/member2.nc": 3200 * MIB}, {"results/mean.nc": 1600 * MIB}),
    (4117, 1002, 1, 1772452800, 45, "bin/plot --variable t2m results/mean.nc", {"results/mean.nc": 90 * MIB}, {"results/figure3.png": 412_330}),
    (4123, 1003, 4, 1772456400, 300, "bin/verify results/mean.nc", {"results/mean.nc": 1600 * MIB, "input/stations.csv": 880_000}, {"results/scores.csv": 20_480}),
]


def record_id(path):
    return int.from_bytes(hashlib.blake2b(path.encode(), digest_size=8).digest(), "little")


def record(path, seconds, read, written):
    """One POSIX record for all ranks: the file is read in the first half of the job or written in the second."""
    counters = dict.fromkeys(counter_names("POSIX"), 0)
    times = dict.fromkeys(fcounter_names("POSIX"), 0.0)
    begin, end = (1.0, seconds / 2) if read else (seconds / 2, seconds - 1.0)
    kind, size = ("READ", read) if read else ("WRITE", written)
    verb = "BYTES_READ" if read else "BYTES_WRITTEN"
    counters |= {"POSIX_OPENS": 1, f"POSIX_{kind}S": -(-size // MIB), f"POSIX_{verb}": size, f"POSIX_MAX_BYTE_{verb.removeprefix('BYTES_')}": size - 1}
    for event, time in [("OPEN_START", begin), ("OPEN_END", begin), (f"{kind}_START", begin), (f"{kind}_END", end), ("CLOSE_START", end), ("CLOSE_END", end)]:
        times[f"POSIX_F_{event}_TIMESTAMP"] = time
    times[f"POSIX_F_{kind}_TIME"] = end - begin
    return struct.pack(f"<Qq{len(counters)}q{len(times)}d", record_id(path), -1, *counters.values(), *times.values())


def log(job, uid, processes, start, seconds, command, reads, writes):
    fixed = struct.pack("<7q", uid, start, 0, start + seconds, 0, processes, job)
    metadata = b"lib_ver=3.5.0\n".ljust(1024, b"\0")
    tail = f"{LAB}/{command}\nlustre\t{LAB}".encode() + b"\0"
    files = {f"{LAB}/{name}": (size, 0) for name, size in reads.items()} | {f"{LAB}/{name}": (0, size) for name, size in writes.items()}
    names = b"".join(struct.pack("<Q", record_id(path)) + path.encode() + b"\0" for path in files)
    records = b"".join(record(path, seconds, *sizes) for path, sizes in files.items())
    regions = [zlib.compress(part, 9) for part in (fixed + metadata + tail, names, records)]
    offsets = [HEADER_BYTES, HEADER_BYTES + len(regions[0]), HEADER_BYTES + len(regions[0]) + len(regions[1])]
    header = b"3.41".ljust(8, b"\0") + struct.pack("<QQQ", MAGIC, 0, 0) + struct.pack("<QQ", offsets[1], len(regions[1]))
    extents = [(offsets[2], len(regions[2])) if slot == POSIX else (0, 0) for slot in range(MODULES)]
    header += b"".join(struct.pack("<QQ", *extent) for extent in extents)
    header += struct.pack(f"<{MODULES}I", *(POSIX_VERSION if slot == POSIX else 0 for slot in range(MODULES)))
    assert len(header) == HEADER_BYTES
    return header + b"".join(regions)


def check(path, job, uid, processes, start, seconds, command, reads, writes):
    report = darshan.DarshanReport(str(path), read_all=True)
    metadata = report.metadata
    assert (metadata["job"]["jobid"], metadata["job"]["uid"], metadata["job"]["nprocs"]) == (job, uid, processes), metadata
    assert (metadata["job"]["start_time_sec"], metadata["job"]["run_time"]) == (start, seconds), metadata
    assert metadata["exe"] == f"{LAB}/{command}", metadata["exe"]
    found = {}
    for entry in report.records["POSIX"]:
        sizes = [int(entry["counters"][counter_names("POSIX").index(f"POSIX_BYTES_{verb}")]) for verb in ("READ", "WRITTEN")]
        found[report.name_records[entry["id"]]] = tuple(sizes)
    expected = {f"{LAB}/{name}": (size, 0) for name, size in reads.items()} | {f"{LAB}/{name}": (0, size) for name, size in writes.items()}
    assert found == expected, (found, expected)


def main():
    folder = Path(sys.argv[1])
    folder.mkdir(parents=True, exist_ok=True)
    for job in JOBS:
        program = job[5].split()[0].removeprefix("bin/")
        path = folder / f"u{job[1]}_{program}_id{job[0]}.darshan"
        path.write_bytes(log(*job))
        check(path, *job)
        print(f"{path.name}: {path.stat().st_size} bytes")


main()
