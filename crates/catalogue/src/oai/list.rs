//! Lists of records: which objects they have, and how far they have been read.

use super::fault::Fault;
use esker_model::object::ObjectId;
use std::fmt::Write as _;

/// Formats of harvested records.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Prefix {
    /// Unqualified Dublin Core, which every provider has.
    DublinCore,
    /// `DataCite` 4.6.
    Datacite,
}

impl Prefix {
    pub(crate) const ALL: [Self; 2] = [Self::DublinCore, Self::Datacite];

    pub(crate) const fn name(self) -> &'static str {
        match self {
            Self::DublinCore => "oai_dc",
            Self::Datacite => "datacite",
        }
    }

    pub(crate) fn parse(text: &str) -> Result<Self, Fault> {
        let found = Self::ALL.into_iter().find(|prefix| prefix.name() == text);
        found.ok_or_else(|| {
            let message = format!("unknown metadataPrefix `{text}`; expected oai_dc or datacite");
            Fault::new("cannotDisseminateFormat", message)
        })
    }
}

/// A list of records or headers.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct List {
    /// Whether only headers are wanted: `ListIdentifiers`.
    pub(crate) headers: bool,
    pub(crate) prefix: Prefix,
    /// First second of the range of datestamps, in seconds since 1970.
    pub(crate) from: Option<i64>,
    /// Last second of the range.
    pub(crate) until: Option<i64>,
    /// Application of the objects.
    pub(crate) set: Option<String>,
    /// Position behind the page before.
    pub(crate) after: Position,
    /// Number of records in the pages before.
    pub(crate) done: u64,
}

/// Position in a list: objects first, then deleted ones.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Position {
    /// Behind an object; `None` is the begin.
    Objects(Option<ObjectId>),
    /// Behind a deleted object; `None` is the begin of these.
    Deleted(Option<ObjectId>),
}

/// Prefix of the sets: one for each application.
const SET: &str = "app.";

/// Formats the set of an application. Bytes that a set may not have are written as `~` and two hexadecimal digits.
pub(crate) fn set_of(application: &str) -> String {
    let mut out = SET.to_owned();
    for byte in application.bytes() {
        if byte.is_ascii_alphanumeric() || b"-_.".contains(&byte) {
            out.push(char::from(byte));
        } else {
            // Writing to a String cannot fail.
            let _ = write!(out, "~{byte:02X}");
        }
    }
    out
}

/// Parses a set; returns the application.
pub(crate) fn application(set: &str) -> Result<String, Fault> {
    let bad = || {
        let message = format!("unknown set `{set}`; ListSets names all sets");
        Fault::new("noRecordsMatch", message)
    };
    let mut bytes = set.strip_prefix(SET).ok_or_else(bad)?.bytes();
    let mut out = Vec::new();
    while let Some(byte) = bytes.next() {
        if byte != b'~' {
            out.push(byte);
            continue;
        }
        let digits = [bytes.next(), bytes.next()].map(|d| d.unwrap_or(b' '));
        let text = std::str::from_utf8(&digits).unwrap_or_default();
        out.push(u8::from_str_radix(text, 16).map_err(|_| bad())?);
    }
    let name = String::from_utf8(out).map_err(|_| bad())?;
    // Each set has one spelling.
    (!name.is_empty() && set_of(&name) == set)
        .then_some(name)
        .ok_or_else(bad)
}
