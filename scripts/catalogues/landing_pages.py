"""Follows Signposting from the landing pages of a server to metadata and files, and checks content negotiation.

landing_pages.py FOLDER ADDRESS
"""

from __future__ import annotations

import json
import sys
import warnings
from pathlib import Path
from urllib.parse import quote

import rdflib
import requests
import standards
from bs4 import BeautifulSoup
from common import HANG, TITLE, Verdicts, esker, finish
from signposting import Signpost, Signposting, find_signposting_http
from signposting.htmllinks import find_signposting_html
from signposting.linkset import find_signposting_linkset

# The client warns of links that it ignores; here each warning is a failure.
warnings.filterwarnings("error", module="signposting")

FORMATS = {
    "datacite": ("application/vnd.datacite.datacite+json", None, standards.datacite_json),
    "datacite-xml": ("application/vnd.datacite.datacite+xml", None, standards.datacite_xml),
    "schema-org": ("application/ld+json", "https://schema.org/", lambda path: standards.schema_org(path, complete=False)),
    "croissant": ("application/ld+json", "http://mlcommons.org/croissant/1.0", standards.croissant),
    "dcat": ("application/ld+json", "http://data.europa.eu/r5r/", standards.dcat),
    "linkset": (
        "application/linkset+json",
        None,
        lambda path: [] if "linkset" in json.loads(path.read_text()) else ["no linkset"],
    ),
    "linkset-text": ("application/linkset", None, lambda path: []),
}
"""Values of `format` in addresses, with their media types, profiles and validators."""


def get(url: str, wanted: str | None = None, method: str = "GET") -> requests.Response:
    return requests.request(method, url, headers={"Accept": wanted} if wanted else None, timeout=HANG)


def accept(media: str, profile: str | None) -> str:
    return f'{media};profile="{profile}"' if profile else media


def media_type(response: requests.Response) -> str:
    return response.headers.get("Content-Type", "").partition(";")[0].strip()


def pairs(signposting: Signposting) -> set[tuple[str, str, str]]:
    """Returns relation, target and media type of each link from the page itself."""
    return {(str(post.rel), str(post.target), str(post.type or "")) for post in signposting}


def check_described(page: str, posts: set[Signpost], file: Path) -> list[str]:
    """The metadata behind each link must have the announced type, be valid, and link back to the page."""
    problems = []
    validators = {(media, profile): validate for media, profile, validate in FORMATS.values()}
    for post in posts:
        profile = next(map(str, post.profiles), None)
        response = get(post.target, accept(str(post.type), profile))
        if response.status_code != 200 or media_type(response) != post.type:
            problems.append(f"{post.target}: status {response.status_code}, {media_type(response)} instead of {post.type}")
            continue
        file.write_bytes(response.content)
        validate = validators.get((str(post.type), profile))
        if validate is None:
            problems.append(f"{post.target}: no standard has the type {post.type} with the profile {profile}")
        else:
            problems += [f"{post.target}: {problem}" for problem in validate(file)]
        back = find_signposting_http(post.target, warn_empty=False)
        if page not in {link.target for link in back.describes}:
            problems.append(f"{post.target} has no link `describes` to the page")
    return problems


def links_of(post: Signpost) -> Signposting:
    """Reads a set of links with the client, which takes a profile as text alone and fails at a list."""
    if post.type == "application/linkset+json":
        contexts = get(post.target, post.type).json()["linkset"]
        links = [link for context in contexts for links in context.values() if isinstance(links, list) for link in links]
        lists = [link["profile"] for link in links if not isinstance(link.get("profile", ""), str)]
        if lists:
            raise ValueError(
                f"{post.target} has profiles that are no text, which clients of Signposting cannot read: {lists[0]}"
            )
    return find_signposting_linkset(post.target, acceptType=post.type)


