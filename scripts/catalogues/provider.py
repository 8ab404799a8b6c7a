"""Harvests a server with two clients of OAI-PMH, and checks the rules of the protocol that clients rely on.

Each answer must conform to the protocol's schema. The rules are those of OAI-PMH 2.0 (2015-01-08).

    provider.py FOLDER ADDRESS
"""

from __future__ import annotations

import json
import re
import sys
from collections.abc import Iterator
from datetime import datetime, timedelta, timezone
from pathlib import Path
from typing import Any
from urllib.parse import urlencode

import requests
import standards
from common import HANG, TITLE, Verdicts, esker, finish
from lxml import etree
from oaipmh_scythe import Scythe
from sickle import Sickle, oaiexceptions

OAI = "{http://www.openarchives.org/OAI/2.0/}"
DC = "{http://purl.org/dc/elements/1.1/}"
OAI_DC = "{http://www.openarchives.org/OAI/2.0/oai_dc/}"
LANGUAGE = "{http://www.w3.org/XML/1998/namespace}lang"
ELEMENTS = {
    *("title", "creator", "subject", "description", "publisher", "contributor", "date", "type", "format"),
    *("identifier", "source", "language", "relation", "coverage", "rights"),
}
"""The 15 elements of Dublin Core; no package has the schema of oai_dc."""
MOMENT = "%Y-%m-%dT%H:%M:%SZ"
LISTS = ("ListIdentifiers", "ListRecords")


class Provider:
    """Sends requests, and checks each answer against the schema of the protocol."""

    def __init__(self, address: str) -> None:
        self.address = address
        self.schema = etree.XMLSchema(etree.parse(standards.SCHEMAS / "OAI-PMH.xsd"))
        self.problems: list[str] = []
        self.answers = 0
        self.count_entries = True

    def send(self, arguments: list[tuple[str, str]], method: str = "GET") -> etree._Element:
        if method == "GET":
            response = requests.get(self.address, params=arguments, timeout=HANG)
        else:
            form = {"Content-Type": "application/x-www-form-urlencoded"}
            response = requests.post(self.address, data=urlencode(arguments), headers=form, timeout=HANG)
        where = f"{method} {arguments}"
        if response.status_code != 200 or not re.match(
            r"text/xml\b.*\butf-8", response.headers.get("Content-Type", ""), re.IGNORECASE
        ):
            self.problems.append(
                f"{where}: status {response.status_code}, {response.headers.get('Content-Type')}: {response.text[:200]}"
            )
            response.raise_for_status()
        try:
            root = etree.fromstring(response.content)
        except etree.XMLSyntaxError as error:
            raise ValueError(f"{where}: no XML: {error}: {response.text[:400]}") from None
        self.answers += 1
        if not self.schema.validate(root):
            self.problems += [f"{where}: {error.message}" for error in self.schema.error_log]
        self.check_request(where, arguments, root)
        return root

    def request(self, verb: str, method: str = "GET", **arguments: str) -> etree._Element:
        # `from` is a keyword of Python.
        return self.send([("verb", verb), *((name.rstrip("_"), value) for name, value in arguments.items())], method)

    def check_request(self, where: str, arguments: list[tuple[str, str]], root: etree._Element) -> None:
        """The answer repeats the arguments, except if these are illegal."""
        request = root.find(f"{OAI}request")
        illegal = {error.get("code") for error in root.iter(f"{OAI}error")} & {"badVerb", "badArgument"}
        expected = {} if illegal else dict(arguments)
        # XML has no control characters, so that an answer cannot repeat them.
        possible = all(value.isprintable() for value in expected.values())
        if possible and dict(request.attrib) != expected:
            self.problems.append(f"{where}: the element `request` has {dict(request.attrib)}, expected {expected}")
        if not abs(datetime.now(timezone.utc) - time_of(root.findtext(f"{OAI}responseDate"))) < timedelta(days=1):
            self.problems.append(f"{where}: responseDate is {root.findtext(f'{OAI}responseDate')}")

    def pages(self, verb: str, method: str = "GET", **arguments: str) -> Iterator[etree._Element]:
        """Yields all pages of a list. The numbers at the tokens must be those of what came before and altogether."""
        before, sizes = 0, set()
        root = self.request(verb, method, **arguments)
        while True:
            yield root
            token = root.find(f".//{OAI}resumptionToken")
            here = len(list(entries(root)))
            if token is None:
                break
            if self.count_entries and token.get("cursor", str(before)) != str(before):
                self.problems.append(f"{verb}: cursor {token.get('cursor')} after {before} entries")
            sizes.add(token.get("completeListSize"))
            before += here
            if not token.text:
                break
            if not here:
                self.problems.append(f"{verb}: a page without entries has a token")
            root = self.request(verb, method, resumptionToken=token.text)
        if self.count_entries and sizes - {None} and sizes != {str(before)}:
            self.problems.append(f"{verb}: completeListSize {sorted(map(str, sizes))} for {before} entries")

    def codes(self, root: etree._Element) -> list[str]:
        return [error.get("code") for error in root.findall(f"{OAI}error")]


