//! GraphMeta's rule: vertices of users' own types must be connected with the rest, or nobody finds them.

use crate::read::{FirstError, corrupt, vertex_record};
use esker_model::key::{decode_type_index, type_index_prefix};
use esker_model::{Flow, Result, Schema, VertexId};
use esker_store::{KeyRange, Snapshot, Table};
use std::collections::HashMap;

/// Union-find over the vertices of users' own types; all others are one set, the anchored one.
pub(super) struct Reachable {
    numbers: HashMap<VertexId, usize>,
    parents: Vec<usize>,
}

/// The set of all that is of a built-in type.
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

    /// Takes note of an edge.
    pub(super) fn edge(&mut self, a: VertexId, b: VertexId) {
        if self.numbers.is_empty() {
            return;
        }
        let a = self.numbers.get(&a).copied().unwrap_or(ANCHOR);
        let b = self.numbers.get(&b).copied().unwrap_or(ANCHOR);
        let (a, b) = (self.root(a), self.root(b));
        // The smaller number stays the root, so the anchor always does.
        self.parents[a.max(b)] = a.min(b);
    }

    /// Names of the vertices that exist and cannot be reached.
    pub(super) fn unreachable(
        &mut self,
        read: &dyn Snapshot,
        schema: &Schema,
    ) -> Result<Vec<String>> {
        let mut ids: Vec<_> = self.numbers.iter().map(|(id, n)| (*id, *n)).collect();
        ids.sort_unstable();
        let mut names = Vec::new();
        for (id, number) in ids {
            if self.root(number) != ANCHOR && vertex_record(read, id)?.is_some_and(|r| !r.gone) {
                names.push(name_of(read, schema, id));
            }
        }
        Ok(names)
    }
}

/// `type:key`, or the id where nothing is stored that knows the key.
pub(super) fn name_of(read: &dyn Snapshot, schema: &Schema, id: VertexId) -> String {
    match vertex_record(read, id) {
        Ok(Some(record)) => format!("{}:{}", schema.prefix(record.type_id), record.key),
        _ => format!("vertex {id}"),
    }
}
