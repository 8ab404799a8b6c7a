//! The part of a distributed namespace that one engine has: what a host needs to answer clients together with other engines.
//!
//! A read runs over the rows that are here and those that the host fetched ([`PartialNamespace::read`]). A change whose rows
//! are all here is committed at once ([`PartialNamespace::change`]). Any other becomes a list of rows to write
//! ([`PartialNamespace::plan`]), which the host commits on all engines concerned as parts of a batch.

use super::local_rows::LocalRows;
use super::partial_rows::{
    DirectorySums, ListCursor, PartialRows, RawEntry, RemoteData, RowLocation, RowPlacement,
    RunResult,
};
use super::reader::NamesReader;
use super::rows;
use super::source::RowSource as _;
use super::{LocalDirectories, file_kind};
use crate::Engine;
use crate::counts::decode_value;
use crate::read::FirstError;
use crate::txn::{check_vertex, lock};
use esker_model::key::{Counter, Measure, SpaceKey};
use esker_model::namespace::record::{
    InodeHistory, dentries_prefix, dentry_key, inode_history_prefix,
};
use esker_model::namespace::{Name, NamePath, SpaceBy, digest};
use esker_model::object::Principal;
use esker_model::{Error, Flow, Result, Version, VertexId, VertexRef, VertexTypeId};
use esker_store::{KeyRange, Table};
use std::sync::atomic::Ordering;

/// Length of the common prefix of the keys of a directory's entries, in bytes.
const DIRECTORY_PREFIX: usize = 17;
/// Approximate maximum size of a page of a listing, in bytes.
const PAGE_BYTES_MAX: usize = 1 << 20;

/// An engine's part of a distributed namespace.
#[derive(Debug, Clone, Copy)]
pub struct PartialNamespace<'e>(pub(super) &'e Engine);

impl Engine {
    /// Returns this engine's part of a distributed namespace.
    pub fn partial_namespace(&self) -> PartialNamespace<'_> {
        PartialNamespace(self)
    }
}

