//! Attributes of RDF/XML: those with a meaning, and those that are properties.

use super::names::{Namespaces, XML};
use oxiri::Iri;
use oxrdf::{BaseDirection, Literal, NamedNode};
use std::rc::Rc;

pub(super) const RDF: &str = "http://www.w3.org/1999/02/22-rdf-syntax-ns#";
/// Namespace of the Internationalization Tag Set.
const ITS: &str = "http://www.w3.org/2005/11/its";

/// Attributes with a meaning in RDF/XML, and property attributes.
#[derive(Debug, Default)]
pub(super) struct Attributes {
    pub(super) id: Option<String>,
    pub(super) node_id: Option<String>,
    pub(super) about: Option<String>,
    pub(super) resource: Option<String>,
    pub(super) datatype: Option<String>,
    pub(super) parse_type: Option<String>,
    pub(super) class: Option<String>,
    /// IRI of the reifier of the statement.
    pub(super) annotation: Option<String>,
    /// Label of the reifier of the statement.
    pub(super) annotation_node_id: Option<String>,
    pub(super) properties: Vec<(NamedNode, String)>,
}

/// Properties that an element gives to the elements within it.
#[derive(Debug, Clone, Default)]
pub(super) struct Scope {
    pub(super) base: Option<Rc<Iri<String>>>,
    pub(super) language: Option<Rc<str>>,
    pub(super) direction: Option<BaseDirection>,
    /// Whether `rdf:version` says that directions and triple terms have a meaning.
    pub(super) is_1_2: bool,
}

impl Scope {
    /// Returns a string in the language and direction of the element.
    pub(super) fn text(&self, text: String) -> Literal {
        match (&self.language, self.direction) {
            (Some(language), Some(direction)) if self.is_1_2 => {
                Literal::new_directional_language_tagged_literal_unchecked(
                    text,
                    language.as_ref(),
                    direction,
                )
            }
            (Some(language), _) => {
                Literal::new_language_tagged_literal_unchecked(text, language.as_ref())
            }
            (None, _) => Literal::new_simple_literal(text),
        }
    }
}

impl Attributes {
    /// Returns the attributes with a meaning and those that are properties; `scope` gets the language, base, direction and version.
    pub(super) fn of(
        names: &Namespaces,
        attributes: Vec<(String, String)>,
        scope: &mut Scope,
    ) -> Result<Self, String> {
        let mut all = Self::default();
        let mut properties = Vec::new();
        for (name, value) in attributes {
            let (namespace, local) = names.split(&name, false)?;
            if namespace.as_deref() == Some(XML) {
                match local {
                    "lang" if value.is_empty() => scope.language = None,
                    "lang" => {
                        let literal = Literal::new_language_tagged_literal("", &value);
                        let literal =
                            literal.map_err(|e| format!("the language `{value}` is wrong: {e}"))?;
                        scope.language = literal.language().map(Into::into);
                    }
                    "base" => {
                        let base = resolve(scope.base.as_deref(), &value)?;
                        scope.base = Some(Rc::new(base));
                    }
                    _ => {}
                }
                continue;
            }
            if namespace.as_deref() == Some(ITS) {
                if local == "dir" {
                    scope.direction = match value.as_str() {
                        "ltr" => Some(BaseDirection::Ltr),
                        "rtl" => Some(BaseDirection::Rtl),
                        _ => return Err(format!("the direction `{value}` is neither ltr nor rtl")),
                    };
                }
                continue;
            }
            // Names with this prefix are reserved.
            if name.starts_with("xml") {
                continue;
            }
            let iri = match &namespace {
                Some(namespace) => format!("{namespace}{local}"),
                None if matches!(local, "ID" | "about" | "resource" | "parseType" | "type") => {
                    format!("{RDF}{local}")
                }
                None => return Err(format!("the attribute `{name}` has no namespace")),
            };
            let slot = match iri.strip_prefix(RDF) {
                Some("version") => {
                    scope.is_1_2 = value == "1.2";
                    continue;
                }
                Some("annotation") => &mut all.annotation,
                Some("annotationNodeID") => &mut all.annotation_node_id,
                Some("ID") => &mut all.id,
                Some("nodeID") => &mut all.node_id,
                Some("about") => &mut all.about,
                Some("resource") => &mut all.resource,
                Some("datatype") => &mut all.datatype,
                Some("parseType") => &mut all.parse_type,
                Some("type") => &mut all.class,
                _ => {
                    properties.push((iri, value));
                    continue;
                }
            };
            if slot.replace(value).is_some() {
                return Err(format!("the attribute `{name}` is given twice"));
            }
        }
        for (iri, value) in properties {
            let property = named(iri, &[SYNTAX, &["Description", "li"], OLD])?;
            all.properties.push((property, value));
        }
        Ok(all)
    }
}

/// Names of the RDF namespace that are syntax, not classes or properties.
pub(super) const SYNTAX: &[&str] = &[
    "RDF",
    "ID",
    "about",
    "parseType",
    "resource",
    "nodeID",
    "datatype",
    "annotation",
    "annotationNodeID",
    "version",
];
/// Names removed from RDF.
pub(super) const OLD: &[&str] = &["aboutEach", "aboutEachPrefix", "bagID"];

/// Checks the IRI of a class or property.
pub(super) fn named(iri: String, forbidden: &[&[&str]]) -> Result<NamedNode, String> {
    if let Some(term) = iri.strip_prefix(RDF)
        && forbidden.iter().any(|terms| terms.contains(&term))
    {
        return Err(format!("rdf:{term} is not allowed here"));
    }
    match Iri::parse(iri.as_str()) {
        Ok(_) => Ok(NamedNode::new_unchecked(iri)),
        Err(e) => Err(format!("the name <{iri}> is not an IRI: {e}")),
    }
}

pub(super) fn resolve(base: Option<&Iri<String>>, iri: &str) -> Result<Iri<String>, String> {
    let resolved = match base {
        Some(base) => base.resolve(iri),
        None => Iri::parse(iri.to_owned()),
    };
    resolved.map_err(|e| format!("<{iri}> is not an IRI: {e}"))
}
