//! PROV-O read (W3C Recommendation of 2013-04-30): Turtle, N-Triples and JSON-LD, graphs as bundles.
//!
//! A relation is a property between two things, or a node of its own behind `prov:qualified…` that tells more of it. Both may be there for one relation:
//! a property that only repeats what a node says is no statement of its own.

use super::model::{
    Document, Kind, PROV, ProvError, Slot, Statement, Statements, Value, XSD, time,
};
use super::provn::{check, no_time};
use super::skolem;
use oxjsonld::{JsonLdParser, JsonLdSyntaxError};
use oxrdf::Quad;
use oxttl::{NQuadsParser, TriGParser, TurtleSyntaxError};
use serde_json::Value as Json;
use std::borrow::Cow;
use std::collections::{BTreeMap, BTreeSet, HashMap};

pub(super) const TYPE: &str = "http://www.w3.org/1999/02/22-rdf-syntax-ns#type";
pub(super) const LABEL: &str = "http://www.w3.org/2000/01/rdf-schema#label";

/// What PROV-O is written in here.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Syntax {
    /// `TriG`, and Turtle.
    TriG,
    /// N-Quads, and N-Triples.
    NQuads,
    /// JSON-LD.
    JsonLd,
}

/// Classes of PROV-O that make something an element, and of which.
const ELEMENTS: [(&str, Kind, bool); 10] = [
    ("Entity", Kind::Entity, true),
    ("Activity", Kind::Activity, true),
    ("Agent", Kind::Agent, true),
    ("Person", Kind::Agent, false),
    ("Organization", Kind::Agent, false),
    ("SoftwareAgent", Kind::Agent, false),
    ("Plan", Kind::Entity, false),
    ("Collection", Kind::Entity, false),
    ("EmptyCollection", Kind::Entity, false),
    ("Bundle", Kind::Entity, false),
];

/// Derivations with a name of their own: property, class.
const DERIVATIONS: [(&str, &str); 3] = [
    ("wasRevisionOf", "Revision"),
    ("wasQuotedFrom", "Quotation"),
    ("hadPrimarySource", "PrimarySource"),
];

/// Properties that say a relation from its other end.
const TURNED: [(&str, Kind); 3] = [
    ("generated", Kind::Generation),
    ("invalidated", Kind::Invalidation),
    ("influenced", Kind::Influence),
];

/// Kinds that old versions of the package `prov` write so that the node alone does not tell what the relation goes to.
const LACKING: [Kind; 5] = [
    Kind::Association,
    Kind::Attribution,
    Kind::Communication,
    Kind::Delegation,
    Kind::Influence,
];

/// Classes above those of relations.
const ABOVE: [&str; 5] = [
    "Influence",
    "EntityInfluence",
    "ActivityInfluence",
    "AgentInfluence",
    "InstantaneousEvent",
];

/// The kind of the nodes of a class, and its name where it is a kind of derivation.
fn class(local: &str) -> Option<(Kind, Option<&'static str>)> {
    let derivation = DERIVATIONS.iter().find(|(_, class)| *class == local);
    if let Some((_, class)) = derivation {
        return Some((Kind::Derivation, Some(class)));
    }
    let forms = super::model::FORMS.iter();
    let mut named = forms.filter(|form| !form.class.is_empty());
    let form = named.find(|form| form.class == local)?;
    Some((form.kind, None))
}

/// The property of a relation's node that tells one of its places; the first place is what the node belongs to.
pub(super) fn property(kind: Kind, place: usize) -> &'static str {
    match (kind, place) {
        (Kind::Usage | Kind::Start | Kind::End | Kind::Derivation, 1) => "entity",
        (Kind::Generation | Kind::Invalidation | Kind::Communication, 1) => "activity",
        (Kind::Attribution | Kind::Association | Kind::Delegation, 1) => "agent",
        (Kind::Association, 2) => "hadPlan",
        (Kind::Start | Kind::End | Kind::Derivation | Kind::Delegation, 2) => "hadActivity",
        (Kind::Derivation, 3) => "hadGeneration",
        (Kind::Derivation, 4) => "hadUsage",
        (Kind::Influence, 1) => "influencer",
        _ => "atTime",
    }
}

