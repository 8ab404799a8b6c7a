//! Transfer of directory partitions to other servers as sorted tables (TableFS and GIGA+ together; Ren, Patil &
//! Gibson: "bulk insert sorted tables into TableFS of target server, by passing only pathnames").
//!
//! ```text
//!  giver                                   shared storage              receiver
//!  rows of the partition ─────────────────► split-G-I-N.table
//!  Prepare: name, rows, bytes, checksum, hashes ──────────────────────► reads it once, or refuses
//!  the decision, with the new bitmap; the rows stay
//!  Commit ────────────────────────────────────────────────────────────► a sorted table past the log, with the bitmap
//!                                          (removed)
//!  the rows are removed, with the decision
//! ```
//!
//! So the file is needed only while the receiver prepares its part; if it is lost, no data is lost. The rows stay on
//! the giver, invisible, until the receiver has confirmed that it has them. A receiver that has forgotten its part
//! gets the rows in a message. Until the giver has removed them it accepts nothing of that directory.

use super::table::{TableWriter, ranges_of, read};
use crate::node::Node;
use crate::node::codec::{Decision, decided_key};
use crate::node::state::State;
use crate::peer::{Adopt, Change, Part, PartOp, RawRow, RawTable, TableFile, TxId, entries_vertex};
use crate::vnode::ServerId;
use esker_engine::{Absent, SideWrites};
use esker_model::{Error, Flow, Result, VertexId};
use esker_store::{KeyRange, Table};
use std::sync::Arc;
use std::sync::atomic::Ordering;

/// Number of rows that are removed in one commit.
const REMOVAL_BATCH: usize = 1 << 13;
/// After a failed table, how long no other one is tried, in milliseconds.
const PAUSE: u64 = 60_000;
/// Largest file that is read.
const FILE_BYTES_MAX: u64 = 1 << 30;

impl Node {
    /// Writes entries that move to another server as a table on shared storage; `None` if they must go in a message.
    pub(super) async fn write_table(
        &self,
        to: ServerId,
        directory: VertexId,
        hashes: (u64, u64),
    ) -> Option<TableFile> {
        let files = self.files.clone()?;
        let number = {
            let mut state = self.state();
            let now = self.time.now_millis();
            if state.table_transfers.pauses(to, now)
                || state.table_transfers.pauses(self.settings.id, now)
            {
                return None;
            }
            state.table_transfers.begun += 1;
            state.table_transfers.begun
        };
        let written = async {
            let (mut rows, id) = (0, (self.incarnation, number));
            self.rows_between(directory, hashes, &mut |_, _| {
                rows += 1;
                Flow::Continue(())
            })?;
            if rows < self.settings.table_min_rows {
                return Ok(None);
            }
            let mut writer = TableWriter::new(self.settings.id, id, hashes, rows);
            self.rows_between(directory, hashes, &mut |key, value| {
                writer.push(key, value);
                Flow::Continue(())
            })?;
            let (about, bytes) = writer.end();
            self.with_timeout(files.write(about.name(), bytes)).await?;
            Ok::<_, Error>(Some(about))
        };
        if let Ok(table) = written.await {
            return table;
        }
        self.table_failed(self.settings.id);
        self.drop_table(TableFile::name_of(
            self.settings.id,
            self.incarnation,
            number,
        ));
        None
    }

    /// Records that a table could not be read by that server, or not be written by this one.
    pub(super) fn table_failed(&self, server: ServerId) {
        self.moved.unread.fetch_add(1, Ordering::Relaxed);
        let until = self.time.now_millis() + PAUSE;
        self.state().table_transfers.pauses.push((server, until));
    }

    /// Removes a file that is no longer needed.
    pub(super) fn drop_table(&self, name: String) {
        if let Some(files) = &self.files {
            let removed = self.in_background(files.remove(name));
            self.host.spawn(removed);
        }
    }

    /// Removes files of earlier incarnations: the parts prepared then are in their receivers' memory, or will never
    /// be requested.
    pub(crate) async fn sweep_tables(&self) {
        let Some(files) = self.files.clone() else {
            return;
        };
        let Ok(names) = self.with_timeout(files.list()).await else {
            return;
        };
        for name in names {
            let whose = TableFile::parse_name(&name);
            let servers = self.map.servers();
            let first = servers.first() == Some(&self.settings.id);
            let old = |(giver, incarnation)| {
                giver == self.settings.id && incarnation < self.incarnation
                    // The giver is a server of a formerly larger cluster.
                    || first && !servers.contains(&giver)
            };
            if whose.is_some_and(old) {
                // Files that remain are tried again at the next start.
                let _ = self.with_timeout(files.remove(name)).await;
            }
        }
    }

    /// Returns a part with the rows of its table, if it has one; fails if the table cannot be read.
    pub(crate) async fn with_table(&self, part: Arc<Part>) -> Result<Arc<Part>> {
        let awaits = |op: &PartOp| matches!(&op.change, Change::Adopt(a) if a.awaits_rows());
        if !part.ops.iter().any(awaits) {
            return Ok(part);
        }
        let mut part = Part::clone(&part);
        for op in &mut part.ops {
            if let Change::Adopt(adopt) = &mut op.change
                && let Some(table) = adopt.table.clone().filter(|_| adopt.awaits_rows())
            {
                adopt.rows = self
                    .read_table(&table, entries_vertex(adopt.vertex))
                    .await?;
            }
        }
        Ok(Arc::new(part))
    }

