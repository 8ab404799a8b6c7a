"""Validators of the catalogue standards. Each function returns the problems of one document, an empty list if it is valid."""

from __future__ import annotations

import copy
import datetime
import json
import logging
import os
import re
from collections import Counter
from functools import cache
from pathlib import Path
from typing import Any

import mlcroissant
import pyshacl
import rdflib
from absl import logging as absl_logging
from datacite import schema45
from lxml import etree
from rdflib import DCTERMS, FOAF, RDF, RDFS, SH
from schema_org import registry

SCHEMAS = Path(os.environ["ESKER_CATALOGUES_SCHEMAS"])
DCAT = rdflib.Namespace("http://www.w3.org/ns/dcat#")
KERNEL = "{http://datacite.org/schema/kernel-4}"
Json = Any

absl_logging.set_verbosity(absl_logging.ERROR)
logging.getLogger("rdflib").setLevel(logging.ERROR)


# DataCite


def datacite_json(path: Path) -> list[str]:
    """The package has no version after 4.5; version 4.6 only adds values to lists of terms."""
    return [
        f"{'/'.join(map(str, error.path))}: {error.message}"
        for error in schema45.validator.iter_errors(json.loads(path.read_text()))
    ]


@cache
def datacite_schema() -> etree.XMLSchema:
    """Returns the schema of version 4.6. In the package's copy rights are mandatory, which this function takes back."""
    file = SCHEMAS / "datacite" / "metadata.xsd"
    tree = etree.parse(file)
    names = {"rightsList", "rights"}
    changed = [
        element for element in tree.iter("{*}element") if element.get("name") in names and element.get("minOccurs") == "1"
    ]
    assert len(changed) == len(names), f"{file} is not the schema that this script knows"
    for element in changed:
        element.set("minOccurs", "0")
    return etree.XMLSchema(tree)


def datacite_xml(path: Path) -> list[str]:
    document = etree.parse(path)
    schema = datacite_schema()
    return [] if schema.validate(document) else [f"line {error.line}: {error.message}" for error in schema.error_log]


def canonical(element: etree._Element) -> Any:
    """Returns an element without the order of children, because all orders are valid at most places."""
    attributes = sorted((name, value) for name, value in element.attrib.items() if not name.endswith("}schemaLocation"))
    children = sorted((canonical(child) for child in element if isinstance(child.tag, str)), key=repr)
    text = element.text if not children else ""
    return element.tag, attributes, text or "", children


def datacite_equal(json_path: Path, xml_path: Path) -> list[str]:
    """Compares a file in XML with what the package makes of the same item in JSON."""
    document = json.loads(json_path.read_text())
    ours, theirs = etree.parse(xml_path).getroot(), schema45.dump_etree(document)
    # Reading it again sorts out namespaces that the package sets on single elements.
    theirs = etree.fromstring(etree.tostring(theirs))
    if "doi" not in document:
        # The package writes an identifier for a DOI alone.
        for identifier in ours.findall(f"{KERNEL}identifier"):
            ours.remove(identifier)
    left, right = canonical(ours), canonical(theirs)
    if left == right:
        return []
    missing = [child for child in right[3] if child not in left[3]]
    added = [child for child in left[3] if child not in right[3]]
    return [f"the file in XML lacks {missing}" for _ in missing[:1]] + [f"the file in XML adds {added}" for _ in added[:1]] or [
        "the roots differ"
    ]


# Croissant


def croissant(path: Path) -> list[str]:
    document = json.loads(path.read_text())
    found = datasets(document)
    # The library reads any of several nodes of this type.
    problems = [] if found == 1 else [f"{found} nodes have the type Dataset, expected one"]
    missing = {"name", "description", "url", "conformsTo"} - document.keys()
    problems += [f"the specification demands `{name}`" for name in sorted(missing)]
    names = Counter(identifiers(document))
    problems += [f"{count} nodes have the identifier {name}" for name, count in names.items() if count > 1]
    if document.get("conformsTo") != "http://mlcommons.org/croissant/1.0":
        problems.append(f"conformsTo is {document.get('conformsTo')!r}")
    try:
        dataset = mlcroissant.Dataset(jsonld=str(path))
    except Exception as error:
        return [*problems, f"{type(error).__name__}: {error}"]
    return problems + [f"the library has {error}" for error in dataset.metadata.ctx.issues.errors]


