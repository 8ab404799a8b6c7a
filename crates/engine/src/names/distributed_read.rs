//! Reads of a namespace that is distributed over several engines ([`super::remote_rows`]).

use super::distributed_write::PlannedRow;
use super::read::{self, hide_unreadable};
use super::remote_rows::{
    DirectorySums, Need, PartialStore, RemoteData, RowPlacement, RunResult, finish_run, is_current,
    stopped_error,
};
use super::resolve::{Reached, Resolver};
use super::rows::{self, CommittedRows};
use super::vertices::{IsFile, file_at, is_file};
use super::{LocalDirectories, file_kind, open, space};
use crate::Engine;
use crate::counts::decode_value;
use crate::read::FirstError;
use crate::txn::{check_vertex, lock};
use esker_model::key::{Counter, Measure, SpaceKey};
use esker_model::namespace::record::{
    Dentry, DentryInode, InodeHistory, decode_dentry_key, dentries_prefix, dentry_key,
    inode_history_prefix, location_key,
};
use esker_model::namespace::{
    Change, Cookie, Entry, Errno, Inode, Kind, Name, NamePath, Open, OpenLookup, SpaceBy, digest,
    hash_of, root,
};
use esker_model::object::Principal;
use esker_model::{Error, Flow, Result, Version, VertexId, VertexRef};
use esker_store::{KeyRange, Table};

/// Key and value of a row in a listing.
pub type RawEntry = (Vec<u8>, Vec<u8>);

impl Engine {
    pub(super) fn with_partial_store<T>(
        &self,
        principal: Option<&Principal>,
        placement: &dyn RowPlacement,
        fetched: &RemoteData,
        call: impl FnOnce(
            &Resolver<'_, CommittedRows<'_, PartialStore<'_>>>,
            &PartialStore<'_>,
        ) -> Result<T>,
    ) -> Result<RunResult<T>> {
        if placement.busy() || !is_current(fetched, &self.names.directories) {
            return Ok(RunResult::Busy);
        }
        let partial = PartialStore::new(&*self.store, placement, Some(fetched));
        let rows = CommittedRows(&partial);
        let resolver = Resolver {
            rows: &rows,
            principal,
            cached: Some(&self.names.directories),
            local: &LocalDirectories::default(),
            filters: None,
            epoch: Some(fetched.epoch),
        };
        let result = call(&resolver, &partial);
        if result.as_ref().is_err_and(open::is_moved) {
            return Ok(RunResult::Busy);
        }
        // Data read while directories changed is inconsistent.
        if placement.busy() || !is_current(fetched, &self.names.directories) {
            return Ok(RunResult::Busy);
        }
        finish_run(&partial, result)
    }

    /// Distributed variant of [`esker_model::namespace::Namespace::stat`].
    pub fn stat_distributed(
        &self,
        principal: Option<&Principal>,
        (path, follow): (&NamePath, bool),
        placement: &dyn RowPlacement,
        fetched: &RemoteData,
    ) -> Result<RunResult<Inode>> {
        self.with_partial_store(principal, placement, fetched, |resolver, partial| {
            if let Some(handle) = path.handle() {
                let (inode, named) = resolver.open_inode(&handle)?;
                let inode = hide_unreadable(principal, path, inode);
                return if named {
                    summed(partial, inode)
                } else {
                    Ok(inode)
                };
            }
            let inode = match resolver.reach(path, follow)? {
                Reached::Directory(directory) => read::present(resolver.rows, &directory)?,
                Reached::Entry(_, _, Err(_)) => return Err(Errno::NotFound.at(path).into()),
                Reached::Entry(_, _, Ok(found)) => rows::inode(resolver.rows, found.dentry)?,
            };
            summed(partial, hide_unreadable(principal, path, inode))
        })
    }

