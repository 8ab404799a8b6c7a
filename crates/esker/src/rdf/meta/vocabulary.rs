//! Vocabulary of the metadata graph: IRIs of types, edge types and attributes, and their equivalents in PROV-O.

use super::terms::{ATTRIBUTES, DCTERMS, EDGES, LISTS, ORG, PROV, RDF, RDFS, TERMS, TYPES, iri};
use esker_model::key::EdgeKey;
use esker_model::{EdgeTypeId, Schema, VertexTypeId};
use esker_rdf::Result;
use esker_rdf::dictionary::{Dictionary, Key};
use esker_rdf::id::Id;
use std::collections::{HashMap, HashSet};

/// PROV-O class of a vertex type.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum ProvClass {
    Agent,
    Activity,
    Entity,
    Collection,
}

/// Equivalent of an edge type in PROV-O or another vocabulary.
#[derive(Debug, Clone, Copy)]
struct Meaning {
    /// Prefix and name of the property.
    property: (&'static str, &'static str),
    /// Whether the property goes from the destination to the source.
    turned: bool,
    /// The qualified form: property, class, and the property from it to the other end.
    qualified: Option<(&'static str, &'static str, &'static str)>,
}

const USED: Meaning = Meaning {
    property: (PROV, "used"),
    turned: false,
    qualified: Some(("qualifiedUsage", "Usage", "entity")),
};

/// Edge types of the default schema: name, source, destination, equivalent.
const MEANINGS: [(&str, &str, &str, Meaning); 7] = [
    ("read", "Execution", "DataObject", USED),
    ("exe", "Execution", "DataObject", USED),
    (
        "write",
        "Execution",
        "DataObject",
        Meaning {
            property: (PROV, "wasGeneratedBy"),
            turned: true,
            qualified: Some(("qualifiedGeneration", "Generation", "activity")),
        },
    ),
    (
        "run",
        "User",
        "Execution",
        Meaning {
            property: (PROV, "wasAssociatedWith"),
            turned: true,
            qualified: Some(("qualifiedAssociation", "Association", "agent")),
        },
    ),
    (
        "belongs",
        "Execution",
        "Execution",
        Meaning {
            property: (DCTERMS, "isPartOf"),
            turned: false,
            qualified: None,
        },
    ),
    (
        "has",
        "DataObject",
        "DataObject",
        Meaning {
            property: (PROV, "hadMember"),
            turned: false,
            qualified: None,
        },
    ),
    (
        "memberOf",
        "User",
        "Group",
        Meaning {
            property: (ORG, "memberOf"),
            turned: false,
            qualified: None,
        },
    ),
];

/// PROV-O class of a built-in type.
fn part_of_builtin(name: &str) -> Option<ProvClass> {
    Some(match name {
        "User" | "Group" => ProvClass::Agent,
        "Execution" | "Job" | "Process" => ProvClass::Activity,
        "Directory" => ProvClass::Collection,
        "DataObject" | "File" | "Executable" | "Object" => ProvClass::Entity,
        _ => return None,
    })
}

/// PROV-O class of a type: that of its nearest built-in ancestor.
pub(super) fn part(schema: &Schema, type_id: VertexTypeId) -> Option<ProvClass> {
    let mut next = Some(type_id);
    while let Some(definition) = next.and_then(|t| schema.vertex_type(t)) {
        if definition.builtin {
            return part_of_builtin(&definition.name);
        }
        next = definition.parent;
    }
    None
}

fn meaning(schema: &Schema, edge_type: EdgeTypeId) -> Option<Meaning> {
    let definition = schema.edge_type(edge_type)?;
    let is = |t: VertexTypeId, name: &str| {
        schema
            .vertex_type(t)
            .is_some_and(|t| t.builtin && t.name == name)
    };
    MEANINGS
        .iter()
        .find(|(name, source, destination, _)| {
            definition.name == *name
                && is(definition.source, source)
                && is(definition.destination, destination)
        })
        .map(|m| m.3)
}

/// Term numbers of the vocabulary that the mapping uses.
#[derive(Debug, Clone)]
pub(super) struct Vocabulary {
    pub(super) graph: Id,
    pub(super) specialization: Id,
    pub(super) rdf_type: Id,
    pub(super) label: Id,
    pub(super) path: Id,
    pub(super) changed: Id,
    pub(super) removed: Id,
    pub(super) generated: Id,
    pub(super) invalidated: Id,
    pub(super) revision: Id,
    pub(super) started: Id,
    pub(super) ended: Id,
    pub(super) version_class: Id,
    pub(super) statement: Id,
    pub(super) subject: Id,
    pub(super) predicate: Id,
    pub(super) object: Id,
    pub(super) inode: InodeTerms,
    pub(super) types: Vec<TypeTerms>,
    pub(super) edges: Vec<Option<EdgeTerms>>,
    pub(super) attributes: HashMap<String, Id>,
    pub(super) lists: HashMap<String, Id>,
    /// Predicates that only edges produce.
    pub(super) of_edges: HashSet<Id>,
}

/// Term numbers of the properties of files.
#[derive(Debug, Clone, Copy)]
pub(super) struct InodeTerms {
    pub(super) kind: Id,
    pub(super) mode: Id,
    pub(super) owner: Id,
    pub(super) group: Id,
    pub(super) size: Id,
    pub(super) links: Id,
    pub(super) modified: Id,
    pub(super) status_changed: Id,
    pub(super) target: Id,
}

#[derive(Debug, Clone, Default)]
pub(super) struct TypeTerms {
    pub(super) prefix: String,
    pub(super) classes: Vec<Id>,
    pub(super) part: Option<ProvClass>,
    /// Whether the vertices of the type are named by paths.
    pub(super) file: bool,
}

#[derive(Debug, Clone)]
pub(super) struct EdgeTerms {
    pub(super) own: Id,
    pub(super) symmetric: bool,
    pub(super) prov: Option<(Id, bool)>,
    pub(super) qualified: Option<(Id, Id, Id)>,
    pub(super) name: String,
}

impl Vocabulary {
    /// Looks up all terms for a schema.
    pub(super) fn new(schema: &Schema, terms: &mut Dictionary) -> Result<Self> {
        let mut word = |prefix: &str, name: &str| terms.intern(&Key::Iri(&iri(prefix, name)));
        let mut of_edges = HashSet::new();
        let mut types = Vec::new();
        for (id, definition) in schema.vertex_types() {
            let part = part(schema, id);
            let mut classes = vec![word(TYPES, &definition.name)?];
            classes.extend(match part {
                None => Vec::new(),
                Some(ProvClass::Agent) => vec![word(PROV, "Agent")?],
                Some(ProvClass::Activity) => vec![word(PROV, "Activity")?],
                Some(ProvClass::Entity) => vec![word(PROV, "Entity")?],
                Some(ProvClass::Collection) => {
                    vec![word(PROV, "Entity")?, word(PROV, "Collection")?]
                }
            });
            let index = usize::from(id.0);
            types.resize_with(types.len().max(index + 1), TypeTerms::default);
            types[index] = TypeTerms {
                prefix: schema.prefix(id),
                classes,
                part,
                file: is_file(schema, id),
            };
        }
        let mut edges = Vec::new();
        for (id, definition) in schema.edge_types() {
            let symmetric = definition.inverse == id;
            let vocabulary = if definition.forward || symmetric {
                let meaning = meaning(schema, id);
                let own = word(EDGES, &definition.name)?;
                of_edges.insert(own);
                let mut qualified = None;
                let mut prov = None;
                if let Some(m) = meaning {
                    let property = word(m.property.0, m.property.1)?;
                    of_edges.insert(property);
                    prov = Some((property, m.turned));
                    if let Some((property, class, end)) = m.qualified {
                        let property = word(PROV, property)?;
                        of_edges.insert(property);
                        qualified = Some((property, word(PROV, class)?, word(PROV, end)?));
                    }
                }
                Some(EdgeTerms {
                    own,
                    symmetric,
                    prov,
                    qualified,
                    name: definition.name.clone(),
                })
            } else {
                None
            };
            let index = usize::from(id.0);
            edges.resize_with(edges.len().max(index + 1), || None);
            edges[index] = vocabulary;
        }
        Ok(Self {
            graph: word("", super::GRAPH)?,
            specialization: word(PROV, "specializationOf")?,
            rdf_type: word(RDF, "type")?,
            label: word(RDFS, "label")?,
            path: word(TERMS, "path")?,
            changed: word(TERMS, "changed")?,
            removed: word(TERMS, "removed")?,
            generated: word(PROV, "generatedAtTime")?,
            invalidated: word(PROV, "invalidatedAtTime")?,
            revision: word(PROV, "wasRevisionOf")?,
            started: word(PROV, "startedAtTime")?,
            ended: word(PROV, "endedAtTime")?,
            version_class: word(TERMS, "Version")?,
            statement: word(RDF, "Statement")?,
            subject: word(RDF, "subject")?,
            predicate: word(RDF, "predicate")?,
            object: word(RDF, "object")?,
            inode: InodeTerms {
                kind: word(TERMS, "kind")?,
                mode: word(TERMS, "mode")?,
                owner: word(TERMS, "owner")?,
                group: word(TERMS, "group")?,
                size: word(TERMS, "size")?,
                links: word(TERMS, "links")?,
                modified: word(DCTERMS, "modified")?,
                status_changed: word(TERMS, "statusChanged")?,
                target: word(TERMS, "target")?,
            },
            types,
            edges,
            attributes: HashMap::new(),
            lists: HashMap::new(),
            of_edges,
        })
    }

