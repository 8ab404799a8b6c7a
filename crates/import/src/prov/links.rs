//! Which vertices and edges statements are.

use super::model::{Document, Kind, Slot, Statement};
use esker_model::{Schema, SchemaChange, SchemaError, VertexName, VertexTypeId};
use std::collections::{BTreeSet, HashMap};

/// An edge type for two places of a kind of statement.
#[derive(Debug, Clone, Copy)]
pub(super) struct Link {
    pub(super) kind: Kind,
    /// The places that it goes from and to.
    pub(super) ends: (usize, usize),
    pub(super) name: &'static str,
    /// What its inverse is called; nothing if every schema has it.
    inverse: Option<&'static str>,
}

const fn link(
    kind: Kind,
    ends: (usize, usize),
    name: &'static str,
    inverse: Option<&'static str>,
) -> Link {
    Link {
        kind,
        ends,
        name,
        inverse,
    }
}

/// The first of a kind whose ends are both known tells of the statement; the others say that it is there.
const LINKS: [Link; 17] = [
    link(Kind::Generation, (1, 0), "write", None),
    link(Kind::Usage, (0, 1), "read", None),
    link(
        Kind::Communication,
        (0, 1),
        "wasInformedBy",
        Some("informed"),
    ),
    link(Kind::Start, (0, 2), "wasStartedBy", Some("started")),
    link(Kind::Start, (0, 1), "wasTriggeredBy", Some("triggered")),
    link(Kind::End, (0, 2), "wasEndedBy", Some("ended")),
    link(Kind::End, (0, 1), "wasStoppedBy", Some("stopped")),
    link(
        Kind::Invalidation,
        (0, 1),
        "wasInvalidatedBy",
        Some("invalidated"),
    ),
    link(
        Kind::Derivation,
        (0, 1),
        "wasDerivedFrom",
        Some("hadDerivation"),
    ),
    link(
        Kind::Attribution,
        (0, 1),
        "wasAttributedTo",
        Some("hadAttribution"),
    ),
    link(Kind::Association, (1, 0), "run", None),
    link(Kind::Association, (0, 2), "exe", None),
    link(
        Kind::Delegation,
        (0, 1),
        "actedOnBehalfOf",
        Some("hadDelegate"),
    ),
    link(
        Kind::Specialization,
        (0, 1),
        "specializationOf",
        Some("generalizationOf"),
    ),
    link(Kind::Alternate, (0, 1), "alternateOf", Some("hadAlternate")),
    link(Kind::Membership, (0, 1), "has", None),
    link(Kind::Mention, (0, 1), "mentionOf", Some("hadMention")),
];

/// Root types by what an element is.
pub(super) const fn root(kind: Kind) -> &'static str {
    match kind {
        Kind::Activity => "Execution",
        Kind::Agent => "User",
        _ => "DataObject",
    }
}

/// What elements are in names of edge types.
const fn word(kind: Kind) -> &'static str {
    match kind {
        Kind::Activity => "activity",
        Kind::Agent => "agent",
        _ => "entity",
    }
}

/// The type of entities that are neither files nor vertices of this database: one of every schema, as nothing may have to do with them.
const ENTITY: &str = "DataObject";

/// The kinds of things, where a statement does not say it itself.
#[derive(Debug, Default)]
pub(super) struct Kinds<'a>(HashMap<&'a str, Kind>);

impl<'a> Kinds<'a> {
    pub(super) fn of(document: &'a Document) -> Self {
        let mut kinds = HashMap::new();
        // What is declared counts more than what follows from relations; of several kinds the first of PROV-DM's order.
        for (_, statement) in document.all() {
            if let Some(id) = statement
                .id
                .as_deref()
                .filter(|_| statement.kind.is_element())
            {
                let kind = kinds.entry(id).or_insert(statement.kind);
                *kind = (*kind).min(statement.kind);
            }
        }
        for (_, statement) in document.all() {
            for ((_, slot), place) in statement.kind.form().places.iter().zip(&statement.places) {
                if let (Some(kind), Some(place)) = (kind_of(*slot), place) {
                    kinds.entry(place).or_insert(kind);
                }
            }
        }
        Self(kinds)
    }

    /// What is in a place, if that is a vertex.
    pub(super) fn place(&self, statement: &Statement, at: usize) -> Option<Kind> {
        let place = statement.place(at)?;
        let (_, slot) = statement.kind.form().places.get(at)?;
        match slot {
            Slot::Any => Some(self.0.get(place).copied().unwrap_or(Kind::Entity)),
            slot => kind_of(*slot),
        }
    }
}

const fn kind_of(slot: Slot) -> Option<Kind> {
    match slot {
        Slot::Entity => Some(Kind::Entity),
        Slot::Activity => Some(Kind::Activity),
        Slot::Agent => Some(Kind::Agent),
        Slot::Any | Slot::Other | Slot::Time => None,
    }
}

