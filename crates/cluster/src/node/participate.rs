//! A server's share in transactions that another (or it itself) coordinates.

use super::Node;
use super::codec::{done_key, split_key};
use super::hashed::Map;
use super::names::ranges_of;
use super::state::State;
use crate::peer::{
    Change, Decided, Part, PartOp, Prepared, RawTable, Response, TxId, entries_of, is_object,
};
use crate::placement::SplitState;
use esker_engine::{Absent, Arriving, Beside, PartChange};
use esker_model::key::Counter;
use esker_model::namespace::record::{Lies, decode_dentry_key, lies};
use esker_model::{Commit, EdgeKey, Error, Op, Result, Version, VertexId};
use esker_store::Table;
use std::sync::Arc;

/// How long a part waits for what another has prepared and only one may, in milliseconds; then its transaction comes again.
const ALONE_WAIT_MAX: u64 = 250;
/// How long a part waits for a vertex that splits, in milliseconds.
const SPLIT_WAIT_MAX: u64 = 5_000;

impl Node {
    /// Takes a part: from now on reads wait for it, until it is done or given up.
    pub(crate) async fn prepare(
        &self,
        tx: TxId,
        over: u64,
        seen: Version,
        part: Arc<Part>,
    ) -> Result<Response> {
        let Ok(part) = self.with_table(part).await else {
            return Ok(Response::Unknown);
        };
        let mut sources: Vec<VertexId> = Vec::with_capacity(part.ops.len());
        for op in &part.ops {
            op.change.depends_on(&mut |id| sources.push(id));
        }
        let can_fail = part.ops.iter().any(can_fail);
        self.let_promises_pass(&part).await;
        self.state().pending.learn(tx.server, tx.incarnation, over);
        let mut take = |state: &mut State| {
            if is_splitting(state, &part) {
                return None;
            }
            // What the client has had acknowledged may be on its way: it comes before what builds on it. (No circle: a part's
            // floor is later than what its client had seen.)
            if can_fail && state.pending.blocks(Some(&sources), seen).is_some() {
                return None;
            }
            if let Some(moved) = self.moved(state, &part) {
                return Some(Taken::Moved(moved));
            }
            // What was given of that directory is to be gone before anything of it comes back.
            if Self::gives(state, &part) {
                return Some(Taken::Over);
            }
            // A coordinator that was started anew has forgotten it, and nobody would end it.
            if state.incarnations.get(&tx.server) > Some(&tx.incarnation) {
                return Some(Taken::Over);
            }
            // The one that began first waits for the other, which comes again if it is the other way round: so nobody waits in
            // a circle.
            if let Some(holder) = state.pending.held(tx, &part) {
                return (tx > holder).then_some(Taken::Over);
            }
            let floor = self.clock.tick(self.time.now_millis());
            Some(if state.pending.add(tx, floor, Arc::clone(&part), over) {
                Taken::Pending(floor)
            } else {
                Taken::Over
            })
        };
        let taken = match self.until(ALONE_WAIT_MAX, &mut take).await {
            // Whoever has what this part wants may itself wait for another part of this transaction.
            None if self.state().pending.held(tx, &part).is_some() => Some(Taken::Over),
            None => self.until(SPLIT_WAIT_MAX, take).await,
            taken => taken,
        };
        let floor = match taken {
            Some(Taken::Pending(floor)) => floor,
            Some(Taken::Moved(splits)) => return Ok(Response::Moved(splits)),
            Some(Taken::Over) => return Ok(Response::Over),
            None => {
                return Err(Error::Unavailable(format!(
                    "{}: a vertex of this batch has been splitting, or another batch of it undecided, for {} s; nothing was applied, try \
                     again",
                    self.settings.id,
                    SPLIT_WAIT_MAX / 1000
                )));
            }
        };
        if self.promised(&part) > 0 || !self.names_hold(&part)? {
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
                Ok(places) => {
                    let index = |(i, version): (usize, Version)| {
                        part.ops.get(i).map(|op| (op.index, version))
                    };
                    later = places.into_iter().filter_map(index).collect();
                }
                Err(e) => {
                    self.state().pending.end(tx);
                    return Err(e);
                }
            }
        }
        Ok(Response::Prepared(Prepared { floor, later }))
    }

    /// How the vertices have split whose edges in this part lie elsewhere, as far as is known here; `None` if all lie here.
    fn moved(&self, state: &State, part: &Part) -> Option<Vec<(VertexId, Vec<u8>)>> {
        let mut gone = Vec::new();
        for op in &part.ops {
            if let Change::Edge { key, .. } = &op.change
                && !self.is_here(state, key)
            {
                gone.push(key.source);
            }
            if let Change::Names(names) = &op.change {
                for row in &names.rows {
                    if let Ok(Lies::Entry(directory, _)) = lies(&row.key)
                        && self.row_is_here(state, &row.key) == Some(false)
                    {
                        gone.push(entries_of(directory));
                    }
                }
            }
        }
        gone.dedup();
        (!gone.is_empty()).then(|| self.known_splits(state, &gone))
    }

    /// Whether rows of the namespace are as the coordinator has read them. Nobody else writes them from here on.
    fn names_hold(&self, part: &Part) -> Result<bool> {
        for op in &part.ops {
            let Change::Names(names) = &op.change else {
                continue;
            };
            let read = names.rows.iter();
            let read: Vec<(Vec<u8>, u64)> = read
                .filter_map(|row| Some((row.key.clone(), row.read?)))
                .collect();
            if !self.engine.names_hold(names.epoch, &read, &names.empty)? {
                return Ok(false);
            }
        }
        Ok(true)
    }

    /// Does a part that was decided.
    pub(crate) fn commit(self: &Arc<Self>, decided: Decided) -> Result<Response> {
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
        let (prepared, over) = {
            let mut state = self.state();
            let over = state.pending.is_over(decided.tx);
            // One that came twice is done once: rows that move must not come again over what was written since.
            if !over && !state.committing.insert(decided.tx) {
                return Err(Error::Unavailable(format!(
                    "{} is at it already",
                    self.settings.id
                )));
            }
            (state.pending.part(decided.tx), over)
        };
        let _done = (!over).then(|| Committing {
            node: self,
            tx: decided.tx,
        });
        let part = match (prepared, decided.part) {
            (None, _) if over => return Ok(done(&nothing)),
            (Some(part), _) => part,
            (None, Some(part)) => self.still_to_do(&part),
            (None, None) => return Ok(Response::Unknown),
        };
        let Some((beside, forgotten)) = self.note_done(decided.tx, &part) else {
            return Ok(done(&nothing));
        };
        let noted = !beside.rows.is_empty();
        let commit = self.do_part(&part, decided.version, &decided.later, beside)?;
        // Once it is acknowledged, the decision is forgotten.
        self.harden()?;
        if part.ops.iter().any(|op| op.change.is_table()) {
            self.engine.persist()?;
        }
        let mut state = self.state();
        if noted {
            for tx in forgotten {
                state.done.remove(&tx);
            }
            if part.ops.iter().any(|op| op.change.is_once()) {
                state.done.insert(decided.tx);
            }
        }
        state.pending.end(decided.tx);
        drop(state);
        Ok(done(&commit))
    }

    /// Rows that say that a part was done here, if it must not be done again, and take away those of parts that will never
    /// come again: which. `None` if the part was done.
    fn note_done(&self, tx: TxId, part: &Part) -> Option<(Beside, Vec<TxId>)> {
        let state = self.state();
        let mut beside = Beside::default();
        if state.done.contains(&tx) {
            return None;
        }
        if part.ops.iter().any(|op| op.change.is_once()) {
            beside
                .rows
                .push((Table::Meta, done_key(tx), Some(Vec::new())));
        }
        let mut forgotten = Vec::new();
        // This decision is on the coordinator's disk, and with it that those before it are over there.
        if let Some(over) = state.pending.over_before(tx) {
            let of = |incarnation, number| TxId {
                server: tx.server,
                incarnation,
                number,
            };
            forgotten.extend(state.done.range(of(0, 0)..of(tx.incarnation, over)));
            for tx in &forgotten {
                beside.rows.push((Table::Meta, done_key(*tx), None));
            }
        }
        Some((beside, forgotten))
    }

    /// Refuses ID attributes that name an object on another server: one that has moved to them. (What is named here, the engine
    /// refuses.) They are this transaction's alone by now.
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

    /// Of a part that this server does not know of (any more): what may not have been done. Edges that lie elsewhere by now
    /// were done before their partition moved: a split waits for what is pending, and a server that was started anew is
    /// told all of that before it splits anything.
    fn still_to_do(&self, part: &Part) -> Arc<Part> {
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

    /// Writes a part at its version, with rows of this node's own, and sees to what follows from it. The part stays
    /// pending: it is for the caller to end that.
    pub(crate) fn do_part(
        self: &Arc<Self>,
        part: &Part,
        version: Version,
        later: &[(u32, Version)],
        mut beside: Beside,
    ) -> Result<Commit> {
        self.clock.witness(version);
        let later: Map<u32, Version> = later.iter().copied().collect();
        let adopts = |op: &PartOp| matches!(op.change, Change::Adopt(_));
        let _writing = part.ops.iter().any(adopts).then(|| self.writing_splits());
        let mut adopted = Vec::new();
        for op in &part.ops {
            if let Change::Adopt(adopt) = &op.change
                && let Some(splits) = self.adopt(adopt, &mut beside)?
            {
                adopted.push((adopt, splits));
            }
            if let Change::Names(names) = &op.change {
                for row in &names.rows {
                    beside
                        .rows
                        .push((Table::Names, row.key.clone(), row.value.clone()));
                }
                beside.counters.extend(names.counters.iter().copied());
            }
        }
        let at = |op: &PartOp| {
            let version = later
                .get(&op.index)
                .copied()
                .unwrap_or(version)
                .max(version);
            op.at.unwrap_or(version)
        };
        let ops = part_ops(part, Some(&at));
        let commit = self
            .engine
            .apply_part(version, &ops, Absent::PassOver, beside)?;
        for (adopt, splits) in adopted {
            self.state().set_splits(adopt.vertex, splits);
            self.note_adopted(adopt);
        }
        if part.ops.iter().any(|op| op.change.is_structure()) {
            self.engine.forget_directories();
        }
        self.note_growth(part);
        self.note_entries(&made_by(part));
        Ok(commit)
    }

    /// How a vertex has split, with what is stored here of it. To be called by who holds [`Node::writing_splits`].
    pub(crate) fn with_stored(&self, id: VertexId, splits: SplitState) -> SplitState {
        let mut both = self.own_splits(id);
        both.merge(splits.splits());
        SplitState::new(splits.kind(), splits.tree(), both).unwrap_or(splits)
    }

    /// Rows that come with a partition; nothing if they are here already.
    fn adopt(&self, adopt: &crate::peer::Adopt, beside: &mut Beside) -> Result<Option<SplitState>> {
        let splits = self.decode_splits(self.settings.id, &adopt.splits)?;
        let known = self.own_splits(adopt.vertex);
        if known.covers(splits.splits()) {
            return Ok(None);
        }
        let splits = self.with_stored(adopt.vertex, splits);
        if let Some(table) = &adopt.table {
            if adopt.rows.len() as u64 != table.rows {
                return Err(Error::Unavailable(format!(
                    "a partition came with {} rows of {}; it will be sent again",
                    adopt.rows.len(),
                    table.rows
                )));
            }
            let rows = adopt.rows.iter();
            beside.arriving = Some(Arriving {
                ranges: ranges_of(entries_of(adopt.vertex), table.hashes),
                rows: rows.map(|r| (r.key.clone(), r.value.clone())).collect(),
            });
        }
        for row in adopt.rows.iter().filter(|_| adopt.table.is_none()) {
            let table = match row.table {
                RawTable::Rows => Table::Rows,
                RawTable::History => Table::History,
                RawTable::Names => Table::Names,
            };
            beside
                .rows
                .push((table, row.key.clone(), Some(row.value.clone())));
        }
        beside
            .rows
            .push((Table::Meta, split_key(adopt.vertex), Some(splits.encode())));
        for (edge_type, degree) in &adopt.degrees {
            let change = i64::try_from(*degree).unwrap_or(i64::MAX);
            beside
                .counters
                .push((Counter::Degree(adopt.vertex, *edge_type), change));
            beside.counters.push((Counter::Edges(*edge_type), change));
            beside.touched.push((adopt.vertex, *edge_type));
        }
        for row in adopt.rows.iter().filter(|r| r.table != RawTable::Names) {
            // Deleted edges count nowhere, and still a list that lacks them would be another one.
            if let Ok(key) = EdgeKey::decode(&row.key) {
                beside.touched.push((key.source, key.edge_type));
            }
        }
        beside.touched.sort_unstable();
        beside.touched.dedup();
        Ok(Some(splits))
    }
}

