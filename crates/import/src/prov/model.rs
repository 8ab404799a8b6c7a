//! Data model of PROV documents (PROV-DM), independent of the encoding.
//!
//! Names are full IRIs. Statements have one normal form, so that all encodings of a document read as equal statements: everything about an
//! element is one statement, and equal values have one representation.

pub use super::value::Value;
pub(super) use super::value::{PROV, XSD, nanos, time};
use std::collections::{BTreeMap, BTreeSet};

/// Type of a position in a statement.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Slot {
    /// Name of an entity.
    Entity,
    /// Name of an activity.
    Activity,
    /// Name of an agent.
    Agent,
    /// Name of any element.
    Any,
    /// Name of another statement, or of a bundle.
    Other,
    /// Date and time.
    Time,
}

/// Kinds of statements: three elements, fifteen relations.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Kind {
    /// Element: something with fixed aspects.
    Entity,
    /// Element: something that happened over a time.
    Activity,
    /// Element: a bearer of responsibility.
    Agent,
    /// Relation `wasGeneratedBy` of PROV-DM.
    Generation,
    /// Relation `used` of PROV-DM.
    Usage,
    /// Relation `wasInformedBy` of PROV-DM.
    Communication,
    /// Relation `wasStartedBy` of PROV-DM.
    Start,
    /// Relation `wasEndedBy` of PROV-DM.
    End,
    /// Relation `wasInvalidatedBy` of PROV-DM.
    Invalidation,
    /// Relation `wasDerivedFrom` of PROV-DM.
    Derivation,
    /// Relation `wasAttributedTo` of PROV-DM.
    Attribution,
    /// Relation `wasAssociatedWith` of PROV-DM.
    Association,
    /// Relation `actedOnBehalfOf` of PROV-DM.
    Delegation,
    /// Relation `wasInfluencedBy` of PROV-DM.
    Influence,
    /// Relation `specializationOf` of PROV-DM.
    Specialization,
    /// Relation `alternateOf` of PROV-DM.
    Alternate,
    /// Relation `hadMember` of PROV-DM.
    Membership,
    /// Relation `mentionOf` (PROV-LINKS).
    Mention,
}

/// Syntax of a kind of statement: its keyword, and its positions by their names in PROV-JSON and PROV-XML without `prov:`.
#[derive(Debug, Clone, Copy)]
pub struct Form {
    /// Kind of the statement.
    pub kind: Kind,
    /// Keyword in PROV-N, PROV-JSON and PROV-XML.
    pub keyword: &'static str,
    /// PROV-O class of the relation's node, also part of the property `qualified…`; empty for kinds without one.
    pub class: &'static str,
    /// Positions, in the order of PROV-N.
    pub arguments: &'static [(&'static str, Slot)],
}

const TIME: (&str, Slot) = ("time", Slot::Time);
const ENTITY: (&str, Slot) = ("entity", Slot::Entity);
const ACTIVITY: (&str, Slot) = ("activity", Slot::Activity);
const AGENT: (&str, Slot) = ("agent", Slot::Agent);
const TRIGGER: (&str, Slot) = ("trigger", Slot::Entity);
const SPECIFIC: (&str, Slot) = ("specificEntity", Slot::Entity);
const GENERAL: (&str, Slot) = ("generalEntity", Slot::Entity);

const fn form(
    kind: Kind,
    keyword: &'static str,
    class: &'static str,
    arguments: &'static [(&'static str, Slot)],
) -> Form {
    Form {
        kind,
        keyword,
        class,
        arguments,
    }
}

