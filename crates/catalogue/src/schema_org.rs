//! A data set of schema.org as JSON-LD (<https://schema.org/Dataset>), as search engines read it.

use crate::agent::Agent;
use crate::json::Object;
use crate::record::{Record, Related, RunFacts, doi_address};
use crate::time;
use serde_json::{Value as Json, json};

/// Converts an agent: a person, an organisation, or a thing of either kind.
pub(crate) fn agent(record: &Record, agent: &Agent) -> Json {
    // `creator` takes a person or an organisation; a name alone is most often a person's.
    let publishes = record.publisher.as_deref() == Some(agent.name.as_str());
    let kind = match agent.is_person() {
        Some(false) => "Organization",
        None if publishes => "Organization",
        Some(true) | None => "Person",
    };
    let mut object = Object::typed(kind);
    object.set("@id", agent.iri());
    object.set("name", agent.name.as_str());
    if let Some((family, given)) = agent.parts() {
        object.set("givenName", given);
        object.set("familyName", family);
    }
    let affiliation = agent.affiliation.as_deref();
    object.set(
        "affiliation",
        affiliation.map(|name| json!({"@type": "Organization", "name": name})),
    );
    object.done()
}

/// Converts the licence: its address, or a work with its name.
pub(crate) fn license(record: &Record) -> Option<Json> {
    let license = record.license.as_ref()?;
    Some(match &license.url {
        Some(url) => url.as_str().into(),
        None => json!({"@type": "CreativeWork", "name": license.name}),
    })
}

fn related(record: &Record, items: &[Related]) -> Vec<Json> {
    let one = |item: &Related| {
        let id = record.related_iri(&item.name, item.doi.as_deref());
        json!({"@type": "CreativeWork", "@id": id, "name": item.title})
    };
    items.iter().map(one).collect()
}

fn run(record: &Record, run: &RunFacts) -> Json {
    let mut object = Object::typed("CreateAction");
    object.set("@id", record.run_iri(run));
    object.set("name", run.title.as_str());
    object.set("description", run.command.as_deref());
    object.set("startTime", run.start.map(time::full));
    object.set("endTime", run.end.map(time::full));
    let users = run.users.iter();
    let users = users.map(|name| json!({"@type": "Person", "name": name}));
    object.set("agent", users.collect::<Vec<_>>());
    let programs = run.programs.iter();
    let programs = programs.map(|name| json!({"@type": "SoftwareApplication", "name": name}));
    object.set("instrument", programs.collect::<Vec<_>>());
    object.done()
}

/// Converts a record to JSON-LD.
pub fn json(record: &Record) -> Json {
    let mut out = Object::document("https://schema.org/", "Dataset");
    out.set("@id", record.iri());
    out.set("url", record.page());
    out.set("name", record.title.as_str());
    out.set("description", record.description_or_made());
    let mut identifiers = vec![Json::from(record.name.as_str())];
    identifiers.extend(record.doi.iter().map(|doi| Json::from(doi_address(doi))));
    out.set("identifier", identifiers);
    let agents =
        |agents: &[Agent]| -> Vec<Json> { agents.iter().map(|one| agent(record, one)).collect() };
    out.set("creator", agents(&record.creators));
    out.set("contributor", agents(&record.contributors));
    let publisher = record.publisher.as_deref();
    out.set(
        "publisher",
        publisher.map(|name| json!({"@type": "Organization", "name": name})),
    );
    out.set("license", license(record));
    let keywords = record.keywords.iter().map(|word| word.as_str().into());
    out.set("keywords", keywords.collect::<Vec<Json>>());
    out.set("inLanguage", record.language.as_deref());
    out.set("version", record.version.as_deref());
    out.set("datePublished", record.issued.as_deref());
    out.set("dateCreated", record.created.map(time::full));
    out.set("dateModified", record.modified.map(time::full));
    let files = record.files.iter().map(|file| {
        let mut object = Object::typed("DataDownload");
        object.set("name", file.label());
        // A path of this machine leads others nowhere.
        match (&file.url, record.page_of(&file.name)) {
            (None, Some(page)) => object.set("url", page),
            _ => object.set("contentUrl", Record::file_address(file)),
        }
        object.set("contentSize", file.size.map(|bytes| format!("{bytes} B")));
        object.set("encodingFormat", file.media_type.as_deref());
        object.set("sha256", file.sha256.as_deref());
        object.set("dateModified", file.modified.map(time::full));
        object.done()
    });
    out.set("distribution", files.collect::<Vec<_>>());
    out.set("isBasedOn", related(record, &record.sources));
    out.set("isPartOf", related(record, &record.part_of));
    if let Some(base) = &record.base {
        let catalogue = json!({"@type": "DataCatalog", "name": "Esker", "url": base});
        out.set("includedInDataCatalog", catalogue);
    }
    let runs: Vec<Json> = record.runs.iter().map(|one| run(record, one)).collect();
    if !runs.is_empty() {
        out.set("@reverse", json!({ "result": runs }));
    }
    out.done()
}
