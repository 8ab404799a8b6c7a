"""Exports each item in each standard, and validates the documents.

documents.py FOLDER
"""

from __future__ import annotations

import hashlib
import json
import re
import sys
from pathlib import Path

import rdflib
import standards
from common import TITLE, Verdicts, esker, finish
from lxml import etree

BASE = "https://data.example.org"
EXPECTED = [
    TITLE,
    "Daily means of the temperature of the sea",
    "0000-0002-1825-0097",
    "Carberry",
    "Institute of Examples",
    "CC-BY-4.0",
    "10.5072/esker-sea",
    "ocean",
    "sea temperature",
    "2024",
]
"""Texts that each document of the object with all tags must have."""


def export(standard: str, folder: Path, vertex: str, file: str, *options: str) -> Path:
    path = folder / file
    esker("export", standard, folder / "lab.esker", vertex, path, *options, "--quiet")
    return path


def texts(path: Path) -> str:
    """Returns all texts of a document, decoded, one per line."""
    if path.suffix == ".xml":
        root = etree.parse(path).getroot()
        return "\n".join([*root.itertext(), *(value for element in root.iter("*") for value in element.attrib.values())])
    if path.suffix == ".jsonld":
        graph = rdflib.Graph().parse(path, format=standards.rdf_format(path))
        return "\n".join({str(term) for triple in graph for term in triple})

    def walk(node: object) -> list[str]:
        if isinstance(node, dict):
            return [text for value in node.values() for text in walk(value)]
        return [text for value in node for text in walk(value)] if isinstance(node, list) else [str(node)]

    return "\n".join(walk(json.loads(path.read_text())))


def lacking(path: Path, expected: list[str]) -> list[str]:
    found = texts(path)
    return [f"no text `{text}` in {path.name}" for text in expected if text not in found]


def local_files(path: Path) -> list[str]:
    """Each file of a Croissant document that is on this machine must have the checksum and size that the document states."""
    problems = []
    for entry in json.loads(path.read_text()).get("distribution", []):
        url = entry.get("contentUrl", "")
        if entry["@type"].endswith("FileSet") or url.startswith(("http://", "https://")) or "containedIn" in entry:
            continue
        file = path.parent / url
        if not file.is_file():
            problems.append(f"contentUrl `{url}` names no file relative to the document")
        elif entry.get("sha256") != hashlib.sha256(file.read_bytes()).hexdigest():
            problems.append(f"sha256 of `{url}` is {entry.get('sha256')!r}")
        elif entry.get("contentSize", f"{file.stat().st_size} B").split() != [str(file.stat().st_size), "B"]:
            problems.append(f"contentSize of `{url}` is {entry.get('contentSize')!r}")
    return problems


def check_item(folder: Path, name: str, vertex: str, verdicts: Verdicts) -> None:
    stem = re.sub(r"\W+", "-", name)
    expected = EXPECTED if name == "object" else []
    # A document without an address of landing pages has other identifiers, and must be valid, too.
    for base, suffix in ((BASE, ""), (None, "-local")):
        options = ["--base", base] if base else []
        title = name if base else f"{name}, no --base"
        file = stem + suffix
        as_json = export("datacite", folder, vertex, f"{file}.datacite.json", *options)
        verdicts.add(title, "DataCite JSON", standards.datacite_json(as_json) + lacking(as_json, expected))
        as_xml = export("datacite", folder, vertex, f"{file}.datacite.xml", *options)
        problems = standards.datacite_xml(as_xml) + standards.datacite_equal(as_json, as_xml)
        verdicts.add(title, "DataCite XML", problems + lacking(as_xml, expected))
        complete = name == "object" and base is not None
        version = ["--set", "version=1.0.0"] if complete else []
        schema = export("schema-org", folder, vertex, f"{file}.schema-org.json", *options, *version)
        verdicts.add(
            title,
            "schema.org",
            standards.schema_org(schema, complete) + lacking(schema, expected),
            "complete" if complete else "valid",
        )
        dcat = export("dcat", folder, vertex, f"{file}.dcat.jsonld", *options)
        verdicts.add(title, "DCAT-AP", standards.dcat(dcat) + lacking(dcat, expected))
        crumb = export(
            "croissant", folder, vertex, f"{file}.croissant.json", *options, *version, *([] if base else ["--checksums"])
        )
        problems = standards.croissant(crumb) + lacking(crumb, expected)
        note = "valid"
        if not problems:
            warned = standards.croissant_warnings(crumb)
            # Only unknown facts may be missing.
            problems += [f"a warning despite all tags: {warning}" for warning in warned if complete]
            note = f"valid, {len(warned)} warnings"
        if base is None:
            count, failed = standards.croissant_records(crumb)
            problems += local_files(crumb) + failed
            note += f", {count} records" if count else ""
            if name in ("object", "file") and count != 2:
                problems.append(f"{count} records of a table of two rows")
        verdicts.add(title, "Croissant", problems, note)


