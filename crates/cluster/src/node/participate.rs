//! A participant's side of distributed transactions.

use super::Node;
use super::codec::{done_key, split_key};
use super::commit_queue::{DecidedPart, part_ops};
use super::names::ranges_of;
use super::state::State;
use crate::peer::{
    Change, Decided, Part, PartOp, Prepared, RawTable, Response, TxId, entries_vertex, is_object,
};
use crate::placement::SplitState;
use esker_engine::{IngestedRows, SideWrites};
use esker_model::key::Counter;
use esker_model::namespace::record::{RowHome, decode_dentry_key, row_home};
use esker_model::{Commit, EdgeKey, Error, Op, Result, Version, VertexId};
use esker_store::Table;
use std::sync::Arc;

/// Longest wait of a part for exclusive items that another has prepared, in milliseconds; then its coordinator retries.
const EXCLUSIVE_WAIT_MAX: u64 = 250;
/// Longest wait of a part for a vertex that splits, in milliseconds.
const SPLIT_WAIT_MAX: u64 = 5_000;
/// Longest wait of a decision that arrives again for the commit of its part, in milliseconds.
const COMMIT_WAIT_MAX: u64 = 5_000;

impl Node {
    /// Prepares a part: from now on reads wait for it, until it is applied or aborted.
    pub(crate) async fn prepare(
        &self,
        tx: TxId,
        over: u64,
        seen: Version,
        part: Arc<Part>,
    ) -> Result<Response> {
        // A prepared part of a decided transaction could not be applied: it would hold up reads until the store is opened again.
        self.engine.store().check_writable()?;
        let Ok(part) = self.with_table(part).await else {
            return Ok(Response::Unknown);
        };
        let mut sources: Vec<VertexId> = Vec::with_capacity(part.ops.len());
        for op in &part.ops {
            op.change.depends_on(&mut |id| sources.push(id));
        }
        let can_fail = part.ops.iter().any(can_fail);
        self.wait_for_leases(&part).await;
        {
            let mut state = self.state();
            if tx.server == self.settings.id {
                state.pending.learn(tx.server, tx.incarnation, over);
            } else {
                state.learn_ended(tx.server, tx.incarnation, over);
            }
        }
        let mut take = |state: &mut State| {
            if is_splitting(state, &part) {
                return None;
            }
            // Changes that were acknowledged to the client may still be arriving: they come before changes that build
            // on them. (There is no cycle: a part's floor is later than what its client had seen.)
            if can_fail && state.pending.blocker(Some(&sources), seen).is_some() {
                return None;
            }
            if let Some(moved) = self.moved(state, &part) {
                return Some(PrepareOutcome::Moved(moved));
            }
            // Rows given away from that directory must be removed before any of them come back.
            if Self::still_has_transferred(state, &part) {
                return Some(PrepareOutcome::Over);
            }
            // A restarted coordinator has forgotten the transaction and would never end it.
            if state.incarnations.get(&tx.server) > Some(&tx.incarnation) {
                return Some(PrepareOutcome::Over);
            }
            // The transaction that began first waits for the other one; in the reverse case the transaction is
            // retried. So there is no cycle of waits.
            if let Some(holder) = state.pending.conflict(tx, &part) {
                return (tx > holder).then_some(PrepareOutcome::Over);
            }
            let floor = self.clock.tick(self.time.now_millis());
            Some(if state.pending.add(tx, floor, Arc::clone(&part), over) {
                PrepareOutcome::Pending(floor)
            } else {
                PrepareOutcome::Over
            })
        };
        let taken = match self.wait_until(EXCLUSIVE_WAIT_MAX, &mut take).await {
            // The holder may itself wait for another part of this transaction.
            None if self.state().pending.conflict(tx, &part).is_some() => {
                Some(PrepareOutcome::Over)
            }
            None => self.wait_until(SPLIT_WAIT_MAX, take).await,
            taken => taken,
        };
        let floor = match taken {
            Some(PrepareOutcome::Pending(floor)) => floor,
            Some(PrepareOutcome::Moved(splits)) => return Ok(Response::Moved(splits)),
            Some(PrepareOutcome::Over) => return Ok(Response::Over),
            None => {
                return Err(Error::Busy(format!(
                    "{}: a vertex of this batch has been splitting, or another batch of it undecided, for {} s; nothing was applied, try \
                     again",
                    self.settings.id,
                    SPLIT_WAIT_MAX / 1000
                )));
            }
        };
        if self.lease_millis(&part) > 0 || !self.names_unchanged(&part)? {
            self.state().pending.end(tx);
            return Ok(Response::Over);
        }
        if let Err(e) = self.check_claims(&part, seen).await {
            self.state().pending.end(tx);
            return Err(e);
        }
        let mut later = Vec::new();
        let later_than = |op: &PartOp| op.at.is_some_and(|at| at > floor);
        let newer = floor < self.engine.newest_stored() || part.ops.iter().any(later_than);
        if newer || can_fail {
            match self.engine.try_part(floor, &part_ops(&part, None)) {
                Ok(later_versions) => {
                    let index = |(i, version): (usize, Version)| {
                        part.ops.get(i).map(|op| (op.index, version))
                    };
                    later = later_versions.into_iter().filter_map(index).collect();
                }
                Err(e) => {
                    self.state().pending.end(tx);
                    return Err(e);
                }
            }
        }
        Ok(Response::Prepared(Prepared { floor, later }))
    }

