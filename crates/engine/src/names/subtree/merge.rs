//! Merge of a subtree: entries of existing directories are created as any new file, all others without look-ups.
//!
//! The ids, the rows and the sums equal those of creating the files one by one in one commit.

use super::rows::{DirectoryEntries, EntryRow, SubtreeRows};
use crate::names::NamesTxn;
use crate::names::change::{check_content, check_owner, new_inode, set_new_acls};
use crate::names::directory::{Directory, Naming};
use crate::names::resolve::Reached;
use crate::names::{rows, space};
use crate::txn::Txn;
use esker_model::key::{Counter, Measure, SpaceKey};
use esker_model::namespace::record::{
    Dentry, DentryInode, LocationRecord, child_key, location_key, path_named_key,
};
use esker_model::namespace::tags::TAG_PREFIX;
use esker_model::namespace::{
    Change, Errno, Inode, Item, Kind, Name, NamePath, NewFile, PATH_BYTES_MAX, SUBTREE_BYTES_MAX,
    Subtree, check_new_file, display, hash_of, id_at, id_within, path_in, too_large,
};
use esker_model::object::Principal;
use esker_model::{Error, Result, VertexId};
use esker_store::Table;
use foldhash::fast::FixedState;
use std::collections::{HashMap, HashSet};
use std::sync::Arc;

const SETGID: u32 = 0o2000;

/// Directory that gets the next entries.
enum EntryTarget {
    None,
    Existing(NamePath),
    Made(usize),
}

/// A new directory of the subtree.
struct NewDirectory {
    directory: Arc<Directory>,
    /// Parent and name if the parent is new, too; the entry in an existing parent is already written.
    within: Option<(VertexId, Name)>,
    rows: Vec<EntryRow>,
    /// Sums of the content, by [`Measure`]: files, directories, bytes, blocks.
    sums: [i64; 4],
    /// Whether an entry is created now, and was not copied with its times.
    changed: bool,
}

/// State of a merge.
#[derive(Default)]
struct MergeState {
    new: Vec<NewDirectory>,
    rows: SubtreeRows,
    sums: MergeSums,
    changes: Vec<Change>,
    first: Option<VertexId>,
}

const FILES: usize = 0;
const DIRECTORIES: usize = 1;
const BYTES: usize = 2;
const BLOCKS: usize = 3;
const MEASURES: [Measure; 4] = [
    Measure::Files,
    Measure::Directories,
    Measure::Bytes,
    Measure::Blocks,
];

/// Sums over all files; the last keys are cached, because most files repeat them.
#[derive(Default)]
struct MergeSums {
    last: [Option<(SpaceKey, [i64; 4])>; 5],
    all: HashMap<SpaceKey, [i64; 4], FixedState>,
}

impl MergeSums {
    fn add(&mut self, inode: &Inode, name: &Name) {
        let mut sums = [0; 4];
        let kind = inode.kind();
        let count = if kind == Kind::Directory {
            DIRECTORIES
        } else {
            FILES
        };
        if let Some(n) = sums.get_mut(count) {
            *n = 1;
        }
        sums[BYTES] = inode.size.cast_signed();
        sums[BLOCKS] = inode.blocks.cast_signed();
        let all = &mut self.all;
        for (key, last) in space::keys(inode, name).zip(&mut self.last) {
            match last {
                Some((known, sum)) if *known == key => plus(sum, &sums),
                last => {
                    if let Some((key, sum)) = last.replace((key, sums)) {
                        plus(all.entry(key).or_default(), &sum);
                    }
                }
            }
        }
    }

    fn finish(mut self) -> HashMap<SpaceKey, [i64; 4], FixedState> {
        for (key, sum) in self.last.into_iter().flatten() {
            plus(self.all.entry(key).or_default(), &sum);
        }
        self.all
    }
}

fn plus(to: &mut [i64; 4], sums: &[i64; 4]) {
    for (to, n) in to.iter_mut().zip(sums) {
        *to = to.saturating_add(*n);
    }
}

fn refused(subtree: &Subtree, why: &str) -> Error {
    Error::Invalid(format!(
        "the subtree {} {why}: nothing of it was merged",
        subtree.path()
    ))
}

