//! A small test graph: few vertices of built-in and user-defined types and few edge types, so that random operations collide.

use crate::history::START_MILLIS;
use crate::rng::Rng;
use esker_model::{
    AttributeDefinition, EdgeKey, EdgeTypeId, Schema, SchemaChange, ValueKind, Version, VertexId,
    VertexName, VertexRef,
};

/// Returns the types that the test graph adds to the default schema.
pub fn schema_changes() -> Vec<SchemaChange> {
    let edge_type =
        |name: &str, inverse: &str, source: &str, destination: &str| SchemaChange::EdgeType {
            name: name.into(),
            inverse: inverse.into(),
            source: source.into(),
            destination: destination.into(),
        };
    vec![
        SchemaChange::VertexType {
            name: "Campaign".into(),
            parent: None,
            attributes: vec![AttributeDefinition {
                name: "size".into(),
                kind: ValueKind::I64,
            }],
        },
        SchemaChange::VertexType {
            name: "Sub-Campaign".into(),
            parent: Some("Campaign".into()),
            attributes: vec![],
        },
        edge_type("partOf", "hasPart", "DataObject", "Campaign"),
        // Symmetric: its own inverse.
        edge_type("similarTo", "similarTo", "DataObject", "DataObject"),
        edge_type("follows", "precedes", "Campaign", "Campaign"),
    ]
}

/// Names of the vertices of the test graph.
pub const NAMES: [&str; 12] = [
    "user:1",
    "user:2",
    "group:g",
    "job:1",
    "job:2",
    "file:a",
    "file:b",
    "file:c",
    "directory:d",
    "executable:x",
    "campaign:p",
    "sub-campaign:q",
];

/// A small graph of vertices and edge types that are resolved in a schema.
#[derive(Debug, Clone)]
pub struct TestGraph {
    /// The schema with [`schema_changes`].
    pub schema: Schema,
    /// Names and ids of vertices, in the order of [`NAMES`].
    pub vertices: Vec<(VertexName, VertexRef)>,
    /// Edge types of the graph, including inverses.
    pub edge_types: Vec<EdgeTypeId>,
}

impl Default for TestGraph {
    fn default() -> Self {
        Self::new()
    }
}

impl TestGraph {
    /// Creates the graph for histories of an embedded database.
    pub fn new() -> Self {
        Self::of(&NAMES)
    }

    /// Creates a graph with these vertices.
    ///
    /// # Panics
    /// If the default schema refuses a name.
    pub fn of<S: AsRef<str>>(names: &[S]) -> Self {
        let mut schema = Schema::default();
        for change in schema_changes() {
            assert_eq!(schema.apply(&change), Ok(true), "the world's types are new");
        }
        let vertices = names
            .iter()
            .map(|name| {
                let name = VertexName::parse(name.as_ref()).unwrap_or_else(|e| panic!("{e}"));
                let vertex = name.resolve(&schema).unwrap_or_else(|e| panic!("{e}"));
                (name, vertex)
            })
            .collect();
        let names = [
            "run",
            "exe",
            "read",
            "write",
            "has",
            "contains",
            "wasWrittenBy",
            "partOf",
            "similarTo",
            "follows",
        ];
        let edge_types = names
            .iter()
            .map(|n| schema.edge_type_id(n).unwrap_or_else(|e| panic!("{e}")))
            .collect();
        Self {
            schema,
            vertices,
            edge_types,
        }
    }

    /// Returns a random vertex.
    pub fn vertex(&self, rng: &mut Rng) -> (VertexName, VertexRef) {
        rng.pick(&self.vertices).clone()
    }

    /// Returns both ends and the type of a random edge that the schema allows.
    pub fn edge(&self, rng: &mut Rng) -> (VertexRef, EdgeTypeId, VertexRef) {
        loop {
            let edge_type = *rng.pick(&self.edge_types);
            let (source, destination) = (self.vertex(rng).1, self.vertex(rng).1);
            if self
                .schema
                .check_ends(edge_type, source.type_id, destination.type_id)
                .is_ok()
            {
                return (source, edge_type, destination);
            }
        }
    }

    /// Returns the ids of all vertices, and of one that is never inserted.
    pub fn ids(&self) -> Vec<VertexId> {
        let never = VertexId::of("File", "never");
        self.vertices
            .iter()
            .map(|(_, v)| v.id)
            .chain([never])
            .collect()
    }

    /// Returns the keys of all possible edges of all types.
    pub fn edge_keys(&self) -> Vec<EdgeKey> {
        let mut keys = Vec::new();
        for (edge_type, t) in self.schema.edge_types() {
            for (_, a) in &self.vertices {
                for (_, b) in &self.vertices {
                    if self.schema.is_a(a.type_id, t.source)
                        && self.schema.is_a(b.type_id, t.destination)
                    {
                        keys.push(EdgeKey {
                            source: a.id,
                            edge_type,
                            destination: b.id,
                        });
                    }
                }
            }
        }
        keys
    }

    /// Replaces ids by names in a debug text, and versions by milliseconds since the simulated clock began.
    pub fn readable(&self, debug: &str) -> String {
        let mut text = debug.to_owned();
        for (name, vertex) in &self.vertices {
            text = text.replace(&format!("{vertex:?}"), &name.to_string());
            text = text.replace(&format!("{:?}", vertex.id), &name.to_string());
        }
        for (t, edge_type) in self.schema.edge_types() {
            text = text.replace(&format!("{t:?}"), &edge_type.name);
        }
        for millis in 0..64 {
            for logical in 0..64 {
                let version = Version::new(START_MILLIS + millis, logical);
                let short = if logical == 0 {
                    format!("@{millis}")
                } else {
                    format!("@{millis}~{logical}")
                };
                text = text.replace(&format!("{version:?}"), &short);
            }
        }
        text.replace("Mutation { version: ", "{")
            .replace("Properties(", "(")
            .replace("String", "")
    }
}
