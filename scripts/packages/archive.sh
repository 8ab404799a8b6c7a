#!/usr/bin/env bash
# Writes an archive of a package's files, which can be unpacked into `/` or into any folder: archive.sh FOLDER FILE
set -euo pipefail
name=$(basename "$2" .tar.gz)
tar --sort=name --owner=0 --group=0 --numeric-owner --mtime="@$SOURCE_DATE_EPOCH" --transform "s|^\.|$name|" -C "$1" -c . | gzip -9n >"$2"
