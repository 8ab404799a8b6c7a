//! Questions about a namespace that is spread over many engines ([`super::apart`]).

use super::apart::{Apart, DirectorySums, Fetched, Need, Placed, Ran, ended, is_current, stopped};
use super::read::{self, hidden};
use super::resolve::{Reached, Way};
use super::rows::{self, Committed};
use super::spread::PlannedRow;
use super::vertices::{IsFile, is_file, what_is_at};
use super::{Local, file_kind, open, space};
use crate::Engine;
use crate::counts::decode_value;
use crate::read::FirstError;
use crate::txn::{check_vertex, lock};
use esker_model::key::{Counter, Measure, SpaceKey};
use esker_model::namespace::record::{
    Dentry, DentryInode, Past, decode_dentry_key, dentries_prefix, dentry_key, past_prefix,
    whereabouts_key,
};
use esker_model::namespace::{
    Change, Cookie, Entry, Errno, Inode, Kind, Looked, Name, NamePath, Open, SpaceBy, digest,
    hash_of, root,
};
use esker_model::object::Asker;
use esker_model::{Error, Flow, Result, Version, VertexId, VertexRef};
use esker_store::{KeyRange, Table};

/// A row of a listing: its key and value.
pub type RawEntry = (Vec<u8>, Vec<u8>);

impl Engine {
    pub(super) fn way_apart<T>(
        &self,
        asker: Option<&Asker>,
        placed: &dyn Placed,
        fetched: &Fetched,
        call: impl FnOnce(&Way<'_, Committed<'_, Apart<'_>>>, &Apart<'_>) -> Result<T>,
    ) -> Result<Ran<T>> {
        if placed.busy() || !is_current(fetched, &self.names.directories) {
            return Ok(Ran::Busy);
        }
        let apart = Apart::new(&*self.store, placed, Some(fetched));
        let rows = Committed(&apart);
        let way = Way {
            rows: &rows,
            asker,
            known: Some(&self.names.directories),
            local: &Local::default(),
            filters: None,
            epoch: Some(fetched.epoch),
        };
        let result = call(&way, &apart);
        if result.as_ref().is_err_and(open::moves) {
            return Ok(Ran::Busy);
        }
        // What was read while directories changed is of no moment.
        if placed.busy() || !is_current(fetched, &self.names.directories) {
            return Ok(Ran::Busy);
        }
        ended(&apart, result)
    }

    /// As [`esker_model::namespace::Namespace::stat`].
    pub fn stat_spread(
        &self,
        asker: Option<&Asker>,
        (path, follow): (&NamePath, bool),
        placed: &dyn Placed,
        fetched: &Fetched,
    ) -> Result<Ran<Inode>> {
        self.way_apart(asker, placed, fetched, |way, apart| {
            if let Some(handle) = path.handle() {
                let (inode, named) = way.held_inode(&handle)?;
                let inode = hidden(asker, path, inode);
                return if named {
                    summed(apart, inode)
                } else {
                    Ok(inode)
                };
            }
            let inode = match way.reach(path, follow)? {
                Reached::Directory(directory) => read::present(way.rows, &directory)?,
                Reached::Entry(_, _, Err(_)) => return Err(Errno::NotFound.at(path).into()),
                Reached::Entry(_, _, Ok(found)) => rows::inode(way.rows, found.dentry)?,
            };
            summed(apart, hidden(asker, path, inode))
        })
    }

    /// As [`esker_model::namespace::Namespace::look`].
    pub fn look_spread(
        &self,
        asker: Option<&Asker>,
        (path, how): (&NamePath, Open),
        placed: &dyn Placed,
        fetched: &Fetched,
    ) -> Result<Ran<Looked>> {
        self.way_apart(asker, placed, fetched, |way, apart| {
            Ok(match open::look(way, path, how)? {
                Looked::Found(path, inode) if inode.links > 0 => {
                    Looked::Found(path, Box::new(summed(apart, *inode)?))
                }
                looked => looked,
            })
        })
    }

