//! GraphMeta's rule: vertices of user-defined types must be connected with built-in ones, or no traversal finds them.

use crate::read::{FirstError, corrupt, vertex_record};
use esker_model::key::{decode_type_index, type_index_prefix};
use esker_model::{Flow, Result, Schema, VertexId};
use esker_store::{KeyRange, Snapshot, Table};
use std::collections::HashMap;

/// Union-find over the vertices of user-defined types; all other vertices are one set, the anchor.
pub(super) struct Reachable {
    numbers: HashMap<VertexId, usize>,
    parents: Vec<usize>,
}

/// Number of the set of all vertices of built-in types.
const ANCHOR: usize = 0;

impl Reachable {
    pub(super) fn load(read: &dyn Snapshot, schema: &Schema) -> Result<Self> {
        let mut this = Self {
            numbers: HashMap::new(),
            parents: vec![ANCHOR],
        };
        for (t, _) in schema.vertex_types().filter(|(_, t)| !t.builtin) {
            let mut error = FirstError::default();
            read.scan(
                Table::Index,
                &KeyRange::prefix(&type_index_prefix(t)),
                &mut |key, _| {
                    let id = error.keep(decode_type_index(key).map_err(|e| corrupt("index", e)))?;
                    let next = this.parents.len();
                    if this.numbers.insert(id, next).is_none() {
                        this.parents.push(next);
                    }
                    Flow::Continue(())
                },
            )?;
            error.into_result()?;
        }
        Ok(this)
    }

    fn root(&mut self, mut at: usize) -> usize {
        while self.parents[at] != at {
            self.parents[at] = self.parents[self.parents[at]];
            at = self.parents[at];
        }
        at
    }

    /// Adds an edge: joins the sets of its ends.
    pub(super) fn edge(&mut self, a: VertexId, b: VertexId) {
        if self.numbers.is_empty() {
            return;
        }
        let a = self.numbers.get(&a).copied().unwrap_or(ANCHOR);
        let b = self.numbers.get(&b).copied().unwrap_or(ANCHOR);
        let (a, b) = (self.root(a), self.root(b));
        // The smaller number remains the root, so the anchor always does.
        self.parents[a.max(b)] = a.min(b);
    }

    /// Returns the names of existing vertices that are unreachable.
    pub(super) fn unreachable(
        &mut self,
        read: &dyn Snapshot,
        schema: &Schema,
    ) -> Result<Vec<String>> {
        let mut ids: Vec<_> = self.numbers.iter().map(|(id, n)| (*id, *n)).collect();
        ids.sort_unstable();
        let mut names = Vec::new();
        for (id, number) in ids {
            if self.root(number) != ANCHOR && vertex_record(read, id)?.is_some_and(|r| !r.deleted) {
                names.push(name_of(read, schema, id));
            }
        }
        Ok(names)
    }
}

/// Returns `type:key`, or the id if no stored row has the key.
pub(super) fn name_of(read: &dyn Snapshot, schema: &Schema, id: VertexId) -> String {
    match vertex_record(read, id) {
        Ok(Some(record)) => format!("{}:{}", schema.prefix(record.type_id), record.key),
        _ => format!("vertex {id}"),
    }
}
