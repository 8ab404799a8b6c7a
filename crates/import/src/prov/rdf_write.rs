//! Writer of PROV-O as Turtle, with bundles as `TriG`.
//!
//! A relation is written as a property if that expresses all of it, else as a node at `prov:qualified…`.

use super::model::{Document, Kind, PROV, ProvError, Slot, Statement, Statements, Value, XSD};
use super::names::Prefixes;
use super::rdf::{LABEL, TYPE, property};
use oxrdf::{BlankNode, GraphName, Literal, NamedNode, NamedOrBlankNode, Quad, Term};
use oxttl::TriGSerializer;
use std::collections::HashSet;

/// Writes a document as Turtle; as `TriG` if it has bundles.
pub(super) fn write(document: &Document) -> Result<String, ProvError> {
    let mut quads = Quads {
        graph: GraphName::DefaultGraph,
        all: Vec::new(),
        nodes: 0,
        once: HashSet::new(),
    };
    quads.statements(&document.statements)?;
    for (id, inner) in &document.bundles {
        quads.graph = GraphName::DefaultGraph;
        // Declared as a bundle, because an empty graph would vanish.
        quads.push(
            name(id)?.into(),
            TYPE,
            name(&format!("{PROV}Bundle"))?.into(),
        )?;
        quads.graph = name(id)?.into();
        quads.statements(inner)?;
    }
    let names = Prefixes::of(document);
    let failed = |e: &dyn std::fmt::Display| ProvError::new("", e.to_string());
    let mut serializer = TriGSerializer::new()
        .with_prefix("prov", PROV)
        .map_err(|e| failed(&e))?
        .with_prefix("xsd", XSD)
        .map_err(|e| failed(&e))?;
    for (prefix, iri) in names.declared() {
        // A namespace that is not an IRI cannot be a prefix.
        if NamedNode::new(iri).is_ok() {
            serializer = serializer
                .with_prefix(prefix, iri)
                .map_err(|e| failed(&e))?;
        }
    }
    let mut writer = serializer.for_writer(Vec::new());
    for quad in &quads.all {
        writer.serialize_quad(quad).map_err(|e| failed(&e))?;
    }
    let bytes = writer.finish().map_err(|e| failed(&e))?;
    String::from_utf8(bytes).map_err(|e| failed(&e))
}

fn name(iri: &str) -> Result<NamedNode, ProvError> {
    NamedNode::new(iri).map_err(|e| {
        let what = format!("is not an IRI ({e}), so RDF cannot name it; PROV-N and PROV-JSON can");
        ProvError::new(format!("<{iri}>"), what)
    })
}

struct Quads {
    graph: GraphName,
    all: Vec<Quad>,
    nodes: usize,
    /// Mentions written so far, and relations with a time.
    once: HashSet<(Kind, GraphName, String)>,
}

impl Quads {
    fn push(
        &mut self,
        subject: NamedOrBlankNode,
        property: &str,
        value: Term,
    ) -> Result<(), ProvError> {
        let graph = self.graph.clone();
        self.all
            .push(Quad::new(subject, name(property)?, value, graph));
        Ok(())
    }

    fn statements(&mut self, all: &Statements) -> Result<(), ProvError> {
        for statement in all.iter() {
            if statement.kind.is_element() {
                self.element(statement)?;
            } else {
                self.relation(statement)?;
            }
        }
        Ok(())
    }

    fn element(&mut self, statement: &Statement) -> Result<(), ProvError> {
        let subject: NamedOrBlankNode = name(statement.id.as_deref().unwrap_or_default())?.into();
        let class = match statement.kind {
            Kind::Entity => "Entity",
            Kind::Activity => "Activity",
            _ => "Agent",
        };
        self.push(
            subject.clone(),
            TYPE,
            name(&format!("{PROV}{class}"))?.into(),
        )?;
        for (argument, property) in statement
            .arguments
            .iter()
            .zip(["startedAtTime", "endedAtTime"])
        {
            if let Some(stated) = argument {
                self.push(
                    subject.clone(),
                    &format!("{PROV}{property}"),
                    date_time(stated)?,
                )?;
            }
        }
        self.attributes(&subject, statement)
    }