    /// Splits of the vertices whose edges in this part are on other servers, as far as is known here; `None` if
    /// all are here.
    fn moved(&self, state: &State, part: &Part) -> Option<Vec<(VertexId, Vec<u8>)>> {
        let mut deleted = Vec::new();
        for op in &part.ops {
            if let Change::Edge { key, .. } = &op.change
                && !self.is_here(state, key)
            {
                deleted.push(key.source);
            }
            if let Change::Names(names) = &op.change {
                for row in &names.rows {
                    if let Ok(RowHome::Entry(directory, _)) = row_home(&row.key)
                        && self.row_is_here(state, &row.key) == Some(false)
                    {
                        deleted.push(entries_vertex(directory));
                    }
                }
            }
        }
        deleted.dedup();
        (!deleted.is_empty()).then(|| self.encoded_splits(state, &deleted))
    }

    /// Whether rows of the namespace are unchanged since the coordinator read them. No other transaction writes them
    /// from here on.
    fn names_unchanged(&self, part: &Part) -> Result<bool> {
        for op in &part.ops {
            let Change::Names(names) = &op.change else {
                continue;
            };
            let read = names.rows.iter();
            let read: Vec<(Vec<u8>, u64)> = read
                .filter_map(|row| Some((row.key.clone(), row.read?)))
                .collect();
            if !self
                .own_names()
                .is_unchanged(names.epoch, &read, &names.empty)?
            {
                return Ok(false);
            }
        }
        Ok(true)
    }

    /// Applies a part of a decided transaction.
    pub(crate) async fn commit(self: &Arc<Self>, decided: Decided) -> Result<Response> {
        let done = |commit: &Commit| Response::Committed {
            vertices_created: commit.vertices_created,
            edges_created: commit.edges_created,
            unchanged: commit.unchanged,
        };
        let nothing = Commit {
            version: decided.version,
            applied: false,
            vertices_created: 0,
            edges_created: 0,
            unchanged: 0,
        };
        // A message that arrives twice is applied once: rows that move must not overwrite what was written since.
        let tx = decided.tx;
        let claim = |state: &mut State| {
            let over = state.pending.is_over(tx);
            (over || state.committing.insert(tx)).then(|| (state.pending.part(tx), over))
        };
        let Some((prepared, over)) = self.wait_until(COMMIT_WAIT_MAX, claim).await else {
            return Err(Error::Busy(format!(
                "{} is already applying its part of this batch; try again",
                self.settings.id
            )));
        };
        let _done = (!over).then_some(Committing { node: self, tx });
        let part = match (prepared, decided.part) {
            (None, _) if over => return Ok(done(&nothing)),
            (Some(part), _) => part,
            (None, Some(part)) => self.remaining_part(&part),
            (None, None) => return Ok(Response::Unknown),
        };
        let Some((mut side_writes, forgotten)) = self.note_done(tx, &part) else {
            return Ok(done(&nothing));
        };
        let noted = !side_writes.rows.is_empty();
        side_writes.idempotency_key = decided.idempotency_key;
        let must_not_repeat = part.ops.iter().any(|op| op.change.must_not_repeat());
        let commit = self
            .commit_part(DecidedPart {
                part,
                version: decided.version,
                later: decided.later,
                side_writes,
                // The coordinator forgets the decision once it is acknowledged.
                published: true,
            })
            .await?;
        let mut state = self.state();
        if noted {
            for tx in forgotten {
                state.done.remove(&tx);
            }
            if must_not_repeat {
                state.done.insert(tx);
            }
        }
        state.pending.end(tx);
        drop(state);
        Ok(done(&commit))
    }

