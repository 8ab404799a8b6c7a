//! FAIR Signposting: typed links from a landing page to what machines look for (<https://signposting.org/FAIR/>), in the header `Link`
//! (RFC 8288) and as sets of links (RFC 9264).

use crate::format::Format;
use crate::record::{Record, doi_address};
use serde_json::{Map, Value as Json, json};
use std::fmt::Write as _;

/// Largest number of items in the header; the set of links has all.
const HEADER_ITEMS: usize = 20;

/// A link with its relation type.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Link {
    /// Relation type, such as `cite-as`.
    pub relation: &'static str,
    /// Target of the link.
    pub target: String,
    /// Media type of the target, if it is known.
    pub media_type: Option<String>,
    /// Profile of the target's format.
    pub profile: Option<&'static str>,
}

impl Link {
    fn new(relation: &'static str, target: impl Into<String>) -> Self {
        Self {
            relation,
            target: target.into(),
            media_type: None,
            profile: None,
        }
    }

    fn of_type(mut self, media_type: &str) -> Self {
        self.media_type = Some(media_type.to_owned());
        self
    }
}

/// Links of the landing page, except those to the items.
fn links_of_page(record: &Record, page: &str) -> Vec<Link> {
    let identifier = record
        .doi
        .as_deref()
        .map_or_else(|| page.to_owned(), doi_address);
    let mut links = vec![
        Link::new("cite-as", identifier),
        Link::new("type", "https://schema.org/AboutPage"),
        Link::new("type", "https://schema.org/Dataset"),
    ];
    for format in Format::DESCRIPTIONS {
        let mut link = Link::new("describedby", format!("{page}?format={}", format.name()));
        link.media_type = Some(format.media_type().to_owned());
        link.profile = format.profile();
        links.push(link);
    }
    let authors = record.creators.iter().filter_map(|agent| agent.iri());
    links.extend(authors.map(|iri| Link::new("author", iri)));
    let license = record.license.as_ref().and_then(|l| l.url.as_deref());
    links.extend(license.map(|url| Link::new("license", url)));
    // A resource has one collection at most.
    if let Some(container) = record.part_of.first() {
        let page = record.page_of(&container.name);
        links.extend(page.map(|page| Link::new("collection", page).of_type("text/html")));
    }
    links
}

/// Links to the files of the item: their contents, or the landing pages of files whose content has no address.
fn links_of_items(record: &Record) -> impl Iterator<Item = Link> + '_ {
    record.files.iter().filter_map(|file| {
        if let Some(url) = &file.url {
            let mut link = Link::new("item", url.as_str());
            link.media_type.clone_from(&file.media_type);
            return Some(link);
        }
        let page = record.page_of(&file.name)?;
        (file.name != record.name).then(|| Link::new("item", page).of_type("text/html"))
    })
}

fn sets(page: &str) -> [Link; 2] {
    [Format::Linkset, Format::LinksetText].map(|format| {
        Link::new("linkset", format!("{page}?format={}", format.name()))
            .of_type(format.media_type())
    })
}

/// Percent-encodes characters that a URI may not have.
fn plain(target: &str) -> String {
    let mut out = String::with_capacity(target.len());
    for byte in target.bytes() {
        if byte.is_ascii_graphic() && !b"<>\"\\^`{|}".contains(&byte) {
            out.push(char::from(byte));
        } else {
            // Writing to a String cannot fail.
            let _ = write!(out, "%{byte:02X}");
        }
    }
    out
}

fn text(link: &Link, anchor: Option<&str>) -> String {
    let mut out = format!("<{}>; rel=\"{}\"", plain(&link.target), link.relation);
    for (name, value) in [
        ("type", link.media_type.as_deref()),
        ("profile", link.profile),
        ("anchor", anchor),
    ] {
        if let Some(value) = value {
            let value = value.replace(['"', '\\', '\r', '\n'], "");
            // Writing to a String cannot fail.
            let _ = write!(out, "; {name}=\"{value}\"");
        }
    }
    out
}

/// Makes the value of the header `Link` of a response; `None` if the server has no address.
pub fn header(record: &Record, format: Format) -> Option<String> {
    let page = record.page()?;
    let links = if format == Format::Html {
        links_of_html(record)
    } else {
        let page_link = Link::new("describes", page.as_str()).of_type("text/html");
        [page_link].into_iter().chain(sets(&page)).collect()
    };
    let all: Vec<String> = links.iter().map(|link| text(link, None)).collect();
    Some(all.join(", "))
}

/// Links of the landing page for the head of its HTML.
pub(crate) fn links_of_html(record: &Record) -> Vec<Link> {
    let Some(page) = record.page() else {
        return Vec::new();
    };
    let mut links = links_of_page(record, &page);
    links.extend(links_of_items(record).take(HEADER_ITEMS));
    links.extend(sets(&page));
    links
}

/// All links of an item, each with the address from which it leads.
fn all_links(record: &Record) -> Vec<(String, Link)> {
    let Some(page) = record.page() else {
        return Vec::new();
    };
    let mut links: Vec<(String, Link)> = links_of_page(record, &page)
        .into_iter()
        .chain(links_of_items(record))
        .map(|link| (page.clone(), link))
        .collect();
    for format in Format::DESCRIPTIONS {
        let link = Link::new("describes", page.as_str()).of_type("text/html");
        links.push((format!("{page}?format={}", format.name()), link));
    }
    for file in &record.files {
        if let Some(url) = &file.url {
            let link = Link::new("collection", page.as_str()).of_type("text/html");
            links.push((url.clone(), link));
        }
    }
    links
}

/// Makes the set of links as JSON (RFC 9264, section 4.2).
pub fn linkset(record: &Record) -> Json {
    let mut contexts: Vec<Map<String, Json>> = Vec::new();
    for (anchor, link) in all_links(record) {
        let at = contexts
            .iter()
            .rposition(|c| c.get("anchor").and_then(Json::as_str) == Some(&anchor));
        let at = at.unwrap_or_else(|| {
            let mut context = Map::new();
            context.insert("anchor".into(), anchor.as_str().into());
            contexts.push(context);
            contexts.len() - 1
        });
        let mut target = json!({ "href": plain(&link.target) });
        if let Some(kind) = link.media_type {
            target["type"] = kind.into();
        }
        if let Some(profile) = link.profile {
            target["profile"] = profile.into();
        }
        let Some(context) = contexts.get_mut(at) else {
            continue;
        };
        let targets = context.entry(link.relation).or_insert_with(|| json!([]));
        if let Json::Array(targets) = targets {
            targets.push(target);
        }
    }
    json!({ "linkset": contexts })
}

/// Makes the set of links as text (RFC 9264, section 4.1).
pub fn linkset_text(record: &Record) -> String {
    let links = all_links(record);
    let lines: Vec<String> = links
        .iter()
        .map(|(anchor, link)| text(link, Some(anchor)))
        .collect();
    lines.join(",\n") + "\n"
}