    /// Distributed variant of [`esker_model::namespace::Namespace::look`].
    pub fn look_distributed(
        &self,
        principal: Option<&Principal>,
        (path, how): (&NamePath, Open),
        placement: &dyn RowPlacement,
        fetched: &RemoteData,
    ) -> Result<RunResult<OpenLookup>> {
        self.with_partial_store(principal, placement, fetched, |resolver, partial| {
            Ok(match open::look(resolver, path, how)? {
                OpenLookup::Found(path, inode) if inode.links > 0 => {
                    OpenLookup::Found(path, Box::new(summed(partial, *inode)?))
                }
                looked => looked,
            })
        })
    }

    /// Returns the directory at a path if the principal has the given rights on it (read 4, search 1).
    pub fn directory_distributed(
        &self,
        principal: Option<&Principal>,
        (path, rights): (&NamePath, u32),
        placement: &dyn RowPlacement,
        fetched: &RemoteData,
    ) -> Result<RunResult<VertexId>> {
        self.with_partial_store(principal, placement, fetched, |resolver, _| {
            let directory = resolver.directory(path)?;
            if rights & 4 != 0 {
                read::demand_listing(&directory, principal, path)?;
            }
            if rights & 1 != 0 {
                directory.demand_search(principal)?;
            }
            Ok(directory.id)
        })
    }

    /// Distributed variant of [`esker_model::namespace::Namespace::ids`].
    pub fn ids_distributed(
        &self,
        principal: Option<&Principal>,
        paths: &[NamePath],
        placement: &dyn RowPlacement,
        fetched: &RemoteData,
    ) -> Result<RunResult<Vec<Option<(VertexId, Kind)>>>> {
        self.with_partial_store(principal, placement, fetched, |resolver, partial| {
            let mut found = Vec::with_capacity(paths.len());
            for path in paths {
                match file_at(resolver, path) {
                    Ok(what) => found.push(what),
                    // Continue, so that the needs of all paths are fetched at once.
                    Err(_) if partial.is_stopped() => {}
                    Err(e) => return Err(e),
                }
            }
            if partial.is_stopped() {
                return Err(stopped_error());
            }
            Ok(found)
        })
    }

    /// Refuses a vertex whose id is not that of its name.
    pub fn check_name(&self, vertex: VertexRef, key: &str) -> Result<()> {
        check_vertex(&self.schema_now(), vertex, key)
    }

    /// Checks vertices whose ids are not those of their names: whether each is a file, as `Txn::check_name` decides. Returns the
    /// location record to be written if it is missing.
    pub fn named_distributed(
        &self,
        vertices: &[(VertexRef, &str)],
        placement: &dyn RowPlacement,
        fetched: &RemoteData,
    ) -> Result<RunResult<Vec<Result<Option<PlannedRow>>>>> {
        let schema = self.schema_now();
        self.with_partial_store(None, placement, fetched, |resolver, partial| {
            let mut found = Vec::with_capacity(vertices.len());
            for (vertex, key) in vertices {
                let Err(refused) = check_vertex(&schema, *vertex, key) else {
                    found.push(Ok(None));
                    continue;
                };
                let kind = file_kind(&schema, vertex.type_id);
                let Some(kind) = kind.filter(|_| esker_model::id::check_key(key).is_ok()) else {
                    found.push(Err(refused));
                    continue;
                };
                match is_file(resolver, vertex.id, kind, key) {
                    Ok(IsFile::At(place)) => {
                        let mut row = Vec::new();
                        place.encode(&mut row);
                        found.push(Ok(Some(PlannedRow {
                            key: location_key(vertex.id).to_vec(),
                            value: Some(row),
                            read: Some(digest(None)),
                        })));
                    }
                    Ok(IsFile::Recorded) => found.push(Ok(None)),
                    Ok(IsFile::No) => found.push(Err(refused)),
                    Err(_) if partial.is_stopped() => {}
                    Err(e) => return Err(e),
                }
            }
            if partial.is_stopped() {
                return Err(stopped_error());
            }
            Ok(found)
        })
    }

