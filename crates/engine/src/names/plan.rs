//! Changes of a namespace of which this engine has a part: committed at once if all of their rows are here, or else planned
//! as rows to be written, each with a digest of the value that was read. The host commits those on all engines concerned,
//! if they are unchanged.

use super::batching::ChangeSet;
use super::partial_rows::{PartialRows, PlannedRow, RemoteData, RowPlacement, RunResult};
use super::source::{LocalOutcome, LocalStop};
use super::{Filters, NamesTxn, PartialNamespace};
use crate::txn::{Overlay, Producers, Txn, lock};
use esker_model::key::Counter;
use esker_model::namespace::{AppliedChange, Change};
use esker_model::object::Principal;
use esker_model::{Op, Result, VertexId};
use esker_store::Table;

/// A change that concerns several engines, as rows.
#[derive(Debug, Clone)]
pub struct ChangePlan {
    /// Response of the change once it is committed.
    pub done: AppliedChange,
    /// Epoch of the directory cache that must still be current at commit.
    pub epoch: u64,
    /// Rows to write or, without a value, to remove; with digests of the values read.
    pub rows: Vec<PlannedRow>,
    /// Changes of counters by the change.
    pub counters: Vec<(Counter, i64)>,
    /// Whether a directory is moved, removed or given other permissions: all engines must be notified.
    pub structure: bool,
    /// Directories that must be empty on all engines.
    pub empty: Vec<VertexId>,
    /// Changes of files' vertices.
    pub ops: Vec<Op>,
}

impl PartialNamespace<'_> {
    /// Applies changes as [`esker_model::namespace::Namespace::change`] does, up to the first that needs remote rows. The applied
    /// ones form one commit. With `idempotency_key`, a repeated set changes nothing and gets the first outcomes; the key is
    /// recorded only if all changes were tried.
    pub fn change(
        self,
        principal: Option<&Principal>,
        changes: &[Change],
        placement: &dyn RowPlacement,
        idempotency_key: Option<&[u8]>,
    ) -> Result<LocalOutcome> {
        let engine = self.0;
        let partial = PartialRows::new(engine, placement, None);
        let mut writer = lock(&engine.writer);
        if partial.is_outdated() {
            return Ok(LocalOutcome {
                stopped: Some(LocalStop::Busy),
                ..LocalOutcome::default()
            });
        }
        let set = ChangeSet {
            principal,
            changes,
            idempotency_key,
        };
        engine.change_one(&mut writer, set, Some(&partial))
    }

    /// Runs a change without committing it; returns the rows that it would write, with digests of the values read.
    pub fn plan(
        self,
        principal: Option<&Principal>,
        change: &Change,
        placement: &dyn RowPlacement,
        fetched: &RemoteData,
    ) -> Result<RunResult<ChangePlan>> {
        // Local rows stay unchanged during the run.
        let engine = self.0;
        let _writer = lock(&engine.writer);
        let partial = PartialRows::new(engine, placement, Some(fetched));
        if partial.is_outdated() {
            return Ok(RunResult::Busy);
        }
        let schema = engine.schema_now();
        let mut overlay = Overlay::new(&*engine.store);
        overlay.over_names(&partial);
        overlay.savepoint();
        let version = placement.version();
        let mut filters = Filters::default();
        let mut producers = Producers::default();
        let mut names = NamesTxn::new(engine, &mut filters, &partial);
        let now_millis = engine.clock.now_millis();
        let mut txn = Txn::begin(
            engine,
            &mut overlay,
            &schema,
            &mut producers,
            version,
            now_millis,
        );
        let done = match txn.change_name(&mut names, principal, change) {
            Ok(done) => done,
            Err(e) => return partial.finish(Err(e)),
        };
        names.keep_differences();
        let structure = names.structural;
        let mut changes: Vec<(Counter, i64)> =
            names.space.iter().filter(|(_, n)| *n != 0).collect();
        changes.sort_unstable_by_key(|(counter, _)| *counter);
        let (batch, _) = overlay.into_batch();
        let rows = batch.iter().filter(|w| w.table == Table::Names);
        let rows = rows.map(|w| PlannedRow {
            key: w.key.to_vec(),
            value: w.value.map(<[u8]>::to_vec),
            read: partial.read_of(w.key),
        });
        let rows = rows.collect();
        let (empty, ops) = partial.into_requirements();
        Ok(RunResult::Ended(ChangePlan {
            done,
            epoch: fetched.epoch,
            rows,
            counters: changes,
            structure,
            empty,
            ops,
        }))
    }
}
