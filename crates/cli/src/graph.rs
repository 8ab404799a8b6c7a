//! Names of vertices: from user input to ids, and back.

use esker::Database;
use esker_import::jobs::job_number;
use esker_model::namespace::resolve;
use esker_model::traversal::Budget;
use esker_model::{
    Error, GraphRead as _, NeverCancel, Result, Schema, Traversal, Version, VertexId, VertexName,
    VertexRef,
};
use esker_record::absolute_path;
use std::collections::HashMap;
use std::path::Path;

/// A vertex that the user named.
#[derive(Debug, Clone)]
pub(crate) struct NamedVertex {
    /// The vertex's name, split into type and key.
    pub(crate) name: VertexName,
    /// The vertex's id and type.
    pub(crate) vertex: VertexRef,
}

impl NamedVertex {
    /// Parses `TYPE:KEY` or a path with that schema; a path names the file that has it now.
    pub(crate) fn parse(text: &str, database: &Database, schema: &Schema) -> Result<Self> {
        Self::resolve(parse_name(text)?, database, schema)
    }

    /// Looks a name up; the name of a file is its present path.
    pub(crate) fn resolve(name: VertexName, database: &Database, schema: &Schema) -> Result<Self> {
        let found = resolve(
            database,
            database.principal(),
            schema,
            std::slice::from_ref(&name),
        )?;
        let vertex = match found.first() {
            Some(vertex) => *vertex,
            None => name.resolve(schema)?,
        };
        Ok(Self { name, vertex })
    }

    /// Parses the name of a vertex to be read: see [`Self::or_only_job`].
    pub(crate) fn find(text: &str, database: &Database, schema: &Schema) -> Result<Self> {
        Self::parse(text, database, schema)?.or_only_job(database, schema)
    }

    /// Returns this vertex. `job:77`, if there is no such vertex, names the only job of that number: a job of a cluster, or a Darshan log that an
    /// earlier release imported.
    ///
    /// # Errors
    /// Fails with their names if several jobs have the number.
    pub(crate) fn or_only_job(self, database: &Database, schema: &Schema) -> Result<Self> {
        let mut named = self;
        let job = schema.vertex_type_id("Job").ok();
        let Some(number) = job_number(&named.name.key)
            .filter(|_| job.is_some_and(|job| schema.is_a(named.vertex.type_id, job)))
        else {
            return Ok(named);
        };
        let known = database.read_vertices(&[named.vertex.id], Version::MAX)?;
        if known.iter().any(Option::is_some) {
            return Ok(named);
        }
        let question = format!("v(type=Job).va(\"jobid\", EQ, \"{number}\").limit({JOBS_MAX})");
        let question = Traversal::parse(&question)?;
        let found = database.travel(&question, &Budget::default(), &NeverCancel)?;
        let ids = found.sets.iter().flat_map(|set| &set.vertices);
        let ids: Vec<VertexId> = ids.copied().collect();
        let mut jobs = database.read_vertices(&ids, Version::MAX)?;
        jobs.sort_by(|a, b| a.as_ref().map(|v| &v.key).cmp(&b.as_ref().map(|v| &v.key)));
        let names: Vec<String> = jobs.iter().flatten().map(|v| v.name(schema)).collect();
        match jobs.as_slice() {
            [Some(job)] => {
                named.name.key.clone_from(&job.key);
                named.vertex.id = job.id;
                Ok(named)
            }
            [] => Ok(named),
            [..] => Err(named.missing(&format!(
                "; jobs of that number: {}; give one of these names",
                names.join(", ")
            ))),
        }
    }

    /// Parses many names; the result keeps the order of `texts`.
    pub(crate) fn parse_all(
        texts: &[String],
        database: &Database,
        schema: &Schema,
    ) -> Result<Vec<Self>> {
        let names: Vec<VertexName> = texts
            .iter()
            .map(|text| parse_name(text))
            .collect::<Result<_>>()?;
        let found = resolve(database, database.principal(), schema, &names)?;
        let named = names.into_iter().zip(found);
        Ok(named.map(|(name, vertex)| Self { name, vertex }).collect())
    }

    /// Returns the error that this vertex does not exist.
    pub(crate) fn missing(&self, hint: &str) -> Error {
        Error::NoVertex {
            name: self.name.to_string(),
            hint: hint.to_owned(),
        }
    }
}

/// Parses the name of a vertex. A path names the file: an absolute path, one that begins with `./` or `../`, or any other of a file that exists.
fn parse_name(text: &str) -> Result<VertexName> {
    let is_path = ["/", "./", "../"].iter().any(|s| text.starts_with(s));
    if !is_path && (text.contains(':') || !Path::new(text).exists()) {
        return Ok(VertexName::parse(text)?);
    }
    let path = absolute_path(Path::new(text));
    Ok(VertexName::parse(&format!("file:{}", path.display()))?)
}

/// Maximum number of jobs of one number that are considered.
const JOBS_MAX: usize = 20;
/// Maximum number of cached names.
const NAMES_MAX: usize = 1 << 16;

/// A cache of vertex names by id, filled by bulk reads.
#[derive(Debug, Default)]
pub(crate) struct NameCache(HashMap<VertexId, String>);

impl NameCache {
    /// Reads the names of all these vertices that are not cached.
    pub(crate) fn load(
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
        // Type and key never change, and a deleted vertex keeps them, so the current version names earlier ones.
        let vertices = database.read_vertices(&unknown, Version::MAX)?;
        for (id, vertex) in unknown.into_iter().zip(vertices) {
            let name = vertex.map_or_else(|| unnamed(id), |v| v.name(schema));
            self.0.insert(id, name);
        }
        Ok(())
    }

    /// Returns the cached name of a vertex, else its id.
    pub(crate) fn get(&self, id: VertexId) -> String {
        self.0.get(&id).cloned().unwrap_or_else(|| unnamed(id))
    }
}

/// Returns the label of a vertex that an edge leads to and that was never inserted, so that only its id is known.
pub(crate) fn unnamed(id: VertexId) -> String {
    format!("?:{id}")
}

/// Returns the name of a vertex type; its number if the schema lacks it.
pub(crate) fn vertex_type_name(schema: &Schema, id: esker_model::VertexTypeId) -> String {
    schema
        .vertex_type(id)
        .map_or_else(|| format!("type-{}", id.0), |t| t.name.clone())
}

/// Returns the name of an edge type; its number if the schema lacks it.
pub(crate) fn edge_type_name(schema: &Schema, id: esker_model::EdgeTypeId) -> String {
    schema
        .edge_type(id)
        .map_or_else(|| format!("type-{}", id.0), |t| t.name.clone())
}