def croissant_warnings(path: Path) -> list[str]:
    dataset = mlcroissant.Dataset(jsonld=str(path))
    return sorted(re.sub(r"^\[.*?\] ", "", warning) for warning in dataset.metadata.ctx.issues.warnings)


def croissant_records(path: Path) -> tuple[int, list[str]]:
    """Loads the records of all record sets, whose checksums the library compares. Returns their number and problems."""
    try:
        dataset = mlcroissant.Dataset(jsonld=str(path))
    except mlcroissant.ValidationError:
        # `croissant` has this problem.
        return 0, []
    count, problems = 0, []
    for record_set in dataset.metadata.record_sets:
        try:
            count += len(list(dataset.records(record_set.id)))
        except Exception as error:
            problems.append(f"records of {record_set.id}: {error}: {error.__cause__}")
    return count, problems


def identifiers(node: Json) -> list[str]:
    """Returns the identifiers of the parts of a data set, which the library merges if they are equal."""
    inner = node.values() if isinstance(node, dict) else node if isinstance(node, list) else []
    own = [node["@id"]] if isinstance(node, dict) and "@id" in node and str(node.get("@type")).startswith("cr:") else []
    return own + [name for value in inner for name in identifiers(value)]


def datasets(node: Json) -> int:
    if isinstance(node, list):
        return sum(map(datasets, node))
    if not isinstance(node, dict):
        return 0
    types = node.get("@type", [])
    own = any(
        str(name).rpartition(":")[2].rpartition("/")[2] == "Dataset" for name in (types if isinstance(types, list) else [types])
    )
    return own + sum(datasets(value) for key, value in node.items() if key != "@context")


# schema.org


def schema_org(path: Path, complete: bool) -> list[str]:
    """Checks types, properties and values by the vocabulary; with `complete`, all demands of "Science on schema.org"."""
    document = json.loads(path.read_text())
    return schema_org_document(document, complete)


def schema_org_document(document: Json, complete: bool) -> list[str]:
    context = document.get("@context")
    contexts = context if isinstance(context, list) else [context]
    if not contexts or not re.fullmatch(r"https?://schema\.org/?", str(contexts[0])):
        return [f"@context is {context!r}, expected https://schema.org/"]
    problems: list[str] = []
    nodes = document.get("@graph", [document])
    known = {node["@id"]: node for node in nodes if "@id" in node}
    for node in nodes:
        try:
            model(node, known, "$")
        except Exception as error:
            problems += [line.strip() for line in str(error).splitlines()]
    problems += [
        f"{name} is {' and '.join(sorted(types))} at once" for name, types in types_of_nodes(document).items() if len(types) > 1
    ]
    return problems + science_on_schema_org(document, complete)


def types_of_nodes(node: Json) -> dict[str, set[str]]:
    """Returns the types by identifier; two nodes with one identifier are one thing."""
    found: dict[str, set[str]] = {}
    if isinstance(node, dict) and "@id" in node and "@type" in node:
        types = node["@type"]
        found[node["@id"]] = set(types) if isinstance(types, list) else {types}
    inner = node.items() if isinstance(node, dict) else enumerate(node) if isinstance(node, list) else []
    for name, value in inner:
        if name != "@context":
            for identifier, types in types_of_nodes(value).items():
                found[identifier] = found.get(identifier, set()) | types
    return found