def time_of(text: str) -> datetime:
    return datetime.strptime(text, MOMENT).replace(tzinfo=timezone.utc)


def entries(root: etree._Element) -> Iterator[etree._Element]:
    """Yields the headers of a page, or its sets."""
    return root.iter(f"{OAI}header", f"{OAI}set")


def headers(pages: Iterator[etree._Element]) -> list[dict[str, Any]]:
    return [
        {
            "identifier": header.findtext(f"{OAI}identifier"),
            "datestamp": header.findtext(f"{OAI}datestamp"),
            "sets": {entry.text for entry in header.findall(f"{OAI}setSpec")},
            "deleted": header.get("status") == "deleted",
        }
        for page in pages
        for header in page.iter(f"{OAI}header")
    ]


def check_identify(provider: Provider, verdicts: Verdicts) -> etree._Element:
    identify = provider.request("Identify").find(f"{OAI}Identify")
    problems = []
    if identify.findtext(f"{OAI}granularity") != "YYYY-MM-DDThh:mm:ssZ":
        problems.append(f"granularity {identify.findtext(f'{OAI}granularity')}")
    if identify.findtext(f"{OAI}deletedRecord") not in ("persistent", "transient"):
        problems.append("deletedRecord is `no`, but deleted items are known")
    client = Sickle(provider.address, timeout=HANG).Identify()
    problems += [] if client.baseURL == identify.findtext(f"{OAI}baseURL") else ["the client reads another baseURL"]
    with Scythe(provider.address) as other:
        problems += [] if other.identify().repositoryName == client.repositoryName else ["the clients read two names"]
    verdicts.add("Identify", "rules", problems, client.deletedRecord)
    return identify


def check_formats(provider: Provider, item: str, verdicts: Verdicts) -> list[str]:
    client = Sickle(provider.address, timeout=HANG)
    formats = {entry.metadataPrefix: entry.metadataNamespace for entry in client.ListMetadataFormats()}
    problems = [] if formats.get("oai_dc") == OAI_DC[1:-1] else [f"oai_dc has the namespace {formats.get('oai_dc')}"]
    datacite = [name for name, namespace in formats.items() if namespace == standards.KERNEL[1:-1]]
    problems += [] if datacite else [f"no format has DataCite's namespace: {formats}"]
    of_item = {entry.metadataPrefix for entry in client.ListMetadataFormats(identifier=item)}
    problems += [] if of_item == set(formats) else [f"the formats of {item} are {sorted(of_item)}"]
    provider.request("ListMetadataFormats")
    verdicts.add("ListMetadataFormats", "rules", problems, ", ".join(formats))
    return datacite


def check_harvest(provider: Provider, objects: int, identify: etree._Element, verdicts: Verdicts) -> list[dict[str, Any]]:
    """Two clients, both methods and both lists must give the same records."""
    pages = list(provider.pages("ListIdentifiers", metadataPrefix="oai_dc"))
    found = headers(iter(pages))
    names = [header["identifier"] for header in found]
    problems = [] if len(pages) > 1 else [f"{len(found)} headers are on one page, so that no token was used"]
    problems += [] if len(names) == len(set(names)) else ["an identifier comes twice"]
    problems += [] if len(names) >= objects else [f"{len(names)} headers for {objects} objects"]
    problems += [] if all("oai:" in name for name in names) else ["identifiers without the scheme oai"]
    earliest = identify.findtext(f"{OAI}earliestDatestamp")
    problems += [f"{header['datestamp']} is before earliestDatestamp" for header in found if header["datestamp"] < earliest][:1]
    verdicts.add("ListIdentifiers", "own requests", problems, f"{len(names)} headers, {len(pages)} pages")
    by_post = [header["identifier"] for header in headers(provider.pages("ListIdentifiers", "POST", metadataPrefix="oai_dc"))]
    verdicts.add(
        "ListIdentifiers", "POST", [] if by_post == names else ["POST gives other headers than GET"], f"{len(by_post)} headers"
    )
    for method in ("GET", "POST"):
        client = Sickle(provider.address, http_method=method, timeout=HANG)
        records = list(client.ListRecords(metadataPrefix="oai_dc"))
        problems = (
            [] if {record.header.identifier for record in records} == set(names) else ["other identifiers than ListIdentifiers"]
        )
        verdicts.add("ListRecords", f"Sickle, {method}", problems, f"{len(records)} records")
    with Scythe(provider.address) as client:
        records = list(client.list_records(metadata_prefix="oai_dc"))
    same = {record.header.identifier for record in records} == set(names)
    verdicts.add(
        "ListRecords", "oaipmh-scythe", [] if same else ["other identifiers than ListIdentifiers"], f"{len(records)} records"
    )
    return found


