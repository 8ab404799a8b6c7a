//! Names: prefixes and what stands behind them, read and made up.

use super::model::{Document, PROV, Statement, Value, XSD};
use esker_model::iri::unescape;
use std::collections::{BTreeMap, BTreeSet};
use std::ops::Bound;
use std::rc::Rc;

/// What names of attributes of the graph's own begin with.
pub(super) const ATTRIBUTES: &str = "urn:esker:attributes/";

/// Prefixes of vocabularies that provenance is often told in. What is read declares its own; what is written, and the names of attributes in the graph,
/// take them from here, so that they are the same whatever document said it.
pub(super) const KNOWN: [(&str, &str); 20] = [
    ("prov", PROV),
    ("xsd", XSD),
    ("rdfs", "http://www.w3.org/2000/01/rdf-schema#"),
    ("dcterms", "http://purl.org/dc/terms/"),
    ("foaf", "http://xmlns.com/foaf/0.1/"),
    ("schema", "http://schema.org/"),
    ("orcid", "https://orcid.org/"),
    ("wfprov", "http://purl.org/wf4ever/wfprov#"),
    ("wfdesc", "http://purl.org/wf4ever/wfdesc#"),
    ("wf4ever", "http://purl.org/wf4ever/wf4ever#"),
    ("cwlprov", "https://w3id.org/cwl/prov#"),
    ("provone", "http://purl.org/provone#"),
    ("uuid", "urn:uuid:"),
    ("sha1", "urn:hash::sha1:"),
    ("sha256", "nih:sha-256;"),
    ("attributes", ATTRIBUTES),
    ("types", "urn:esker:types/"),
    ("edges", "urn:esker:edges/"),
    ("esker", "urn:esker:"),
    ("file", "file://"),
];

/// The prefixes that hold at a place of a document.
///
/// A scope holds what its own element declares and leads to the scope around it, so that many elements in one with many
/// prefixes cost no copy of these.
#[derive(Debug, Clone)]
pub(super) struct Scope {
    prefixes: BTreeMap<String, String>,
    outer: Option<Rc<Scope>>,
}

impl Default for Scope {
    fn default() -> Self {
        let prefixes = [
            ("prov", PROV),
            ("xsd", XSD),
            ("xsi", "http://www.w3.org/2001/XMLSchema-instance"),
        ];
        Self {
            prefixes: prefixes
                .map(|(p, iri)| (p.to_owned(), iri.to_owned()))
                .into(),
            outer: None,
        }
    }
}

impl Scope {
    /// A scope in another, without declarations of its own yet.
    pub(super) fn within(outer: Rc<Self>) -> Self {
        Self {
            prefixes: BTreeMap::new(),
            outer: Some(outer),
        }
    }

    /// This scope and those around it, the innermost first.
    fn all(&self) -> impl Iterator<Item = &Self> {
        std::iter::successors(Some(self), |scope| scope.outer.as_deref())
    }

    fn get(&self, prefix: &str) -> Option<&String> {
        self.all().find_map(|scope| scope.prefixes.get(prefix))
    }

    /// Declares one; the empty prefix is the default.
    pub(super) fn declare(&mut self, prefix: &str, iri: &str) {
        // Some write XML Schema's namespace as XML has it, without the mark that its datatypes' names have in all other encodings.
        let iri = if iri == XSD.trim_end_matches('#') {
            XSD
        } else {
            iri
        };
        self.prefixes.insert(prefix.to_owned(), iri.to_owned());
    }

    /// What has been declared, without what always is.
    pub(super) fn declared(&self) -> BTreeMap<String, String> {
        let mut declared = BTreeMap::new();
        for scope in self.all() {
            for (prefix, iri) in &scope.prefixes {
                declared
                    .entry(prefix.clone())
                    .or_insert_with(|| iri.clone());
            }
        }
        declared.retain(|prefix, _| !matches!(prefix.as_str(), "prov" | "xsd" | "xsi"));
        declared
    }

