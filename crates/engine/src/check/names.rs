//! Check of the namespace: every entry is in a directory, every directory under its parent, and the sums match the files.

use super::Check;
use crate::names::{CommittedRows, corrupt_names, file_kind, find, location_record, space};
use crate::read::FirstError;
use esker_model::key::Counter;
use esker_model::key::names::NamesKey;
use esker_model::namespace::record::{
    Dentry, DentryInode, InodeHistory, LocationRecord, decode_child_key,
};
use esker_model::namespace::{Inode, display, hash_of, root};
use esker_model::{Flow, Result, VertexId, VertexTypeId};
use esker_store::{KeyRange, Table};
use std::collections::BTreeMap;

impl Check<'_> {
    /// Reads all of table `names`, and computes the sums of the files.
    pub(super) fn names(&mut self) -> Result<bool> {
        self.each(Table::Names, &mut |check, key, value| {
            let problem = match NamesKey::decode(key) {
                Ok(NamesKey::Dentry(directory, hash, n)) => {
                    check.dentry((directory, hash, n), value)?
                }
                Ok(NamesKey::Location(id)) => check.location_record(id, value)?,
                Ok(NamesKey::InodeHistory(id, _)) => InodeHistory::decode(id, value)
                    .err()
                    .map(|e| format!("a past state of inode {id} does not decode: {e}")),
                Ok(NamesKey::PathNamed(id)) => {
                    (value.len() != 16).then(|| format!("the claim of {id} is not 16 bytes"))
                }
                Ok(NamesKey::Child(id, child)) => check.child(id, child, value)?,
                Ok(NamesKey::RemovedEntry(id, _)) => (!value.is_empty())
                    .then(|| format!("a row that says what has left directory {id} is not empty")),
                Err(_) => Some(format!(
                    "a row of table `names` has an unknown key {key:02x?}"
                )),
            };
            if let Some(problem) = problem {
                check.report.note("namespace", problem, false);
            }
            Ok(())
        })
    }

    /// Whether vertices of a type are files.
    pub(super) fn is_file(&self, type_id: VertexTypeId) -> bool {
        file_kind(self.schema, type_id).is_some()
    }

    /// Whether a vertex is a file whose id is not derived from the path that it was created under.
    pub(super) fn is_moved_file(&self, id: VertexId, type_id: VertexTypeId) -> Result<bool> {
        let moved = |p: LocationRecord| !p.names.is_empty();
        Ok(file_kind(self.schema, type_id).is_some()
            && location_record(&CommittedRows(self.read), id)?.is_some_and(moved))
    }

    fn dentry(
        &mut self,
        (directory, hash, n): (VertexId, u64, u8),
        value: &[u8],
    ) -> Result<Option<String>> {
        let dentry = match Dentry::decode(value) {
            Ok(dentry) => dentry,
            Err(e) => {
                return Ok(Some(format!(
                    "an entry of directory {directory} does not decode: {e}"
                )));
            }
        };
        if directory == VertexId::default() {
            // The row of the root directory.
            return Ok(
                (dentry.id != root()).then(|| "the root directory has another id".to_owned())
            );
        }
        let called = format!("entry `{}` of directory {directory}", dentry.name);
        if hash_of(&dentry.name) != hash {
            return Ok(Some(format!(
                "{called} is stored under another name's hash"
            )));
        }
        let rows = CommittedRows(self.read);
        let found = find(&rows, directory, &dentry.name)?;
        if found.is_err() || found.is_ok_and(|f| f.n != n) {
            return Ok(Some(format!("{called} is there twice, or after a gap")));
        }
        if self.part {
            return Ok(None);
        }
        if directory != root() && location_record(&rows, directory)?.is_none_or(|p| p.deleted) {
            return Ok(Some(format!("{called}: there is no such directory")));
        }
        match dentry.inode {
            DentryInode::Linked(_) => {
                let place = location_record(&rows, dentry.id)?;
                let listed = place.as_ref().is_some_and(|p| {
                    p.names
                        .iter()
                        .any(|(d, n)| *d == directory && *n == dentry.name)
                });
                if !listed || place.is_none_or(|p| p.deleted || p.inode.is_none()) {
                    return Ok(Some(format!(
                        "{called}: its file, which has several names, does not know of it"
                    )));
                }
            }
            DentryInode::Inline(inode) => {
                let place = location_record(&rows, dentry.id)?;
                let here = place
                    .as_ref()
                    .is_none_or(|p| !p.deleted && p.names == [(directory, dentry.name.clone())]);
                if !here || inode.is_directory() && place.is_none() {
                    return Ok(Some(format!(
                        "{called}: inode {} is said to be elsewhere",
                        dentry.id
                    )));
                }
                let mut add = |counter, n| self.add_space(counter, n);
                space::count_inode(&inode, &dentry.name, 1, &mut add);
                space::count_name(directory, &inode, true, 1, &mut add);
            }
        }
        Ok(None)
    }

    fn location_record(&mut self, id: VertexId, value: &[u8]) -> Result<Option<String>> {
        let place = match LocationRecord::decode(id, value) {
            Ok(place) => place,
            Err(e) => {
                return Ok(Some(format!(
                    "the location record of inode {id} does not decode: {e}"
                )));
            }
        };
        if place.deleted || id == root() || self.part {
            return Ok(None);
        }
        let rows = CommittedRows(self.read);
        for (directory, name) in &place.names {
            if find(&rows, *directory, name)?.is_err() {
                return Ok(Some(format!(
                    "inode {id} is said to be `{name}` in directory {directory}, which has no such entry"
                )));
            }
        }
        if let Some(inode) = &place.inode {
            self.linked(&place, inode);
        }
        Ok(None)
    }

    fn linked(&mut self, place: &LocationRecord, inode: &Inode) {
        for (i, (directory, name)) in place.names.iter().enumerate() {
            let mut add = |counter, n| self.add_space(counter, n);
            if i == 0 {
                space::count_inode(inode, name, 1, &mut add);
            }
            space::count_name(*directory, inode, i == 0, 1, &mut add);
        }
    }

    fn child(&self, parent: VertexId, child: VertexId, value: &[u8]) -> Result<Option<String>> {
        if self.part {
            return Ok(None);
        }
        let place = location_record(&CommittedRows(self.read), child)?;
        let there = place.is_some_and(|p| {
            !p.deleted
                && p.names
                    .iter()
                    .any(|(d, n)| *d == parent && n.as_bytes() == value)
        });
        Ok((!there).then(|| {
            format!(
                "directory `{}` is listed in {parent}, where it is not",
                display(value)
            )
        }))
    }

    fn add_space(&mut self, counter: Counter, change: i64) {
        *self.space.entry(counter).or_default() += change;
    }
}

/// Sums computed from the rows.
pub(super) type Sums = BTreeMap<Counter, i64>;

/// Number of directories that are unreachable from the root, because they contain each other.
pub(super) fn loops(read: &dyn esker_store::Snapshot) -> Result<u64> {
    let mut error = FirstError::default();
    let (mut all, mut reached) = (0_u64, 0_u64);
    read.scan(Table::Names, &KeyRange::prefix(&[5]), &mut |_, _| {
        all += 1;
        Flow::Continue(())
    })?;
    let mut left = vec![root()];
    while let Some(id) = left.pop() {
        let range = KeyRange::prefix(&esker_model::namespace::record::children_prefix(id));
        read.scan(Table::Names, &range, &mut |key, _| {
            let child = error.keep(decode_child_key(key).map_err(corrupt_names))?;
            reached += 1;
            left.push(child);
            if reached > all {
                Flow::Break(())
            } else {
                Flow::Continue(())
            }
        })?;
        if reached > all {
            break;
        }
    }
    error.into_result()?;
    Ok(all.abs_diff(reached))
}