def check_metadata(provider: Provider, prefixes: list[str], folder: Path, verdicts: Verdicts) -> None:
    problems, records = [], 0
    for page in provider.pages("ListRecords", metadataPrefix="oai_dc"):
        for record in page.iter(f"{OAI}record"):
            name = record.findtext(f"{OAI}header/{OAI}identifier")
            metadata = record.find(f"{OAI}metadata")
            if (metadata is None) != (record.find(f"{OAI}header").get("status") == "deleted"):
                problems.append(f"{name}: metadata and status disagree")
            if metadata is not None:
                records += 1
                problems += [f"{name}: {problem}" for problem in dublin_core(metadata)]
    verdicts.add("ListRecords", "oai_dc", problems, f"{records} valid")
    file = folder / "record.xml"
    for prefix in prefixes:
        problems, records = [], 0
        for page in provider.pages("ListRecords", metadataPrefix=prefix):
            for metadata in page.iter(f"{OAI}metadata"):
                # Servers may wrap the resource; the namespace of the format is that of the resource.
                resource = (
                    metadata[0]
                    if metadata[0].tag == f"{standards.KERNEL}resource"
                    else metadata.find(f".//{standards.KERNEL}resource")
                )
                if resource is None:
                    problems.append(f"a record has {metadata[0].tag}")
                    continue
                file.write_bytes(etree.tostring(resource))
                records += 1
                problems += standards.datacite_xml(file)
        verdicts.add("ListRecords", prefix, problems[:20], f"{records} valid")


def dublin_core(metadata: etree._Element) -> list[str]:
    (root,) = metadata
    problems = [] if root.tag == f"{OAI_DC}dc" else [f"the root is {root.tag}"]
    if not any(name.endswith("}schemaLocation") and OAI_DC[1:-1] in value for name, value in root.attrib.items()):
        problems.append("oai_dc:dc has no schemaLocation, which the protocol demands")
    for element in root:
        if not element.tag.startswith(DC) or element.tag.removeprefix(DC) not in ELEMENTS:
            problems.append(f"no element of Dublin Core: {element.tag}")
        elif set(element.attrib) - {LANGUAGE} or len(element) or not (element.text or "").strip():
            problems.append(f"{element.tag} has {dict(element.attrib)}, {len(element)} elements and the text {element.text!r}")
    missing = {"title", "identifier"} - {element.tag.removeprefix(DC) for element in root}
    return problems + [f"no {name}" for name in sorted(missing)]


def check_record(provider: Provider, name: str, verdicts: Verdicts) -> None:
    record = Sickle(provider.address, timeout=HANG).GetRecord(identifier=name, metadataPrefix="oai_dc")
    values = {
        "title": TITLE,
        "creator": "Carberry, Josiah",
        "publisher": "Institute of Examples",
        "subject": "ocean",
        "language": "en",
    }
    values |= {
        "rights": "CC-BY-4.0",
        "identifier": "10.5072/esker-sea",
        "description": "Daily means",
        "date": "2024-05-03",
        "format": "text/csv",
    }
    problems = [
        f"{field} is {record.metadata.get(field)}, expected {text}"
        for field, text in values.items()
        if not any(text in value for value in record.metadata.get(field, []))
    ]
    provider.request("GetRecord", identifier=name, metadataPrefix="oai_dc")
    verdicts.add("GetRecord", "Sickle, GET", problems, f"{len(record.metadata)} elements")