    /// The IRI of a name `prefix:local`.
    pub(super) fn expand(&self, name: &str) -> Result<String, String> {
        if let Some((prefix, local)) = name.split_once(':') {
            if let Some(iri) = self.get(prefix) {
                return Ok(format!("{iri}{local}"));
            }
            // An IRI as it is, where a name should be.
            if local.starts_with("//") || matches!(prefix, "urn" | "tag" | "mailto" | "doi") {
                return Ok(name.to_owned());
            }
            let name = clipped(name);
            let known = self.all().flat_map(|scope| scope.prefixes.keys());
            let known: BTreeSet<String> =
                known.filter(|p| !p.is_empty()).take(100).cloned().collect();
            let known: Vec<String> = known.into_iter().collect();
            let known = known.join(", ");
            return Err(format!(
                "the prefix of `{name}` is not declared; declared: {known}"
            ));
        }
        match self.get("") {
            Some(iri) if !name.is_empty() => Ok(format!("{iri}{name}")),
            _ => Err(format!(
                "expected a name such as `prefix:{}`: there is no default namespace",
                clipped(name)
            )),
        }
    }
}

/// As much of a name as a message takes.
fn clipped(name: &str) -> String {
    let mut out: String = name.chars().take(80).collect();
    if out.len() < name.len() {
        out.push('…');
    }
    out
}

/// An attribute's name in the graph: as it is if it is one of the graph's own, with the prefix of a vocabulary that is known, else the IRI.
pub(super) fn short(iri: &str) -> String {
    if let Some(own) = iri.strip_prefix(ATTRIBUTES).and_then(unescape) {
        return own;
    }
    for (prefix, space) in KNOWN {
        if let Some(local) = iri.strip_prefix(space).filter(|l| !l.is_empty()) {
            return format!("{prefix}:{local}");
        }
    }
    iri.to_owned()
}

/// Whether PROV-N takes a character in the local part of a name as it is.
pub(super) fn is_plain(c: char) -> bool {
    c.is_alphanumeric() || "_-.%/@~&+*?#$!".contains(c)
}

/// What a backslash may stand before in the local part of a name.
pub(super) const ESCAPED: &str = "='(),-:;\"[].";

/// Names as they are written: each has a prefix.
#[derive(Debug)]
pub(super) struct Names {
    /// Prefix by namespace.
    spaces: BTreeMap<String, String>,
}

impl Names {
    /// Prefixes for all names of a document: those that it declares, those that are known, and others.
    pub(super) fn of(document: &Document) -> Self {
        let mut iris = BTreeSet::new();
        for (bundle, statement) in document.all() {
            iris.extend(bundle);
            names_of(statement, &mut iris);
        }
        iris.extend(document.bundles.keys().map(String::as_str));
        let mut candidates: BTreeMap<String, String> = BTreeMap::new();
        let mut taken = BTreeSet::new();
        let declared = document
            .prefixes
            .iter()
            .map(|(p, iri)| (p.as_str(), iri.as_str()));
        for (prefix, iri) in KNOWN.into_iter().take(2).chain(declared).chain(KNOWN) {
            let usable = is_prefix(prefix) && !iri.is_empty() && !candidates.contains_key(iri);
            if usable && taken.insert(prefix.to_owned()) {
                candidates.insert(iri.to_owned(), prefix.to_owned());
            }
        }
        let mut spaces = BTreeMap::new();
        let mut number = 0;
        for iri in iris {
            if let Some((space, prefix)) = longest(&candidates, iri) {
                spaces.insert(space.to_owned(), prefix.to_owned());
                continue;
            }
            let at = iri
                .rfind(['#', '/', ':', ';', '='])
                .map_or(iri.len(), |at| at + 1);
            let prefix = loop {
                number += 1;
                let prefix = format!("ns{number}");
                if taken.insert(prefix.clone()) {
                    break prefix;
                }
            };
            let space = iri.get(..at).unwrap_or(iri).to_owned();
            candidates.insert(space.clone(), prefix.clone());
            spaces.insert(space, prefix);
        }
        Self { spaces }
    }

    /// The prefixes in use: prefix and namespace.
    pub(super) fn declared(&self) -> impl Iterator<Item = (&str, &str)> {
        let all = self
            .spaces
            .iter()
            .map(|(iri, prefix)| (prefix.as_str(), iri.as_str()));
        all.filter(|(prefix, _)| !matches!(*prefix, "prov" | "xsd"))
    }