    /// The directory at a path, if someone has these rights of it (read 4, search 1).
    pub fn directory_spread(
        &self,
        asker: Option<&Asker>,
        (path, rights): (&NamePath, u32),
        placed: &dyn Placed,
        fetched: &Fetched,
    ) -> Result<Ran<VertexId>> {
        self.way_apart(asker, placed, fetched, |way, _| {
            let directory = way.directory(path)?;
            if rights & 4 != 0 {
                read::demand_listing(&directory, asker, path)?;
            }
            if rights & 1 != 0 {
                directory.demand_search(asker)?;
            }
            Ok(directory.id)
        })
    }

    /// As [`esker_model::namespace::Namespace::ids`].
    pub fn ids_spread(
        &self,
        asker: Option<&Asker>,
        paths: &[NamePath],
        placed: &dyn Placed,
        fetched: &Fetched,
    ) -> Result<Ran<Vec<Option<(VertexId, Kind)>>>> {
        self.way_apart(asker, placed, fetched, |way, apart| {
            let mut found = Vec::with_capacity(paths.len());
            for path in paths {
                match what_is_at(way, path) {
                    Ok(what) => found.push(what),
                    // What the others need is asked for together.
                    Err(_) if apart.is_stopped() => {}
                    Err(e) => return Err(e),
                }
            }
            if apart.is_stopped() {
                return Err(stopped());
            }
            Ok(found)
        })
    }

    /// Refuses a vertex whose id is not that of its name.
    pub fn check_name(&self, vertex: VertexRef, key: &str) -> Result<()> {
        check_vertex(&self.schema_now(), vertex, key)
    }