def model(node: Json, known: dict[str, Json], where: str, depth: int = 0) -> Any:
    """Makes the model of a node, which fails if the vocabulary has no such type, property or value."""
    if isinstance(node, list):
        return [made for item in node if (made := model(item, known, where, depth)) is not None]
    if not isinstance(node, dict):
        return node
    if "@value" in node:
        return node["@value"]
    if "@type" not in node:
        # A reference to a node elsewhere is checked with that node.
        target = known.get(node.get("@id", ""))
        return model(target, known, where, depth + 1) if target and depth < 2 else None
    types = node["@type"] if isinstance(node["@type"], list) else [node["@type"]]
    # The vocabulary has this name as a type; the package has no model of other names.
    kind = registry.get_model(types[0])
    ranges = {entry.schema_name: entry.ranges for entry in kind.SCHEMA_PROPERTIES}
    for name, value in node.get("@reverse", {}).items():
        # The subject of a reverse property has that property.
        subjects = value if isinstance(value, list) else [value]
        for subject in subjects:
            own = registry.get_model(subject["@type"])
            if name not in {entry.schema_name for entry in own.SCHEMA_PROPERTIES}:
                raise ValueError(f"{where}: {subject['@type']} has no property `{name}`")
            model(subject, known, f"{where}.^{name}", depth)
    values = {}
    for name, value in node.items():
        if name.startswith("@") or ":" in name:
            continue
        if name not in ranges:
            raise ValueError(f"{where}: {types[0]} has no property `{name}`")
        made = model(value, known, f"{where}.{name}", depth)
        if made is not None and made != []:
            values[name] = (
                [date_or_text(item, ranges[name]) for item in made]
                if isinstance(made, list)
                else date_or_text(made, ranges[name])
            )
    try:
        return kind.model_validate(values)
    except ValueError as error:
        raise ValueError(f"{where} ({types[0]}): {error}") from None


def date_or_text(value: Any, ranges: tuple[str, ...]) -> Any:
    """Converts a text to the date or time that the model of a property needs."""
    if isinstance(value, str):
        # A year, or a month of a year, is a date of schema.org; the model takes whole dates alone.
        whole = re.sub(r"^(\d{4})$", r"\1-01", value)
        whole = re.sub(r"^(\d{4}-\d\d)$", r"\1-01", whole)
        for kind, convert in (("Date", datetime.date.fromisoformat), ("DateTime", datetime.datetime.fromisoformat)):
            if kind in ranges:
                try:
                    return convert(whole)
                except ValueError:
                    continue
    return value


DEMANDED = {"keywords", "version", "url"}
"""Properties that "Science on schema.org" demands and an item without tags, a version and a landing page cannot have."""


def science_on_schema_org(document: Json, complete: bool) -> list[str]:
    document = copy.deepcopy(document)
    context = document["@context"]
    document["@context"] = [{"@vocab": "http://schema.org/"}, *(context[1:] if isinstance(context, list) else [])]
    graph = rdflib.Graph().parse(data=json.dumps(document), format="json-ld")
    return [
        text
        for path, text in shacl(graph, SCHEMAS / "science-on-schema-org.ttl")
        if complete or path.removeprefix("http://schema.org/") not in DEMANDED
    ]


# DCAT-AP


def dcat(path: Path) -> list[str]:
    try:
        graph = rdflib.Graph().parse(path, format=rdf_format(path))
    except Exception as error:
        return [f"{type(error).__name__}: {error}"]
    return dcat_graph(graph)


def rdf_format(path: Path) -> str:
    start = path.read_text().lstrip()
    return (
        "json-ld"
        if start.startswith(("{", "["))
        else "xml"
        if start.startswith("<?xml") or "<rdf:RDF" in start[:500]
        else "turtle"
    )


def dcat_graph(graph: rdflib.Graph) -> list[str]:
    problems = []
    if not set(graph.subjects(RDF.type, DCAT.Dataset)) | set(graph.subjects(RDF.type, DCAT.DatasetSeries)):
        problems.append("no dcat:Dataset")
    for literal in {term for triple in graph for term in triple if isinstance(term, rdflib.Literal)}:
        if literal.ill_typed:
            problems.append(f"not a value of its type: {literal.n3()}")
    expanded = rdflib.Graph()
    expanded += graph
    # RDFS makes each IRI a resource, and the shapes demand this class of addresses.
    for term in {term for triple in graph for term in triple if isinstance(term, rdflib.URIRef)}:
        expanded.add((term, RDF.type, RDFS.Resource))
    shapes = [SCHEMAS / "dcat-ap.jsonld"]
    if more := os.environ.get("ESKER_DCAT_AP_SHAPES"):
        shapes += sorted(Path(more).glob("*.ttl"))
        assert len(shapes) > 1, f"ESKER_DCAT_AP_SHAPES: no file *.ttl in {more}"
    return problems + [text for file in shapes for _, text in shacl(expanded, file)]