def check_linksets(page: str, posts: set[Signpost], expected: set[tuple[str, str, str]]) -> list[str]:
    problems = []
    types = {str(post.type) for post in posts}
    if types != {"application/linkset+json", "application/linkset"}:
        problems.append(f"linksets in {sorted(types)}")
    for post in posts:
        linkset = links_of(post)
        found = pairs(linkset.for_context(page))
        wanted = {entry for entry in expected if entry[0] != "linkset"}
        if wanted - found:
            problems.append(f"{post.target} lacks {sorted(wanted - found)}")
    return problems


def check_page(name: str, page: str, file: Path, heads: dict[str, Signposting], verdicts: Verdicts) -> None:
    heads[name] = head = find_signposting_http(page)
    problems = []
    if str(head.context) != page:
        problems.append(f"the links are of {head.context}")
    types = {str(post.target) for post in head.types}
    if "https://schema.org/AboutPage" not in types or len(types) < 2:
        problems.append(f"types are {sorted(types)}, expected AboutPage and the type of the item")
    if not head.citeAs:
        problems.append("no cite-as")
    answer = get(page, "text/html")
    problems += [] if TITLE in answer.text or name != "object" else ["the page lacks the title"]
    if get(page, "text/html", "HEAD").headers.get("Link") != answer.headers.get("Link"):
        problems.append("HEAD and GET have other links")
    verdicts.add(name, "HTTP links", problems, f"{len(pairs(head))} links")
    html = find_signposting_html(page)
    # A page may leave out items and linksets, if the header has them.
    missing = {entry for entry in pairs(html) ^ pairs(head) if entry[0] not in ("item", "linkset")}
    verdicts.add(name, "links in HTML", [f"not in both header and page: {sorted(missing)}"] if missing else [], "equal")
    verdicts.add(name, "metadata", check_described(page, set(head.describedBy), file), f"{len(head.describedBy)} documents")
    verdicts.add(name, "linksets", check_linksets(page, set(head.linksets), pairs(head)), f"{len(head.linksets)} linksets")
    verdicts.add(name, "JSON-LD in HTML", check_embedded(page))


def check_embedded(page: str) -> list[str]:
    """The page has its description as JSON-LD, which search engines read. Texts of tags must not become elements."""
    soup = BeautifulSoup(get(page, "text/html").text, "html.parser")
    found = soup.find_all("script")
    if [element.get("type") for element in found] != ["application/ld+json"] or soup.find("b"):
        return [f"scripts {found} and elements {soup.find_all('b')}, expected one script with JSON-LD"]
    return standards.schema_org_document(json.loads(found[0].string), complete=False)


BROWSER = "text/html,application/xhtml+xml,application/xml;q=0.9,*/*;q=0.8"


def check_negotiation(page: str, file: Path, verdicts: Verdicts) -> None:
    for name, (media, profile, validate) in FORMATS.items():
        by_name = get(f"{page}?format={name}", "text/html")
        problems = [] if by_name.status_code == 200 else [f"status {by_name.status_code}: {by_name.text[:200]}"]
        if media_type(by_name) != media:
            problems.append(f"?format={name} is {by_name.headers.get('Content-Type')}, expected {media}")
        if not problems:
            file.write_bytes(by_name.content)
            problems += validate(file)
            by_type = get(page, accept(media, profile))
            problems += (
                [] if by_type.content == by_name.content else [f"`Accept: {accept(media, profile)}` gives another document"]
            )
            problems += [] if "accept" in by_type.headers.get("Vary", "").lower() else ["no `Vary: Accept`"]
        verdicts.add("object", f"?format={name}", problems)
    for wanted in (None, "*/*", BROWSER, "application/linkset;q=0.1, text/html"):
        answer = get(page, wanted)
        problems = [] if media_type(answer) == "text/html" else [f"`Accept: {wanted}` gives {media_type(answer)}"]
        verdicts.add("object", "Accept of browsers", problems, "HTML")
    answer = get(page, "text/html;q=0.1, application/linkset")
    verdicts.add(
        "object", "weights", [] if media_type(answer) == "application/linkset" else [f"gives {media_type(answer)}"], "links"
    )
    answer = get(page, "image/png")
    verdicts.add("object", "unknown type", [] if answer.status_code == 406 else [f"status {answer.status_code}"], "406")
    unknown = get(f"{page}?format=nonsense")
    problems = (
        []
        if unknown.status_code == 400 and "datacite" in unknown.text
        else [f"status {unknown.status_code}: {unknown.text[:200]}"]
    )
    verdicts.add("object", "unknown format", problems, "400, names the formats")