    /// Of vertices whose ids are not those of their names: whether each is a file, as `Txn::check_name` decides it; with the row
    /// that is to say where it is, if none does.
    pub fn named_spread(
        &self,
        vertices: &[(VertexRef, &str)],
        placed: &dyn Placed,
        fetched: &Fetched,
    ) -> Result<Ran<Vec<Result<Option<PlannedRow>>>>> {
        let schema = self.schema_now();
        self.way_apart(None, placed, fetched, |way, apart| {
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
                match is_file(way, vertex.id, kind, key) {
                    Ok(IsFile::At(place)) => {
                        let mut row = Vec::new();
                        place.encode(&mut row);
                        found.push(Ok(Some(PlannedRow {
                            key: whereabouts_key(vertex.id).to_vec(),
                            value: Some(row),
                            read: Some(digest(None)),
                        })));
                    }
                    Ok(IsFile::Known) => found.push(Ok(None)),
                    Ok(IsFile::No) => found.push(Err(refused)),
                    Err(_) if apart.is_stopped() => {}
                    Err(e) => return Err(e),
                }
            }
            if apart.is_stopped() {
                return Err(stopped());
            }
            Ok(found)
        })
    }

    /// The entry that a change is first about: its directory and the hash of its name. Nothing where its path leads nowhere, or
    /// to the root: any engine may say so.
    pub fn target_spread(
        &self,
        change: &Change,
        placed: &dyn Placed,
        fetched: &Fetched,
    ) -> Result<Ran<Option<(VertexId, u64)>>> {
        if let Some(handle) = path_of(change).handle() {
            // Where it was when it was opened; the root lies in no directory.
            let target = (handle.directory, hash_of(&handle.name));
            return Ok(Ran::Ended((handle.id != root()).then_some(target)));
        }
        let Some((parent, name)) = path_of(change).split() else {
            return Ok(Ran::Ended(None));
        };
        let parent = NamePath::parse(parent)?;
        let reached = self.way_apart(None, placed, fetched, |way, _| {
            match way.directory(&parent) {
                Ok(directory) => Ok(Some((directory.id, hash_of(&name)))),
                Err(Error::File(_)) => Ok(None),
                Err(e) => Err(e),
            }
        })?;
        Ok(reached)
    }

    /// Rows of a listing as entries, as someone sees them.
    pub fn entries_spread(
        &self,
        asker: Option<&Asker>,
        listed: &[RawEntry],
        fetched: &Fetched,
    ) -> Result<Ran<Vec<(Cookie, Entry)>>> {
        let any = NamePath::root();
        let mut needs = Vec::new();
        let mut entries = Vec::with_capacity(listed.len());
        for (key, value) in listed {
            let (_, hash, n) = decode_dentry_key(key).map_err(rows::corrupt)?;
            let dentry = Dentry::decode(value).map_err(rows::corrupt)?;
            let (id, name) = (dentry.id, dentry.name);
            let inode = match dentry.inode {
                DentryInode::Here(inode) => inode,
                DentryInode::Elsewhere(_) => {
                    let key = whereabouts_key(id).to_vec();
                    match fetched.rows.get(&key) {
                        None => {
                            needs.push(Need::Row(key));
                            continue;
                        }
                        Some(row) => {
                            let place = row.as_deref().map(|row| {
                                esker_model::namespace::record::Whereabouts::decode(id, row)
                            });
                            let place = place.transpose().map_err(rows::corrupt)?;
                            // It went between the two reads.
                            let Some(inode) = place.and_then(|p| p.inode) else {
                                continue;
                            };
                            inode
                        }
                    }
                }
            };
            let mut inode = hidden(asker, &any, inode);
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
            return Ok(Ran::Ended(entries));
        }
        Ok(Ran::Needs(needs))
    }

    /// Of rows of a listing, the directories that someone may look into: names and ids.
    pub fn open_directories(
        &self,
        asker: Option<&Asker>,
        listed: &[RawEntry],
    ) -> Result<Vec<(Name, VertexId)>> {
        let mut open = Vec::new();
        for (_, value) in listed {
            let dentry = Dentry::decode(value).map_err(rows::corrupt)?;
            if let DentryInode::Here(inode) = &dentry.inode
                && inode.is_directory()
                && inode.allows(asker, 5)
            {
                open.push((dentry.name, dentry.id));
            }
        }
        Ok(open)
    }

    /// Rows of table `names` that lie here, one for each key.
    pub fn names_rows(&self, keys: &[Vec<u8>]) -> Result<Vec<Option<Vec<u8>>>> {
        keys.iter()
            .map(|key| self.store.get(Table::Names, key))
            .collect()
    }

    /// The newest state of an inode that was kept here, and when it took that.
    pub fn names_last(&self, id: VertexId) -> Result<Option<(Version, Vec<u8>)>> {
        let mut last = None;
        let range = KeyRange::prefix(&past_prefix(id));
        self.store.scan(Table::Names, &range, &mut |_, value| {
            last = Some(value.to_vec());
            Flow::Break(())
        })?;
        let Some(row) = last else { return Ok(None) };
        let past = Past::decode(id, &row).map_err(rows::corrupt)?;
        Ok(Some((past.inode.version, row)))
    }

    /// This engine's share of what directories hold.
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

    /// Entries of a directory that lie here, with hashes from `from` (behind its number, if it has one) up to `last`, by hash;
    /// so many at most, and whether there are more.
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

    /// The directories in a directory that is at home here.
    pub fn names_children(&self, directory: VertexId) -> Result<Vec<(VertexId, Name)>> {
        self.children(directory)
    }

    /// This engine's share of sums over all files: below zero, perhaps.
    pub fn names_space(&self, by: SpaceBy) -> Result<Vec<(Counter, i64)>> {
        self.space_counters(&Counter::space_prefix(&read::example(by)))
    }

    /// All sums of files that this engine keeps.
    pub fn names_counters(&self) -> Result<Vec<(Counter, i64)>> {
        let mut all = self.space_counters(&[0; 16])?;
        all.retain(|(counter, _)| matches!(counter, Counter::Space(..)));
        Ok(all)
    }

    fn space_counters(&self, prefix: &[u8]) -> Result<Vec<(Counter, i64)>> {
        let mut error = FirstError::default();
        // What is pending stays pending as long as this is held.
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

/// A directory with what its entries give it.
fn summed(apart: &Apart<'_>, inode: Inode) -> Result<Inode> {
    if !inode.is_directory() {
        return Ok(inode);
    }
    let of = |measure| apart.sum(inode.id, measure);
    let (directories, changed) = (of(Measure::Directories)?, of(Measure::Changed)?);
    Ok(read::with_sums(inode, directories, changed))
}

/// A page of a listing is of about so many bytes at most.
const PAGE_BYTES_MAX: usize = 1 << 20;

/// The path that a change is first about.
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
