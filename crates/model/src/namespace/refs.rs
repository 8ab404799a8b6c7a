//! From names of vertices to vertices: `file:/path` is what is at that path now.

use super::{Kind, NamePath, Namespace};
use crate::error::Result;
use crate::id::{VertexId, VertexName, VertexRef, VertexTypeId};
use crate::mutation::{Mutation, Op};
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

/// The vertices that names mean: what is at a path now, if there is a file (or directory) there, whatever it was called
/// before. Where nothing is, a path means the file that was made there first: it may have another path by now, or be gone.
pub fn resolve(
    namespace: &(impl Namespace + ?Sized),
    schema: &Schema,
    names: &[VertexName],
) -> Result<Vec<VertexRef>> {
    let mut vertices = Vec::with_capacity(names.len());
    let (mut paths, mut places) = (Vec::new(), Vec::new());
    for (place, name) in names.iter().enumerate() {
        let vertex = name.resolve(schema)?;
        if let Some((path, kind)) = path_of(schema, vertex.type_id, &name.key) {
            paths.push(path);
            places.push((place, kind));
        }
        vertices.push(vertex);
    }
    if paths.is_empty() {
        return Ok(vertices);
    }
    let found = namespace.ids(None, &paths)?;
    for ((place, kind), found) in places.into_iter().zip(found) {
        if let Some((id, there)) = found
            && there.type_name() == kind
            && let Some(vertex) = vertices.get_mut(place)
        {
            vertex.id = id;
        }
    }
    Ok(vertices)
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
        if self.others.is_empty() {
            return Ok(());
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
        Ok(())
    }
}