/// The place that a property of a relation's node tells.
fn place(kind: Kind, local: &str) -> Option<usize> {
    let places = kind.form().places.len();
    let found = (1..places).find(|place| property(kind, *place) == local);
    let timed = kind
        .form()
        .places
        .last()
        .is_some_and(|(_, slot)| *slot == Slot::Time);
    found.or(match local {
        "influencer" => Some(1),
        "entity" | "activity" | "agent" if kind == Kind::Influence => Some(1),
        "startedAtTime" | "endedAtTime" if timed => Some(places - 1),
        _ => None,
    })
}

/// What an attribute is called in the other encodings.
fn attribute(property: &str) -> String {
    match property {
        TYPE => format!("{PROV}type"),
        LABEL => format!("{PROV}label"),
        _ => match property.strip_prefix(PROV) {
            Some("atLocation") => format!("{PROV}location"),
            Some("hadRole") => format!("{PROV}role"),
            _ => property.to_owned(),
        },
    }
}

/// What a property says of a subject.
#[derive(Debug, Clone)]
struct Told {
    property: String,
    value: Value,
}

type Subjects = BTreeMap<String, Vec<Told>>;

/// Reads a document.
///
/// # Errors
/// If it is none, with where and what is wrong.
pub(super) fn read(text: &str, syntax: Syntax) -> Result<Document, ProvError> {
    let mut blanks = Blanks {
        begin: skolem(text),
        numbers: HashMap::new(),
    };
    let mut graphs: BTreeMap<Option<String>, Subjects> = BTreeMap::new();
    let (quads, prefixes) = quads(text, syntax)?;
    for quad in quads {
        let graph = match &quad.graph_name {
            // A graph without a name is no bundle; rdflib writes the default graph of JSON-LD so.
            oxrdf::GraphName::DefaultGraph | oxrdf::GraphName::BlankNode(_) => None,
            oxrdf::GraphName::NamedNode(name) => Some(name.as_str().to_owned()),
        };
        let subject = match &quad.subject {
            oxrdf::NamedOrBlankNode::NamedNode(name) => name.as_str().to_owned(),
            oxrdf::NamedOrBlankNode::BlankNode(blank) => blanks.name(blank.as_str()),
        };
        let value = match &quad.object {
            oxrdf::Term::NamedNode(name) => Value::Name(name.as_str().to_owned()),
            oxrdf::Term::BlankNode(blank) => Value::Name(blanks.name(blank.as_str())),
            oxrdf::Term::Literal(literal) => match literal.language() {
                Some(language) => Value::tagged(literal.value(), language),
                None => Value::typed(
                    literal.value().to_owned(),
                    literal.datatype().as_str().to_owned(),
                ),
            },
            #[allow(
                unreachable_patterns,
                reason = "triples as terms exist where another crate asks for RDF 1.2"
            )]
            _ => {
                return Err(ProvError::new(
                    "",
                    "statements about statements are none of PROV-O's",
                ));
            }
        };
        let property = quad.predicate.as_str().to_owned();
        let subjects = graphs.entry(graph).or_default();
        subjects
            .entry(subject)
            .or_default()
            .push(Told { property, value });
    }
    let mut document = Document::default();
    for (prefix, iri) in prefixes {
        if !matches!(prefix.as_str(), "prov" | "xsd" | "rdf") {
            document.prefixes.insert(prefix, iri);
        }
    }
    for (graph, subjects) in graphs {
        let mut found = Graph {
            blank: &blanks.begin,
            subjects,
            found: Vec::new(),
            left_out: 0,
        };
        found.read()?;
        document.left_out += found.left_out;
        let to: &mut Statements = match graph {
            Some(name) => document.bundles.entry(name).or_default(),
            None => &mut document.statements,
        };
        found.found.into_iter().for_each(|s| to.push(s));
    }
    let document = document.normal();
    if document.all().next().is_none() && document.bundles.is_empty() {
        let triples = document.left_out;
        let what = format!(
            "this says nothing of provenance: it has {triples} other triples, and none of PROV-O's"
        );
        return Err(ProvError::new("", what));
    }
    Ok(document)
}