impl Txn<'_, '_> {
    /// Merges a subtree. Its rows go into the overlay, or into `names.subtree_rows`.
    pub(in crate::names) fn merge(
        &mut self,
        names: &mut NamesTxn<'_>,
        principal: Option<&Principal>,
        subtree: &Subtree,
    ) -> Result<VertexId> {
        if !names.source.is_whole() {
            return Err(refused(
                subtree,
                "was sent to a server that has only a part of the directories",
            ));
        }
        let size = subtree.as_bytes().len();
        if size > SUBTREE_BYTES_MAX {
            return Err(too_large(size as u64, SUBTREE_BYTES_MAX as u64));
        }
        let mut state = MergeState::default();
        let mut place = EntryTarget::None;
        for item in subtree.items() {
            let item = item.map_err(|e| refused(subtree, &format!("cannot be read ({e})")))?;
            match item {
                Item::ExistingDirectory(path) => place = EntryTarget::Existing(path),
                Item::NewDirectory(number) => {
                    let number = usize::try_from(number).ok();
                    let known = number.filter(|n| *n < state.new.len());
                    place = EntryTarget::Made(known.ok_or_else(|| {
                        refused(
                            subtree,
                            "has entries of a directory that does not come before them",
                        )
                    })?);
                }
                Item::Entry(name, make, in_commit) => match &place {
                    EntryTarget::Existing(path) => {
                        self.merge_existing(names, principal, &mut state, path, (&name, &make))?;
                    }
                    EntryTarget::Made(n) => {
                        self.merge_entry(
                            names,
                            principal,
                            &mut state,
                            *n,
                            (name, &make, in_commit),
                        )?;
                    }
                    EntryTarget::None => {
                        return Err(refused(subtree, "has entries of no directory"));
                    }
                },
                Item::Change(change) => state.changes.push(change),
            }
        }
        let Some(first) = state.first else {
            return Err(refused(subtree, "has no entries"));
        };
        self.finish(names, state, subtree)?;
        Ok(first)
    }

    /// Creates an entry of an existing directory.
    fn merge_existing(
        &mut self,
        names: &mut NamesTxn<'_>,
        principal: Option<&Principal>,
        state: &mut MergeState,
        directory: &NamePath,
        (name, make): (&Name, &NewFile),
    ) -> Result<()> {
        let path = path_in(directory, name)?;
        let id = self.make(names, principal, &path, make)?;
        state.first.get_or_insert(id);
        if Kind::of_mode(make.mode) != Some(Kind::Directory) {
            return Ok(());
        }
        let directory = match self.reach(names, None, &path, false)? {
            Reached::Entry(parent, name, Ok(found)) => match found.dentry.inode {
                DentryInode::Inline(inode) => Arc::new(parent.child(&name, inode)),
                DentryInode::Linked(_) => return Err(Errno::NotDirectory.at(&path).into()),
            },
            _ => return Err(Errno::NotFound.at(&path).into()),
        };
        names.local.keep(&directory);
        state.new.push(NewDirectory {
            directory,
            within: None,
            rows: Vec::new(),
            sums: [0; 4],
            changed: false,
        });
        Ok(())
    }

    /// Creates an entry of a directory of the subtree.
    fn merge_entry(
        &mut self,
        names: &mut NamesTxn<'_>,
        principal: Option<&Principal>,
        state: &mut MergeState,
        number: usize,
        (name, make, in_commit): (Name, &NewFile, bool),
    ) -> Result<()> {
        let Some(new) = state.new.get_mut(number) else {
            return Ok(());
        };
        let parent = Arc::clone(&new.directory);
        let path = || parent.path_of(&name);
        let Some(kind) = Kind::of_mode(make.mode) else {
            return Err(Errno::Invalid
                .at(format!(
                    "{}: mode {:o} does not say what kind of file it is",
                    display(&path()),
                    make.mode
                ))
                .into());
        };
        let path_bytes = parent.path().len() + 1 + name.as_bytes().len();
        if path_bytes > PATH_BYTES_MAX {
            return Err(Errno::NameTooLong.at(display(&path())).into());
        }
        let hash = hash_of(&name);
        let id = self.id_in_new(names, &parent, kind, (&name, hash))?;
        let size = check_content(kind, &make.content, &|| display(&path()).to_string())?;
        check_new_file(principal, kind, make, &|| display(&path()).to_string())?;
        let inherits = parent.inode.mode & SETGID != 0;
        // As for single files: one that existed before keeps its group.
        let existed = make.times[2].is_some();
        let is_inherited = inherits && (!existed || make.gid == parent.inode.gid);
        check_owner(principal, make, is_inherited, &|| {
            display(&path()).to_string()
        })?;
        let mut inode = new_inode(id, kind, make, size, (self.version, self.now_nanos()));
        set_new_acls(&mut inode, &|| display(&path()).to_string())?;
        let directory = kind == Kind::Directory;
        if inherits && !existed {
            inode.gid = parent.inode.gid;
            if directory {
                inode.mode |= SETGID;
            }
        }
        state.sums.add(&inode, &name);
        let mut sums = [0; 4];
        if directory {
            sums[DIRECTORIES] = 1;
        } else {
            sums[FILES] = 1;
            sums[BYTES] = inode.size.cast_signed();
            sums[BLOCKS] = inode.blocks.cast_signed();
        }
        plus(&mut new.sums, &sums);
        new.changed |= !existed;
        names.filters.add(parent.id, hash);
        let dentry = Dentry {
            name,
            id,
            inode: DentryInode::Inline(inode),
        };
        let (at, len) = state.rows.value(|out| dentry.encode(out));
        new.rows.push(EntryRow {
            hash,
            n: 0,
            in_commit,
            at,
            len,
        });
        if !directory {
            return Ok(());
        }
        let DentryInode::Inline(inode) = dentry.inode else {
            return Ok(());
        };
        names.filters.begin(id);
        let mut own = [0; 4];
        own[BYTES] = inode.size.cast_signed();
        own[BLOCKS] = inode.blocks.cast_signed();
        state.new.push(NewDirectory {
            directory: Arc::new(parent.child(&dentry.name, inode)),
            within: Some((parent.id, dentry.name)),
            rows: Vec::new(),
            // The content of a directory itself counts in its own sums.
            sums: own,
            changed: false,
        });
        Ok(())
    }

