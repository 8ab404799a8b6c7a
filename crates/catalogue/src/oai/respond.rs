//! Responses in XML.

use super::fault::Fault;
use super::list::{List, Prefix, set_of};
use super::pages::{Item, Page};
use super::request::identifier_of;
use super::{Settings, token};
use crate::datacite;
use crate::markup::Markup;
use crate::record::{Record, doi_address};
use crate::time;
use std::collections::BTreeSet;

const NAMESPACE: &str = "http://www.openarchives.org/OAI/2.0/";
const SCHEMA: &str = "http://www.openarchives.org/OAI/2.0/OAI-PMH.xsd";
const DC_NAMESPACE: &str = "http://www.openarchives.org/OAI/2.0/oai_dc/";
const DC_SCHEMA: &str = "http://www.openarchives.org/OAI/2.0/oai_dc.xsd";
const XSI: (&str, &str) = ("xmlns:xsi", "http://www.w3.org/2001/XMLSchema-instance");

/// A part of a response: elements without a declaration.
fn part(write: impl FnOnce(&mut Markup)) -> String {
    let mut out = Markup::part();
    write(&mut out);
    out.done()
}

/// Makes a response around its body. `arguments` are those of the request, unless they are wrong.
pub(super) fn document(
    settings: &Settings,
    now: i64,
    arguments: Option<&[(String, String)]>,
    body: &str,
) -> String {
    let mut out = Markup::xml();
    let location = format!("{NAMESPACE} {SCHEMA}");
    out.open(
        "OAI-PMH",
        &[("xmlns", NAMESPACE), XSI, ("xsi:schemaLocation", &location)],
    );
    out.leaf("responseDate", &[], &time::seconds(now));
    let given: Vec<(&str, &str)> = arguments
        .into_iter()
        .flatten()
        .map(|(name, value)| (name.as_str(), value.as_str()))
        .collect();
    out.leaf("request", &given, &settings.address);
    out.embed(body);
    out.done()
}

pub(super) fn fault(fault: &Fault) -> String {
    part(|out| out.leaf("error", &[("code", fault.code)], &fault.message))
}

pub(super) fn identify(settings: &Settings) -> String {
    part(|out| {
        out.open("Identify", &[]);
        out.leaf("repositoryName", &[], &settings.name);
        out.leaf("baseURL", &[], &settings.address);
        out.leaf("protocolVersion", &[], "2.0");
        out.leaf("adminEmail", &[], &settings.admin);
        // A lower limit of all datestamps; the first change of a database is not recorded elsewhere.
        out.leaf("earliestDatestamp", &[], "1970-01-01T00:00:00Z");
        // A deletion is known as long as the history is kept.
        out.leaf("deletedRecord", &[], "transient");
        out.leaf("granularity", &[], "YYYY-MM-DDThh:mm:ssZ");
        out.close();
    })
}

pub(super) fn formats() -> String {
    part(|out| {
        out.open("ListMetadataFormats", &[]);
        for prefix in Prefix::ALL {
            let (schema, namespace) = match prefix {
                Prefix::DublinCore => (DC_SCHEMA, DC_NAMESPACE),
                Prefix::Datacite => (datacite::SCHEMA, datacite::NAMESPACE),
            };
            out.open("metadataFormat", &[]);
            out.leaf("metadataPrefix", &[], prefix.name());
            out.leaf("schema", &[], schema);
            out.leaf("metadataNamespace", &[], namespace);
            out.close();
        }
        out.close();
    })
}

pub(super) fn sets(sets: &BTreeSet<String>) -> String {
    part(|out| {
        out.open("ListSets", &[]);
        for name in sets {
            out.open("set", &[]);
            out.leaf("setSpec", &[], &set_of(name));
            out.leaf("setName", &[], name);
            out.close();
        }
        out.close();
    })
}

fn header(out: &mut Markup, host: &str, item: &Item) {
    let deleted: &[(&str, &str)] = &[("status", "deleted")];
    let attributes = if item.record.is_some() { &[] } else { deleted };
    out.open("header", attributes);
    out.leaf("identifier", &[], &identifier_of(item.id, host));
    out.leaf("datestamp", &[], &time::seconds(item.changed));
    if !item.application.is_empty() {
        out.leaf("setSpec", &[], &set_of(&item.application));
    }
    out.close();
}

/// Writes a record in Dublin Core.
fn dublin_core(out: &mut Markup, record: &Record) {
    let location = format!("{DC_NAMESPACE} {DC_SCHEMA}");
    out.open(
        "oai_dc:dc",
        &[
            ("xmlns:oai_dc", DC_NAMESPACE),
            ("xmlns:dc", "http://purl.org/dc/elements/1.1/"),
            XSI,
            ("xsi:schemaLocation", &location),
        ],
    );
    out.leaf("dc:title", &[], &record.title);
    for agent in &record.creators {
        out.leaf("dc:creator", &[], &agent.name);
    }
    for word in &record.keywords {
        out.leaf("dc:subject", &[], word);
    }
    out.some("dc:description", record.description.as_deref());
    out.some("dc:publisher", record.publisher.as_deref());
    for agent in &record.contributors {
        out.leaf("dc:contributor", &[], &agent.name);
    }
    out.some("dc:date", record.date().as_deref());
    out.leaf("dc:type", &[], "Dataset");
    let kinds: BTreeSet<&str> = record
        .files
        .iter()
        .filter_map(|file| file.media_type.as_deref())
        .collect();
    for kind in kinds {
        out.leaf("dc:format", &[], kind);
    }
    if let Some(doi) = &record.doi {
        out.leaf("dc:identifier", &[], &doi_address(doi));
    }
    out.some("dc:identifier", record.page().as_deref());
    for source in &record.sources {
        let id = record.related_iri(&source.name, source.doi.as_deref());
        out.leaf("dc:source", &[], &id);
    }
    out.some("dc:language", record.language.as_deref());
    if let Some(license) = &record.license {
        out.leaf(
            "dc:rights",
            &[],
            license.url.as_deref().unwrap_or(&license.name),
        );
    }
    out.close();
}

fn item(out: &mut Markup, host: &str, item: &Item, prefix: Prefix) {
    out.open("record", &[]);
    header(out, host, item);
    if let Some(record) = &item.record {
        out.open("metadata", &[]);
        match prefix {
            Prefix::DublinCore => dublin_core(out, record),
            Prefix::Datacite => out.embed(&datacite::xml(record)),
        }
        out.close();
    }
    out.close();
}

pub(super) fn record(host: &str, found: &Item, prefix: Prefix) -> String {
    part(|out| {
        out.open("GetRecord", &[]);
        item(out, host, found, prefix);
        out.close();
    })
}

pub(super) fn list(host: &str, list: &List, page: &Page) -> String {
    part(|out| {
        let verb = if list.headers {
            "ListIdentifiers"
        } else {
            "ListRecords"
        };
        out.open(verb, &[]);
        for found in &page.items {
            if list.headers {
                header(out, host, found);
            } else {
                item(out, host, found, list.prefix);
            }
        }
        let cursor = list.done.to_string();
        match &page.next {
            Some(next) => out.leaf(
                "resumptionToken",
                &[("cursor", &cursor)],
                &token::format(next),
            ),
            // The last page of a list with several ends with an empty token (section 3.5).
            None if list.done > 0 => out.leaf("resumptionToken", &[("cursor", &cursor)], ""),
            None => {}
        }
        out.close();
    })
}