    /// Returns the entry that a change is primarily about: its directory and the hash of its name. `None` if its path does not exist
    /// or is the root: then any engine may answer.
    pub fn target_distributed(
        &self,
        change: &Change,
        placement: &dyn RowPlacement,
        fetched: &RemoteData,
    ) -> Result<RunResult<Option<(VertexId, u64)>>> {
        if let Some(handle) = path_of(change).handle() {
            // The location at the time of opening; the root has no directory.
            let target = (handle.directory, hash_of(&handle.name));
            return Ok(RunResult::Ended((handle.id != root()).then_some(target)));
        }
        let Some((parent, name)) = path_of(change).split() else {
            return Ok(RunResult::Ended(None));
        };
        let parent = NamePath::parse(parent)?;
        let reached = self.with_partial_store(None, placement, fetched, |resolver, _| {
            match resolver.directory(&parent) {
                Ok(directory) => Ok(Some((directory.id, hash_of(&name)))),
                Err(Error::File(_)) => Ok(None),
                Err(e) => Err(e),
            }
        })?;
        Ok(reached)
    }

    /// Converts rows of a listing to entries as the principal sees them.
    pub fn entries_distributed(
        &self,
        principal: Option<&Principal>,
        listed: &[RawEntry],
        fetched: &RemoteData,
    ) -> Result<RunResult<Vec<(Cookie, Entry)>>> {
        let any = NamePath::root();
        let mut needs = Vec::new();
        let mut entries = Vec::with_capacity(listed.len());
        for (key, value) in listed {
            let (_, hash, n) = decode_dentry_key(key).map_err(rows::corrupt)?;
            let dentry = Dentry::decode(value).map_err(rows::corrupt)?;
            let (id, name) = (dentry.id, dentry.name);
            let inode = match dentry.inode {
                DentryInode::Inline(inode) => inode,
                DentryInode::Linked(_) => {
                    let key = location_key(id).to_vec();
                    match fetched.rows.get(&key) {
                        None => {
                            needs.push(Need::Row(key));
                            continue;
                        }
                        Some(row) => {
                            let place = row.as_deref().map(|row| {
                                esker_model::namespace::record::LocationRecord::decode(id, row)
                            });
                            let place = place.transpose().map_err(rows::corrupt)?;
                            // Removed between the two reads.
                            let Some(inode) = place.and_then(|p| p.inode) else {
                                continue;
                            };
                            inode
                        }
                    }
                }
            };
            let mut inode = hide_unreadable(principal, &any, inode);
            if inode.is_directory() {
                let Some(sums) = fetched.sums.get(&inode.id) else {
                    needs.push(Need::Sums(inode.id));
                    continue;
                };
                let of = |measure| sums.of(measure).max(0).cast_unsigned();
                inode = read::with_sums(inode, of(Measure::Directories), of(Measure::Changed));
            }
            entries.push((Cookie { hash, n }, Entry { name, inode }));
        }
        if needs.is_empty() {
            return Ok(RunResult::Ended(entries));
        }
        Ok(RunResult::Needs(needs))
    }

    /// Returns name and id of the directories among the rows of a listing that the principal may read and search.
    pub fn open_directories(
        &self,
        principal: Option<&Principal>,
        listed: &[RawEntry],
    ) -> Result<Vec<(Name, VertexId)>> {
        let mut open = Vec::new();
        for (_, value) in listed {
            let dentry = Dentry::decode(value).map_err(rows::corrupt)?;
            if let DentryInode::Inline(inode) = &dentry.inode
                && inode.is_directory()
                && inode.allows(principal, 5)
            {
                open.push((dentry.name, dentry.id));
            }
        }
        Ok(open)
    }

    /// Returns this engine's rows of table `names`, one for each key.
    pub fn names_rows(&self, keys: &[Vec<u8>]) -> Result<Vec<Option<Vec<u8>>>> {
        keys.iter()
            .map(|key| self.store.get(Table::Names, key))
            .collect()
    }

