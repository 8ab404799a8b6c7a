//! Resolution of vertex names that are paths: `file:/path` means the file that is at that path now.

use super::{Kind, NamePath, Namespace};
use crate::error::Result;
use crate::id::{VertexId, VertexName, VertexRef, VertexTypeId};
use crate::mutation::{Mutation, Op};
use crate::object::Principal;
use crate::schema::Schema;
use std::collections::HashMap;

/// Returns the path that a vertex's key denotes, and the vertex type that the file there must have.
fn path_of(schema: &Schema, type_id: VertexTypeId, key: &str) -> Option<(NamePath, &'static str)> {
    let name = &schema.vertex_type(type_id)?.name;
    let kinds = [Kind::File, Kind::Directory].map(Kind::type_name);
    let kind = kinds.into_iter().find(|kind| kind == name)?;
    if !key.starts_with('/') {
        return None;
    }
    Some((NamePath::parse(key.as_bytes()).ok()?, kind))
}

/// Whether a vertex name denotes the path of a file.
pub fn names_a_path(schema: &Schema, name: &VertexName) -> bool {
    name.key.starts_with('/')
        && schema
            .vertex_type_id(&name.type_name)
            .is_ok_and(|type_id| path_of(schema, type_id, &name.key).is_some())
}

/// A resolution of vertex names in progress: the paths to look up in the namespace.
#[derive(Debug)]
pub struct NameResolution {
    vertices: Vec<VertexRef>,
    paths: Vec<NamePath>,
    /// For each path, the index of its vertex and the vertex type that the file there must have.
    path_slots: Vec<(usize, &'static str)>,
}

impl NameResolution {
    /// Looks the names up in the schema.
    pub fn new(schema: &Schema, names: &[VertexName]) -> Result<Self> {
        let mut all = Self {
            vertices: Vec::with_capacity(names.len()),
            paths: Vec::new(),
            path_slots: Vec::new(),
        };
        for name in names {
            let vertex = name.resolve(schema)?;
            if let Some((path, kind)) = path_of(schema, vertex.type_id, &name.key) {
                all.paths.push(path);
                all.path_slots.push((all.vertices.len(), kind));
            }
            all.vertices.push(vertex);
        }
        Ok(all)
    }

    /// Returns the paths to look up ([`Namespace::ids`]).
    pub fn paths(&self) -> &[NamePath] {
        &self.paths
    }

    /// Completes the resolution with the files found at the paths.
    pub fn end(mut self, found: Vec<Option<(VertexId, Kind)>>) -> Vec<VertexRef> {
        for ((place, kind), found) in self.path_slots.into_iter().zip(found) {
            if let Some((id, there)) = found
                && there.type_name() == kind
                && let Some(vertex) = self.vertices.get_mut(place)
            {
                vertex.id = id;
            }
        }
        self.vertices
    }
}

/// Resolves vertex names: a path means the file (or directory) that is there now, whatever it was called before. Where
/// no file is, or none that the principal can reach, a path means the file that was created there first, which may have
/// another path by now or be deleted.
pub fn resolve(
    namespace: &(impl Namespace + ?Sized),
    principal: Option<&Principal>,
    schema: &Schema,
    names: &[VertexName],
) -> Result<Vec<VertexRef>> {
    let all = NameResolution::new(schema, names)?;
    let found = match all.paths() {
        [] => Vec::new(),
        paths => namespace.ids(principal, paths)?,
    };
    Ok(all.end(found))
}

/// Rewrites mutations that name files by paths so that they refer to the files that are there now: a statement about a
/// path becomes one about the file that has it. Remembers earlier mutations, because edges name their ends by ids
/// alone.
#[derive(Debug, Default)]
pub struct FileRefResolver {
    /// The ids of the files now at a path, by the id computed from the path, where they differ.
    current: HashMap<VertexId, VertexId>,
}

impl FileRefResolver {
    /// Rewrites mutations in place, in their order.
    pub fn resolve_mutations(
        &mut self,
        namespace: &(impl Namespace + ?Sized),
        schema: &Schema,
        mutations: &mut [Mutation],
    ) -> Result<()> {
        let (mut paths, mut ids) = (Vec::new(), Vec::new());
        for mutation in &*mutations {
            if let Op::PutVertex { vertex, key, .. } | Op::EnsureVertex { vertex, key } =
                &mutation.op
                && let Some((path, kind)) = path_of(schema, vertex.type_id, key)
            {
                paths.push(path);
                ids.push((vertex.id, kind));
            }
        }
        if !paths.is_empty() {
            let found = namespace.ids(None, &paths)?;
            for ((id, kind), found) in ids.into_iter().zip(found) {
                match found {
                    Some((other, there)) if other != id && there.type_name() == kind => {
                        self.current.insert(id, other);
                    }
                    _ => {
                        self.current.remove(&id);
                    }
                }
            }
        }
        self.substitute(mutations);
        Ok(())
    }

    /// Looks up the vertex names by which mutations refer to files, for [`Self::substitute`].
    pub fn resolve_names(
        &mut self,
        namespace: &(impl Namespace + ?Sized),
        schema: &Schema,
        names: &[VertexName],
    ) -> Result<()> {
        let names: Vec<VertexName> = names
            .iter()
            .filter(|name| names_a_path(schema, name))
            .cloned()
            .collect();
        let found = resolve(namespace, None, schema, &names)?;
        for (name, vertex) in names.iter().zip(found) {
            let own = name.resolve(schema)?;
            if own.id != vertex.id {
                self.current.insert(own.id, vertex.id);
            }
        }
        Ok(())
    }

    /// Rewrites the vertex ids of mutations by the resolutions so far.
    pub fn substitute(&self, mutations: &mut [Mutation]) {
        if self.current.is_empty() {
            return;
        }
        let replace = |vertex: &mut VertexRef| {
            if let Some(other) = self.current.get(&vertex.id) {
                vertex.id = *other;
            }
        };
        for mutation in mutations {
            match &mut mutation.op {
                Op::PutVertex { vertex, .. }
                | Op::EnsureVertex { vertex, .. }
                | Op::ChangeVertex { vertex, .. }
                | Op::SetAttributes { vertex, .. }
                | Op::DeleteVertex { vertex } => replace(vertex),
                Op::PutEdge {
                    source,
                    destination,
                    ..
                }
                | Op::DeleteEdge {
                    source,
                    destination,
                    ..
                } => {
                    replace(source);
                    replace(destination);
                }
                Op::CreateObject { .. } | Op::MoveObject { .. } => {}
            }
        }
    }
}