def check_sets(provider: Provider, found: list[dict[str, Any]], verdicts: Verdicts) -> None:
    client = Sickle(provider.address, timeout=HANG)
    sets = {entry.setSpec: entry.setName for entry in client.ListSets()}
    list(provider.pages("ListSets"))
    problems = [] if sets else ["no set"]
    problems += [
        f"{spec} has the set {':'.join(spec.split(':')[:-1])} above it, which is not listed"
        for spec in sets
        if parent(spec) not in {*sets, ""}
    ]
    unlisted = {spec for header in found for spec in header["sets"]} - set(sets)
    problems += [f"headers name sets that ListSets does not: {sorted(unlisted)}"] if unlisted else []
    counts = {}
    for spec in sets:
        # A header is in a set if it names the set or one below it.
        expected = {
            header["identifier"] for header in found if any(own == spec or own.startswith(spec + ":") for own in header["sets"])
        }
        try:
            got = {header.identifier for header in client.ListIdentifiers(metadataPrefix="oai_dc", set=spec)}
        except oaiexceptions.NoRecordsMatch:
            got = set()
        counts[spec] = len(got)
        if got != expected:
            problems.append(f"set {spec} has {len(got)} items; {len(expected)} headers of the whole list name it")
    verdicts.add("ListSets", "rules", problems, f"{len(sets)} sets, {sum(counts.values())} headers")


def parent(spec: str) -> str:
    return spec.rpartition(":")[0]


