#!/usr/bin/env bash
# Writes a small database of the current format to crates/cli/testdata/formats/N.tar.gz, where tests of later builds open it. It has vertices, edges,
# an object, files and RDF. Run this script once per format, with the last build that writes it.
set -euo pipefail
cd "$(dirname "$0")/.."
ESKER_BIN=$(realpath "${ESKER_BIN:-${CARGO_TARGET_DIR:-target}/debug/esker}")
out=$PWD/crates/cli/testdata/formats
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
cd "$work"
esker() { "$ESKER_BIN" --quiet "$@"; }
esker init old.esker
esker put old.esker file:/raw.h5 size=4096
esker put old.esker file:/plot.png
esker put old.esker job:71 name=plot
esker put old.esker user:1001 name=ada
esker link old.esker user:1001 run job:71
esker link old.esker job:71 read file:/raw.h5 evidence=observed
esker link old.esker job:71 write file:/plot.png evidence=observed
esker set old.esker file:/raw.h5 size=8192
esker object create old.esker --name energy --app vpic --owner 1001 --step 7 --tag Conf=0 --tag TELESCOP=HST --tag EXPTIME=400.5 >/dev/null
esker mkdir old.esker /scratch
esker touch old.esker /scratch/a.nc
printf '<http://example.org/s> <http://example.org/p> "o" .\n' >data.nt
esker rdf load old.esker data.nt
esker check old.esker
format=$("$ESKER_BIN" upgrade old.esker --check --format ndjson | sed 's/.*"format":\([0-9]*\).*/\1/')
[ ! -e "$out/$format.tar.gz" ] || { echo "$out/$format.tar.gz exists already and is not overwritten" >&2; exit 1; }
mkdir -p "$out"
tar --sort=name --owner=0 --group=0 --numeric-owner -c old.esker | gzip -n -9 >"$out/$format.tar.gz"
ls -l "$out/$format.tar.gz"
