//! Landing page of an item as HTML without scripts.

use crate::agent::Agent;
use crate::format::Format;
use crate::markup::Markup;
use crate::record::{Record, Related};
use crate::{datacite, schema_org, signposting, time};

/// Largest number of files that the page lists.
const FILES_SHOWN: usize = 200;
/// Largest number of other items that the page lists, of each kind.
const RELATED_SHOWN: usize = 50;
const STYLE: &str = "body{font:16px/1.5 system-ui,sans-serif;max-width:60rem;margin:2rem auto;padding:0 1rem;color:#1b1f24}\
h1{line-height:1.2}table{border-collapse:collapse;width:100%}td,th{text-align:left;vertical-align:top;padding:.25rem .75rem .25rem 0;\
border-bottom:1px solid #d5dae0;overflow-wrap:anywhere}dt{font-weight:600}dd{margin:0 0 .5rem}ul{padding-left:1.2rem}\
a{color:#0b57a4}footer{margin-top:2rem;color:#4d5761}@media(prefers-color-scheme:dark){body{background:#15181c;color:#e4e8ec}\
a{color:#7db8f5}td,th{border-color:#3a424b}footer{color:#a8b2bd}}";

/// Content security policy of the page: it loads nothing and runs nothing.
pub const POLICY: &str = "default-src 'none'; style-src 'unsafe-inline'; base-uri 'none'; form-action 'none'; frame-ancestors 'none'";

fn size(bytes: u64) -> String {
    const UNITS: [&str; 6] = ["KiB", "MiB", "GiB", "TiB", "PiB", "EiB"];
    if bytes < 1_024 {
        return format!("{bytes} B");
    }
    let (mut value, mut unit) = (bytes as f64 / 1_024.0, 0);
    while value >= 1_023.95 && unit + 1 < UNITS.len() {
        value /= 1_024.0;
        unit += 1;
    }
    format!("{value:.1} {}", UNITS[unit])
}

/// Writes a link, or the text alone if there is no address.
fn link(out: &mut Markup, address: Option<&str>, text: &str) {
    match address {
        Some(address) => out.leaf("a", &[("href", address)], text),
        None => out.text(text),
    }
}

fn fact(out: &mut Markup, name: &str, write: impl FnOnce(&mut Markup)) {
    out.leaf("dt", &[], name);
    out.open("dd", &[]);
    write(out);
    out.close();
}

fn agents(out: &mut Markup, agents: &[Agent]) {
    for (at, agent) in agents.iter().enumerate() {
        if at > 0 {
            out.text("; ");
        }
        link(out, agent.iri(), &agent.name);
        if let Some(affiliation) = &agent.affiliation {
            out.text(&format!(" ({affiliation})"));
        }
    }
}

fn related(out: &mut Markup, record: &Record, heading: &str, items: &[Related]) {
    if items.is_empty() {
        return;
    }
    out.leaf("h2", &[], heading);
    out.open("ul", &[]);
    for item in items.iter().take(RELATED_SHOWN) {
        out.open("li", &[]);
        link(out, record.page_of(&item.name).as_deref(), &item.name);
        out.close();
    }
    if items.len() > RELATED_SHOWN {
        out.leaf("li", &[], &format!("{} more", items.len() - RELATED_SHOWN));
    }
    out.close();
}

fn facts(out: &mut Markup, record: &Record) {
    out.open("dl", &[]);
    if !record.creators.is_empty() {
        fact(out, "Creators", |out| agents(out, &record.creators));
    }
    if !record.contributors.is_empty() {
        fact(out, "Contributors", |out| agents(out, &record.contributors));
    }
    let texts = [
        ("Publisher", record.publisher.clone()),
        ("Published", record.issued.clone()),
        ("Created", record.created.map(time::seconds)),
        ("Changed", record.modified.map(time::seconds)),
        ("Version", record.version.clone()),
        ("Language", record.language.clone()),
        ("Size", record.size.map(size)),
        (
            "Keywords",
            Some(record.keywords.join(", ")).filter(|k| !k.is_empty()),
        ),
    ];
    for (name, text) in texts {
        if let Some(text) = text {
            fact(out, name, |out| out.text(&text));
        }
    }
    if let Some(license) = &record.license {
        fact(out, "Licence", |out| {
            link(out, license.url.as_deref(), &license.name);
        });
    }
    fact(out, "Identifier", |out| {
        let id = datacite::shown_identifier(record);
        link(
            out,
            Some(&id)
                .filter(|id| id.contains("://"))
                .map(String::as_str),
            &id,
        );
    });
    fact(out, "Vertex", |out| out.leaf("code", &[], &record.name));
    fact(out, "Cite as", |out| out.text(&datacite::citation(record)));
    out.close();
}

