//! Changes of a namespace that is spread over many engines ([`super::apart`]).

use super::again;
use super::apart::{Apart, Fetched, Placed, Ran, RowPlace, is_current};
use super::space::Differences;
use super::together::{Admitted, Set};
use super::{Filters, Local, NamesTxn, file_kind};
use crate::Engine;
use crate::txn::{Effects, Overlay, Senders, Txn, lock, repeat};
use esker_model::key::{Counter, SpaceKey};
use esker_model::namespace::record::dentries_prefix;
use esker_model::namespace::{Change, Done, digest};
use esker_model::object::Asker;
use esker_model::{Error, Flow, Op, Result, Version, VertexId, VertexTypeId};
use esker_store::{KeyRange, Table};

/// What became of changes that were tried here.
#[derive(Debug)]
pub struct Here {
    /// Of the first ones: they are committed.
    pub answers: Vec<Result<Done>>,
    /// Why the next one was not tried.
    pub stopped: Option<Stopped>,
    /// Entries that were made by those: directories and hashes of names.
    pub made: Vec<(VertexId, u64)>,
}

/// Why a change cannot be done here at once.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Stopped {
    /// Others have rows of it: see [`Engine::plan_name`].
    Apart,
    /// Something under way has to end first.
    Busy,
}

/// A change that concerns several engines, as rows.
#[derive(Debug, Clone)]
pub struct Plan {
    /// What it answers once it is committed.
    pub done: Done,
    /// Directories must not have changed since that epoch.
    pub epoch: u64,
    /// Rows to write or, without a value, to remove; with what was read of them, if they were.
    pub rows: Vec<PlannedRow>,
    /// What it changes of counters.
    pub counters: Vec<(Counter, i64)>,
    /// Whether a directory is moved, removed or gets other permissions: all engines have to know.
    pub structure: bool,
    /// Directories that must be empty on all engines.
    pub empty: Vec<VertexId>,
    /// What changes of files' vertices.
    pub ops: Vec<Op>,
}

/// A row that a change writes.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PlannedRow {
    /// Its key, in table `names`.
    pub key: Vec<u8>,
    /// What is to be there; nothing, to remove it.
    pub value: Option<Vec<u8>>,
    /// What was read of it.
    pub read: Option<u64>,
}

impl Engine {
    /// Directories in memory are of this epoch.
    pub fn names_epoch(&self) -> u64 {
        self.names.directories.epoch()
    }

    /// From here on the namespace is spread over several engines.
    pub fn spread_names(&self) {
        self.names
            .spread
            .store(true, std::sync::atomic::Ordering::Release);
    }

    /// Whether there are rows of files here, and whether the graph has, or had, vertices of files here.
    pub fn knows_files(&self) -> (bool, bool) {
        (self.names.any(), self.names.has_vertices())
    }

    /// There are files, or vertices of files, on some engine.
    pub fn note_files(&self, files: bool, vertices: bool) {
        if files {
            self.names.note_any();
        }
        if vertices {
            self.names.note_vertices();
        }
    }

    /// Whether vertices of a type are files or directories.
    pub fn is_file_type(&self, type_id: VertexTypeId) -> bool {
        file_kind(&self.schema_now(), type_id).is_some()
    }

    /// Whether a directory is in memory, under its path without symbolic links.
    pub fn knows_directory(&self, path: &[u8]) -> bool {
        self.names.directories.get(path).is_some()
    }

    /// The directory in memory at a path without symbolic links.
    pub fn directory_known(&self, path: &[u8]) -> Option<VertexId> {
        self.names.directories.get(path).map(|d| d.id)
    }

    /// Forgets directories in memory: some were moved or removed, or have another mode.
    pub fn forget_directories(&self) {
        self.names.directories.clear();
    }