/// rdflib writes types that are no names where JSON-LD only takes names. Nothing if there are none.
fn mended(text: &str) -> Option<String> {
    fn walk(json: &mut Json) -> bool {
        let mut changed = false;
        match json {
            Json::Array(items) => items.iter_mut().for_each(|item| changed |= walk(item)),
            Json::Object(object) => {
                if let Some(Json::Array(types)) = object.get_mut("@type")
                    && types.iter().any(Json::is_object)
                {
                    let (names, literals) =
                        std::mem::take(types).into_iter().partition(Json::is_string);
                    *types = names;
                    object.insert(TYPE.to_owned(), Json::Array(literals));
                    changed = true;
                }
                object.values_mut().for_each(|value| changed |= walk(value));
            }
            _ => {}
        }
        changed
    }
    let mut json: Json = serde_json::from_str(text).ok()?;
    walk(&mut json).then(|| json.to_string())
}

/// Quads, and prefixes with what they stand for.
type Read = (Vec<Quad>, Vec<(String, String)>);

fn quads(text: &str, syntax: Syntax) -> Result<Read, ProvError> {
    let owned = |(prefix, iri): (&str, &str)| (prefix.to_owned(), iri.to_owned());
    let mut quads = Vec::new();
    let prefixes = match syntax {
        Syntax::TriG => {
            let mut parser = TriGParser::new().for_slice(text);
            for quad in &mut parser {
                quads.push(quad.map_err(|e| turtle(&e))?);
            }
            parser.prefixes().map(owned).collect()
        }
        Syntax::NQuads => {
            for quad in NQuadsParser::new().for_slice(text) {
                quads.push(quad.map_err(|e| turtle(&e))?);
            }
            Vec::new()
        }
        Syntax::JsonLd => {
            let mended = mended(text);
            let text = mended.map_or(Cow::Borrowed(text), Cow::Owned);
            let mut parser = JsonLdParser::new().for_slice(text.as_bytes());
            for quad in &mut parser {
                quads.push(quad.map_err(|e| json_ld(&e))?);
            }
            parser.prefixes().map(owned).collect()
        }
    };
    Ok((quads, prefixes))
}

fn turtle(e: &TurtleSyntaxError) -> ProvError {
    let at = e.location().start;
    let at = format!("line {}, column {}", at.line + 1, at.column + 1);
    let what = e.to_string();
    // The library says the place itself.
    let own = what.strip_prefix("Parser error at ");
    let own = own.and_then(|own| Some(own.split_once(": ")?.1.to_owned()));
    ProvError::new(at, own.unwrap_or(what))
}

fn json_ld(e: &JsonLdSyntaxError) -> ProvError {
    let at = e.location().map(|at| {
        let at = at.start;
        format!("line {}, column {}", at.line + 1, at.column + 1)
    });
    ProvError::new(at.unwrap_or_default(), e.to_string())
}

/// Names for nodes without one: numbered as they come, so that reading again gives the same.
struct Blanks {
    begin: String,
    numbers: HashMap<String, usize>,
}

impl Blanks {
    fn name(&mut self, label: &str) -> String {
        let next = self.numbers.len() + 1;
        let number = *self.numbers.entry(label.to_owned()).or_insert(next);
        format!("{}{number}", self.begin)
    }
}

/// One graph of a document.
struct Graph<'a> {
    blank: &'a str,
    subjects: Subjects,
    found: Vec<Statement>,
    left_out: u64,
}