    fn attributes(
        &mut self,
        subject: &NamedOrBlankNode,
        statement: &Statement,
    ) -> Result<(), ProvError> {
        for (attribute, value) in &statement.attributes {
            let property = match attribute.strip_prefix(PROV) {
                Some("type") => TYPE.to_owned(),
                Some("label") => LABEL.to_owned(),
                Some("location") => format!("{PROV}atLocation"),
                Some("role") => format!("{PROV}hadRole"),
                _ => attribute.clone(),
            };
            self.push(subject.clone(), &property, term(value)?)?;
        }
        Ok(())
    }

    fn relation(&mut self, statement: &Statement) -> Result<(), ProvError> {
        let form = statement.kind.form();
        let bare = statement.id.is_none() && statement.attributes.is_empty();
        let more = statement.arguments.iter().skip(2).any(Option::is_some);
        let simple = bare && (!more || statement.kind == Kind::Mention);
        let ends = statement.argument(0).zip(statement.argument(1));
        if let Some((from, to)) = ends.filter(|_| simple) {
            if statement.kind == Kind::Mention
                && !self
                    .once
                    .insert((statement.kind, self.graph.clone(), from.to_owned()))
            {
                let what = format!(
                    "<{from}> is a mention of several: PROV-O has no place for that; PROV-N and PROV-JSON have"
                );
                return Err(ProvError::new(form.keyword, what));
            }
            let (subject, property) = (name(from)?, format!("{PROV}{}", form.keyword));
            self.push(subject.clone().into(), &property, name(to)?.into())?;
            if let Some(bundle) = statement.argument(2) {
                self.push(
                    subject.into(),
                    &format!("{PROV}asInBundle"),
                    name(bundle)?.into(),
                )?;
            }
            return Ok(());
        }
        if form.class.is_empty() {
            let what =
                "has no place in PROV-O for its name or attributes; PROV-N and PROV-JSON have";
            return Err(ProvError::new(form.keyword, what));
        }
        let node: NamedOrBlankNode = if let Some(id) = &statement.id {
            name(id)?.into()
        } else {
            self.nodes += 1;
            BlankNode::new_unchecked(format!("n{}", self.nodes)).into()
        };
        if let Some(owner) = statement.argument(0) {
            let property = format!("{PROV}qualified{}", form.class);
            self.push(name(owner)?.into(), &property, node.clone().into())?;
        }
        self.push(
            node.clone(),
            TYPE,
            name(&format!("{PROV}{}", form.class))?.into(),
        )?;
        let arguments = statement
            .arguments
            .iter()
            .zip(form.arguments)
            .enumerate()
            .skip(1);
        for (at, (argument, (_, slot))) in arguments {
            let Some(stated) = argument else { continue };
            let value = if *slot == Slot::Time {
                date_time(stated)?
            } else {
                name(stated)?.into()
            };
            self.push(
                node.clone(),
                &format!("{PROV}{}", property(statement.kind, at)),
                value,
            )?;
        }
        self.attributes(&node, statement)
    }
}

fn date_time(text: &str) -> Result<Term, ProvError> {
    Ok(Literal::new_typed_literal(text, name(&format!("{XSD}dateTime"))?).into())
}

fn term(value: &Value) -> Result<Term, ProvError> {
    Ok(match value {
        Value::Name(iri) => name(iri)?.into(),
        Value::Literal {
            text,
            datatype,
            language,
        } => {
            if !language.is_empty() {
                let tagged = Literal::new_language_tagged_literal(text, language);
                let tagged =
                    tagged.map_err(|e| ProvError::new(format!("@{language}"), e.to_string()))?;
                tagged.into()
            } else if datatype.is_empty() {
                Literal::new_simple_literal(text).into()
            } else {
                Literal::new_typed_literal(text, name(datatype)?).into()
            }
        }
    })
}
