//! Names of vertices: from what a person types to ids, and back.

use esker::Database;
use esker_model::namespace::resolve;
use esker_model::{
    Error, GraphRead as _, Result, Schema, Version, VertexId, VertexName, VertexRef,
};
use std::collections::HashMap;

/// A vertex that a person named.
#[derive(Debug, Clone)]
pub(crate) struct Named {
    /// Its name, split.
    pub(crate) name: VertexName,
    /// Its id and type.
    pub(crate) vertex: VertexRef,
}

impl Named {
    /// Reads `TYPE:KEY` under that schema; a path is the file that is there now.
    pub(crate) fn parse(text: &str, database: &Database, schema: &Schema) -> Result<Self> {
        let name = VertexName::parse(text)?;
        let found = resolve(
            database,
            database.asker(),
            schema,
            std::slice::from_ref(&name),
        )?;
        let vertex = match found.first() {
            Some(vertex) => *vertex,
            None => name.resolve(schema)?,
        };
        Ok(Self { name, vertex })
    }

    /// The same for many.
    pub(crate) fn parse_all(
        texts: &[String],
        database: &Database,
        schema: &Schema,
    ) -> Result<Vec<Self>> {
        let names: Vec<VertexName> = texts
            .iter()
            .map(|text| VertexName::parse(text))
            .collect::<std::result::Result<_, _>>()?;
        let found = resolve(database, database.asker(), schema, &names)?;
        let named = names.into_iter().zip(found);
        Ok(named.map(|(name, vertex)| Self { name, vertex }).collect())
    }

    /// An error that says that there is no such vertex.
    pub(crate) fn missing(&self, hint: &str) -> Error {
        Error::NoVertex {
            name: self.name.to_string(),
            hint: hint.to_owned(),
        }
    }
}

/// Most names that are remembered at once.
const NAMES_MAX: usize = 1 << 16;

/// Names of vertices by id, read in bulk and remembered.
#[derive(Debug, Default)]
pub(crate) struct Names(HashMap<VertexId, String>);

impl Names {
    /// Makes sure that the names of all of these are known.
    pub(crate) fn learn(
        &mut self,
        database: &Database,
        schema: &Schema,
        ids: impl Iterator<Item = VertexId>,
    ) -> Result<()> {
        if self.0.len() > NAMES_MAX {
            self.0.clear();
        }
        let mut unknown: Vec<VertexId> = ids.filter(|id| !self.0.contains_key(id)).collect();
        unknown.sort_unstable();
        unknown.dedup();
        if unknown.is_empty() {
            return Ok(());
        }
        // Type and key never change, and a vertex that was deleted keeps them: what is now names what was then.
        let vertices = database.read_vertices(&unknown, Version::MAX)?;
        for (id, vertex) in unknown.into_iter().zip(vertices) {
            let name = vertex.map_or_else(|| unnamed(id), |v| v.name(schema));
            self.0.insert(id, name);
        }
        Ok(())
    }

    /// A name learnt, else the id.
    pub(crate) fn get(&self, id: VertexId) -> String {
        self.0.get(&id).cloned().unwrap_or_else(|| unnamed(id))
    }
}

/// How a vertex is shown that an edge leads to and that was never inserted: only its id is known.
pub(crate) fn unnamed(id: VertexId) -> String {
    format!("?:{id}")
}

/// The name of a vertex type; its number if the schema lacks it.
pub(crate) fn vertex_type_name(schema: &Schema, id: esker_model::VertexTypeId) -> String {
    schema
        .vertex_type(id)
        .map_or_else(|| format!("type-{}", id.0), |t| t.name.clone())
}

/// The name of an edge type; its number if the schema lacks it.
pub(crate) fn edge_type_name(schema: &Schema, id: esker_model::EdgeTypeId) -> String {
    schema
        .edge_type(id)
        .map_or_else(|| format!("type-{}", id.0), |t| t.name.clone())
}