    /// Applies changes as [`esker_model::namespace::Namespace::change`] does, up to the first that others have rows of. Those
    /// that were applied are one commit. With `once` they may have come before: then nothing is changed, and the answers are
    /// those of the first time; that they were made is kept if all of them are.
    pub fn change_names_here(
        &self,
        asker: Option<&Asker>,
        changes: &[Change],
        placed: &dyn Placed,
        once: Option<&[u8]>,
    ) -> Result<Here> {
        let mut here = Here {
            answers: Vec::with_capacity(changes.len()),
            stopped: None,
            made: Vec::new(),
        };
        let mut guard = lock(&self.writer);
        let writer = &mut *guard;
        if placed.busy() {
            here.stopped = Some(Stopped::Busy);
            return Ok(here);
        }
        let apart = Apart::new(&*self.store, placed, None);
        let schema = self.schema_now();
        let mut overlay = Overlay::new(&apart);
        if changes.len() > 16 {
            overlay.reserve(changes.len() + 8);
        }
        let version = placed.version();
        let next = writer.clock.last().next();
        writer.clock.witness(version.max(next));
        let mut filters = Filters::default();
        let mut names = self.names_txn(&mut filters, &apart);
        writer.senders.begin();
        let set = Set {
            asker,
            changes,
            once,
        };
        let now_millis = self.clock.now_millis();
        let numbered = match self.admit_set(&set, &mut writer.senders, now_millis)? {
            Admitted::Now(numbered) => numbered,
            Admitted::Before(answers) => {
                here.answers = answers;
                return Ok(here);
            }
        };
        let mut total = Effects::default();
        let mut structural = false;
        for change in changes {
            overlay.savepoint();
            let mut txn = self.names_part(&mut overlay, &schema, version, &mut writer.senders);
            let answer = txn.change_name(&mut names, asker, change);
            let effects = txn.effects;
            names.salt += 1;
            let stopped = match apart.trouble::<()>() {
                Some(Ran::Busy) => Some(Stopped::Busy),
                Some(_) => Some(Stopped::Apart),
                None if answer.is_err() || placed.alone() => None,
                None if names.structural || !names.sums_are_here(placed) => Some(Stopped::Apart),
                // What is written without being read.
                None => overlay
                    .written(Table::Names)
                    .find_map(|key| match placed.place(key) {
                        RowPlace::Here => None,
                        RowPlace::Elsewhere => Some(Stopped::Apart),
                        RowPlace::Busy => Some(Stopped::Busy),
                    }),
            };
            if stopped.is_some() {
                overlay.undo();
                here.stopped = stopped;
                names.structural = structural;
                break;
            }
            structural = names.structural;
            let put = apart.take_put();
            match &answer {
                Ok(_) => {
                    if makes(change) {
                        here.made.extend(put);
                    }
                    total.absorb(effects);
                    names.keep_differences();
                }
                Err(e) => {
                    overlay.undo();
                    names.present.clear();
                    names.local.clear();
                    if !matches!(e, Error::File(_)) {
                        names.restructure();
                    }
                }
            }
            here.answers.push(answer);
        }
        for (counter, change) in names.space.iter() {
            total.changes.add(counter, change);
        }
        if let Some(numbered) = numbered
            && here.stopped.is_none()
            && here.answers.iter().any(Result::is_ok)
        {
            let answer = again::encode(version, &here.answers);
            writer.senders.answered(&numbered, now_millis, answer);
        }
        let structural = names.structural;
        let writing = self.begin_changes(&overlay, structural);
        let committed = match &writing {
            Ok(_) => self.commit_group(writer, overlay, &mut total),
            Err(e) => Err(repeat(e)),
        };
        writer.senders.end(committed.is_ok());
        if structural || committed.is_err() {
            self.names.directories.clear();
            self.feed.lose();
        }
        committed.map(|()| here)
    }

