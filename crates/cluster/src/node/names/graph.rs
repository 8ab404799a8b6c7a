//! Files as vertices of the graph: which vertex a path names, and which ids their vertices may have.

use super::cluster_flags::FILES;
use crate::node::Node;
use crate::node::transaction::Parts;
use crate::peer::{Change, NamesPart, PartOp};
use esker_engine::PlannedRow;
use esker_model::namespace::{Kind, NamePath, NameResolution};
use esker_model::object::Principal;
use esker_model::{Mutation, Op, Result, VertexId, VertexName, VertexRef};
use std::sync::Arc;

/// Number of paths or vertices that are looked up together.
const LOOKUP_BATCH: usize = 1_024;

impl Node {
    /// Returns ids of paths, as [`esker_model::namespace::Namespace::ids`]; remote rows are fetched together.
    pub async fn ids_of(
        self: &Arc<Self>,
        principal: Option<&Principal>,
        paths: &[NamePath],
    ) -> Result<Vec<Option<(VertexId, Kind)>>> {
        self.check_serving()?;
        if !self.has_flag(FILES) {
            return Ok(vec![None; paths.len()]);
        }
        let mut found = Vec::with_capacity(paths.len());
        for piece in paths.chunks(LOOKUP_BATCH) {
            found.extend(self.read_names(principal, |names| names.ids(piece)).await?);
        }
        Ok(found)
    }

    /// Resolves vertex names by the present paths that the principal sees.
    pub async fn resolve(
        self: &Arc<Self>,
        principal: Option<&Principal>,
        names: &[VertexName],
    ) -> Result<Vec<VertexRef>> {
        let schema = esker_model::GraphRead::schema(&*self.engine)?;
        let names = NameResolution::new(&schema, names)?;
        let found = match names.paths() {
            [] => Vec::new(),
            paths => self.ids_of(principal, paths).await?,
        };
        Ok(names.end(found))
    }

    /// Checks that the ids of vertices match their names, except those of files that got their ids otherwise. Returns
    /// missing location records of such files, to be written with their vertices, with the index of the mutation.
    pub(crate) async fn location_records_for(
        self: &Arc<Self>,
        mutations: &[Mutation],
    ) -> Result<Vec<(usize, PlannedRow)>> {
        let mut named = Vec::new();
        for (index, mutation) in mutations.iter().enumerate() {
            if let Op::PutVertex { vertex, key, .. } | Op::EnsureVertex { vertex, key } =
                &mutation.op
                && let Err(refused) = self.own_names().check_name(*vertex, key)
            {
                if !self.has_flag(FILES) {
                    return Err(refused);
                }
                named.push((index, *vertex, key.as_str()));
            }
        }
        let mut rows = Vec::new();
        for piece in named.chunks(LOOKUP_BATCH) {
            let of: Vec<(VertexRef, &str)> = piece.iter().map(|(_, v, key)| (*v, *key)).collect();
            let found = self
                .read_names(None, |names| names.check_file_names(&of))
                .await?;
            for ((index, ..), row) in piece.iter().zip(found) {
                rows.extend(row?.map(|row| (*index, row)));
            }
        }
        Ok(rows)
    }

    /// Adds rows to the parts of their home servers.
    pub(crate) fn add_rows(&self, parts: &mut Parts, rows: Vec<(usize, PlannedRow)>) {
        let mut seen = std::collections::BTreeSet::new();
        for (index, row) in rows {
            if !seen.insert(row.key.clone()) {
                continue;
            }
            let home = self.row_home(&self.state(), &row.key);
            let op = PartOp {
                index: index as u32,
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
