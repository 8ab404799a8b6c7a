//! Names: expansion of prefixed names, and choice of prefixes for writing.

use super::model::{Document, PROV, Statement, Value, XSD};
use esker_model::iri::unescape;
use std::collections::{BTreeMap, BTreeSet};
use std::ops::Bound;
use std::rc::Rc;

/// Prefix of IRIs for attribute names of the graph itself.
pub(super) const ATTRIBUTES: &str = "urn:esker:attributes/";

/// Prefixes of vocabularies that are common in provenance. Documents that are read declare their own; documents that are written, and
/// attribute names in the graph, use these prefixes, so that they do not depend on the source document.
pub(super) const WELL_KNOWN: [(&str, &str); 20] = [
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

/// Prefixes in scope at a position in a document.
///
/// A scope has the declarations of its own element and a reference to the enclosing scope, so that many elements within one with many
/// prefixes need no copies.
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
    /// Creates a scope within another, without declarations.
    pub(super) fn within(outer: Rc<Self>) -> Self {
        Self {
            prefixes: BTreeMap::new(),
            outer: Some(outer),
        }
    }

    /// Returns this scope and the enclosing ones, the innermost first.
    fn all(&self) -> impl Iterator<Item = &Self> {
        std::iter::successors(Some(self), |scope| scope.outer.as_deref())
    }

    fn get(&self, prefix: &str) -> Option<&String> {
        self.all().find_map(|scope| scope.prefixes.get(prefix))
    }

    /// Declares a prefix; the empty prefix is the default.
    pub(super) fn declare(&mut self, prefix: &str, iri: &str) {
        // Some documents write XML Schema's namespace without the `#` that all other encodings have.
        let iri = if iri == XSD.trim_end_matches('#') {
            XSD
        } else {
            iri
        };
        self.prefixes.insert(prefix.to_owned(), iri.to_owned());
    }

    /// Returns the declarations in scope, without the predefined ones.
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

    /// Returns the IRI of a name `prefix:local`.
    pub(super) fn expand(&self, name: &str) -> Result<String, String> {
        if let Some((prefix, local)) = name.split_once(':') {
            if let Some(iri) = self.get(prefix) {
                return Ok(format!("{iri}{local}"));
            }
            // A full IRI in place of a name.
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

/// Truncates a name for a message.
fn clipped(name: &str) -> String {
    let mut out: String = name.chars().take(80).collect();
    if out.len() < name.len() {
        out.push('…');
    }
    out
}

/// Returns an attribute's name in the graph: its own name if it is one of the graph's, else with the prefix of a known vocabulary, else the
/// IRI.
pub(super) fn short(iri: &str) -> String {
    if let Some(own) = iri.strip_prefix(ATTRIBUTES).and_then(unescape) {
        return own;
    }
    for (prefix, space) in WELL_KNOWN {
        if let Some(local) = iri.strip_prefix(space).filter(|l| !l.is_empty()) {
            return format!("{prefix}:{local}");
        }
    }
    iri.to_owned()
}

/// Returns whether PROV-N allows a character unescaped in the local part of a name.
pub(super) fn is_plain(c: char) -> bool {
    c.is_alphanumeric() || "_-.%/@~&+*?#$!".contains(c)
}

/// Characters that must be escaped by a backslash in the local part of a name.
pub(super) const ESCAPED: &str = "='(),-:;\"[].";

/// Prefixed names for writing.
#[derive(Debug)]
pub(super) struct Prefixes {
    /// Prefix by namespace.
    spaces: BTreeMap<String, String>,
}

impl Prefixes {
    /// Chooses prefixes for all names of a document: declared ones, well-known ones, and generated ones.
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
        for (prefix, iri) in WELL_KNOWN
            .into_iter()
            .take(2)
            .chain(declared)
            .chain(WELL_KNOWN)
        {
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

    /// Iterates over the used prefixes with their namespaces.
    pub(super) fn declared(&self) -> impl Iterator<Item = (&str, &str)> {
        let all = self
            .spaces
            .iter()
            .map(|(iri, prefix)| (prefix.as_str(), iri.as_str()));
        all.filter(|(prefix, _)| !matches!(*prefix, "prov" | "xsd"))
    }

    /// Returns the prefix and the local part of an IRI.
    pub(super) fn parts<'a>(&'a self, iri: &'a str) -> (&'a str, &'a str) {
        match longest(&self.spaces, iri) {
            Some((space, prefix)) => (prefix, iri.get(space.len()..).unwrap_or_default()),
            None => ("", iri),
        }
    }

    /// Returns a name as in PROV-JSON.
    pub(super) fn plain(&self, iri: &str) -> String {
        let (prefix, local) = self.parts(iri);
        format!("{prefix}:{local}")
    }
}

/// Returns the longest namespace that is a prefix of a name, with its abbreviation.
fn longest<'a>(spaces: &'a BTreeMap<String, String>, iri: &str) -> Option<(&'a str, &'a str)> {
    let mut end = iri.len();
    loop {
        // The greatest namespace in order that is not above `head` is either a prefix of the name, or determines how far to shorten `head`.
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

/// Returns whether a text is a valid prefix in every encoding.
fn is_prefix(prefix: &str) -> bool {
    let mut chars = prefix.chars();
    chars.next().is_some_and(char::is_alphabetic)
        && chars.all(|c| c.is_alphanumeric() || matches!(c, '_' | '-'))
        && prefix != "default"
}

fn names_of<'a>(statement: &'a Statement, to: &mut BTreeSet<&'a str>) {
    use super::model::Slot;
    to.extend(statement.id.as_deref());
    let arguments = statement.kind.form().arguments.iter();
    for ((_, slot), stated) in arguments.zip(&statement.arguments) {
        if *slot != Slot::Time {
            to.extend(stated.as_deref());
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
