"""Prints one line of JSON with PyDarshan's view of each log: pydarshan_dump.py LOG…

The sums of counters are those that Esker computes, from PyDarshan's numbers. Floats are printed as their bits, so that the
comparison is exact.
"""

import json
import struct
import sys

from darshan.backend import cffi_backend as backend

SUMS = {
    "POSIX": {
        "opens": ["POSIX_OPENS"],
        "reads": ["POSIX_READS"],
        "writes": ["POSIX_WRITES"],
        "seeks": ["POSIX_SEEKS"],
        "stats": ["POSIX_STATS"],
        "mmaps": ["POSIX_MMAPS"],
        "bytes_read": ["POSIX_BYTES_READ"],
        "bytes_written": ["POSIX_BYTES_WRITTEN"],
        "max_byte_read": ["POSIX_MAX_BYTE_READ"],
        "max_byte_written": ["POSIX_MAX_BYTE_WRITTEN"],
        "rename_targets": ["POSIX_RENAME_TARGETS"],
        "renamed_from": ["POSIX_RENAMED_FROM"],
    },
    "MPI-IO": {
        "opens": ["MPIIO_INDEP_OPENS", "MPIIO_COLL_OPENS"],
        "reads": ["MPIIO_INDEP_READS", "MPIIO_COLL_READS", "MPIIO_SPLIT_READS", "MPIIO_NB_READS"],
        "writes": ["MPIIO_INDEP_WRITES", "MPIIO_COLL_WRITES", "MPIIO_SPLIT_WRITES", "MPIIO_NB_WRITES"],
        "bytes_read": ["MPIIO_BYTES_READ"],
        "bytes_written": ["MPIIO_BYTES_WRITTEN"],
    },
    "STDIO": {
        "opens": ["STDIO_OPENS"],
        "reads": ["STDIO_READS"],
        "writes": ["STDIO_WRITES"],
        "seeks": ["STDIO_SEEKS"],
        "bytes_read": ["STDIO_BYTES_READ"],
        "bytes_written": ["STDIO_BYTES_WRITTEN"],
        "max_byte_read": ["STDIO_MAX_BYTE_READ"],
        "max_byte_written": ["STDIO_MAX_BYTE_WRITTEN"],
    },
    "DFS": {
        "opens": ["DFS_OPENS", "DFS_GLOBAL_OPENS"],
        "reads": ["DFS_READS", "DFS_READXS"],
        "writes": ["DFS_WRITES", "DFS_WRITEXS"],
        "stats": ["DFS_STATS"],
        "bytes_read": ["DFS_BYTES_READ"],
        "bytes_written": ["DFS_BYTES_WRITTEN"],
    },
}


def bits(value):
    return struct.unpack("<Q", struct.pack("<d", float(value)))[0]


def records(log, module):
    prefix = module.replace("-", "")
    names, float_names = backend.counter_names(module), backend.fcounter_names(module)
    out = []
    while (record := backend.log_get_record(log, module, dtype="numpy")) is not None:
        counters = dict(zip(names, record["counters"].tolist()))
        floats = dict(zip(float_names, record["fcounters"].tolist()))
        row = {"record": int(record["id"]), "rank": int(record["rank"])}
        for name, parts in SUMS[module].items():
            row[name] = sum(counters[part] for part in parts)
        if "renamed_from" in row:
            row["renamed_from"] %= 1 << 64
        for kind in ("open", "read", "write", "close"):
            row[kind] = [bits(floats[f"{prefix}_F_{kind.upper()}_{end}_TIMESTAMP"]) for end in ("START", "END")]
        out.append(row)
    return out


def dump(path):
    log = backend.log_open(path)
    job = backend.log_get_job(log)
    modules = backend.log_get_modules(log)
    out = {
        "path": path,
        "job": {key: job[key] for key in ("uid", "start_time_sec", "start_time_nsec", "end_time_sec", "end_time_nsec", "nprocs", "jobid")},
        "metadata": job["metadata"],
        "exe": backend.log_get_exe(log),
        "mounts": [list(mount) for mount in backend.log_get_mounts(log)],
        "names": {str(id): name for id, name in backend.log_get_name_records(log).items()},
        "modules": {name: {"version": m["ver"], "len": m["len"], "partial": bool(m["partial_flag"])} for name, m in modules.items()},
        "records": {name: records(log, name) for name in SUMS if name in modules},
    }
    backend.log_close(log)
    return out


for argument in sys.argv[1:]:
    print(json.dumps(dump(argument)))