    async fn read_table(&self, table: &TableFile, directory: VertexId) -> Result<Vec<RawRow>> {
        let files = self.files.as_ref().ok_or_else(|| {
            Error::Unavailable(format!(
                "{} shares no storage with other servers",
                self.settings.id
            ))
        })?;
        if table.bytes > FILE_BYTES_MAX {
            return Err(Error::Limit {
                what: "a partition as a table, in bytes,".into(),
                got: table.bytes,
                limit: FILE_BYTES_MAX,
            });
        }
        let name = table.name();
        let bytes = self
            .with_timeout(files.read(name.clone(), table.bytes))
            .await?;
        read(table, directory, &bytes)
            .map_err(|why| Error::Unavailable(format!("`{name}` on shared storage: {why}")))
    }

    /// Returns a part of a decision with the rows of its table, which stay here as long as the decision is undelivered.
    pub(crate) fn with_stored_rows(&self, part: &Arc<Part>) -> Result<Arc<Part>> {
        let awaits = |op: &PartOp| matches!(&op.change, Change::Adopt(a) if a.awaits_rows());
        if !part.ops.iter().any(awaits) {
            return Ok(Arc::clone(part));
        }
        let mut part = Part::clone(part);
        for op in &mut part.ops {
            if let Change::Adopt(adopt) = &mut op.change
                && let Some(table) = adopt.table.as_ref().filter(|_| adopt.awaits_rows())
            {
                let (directory, rows) = (entries_vertex(adopt.vertex), &mut adopt.rows);
                self.rows_between(directory, table.hashes, &mut |key, value| {
                    rows.push(RawRow {
                        table: RawTable::Names,
                        key: key.to_vec(),
                        value: value.to_vec(),
                    });
                    Flow::Continue(())
                })?;
            }
        }
        Ok(Arc::new(part))
    }

    /// Scans entries between two hashes, and records of departed entries, in the order of keys.
    pub(super) fn rows_between(
        &self,
        directory: VertexId,
        hashes: (u64, u64),
        sink: &mut dyn FnMut(&[u8], &[u8]) -> Flow,
    ) -> Result<()> {
        let mut ended = false;
        for (from, until) in ranges_of(directory, hashes) {
            let range = KeyRange::between(&from, &until);
            self.engine
                .store()
                .scan(Table::Names, &range, &mut |key, value| {
                    let flow = sink(key, value);
                    ended = flow.is_break();
                    flow
                })?;
            if ended {
                break;
            }
        }
        Ok(())
    }

    /// Removes the rows transferred as tables, with the decision, once all participants have applied it; returns
    /// whether there were any.
    pub(crate) fn remove_transferred(&self, tx: TxId, decision: &Decision) -> Result<bool> {
        let tables: Vec<(VertexId, (u64, u64))> = decision
            .parts
            .values()
            .flat_map(|part| &part.ops)
            .filter_map(|op| match &op.change {
                Change::Adopt(a) => Some((entries_vertex(a.vertex), a.table.as_ref()?.hashes)),
                _ => None,
            })
            .collect();
        if tables.is_empty() {
            return Ok(false);
        }
        loop {
            let mut side_writes = SideWrites::default();
            for (directory, hashes) in &tables {
                self.rows_between(*directory, *hashes, &mut |key, _| {
                    side_writes.rows.push((Table::Names, key.to_vec(), None));
                    if side_writes.rows.len() < REMOVAL_BATCH {
                        Flow::Continue(())
                    } else {
                        Flow::Break(())
                    }
                })?;
            }
            let last = side_writes.rows.len() < REMOVAL_BATCH;
            if last {
                let key = decided_key(tx);
                side_writes.rows.push((Table::Meta, key, None));
            }
            let version = self.clock.tick(self.time.now_millis());
            self.engine
                .apply_part(version, &[], Absent::Refuse, side_writes)?;
            if last {
                break;
            }
        }
        // Rows of that directory may come back from now on; a power failure must not remove those.
        self.engine.persist()?;
        Ok(true)
    }

    /// Calls [`Self::remove_transferred`] for all decisions, all of which have been applied everywhere.
    pub(crate) fn remove_all_transferred(&self) -> Result<()> {
        let decided: Vec<_> = {
            let state = self.state();
            let all = state.own.decided.iter();
            all.map(|(tx, d)| (*tx, Arc::clone(&d.decision))).collect()
        };
        for (tx, decision) in decided {
            if self.remove_transferred(tx, &decision)? {
                self.state().own.decided.remove(&tx);
            }
        }
        Ok(())
    }

    /// Whether rows that this server has transferred from a directory are still here.
    pub(crate) fn still_has_transferred(state: &State, part: &Part) -> bool {
        if state.own.decided.is_empty() {
            return false;
        }
        let given = |id: VertexId| {
            let adopts = |op: &PartOp| matches!(&op.change, Change::Adopt(a) if a.vertex == id && a.table.is_some());
            let mut decided = state.own.decided.values();
            decided.any(|d| d.decision.parts.values().any(|p| p.ops.iter().any(adopts)))
        };
        part.ops.iter().any(|op| match &op.change {
            Change::Adopt(adopt) => given(adopt.vertex),
            _ => false,
        })
    }
}

impl Adopt {
    /// Whether the rows are only in a file.
    fn awaits_rows(&self) -> bool {
        self.table.is_some() && self.rows.is_empty()
    }
}
