//! `DataCite` Metadata Schema 4.6 as JSON and XML (<https://schema.datacite.org/meta/kernel-4.6/>).

use crate::agent::Agent;
use crate::format::Format;
use crate::json::Object;
use crate::markup::Markup;
use crate::record::{FilePart, Record, Related, doi_address};
use crate::time;
use serde_json::{Value as Json, json};
use std::collections::BTreeSet;

/// Namespace of the XML form.
pub const NAMESPACE: &str = "http://datacite.org/schema/kernel-4";
/// Location of the XML schema.
pub const SCHEMA: &str = "https://schema.datacite.org/meta/kernel-4.6/metadata.xsd";
/// Value of mandatory fields whose content is unknown (appendix 3 of the schema's documentation).
const UNKNOWN: &str = "(:unkn)";
/// Value of a publisher that is not given.
const UNAVAILABLE: &str = "(:unav)";
/// Largest number of elements of one list; `DataCite` sets no limit, and a directory may have thousands of files.
const LIST_MAX: usize = 100;

fn general_type(record: &Record) -> &'static str {
    if record.kind.is_set() {
        "Collection"
    } else {
        "Dataset"
    }
}

/// Distinct media types of the files.
fn media_types(files: &[FilePart]) -> Vec<&str> {
    let kinds: BTreeSet<&str> = files
        .iter()
        .filter_map(|f| f.media_type.as_deref())
        .collect();
    kinds.into_iter().take(LIST_MAX).collect()
}

/// Related items with their relation: identifiers that lead somewhere, and the others.
fn relations(record: &Record) -> Vec<(&'static str, &Related)> {
    let sources = record.sources.iter().map(|r| ("IsDerivedFrom", r));
    let containers = record.part_of.iter().map(|r| ("IsPartOf", r));
    sources.chain(containers).collect()
}

/// Identifier of a related item and its type, if it leads somewhere.
fn identifier_of(record: &Record, related: &Related) -> Option<(String, &'static str)> {
    if let Some(doi) = &related.doi {
        return Some((doi.clone(), "DOI"));
    }
    record.page_of(&related.name).map(|page| (page, "URL"))
}

fn dates(record: &Record) -> Vec<(&'static str, String)> {
    let mut dates = Vec::new();
    if let Some(issued) = &record.issued {
        dates.push(("Issued", issued.clone()));
    }
    if let Some(created) = record.created {
        dates.push(("Created", time::seconds(created)));
    }
    if let Some(modified) = record.modified {
        dates.push(("Updated", time::seconds(modified)));
    }
    dates
}

fn year(record: &Record) -> String {
    // The schema demands four digits; no standard value stands for an unknown year.
    record.year().unwrap_or_else(|| "0000".into())
}

fn creators(record: &Record) -> Vec<Agent> {
    if !record.creators.is_empty() {
        return record.creators.clone();
    }
    vec![Agent {
        name: UNKNOWN.into(),
        ..Agent::default()
    }]
}

fn name_type(agent: &Agent) -> Option<&'static str> {
    agent
        .is_person()
        .map(|person| if person { "Personal" } else { "Organizational" })
}

/// Identifier of an agent, its scheme and the scheme's address.
fn name_identifier(agent: &Agent) -> Option<(&str, &'static str, &'static str)> {
    match (&agent.orcid, &agent.ror) {
        (Some(orcid), _) => Some((orcid, "ORCID", "https://orcid.org")),
        (None, Some(ror)) => Some((ror, "ROR", "https://ror.org")),
        (None, None) => None,
    }
}

fn agent_json(agent: &Agent) -> Object {
    let mut object = Object::default();
    object.set("name", agent.name.as_str());
    object.set("nameType", name_type(agent));
    if let Some((family, given)) = agent.parts() {
        object.set("givenName", given);
        object.set("familyName", family);
    }
    if let Some((id, scheme, address)) = name_identifier(agent) {
        let one =
            json!({"nameIdentifier": id, "nameIdentifierScheme": scheme, "schemeUri": address});
        object.set("nameIdentifiers", vec![one]);
    }
    let affiliation = agent.affiliation.as_deref();
    object.set(
        "affiliation",
        affiliation.map(|name| vec![json!({ "name": name })]),
    );
    object
}