    /// Returns rows that record a part that must not be applied twice and remove the records of parts that cannot
    /// come again, with the ids of the latter. `None` if the part was applied before.
    fn note_done(&self, tx: TxId, part: &Part) -> Option<(SideWrites, Vec<TxId>)> {
        let state = self.state();
        let mut side_writes = SideWrites::default();
        if state.done.contains(&tx) {
            return None;
        }
        if part.ops.iter().any(|op| op.change.must_not_repeat()) {
            side_writes
                .rows
                .push((Table::Meta, done_key(tx), Some(Vec::new())));
        }
        let mut forgotten = Vec::new();
        // This decision is on the coordinator's disk, and with it the fact that earlier ones have ended there.
        if let Some(over) = state.pending.over_before(tx) {
            let of = |incarnation, number| TxId {
                server: tx.server,
                incarnation,
                number,
            };
            forgotten.extend(state.done.range(of(0, 0)..of(tx.incarnation, over)));
            for tx in &forgotten {
                side_writes.rows.push((Table::Meta, done_key(*tx), None));
            }
        }
        Some((side_writes, forgotten))
    }

    /// Refuses ID attributes that name an object on another server, one that has moved to them. (The engine refuses
    /// those that name an object here.) This transaction holds them exclusively by now.
    async fn check_claims(&self, part: &Part, seen: Version) -> Result<()> {
        for op in &part.ops {
            let (identity, mover) = match &op.change {
                Change::Vertex(Op::CreateObject { identity, .. }) => (identity, None),
                Change::Claim { identity, object } => (identity, Some(*object)),
                _ => continue,
            };
            let Some(object) = self.engine.object_alias(identity)? else {
                continue;
            };
            if Some(object) == mover || self.home(object.vertex()) == self.settings.id {
                continue;
            }
            let named = self.identity_of(object, seen).await?;
            if named.as_ref() == Some(identity) {
                return Err(Error::Invalid(format!(
                    "an object with {identity} exists already: {object}"
                )));
            }
        }
        Ok(())
    }

    /// Reduces a part that this server has forgotten to what may not have been applied. Edges that are on other
    /// servers by now were applied before their partition moved: a split waits for pending transactions, and a
    /// restarted server receives all of them before it splits anything.
    fn remaining_part(&self, part: &Part) -> Arc<Part> {
        let state = self.state();
        let here = |op: &&PartOp| match &op.change {
            Change::Edge { key, .. } => self.is_here(&state, key),
            Change::Vertex(_)
            | Change::Adopt(_)
            | Change::Names(_)
            | Change::Claim { .. }
            | Change::Release { .. } => true,
        };
        let mut ops: Vec<PartOp> = part.ops.iter().filter(here).cloned().collect();
        for op in &mut ops {
            if let Change::Names(names) = &mut op.change {
                names
                    .rows
                    .retain(|row| self.row_is_here(&state, &row.key) != Some(false));
            }
        }
        Arc::new(Part { ops })
    }

    /// Merges splits with the stored ones of the vertex. The caller must hold [`Node::writing_splits`].
    pub(crate) fn merge_stored_splits(&self, id: VertexId, splits: SplitState) -> SplitState {
        let mut both = self.stored_splits(id);
        both.merge(splits.splits());
        SplitState::new(splits.kind(), splits.tree(), both).unwrap_or(splits)
    }

