//! Files as vertices of the graph: which one a path names, and which ids their vertices may have.

use super::known::FILES;
use crate::node::Node;
use crate::node::transaction::Parts;
use crate::peer::{Change, NamesPart, PartOp};
use esker_engine::PlannedRow;
use esker_model::namespace::{Kind, NamePath, Resolving};
use esker_model::object::Asker;
use esker_model::{Mutation, Op, Result, VertexId, VertexName, VertexRef};
use std::sync::Arc;

/// Paths, or vertices, that are looked up together.
const TOGETHER: usize = 1_024;

impl Node {
    /// As [`esker_model::namespace::Namespace::ids`]: rows that lie elsewhere are asked for together.
    pub async fn ids_of(
        self: &Arc<Self>,
        asker: Option<&Asker>,
        paths: &[NamePath],
    ) -> Result<Vec<Option<(VertexId, Kind)>>> {
        self.check_serving()?;
        if !self.has_heard(FILES) {
            return Ok(vec![None; paths.len()]);
        }
        let mut found = Vec::with_capacity(paths.len());
        for piece in paths.chunks(TOGETHER) {
            found.extend(
                self.run_spread(|view, fetched| {
                    self.engine.ids_spread(asker, piece, view, fetched)
                })
                .await?,
            );
        }
        Ok(found)
    }

    /// The vertices that names mean now to someone.
    pub async fn resolve(
        self: &Arc<Self>,
        asker: Option<&Asker>,
        names: &[VertexName],
    ) -> Result<Vec<VertexRef>> {
        let schema = esker_model::GraphRead::schema(&*self.engine)?;
        let names = Resolving::new(&schema, names)?;
        let found = match names.paths() {
            [] => Vec::new(),
            paths => self.ids_of(asker, paths).await?,
        };
        Ok(names.end(found))
    }

    /// Refuses vertices whose ids are not those of their names, unless they are files that got their ids otherwise. Says where
    /// such files are, if no row does yet: that is to be written with their vertices, each of which is that of a mutation.
    pub(crate) async fn whereabouts_for(
        self: &Arc<Self>,
        mutations: &[Mutation],
    ) -> Result<Vec<(usize, PlannedRow)>> {
        let mut named = Vec::new();
        for (place, mutation) in mutations.iter().enumerate() {
            if let Op::PutVertex { vertex, key, .. } | Op::EnsureVertex { vertex, key } =
                &mutation.op
                && let Err(refused) = self.engine.check_name(*vertex, key)
            {
                if !self.has_heard(FILES) {
                    return Err(refused);
                }
                named.push((place, *vertex, key.as_str()));
            }
        }
        let mut rows = Vec::new();
        for piece in named.chunks(TOGETHER) {
            let of: Vec<(VertexRef, &str)> = piece.iter().map(|(_, v, key)| (*v, *key)).collect();
            let found = self
                .run_spread(|view, fetched| self.engine.named_spread(&of, view, fetched))
                .await?;
            for ((place, ..), row) in piece.iter().zip(found) {
                rows.extend(row?.map(|row| (*place, row)));
            }
        }
        Ok(rows)
    }

    /// Adds rows to what the homes of their vertices are to do.
    pub(crate) fn add_rows(&self, parts: &mut Parts, rows: Vec<(usize, PlannedRow)>) {
        let mut seen = std::collections::BTreeSet::new();
        for (place, row) in rows {
            if !seen.insert(row.key.clone()) {
                continue;
            }
            let home = self.row_home(&self.state(), &row.key);
            let op = PartOp {
                index: place as u32,
                at: None,
                change: Change::Names(NamesPart {
                    rows: vec![row],
                    ..NamesPart::default()
                }),
            };
            Arc::make_mut(parts.entry(home).or_default()).ops.push(op);
        }
    }
}
