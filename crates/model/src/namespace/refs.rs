//! From names of vertices to vertices: `file:/path` is what is at that path now.

use super::{Kind, NamePath, Namespace};
use crate::error::Result;
use crate::id::{VertexId, VertexName, VertexRef, VertexTypeId};
use crate::mutation::{Mutation, Op};
use crate::object::Asker;
use crate::schema::Schema;
use std::collections::HashMap;

/// The path that a vertex's name may be, and the type of what is to be there.
fn path_of(schema: &Schema, type_id: VertexTypeId, key: &str) -> Option<(NamePath, &'static str)> {
    let name = &schema.vertex_type(type_id)?.name;
    let kinds = [Kind::File, Kind::Directory].map(Kind::type_name);
    let kind = kinds.into_iter().find(|kind| kind == name)?;
    if !key.starts_with('/') {
        return None;
    }
    Some((NamePath::parse(key.as_bytes()).ok()?, kind))
}

/// Whether a name may be the path of a file.
pub fn names_a_path(schema: &Schema, name: &VertexName) -> bool {
    name.key.starts_with('/')
        && schema
            .vertex_type_id(&name.type_name)
            .is_ok_and(|type_id| path_of(schema, type_id, &name.key).is_some())
}

/// Names on their way to vertices: which paths have to be asked about.
#[derive(Debug)]
pub struct Resolving {
    vertices: Vec<VertexRef>,
    paths: Vec<NamePath>,
    /// By path: which of the vertices it is, and the type of what is to be there.
    places: Vec<(usize, &'static str)>,
}

impl Resolving {
    /// Looks names up in the schema.
    pub fn new(schema: &Schema, names: &[VertexName]) -> Result<Self> {
        let mut all = Self {
            vertices: Vec::with_capacity(names.len()),
            paths: Vec::new(),
            places: Vec::new(),
        };
        for name in names {
            let vertex = name.resolve(schema)?;
            if let Some((path, kind)) = path_of(schema, vertex.type_id, &name.key) {
                all.paths.push(path);
                all.places.push((all.vertices.len(), kind));
            }
            all.vertices.push(vertex);
        }
        Ok(all)
    }

    /// What has to be asked ([`Namespace::ids`]).
    pub fn paths(&self) -> &[NamePath] {
        &self.paths
    }

    /// The vertices, given what is at the paths.
    pub fn end(mut self, found: Vec<Option<(VertexId, Kind)>>) -> Vec<VertexRef> {
        for ((place, kind), found) in self.places.into_iter().zip(found) {
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

/// The vertices that names mean: what is at a path now, if there is a file (or directory) there, whatever it was called
/// before. Where nothing is, or nothing that the asker gets to, a path means the file that was made there first: it may have another
/// path by now, or be gone.
pub fn resolve(
    namespace: &(impl Namespace + ?Sized),
    asker: Option<&Asker>,
    schema: &Schema,
    names: &[VertexName],
) -> Result<Vec<VertexRef>> {
    let all = Resolving::new(schema, names)?;
    let found = match all.paths() {
        [] => Vec::new(),
        paths => namespace.ids(asker, paths)?,
    };
    Ok(all.end(found))
}

/// Changes that name files by paths, turned to the files that are there now: what a log says of a path is said of the file
/// that has it. Knows what earlier changes said, because edges name their ends by ids alone.
#[derive(Debug, Default)]
pub struct Settled {
    /// Other vertices than the paths' own, by those.
    others: HashMap<VertexId, VertexId>,
}

impl Settled {
    /// Turns changes, in their order.
    pub fn settle(
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
                        self.others.insert(id, other);
                    }
                    _ => {
                        self.others.remove(&id);
                    }
                }
            }
        }
        self.turn(mutations);
        Ok(())
    }

    /// Looks names up that changes name vertices by, for [`Self::turn`].
    pub fn learn(
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
                self.others.insert(own.id, vertex.id);
            }
        }
        Ok(())
    }

    /// Turns changes by what is known.
    pub fn turn(&self, mutations: &mut [Mutation]) {
        if self.others.is_empty() {
            return;
        }
        let turn = |vertex: &mut VertexRef| {
            if let Some(other) = self.others.get(&vertex.id) {
                vertex.id = *other;
            }
        };
        for mutation in mutations {
            match &mut mutation.op {
                Op::PutVertex { vertex, .. }
                | Op::EnsureVertex { vertex, .. }
                | Op::ChangeVertex { vertex, .. }
                | Op::SetAttributes { vertex, .. }
                | Op::DeleteVertex { vertex } => turn(vertex),
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
                    turn(source);
                    turn(destination);
                }
                Op::CreateObject { .. } | Op::MoveObject { .. } => {}
            }
        }
    }
}
