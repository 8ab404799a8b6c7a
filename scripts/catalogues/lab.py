"""Makes a database with objects, a directory of files and a recorded run. The file items.json lists the items to export.

lab.py FOLDER
"""

from __future__ import annotations

import hashlib
import json
import os
import sys
from pathlib import Path

from common import TITLE, esker

MANY = 1200
"""Number of objects without tags, for more than one page of OAI-PMH."""
ORCID = "https://orcid.org/0000-0002-1825-0097"


def tag_options(tags: dict[str, object]) -> list[str]:
    return [f"--tag={name}={value if isinstance(value, str) else json.dumps(value)}" for name, value in tags.items()]


def create(lab: Path, name: str, tags: dict[str, object], *options: str) -> str:
    out = esker("object", "create", lab, "--name", name, *options, *tag_options(tags), "--format", "json")
    (row,) = json.loads(out)
    return f"object:{row['id']}"


def make_files(folder: Path) -> Path:
    data = folder / "data"
    (data / "notes").mkdir(parents=True)
    (data / "deep" / "er").mkdir(parents=True)
    (data / "sea.csv").write_text("day,celsius,station\n2024-05-01,11.5,north\n2024-05-02,12.25,south\n")
    tables = data / "tables"
    tables.mkdir()
    # More files than a header has links.
    (data / "many").mkdir()
    for number in range(30):
        (data / "many" / f"{number}.dat").write_text(f"{number}\n")
    # Names of columns that are no part of an address, and kinds that the first rows do not tell.
    (tables / "columns.csv").write_text('wind speed (m/s),größe,"a ""quoted"", name",x/y#z,%20\n1.5,2,drei,4,5\n')
    (tables / "mixed.csv").write_text("n,when\n" + "".join(f"{n},2024-01-01\n" for n in range(3000)) + "n/a,unknown\n")
    (tables / "tabs.tsv").write_text("name\tcount\none\t1\ntwo\t2\n")
    (tables / "header-only.csv").write_text("a,b\n")
    (tables / "empty.csv").write_text("")
    (tables / "gaps.csv").write_text("id,value,ok\n1,,true\n,2.5,false\n")
    (tables / "twice.csv").write_text("a,a\n1,2\n")
    (tables / "not-text.csv").write_bytes(bytes(range(256)))
    (data / "notes" / "first.txt").write_text("first\n")
    (data / "notes" / "name with blanks & ampersand.txt").write_text("second\n")
    (data / "notes" / "größe.txt").write_text("dritte\n")
    (data / "deep" / "er" / "empty.nc").write_bytes(b"")
    (data / "no-ending").write_bytes(bytes(range(256)))
    return data


def main(folder: Path) -> None:
    lab = folder / "lab.esker"
    esker("init", lab, "--quiet")
    data = make_files(folder)
    esker("import", "tree", lab, data, "--quiet")
    # The program is a script, so that the run has inputs, outputs and an executable.
    script = folder / "mean.sh"
    script.write_text("#!/bin/sh\ncut -d, -f2 <data/sea.csv >mean.txt\n")
    script.chmod(0o755)
    run = ["run", "--target", lab, "--quiet", "--wait", "--in", "data/sea.csv", "--out", "mean.txt", "--param", "column=2"]
    esker(*run, "--", "./mean.sh", folder=folder)
    executions = [
        json.loads(line)["id"] for line in esker("find", lab, "--type", "Execution", "--format", "ndjson").splitlines()
    ]
    assert len(executions) == 1, executions

    sea = data / "sea.csv"
    rich = {
        "title": TITLE,
        "creator": [f"Carberry, Josiah <{ORCID}> (Brown University)", "Institute of Examples"],
        "contributor": "Miller, Ada",
        "description": "Daily means of the temperature of the sea at two stations, measured at a depth of one metre.",
        "license": "https://spdx.org/licenses/CC-BY-4.0",
        "keywords": ["ocean", "sea temperature"],
        "doi": "10.5072/esker-sea",
        "publisher": "Institute of Examples",
        "issued": "2024-05-03",
        "language": "en",
        "media_type": "text/csv",
        "sha256": hashlib.sha256(sea.read_bytes()).hexdigest(),
    }
    awkward = {
        "title": '<b>Ümläut & "quotes"</b> \' \\ \U0001f30a',
        "creator": ["de la Cruz, María José", "Plato"],
        "description": "first line\nsecond line with ]]> and &amp; and a tab\there </script><script>alert(1)</script> <!-- ",
        "license": "MIT",
        "keywords": ["a, b", "ünïcode", "a, b"],
        "issued": "2023",
        "language": "de",
    }
    objects = {
        "object": create(lab, "sea", rich, "--app", "ocean-model", "--location", str(sea), "--size", str(sea.stat().st_size)),
        "object without tags": create(lab, "bare", {}),
        "object with unusual text": create(lab, "awkward", awkward),
    }
    doomed = create(lab, "doomed", {"title": "An object that will be deleted"})
    changing = create(lab, "changing", {"title": "An object that changes during a harvest"})
    rows = folder / "many.csv"
    rows.write_text("name,step\n" + "".join(f"many,{n}\n" for n in range(MANY)))
    esker("object", "import", lab, rows, "--id", "name,app=:ocean model (v2)/ä,step=step", "--quiet")
    # XML has no way to write most control characters.
    last = create(
        lab,
        "last",
        {"title": "The last\u0001\ufffe object", "description": "\u000b", "creator": "\u001b[31mred", "keywords": [""]},
    )
    items = {
        **objects,
        "directory": f"file:{data}",
        "file": f"file:{sea}",
        "file of a run": f"file:{folder / 'mean.txt'}",
        "file, unusual name": f"file:{data / 'notes' / 'name with blanks & ampersand.txt'}",
        "run": executions[0],
    }
    others = {"doomed": doomed, "changing": changing, "last": last}
    (folder / "items.json").write_text(
        json.dumps({"items": items, "others": others, "objects": MANY + len(objects) + len(others)})
    )
    print(f"catalogues: {len(items)} items to export, {MANY + len(objects) + len(others)} objects, in {os.path.basename(lab)}")


main(Path(sys.argv[1]))
