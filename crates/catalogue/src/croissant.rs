//! Croissant 1.0 (<https://docs.mlcommons.org/croissant/docs/croissant-spec-1.0.html>), from which programs of machine learning load data.

use crate::json::Object;
use crate::record::{ColumnKind, FilePart, Record};
use crate::{datacite, schema_org, time};
use serde_json::{Value as Json, json};
use std::collections::BTreeSet;

const CONFORMS_TO: &str = "http://mlcommons.org/croissant/1.0";

/// Terms of the context whose names are those of the namespace `cr`.
const TERMS: [&str; 26] = [
    "citeAs",
    "column",
    "equivalentProperty",
    "extract",
    "field",
    "fileProperty",
    "fileObject",
    "fileSet",
    "format",
    "includes",
    "isLiveDataset",
    "jsonPath",
    "key",
    "md5",
    "parentField",
    "path",
    "recordSet",
    "references",
    "regex",
    "repeated",
    "replace",
    "samplingRate",
    "separator",
    "source",
    "subField",
    "transform",
];

/// The context that the specification prescribes.
fn context() -> Json {
    let mut context = json!({
        "@language": "en",
        "@vocab": "https://schema.org/",
        "conformsTo": "dct:conformsTo",
        "cr": "http://mlcommons.org/croissant/",
        "rai": "http://mlcommons.org/croissant/RAI/",
        "data": {"@id": "cr:data", "@type": "@json"},
        "dataType": {"@id": "cr:dataType", "@type": "@vocab"},
        "dct": "http://purl.org/dc/terms/",
        "examples": {"@id": "cr:examples", "@type": "@json"},
        "sc": "https://schema.org/",
    });
    for term in TERMS {
        context[term] = format!("cr:{term}").into();
    }
    context
}

/// Identifier of a file in the document, without white space.
fn id_of(file: &FilePart) -> String {
    crate::identifier::encoded_path(&file.name)
}

/// Address of a file's content. Programs open paths of this machine without a scheme.
fn address(file: &FilePart) -> String {
    match &file.url {
        Some(url) => url.clone(),
        None if file.path.starts_with('/') => file.path.clone(),
        None => Record::file_address(file),
    }
}

/// Version in the form MAJOR.MINOR.PATCH that the specification asks for; the first version if none is known.
fn version(record: &Record) -> String {
    let known = record.version.as_deref().unwrap_or("1.0.0");
    let plain = known.strip_prefix('v').unwrap_or(known);
    let parts: Vec<&str> = plain.split('.').collect();
    let numbers = parts
        .iter()
        .all(|part| !part.is_empty() && part.bytes().all(|b| b.is_ascii_digit()));
    match (numbers, parts.len()) {
        (true, 1) => format!("{plain}.0.0"),
        (true, 2) => format!("{plain}.0"),
        _ => plain.to_owned(),
    }
}

fn file_object(file: &FilePart) -> Json {
    let mut object = Object::typed("cr:FileObject");
    object.set("@id", id_of(file));
    object.set("name", file.label());
    object.set("contentUrl", address(file));
    object.set("contentSize", file.size.map(|bytes| format!("{bytes} B")));
    let kind = file.media_type.as_deref();
    object.set("encodingFormat", kind.unwrap_or("application/octet-stream"));
    object.set("sha256", file.sha256.as_deref());
    object.done()
}

/// Describes the columns of a table.
fn record_set(file: &FilePart) -> Json {
    let id = id_of(file);
    let table = format!("{id}#records");
    let fields = file.columns.iter().map(|(name, kind)| {
        let kind = match kind {
            ColumnKind::Text => "sc:Text",
            ColumnKind::Integer => "sc:Integer",
            ColumnKind::Float => "sc:Float",
            ColumnKind::Bool => "sc:Boolean",
            ColumnKind::Date => "sc:Date",
        };
        json!({
            "@type": "cr:Field",
            "@id": format!("{table}/{}", crate::identifier::encoded_path(name)),
            "name": name,
            "dataType": kind,
            "source": {"fileObject": {"@id": id}, "extract": {"column": name}},
        })
    });
    json!({
        "@type": "cr:RecordSet",
        "@id": table,
        "name": file.label(),
        "field": fields.collect::<Json>(),
    })
}

/// Converts a record to JSON-LD.
pub fn json(record: &Record) -> Json {
    let mut out = Object::document(context(), "sc:Dataset");
    out.set("conformsTo", CONFORMS_TO);
    out.set("@id", record.iri());
    out.set("name", record.title.as_str());
    out.set("description", record.description_or_made());
    out.set("url", record.page().unwrap_or_else(|| record.iri()));
    out.set("identifier", record.iri());
    out.set("license", schema_org::license(record));
    out.set(
        "creator",
        record
            .creators
            .iter()
            .map(|one| schema_org::agent(record, one))
            .collect::<Vec<_>>(),
    );
    let publisher = record.publisher.as_deref();
    out.set(
        "publisher",
        publisher.map(|name| json!({"@type": "Organization", "name": name})),
    );
    let keywords = record.keywords.iter().map(|word| word.as_str().into());
    out.set("keywords", keywords.collect::<Vec<Json>>());
    out.set("inLanguage", record.language.as_deref());
    out.set("version", version(record));
    out.set("citeAs", datacite::citation(record));
    out.set("datePublished", record.issued.as_deref());
    out.set("dateCreated", record.created.map(time::full));
    out.set("dateModified", record.modified.map(time::full));
    // Without a checksum of each file, a program cannot check what it loads: the standard's mark for data that may change.
    if record.files.iter().any(|file| file.sha256.is_none()) {
        out.set("isLiveDataset", Json::Bool(true));
    }
    let mut seen = BTreeSet::new();
    let files: Vec<&FilePart> = record
        .files
        .iter()
        .filter(|file| seen.insert(file.name.as_str()))
        .collect();
    out.set(
        "distribution",
        files
            .iter()
            .map(|file| file_object(file))
            .collect::<Vec<_>>(),
    );
    let tables = files.iter().filter(|file| !file.columns.is_empty());
    out.set(
        "recordSet",
        tables.map(|file| record_set(file)).collect::<Vec<_>>(),
    );
    out.done()
}