/// An edge of a statement: its type's name, and the places of its ends with what is there.
pub(super) type EdgeOf = (String, (usize, Kind), (usize, Kind));

/// The edges of a relation, the one that tells of it first.
pub(super) fn edges(statement: &Statement, kinds: &Kinds<'_>) -> Vec<EdgeOf> {
    let ends = |(from, to): (usize, usize)| {
        let from = (from, kinds.place(statement, from)?);
        Some((from, (to, kinds.place(statement, to)?)))
    };
    if statement.kind == Kind::Influence {
        let both = ends((0, 1)).into_iter();
        return both.map(|(a, b)| (influence(a.1, b.1), a, b)).collect();
    }
    let those = LINKS.iter().filter(|link| link.kind == statement.kind);
    those
        .filter_map(|link| ends(link.ends).map(|(a, b)| (link.name.to_owned(), a, b)))
        .collect()
}

fn influence(from: Kind, to: Kind) -> String {
    let to = word(to);
    let (first, rest) = to.split_at(1);
    format!("{}InfluencedBy{}{rest}", word(from), first.to_uppercase())
}

/// What a default schema has to learn before it can take a document. Making these changes again changes nothing.
pub fn changes(document: &Document) -> Vec<SchemaChange> {
    let kinds = Kinds::of(document);
    let mut changes = Vec::new();
    let mut seen = BTreeSet::new();
    for (_, statement) in document.all() {
        for (name, (_, from), (_, to)) in edges(statement, &kinds) {
            let mut same = LINKS.iter().filter(|link| link.name == name);
            let inverse = match same.next() {
                Some(link) => link.inverse.map(str::to_owned),
                None => Some(format!("{name}-inverse")),
            };
            if let Some(inverse) = inverse.filter(|_| seen.insert(name.clone())) {
                changes.push(SchemaChange::EdgeType {
                    name,
                    inverse,
                    source: root(from).to_owned(),
                    destination: root(to).to_owned(),
                });
            }
        }
    }
    changes
}

/// Whether a schema has all that a document needs.
///
/// # Errors
/// What it lacks first.
pub fn known(document: &Document, schema: &Schema) -> Result<(), SchemaError> {
    for change in changes(document) {
        if let SchemaChange::EdgeType { name, .. } = change {
            schema.edge_type_id(&name)?;
        }
    }
    Ok(())
}

/// The vertex that an IRI names as an element of that kind.
pub(super) fn name(kind: Kind, iri: &str, schema: &Schema) -> VertexName {
    if let Some(name) = own(kind, iri, schema) {
        return name;
    }
    let of = |type_name: &str, key: &str| VertexName {
        type_name: type_name.to_owned(),
        key: key.to_owned(),
    };
    match kind {
        Kind::Activity => of("Execution", iri),
        Kind::Agent => of("User", iri),
        _ => match path(iri) {
            Some(path) => match path.strip_suffix('/') {
                Some(folder) if !folder.is_empty() => of("Directory", folder),
                _ => of("File", &path),
            },
            None => of(ENTITY, iri),
        },
    }
}

/// The path of a file's IRI.
fn path(iri: &str) -> Option<String> {
    let rest = iri.strip_prefix("file://")?;
    let rest = rest.strip_prefix("localhost").unwrap_or(rest);
    let path = esker_model::iri::unescape(rest)?;
    (path.starts_with('/') && path.len() > 1).then_some(path)
}

/// Whether a vertex of this database is meant: then the IRI says no more than its name does.
pub(super) fn is_own(kind: Kind, iri: &str, schema: &Schema) -> bool {
    own(kind, iri, schema).is_some()
}

fn own(kind: Kind, iri: &str, schema: &Schema) -> Option<VertexName> {
    let (prefix, key) = esker_model::iri::parse(iri)?;
    let root = schema.vertex_type_id(root(kind)).ok()?;
    let mut types = schema.vertex_types();
    let (_, found) = types.find(|(id, definition)| {
        definition.name.eq_ignore_ascii_case(&prefix) && schema.is_a(*id, root)
    })?;
    Some(VertexName {
        type_name: found.name.clone(),
        key,
    })
}

/// The relation that an edge of every schema says, and whether it goes from the statement's second place to its first.
pub(super) fn native(
    schema: &Schema,
    edge: &str,
    ends: (VertexTypeId, VertexTypeId),
) -> Option<(Kind, (usize, usize))> {
    let is = |id: VertexTypeId, name: &str| schema.vertex_type_id(name).is_ok_and(|t| t == id);
    let link = LINKS.iter().find(|link| link.name == edge)?;
    let places = link.kind.form().places;
    let fits = |at: usize, id| {
        let slot = places.get(at).map(|(_, slot)| *slot);
        slot.and_then(kind_of)
            .is_some_and(|kind| is(id, root(kind)))
    };
    (fits(link.ends.0, ends.0) && fits(link.ends.1, ends.1)).then_some((link.kind, link.ends))
}