/// All kinds, in the order of [`Kind`].
pub const FORMS: [Form; 18] = [
    form(Kind::Entity, "entity", "", &[]),
    form(
        Kind::Activity,
        "activity",
        "",
        &[("startTime", Slot::Time), ("endTime", Slot::Time)],
    ),
    form(Kind::Agent, "agent", "", &[]),
    form(
        Kind::Generation,
        "wasGeneratedBy",
        "Generation",
        &[ENTITY, ACTIVITY, TIME],
    ),
    form(Kind::Usage, "used", "Usage", &[ACTIVITY, ENTITY, TIME]),
    form(
        Kind::Communication,
        "wasInformedBy",
        "Communication",
        &[("informed", Slot::Activity), ("informant", Slot::Activity)],
    ),
    form(
        Kind::Start,
        "wasStartedBy",
        "Start",
        &[ACTIVITY, TRIGGER, ("starter", Slot::Activity), TIME],
    ),
    form(
        Kind::End,
        "wasEndedBy",
        "End",
        &[ACTIVITY, TRIGGER, ("ender", Slot::Activity), TIME],
    ),
    form(
        Kind::Invalidation,
        "wasInvalidatedBy",
        "Invalidation",
        &[ENTITY, ACTIVITY, TIME],
    ),
    form(
        Kind::Derivation,
        "wasDerivedFrom",
        "Derivation",
        &[
            ("generatedEntity", Slot::Entity),
            ("usedEntity", Slot::Entity),
            ACTIVITY,
            ("generation", Slot::Other),
            ("usage", Slot::Other),
        ],
    ),
    form(
        Kind::Attribution,
        "wasAttributedTo",
        "Attribution",
        &[ENTITY, AGENT],
    ),
    form(
        Kind::Association,
        "wasAssociatedWith",
        "Association",
        &[ACTIVITY, AGENT, ("plan", Slot::Entity)],
    ),
    form(
        Kind::Delegation,
        "actedOnBehalfOf",
        "Delegation",
        &[
            ("delegate", Slot::Agent),
            ("responsible", Slot::Agent),
            ACTIVITY,
        ],
    ),
    form(
        Kind::Influence,
        "wasInfluencedBy",
        "Influence",
        &[("influencee", Slot::Any), ("influencer", Slot::Any)],
    ),
    form(
        Kind::Specialization,
        "specializationOf",
        "",
        &[SPECIFIC, GENERAL],
    ),
    form(
        Kind::Alternate,
        "alternateOf",
        "",
        &[("alternate1", Slot::Entity), ("alternate2", Slot::Entity)],
    ),
    form(
        Kind::Membership,
        "hadMember",
        "",
        &[("collection", Slot::Entity), ENTITY],
    ),
    form(
        Kind::Mention,
        "mentionOf",
        "",
        &[SPECIFIC, GENERAL, ("bundle", Slot::Other)],
    ),
];

impl Kind {
    /// Returns the syntax of the kind.
    pub const fn form(self) -> &'static Form {
        &FORMS[self as usize]
    }

    /// Returns the kind with a keyword.
    pub fn of(keyword: &str) -> Option<Self> {
        FORMS.iter().find(|f| f.keyword == keyword).map(|f| f.kind)
    }

    /// Returns whether the kind is entity, activity or agent.
    pub const fn is_element(self) -> bool {
        matches!(self, Self::Entity | Self::Activity | Self::Agent)
    }
}

/// One statement of a document.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Statement {
    /// Kind of the statement.
    pub kind: Kind,
    /// Name of the element; of a relation, if it has one.
    pub id: Option<String>,
    /// Values at its positions: names, and times in normal form.
    pub arguments: Vec<Option<String>>,
    /// Attributes: the IRI of the name, and the value; sorted and distinct.
    pub attributes: Vec<(String, Value)>,
}

impl Statement {
    /// Creates a statement with empty positions.
    pub fn new(kind: Kind, id: Option<String>) -> Self {
        Self {
            kind,
            id,
            arguments: vec![None; kind.form().arguments.len()],
            attributes: Vec::new(),
        }
    }

    /// Returns the value at a position.
    pub fn argument(&self, at: usize) -> Option<&str> {
        self.arguments.get(at)?.as_deref()
    }

    /// Returns the values of an attribute.
    pub fn values<'a>(&'a self, name: &'a str) -> impl Iterator<Item = &'a Value> {
        let named = self.attributes.iter().filter(move |(n, _)| n == name);
        named.map(|(_, value)| value)
    }

    /// Sorts the attributes and removes duplicates.
    pub(super) fn tidy(&mut self) {
        self.attributes.sort_unstable();
        self.attributes.dedup();
    }

    /// Returns whether two statements can be merged: no position has two values.
    fn agrees(&self, other: &Self) -> bool {
        let mut both = self.arguments.iter().zip(&other.arguments);
        both.all(|(a, b)| a.is_none() || b.is_none() || a == b)
    }
}

/// Statements of a document, or of a bundle in it.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Statements {
    all: Vec<Statement>,
}

impl Statements {
    /// Adds a statement and tidies it.
    pub fn push(&mut self, mut statement: Statement) {
        statement.tidy();
        self.all.push(statement);
    }

    /// Returns the number of statements.
    pub fn len(&self) -> usize {
        self.all.len()
    }

    /// Returns whether there are no statements.
    pub fn is_empty(&self) -> bool {
        self.all.is_empty()
    }

    /// Iterates over all statements.
    pub fn iter(&self) -> impl Iterator<Item = &Statement> {
        self.all.iter()
    }