fn files(out: &mut Markup, record: &Record) {
    if record.files.is_empty() {
        return;
    }
    out.leaf("h2", &[], "Files");
    out.open("table", &[]);
    out.open("tr", &[]);
    for name in ["File", "Size", "Type", "SHA-256"] {
        out.leaf("th", &[("scope", "col")], name);
    }
    out.close();
    for file in record.files.iter().take(FILES_SHOWN) {
        let page = record
            .page_of(&file.name)
            .filter(|_| file.name != record.name);
        out.open("tr", &[]);
        out.open("td", &[]);
        link(out, file.url.as_deref().or(page.as_deref()), &file.path);
        out.close();
        out.leaf("td", &[], &file.size.map(size).unwrap_or_default());
        out.leaf("td", &[], file.media_type.as_deref().unwrap_or_default());
        out.open("td", &[]);
        out.some("code", file.sha256.as_deref());
        out.close();
        out.close();
    }
    out.close();
    let shown = record.files.len().min(FILES_SHOWN);
    if shown < record.files.len() || !record.all_files {
        let more = if record.all_files { "" } else { "more than " };
        let text = format!("{shown} of {more}{} files are listed.", record.files.len());
        out.leaf("p", &[], &text);
    }
}

fn runs(out: &mut Markup, record: &Record) {
    if record.runs.is_empty() {
        return;
    }
    out.leaf("h2", &[], "Written by");
    out.open("ul", &[]);
    for run in record.runs.iter().take(RELATED_SHOWN) {
        out.open("li", &[]);
        link(out, record.page_of(&run.name).as_deref(), &run.title);
        if let Some(command) = &run.command {
            out.text(": ");
            out.leaf("code", &[], command);
        }
        if !run.users.is_empty() {
            out.text(&format!(", by {}", run.users.join(", ")));
        }
        if let Some(start) = run.start {
            out.text(&format!(", {}", time::seconds(start)));
        }
        out.close();
    }
    if record.runs.len() > RELATED_SHOWN {
        let more = format!("{} more", record.runs.len() - RELATED_SHOWN);
        out.leaf("li", &[], &more);
    }
    out.close();
}

/// Makes the landing page.
pub fn page(record: &Record) -> String {
    let mut out = Markup::html();
    let language = record.language.as_deref().unwrap_or("en");
    out.open("html", &[("lang", language)]);
    out.open("head", &[]);
    out.open("meta", &[("charset", "utf-8")]);
    let viewport = "width=device-width, initial-scale=1";
    out.open("meta", &[("name", "viewport"), ("content", viewport)]);
    out.leaf("title", &[], &record.title);
    out.leaf("style", &[], STYLE);
    for link in signposting::links_of_html(record) {
        let mut attributes = vec![("rel", link.relation), ("href", link.target.as_str())];
        if let Some(kind) = &link.media_type {
            attributes.push(("type", kind));
        }
        out.open("link", &attributes);
    }
    let mut described = record.clone();
    // Search engines read the page; complete lists are in the formats.
    described.files.truncate(FILES_SHOWN);
    let json = schema_org::json(&described).to_string();
    out.data("application/ld+json", &json);
    out.close();
    out.open("body", &[]);
    out.open("main", &[]);
    out.leaf("p", &[], record.kind.title());
    out.leaf("h1", &[], &record.title);
    for paragraph in record
        .description
        .iter()
        .flat_map(|text| text.split("\n\n"))
    {
        out.leaf("p", &[], paragraph);
    }
    facts(&mut out, record);
    files(&mut out, record);
    runs(&mut out, record);
    related(&mut out, record, "Made from", &record.sources);
    related(&mut out, record, "Part of", &record.part_of);
    if !record.tags.is_empty() {
        out.leaf("h2", &[], "Tags");
        out.open("dl", &[]);
        for (name, value) in &record.tags {
            fact(&mut out, name, |out| out.text(value));
        }
        out.close();
    }
    out.close();
    out.open("footer", &[]);
    if let Some(page) = record.page() {
        out.text("This record as ");
        for (at, format) in Format::DESCRIPTIONS.into_iter().enumerate() {
            if at > 0 {
                out.text(", ");
            }
            let address = format!("{page}?format={}", format.name());
            link(&mut out, Some(&address), format.title());
        }
        out.text(".");
    }
    out.done()
}