    /// Prefix and local part.
    pub(super) fn parts<'a>(&'a self, iri: &'a str) -> (&'a str, &'a str) {
        match longest(&self.spaces, iri) {
            Some((space, prefix)) => (prefix, iri.get(space.len()..).unwrap_or_default()),
            None => ("", iri),
        }
    }

    /// As PROV-JSON has it.
    pub(super) fn plain(&self, iri: &str) -> String {
        let (prefix, local) = self.parts(iri);
        format!("{prefix}:{local}")
    }
}

/// The longest namespace that a name begins with.
fn longest<'a>(spaces: &'a BTreeMap<String, String>, iri: &str) -> Option<(&'a str, &'a str)> {
    let mut end = iri.len();
    loop {
        // Namespaces that are no longer than that, the greatest in order first: one that the name begins with, or one that tells how far back to go.
        let head = iri.get(..end)?;
        let (space, prefix) = spaces
            .range::<str, _>((Bound::Unbounded, Bound::Included(head)))
            .next_back()?;
        if iri.starts_with(space.as_str()) {
            return Some((space, prefix));
        }
        let common = space
            .bytes()
            .zip(head.bytes())
            .take_while(|(a, b)| a == b)
            .count();
        if common == 0 {
            return None;
        }
        end = common;
        while !iri.is_char_boundary(end) {
            end -= 1;
        }
    }
}

/// Whether it can be a prefix in every encoding.
fn is_prefix(prefix: &str) -> bool {
    let mut chars = prefix.chars();
    chars.next().is_some_and(char::is_alphabetic)
        && chars.all(|c| c.is_alphanumeric() || matches!(c, '_' | '-'))
        && prefix != "default"
}

fn names_of<'a>(statement: &'a Statement, to: &mut BTreeSet<&'a str>) {
    use super::model::Slot;
    to.extend(statement.id.as_deref());
    let places = statement.kind.form().places.iter();
    for ((_, slot), told) in places.zip(&statement.places) {
        if *slot != Slot::Time {
            to.extend(told.as_deref());
        }
    }
    for (name, value) in &statement.attributes {
        to.insert(name);
        match value {
            Value::Name(name) => drop(to.insert(name)),
            Value::Literal { datatype, .. } if !datatype.is_empty() => drop(to.insert(datatype)),
            Value::Literal { .. } => {}
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_longest_namespace_counts() {
        let spaces = ["http://a/", "http://a/b#", "http://a/b/c/", "urn:x:"];
        let spaces: BTreeMap<String, String> = spaces
            .iter()
            .map(|s| ((*s).to_owned(), s.len().to_string()))
            .collect();
        let found = |iri| longest(&spaces, iri).map(|(space, _)| space);
        assert_eq!(found("http://a/b#x"), Some("http://a/b#"));
        assert_eq!(found("http://a/b/c/d"), Some("http://a/b/c/"));
        assert_eq!(found("http://a/b/d"), Some("http://a/"));
        assert_eq!(found("http://a/b/zz"), Some("http://a/"));
        assert_eq!(found("http://a/"), Some("http://a/"));
        assert_eq!(found("urn:x:é"), Some("urn:x:"));
        assert_eq!(found("http://b"), None);
        assert_eq!(found(""), None);
    }

    #[test]
    fn names_expand_and_say_what_is_missing() {
        let mut scope = Scope::default();
        scope.declare("ex", "http://example.org/");
        assert_eq!(scope.expand("ex:a:b").unwrap(), "http://example.org/a:b");
        assert_eq!(scope.expand("prov:Plan").unwrap(), format!("{PROV}Plan"));
        assert_eq!(scope.expand("https://x.org/y").unwrap(), "https://x.org/y");
        assert!(
            scope
                .expand("foo:a")
                .unwrap_err()
                .contains("declared: ex, prov")
        );
        assert!(scope.expand("a").unwrap_err().contains("default"));
        scope.declare("", "http://example.org/d#");
        assert_eq!(scope.expand("a").unwrap(), "http://example.org/d#a");
        assert_eq!(short("http://schema.org/name"), "schema:name");
        assert_eq!(short("http://example.org/name"), "http://example.org/name");
    }
}
