#!/usr/bin/env python3
"""Writes a container image with the static program, without any other file of an operating system: container.py PROGRAM VERSION ARCH FILE

The archive has Docker's format, which `podman load`, `docker load` and `skopeo` read: images of OCI's format have no health checks. The image runs a
server of /data/lab.esker as user 65532, and its health check attaches to that server. The same program always gives the same bytes.
"""

import gzip
import hashlib
import io
import json
import os
import sys
import tarfile
from datetime import datetime, timezone
from pathlib import Path

USER = 65532
EPOCH = int(os.environ.get("SOURCE_DATE_EPOCH", "0"))
PLATFORMS = {"x86_64": {"architecture": "amd64", "os": "linux"}, "aarch64": {"architecture": "arm64", "os": "linux"}}


def add(archive, name, data=None, mode=0o644, owner=0):
    """Adds a file, or a folder if there are no data."""
    info = tarfile.TarInfo(name)
    info.mode, info.uid, info.gid, info.mtime = mode, owner, owner, EPOCH
    if data is None:
        info.type = tarfile.DIRTYPE
        archive.addfile(info)
    else:
        info.size = len(data)
        archive.addfile(info, io.BytesIO(data))


def layer(program):
    raw = io.BytesIO()
    with tarfile.open(fileobj=raw, mode="w", format=tarfile.USTAR_FORMAT) as archive:
        for folder, mode, owner in [("etc", 0o755, 0), ("usr", 0o755, 0), ("usr/bin", 0o755, 0), ("tmp", 0o1777, 0), ("data", 0o700, USER)]:
            add(archive, folder, mode=mode, owner=owner)
        add(archive, "etc/passwd", f"root:x:0:0:root:/:/sbin/nologin\nesker:x:{USER}:{USER}:Esker:/data:/sbin/nologin\n".encode())
        add(archive, "etc/group", f"root:x:0:\nesker:x:{USER}:\n".encode())
        add(archive, "usr/bin/esker", program.read_bytes(), 0o755)
    return raw.getvalue()


def main():
    program, version, arch, out = Path(sys.argv[1]), sys.argv[2], sys.argv[3], Path(sys.argv[4])
    raw = layer(program)
    created = datetime.fromtimestamp(EPOCH, timezone.utc).strftime("%Y-%m-%dT%H:%M:%SZ")
    config = PLATFORMS[arch] | {
        "created": created,
        "config": {
            "User": f"{USER}:{USER}",
            "Env": ["PATH=/usr/bin", "HOME=/data"],
            "WorkingDir": "/data",
            "Volumes": {"/data": {}},
            "ExposedPorts": {"7400/tcp": {}},
            "Entrypoint": ["/usr/bin/esker"],
            "Cmd": ["serve", "/data/lab.esker", "--create", "--listen", "0.0.0.0:7400"],
            "Healthcheck": {"Test": ["CMD", "/usr/bin/esker", "stats", "/data/lab.esker"], "Interval": 30_000_000_000, "Timeout": 20_000_000_000},
            "Labels": {"org.opencontainers.image.title": "Esker", "org.opencontainers.image.version": version, "org.opencontainers.image.licenses": "Apache-2.0"},
        },
        "rootfs": {"type": "layers", "diff_ids": [f"sha256:{hashlib.sha256(raw).hexdigest()}"]},
        "history": [{"created": created, "created_by": "scripts/packages/container.py"}],
    }
    text = json.dumps(config).encode()
    names = {"Config": f"{hashlib.sha256(text).hexdigest()}.json", "Layers": ["layer.tar"]}
    manifest = json.dumps([names | {"RepoTags": [f"localhost/esker:{version}"]}]).encode()
    files = {names["Config"]: text, "layer.tar": gzip.compress(raw, 9, mtime=0), "manifest.json": manifest}
    with tarfile.open(out, "w", format=tarfile.USTAR_FORMAT) as archive:
        for file, data in sorted(files.items()):
            add(archive, file, data)


main()