impl Graph<'_> {
    fn read(&mut self) -> Result<(), ProvError> {
        let subjects = std::mem::take(&mut self.subjects);
        let nodes = nodes(&subjects);
        for (node, (kind, owners)) in &nodes {
            let told = subjects.get(*node).map_or(&[] as &[_], Vec::as_slice);
            self.node(node, *kind, owners, told)?;
        }
        // Those that say more first, so that those that only repeat them are seen to.
        let mut plain = Vec::new();
        for (subject, told) in &subjects {
            for told in told {
                if let Some(statement) = relation(subject, told, &subjects) {
                    plain.push((statement.attributes.is_empty(), statement));
                }
            }
        }
        plain.sort_unstable();
        let mut said: BTreeSet<_> = self.found.iter().filter_map(ends).collect();
        plain.retain(|(_, statement)| ends(statement).is_some_and(|ends| said.insert(ends)));
        self.complete(&mut plain);
        self.found
            .extend(plain.into_iter().map(|(_, statement)| statement));
        self.moments(&subjects)?;
        let roles = self.roles();
        for (subject, told) in &subjects {
            if !nodes.contains_key(subject.as_str()) {
                self.element(subject, told, &roles)?;
            }
        }
        Ok(())
    }

    /// Some write what a relation goes to only as a property, and all else of it only on its node: where one subject has one of each, they are one.
    fn complete(&mut self, plain: &mut Vec<(bool, Statement)>) {
        let key = |s: &Statement| Some((s.kind, s.place(0)?.to_owned()));
        let mut lacking: BTreeMap<_, Vec<usize>> = BTreeMap::new();
        for (at, statement) in self.found.iter().enumerate() {
            let open = statement.place(1).is_none() && LACKING.contains(&statement.kind);
            if let Some(key) = key(statement).filter(|_| open) {
                lacking.entry(key).or_default().push(at);
            }
        }
        let mut told: BTreeMap<_, usize> = BTreeMap::new();
        for (_, statement) in plain.iter() {
            *told.entry(key(statement)).or_default() += 1;
        }
        plain.retain(|(_, statement)| {
            let of = key(statement);
            let alone = told.get(&of) == Some(&1);
            let node = match of.and_then(|of| lacking.get(&of)).map(Vec::as_slice) {
                Some([node]) if alone => self.found.get_mut(*node),
                _ => None,
            };
            let Some(node) = node else { return true };
            node.places[1].clone_from(&statement.places[1]);
            node.attributes.extend(statement.attributes.iter().cloned());
            false
        });
    }

    /// The statements of a relation's node.
    fn node(
        &mut self,
        node: &str,
        (kind, subclass): (Kind, Option<&'static str>),
        owners: &BTreeSet<&str>,
        told: &[Told],
    ) -> Result<(), ProvError> {
        let id = (!node.starts_with(self.blank)).then(|| node.to_owned());
        let mut first = Statement::new(kind, id);
        let own =
            |class: &'static str| (format!("{PROV}type"), Value::Name(format!("{PROV}{class}")));
        first.attributes.extend(subclass.map(own));
        let mut places: Vec<Vec<String>> = vec![Vec::new(); first.places.len()];
        if let Some(place) = places.first_mut() {
            place.extend(owners.iter().map(|o| (*o).to_owned()));
        }
        for Told { property, value } in told {
            let local = property.strip_prefix(PROV).unwrap_or_default();
            if let Some(at) = place(kind, local) {
                let takes = kind.form().places.get(at);
                let is_time = takes.is_some_and(|(_, slot)| *slot == Slot::Time);
                let told = in_place(value, is_time, node)?;
                if let Some(place) = places.get_mut(at).filter(|p| !p.contains(&told)) {
                    place.push(told);
                }
                continue;
            }
            if property == TYPE
                && let Value::Name(name) = value
                && let Some(local) = name.strip_prefix(PROV)
                && (local == kind.form().class || ABOVE.contains(&local))
            {
                continue;
            }
            first.attributes.push((attribute(property), value.clone()));
        }
        let mut all = vec![first];
        for (at, values) in places.into_iter().enumerate() {
            if all.len().saturating_mul(values.len().max(1)) > 10_000 {
                return Err(ProvError::new(
                    node,
                    "says more than 10,000 relations at once",
                ));
            }
            let mut more = Vec::new();
            for value in values {
                more.extend(all.iter().cloned().map(|mut statement| {
                    if let Some(place) = statement.places.get_mut(at) {
                        *place = Some(value.clone());
                    }
                    statement
                }));
            }
            if !more.is_empty() {
                all = more;
            }
        }
        for statement in &all {
            check(statement).map_err(|e| ProvError::new(node, e))?;
        }
        self.found.extend(all);
        Ok(())
    }

    /// `prov:generatedAtTime` and `prov:invalidatedAtTime`: the time of the one relation there is, or one that only has a time.
    fn moments(&mut self, subjects: &Subjects) -> Result<(), ProvError> {
        let mut of: HashMap<(Kind, String), Vec<usize>> = HashMap::new();
        for (at, statement) in self.found.iter().enumerate() {
            if let Some(entity) = statement.place(0) {
                let key = (statement.kind, entity.to_owned());
                of.entry(key).or_default().push(at);
            }
        }
        for (subject, told) in subjects {
            for Told { property, value } in told {
                let kind = match property.strip_prefix(PROV) {
                    Some("generatedAtTime") => Kind::Generation,
                    Some("invalidatedAtTime") => Kind::Invalidation,
                    _ => continue,
                };
                let at = in_place(value, true, subject)?;
                let key = (kind, subject.clone());
                let those = of.entry(key).or_default();
                let time = |at: &usize| self.found.get(*at).and_then(|s| s.place(2));
                if those.iter().any(|s| time(s) == Some(&at)) {
                    continue;
                }
                let alone = match those.as_slice() {
                    [one] if time(one).is_none() => self.found.get_mut(*one),
                    _ => None,
                };
                if let Some(one) = alone {
                    one.places[2] = Some(at);
                    continue;
                }
                let mut statement = Statement::new(kind, None);
                statement.places = vec![Some(subject.clone()), None, Some(at)];
                those.push(self.found.len());
                self.found.push(statement);
            }
        }
        Ok(())
    }

    /// What things are by the relations that they are in.
    fn roles(&self) -> HashMap<String, Kind> {
        let mut roles = HashMap::new();
        for statement in &self.found {
            let places = statement.kind.form().places.iter();
            for ((_, slot), told) in places.zip(&statement.places) {
                let kind = match slot {
                    Slot::Entity => Kind::Entity,
                    Slot::Activity => Kind::Activity,
                    Slot::Agent => Kind::Agent,
                    _ => continue,
                };
                if let Some(told) = told {
                    roles.entry(told.clone()).or_insert(kind);
                }
            }
        }
        roles
    }

    fn element(
        &mut self,
        subject: &str,
        told: &[Told],
        roles: &HashMap<String, Kind>,
    ) -> Result<(), ProvError> {
        let mut kinds = BTreeSet::new();
        let mut attributes = Vec::new();
        let mut times = [None, None];
        let mut left_out = 0;
        for one in told {
            let Told { property, value } = one;
            let local = property.strip_prefix(PROV);
            if property == TYPE
                && let Value::Name(name) = value
                && let Some(local) = name.strip_prefix(PROV)
                && let Some((_, kind, alone)) = ELEMENTS.iter().find(|(c, ..)| *c == local)
            {
                kinds.insert(*kind);
                if !alone {
                    attributes.push((format!("{PROV}type"), value.clone()));
                }
                continue;
            }
            match local {
                Some("startedAtTime") => times[0] = Some(in_place(value, true, subject)?),
                Some("endedAtTime") => times[1] = Some(in_place(value, true, subject)?),
                Some("generatedAtTime" | "invalidatedAtTime" | "asInBundle") => {}
                Some(local) if is_relation(local) => {}
                _ => {
                    left_out += 1;
                    attributes.push((attribute(property), value.clone()));
                }
            }
        }
        if times.iter().any(Option::is_some) {
            kinds.insert(Kind::Activity);
        }
        if kinds.is_empty() && !attributes.is_empty() {
            kinds.extend(roles.get(subject));
        }
        if kinds.is_empty() {
            self.left_out += left_out;
        }
        // Of what is said of something that is several, the times are the activity's, and the rest goes to the first.
        let mut attributes = Some(attributes);
        for kind in [Kind::Activity, Kind::Entity, Kind::Agent] {
            if kinds.contains(&kind) {
                let mut statement = Statement::new(kind, Some(subject.to_owned()));
                if kind == Kind::Activity {
                    statement.places = times.to_vec();
                }
                statement.attributes = attributes.take().unwrap_or_default();
                self.found.push(statement);
            }
        }
        Ok(())
    }
}