def check_damage(folder: Path, verdicts: Verdicts) -> None:
    for standard, file in {
        "datacite.json": "object.datacite.json",
        "datacite.xml": "object.datacite.xml",
        "schema-org.json": "object.schema-org.json",
        "dcat.jsonld": "object.dcat.jsonld",
        "croissant.json": "object.croissant.json",
    }.items():
        changes = standards.damaged(standard.removesuffix(".json").removesuffix(".jsonld"), folder / file)
        accepted = [name for name, problems in changes.items() if not problems()]
        verdicts.add(
            "damaged documents",
            standard,
            [f"the validator accepts: {name}" for name in accepted],
            f"{len(changes)} of {len(changes)} refused",
        )


def check_options(folder: Path, vertex: str, verdicts: Verdicts) -> None:
    """`--set` replaces what tags say; standard output has what a file has."""
    fields = {
        "title": "Another title",
        "description": "Another description",
        "creator": "Doe, Jane <https://orcid.org/0000-0001-5109-3700> (Elsewhere)",
        "publisher": "Another publisher",
        "license": "CC0-1.0",
        "doi": "10.5072/another",
        "keyword": "anotherword",
        "language": "fr",
        "version": "9.8.7",
        "issued": "1999-12-31",
    }
    options = [f"--set={name}={value}" for name, value in fields.items()]
    expected = [
        "Another title",
        "Another description",
        "0000-0001-5109-3700",
        "Another publisher",
        "10.5072/another",
        "anotherword",
        "9.8.7",
        "1999",
    ]
    for standard, ending, validate in (
        ("datacite", "json", standards.datacite_json),
        ("datacite", "xml", standards.datacite_xml),
        ("schema-org", "json", lambda path: standards.schema_org(path, complete=True)),
        ("dcat", "jsonld", standards.dcat),
        ("croissant", "json", standards.croissant),
    ):
        path = export(standard, folder, vertex, f"set.{standard}.{ending}", "--base", BASE, *options)
        problems = validate(path) + lacking(path, expected)
        problems += [f"`{TITLE}` is still there" for _ in range(1) if TITLE in texts(path)]
        if standard != "datacite" or ending == "json":
            out = esker("export", standard, folder / "lab.esker", vertex, "-", "--base", BASE, *options, "--quiet")
            problems += ["standard output differs from the file"] if out != path.read_text() else []
        verdicts.add("object, all of --set", f"{standard}.{ending}", problems)
    out = esker(
        "export", "datacite", folder / "lab.esker", vertex, "-", "--base", BASE, *options, "--quiet", "--output-format", "xml"
    )
    same = out == (folder / "set.datacite.xml").read_text()
    verdicts.add(
        "object, all of --set", "--output-format xml", [] if same else ["standard output differs from the file"], "equal"
    )


def main(folder: Path) -> None:
    items = json.loads((folder / "items.json").read_text())["items"]
    documents, others = Verdicts("document"), Verdicts("options, damage")
    for name, vertex in items.items():
        documents.check(name, check_item, folder, name, vertex)
    others.check("object, all of --set", check_options, folder, items["object"])
    others.check("damaged documents", check_damage, folder)
    finish(documents, others)


main(Path(sys.argv[1]))
