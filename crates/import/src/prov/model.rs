//! What PROV documents say (PROV-DM), whatever they are written in.
//!
//! Names are whole IRIs. Statements have one normal form, so that the encodings of a document read as the same statements: what is said of an element
//! in several places is one statement, values of the same meaning are written the same way.

pub use super::value::Value;
pub(super) use super::value::{PROV, XSD, nanos, time};
use std::collections::{BTreeMap, BTreeSet};

/// What a place in a statement takes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Slot {
    /// The name of an entity.
    Entity,
    /// The name of an activity.
    Activity,
    /// The name of an agent.
    Agent,
    /// The name of anything.
    Any,
    /// The name of another statement, or of a bundle.
    Other,
    /// A date and time.
    Time,
}

/// The kinds of statements: three elements, fifteen relations.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Kind {
    /// Something with fixed aspects.
    Entity,
    /// Something that happened over a time.
    Activity,
    /// Who bears responsibility.
    Agent,
    /// `wasGeneratedBy`
    Generation,
    /// `used`
    Usage,
    /// `wasInformedBy`
    Communication,
    /// `wasStartedBy`
    Start,
    /// `wasEndedBy`
    End,
    /// `wasInvalidatedBy`
    Invalidation,
    /// `wasDerivedFrom`
    Derivation,
    /// `wasAttributedTo`
    Attribution,
    /// `wasAssociatedWith`
    Association,
    /// `actedOnBehalfOf`
    Delegation,
    /// `wasInfluencedBy`
    Influence,
    /// `specializationOf`
    Specialization,
    /// `alternateOf`
    Alternate,
    /// `hadMember`
    Membership,
    /// `mentionOf` (PROV-LINKS)
    Mention,
}

/// How a kind of statement is written: its keyword, and its places by their names in PROV-JSON and PROV-XML without `prov:`.
#[derive(Debug, Clone, Copy)]
pub struct Form {
    /// The kind.
    pub kind: Kind,
    /// The keyword of PROV-N, PROV-JSON and PROV-XML.
    pub keyword: &'static str,
    /// What PROV-O calls the node of such a relation, and the property to it behind `qualified`; empty where it has none.
    pub class: &'static str,
    /// The places, in PROV-N's order.
    pub places: &'static [(&'static str, Slot)],
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
    places: &'static [(&'static str, Slot)],
) -> Form {
    Form {
        kind,
        keyword,
        class,
        places,
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
    /// How it is written.
    pub const fn form(self) -> &'static Form {
        &FORMS[self as usize]
    }

    /// The kind with that keyword.
    pub fn of(keyword: &str) -> Option<Self> {
        FORMS.iter().find(|f| f.keyword == keyword).map(|f| f.kind)
    }

    /// Whether it is an entity, an activity or an agent.
    pub const fn is_element(self) -> bool {
        matches!(self, Self::Entity | Self::Activity | Self::Agent)
    }
}

/// One statement.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Statement {
    /// Its kind.
    pub kind: Kind,
    /// The element's name; a relation's, if it has one.
    pub id: Option<String>,
    /// What stands in its places: names, and times in normal form.
    pub places: Vec<Option<String>>,
    /// Attributes: the IRI of the name, and the value; sorted, each once.
    pub attributes: Vec<(String, Value)>,
}

impl Statement {
    /// One with nothing in its places.
    pub fn new(kind: Kind, id: Option<String>) -> Self {
        Self {
            kind,
            id,
            places: vec![None; kind.form().places.len()],
            attributes: Vec::new(),
        }
    }

    /// What is in a place.
    pub fn place(&self, at: usize) -> Option<&str> {
        self.places.get(at)?.as_deref()
    }

    /// Values of an attribute.
    pub fn values<'a>(&'a self, name: &'a str) -> impl Iterator<Item = &'a Value> {
        let named = self.attributes.iter().filter(move |(n, _)| n == name);
        named.map(|(_, value)| value)
    }

    /// Sorted, each attribute once.
    pub(super) fn tidy(&mut self) {
        self.attributes.sort_unstable();
        self.attributes.dedup();
    }

    /// Whether both may be said as one: no place has two values.
    fn agrees(&self, other: &Self) -> bool {
        let mut both = self.places.iter().zip(&other.places);
        both.all(|(a, b)| a.is_none() || b.is_none() || a == b)
    }
}

/// The statements of a document, or of a bundle in it.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Statements {
    all: Vec<Statement>,
}

impl Statements {
    /// Adds one.
    pub fn push(&mut self, mut statement: Statement) {
        statement.tidy();
        self.all.push(statement);
    }

    /// How many.
    pub fn len(&self) -> usize {
        self.all.len()
    }

    /// Whether there is none.
    pub fn is_empty(&self) -> bool {
        self.all.is_empty()
    }

    /// One by one.
    pub fn iter(&self) -> impl Iterator<Item = &Statement> {
        self.all.iter()
    }

    /// What is said of one element is one statement; each statement once, in order.
    fn normalize(&mut self) {
        let mut elements: BTreeMap<(Kind, String), Vec<Statement>> = BTreeMap::new();
        let mut rest = BTreeSet::new();
        for statement in self.all.drain(..) {
            match &statement.id {
                Some(id) if statement.kind.is_element() => {
                    let said = elements.entry((statement.kind, id.clone())).or_default();
                    match said.iter_mut().find(|other| other.agrees(&statement)) {
                        Some(other) => {
                            for (have, new) in other.places.iter_mut().zip(statement.places) {
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

/// A document.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Document {
    /// Prefixes that it declares; the empty one is the default. They say nothing: names are whole.
    pub prefixes: BTreeMap<String, String>,
    /// What it says itself.
    pub statements: Statements,
    /// What its bundles say, by their names.
    pub bundles: BTreeMap<String, Statements>,
    /// Triples that say nothing of provenance, and were left out.
    pub left_out: u64,
}

impl Document {
    /// All statements, each with its bundle.
    pub fn all(&self) -> impl Iterator<Item = (Option<&str>, &Statement)> {
        let own = self.statements.iter().map(|s| (None, s));
        own.chain(self.bundles.iter().flat_map(|(id, statements)| {
            let id = Some(id.as_str());
            statements.iter().map(move |s| (id, s))
        }))
    }

    /// In its normal form.
    #[must_use]
    pub fn normal(mut self) -> Self {
        self.statements.normalize();
        for bundle in self.bundles.values_mut() {
            bundle.normalize();
        }
        self
    }
}

/// Why a document was not read.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ProvError {
    /// Where: a line and column, or a path in the document; empty if nowhere in particular.
    pub at: String,
    /// What is wrong.
    pub what: String,
}

impl ProvError {
    pub(super) fn new(at: impl Into<String>, what: impl Into<String>) -> Self {
        Self {
            at: at.into(),
            what: what.into(),
        }
    }

    /// At a byte of a text.
    pub(super) fn at(text: &str, byte: usize, what: impl Into<String>) -> Self {
        let (line, column) = place(text, byte);
        Self::new(format!("line {line}, column {column}"), what)
    }
}

/// Line and column of a byte, from 1.
fn place(text: &str, byte: usize) -> (usize, usize) {
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
            s.places[0] = time(start);
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
        // Two starts cannot be one.
        document.statements.push(run("2021-01-01T00:00:00Z"));
        assert_eq!(document.normal().statements.len(), 3);
    }
}