impl PartialNamespace<'_> {
    /// Marks the namespace as distributed over several engines.
    pub fn set_distributed(self) {
        self.0.names.distributed.store(true, Ordering::Release);
    }

    /// Whether this engine has rows of files, and whether its graph has, or had, vertices of files.
    pub fn has_files(self) -> (bool, bool) {
        (self.0.names.any(), self.0.names.has_vertices())
    }

    /// Notes that some engine has files, or vertices of files.
    pub fn note_files(self, files: bool, vertices: bool) {
        if files {
            self.0.names.note_any();
        }
        if vertices {
            self.0.names.note_vertices();
        }
    }

    /// Whether vertices of a type are files or directories.
    pub fn is_file_type(self, type_id: VertexTypeId) -> bool {
        file_kind(&self.0.schema_now(), type_id).is_some()
    }

    /// Epoch of the directory cache.
    pub fn epoch(self) -> u64 {
        self.0.names.directories.epoch()
    }

    /// Returns the cached directory at a path, which must be free of symbolic links.
    pub fn cached_directory(self, path: &[u8]) -> Option<VertexId> {
        self.0.names.directories.get(path).map(|d| d.id)
    }

    /// Runs reads on behalf of a principal.
    pub fn read<T>(
        self,
        principal: Option<&Principal>,
        placement: &dyn RowPlacement,
        fetched: &RemoteData,
        run: impl FnOnce(&NamesReader<'_>) -> Result<T>,
    ) -> Result<RunResult<T>> {
        let partial = PartialRows::new(self.0, placement, Some(fetched));
        if partial.is_outdated() {
            return Ok(RunResult::Busy);
        }
        let result = run(&NamesReader::new(
            self.0,
            &partial,
            principal,
            &LocalDirectories::default(),
        ));
        // Data read while directories changed is inconsistent.
        if partial.is_outdated() {
            return Ok(RunResult::Busy);
        }
        partial.finish(result)
    }

    /// Refuses a vertex whose id is not that of its name.
    pub fn check_name(self, vertex: VertexRef, key: &str) -> Result<()> {
        check_vertex(&self.0.schema_now(), vertex, key)
    }

    /// Leases the entry at a path without symbolic links, if this engine has the entry; the lease also covers its move to another
    /// engine. Returns its vertex, the key of its row and the duration in milliseconds.
    pub fn lease(
        self,
        principal: Option<&Principal>,
        (path, follow): (&NamePath, bool),
        placement: &dyn RowPlacement,
        fetched: &RemoteData,
    ) -> Result<RunResult<Option<(VertexId, Vec<u8>, u32)>>> {
        self.read(principal, placement, fetched, |reader| {
            let here = |key: &[u8]| placement.locate(key) == RowLocation::Local;
            let found = reader.leasable(path, follow)?;
            Ok(found.filter(|(_, entry)| here(entry)).map(|(id, entry)| {
                let directory = entry.get(..DIRECTORY_PREFIX).unwrap_or(&entry);
                let rows = [(Table::Names, entry.as_slice()), (Table::Names, directory)];
                let millis = self.0.grant(rows.into_iter());
                (id, entry, millis)
            }))
        })
    }

    /// Leases one vertex, that of a file whose entry may be on another engine; returns the duration in milliseconds.
    pub fn lease_vertex(self, id: VertexId) -> u32 {
        let key = esker_model::key::vertex(id);
        self.0.grant(std::iter::once((Table::Rows, &key[..])))
    }

    /// Returns the milliseconds until no lease remains on the given rows, vertices, entries of whole directories, or (`paths`) all
    /// directories. If any remains, no lease is granted on them for a while, because a writer waits.
    pub fn lease_millis_left(
        self,
        rows: &[Vec<u8>],
        vertices: &[VertexId],
        directories: &[VertexId],
        paths: bool,
    ) -> u64 {
        if !self.0.has_leases() {
            return 0;
        }
        let vertices: Vec<[u8; 17]> = vertices
            .iter()
            .map(|id| esker_model::key::vertex(*id))
            .collect();
        let directories: Vec<_> = directories.iter().map(|id| dentries_prefix(*id)).collect();
        let rows = rows.iter().map(|key| (Table::Names, key.as_slice()));
        let vertices = vertices.iter().map(|key| (Table::Rows, &key[..]));
        let directories = directories.iter().map(|key| (Table::Names, &key[..]));
        let all = rows.chain(vertices).chain(directories);
        let clock = || self.0.clock.monotonic_micros();
        match self.0.names.leases.begin(all, paths, clock) {
            Err(Error::Leased { millis }) => millis,
            _ => 0,
        }
    }

    /// Whether rows still have the values that were read, and directories have no entries on this engine. The host has announced
    /// beforehand what other changes must leave alone.
    pub fn is_unchanged(
        self,
        epoch: Option<u64>,
        rows: &[(Vec<u8>, u64)],
        empty: &[VertexId],
    ) -> Result<bool> {
        // Waits for the change in progress.
        let _writer = lock(&self.0.writer);
        if epoch.is_some_and(|epoch| epoch != self.0.names.directories.epoch()) {
            return Ok(false);
        }
        for (key, read) in rows {
            let mut now = 0;
            self.0
                .store
                .get_with(Table::Names, key, &mut |value| now = digest(Some(value)))?;
            if now != *read {
                return Ok(false);
            }
        }
        for directory in empty {
            let mut found = false;
            let range = KeyRange::prefix(&dentries_prefix(*directory));
            self.0.store.scan(Table::Names, &range, &mut |_, _| {
                found = true;
                Flow::Break(())
            })?;
            if found {
                return Ok(false);
            }
        }
        Ok(true)
    }

    /// Waits until the change in progress has ended.
    pub fn wait_for_change(self) {
        drop(lock(&self.0.writer));
    }

    /// Returns this engine's rows of table `names`, one for each key.
    pub fn rows(self, keys: &[Vec<u8>]) -> Result<Vec<Option<Vec<u8>>>> {
        let rows = keys.iter().map(|key| self.0.store.get(Table::Names, key));
        rows.collect()
    }

    /// Returns the newest past state of an inode stored on this engine, with its version.
    pub fn last_state(self, id: VertexId) -> Result<Option<(Version, Vec<u8>)>> {
        let mut last = None;
        let range = KeyRange::prefix(&inode_history_prefix(id));
        self.0.store.scan(Table::Names, &range, &mut |_, value| {
            last = Some(value.to_vec());
            Flow::Break(())
        })?;
        let Some(row) = last else { return Ok(None) };
        let past = InodeHistory::decode(id, &row).map_err(rows::corrupt)?;
        Ok(Some((past.inode.version, row)))
    }

    /// Returns this engine's share of the sums of directories.
    pub fn sums(self, of: &[VertexId]) -> Result<Vec<DirectorySums>> {
        let value = |id: &VertexId, measure| LocalRows(self.0).sum(*id, measure);
        let share = |id| {
            Ok(DirectorySums {
                sums: [
                    value(id, Measure::Files)?,
                    value(id, Measure::Directories)?,
                    value(id, Measure::Bytes)?,
                    value(id, Measure::Blocks)?,
                ],
                changed: value(id, Measure::Changed)?,
            })
        };
        of.iter().map(share).collect()
    }

    /// Returns this engine's entries of a directory with hashes from `from` (after its number, if specified) up to `last`, by hash;
    /// at most `limit`, and whether there are more.
    pub fn page(
        self,
        directory: VertexId,
        from: ListCursor,
        last: u64,
        limit: usize,
    ) -> Result<(Vec<RawEntry>, bool)> {
        let prefix = dentries_prefix(directory);
        let first = dentry_key(directory, from.0, from.1.unwrap_or(0));
        let mut range = match from.1 {
            Some(_) => KeyRange::prefix_after(&prefix, &first),
            None => KeyRange {
                from: first.to_vec(),
                ..KeyRange::prefix(&prefix)
            },
        };
        if let Some(end) = last.checked_add(1) {
            range.until = Some(dentry_key(directory, end, 0).to_vec());
        }
        let (mut listed, mut bytes, mut more) = (Vec::new(), 0, false);
        self.0.store.scan(Table::Names, &range, &mut |key, value| {
            if listed.len() >= limit || bytes > PAGE_BYTES_MAX {
                more = true;
                return Flow::Break(());
            }
            bytes += key.len() + value.len();
            listed.push((key.to_vec(), value.to_vec()));
            Flow::Continue(())
        })?;
        Ok((listed, more))
    }

    /// Returns the subdirectories of a directory whose home is this engine.
    pub fn children(self, directory: VertexId) -> Result<Vec<(VertexId, Name)>> {
        LocalRows(self.0).children(directory)
    }

    /// Returns this engine's share of sums over all files; it may be negative.
    pub fn space(self, by: SpaceBy) -> Result<Vec<(Counter, i64)>> {
        let sample = match by {
            SpaceBy::User => SpaceKey::User(0),
            SpaceBy::Group => SpaceKey::Group(0),
            SpaceBy::Kind => SpaceKey::Kind(0),
            SpaceBy::Ending => SpaceKey::Ending([0; 8]),
            SpaceBy::Day => SpaceKey::Day(0),
        };
        self.space_counters(&Counter::space_prefix(&sample))
    }

    /// Returns all sums of files that this engine maintains.
    pub fn counters(self) -> Result<Vec<(Counter, i64)>> {
        let mut all = self.space_counters(&[0; 16])?;
        all.retain(|(counter, _)| matches!(counter, Counter::Space(..)));
        Ok(all)
    }

    fn space_counters(self, prefix: &[u8]) -> Result<Vec<(Counter, i64)>> {
        let mut error = FirstError::default();
        // Pending changes are not merged while this lock is held.
        let mut pending = lock(&self.0.counters);
        let mut values: std::collections::BTreeMap<Counter, i64> = pending
            .sorted()
            .filter(|(c, _)| c.encode().starts_with(prefix))
            .collect();
        self.0.store.scan(
            Table::Counts,
            &KeyRange::prefix(prefix),
            &mut |key, value| {
                let counter = error.keep(
                    Counter::decode(key).map_err(|e| Error::corrupt("a row of table `counts`", e)),
                )?;
                let stored = error.keep(decode_value(value))?;
                let sum = values.entry(counter).or_default();
                *sum = counter.combine(*sum, stored.cast_signed());
                Flow::Continue(())
            },
        )?;
        drop(pending);
        error.into_result()?;
        Ok(values.into_iter().collect())
    }
}