def check_relations(address: str, items: dict[str, str], heads: dict[str, Signposting], verdicts: Verdicts) -> None:
    rich = heads["object"]
    problems = []
    if "10.5072/esker-sea" not in str(rich.citeAs and rich.citeAs.target):
        problems.append(f"cite-as is {rich.citeAs}, expected the DOI")
    if not rich.license or "CC-BY-4.0" not in rich.license.target:
        problems.append(f"license is {rich.license}")
    authors = {str(post.target) for post in rich.authors}
    if "https://orcid.org/0000-0002-1825-0097" not in authors:
        problems.append(f"authors are {sorted(authors)}")
    verdicts.add("object", "relations", problems, "DOI, license, author")
    # From the directory to its files and back.
    directory, file = page_of(address, items["directory"]), page_of(address, items["file"])
    linkset = next(post for post in heads["directory"].linksets if post.type == "application/linkset+json")
    listed = {str(post.target) for post in links_of(linkset).for_context(directory).items}
    problems = [] if listed else ["the directory lists no item"]
    problems += [f"{target}: status {status}" for target in listed if (status := get(target, method="HEAD").status_code) != 200]
    if file not in listed:
        problems.append(f"{file} is not among {sorted(listed)}")
    collection = heads["file"].collection
    if not collection or str(collection.target) != directory:
        problems.append(f"the collection of the file is {collection}")
    verdicts.add("directory", "relations", problems, f"{len(listed)} items")
    # The page of a derived file names the run in its metadata.
    answer = get(page_of(address, items["file of a run"]) + "?format=dcat")
    graph = rdflib.Graph().parse(data=answer.text, format="json-ld")
    run = page_of(address, items["run"])
    verdicts.add(
        "file of a run", "relations", [] if rdflib.URIRef(run) in graph.all_nodes() else [f"no {run} in its metadata"], "run"
    )


def check_absent(folder: Path, address: str, doomed: str, verdicts: Verdicts) -> None:
    never = get(f"{address}/records/object:123456789")
    verdicts.add("absent item", "status", [] if never.status_code == 404 else [f"status {never.status_code}"], "404")
    malformed = get(f"{address}/records/%00%ff:x")
    verdicts.add(
        "no name", "status", [] if malformed.status_code in (400, 404) else [f"status {malformed.status_code}"], "refused"
    )
    page = page_of(address, doomed)
    assert get(page).status_code == 200, page
    esker("object", "delete", folder / "lab.esker", doomed, "--quiet")
    gone = get(page)
    verdicts.add("deleted item", "status", [] if gone.status_code == 410 else [f"status {gone.status_code}"], "410")


def page_of(address: str, vertex: str) -> str:
    return f"{address}/records/{quote(vertex, safe=':/')}"


def main(folder: Path, address: str) -> None:
    record = json.loads((folder / "items.json").read_text())
    items = record["items"]
    file = folder / "answer"
    pages, verdicts = Verdicts("landing page"), Verdicts("landing page")
    heads: dict[str, Signposting] = {}
    for name, vertex in items.items():
        pages.check(name, check_page, name, page_of(address, vertex), file, heads)
    verdicts.check("object", check_negotiation, page_of(address, items["object"]), file)
    verdicts.check("relations", check_relations, address, items, heads)
    verdicts.check("absent item", check_absent, folder, address, record["others"]["doomed"])
    finish(pages, verdicts)


main(Path(sys.argv[1]), sys.argv[2])
