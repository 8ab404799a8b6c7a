#!/usr/bin/env python3
"""Prints the components of the program `esker` as a CycloneDX 1.5 document.

    scripts/sbom.py COMMIT SECONDS      # in a checkout or an unpacked source archive; SECONDS is the time of the commit

Crates that the program links have the scope "required". Crates that are used only during the build (build scripts, procedural macros
and their dependencies) have the scope "excluded". Crates of tests are omitted. The output depends only on the commit.
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
    # Some URL parsers read a "+" of build metadata as a space.
    return f"pkg:cargo/{package['name']}@{package['version'].replace('+', '%2B')}"


def key(package: dict) -> tuple[str, str]:
    return package["name"], package["version"]


def tree(name: str, edges: str) -> set[tuple[str, str]]:
    """Returns names and versions of a crate and of its dependencies of these kinds."""
    call = ["cargo", "tree", "--locked", "--offline", "--package", name, "--edges", edges, "--target", TARGET, "--prefix", "none"]
    lines = subprocess.run(call, check=True, stdout=subprocess.PIPE, text=True).stdout.splitlines()
    return {(line.split()[0], line.split()[1].removeprefix("v")) for line in lines}


def component(package: dict, kind: str, sums: dict) -> dict:
    result = {"type": kind, "bom-ref": purl(package), "name": package["name"], "version": package["version"], "purl": purl(package)}
    checksum = sums.get(key(package)) if package["source"] else None
    if checksum:
        result["hashes"] = [{"alg": "SHA-256", "content": checksum}]
    if package["license"]:
        # Old manifests have "MIT/Apache-2.0", which is not an SPDX expression.
        result["licenses"] = [{"expression": re.sub(r"\s*/\s*", " OR ", package["license"])}]
    elif package["license_file"]:
        result["licenses"] = [{"license": {"name": f"in its file {package['license_file'].rsplit('/', 1)[-1]}"}}]
    return result


def main(commit: str, seconds: str) -> None:
    call = ["cargo", "metadata", "--locked", "--offline", "--format-version", "1", "--filter-platform", TARGET]
    metadata = json.loads(subprocess.run(call, check=True, stdout=subprocess.PIPE).stdout)
    with open("Cargo.lock", "rb") as file:
        sums = {key(p): p.get("checksum") for p in tomllib.load(file)["package"] if "source" in p}
    packages = {p["id"]: p for p in metadata["packages"]}
    nodes = {n["id"]: n for n in metadata["resolve"]["nodes"]}
    [root] = [p["id"] for p in packages.values() for t in p["targets"] if t["name"] == "esker" and "bin" in t["kind"]]

    # `cargo metadata` includes the features of the whole workspace and unused optional dependencies, such as rsa. `cargo tree` has
    # only those of the program.
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
        library = component(package, "library", sums)
        library["scope"] = "required" if key(package) in linked else "excluded"
        components.append(library)
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