    /// Adds the rows of a received partition; `None` if they are here already. The caller must hold [`Node::writing_splits`].
    pub(super) fn adopt(
        &self,
        adopt: &crate::peer::Adopt,
        side_writes: &mut SideWrites,
    ) -> Result<Option<SplitState>> {
        let splits = self.decode_splits(self.settings.id, &adopt.splits)?;
        let known = self.stored_splits(adopt.vertex);
        if known.covers(splits.splits()) {
            return Ok(None);
        }
        let splits = self.merge_stored_splits(adopt.vertex, splits);
        if let Some(table) = &adopt.table {
            if adopt.rows.len() as u64 != table.rows {
                return Err(Error::Busy(format!(
                    "a partition arrived with {} rows of {}; it will be sent again",
                    adopt.rows.len(),
                    table.rows
                )));
            }
            let rows = adopt.rows.iter();
            side_writes.ingested = Some(IngestedRows {
                ranges: ranges_of(entries_vertex(adopt.vertex), table.hashes),
                rows: rows.map(|r| (r.key.clone(), r.value.clone())).collect(),
            });
        }
        for row in adopt.rows.iter().filter(|_| adopt.table.is_none()) {
            let table = match row.table {
                RawTable::Rows => Table::Rows,
                RawTable::History => Table::History,
                RawTable::Names => Table::Names,
            };
            side_writes
                .rows
                .push((table, row.key.clone(), Some(row.value.clone())));
        }
        side_writes
            .rows
            .push((Table::Meta, split_key(adopt.vertex), Some(splits.encode())));
        for (edge_type, degree) in &adopt.degrees {
            let change = i64::try_from(*degree).unwrap_or(i64::MAX);
            side_writes
                .counters
                .push((Counter::Degree(adopt.vertex, *edge_type), change));
            side_writes
                .counters
                .push((Counter::Edges(*edge_type), change));
            side_writes.touched.push((adopt.vertex, *edge_type));
        }
        for row in adopt.rows.iter().filter(|r| r.table != RawTable::Names) {
            // Deleted edges are in no counter, and still change the adjacency list.
            if let Ok(key) = EdgeKey::decode(&row.key) {
                side_writes.touched.push((key.source, key.edge_type));
            }
        }
        side_writes.touched.sort_unstable();
        side_writes.touched.dedup();
        Ok(Some(splits))
    }
}

/// A part that is being applied.
pub(super) struct Committing<'a> {
    pub(super) node: &'a Node,
    pub(super) tx: TxId,
}

impl Drop for Committing<'_> {
    fn drop(&mut self) {
        self.node.state().committing.remove(&self.tx);
    }
}

/// Outcome of preparing a part.
enum PrepareOutcome {
    Pending(Version),
    Moved(Vec<(VertexId, Vec<u8>)>),
    Over,
}

/// Whether a vertex of a part is splitting here or moving to this server.
fn is_splitting(state: &State, part: &Part) -> bool {
    if state.frozen.is_empty() && state.pending.len() == 0 {
        return false;
    }
    part.ops.iter().any(|op| match &op.change {
        Change::Edge { key, .. } => {
            state.frozen.contains(&key.source) || state.pending.adopts(key.source)
        }
        Change::Names(names) => {
            let empty = names.empty.iter();
            empty.into_iter().any(|id| Node::entries_move(state, *id))
                || names.rows.iter().any(|row| match row_home(&row.key) {
                    Ok(RowHome::Entry(directory, _)) => Node::entries_move(state, directory),
                    _ => false,
                })
        }
        Change::Vertex(_) | Change::Adopt(_) | Change::Claim { .. } | Change::Release { .. } => {
            false
        }
    })
}

/// Entries that a part creates: directories and hashes.
pub(super) fn created_entries(part: &Part) -> Vec<(VertexId, u64)> {
    let mut made = Vec::new();
    for op in &part.ops {
        if let Change::Names(names) = &op.change {
            let rows = names.rows.iter();
            let new = rows.filter(|row| row.value.is_some() && row.read.is_none_or(|r| r == 0));
            made.extend(new.filter_map(|row| {
                let (directory, hash, _) = decode_dentry_key(&row.key).ok()?;
                Some((directory, hash))
            }));
        }
    }
    made
}

/// Whether the stored state can refuse the change.
fn can_fail(op: &PartOp) -> bool {
    match &op.change {
        // Objects come into being only by being created.
        Change::Vertex(Op::EnsureVertex { vertex, .. }) => is_object(vertex.id),
        Change::Adopt(_) | Change::Names(_) | Change::Release { .. } => false,
        Change::Vertex(_) | Change::Claim { .. } => true,
        Change::Edge {
            deleted, requested, ..
        } => *deleted && *requested,
    }
}
