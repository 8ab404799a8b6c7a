#!/usr/bin/env python3
"""Writes a container image with the static program, without any other file of an operating system: container.py PROGRAM VERSION ARCH FILE

The archive is both an OCI image layout and an image archive of Docker, so that `podman load`, `docker load` and `skopeo` read it. The image runs a
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
    files = {}

    def blob(data, media):
        digest = hashlib.sha256(data).hexdigest()
        files[f"blobs/sha256/{digest}"] = data
        return {"mediaType": media, "digest": f"sha256:{digest}", "size": len(data)}

    raw = layer(program)
    packed = gzip.compress(raw, 9, mtime=0)
    layer_blob = blob(packed, "application/vnd.oci.image.layer.v1.tar+gzip")
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
    config_blob = blob(json.dumps(config).encode(), "application/vnd.oci.image.config.v1+json")
    manifest = {"schemaVersion": 2, "mediaType": "application/vnd.oci.image.manifest.v1+json", "config": config_blob, "layers": [layer_blob]}
    manifest_blob = blob(json.dumps(manifest).encode(), manifest["mediaType"])
    name = f"localhost/esker:{version}"
    annotations = {"io.containerd.image.name": name, "org.opencontainers.image.ref.name": version}
    files["index.json"] = json.dumps({"schemaVersion": 2, "manifests": [manifest_blob | {"platform": PLATFORMS[arch], "annotations": annotations}]}).encode()
    files["oci-layout"] = b'{"imageLayoutVersion":"1.0.0"}'
    path = {kind: f"blobs/{b['digest'].replace(':', '/')}" for kind, b in [("config", config_blob), ("layer", layer_blob)]}
    files["manifest.json"] = json.dumps([{"Config": path["config"], "RepoTags": [name], "Layers": [path["layer"]]}]).encode()
    with tarfile.open(out, "w", format=tarfile.USTAR_FORMAT) as archive:
        for file, data in sorted(files.items()):
            add(archive, file, data)


main()