def check_times(provider: Provider, found: list[dict[str, Any]], verdicts: Verdicts) -> None:
    """The limits `from` and `until` belong to the range."""
    stamps = sorted({header["datestamp"] for header in found})
    problems, ranges = [], 0
    first, middle, last = stamps[0], stamps[len(stamps) // 2], stamps[-1]
    day, next_day = last[:10], (time_of(last) + timedelta(days=1)).strftime("%Y-%m-%d")
    for limits in (
        {"from_": first, "until": first},
        {"from_": middle, "until": middle},
        {"from_": middle},
        {"until": middle},
        {"from_": last},
        {"from_": first[:10], "until": day},
        {"from_": day},
        {"until": next_day},
    ):
        got = {header["identifier"] for header in headers(provider.pages("ListIdentifiers", metadataPrefix="oai_dc", **limits))}
        low, high = limits.get("from_", ""), limits.get("until", "9")
        # A day as the end includes its last second.
        high = high if len(high) != 10 else high + "T23:59:59Z"
        expected = {header["identifier"] for header in found if low <= header["datestamp"] <= high}
        ranges += 1
        if got != expected:
            problems.append(f"{limits}: {len(got)} headers, expected {len(expected)}")
    verdicts.add("ListIdentifiers", "from, until", problems, f"{ranges} ranges")


def check_errors(provider: Provider, name: str, verdicts: Verdicts) -> None:
    prefix = ("metadataPrefix", "oai_dc")
    cases: list[tuple[str, list[tuple[str, str]]]] = [
        ("badVerb", []),
        ("badVerb", [("verb", "")]),
        ("badVerb", [("verb", "Nonsense")]),
        ("badVerb", [("verb", "identify")]),
        ("badVerb", [("verb", "Identify"), ("verb", "Identify")]),
        ("badArgument", [("verb", "Identify"), prefix]),
        ("badArgument", [("verb", "GetRecord")]),
        ("badArgument", [("verb", "GetRecord"), ("identifier", name)]),
        ("badArgument", [("verb", "GetRecord"), prefix]),
        ("badArgument", [("verb", "GetRecord"), ("identifier", name), prefix, ("set", "x")]),
        ("badArgument", [("verb", "ListSets"), prefix]),
        ("badArgument", [("verb", "ListMetadataFormats"), prefix]),
        ("idDoesNotExist", [("verb", "GetRecord"), ("identifier", name + "9999"), prefix]),
        ("idDoesNotExist", [("verb", "GetRecord"), ("identifier", "oai:elsewhere.example.org:1"), prefix]),
        ("idDoesNotExist", [("verb", "ListMetadataFormats"), ("identifier", name + "9999")]),
        ("idDoesNotExist|badArgument", [("verb", "GetRecord"), ("identifier", "%% no <URI>"), prefix]),
        ("cannotDisseminateFormat", [("verb", "GetRecord"), ("identifier", name), ("metadataPrefix", "nonsense")]),
        ("badResumptionToken", [("verb", "ListSets"), ("resumptionToken", "nonsense")]),
    ]
    for verb in LISTS:
        wanted = ("verb", verb)
        cases += [
            ("badArgument", [wanted]),
            ("badArgument", [wanted, prefix, prefix]),
            ("badArgument", [wanted, prefix, ("nonsense", "1")]),
            ("badArgument", [wanted, prefix, ("from", "yesterday")]),
            ("badArgument", [wanted, prefix, ("from", "2024-02-30")]),
            ("badArgument", [wanted, prefix, ("until", "2024-01-01T00:00:00")]),
            ("badArgument", [wanted, prefix, ("from", "2024-01-01T00:00:00+01:00")]),
            ("badArgument", [wanted, prefix, ("from", "2024-01-02"), ("until", "2024-01-01")]),
            ("badArgument", [wanted, prefix, ("from", "2024-01-01"), ("until", "2024-01-02T00:00:00Z")]),
            ("badArgument", [wanted, prefix, ("resumptionToken", "nonsense")]),
            ("badResumptionToken", [wanted, ("resumptionToken", "nonsense")]),
            ("badResumptionToken", [wanted, ("resumptionToken", "\u00e4\u4e2d%00<&\"'")]),
            ("badResumptionToken|badArgument", [wanted, ("resumptionToken", "\u0001\u0000")]),
            ("cannotDisseminateFormat|badArgument", [wanted, ("metadataPrefix", "a b")]),
            ("noRecordsMatch|badArgument", [wanted, prefix, ("set", "a b")]),
            ("cannotDisseminateFormat", [wanted, ("metadataPrefix", "nonsense")]),
            ("noRecordsMatch", [wanted, prefix, ("from", "2999-01-01")]),
            ("noRecordsMatch", [wanted, prefix, ("until", "1970-01-02")]),
            ("noRecordsMatch", [wanted, prefix, ("set", "no-such-set")]),
        ]
    for method in ("GET", "POST"):
        problems = []
        for code, arguments in cases:
            got = provider.codes(provider.send(arguments, method))
            problems += [] if got and set(got) <= set(code.split("|")) else [f"{arguments}: {got}, expected {code}"]
        verdicts.add("errors", method, problems, f"{len(cases)} requests")
    # The clients have one exception for each code.
    client = Sickle(provider.address, timeout=HANG)
    problems = []
    for arguments, expected in (
        ({"metadataPrefix": "nonsense"}, oaiexceptions.CannotDisseminateFormat),
        ({"metadataPrefix": "oai_dc", "from": "2999-01-01"}, oaiexceptions.NoRecordsMatch),
        ({}, oaiexceptions.BadArgument),
    ):
        try:
            client.ListRecords(**arguments)
            problems.append(f"{arguments}: no exception")
        except Exception as error:
            problems += [] if isinstance(error, expected) else [f"{arguments}: {type(error).__name__}"]
    verdicts.add("errors", "Sickle", problems, "3 exceptions")


def check_tokens(provider: Provider, verdicts: Verdicts) -> None:
    first = provider.request("ListIdentifiers", metadataPrefix="oai_dc")
    token = first.findtext(f".//{OAI}resumptionToken")
    once, again = (headers(iter([provider.request("ListIdentifiers", resumptionToken=token)])) for _ in range(2))
    problems = [] if once == again else ["the second use of a token gives another page"]
    together = provider.codes(
        provider.send([("verb", "ListIdentifiers"), ("resumptionToken", token), ("metadataPrefix", "oai_dc")])
    )
    problems += [] if together == ["badArgument"] else [f"a token with another argument: {together}"]
    changed = provider.codes(
        provider.request("ListIdentifiers", resumptionToken=token[:-1] + ("A" if token[-1] != "A" else "B"))
    )
    # A token that was cut or changed may be refused, but must not end the answer otherwise.
    problems += [] if changed in ([], ["badResumptionToken"]) else [f"a changed token: {changed}"]
    for text in (token[: len(token) // 2], token + token, token.swapcase()):
        codes = provider.codes(provider.request("ListIdentifiers", resumptionToken=text))
        problems += [] if codes in ([], ["badResumptionToken"]) else [f"token {text!r}: {codes}"]
    last = list(provider.pages("ListIdentifiers", metadataPrefix="oai_dc"))[-1].find(f".//{OAI}resumptionToken")
    problems += [] if last is not None and not last.text else ["the last page has no empty token"]
    verdicts.add("resumption tokens", "rules", problems, "6 tokens")


def check_changes(provider: Provider, lab: Path, changing: str, found: list[dict[str, Any]], verdicts: Verdicts) -> None:
    """A harvest and the incremental one after it miss nothing, even if items change between two pages."""
    names = {header["identifier"] for header in found if not header["deleted"]}
    pages = provider.pages("ListIdentifiers", metadataPrefix="oai_dc")
    first = next(pages)
    begin = first.findtext(f"{OAI}responseDate")
    got = headers(iter([first]))
    set_tag(lab, changing, "note=changed")
    made = create(lab, "made during a harvest")
    # The numbers at the tokens may change with the list.
    provider.count_entries = False
    got += headers(pages)
    provider.count_entries = True
    client = Sickle(provider.address, timeout=HANG)
    recent = {header.identifier for header in client.ListIdentifiers(**{"metadataPrefix": "oai_dc", "from": begin})}
    missing = names - {header["identifier"] for header in got} - recent
    problems = [f"both harvests miss {len(missing)} items: {sorted(missing)[:3]}"] if missing else []
    verdicts.add("changes", "during a harvest", problems, f"{len(got)} headers")
    changed = {oai_name([{"identifier": name} for name in recent], vertex) for vertex in (changing, made)}
    problems = [] if len(recent) < len(found) else [f"all {len(recent)} headers are in the incremental harvest"]
    verdicts.add("changes", "from the last harvest", problems, f"{len(recent)} headers, {len(changed)} expected at least")
    check_deletion(provider, lab, made, verdicts)


def set_tag(lab: Path, vertex: str, tag: str) -> None:
    esker("tag", "set", lab, "--object", vertex.removeprefix("object:"), tag, "--quiet")


def create(lab: Path, name: str) -> str:
    (row,) = json.loads(esker("object", "create", lab, "--name", name, "--format", "json"))
    return f"object:{row['id']}"


def oai_name(found: list[dict[str, Any]], vertex: str) -> str:
    matching = [header["identifier"] for header in found if header["identifier"].endswith(vertex)]
    assert len(matching) == 1, f"{len(matching)} of {len(found)} OAI identifiers end in {vertex}"
    return matching[0]


def check_deletion(provider: Provider, lab: Path, vertex: str, verdicts: Verdicts) -> None:
    found = headers(provider.pages("ListIdentifiers", metadataPrefix="oai_dc"))
    name = oai_name(found, vertex)
    before = next(header for header in found if header["identifier"] == name)
    esker("object", "delete", lab, vertex, "--quiet")
    client = Sickle(provider.address, timeout=HANG)
    record = client.GetRecord(identifier=name, metadataPrefix="oai_dc")
    problems = [] if record.deleted and record.header.deleted else ["GetRecord does not say that it is deleted"]
    problems += (
        [] if record.header.datestamp >= before["datestamp"] else ["the datestamp of the deletion is before that of the record"]
    )
    since = {"metadataPrefix": "oai_dc", "from": record.header.datestamp}
    listed = [header for header in client.ListIdentifiers(**since) if header.identifier == name]
    problems += [] if len(listed) == 1 and listed[0].deleted else [f"the incremental harvest has {listed}"]
    skipped = [
        header for header in client.ListIdentifiers(ignore_deleted=True, metadataPrefix="oai_dc") if header.identifier == name
    ]
    problems += [] if not skipped else ["the client does not skip it as deleted"]
    provider.request("GetRecord", identifier=name, metadataPrefix="oai_dc")
    verdicts.add("changes", "deletion", problems, "status deleted")


def main(folder: Path, address: str) -> None:
    record = json.loads((folder / "items.json").read_text())
    provider = Provider(f"{address}/oai")
    verdicts = Verdicts("OAI-PMH")
    identify = check_identify(provider, verdicts)
    found = check_harvest(provider, record["objects"] - 1, identify, verdicts)
    rich = oai_name(found, record["items"]["object"])
    datacite = check_formats(provider, rich, verdicts)
    doomed = oai_name(found, record["others"]["doomed"])
    problems = (
        [] if any(header["deleted"] for header in found if header["identifier"] == doomed) else [f"{doomed} is not deleted"]
    )
    verdicts.add("ListIdentifiers", "deleted", problems, "status deleted")
    verdicts.check("GetRecord", check_record, provider, rich)
    verdicts.check("ListRecords", check_metadata, provider, datacite, folder)
    verdicts.check("ListSets", check_sets, provider, found)
    verdicts.check("ListIdentifiers", check_times, provider, found)
    verdicts.check("errors", check_errors, provider, rich)
    verdicts.check("resumption tokens", check_tokens, provider)
    verdicts.check("changes", check_changes, provider, folder / "lab.esker", record["others"]["changing"], found)
    verdicts.add("all answers", "schema", provider.problems[:40], f"{provider.answers} answers")
    finish(verdicts)


main(Path(sys.argv[1]), sys.argv[2])