/// Whether a property of PROV-O says a relation.
fn is_relation(local: &str) -> bool {
    local.starts_with("qualified")
        || Kind::of(local).is_some_and(|kind| !kind.is_element())
        || DERIVATIONS.iter().any(|(property, _)| *property == local)
        || TURNED.iter().any(|(property, _)| *property == local)
}

type Nodes<'a> = BTreeMap<&'a str, ((Kind, Option<&'static str>), BTreeSet<&'a str>)>;

/// The nodes that are relations, and what they belong to.
fn nodes(subjects: &Subjects) -> Nodes<'_> {
    let mut nodes: Nodes<'_> = BTreeMap::new();
    for (subject, told) in subjects {
        for Told { property, value } in told {
            let Value::Name(other) = value else { continue };
            let Some(local) = property.strip_prefix(PROV) else {
                if property == TYPE
                    && let Some(class) = other.strip_prefix(PROV).and_then(class)
                {
                    nodes.entry(subject).or_insert((class, BTreeSet::new())).0 = class;
                }
                continue;
            };
            let Some(class) = local.strip_prefix("qualified").and_then(class) else {
                continue;
            };
            let node = nodes.entry(other).or_insert((class, BTreeSet::new()));
            node.1.insert(subject);
            // `prov:Revision` says more than `prov:qualifiedDerivation`.
            if node.0.1.is_none() {
                node.0 = (class.0, class.1.or(node.0.1));
            }
        }
    }
    nodes
}

