//! Files below a path with their tags: the user-defined attributes of their vertices.

use super::acl::value_of;
use super::{FIELD_NAMES, FileFields, Inode, NamePath, Namespace, is_acl, tags};
use crate::error::Result;
use crate::filter::Fields;
use crate::graph::{Cancel, Flow};
use crate::graph_read::GraphRead;
use crate::object::Principal;
use crate::record::UserAttribute;
use crate::value::Value;
use crate::version::Version;
use std::borrow::Cow;
use std::ops::ControlFlow;

/// Number of files whose vertices are read in one call.
const TOGETHER: usize = 1_024;

/// A file with its tags.
#[derive(Debug, Clone, Copy)]
pub struct TaggedFile<'a> {
    /// Path and attributes of the file.
    pub file: FileFields<'a>,
    /// Tags of the file; empty if the graph has none or the caller did not ask for them.
    pub tags: &'a [UserAttribute],
}

impl Fields for TaggedFile<'_> {
    /// Returns an attribute of the file, or else a tag or an extended attribute of that name.
    fn field(&self, name: &str) -> Option<Cow<'_, Value>> {
        if FIELD_NAMES.contains(&name) {
            return self.file.field(name);
        }
        if let Some(tag) = self.tags.iter().find(|tag| tag.name == name) {
            return Some(Cow::Borrowed(&tag.value));
        }
        // Access lists are no values to search for.
        let name = Some(name.as_bytes()).filter(|name| !is_acl(name))?;
        let value = value_of(&self.file.inode.xattrs, name)?;
        Some(Cow::Owned(tags::value_of(value)))
    }
}

/// Walks like [`Namespace::walk`], and reads each file's tags if `tags` is set.
pub fn walk_tagged(
    (names, graph): (&dyn Namespace, &dyn GraphRead),
    principal: Option<&Principal>,
    path: &NamePath,
    tags: bool,
    cancel: &dyn Cancel,
    sink: &mut dyn FnMut(TaggedFile<'_>) -> Flow,
) -> Result<()> {
    if !tags {
        return names.walk(principal, path, cancel, &mut |path, inode| {
            let file = FileFields { path, inode };
            sink(TaggedFile { file, tags: &[] })
        });
    }
    let mut waiting: Vec<(NamePath, Inode)> = Vec::with_capacity(TOGETHER);
    let mut flush = |waiting: &mut Vec<(NamePath, Inode)>| -> Result<Flow> {
        let ids: Vec<_> = waiting.iter().map(|(_, inode)| inode.id).collect();
        let vertices = graph.read_vertices(&ids, Version::MAX)?;
        for ((path, inode), vertex) in waiting.drain(..).zip(vertices) {
            let vertex = vertex.filter(|v| !v.deleted);
            let tags = vertex.as_ref().map_or(&[][..], |v| v.user.as_slice());
            let file = FileFields {
                path: &path,
                inode: &inode,
            };
            if sink(TaggedFile { file, tags }).is_break() {
                return Ok(ControlFlow::Break(()));
            }
        }
        Ok(ControlFlow::Continue(()))
    };
    let (mut failed, mut broke) = (None, false);
    names.walk(principal, path, cancel, &mut |path, inode| {
        waiting.push((path.clone(), inode.clone()));
        if waiting.len() < TOGETHER {
            return ControlFlow::Continue(());
        }
        match flush(&mut waiting) {
            Ok(flow) => {
                broke = flow.is_break();
                flow
            }
            Err(e) => {
                failed = Some(e);
                ControlFlow::Break(())
            }
        }
    })?;
    match failed {
        Some(e) => Err(e),
        None if broke => Ok(()),
        None => flush(&mut waiting).map(|_| ()),
    }
}
