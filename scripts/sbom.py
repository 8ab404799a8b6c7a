#!/usr/bin/env python3
"""What the program `esker` is made of, as a CycloneDX 1.5 document on standard output.

    scripts/sbom.py COMMIT SECONDS      # in a checkout or in what `make dist` unpacks; SECONDS: when the commit was made

Crates that the program links have the scope "required"; those that only build it (build scripts, procedural macros and what
these need) have "excluded". Tests' crates are left out. The same commit gives the same bytes.
"""

import json
import re
import subprocess
import sys
import tomllib
import uuid
from datetime import datetime, timezone

TARGET = "x86_64-unknown-linux-gnu"


def purl(package: dict) -> str:
    # "+" of build metadata is a space in some readers of URLs.
    return f"pkg:cargo/{package['name']}@{package['version'].replace('+', '%2B')}"


def key(package: dict) -> tuple[str, str]:
    return package["name"], package["version"]


def tree(name: str, edges: str) -> set[tuple[str, str]]:
    """Names and versions of a crate and of what it needs by these kinds of edges."""
    call = ["cargo", "tree", "--locked", "--offline", "--package", name, "--edges", edges, "--target", TARGET, "--prefix", "none"]
    lines = subprocess.run(call, check=True, stdout=subprocess.PIPE, text=True).stdout.splitlines()
    return {(line.split()[0], line.split()[1].removeprefix("v")) for line in lines}


def component(package: dict, kind: str, sums: dict) -> dict:
    told = {"type": kind, "bom-ref": purl(package), "name": package["name"], "version": package["version"], "purl": purl(package)}
    checksum = sums.get(key(package)) if package["source"] else None
    if checksum:
        told["hashes"] = [{"alg": "SHA-256", "content": checksum}]
    if package["license"]:
        # Old manifests write "MIT/Apache-2.0".
        told["licenses"] = [{"expression": re.sub(r"\s*/\s*", " OR ", package["license"])}]
    elif package["license_file"]:
        told["licenses"] = [{"license": {"name": f"in its file {package['license_file'].rsplit('/', 1)[-1]}"}}]
    return told


def main(commit: str, seconds: str) -> None:
    call = ["cargo", "metadata", "--locked", "--offline", "--format-version", "1", "--filter-platform", TARGET]
    metadata = json.loads(subprocess.run(call, check=True, stdout=subprocess.PIPE).stdout)
    with open("Cargo.lock", "rb") as file:
        sums = {key(p): p.get("checksum") for p in tomllib.load(file)["package"] if "source" in p}
    packages = {p["id"]: p for p in metadata["packages"]}
    nodes = {n["id"]: n for n in metadata["resolve"]["nodes"]}
    [root] = [p["id"] for p in packages.values() for t in p["targets"] if t["name"] == "esker" and "bin" in t["kind"]]

    # `cargo metadata` has the features of the whole workspace and of optional dependencies that stay off: rsa, say, which nothing
    # compiles. `cargo tree` has those of the program alone.
    name = packages[root]["name"]
    built = tree(name, "normal,build")
    linked = tree(name, "normal,no-proc-macro")
    used: dict[str, set[str]] = {}
    todo = [root]
    while todo:
        at = todo.pop()
        if at in used:
            continue
        used[at] = {
            edge["pkg"]
            for edge in nodes[at]["deps"]
            if {kind["kind"] for kind in edge["dep_kinds"]} & {None, "build"} and key(packages[edge["pkg"]]) in built
        }
        todo += used[at]
    assert {key(packages[i]) for i in used} == built, "cargo metadata and cargo tree do not name the same crates"

    others = sorted((packages[i] for i in used if i != root), key=lambda p: (p["name"], p["version"]))
    components = []
    for package in others:
        told = component(package, "library", sums)
        told["scope"] = "required" if key(package) in linked else "excluded"
        components.append(told)
    program = component(packages[root], "application", sums) | {"name": "esker"}
    document = {
        "$schema": "http://cyclonedx.org/schema/bom-1.5.schema.json",
        "bomFormat": "CycloneDX",
        "specVersion": "1.5",
        "serialNumber": f"urn:uuid:{uuid.uuid5(uuid.NAMESPACE_URL, f'urn:esker:commit:{commit}')}",
        "version": 1,
        "metadata": {
            "timestamp": datetime.fromtimestamp(int(seconds), timezone.utc).strftime("%Y-%m-%dT%H:%M:%SZ"),
            "component": program,
            "properties": [{"name": "esker:commit", "value": commit}, {"name": "esker:target", "value": TARGET}],
        },
        "components": components,
        "dependencies": [
            {"ref": purl(packages[i]), "dependsOn": sorted(purl(packages[j]) for j in used[i])}
            for i in sorted(used, key=lambda i: purl(packages[i]))
        ],
    }
    json.dump(document, sys.stdout, indent=1, ensure_ascii=False)
    print()


if len(sys.argv) != 3:
    sys.exit(__doc__)
main(*sys.argv[1:])