    /// Returns the id of an entry of a directory of the subtree.
    fn id_in_new(
        &mut self,
        names: &NamesTxn<'_>,
        parent: &Directory,
        kind: Kind,
        (name, hash): (&Name, u64),
    ) -> Result<VertexId> {
        use std::sync::atomic::Ordering;
        let naming = match parent.naming.get() {
            Some(naming) => *naming,
            None => self.naming_of_new(parent)?,
        };
        let salt = self.version.0 ^ names.salt.rotate_left(48);
        if naming == Naming::Within {
            return Ok(id_within(kind, parent.id, name, salt));
        }
        let id = parent.id_at(kind, name, hash);
        let may_be_taken = kind == Kind::Directory || parent.departed.load(Ordering::Acquire);
        let state = may_be_taken && rows::location_record(&*self.overlay, id)?.is_some();
        Ok(if state {
            id_within(kind, parent.id, name, salt)
        } else {
            id
        })
    }

    /// Decides how a new directory's files get their ids; if a removed directory owned its path, ids are looked up.
    fn naming_of_new(&mut self, directory: &Directory) -> Result<Naming> {
        let Some(path) = directory.short_path() else {
            return Ok(Naming::Within);
        };
        let key = path_named_key(id_at(Kind::Directory, path));
        let owner = self.overlay.get(Table::Names, &key)?;
        let naming = match owner {
            Some(owner) => {
                let owner = VertexId(owner.as_slice().try_into().unwrap_or_default());
                if rows::location_record(&*self.overlay, owner)?.is_none_or(|p| p.deleted) {
                    directory
                        .departed
                        .store(true, std::sync::atomic::Ordering::Release);
                    Naming::Path
                } else {
                    Naming::Within
                }
            }
            None => Naming::Path,
        };
        if naming == Naming::Path {
            self.overlay.put(Table::Names, key, directory.id.0);
        }
        let _ = directory.naming.set(naming);
        Ok(naming)
    }

    /// Completes a merge: sorts rows, records sums, and applies further names and tags.
    fn finish(
        &mut self,
        names: &mut NamesTxn<'_>,
        mut state: MergeState,
        subtree: &Subtree,
    ) -> Result<()> {
        let now = self.now_nanos();
        for new in &mut state.new {
            number(new, &state.rows)?;
            self.rows_of(new, &mut state.rows)?;
            let key = SpaceKey::Directory(new.directory.id);
            for (measure, n) in MEASURES.into_iter().zip(new.sums).filter(|(_, n)| *n != 0) {
                names.note(Counter::Space(key, measure), n);
            }
            if new.changed {
                names.note_changed(new.directory.id, now);
            }
        }
        for (key, sums) in state.sums.finish() {
            for (measure, n) in MEASURES.into_iter().zip(sums).filter(|(_, n)| *n != 0) {
                names.note(Counter::Space(key, measure), n);
            }
        }
        let (new, mut rows) = (state.new, state.rows);
        if !state.changes.is_empty() {
            new.iter().for_each(|new| names.local.keep(&new.directory));
        }
        let ids: HashSet<VertexId> = new.iter().map(|n| n.directory.id).collect();
        let entries = new.into_iter().map(|new| DirectoryEntries {
            directory: new.directory.id,
            rows: new.rows,
        });
        rows.entries = entries.collect();
        if state.changes.is_empty() {
            rows.move_to_commit(self.overlay, names.bulk_load_rows_min);
            names.subtree_rows = rows;
            return Ok(());
        }
        // Names that exist in the subtree, since look-ups in the commit do not find them.
        let hashes: HashSet<(VertexId, u64)> = rows
            .entries
            .iter()
            .flat_map(|e| e.rows.iter().map(|row| (e.directory, row.hash)))
            .collect();
        rows.move_to_commit(self.overlay, names.bulk_load_rows_min);
        for change in &state.changes {
            self.change_within(names, change, (&ids, &hashes), subtree)?;
        }
        names.subtree_rows = rows;
        Ok(())
    }

