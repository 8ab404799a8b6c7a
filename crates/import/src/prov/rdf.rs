//! Reader of PROV-O (W3C Recommendation of 2013-04-30): Turtle, N-Triples and JSON-LD, with graphs as bundles.
//!
//! A relation is a property between two things, or a node of its own at `prov:qualified…` with more detail. A document may have both for
//! one relation: a property that only repeats a node is not a separate statement.

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

/// RDF syntax of a document.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Syntax {
    /// `TriG`, including Turtle.
    TriG,
    /// N-Quads, including N-Triples.
    NQuads,
    /// JSON-LD.
    JsonLd,
}

/// Classes of PROV-O that make something an element, with its kind, and whether the class is that kind itself.
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

/// Named kinds of derivations: property, class.
const DERIVATIONS: [(&str, &str); 3] = [
    ("wasRevisionOf", "Revision"),
    ("wasQuotedFrom", "Quotation"),
    ("hadPrimarySource", "PrimarySource"),
];

/// Properties that state a relation in reverse.
const TURNED: [(&str, Kind); 3] = [
    ("generated", Kind::Generation),
    ("invalidated", Kind::Invalidation),
    ("influenced", Kind::Influence),
];

/// Kinds for which old versions of the package `prov` write nodes without the target of the relation.
const LACKING: [Kind; 5] = [
    Kind::Association,
    Kind::Attribution,
    Kind::Communication,
    Kind::Delegation,
    Kind::Influence,
];

/// Superclasses of the classes of relations.
const ABOVE: [&str; 5] = [
    "Influence",
    "EntityInfluence",
    "ActivityInfluence",
    "AgentInfluence",
    "InstantaneousEvent",
];

/// Returns the kind of a class's nodes, and the class name if it is a kind of derivation.
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

/// Returns the property of a relation's node for one of its positions; the first position is the owner of the node.
pub(super) fn property(kind: Kind, at: usize) -> &'static str {
    match (kind, at) {
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

/// Returns the position of a property of a relation's node.
fn argument_index(kind: Kind, local: &str) -> Option<usize> {
    let arguments = kind.form().arguments.len();
    let found = (1..arguments).find(|argument| property(kind, *argument) == local);
    let timed = kind
        .form()
        .arguments
        .last()
        .is_some_and(|(_, slot)| *slot == Slot::Time);
    found.or(match local {
        "influencer" => Some(1),
        "entity" | "activity" | "agent" if kind == Kind::Influence => Some(1),
        "startedAtTime" | "endedAtTime" if timed => Some(arguments - 1),
        _ => None,
    })
}

/// Returns an attribute's name in the other encodings.
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

/// A property of a subject with its value.
#[derive(Debug, Clone)]
struct PropertyValue {
    property: String,
    value: Value,
}

type Subjects = BTreeMap<String, Vec<PropertyValue>>;

/// Reads a document.
///
/// # Errors
/// Fails with the location if the text is not PROV-O.
pub(super) fn read(text: &str, syntax: Syntax) -> Result<Document, ProvError> {
    let mut blanks = Blanks {
        begin: skolem(text),
        numbers: HashMap::new(),
    };
    let mut graphs: BTreeMap<Option<String>, Subjects> = BTreeMap::new();
    let (quads, prefixes) = quads(text, syntax)?;
    for quad in quads {
        let graph = match &quad.graph_name {
            // An unnamed graph is not a bundle; rdflib writes the default graph of JSON-LD that way.
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
            oxrdf::Term::Triple(_) => {
                return Err(ProvError::new(
                    "",
                    "statements about statements are not part of PROV-O",
                ));
            }
        };
        let property = quad.predicate.as_str().to_owned();
        let subjects = graphs.entry(graph).or_default();
        subjects
            .entry(subject)
            .or_default()
            .push(PropertyValue { property, value });
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
            "this says nothing about provenance: it has {triples} other triples, and none of PROV-O's"
        );
        return Err(ProvError::new("", what));
    }
    Ok(document)
}

/// Repairs JSON-LD of rdflib, which writes literals as types where JSON-LD allows only names. `None` if nothing was changed.
fn repaired(text: &str) -> Option<String> {
    fn repair_in(json: &mut Json) -> bool {
        let mut changed = false;
        match json {
            Json::Array(items) => items.iter_mut().for_each(|item| changed |= repair_in(item)),
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
                object
                    .values_mut()
                    .for_each(|value| changed |= repair_in(value));
            }
            _ => {}
        }
        changed
    }
    let mut json: Json = serde_json::from_str(text).ok()?;
    repair_in(&mut json).then(|| json.to_string())
}

/// Quads, and prefixes with their namespaces.
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
            let repaired = repaired(text);
            let text = repaired.map_or(Cow::Borrowed(text), Cow::Owned);
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
    // The library's message already contains the position.
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