/// What a property says, if it says a relation.
fn relation(subject: &str, told: &Told, subjects: &Subjects) -> Option<Statement> {
    let local = told.property.strip_prefix(PROV)?;
    let Value::Name(other) = &told.value else {
        return None;
    };
    let (mut from, mut to) = (subject, other.as_str());
    let mut statement;
    if let Some((_, class)) = DERIVATIONS.iter().find(|(property, _)| *property == local) {
        statement = Statement::new(Kind::Derivation, None);
        let class = Value::Name(format!("{PROV}{class}"));
        statement.attributes.push((format!("{PROV}type"), class));
    } else if let Some((_, kind)) = TURNED.iter().find(|(property, _)| *property == local) {
        statement = Statement::new(*kind, None);
        (from, to) = (to, from);
    } else {
        let kind = Kind::of(local).filter(|kind| !kind.is_element())?;
        statement = Statement::new(kind, None);
    }
    statement.places[0] = Some(from.to_owned());
    statement.places[1] = Some(to.to_owned());
    if statement.kind == Kind::Mention {
        let all = subjects.get(subject)?.iter();
        let mut bundles = all.filter(|t| t.property.strip_prefix(PROV) == Some("asInBundle"));
        statement.places[2] = bundles.find_map(|t| match &t.value {
            Value::Name(name) => Some(name.clone()),
            Value::Literal { .. } => None,
        });
    }
    Some(statement)
}

/// What a relation is between.
fn ends(statement: &Statement) -> Option<(Kind, String, String)> {
    let (first, second) = (statement.place(0)?, statement.place(1)?);
    (!statement.kind.is_element()).then(|| (statement.kind, first.to_owned(), second.to_owned()))
}

/// A value as what stands in a statement's place.
fn in_place(value: &Value, is_time: bool, at: &str) -> Result<String, ProvError> {
    match value {
        Value::Name(name) if !is_time => Ok(name.clone()),
        Value::Literal { text, .. } if is_time => {
            time(text).ok_or_else(|| ProvError::new(at, no_time(text)))
        }
        // Some say names as literals.
        Value::Literal { text, datatype, .. } if datatype.strip_prefix(XSD) == Some("anyURI") => {
            Ok(text.clone())
        }
        Value::Name(_) => Err(ProvError::new(at, "expected a date and time, found a name")),
        Value::Literal { text, .. } => Err(ProvError::new(
            at,
            format!("expected a name, found \"{text}\""),
        )),
    }
}
