//! Mapping between statements and vertices and edges.

use super::model::{Document, Kind, Slot, Statement};
use esker_model::{Schema, SchemaChange, SchemaError, VertexName, VertexTypeId};
use std::collections::{BTreeSet, HashMap};

/// An edge type for two positions of a kind of statement.
#[derive(Debug, Clone, Copy)]
pub(super) struct Link {
    pub(super) kind: Kind,
    /// Positions of the source and the destination.
    pub(super) ends: (usize, usize),
    pub(super) name: &'static str,
    /// Name of the inverse; `None` if every schema has it.
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

/// The first link of a kind whose ends are both known carries the statement; the others only exist.
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

/// Returns the root vertex type of a kind of element.
pub(super) const fn root(kind: Kind) -> &'static str {
    match kind {
        Kind::Activity => "Execution",
        Kind::Agent => "User",
        _ => "DataObject",
    }
}

/// Returns the word for a kind of element in names of edge types.
const fn word(kind: Kind) -> &'static str {
    match kind {
        Kind::Activity => "activity",
        Kind::Agent => "agent",
        _ => "entity",
    }
}

/// Type of entities that are neither files nor vertices of this database: a type of every schema, because any relation may apply to them.
const ENTITY: &str = "DataObject";

/// Kinds of things whose kind a statement does not determine.
#[derive(Debug, Default)]
pub(super) struct Kinds<'a>(HashMap<&'a str, Kind>);

impl<'a> Kinds<'a> {
    pub(super) fn of(document: &'a Document) -> Self {
        let mut kinds = HashMap::new();
        // Declarations take precedence over relations; of several kinds the first in PROV-DM's order is used.
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
            for ((_, slot), argument) in statement
                .kind
                .form()
                .arguments
                .iter()
                .zip(&statement.arguments)
            {
                if let (Some(kind), Some(argument)) = (kind_of(*slot), argument) {
                    kinds.entry(argument).or_insert(kind);
                }
            }
        }
        Self(kinds)
    }

    /// Returns the kind of the element at a position, if it is a vertex.
    pub(super) fn kind_at(&self, statement: &Statement, at: usize) -> Option<Kind> {
        let argument = statement.argument(at)?;
        let (_, slot) = statement.kind.form().arguments.get(at)?;
        match slot {
            Slot::Any => Some(self.0.get(argument).copied().unwrap_or(Kind::Entity)),
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

/// An edge of a statement: its type's name, and the positions and kinds of its ends.
pub(super) type EdgeOf = (String, (usize, Kind), (usize, Kind));

/// Returns the edges of a relation, first the one that carries the statement.
pub(super) fn edges(statement: &Statement, kinds: &Kinds<'_>) -> Vec<EdgeOf> {
    let ends = |(from, to): (usize, usize)| {
        let from = (from, kinds.kind_at(statement, from)?);
        Some((from, (to, kinds.kind_at(statement, to)?)))
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

/// Returns the schema changes that a default schema requires for a document. Applying them again has no effect.
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

/// Checks that a schema has everything that a document requires.
///
/// # Errors
/// Fails with the first missing type.
pub fn check_schema(document: &Document, schema: &Schema) -> Result<(), SchemaError> {
    for change in changes(document) {
        if let SchemaChange::EdgeType { name, .. } = change {
            schema.edge_type_id(&name)?;
        }
    }
    Ok(())
}

/// Returns the vertex that an IRI names as an element of a kind.
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

/// Returns the path in a file's IRI.
fn path(iri: &str) -> Option<String> {
    let rest = iri.strip_prefix("file://")?;
    let rest = rest.strip_prefix("localhost").unwrap_or(rest);
    let path = esker_model::iri::unescape(rest)?;
    (path.starts_with('/') && path.len() > 1).then_some(path)
}

/// Returns whether an IRI names a vertex of this database; then the IRI adds nothing to its name.
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

/// Returns the relation that an edge of every schema represents, and the positions of its source and destination.
pub(super) fn native(
    schema: &Schema,
    edge: &str,
    ends: (VertexTypeId, VertexTypeId),
) -> Option<(Kind, (usize, usize))> {
    let is = |id: VertexTypeId, name: &str| schema.vertex_type_id(name).is_ok_and(|t| t == id);
    let link = LINKS.iter().find(|link| link.name == edge)?;
    let arguments = link.kind.form().arguments;
    let fits = |at: usize, id| {
        let slot = arguments.get(at).map(|(_, slot)| *slot);
        slot.and_then(kind_of)
            .is_some_and(|kind| is(id, root(kind)))
    };
    (fits(link.ends.0, ends.0) && fits(link.ends.1, ends.1)).then_some((link.kind, link.ends))
}