/// Names of blank nodes: numbered in order, so that reading again gives the same names.
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
            let stated = subjects.get(*node).map_or(&[] as &[_], Vec::as_slice);
            self.node(node, *kind, owners, stated)?;
        }
        // Statements with more detail first, so that repetitions of them are recognized.
        let mut plain = Vec::new();
        for (subject, stated) in &subjects {
            for stated in stated {
                if let Some(statement) = relation(subject, stated, &subjects) {
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
        self.event_times(&subjects)?;
        let roles = self.roles();
        for (subject, stated) in &subjects {
            if !nodes.contains_key(subject.as_str()) {
                self.element(subject, stated, &roles)?;
            }
        }
        Ok(())
    }

    /// Combines incomplete nodes with properties: some programs write the target of a relation only as a property, and everything else only
    /// on its node. Applies if a subject has exactly one of each.
    fn complete(&mut self, plain: &mut Vec<(bool, Statement)>) {
        let key = |s: &Statement| Some((s.kind, s.argument(0)?.to_owned()));
        let mut lacking: BTreeMap<_, Vec<usize>> = BTreeMap::new();
        for (at, statement) in self.found.iter().enumerate() {
            let open = statement.argument(1).is_none() && LACKING.contains(&statement.kind);
            if let Some(key) = key(statement).filter(|_| open) {
                lacking.entry(key).or_default().push(at);
            }
        }
        let mut stated: BTreeMap<_, usize> = BTreeMap::new();
        for (_, statement) in plain.iter() {
            *stated.entry(key(statement)).or_default() += 1;
        }
        plain.retain(|(_, statement)| {
            let of = key(statement);
            let alone = stated.get(&of) == Some(&1);
            let node = match of.and_then(|of| lacking.get(&of)).map(Vec::as_slice) {
                Some([node]) if alone => self.found.get_mut(*node),
                _ => None,
            };
            let Some(node) = node else { return true };
            node.arguments[1].clone_from(&statement.arguments[1]);
            node.attributes.extend(statement.attributes.iter().cloned());
            false
        });
    }

    /// Adds the statements of a relation's node.
    fn node(
        &mut self,
        node: &str,
        (kind, subclass): (Kind, Option<&'static str>),
        owners: &BTreeSet<&str>,
        stated: &[PropertyValue],
    ) -> Result<(), ProvError> {
        let id = (!node.starts_with(self.blank)).then(|| node.to_owned());
        let mut first = Statement::new(kind, id);
        let own =
            |class: &'static str| (format!("{PROV}type"), Value::Name(format!("{PROV}{class}")));
        first.attributes.extend(subclass.map(own));
        let mut arguments: Vec<Vec<String>> = vec![Vec::new(); first.arguments.len()];
        if let Some(argument) = arguments.first_mut() {
            argument.extend(owners.iter().map(|o| (*o).to_owned()));
        }
        for PropertyValue { property, value } in stated {
            let local = property.strip_prefix(PROV).unwrap_or_default();
            if let Some(at) = argument_index(kind, local) {
                let takes = kind.form().arguments.get(at);
                let is_time = takes.is_some_and(|(_, slot)| *slot == Slot::Time);
                let stated = in_place(value, is_time, node)?;
                if let Some(argument) = arguments.get_mut(at).filter(|p| !p.contains(&stated)) {
                    argument.push(stated);
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
        for (at, values) in arguments.into_iter().enumerate() {
            if all.len().saturating_mul(values.len().max(1)) > 10_000 {
                return Err(ProvError::new(
                    node,
                    "states more than 10,000 relations at once",
                ));
            }
            let mut more = Vec::new();
            for value in values {
                more.extend(all.iter().cloned().map(|mut statement| {
                    if let Some(argument) = statement.arguments.get_mut(at) {
                        *argument = Some(value.clone());
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

    /// Reads `prov:generatedAtTime` and `prov:invalidatedAtTime`: the time of the only such relation, or a relation with only a time.
    fn event_times(&mut self, subjects: &Subjects) -> Result<(), ProvError> {
        let mut of: HashMap<(Kind, String), Vec<usize>> = HashMap::new();
        for (at, statement) in self.found.iter().enumerate() {
            if let Some(entity) = statement.argument(0) {
                let key = (statement.kind, entity.to_owned());
                of.entry(key).or_default().push(at);
            }
        }
        for (subject, stated) in subjects {
            for PropertyValue { property, value } in stated {
                let kind = match property.strip_prefix(PROV) {
                    Some("generatedAtTime") => Kind::Generation,
                    Some("invalidatedAtTime") => Kind::Invalidation,
                    _ => continue,
                };
                let at = in_place(value, true, subject)?;
                let key = (kind, subject.clone());
                let those = of.entry(key).or_default();
                let time = |at: &usize| self.found.get(*at).and_then(|s| s.argument(2));
                if those.iter().any(|s| time(s) == Some(&at)) {
                    continue;
                }
                let alone = match those.as_slice() {
                    [one] if time(one).is_none() => self.found.get_mut(*one),
                    _ => None,
                };
                if let Some(one) = alone {
                    one.arguments[2] = Some(at);
                    continue;
                }
                let mut statement = Statement::new(kind, None);
                statement.arguments = vec![Some(subject.clone()), None, Some(at)];
                those.push(self.found.len());
                self.found.push(statement);
            }
        }
        Ok(())
    }

    /// Returns the kinds of things implied by their relations.
    fn roles(&self) -> HashMap<String, Kind> {
        let mut roles = HashMap::new();
        for statement in &self.found {
            let arguments = statement.kind.form().arguments.iter();
            for ((_, slot), stated) in arguments.zip(&statement.arguments) {
                let kind = match slot {
                    Slot::Entity => Kind::Entity,
                    Slot::Activity => Kind::Activity,
                    Slot::Agent => Kind::Agent,
                    _ => continue,
                };
                if let Some(stated) = stated {
                    roles.entry(stated.clone()).or_insert(kind);
                }
            }
        }
        roles
    }

    fn element(
        &mut self,
        subject: &str,
        stated: &[PropertyValue],
        roles: &HashMap<String, Kind>,
    ) -> Result<(), ProvError> {
        let mut kinds = BTreeSet::new();
        let mut attributes = Vec::new();
        let mut times = [None, None];
        let mut left_out = 0;
        for one in stated {
            let PropertyValue { property, value } = one;
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
        // For a thing with several kinds, the times belong to the activity, and everything else to the first kind.
        let mut attributes = Some(attributes);
        for kind in [Kind::Activity, Kind::Entity, Kind::Agent] {
            if kinds.contains(&kind) {
                let mut statement = Statement::new(kind, Some(subject.to_owned()));
                if kind == Kind::Activity {
                    statement.arguments = times.to_vec();
                }
                statement.attributes = attributes.take().unwrap_or_default();
                self.found.push(statement);
            }
        }
        Ok(())
    }
}

/// Returns whether a property of PROV-O states a relation.
fn is_relation(local: &str) -> bool {
    local.starts_with("qualified")
        || Kind::of(local).is_some_and(|kind| !kind.is_element())
        || DERIVATIONS.iter().any(|(property, _)| *property == local)
        || TURNED.iter().any(|(property, _)| *property == local)
}

type Nodes<'a> = BTreeMap<&'a str, ((Kind, Option<&'static str>), BTreeSet<&'a str>)>;

/// Returns the nodes that are relations, and their owners.
fn nodes(subjects: &Subjects) -> Nodes<'_> {
    let mut nodes: Nodes<'_> = BTreeMap::new();
    for (subject, stated) in subjects {
        for PropertyValue { property, value } in stated {
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
            // `prov:Revision` is more specific than `prov:qualifiedDerivation`.
            if node.0.1.is_none() {
                node.0 = (class.0, class.1.or(node.0.1));
            }
        }
    }
    nodes
}

/// Returns the relation that a property states, if any.
fn relation(subject: &str, stated: &PropertyValue, subjects: &Subjects) -> Option<Statement> {
    let local = stated.property.strip_prefix(PROV)?;
    let Value::Name(other) = &stated.value else {
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
    statement.arguments[0] = Some(from.to_owned());
    statement.arguments[1] = Some(to.to_owned());
    if statement.kind == Kind::Mention {
        let all = subjects.get(subject)?.iter();
        let mut bundles = all.filter(|t| t.property.strip_prefix(PROV) == Some("asInBundle"));
        statement.arguments[2] = bundles.find_map(|t| match &t.value {
            Value::Name(name) => Some(name.clone()),
            Value::Literal { .. } => None,
        });
    }
    Some(statement)
}

/// Returns the ends of a relation.
fn ends(statement: &Statement) -> Option<(Kind, String, String)> {
    let (first, second) = (statement.argument(0)?, statement.argument(1)?);
    (!statement.kind.is_element()).then(|| (statement.kind, first.to_owned(), second.to_owned()))
}

/// Converts a value to the value of a statement's position.
fn in_place(value: &Value, is_time: bool, at: &str) -> Result<String, ProvError> {
    match value {
        Value::Name(name) if !is_time => Ok(name.clone()),
        Value::Literal { text, .. } if is_time => {
            time(text).ok_or_else(|| ProvError::new(at, no_time(text)))
        }
        // Some documents write names as literals.
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