    /// Merges the statements about each element, removes duplicates and sorts.
    fn normalize(&mut self) {
        let mut elements: BTreeMap<(Kind, String), Vec<Statement>> = BTreeMap::new();
        let mut rest = BTreeSet::new();
        for statement in self.all.drain(..) {
            match &statement.id {
                Some(id) if statement.kind.is_element() => {
                    let said = elements.entry((statement.kind, id.clone())).or_default();
                    match said.iter_mut().find(|other| other.agrees(&statement)) {
                        Some(other) => {
                            for (have, new) in other.arguments.iter_mut().zip(statement.arguments) {
                                *have = have.take().or(new);
                            }
                            other.attributes.extend(statement.attributes);
                            other.tidy();
                        }
                        None => said.push(statement),
                    }
                }
                _ => drop(rest.insert(statement)),
            }
        }
        self.all.extend(elements.into_values().flatten());
        self.all.extend(rest);
        self.all.sort_unstable();
    }
}

/// Contents of a PROV document.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Document {
    /// Declared prefixes; the empty one is the default. They carry no meaning, because names are full IRIs.
    pub prefixes: BTreeMap<String, String>,
    /// Statements outside of bundles.
    pub statements: Statements,
    /// Statements of the bundles, by name.
    pub bundles: BTreeMap<String, Statements>,
    /// Number of triples that were omitted because they do not express provenance.
    pub left_out: u64,
}

impl Document {
    /// Iterates over all statements, each with its bundle.
    pub fn all(&self) -> impl Iterator<Item = (Option<&str>, &Statement)> {
        let own = self.statements.iter().map(|s| (None, s));
        own.chain(self.bundles.iter().flat_map(|(id, statements)| {
            let id = Some(id.as_str());
            statements.iter().map(move |s| (id, s))
        }))
    }

    /// Returns the document in normal form.
    #[must_use]
    pub fn normal(mut self) -> Self {
        self.statements.normalize();
        for bundle in self.bundles.values_mut() {
            bundle.normalize();
        }
        self
    }
}

/// An error in a document.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ProvError {
    /// Location: a line and column, or a path in the document; empty if unknown.
    pub at: String,
    /// Description of the error.
    pub what: String,
}

impl ProvError {
    pub(super) fn new(at: impl Into<String>, what: impl Into<String>) -> Self {
        Self {
            at: at.into(),
            what: what.into(),
        }
    }

    /// Creates an error at a byte of a text.
    pub(super) fn at(text: &str, byte: usize, what: impl Into<String>) -> Self {
        let (line, column) = line_and_column(text, byte);
        Self::new(format!("line {line}, column {column}"), what)
    }
}

/// Returns the line and column of a byte, from 1.
fn line_and_column(text: &str, byte: usize) -> (usize, usize) {
    let mut byte = byte.min(text.len());
    while !text.is_char_boundary(byte) {
        byte -= 1;
    }
    let before = text.split_at(byte).0;
    let line = before.bytes().filter(|b| *b == b'\n').count() + 1;
    let column = before
        .rsplit('\n')
        .next()
        .unwrap_or_default()
        .chars()
        .count()
        + 1;
    (line, column)
}

impl std::fmt::Display for ProvError {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        if self.at.is_empty() {
            f.write_str(&self.what)
        } else {
            write!(f, "{}: {}", self.at, self.what)
        }
    }
}

impl std::error::Error for ProvError {}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_kind_has_its_form() {
        for (i, form) in FORMS.iter().enumerate() {
            assert_eq!(form.kind as usize, i);
            assert_eq!(Kind::of(form.keyword), Some(form.kind));
        }
    }

    #[test]
    fn what_is_said_of_an_element_is_one_statement() {
        let agent = |label: Option<&str>| {
            let mut s = Statement::new(Kind::Agent, Some("urn:a".into()));
            s.attributes
                .extend(label.map(|l| (format!("{PROV}label"), Value::string(l))));
            s
        };
        let run = |start: &str| {
            let mut s = Statement::new(Kind::Activity, Some("urn:r".into()));
            s.arguments[0] = time(start);
            s
        };
        let mut document = Document::default();
        for s in [
            agent(None),
            agent(Some("x")),
            agent(Some("x")),
            run("2020-01-01T00:00:00Z"),
        ] {
            document.statements.push(s);
        }
        let one = document.clone().normal();
        assert_eq!(one.statements.len(), 2);
        // Statements with two different starts cannot be merged.
        document.statements.push(run("2021-01-01T00:00:00Z"));
        assert_eq!(document.normal().statements.len(), 3);
    }
}