/// Converts a record to JSON.
pub fn json(record: &Record) -> Json {
    let mut out = Object::default();
    out.set("schemaVersion", NAMESPACE);
    out.set("doi", record.doi.as_deref());
    out.set("url", record.page());
    out.set(
        "types",
        json!({"resourceTypeGeneral": general_type(record), "resourceType": record.kind.title()}),
    );
    let agents = creators(record);
    out.set(
        "creators",
        agents
            .iter()
            .map(|a| agent_json(a).done())
            .collect::<Vec<_>>(),
    );
    let mut title = Object::default();
    title.set("title", record.title.as_str());
    title.set("lang", record.language.as_deref());
    out.set("titles", vec![title.done()]);
    out.set(
        "publisher",
        json!({"name": record.publisher.as_deref().unwrap_or(UNAVAILABLE)}),
    );
    out.set("publicationYear", year(record));
    let subjects = record
        .keywords
        .iter()
        .map(|word| json!({ "subject": word }));
    out.set("subjects", subjects.collect::<Vec<_>>());
    let contributors = record.contributors.iter().map(|agent| {
        let mut one = agent_json(agent);
        one.set("contributorType", "Other");
        one.done()
    });
    out.set("contributors", contributors.collect::<Vec<_>>());
    let dates = dates(record);
    let dates = dates
        .iter()
        .map(|(kind, date)| json!({"date": date, "dateType": kind}));
    out.set("dates", dates.collect::<Vec<_>>());
    out.set("language", record.language.as_deref());
    out.set(
        "alternateIdentifiers",
        vec![
            json!({"alternateIdentifier": record.name, "alternateIdentifierType": "Esker vertex"}),
        ],
    );
    let (mut identifiers, mut items) = (Vec::new(), Vec::new());
    for (relation, related) in relations(record).into_iter().take(LIST_MAX) {
        match identifier_of(record, related) {
            Some((identifier, kind)) => identifiers.push(json!({
                "relatedIdentifier": identifier,
                "relatedIdentifierType": kind,
                "relationType": relation,
            })),
            None => items.push(json!({
                "relatedItemType": "Dataset",
                "relationType": relation,
                "titles": [{"title": related.name}],
            })),
        }
    }
    for format in Format::DESCRIPTIONS {
        if let Some(page) = record.page().filter(|_| format != Format::Datacite) {
            identifiers.push(json!({
                "relatedIdentifier": format!("{page}?format={}", format.name()),
                "relatedIdentifierType": "URL",
                "relationType": "HasMetadata",
                "relatedMetadataScheme": format.name(),
            }));
        }
    }
    out.set("relatedIdentifiers", identifiers);
    out.set("relatedItems", items);
    let size = record
        .size
        .map(|bytes| vec![format!("{bytes} bytes").into()]);
    out.set("sizes", size);
    let kinds = media_types(&record.files);
    out.set(
        "formats",
        kinds.into_iter().map(Json::from).collect::<Vec<_>>(),
    );
    out.set("version", record.version.as_deref());
    if let Some(license) = &record.license {
        let mut one = Object::default();
        one.set("rights", license.name.as_str());
        one.set("rightsUri", license.url.as_deref());
        if let Some(spdx) = &license.spdx {
            one.set("rightsIdentifier", spdx.as_str());
            one.set("rightsIdentifierScheme", "SPDX");
            one.set("schemeUri", "https://spdx.org/licenses/");
        }
        out.set("rightsList", vec![one.done()]);
    }
    let mut description = Object::default();
    description.set("description", record.description_or_made());
    description.set("descriptionType", "Abstract");
    out.set("descriptions", vec![description.done()]);
    out.done()
}

fn text<'a>(object: &'a Json, name: &str) -> Option<&'a str> {
    object.get(name).and_then(Json::as_str)
}

fn list<'a>(document: &'a Json, name: &str) -> impl Iterator<Item = &'a Json> {
    document
        .get(name)
        .and_then(Json::as_array)
        .into_iter()
        .flatten()
}

/// Attributes of an element: the names in XML with the members of JSON that hold them.
fn attributes<'a>(
    object: &'a Json,
    names: &[(&'static str, &'static str)],
) -> Vec<(&'static str, &'a str)> {
    let given = names
        .iter()
        .filter_map(|(xml, json)| Some((*xml, text(object, json)?)));
    given.collect()
}

fn agent_xml(out: &mut Markup, agent: &Json, name: &'static str) {
    let kind = attributes(agent, &[("nameType", "nameType")]);
    out.leaf(name, &kind, text(agent, "name").unwrap_or_default());
    out.some("givenName", text(agent, "givenName"));
    out.some("familyName", text(agent, "familyName"));
    for id in list(agent, "nameIdentifiers") {
        let scheme = [
            ("nameIdentifierScheme", "nameIdentifierScheme"),
            ("schemeURI", "schemeUri"),
        ];
        let value = text(id, "nameIdentifier").unwrap_or_default();
        out.leaf("nameIdentifier", &attributes(id, &scheme), value);
    }
    for one in list(agent, "affiliation") {
        out.some("affiliation", text(one, "name"));
    }
}

/// A list of elements with text: the element of the list, of an item, the member with the text, attributes.
type ListRow = (
    &'static str,
    &'static str,
    &'static str,
    &'static [(&'static str, &'static str)],
);