    /// Adds a further name or a tag to a file of the subtree. The creator of the subtree owns all files concerned.
    fn change_within(
        &mut self,
        names: &mut NamesTxn<'_>,
        change: &Change,
        (ids, hashes): (&HashSet<VertexId>, &HashSet<(VertexId, u64)>),
        subtree: &Subtree,
    ) -> Result<()> {
        let inside = |path: &NamePath, free: bool| match self.reach(names, None, path, false)? {
            // The top of the subtree is in a directory outside.
            Reached::Entry(_, _, Ok(found)) if !free && ids.contains(&found.dentry.id) => Ok(()),
            Reached::Entry(parent, name, _) if ids.contains(&parent.id) => {
                if free && hashes.contains(&(parent.id, hash_of(&name))) {
                    return Err(Errno::Exists.at(path).into());
                }
                Ok(())
            }
            _ => Err(refused(
                subtree,
                &format!("refers to {path}, which is not in it"),
            )),
        };
        match change {
            Change::Link { from, to } => {
                inside(from, false)?;
                inside(to, true)?;
                self.link(names, None, from, to)?;
            }
            Change::Xattr {
                path,
                name,
                value,
                mode,
            } if name.starts_with(TAG_PREFIX) => {
                inside(path, false)?;
                self.set_tag(names, None, (path, false), name, value.as_deref(), *mode)?;
            }
            _ => {
                return Err(refused(
                    subtree,
                    &format!(
                        "contains a change of {} that is neither a further name nor a tag",
                        change.path()
                    ),
                ));
            }
        }
        Ok(())
    }

    /// Writes the rows that locate a new directory.
    fn rows_of(&mut self, new: &NewDirectory, rows: &mut SubtreeRows) -> Result<()> {
        let directory = &new.directory;
        let departed = directory
            .departed
            .load(std::sync::atomic::Ordering::Acquire);
        let Some((parent, name)) = &new.within else {
            if departed {
                let place =
                    rows::location_record(&*self.overlay, directory.id)?.unwrap_or_default();
                self.put_location_record(directory.id, &LocationRecord { departed, ..place });
            }
            return Ok(());
        };
        let place = LocationRecord {
            departed,
            ..LocationRecord::at(*parent, name.clone())
        };
        let (at, len) = rows.value(|out| place.encode(out));
        let key = location_key(directory.id).to_vec();
        rows.others.push((key, at, len));
        let (at, len) = rows.value(|out| out.extend_from_slice(name.as_bytes()));
        let key = child_key(*parent, directory.id).to_vec();
        rows.others.push((key, at, len));
        Ok(())
    }
}

/// Sorts the rows of a directory, and numbers names with the same hash; refuses duplicate names.
fn number(new: &mut NewDirectory, rows: &SubtreeRows) -> Result<()> {
    new.rows.sort_unstable();
    let name = |row: &EntryRow| {
        let value = rows.values.get(row.at..row.at + row.len as usize);
        Dentry::name_of(value.unwrap_or_default()).map_err(rows::corrupt)
    };
    let mut from = 0;
    while let Some(row) = new.rows.get(from) {
        let hash = row.hash;
        let same = new.rows.iter().skip(from).take_while(|r| r.hash == hash);
        let count = same.count();
        if count > 1 {
            let mut names = HashSet::new();
            let group = new.rows.iter_mut().skip(from).take(count);
            for (n, row) in (0..).zip(group) {
                let name = name(row)?;
                if !names.insert(name) {
                    let path = new.directory.path_of(&Name::new(name)?);
                    return Err(Errno::Exists.at(display(&path)).into());
                }
                row.n = u8::try_from(n).map_err(|_| {
                    Errno::NoSpace.at("256 names of one directory have the same hash")
                })?;
                // Later changes find such a row by look-ups in the commit.
                row.in_commit = true;
            }
        }
        from += count;
    }
    Ok(())
}