/// A part that is being done.
struct Committing<'a> {
    node: &'a Node,
    tx: TxId,
}

impl Drop for Committing<'_> {
    fn drop(&mut self) {
        self.node.state().committing.remove(&self.tx);
    }
}

/// What became of a part that came to be prepared.
enum Taken {
    Pending(Version),
    Moved(Vec<(VertexId, Vec<u8>)>),
    Over,
}

/// Whether a vertex of a part splits, here or on its way to here.
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
                || names.rows.iter().any(|row| match lies(&row.key) {
                    Ok(Lies::Entry(directory, _)) => Node::entries_move(state, directory),
                    _ => false,
                })
        }
        Change::Vertex(_) | Change::Adopt(_) | Change::Claim { .. } | Change::Release { .. } => {
            false
        }
    })
}

/// Entries that a part makes: directories and hashes.
fn made_by(part: &Part) -> Vec<(VertexId, u64)> {
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

/// Whether what is stored can refuse it.
fn can_fail(op: &PartOp) -> bool {
    match &op.change {
        // Objects are only made by being created.
        Change::Vertex(Op::EnsureVertex { vertex, .. }) => is_object(vertex.id),
        Change::Adopt(_) | Change::Names(_) | Change::Release { .. } => false,
        Change::Vertex(_) | Change::Claim { .. } => true,
        Change::Edge { gone, asked, .. } => *gone && *asked,
    }
}

/// A part as the engine takes it; `at` says when each change holds from.
fn part_ops<'a>(
    part: &'a Part,
    at: Option<&dyn Fn(&PartOp) -> Version>,
) -> Vec<esker_engine::PartOp<'a>> {
    let op = |op: &'a PartOp| {
        let change = match &op.change {
            Change::Vertex(change) => PartChange::Vertex(change),
            Change::Edge {
                key,
                gone,
                properties,
                asked,
            } => PartChange::Edge {
                key: *key,
                gone: *gone,
                properties,
                asked: *asked,
            },
            Change::Claim { identity, object } => PartChange::Claim {
                identity,
                object: *object,
            },
            Change::Release { identity, object } => PartChange::Release {
                identity,
                object: *object,
            },
            Change::Adopt(_) | Change::Names(_) => return None,
        };
        Some(esker_engine::PartOp {
            at: at.map_or(op.at, |at| Some(at(op))),
            change,
        })
    };
    part.ops.iter().filter_map(op).collect()
}