/// Lists of the schema whose items are texts with attributes.
const LISTS: [ListRow; 7] = [
    ("titles", "title", "title", &[("xml:lang", "lang")]),
    ("subjects", "subject", "subject", &[]),
    ("dates", "date", "date", &[("dateType", "dateType")]),
    (
        "alternateIdentifiers",
        "alternateIdentifier",
        "alternateIdentifier",
        &[("alternateIdentifierType", "alternateIdentifierType")],
    ),
    (
        "relatedIdentifiers",
        "relatedIdentifier",
        "relatedIdentifier",
        &[
            ("relatedIdentifierType", "relatedIdentifierType"),
            ("relationType", "relationType"),
            ("relatedMetadataScheme", "relatedMetadataScheme"),
        ],
    ),
    (
        "rightsList",
        "rights",
        "rights",
        &[
            ("rightsURI", "rightsUri"),
            ("rightsIdentifier", "rightsIdentifier"),
            ("rightsIdentifierScheme", "rightsIdentifierScheme"),
            ("schemeURI", "schemeUri"),
        ],
    ),
    (
        "descriptions",
        "description",
        "description",
        &[("descriptionType", "descriptionType")],
    ),
];

fn list_xml(out: &mut Markup, document: &Json, row: &ListRow) {
    let (outer, inner, member, names) = *row;
    let mut items = list(document, outer).peekable();
    if items.peek().is_none() {
        return;
    }
    out.open(outer, &[]);
    for item in items {
        let value = text(item, member).unwrap_or_default();
        out.leaf(inner, &attributes(item, names), value);
    }
    out.close();
}

/// Converts a record to XML.
pub fn xml(record: &Record) -> String {
    let document = json(record);
    let mut out = Markup::xml();
    out.open(
        "resource",
        &[
            ("xmlns", NAMESPACE),
            ("xmlns:xsi", "http://www.w3.org/2001/XMLSchema-instance"),
            ("xsi:schemaLocation", &format!("{NAMESPACE} {SCHEMA}")),
        ],
    );
    match (&record.doi, record.page()) {
        (Some(doi), _) => out.leaf("identifier", &[("identifierType", "DOI")], doi),
        (None, Some(page)) => out.leaf("identifier", &[("identifierType", "URL")], &page),
        (None, None) => out.leaf("identifier", &[("identifierType", "Local")], &record.iri()),
    }
    for (outer, inner, name) in [
        ("creators", "creator", "creatorName"),
        ("contributors", "contributor", "contributorName"),
    ] {
        let mut agents = list(&document, outer).peekable();
        if agents.peek().is_none() {
            continue;
        }
        out.open(outer, &[]);
        for agent in agents {
            let kind = attributes(agent, &[("contributorType", "contributorType")]);
            out.open(inner, &kind);
            agent_xml(&mut out, agent, name);
            out.close();
        }
        out.close();
    }
    let publisher = record.publisher.as_deref().unwrap_or(UNAVAILABLE);
    out.leaf("publisher", &[], publisher);
    out.leaf("publicationYear", &[], &year(record));
    let general = [("resourceTypeGeneral", general_type(record))];
    out.leaf("resourceType", &general, record.kind.title());
    for row in &LISTS {
        list_xml(&mut out, &document, row);
    }
    out.some("language", record.language.as_deref());
    for (outer, inner) in [("sizes", "size"), ("formats", "format")] {
        let mut items = list(&document, outer).filter_map(Json::as_str).peekable();
        if items.peek().is_some() {
            out.open(outer, &[]);
            items.for_each(|item| out.leaf(inner, &[], item));
            out.close();
        }
    }
    out.some("version", record.version.as_deref());
    let mut items = list(&document, "relatedItems").peekable();
    if items.peek().is_some() {
        out.open("relatedItems", &[]);
        for item in items {
            let names = [
                ("relatedItemType", "relatedItemType"),
                ("relationType", "relationType"),
            ];
            out.open("relatedItem", &attributes(item, &names));
            out.open("titles", &[]);
            list(item, "titles").for_each(|title| out.some("title", text(title, "title")));
            out.close();
            out.close();
        }
        out.close();
    }
    out.done()
}

/// Identifier for people: the address of the DOI, or of the landing page, or the vertex's name.
pub(crate) fn shown_identifier(record: &Record) -> String {
    match (&record.doi, record.page()) {
        (Some(doi), _) => doi_address(doi),
        (None, Some(page)) => page,
        (None, None) => record.name.clone(),
    }
}

/// Text of a citation as `DataCite` recommends: creators (year): title. version. publisher. identifier.
pub fn citation(record: &Record) -> String {
    let names: Vec<&str> = record.creators.iter().map(|a| a.name.as_str()).collect();
    let mut parts = Vec::new();
    let who = names.join("; ");
    match (names.is_empty(), record.year()) {
        (false, Some(year)) => parts.push(format!("{who} ({year}): {}", record.title)),
        (false, None) => parts.push(format!("{who}: {}", record.title)),
        (true, Some(year)) => parts.push(format!("{} ({year})", record.title)),
        (true, None) => parts.push(record.title.clone()),
    }
    if let Some(version) = &record.version {
        parts.push(format!("Version {version}"));
    }
    parts.extend(record.publisher.clone());
    parts.push(shown_identifier(record));
    parts.join(". ")
}