@cache
def shapes_of(file: Path) -> rdflib.Graph:
    return rdflib.Graph().parse(file, format="json-ld" if file.suffix == ".jsonld" else "turtle")


def shacl(graph: rdflib.Graph, shapes: Path) -> list[tuple[str, str]]:
    """Returns the violations as pairs of the property and a text. Warnings are no violations."""
    _, report, _ = pyshacl.validate(graph, shacl_graph=shapes_of(shapes))
    found = []
    for result in report.subjects(RDF.type, SH.ValidationResult):
        if report.value(result, SH.resultSeverity) == SH.Violation:
            path, focus, value = (report.value(result, name) for name in (SH.resultPath, SH.focusNode, SH.value))
            message = report.value(result, SH.resultMessage)
            found.append((str(path), f"{shapes.name}: {focus}: {path} {'' if value is None else value}: {message}"))
    return sorted(found)


# Documents that are damaged on purpose, so that a validator that accepts everything is noticed


MANDATORY_IN_XML = ["identifier", "creators", "titles", "publisher", "publicationYear", "resourceType"]


def damaged(standard: str, path: Path) -> dict[str, Any]:
    """Returns changes that must make a valid document invalid, as functions of its path that give the problems."""
    if standard == "dcat":
        graph = rdflib.Graph().parse(path, format=rdf_format(path))
        return {
            "no title": without(graph, DCTERMS.title),
            "no description": without(graph, DCTERMS.description),
            "an agent without a name": without(graph, FOAF.name),
            "a distribution without an address": without(graph, DCAT.accessURL),
        }
    if standard == "datacite.xml":
        return {f"no {name}": lambda name=name: remove(path, name) for name in MANDATORY_IN_XML}
    document = json.loads(path.read_text())
    changes: dict[str, dict[str, Any]] = {
        "datacite": {
            **{
                f"no {name}": {name: None}
                for name in ("creators", "titles", "publisher", "publicationYear", "types", "schemaVersion")
            },
            "a DOI with a scheme": {"doi": "https://doi.org/10.5072/x"},
            "an unknown property": {"dataCentre": "x"},
            "a year of two digits": {"publicationYear": "24"},
        },
        "schema-org": {
            "no name": {"name": None},
            "no description": {"description": None},
            "an unknown property": {"heading": "x"},
            "an unknown type": {"@type": "DataSett"},
            "a value of another type": {"dateModified": {"@type": "Person", "name": "x"}},
        },
        "croissant": {
            "a string as the creator": {"creator": "x"},
            "no version of the format": {"conformsTo": None},
            "a date in words": {"datePublished": "May 2024"},
            "two datasets": {"hasPart": {"@type": "sc:Dataset", "name": "x"}},
        },
    }
    return {
        name: lambda change=change: problems_after(standard, document, change, path)
        for name, change in changes[standard].items()
    }


def problems_after(standard: str, document: Json, change: dict[str, Any], path: Path) -> list[str]:
    changed = {name: value for name, value in {**document, **change}.items() if value is not None}
    file = path.with_name(f"damaged-{path.name}")
    file.write_text(json.dumps(changed))
    if standard == "schema-org":
        return schema_org(file, complete=False)
    return datacite_json(file) if standard == "datacite" else croissant(file)


def without(graph: rdflib.Graph, name: rdflib.URIRef) -> Any:
    def problems() -> list[str]:
        changed = rdflib.Graph()
        changed += (triple for triple in graph if triple[1] != name)
        return dcat_graph(changed) if len(changed) < len(graph) else ["the document had none"]

    return problems


def remove(path: Path, name: str) -> list[str]:
    tree = etree.parse(path)
    found = tree.getroot().find(KERNEL + name)
    if found is None:
        return []
    tree.getroot().remove(found)
    file = path.with_name(f"damaged-{path.name}")
    tree.write(file)
    return datacite_xml(file)