    /// Part before the colon in the names of vertices of a type.
    pub(super) fn prefix(&self, type_id: VertexTypeId) -> &str {
        self.types
            .get(usize::from(type_id.0))
            .map_or("", |t| t.prefix.as_str())
    }

    /// Whether vertices of the type are named by paths.
    pub(super) fn is_file(&self, type_id: VertexTypeId) -> bool {
        self.types
            .get(usize::from(type_id.0))
            .is_some_and(|t| t.file)
    }

    /// The edge types that are mapped, in their mapped direction.
    pub(super) fn edge_types(&self) -> Vec<EdgeTypeId> {
        (0..)
            .zip(&self.edges)
            .filter(|(_, e)| e.is_some())
            .map(|(n, _)| EdgeTypeId(n))
            .collect()
    }

    /// The key of an edge in its mapped direction.
    pub(super) fn forward(&self, schema: &Schema, key: EdgeKey) -> Option<EdgeKey> {
        let of = |t: EdgeTypeId| self.edges.get(usize::from(t.0))?.as_ref();
        match of(key.edge_type) {
            Some(e) if e.symmetric && key.source > key.destination => {
                Some(key.reversed(key.edge_type))
            }
            Some(_) => Some(key),
            None => {
                let key = key.reversed(schema.inverse(key.edge_type));
                of(key.edge_type).map(|_| key)
            }
        }
    }