    /// Runs a change without committing it; says what it would write, and where that was read.
    pub fn plan_name(
        &self,
        asker: Option<&Asker>,
        change: &Change,
        placed: &dyn Placed,
        fetched: &Fetched,
    ) -> Result<Ran<Plan>> {
        // Rows here stay as they are while this looks at them.
        let _writer = lock(&self.writer);
        if placed.busy() || !is_current(fetched, &self.names.directories) {
            return Ok(Ran::Busy);
        }
        let apart = Apart::new(&*self.store, placed, Some(fetched));
        let schema = self.schema_now();
        let mut overlay = Overlay::new(&apart);
        overlay.savepoint();
        let version = placed.version();
        let mut filters = Filters::default();
        let mut senders = Senders::default();
        let mut names = self.names_txn(&mut filters, &apart);
        let mut txn = self.names_part(&mut overlay, &schema, version, &mut senders);
        let done = match txn.change_name(&mut names, asker, change) {
            Ok(done) => done,
            // What was read of it is of several moments.
            Err(e) if super::open::moves(&e) => return Ok(Ran::Busy),
            Err(e) => return apart.trouble().ok_or(e),
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
            read: apart.read_of(w.key),
        });
        let rows = rows.collect();
        let (empty, ops) = apart.into_found();
        Ok(Ran::Ended(Plan {
            done,
            epoch: fetched.epoch,
            rows,
            counters: changes,
            structure,
            empty,
            ops,
        }))
    }

    /// Whether rows are as they were read, and directories without entries here. What others must not change until then, the
    /// host has made known before it calls this.
    pub fn names_hold(
        &self,
        epoch: Option<u64>,
        rows: &[(Vec<u8>, u64)],
        empty: &[VertexId],
    ) -> Result<bool> {
        // Whoever is changing something ends first.
        let _writer = lock(&self.writer);
        if epoch.is_some_and(|epoch| epoch != self.names.directories.epoch()) {
            return Ok(false);
        }
        for (key, read) in rows {
            let mut now = 0;
            self.store
                .get_with(Table::Names, key, &mut |value| now = digest(Some(value)))?;
            if now != *read {
                return Ok(false);
            }
        }
        for directory in empty {
            let mut found = false;
            let range = KeyRange::prefix(&dentries_prefix(*directory));
            self.store.scan(Table::Names, &range, &mut |_, _| {
                found = true;
                Flow::Break(())
            })?;
            if found {
                return Ok(false);
            }
        }
        Ok(true)
    }

    /// Waits until whoever is changing something now has ended.
    pub fn names_barrier(&self) {
        drop(lock(&self.writer));
    }

    fn names_txn<'n>(&'n self, filters: &'n mut Filters, apart: &'n Apart<'n>) -> NamesTxn<'n> {
        NamesTxn {
            names: &self.names,
            pending: &self.counters,
            filters,
            apart: Some(apart),
            local: Local::default(),
            structural: false,
            space: Differences::default(),
            present: Vec::new(),
            salt: 0,
            fresh: super::subtree::NewRows::default(),
            sorted_least: usize::MAX,
        }
    }

    fn names_part<'a, 's>(
        &'a self,
        overlay: &'a mut Overlay<'s>,
        schema: &'a esker_model::Schema,
        senders_version: Version,
        senders: &'a mut Senders,
    ) -> Txn<'a, 's> {
        let now_millis = self.clock.now_millis();
        Txn::begin(self, overlay, schema, senders, senders_version, now_millis)
    }
}

/// Whether a change gives a directory an entry that it did not have.
fn makes(change: &Change) -> bool {
    matches!(
        change,
        Change::Make(..) | Change::Rename { .. } | Change::Link { .. }
    )
}

impl NamesTxn<'_> {
    /// Whether whoever asks for the sums that the present change changes asks this engine.
    fn sums_are_here(&self, placed: &dyn Placed) -> bool {
        self.present.iter().all(|(counter, _)| match counter {
            Counter::Space(SpaceKey::Directory(id), _) => placed.sums(*id),
            _ => true,
        })
    }
}
