//! DCAT-AP 3 as JSON-LD (<https://semiceu.github.io/DCAT-AP/releases/3.0.0/>).

use crate::agent::Agent;
use crate::json::Object;
use crate::record::{FilePart, Record, Related, RunFacts};
use crate::time;
use serde_json::{Value as Json, json};

/// Languages in the European Union's list of authority, by their codes of two letters.
const LANGUAGES: [(&str, &str); 24] = [
    ("bg", "BUL"),
    ("cs", "CES"),
    ("da", "DAN"),
    ("de", "DEU"),
    ("el", "ELL"),
    ("en", "ENG"),
    ("es", "SPA"),
    ("et", "EST"),
    ("fi", "FIN"),
    ("fr", "FRA"),
    ("ga", "GLE"),
    ("hr", "HRV"),
    ("hu", "HUN"),
    ("it", "ITA"),
    ("lt", "LIT"),
    ("lv", "LAV"),
    ("mt", "MLT"),
    ("nl", "NLD"),
    ("pl", "POL"),
    ("pt", "POR"),
    ("ro", "RON"),
    ("sk", "SLK"),
    ("sl", "SLV"),
    ("sv", "SWE"),
];

fn context() -> Json {
    json!({
        "dcat": "http://www.w3.org/ns/dcat#",
        "dct": "http://purl.org/dc/terms/",
        "foaf": "http://xmlns.com/foaf/0.1/",
        "prov": "http://www.w3.org/ns/prov#",
        "rdfs": "http://www.w3.org/2000/01/rdf-schema#",
        "spdx": "http://spdx.org/rdf/terms#",
        "xsd": "http://www.w3.org/2001/XMLSchema#",
    })
}

fn typed(kind: &str, value: &str) -> Json {
    json!({"@type": kind, "@value": value})
}

fn date_time(nanos: i64) -> Json {
    typed("xsd:dateTime", &time::full(nanos))
}

/// A date of the precision that it has.
fn date(text: &str) -> Json {
    let kind = match text.len() {
        4 => "xsd:gYear",
        7 => "xsd:gYearMonth",
        _ => "xsd:date",
    };
    typed(kind, text)
}

fn agent(agent: &Agent) -> Json {
    let mut object = Object::typed("foaf:Agent");
    object.set("@id", agent.iri());
    object.set("foaf:name", agent.name.as_str());
    object.done()
}

fn distribution(record: &Record, file: &FilePart) -> Json {
    let mut out = Object::typed("dcat:Distribution");
    let address = Record::file_address(file);
    out.set("dct:title", file.label());
    // The address must lead to the data or to the way to them; without a download this is the landing page.
    let access = match (&file.url, record.page()) {
        (None, Some(page)) => page,
        _ => address,
    };
    out.set("dcat:accessURL", json!({ "@id": access }));
    let download = file.url.as_deref();
    out.set(
        "dcat:downloadURL",
        download.map(|url| json!({ "@id": url })),
    );
    let size = file.size.map(|bytes| bytes.to_string());
    out.set(
        "dcat:byteSize",
        size.map(|bytes| typed("xsd:nonNegativeInteger", &bytes)),
    );
    if let Some(kind) = &file.media_type {
        let id = format!("https://www.iana.org/assignments/media-types/{kind}");
        out.set(
            "dcat:mediaType",
            json!({"@id": id, "@type": "dct:MediaType"}),
        );
    }
    if let Some(url) = record.license.as_ref().and_then(|l| l.url.as_deref()) {
        out.set(
            "dct:license",
            json!({"@id": url, "@type": "dct:LicenseDocument"}),
        );
    }
    out.set("dct:modified", file.modified.map(date_time));
    if let Some(sum) = &file.sha256 {
        out.set(
            "spdx:checksum",
            json!({
                "@type": "spdx:Checksum",
                "spdx:algorithm": {
                    "@id": "http://spdx.org/rdf/terms#checksumAlgorithm_sha256",
                    "@type": "spdx:ChecksumAlgorithm",
                },
                "spdx:checksumValue": typed("xsd:hexBinary", sum),
            }),
        );
    }
    out.done()
}

fn run(record: &Record, run: &RunFacts) -> Json {
    let mut out = Object::typed("prov:Activity");
    out.set("@id", record.run_iri(run));
    out.set("rdfs:label", run.title.as_str());
    out.set("rdfs:comment", run.command.as_deref());
    out.set("prov:startedAtTime", run.start.map(date_time));
    out.set("prov:endedAtTime", run.end.map(date_time));
    let users = run.users.iter();
    let users = users.map(|name| json!({"@type": ["prov:Agent", "foaf:Agent"], "foaf:name": name}));
    out.set("prov:wasAssociatedWith", users.collect::<Vec<_>>());
    out.done()
}

fn related(record: &Record, items: &[Related]) -> Vec<Json> {
    let one = |item: &Related| {
        json!({
            "@id": record.related_iri(&item.name, item.doi.as_deref()),
            "dct:title": item.title,
            "dct:identifier": item.name,
        })
    };
    items.iter().map(one).collect()
}

/// Converts a record to JSON-LD.
pub fn json(record: &Record) -> Json {
    let mut out = Object::document(context(), "dcat:Dataset");
    out.set("@id", record.iri());
    let language = record.language.as_deref();
    let text = |text: &str| match language {
        Some(language) => json!({"@value": text, "@language": language}),
        None => text.into(),
    };
    out.set("dct:title", text(&record.title));
    out.set("dct:description", text(&record.description_or_made()));
    out.set("dct:identifier", record.iri());
    let publisher = record.publisher.as_deref();
    out.set(
        "dct:publisher",
        publisher.map(|name| json!({"@type": "foaf:Agent", "foaf:name": name})),
    );
    out.set(
        "dct:creator",
        record.creators.iter().map(agent).collect::<Vec<_>>(),
    );
    out.set(
        "dct:contributor",
        record.contributors.iter().map(agent).collect::<Vec<_>>(),
    );
    out.set("dct:issued", record.issued.as_deref().map(date));
    out.set("dct:created", record.created.map(date_time));
    out.set("dct:modified", record.modified.map(date_time));
    let keywords = record.keywords.iter().map(|word| text(word));
    out.set("dcat:keyword", keywords.collect::<Vec<_>>());
    let known = language.and_then(|language| {
        let code = language.split('-').next()?;
        LANGUAGES
            .iter()
            .find(|(two, _)| two.eq_ignore_ascii_case(code))
    });
    if let Some((_, code)) = known {
        let id = format!("http://publications.europa.eu/resource/authority/language/{code}");
        out.set(
            "dct:language",
            json!({"@id": id, "@type": "dct:LinguisticSystem"}),
        );
    }
    out.set("dcat:version", record.version.as_deref());
    let page = record.page();
    out.set(
        "dcat:landingPage",
        page.map(|page| json!({"@id": page, "@type": "foaf:Document"})),
    );
    let files = record.files.iter().map(|file| distribution(record, file));
    out.set("dcat:distribution", files.collect::<Vec<_>>());
    out.set("prov:wasDerivedFrom", related(record, &record.sources));
    out.set("dct:isPartOf", related(record, &record.part_of));
    let runs = record.runs.iter().map(|one| run(record, one));
    out.set("prov:wasGeneratedBy", runs.collect::<Vec<_>>());
    out.done()
}