    /// Returns the newest past state of an inode stored on this engine, with its version.
    pub fn names_last(&self, id: VertexId) -> Result<Option<(Version, Vec<u8>)>> {
        let mut last = None;
        let range = KeyRange::prefix(&inode_history_prefix(id));
        self.store.scan(Table::Names, &range, &mut |_, value| {
            last = Some(value.to_vec());
            Flow::Break(())
        })?;
        let Some(row) = last else { return Ok(None) };
        let past = InodeHistory::decode(id, &row).map_err(rows::corrupt)?;
        Ok(Some((past.inode.version, row)))
    }

    /// Returns this engine's share of the sums of directories.
    pub fn names_sums(&self, of: &[VertexId]) -> Result<Vec<DirectorySums>> {
        let value = |id: VertexId, measure| {
            let counter = Counter::Space(SpaceKey::Directory(id), measure);
            space::value(&*self.store, &self.counters, counter).map(u64::cast_signed)
        };
        of.iter()
            .map(|id| {
                Ok(DirectorySums {
                    sums: [
                        value(*id, Measure::Files)?,
                        value(*id, Measure::Directories)?,
                        value(*id, Measure::Bytes)?,
                        value(*id, Measure::Blocks)?,
                    ],
                    changed: value(*id, Measure::Changed)?,
                })
            })
            .collect()
    }

    /// Returns this engine's entries of a directory with hashes from `from` (after its number, if specified) up to `last`, by hash;
    /// at most `limit`, and whether there are more.
    pub fn names_page(
        &self,
        directory: VertexId,
        from: (u64, Option<u8>),
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
        self.store.scan(Table::Names, &range, &mut |key, value| {
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
    pub fn names_children(&self, directory: VertexId) -> Result<Vec<(VertexId, Name)>> {
        self.children(directory)
    }

    /// Returns this engine's share of sums over all files; it may be negative.
    pub fn names_space(&self, by: SpaceBy) -> Result<Vec<(Counter, i64)>> {
        self.space_counters(&Counter::space_prefix(&read::sample_key(by)))
    }

    /// Returns all sums of files that this engine maintains.
    pub fn names_counters(&self) -> Result<Vec<(Counter, i64)>> {
        let mut all = self.space_counters(&[0; 16])?;
        all.retain(|(counter, _)| matches!(counter, Counter::Space(..)));
        Ok(all)
    }

    fn space_counters(&self, prefix: &[u8]) -> Result<Vec<(Counter, i64)>> {
        let mut error = FirstError::default();
        // Pending changes are not merged while this lock is held.
        let mut pending = lock(&self.counters);
        let mut values: std::collections::BTreeMap<Counter, i64> = pending
            .sorted()
            .filter(|(c, _)| c.encode().starts_with(prefix))
            .collect();
        self.store.scan(
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

/// Adds to a directory's inode the attributes that are derived from its entries.
fn summed(partial: &PartialStore<'_>, inode: Inode) -> Result<Inode> {
    if !inode.is_directory() {
        return Ok(inode);
    }
    let of = |measure| partial.sum(inode.id, measure);
    let (directories, changed) = (of(Measure::Directories)?, of(Measure::Changed)?);
    Ok(read::with_sums(inode, directories, changed))
}

/// Approximate maximum size of a page of a listing, in bytes.
const PAGE_BYTES_MAX: usize = 1 << 20;

/// Returns the path that a change is primarily about.
pub fn path_of(change: &Change) -> &NamePath {
    change.path()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sums_of_several_engines_are_those_of_one() {
        let mut sum = DirectorySums {
            sums: [-3, 0, 10, 0],
            changed: 7,
        };
        sum.add(&DirectorySums {
            sums: [5, 1, -4, 0],
            changed: 3,
        });
        assert_eq!((sum.sums, sum.changed), ([2, 1, 6, 0], 7));
        assert_eq!(sum.of(Measure::Files), 2);
        assert_eq!(sum.of(Measure::Changed), 7);
    }
}