    pub(super) fn edge(&self, edge_type: EdgeTypeId) -> Option<&EdgeTerms> {
        self.edges.get(usize::from(edge_type.0))?.as_ref()
    }

    /// Term number of an attribute's IRI.
    pub(super) fn attribute(&mut self, terms: &mut Dictionary, name: &str) -> Result<Id> {
        if let Some(id) = self.attributes.get(name) {
            return Ok(*id);
        }
        let id = terms.intern(&Key::Iri(&iri(ATTRIBUTES, name)))?;
        self.attributes.insert(name.to_owned(), id);
        Ok(id)
    }

    pub(super) fn list(&mut self, terms: &mut Dictionary, name: &str) -> Result<Id> {
        if let Some(id) = self.lists.get(name) {
            return Ok(*id);
        }
        let id = terms.intern(&Key::Iri(&iri(LISTS, name)))?;
        self.lists.insert(name.to_owned(), id);
        Ok(id)
    }
}

/// Whether vertices of a type are named by paths of the namespace.
fn is_file(schema: &Schema, type_id: VertexTypeId) -> bool {
    schema
        .vertex_type(type_id)
        .is_some_and(|t| t.builtin && ["File", "Directory"].contains(&t.name.as_str()))
}

/// Edge types that imply a PROV property, each with whether the direction is reversed.
pub(super) fn same_meaning(
    vocabulary: &Vocabulary,
    property: Id,
) -> impl Iterator<Item = (&EdgeTerms, bool)> + '_ {
    vocabulary.edges.iter().flatten().filter_map(move |e| {
        let (p, turned) = e.prov?;
        (p == property).then_some((e, turned))
    })
}

impl EdgeTerms {
    /// The triples that follow from an edge's key alone, without those of its node.
    pub(super) fn triples(&self, s: Id, o: Id) -> Vec<(Id, Id, Id)> {
        let mut all = vec![(s, self.own, o)];
        if self.symmetric {
            all.push((o, self.own, s));
        }
        if let Some((property, turned)) = self.prov {
            all.push(if turned {
                (o, property, s)
            } else {
                (s, property, o)
            });
        }
        all
    }

    /// The property that leads to the edge's node.
    pub(super) const fn qualified_by(&self) -> Option<Id> {
        match self.qualified {
            Some((property, _, _)) => Some(property),
            None => None,
        }
    }
}
