//! A subtree comes in: what is in directories that are there as any new file, all else without looking.
//!
//! The ids, the rows and the sums are those that making its files one by one in one commit would give.

use super::rows::{Entries, NewRows, Row};
use crate::names::NamesTxn;
use crate::names::change::{check_content, check_owner, new_inode};
use crate::names::directory::{Directory, Naming};
use crate::names::resolve::Reached;
use crate::names::{rows, space};
use crate::txn::Txn;
use esker_model::key::{Counter, Measure, SpaceKey};
use esker_model::namespace::record::{
    Dentry, DentryInode, Whereabouts, child_key, claim_key, whereabouts_key,
};
use esker_model::namespace::tags::TAG_PREFIX;
use esker_model::namespace::{
    Change, Errno, Inode, Item, Kind, Make, Name, NamePath, PATH_BYTES_MAX, SUBTREE_BYTES_MAX,
    Subtree, check_made, display, hash_of, id_at, id_within, path_in, too_large,
};
use esker_model::object::Asker;
use esker_model::{Error, Result, VertexId};
use esker_store::Table;
use foldhash::fast::FixedState;
use std::collections::{HashMap, HashSet};
use std::sync::Arc;

const SETGID: u32 = 0o2000;

/// Where the next entry comes to lie.
enum Place {
    Nowhere,
    Existing(NamePath),
    Made(usize),
}

/// A directory of the subtree.
struct New {
    directory: Arc<Directory>,
    /// Its name in a directory that is new as well; one in a directory that is there has all rows but its entries'.
    within: Option<(VertexId, Name)>,
    rows: Vec<Row>,
    /// What is in it, by [`Measure`]: files, directories, bytes, blocks.
    sums: [i64; 4],
    /// An entry comes now, and not from elsewhere.
    changed: bool,
}

/// What has been taken of a subtree.
#[derive(Default)]
struct Taken {
    new: Vec<New>,
    rows: NewRows,
    sums: Sums,
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

/// Sums over all files: mostly the same ones again, so the last ones are at hand.
#[derive(Default)]
struct Sums {
    last: [Option<(SpaceKey, [i64; 4])>; 5],
    all: HashMap<SpaceKey, [i64; 4], FixedState>,
}

impl Sums {
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
    /// Makes all of a subtree. Its rows are in the overlay, or in `names.fresh`.
    pub(in crate::names) fn merge(
        &mut self,
        names: &mut NamesTxn<'_>,
        asker: Option<&Asker>,
        subtree: &Subtree,
    ) -> Result<VertexId> {
        if names.apart.is_some() {
            return Err(refused(
                subtree,
                "came to a server that has only a part of the directories",
            ));
        }
        let size = subtree.as_bytes().len();
        if size > SUBTREE_BYTES_MAX {
            return Err(too_large(size as u64, SUBTREE_BYTES_MAX as u64));
        }
        let mut taken = Taken::default();
        let mut place = Place::Nowhere;
        for item in subtree.items() {
            let item = item.map_err(|e| refused(subtree, &format!("cannot be read ({e})")))?;
            match item {
                Item::Existing(path) => place = Place::Existing(path),
                Item::Made(number) => {
                    let number = usize::try_from(number).ok();
                    let known = number.filter(|n| *n < taken.new.len());
                    place = Place::Made(known.ok_or_else(|| {
                        refused(
                            subtree,
                            "has entries of a directory that does not come before them",
                        )
                    })?);
                }
                Item::Entry(name, make, awaited) => match &place {
                    Place::Existing(path) => {
                        self.take_into(names, asker, &mut taken, path, (&name, &make))?;
                    }
                    Place::Made(n) => {
                        self.take(names, asker, &mut taken, *n, (name, &make, awaited))?;
                    }
                    Place::Nowhere => {
                        return Err(refused(subtree, "has entries of no directory"));
                    }
                },
                Item::Change(change) => taken.changes.push(change),
            }
        }
        let Some(first) = taken.first else {
            return Err(refused(subtree, "has no entries"));
        };
        self.finish(names, taken, subtree)?;
        Ok(first)
    }

    /// An entry of a directory that is there.
    fn take_into(
        &mut self,
        names: &mut NamesTxn<'_>,
        asker: Option<&Asker>,
        taken: &mut Taken,
        directory: &NamePath,
        (name, make): (&Name, &Make),
    ) -> Result<()> {
        let path = path_in(directory, name)?;
        let id = self.make(names, asker, &path, make)?;
        taken.first.get_or_insert(id);
        if Kind::of_mode(make.mode) != Some(Kind::Directory) {
            return Ok(());
        }
        let directory = match self.reach(names, None, &path, false)? {
            Reached::Entry(parent, name, Ok(found)) => match found.dentry.inode {
                DentryInode::Here(inode) => Arc::new(parent.child(&name, inode)),
                DentryInode::Elsewhere(_) => return Err(Errno::NotDirectory.at(&path).into()),
            },
            _ => return Err(Errno::NotFound.at(&path).into()),
        };
        names.local.keep(&directory);
        taken.new.push(New {
            directory,
            within: None,
            rows: Vec::new(),
            sums: [0; 4],
            changed: false,
        });
        Ok(())
    }

    /// An entry of a directory of the subtree.
    fn take(
        &mut self,
        names: &mut NamesTxn<'_>,
        asker: Option<&Asker>,
        taken: &mut Taken,
        number: usize,
        (name, make, awaited): (Name, &Make, bool),
    ) -> Result<()> {
        let Some(new) = taken.new.get_mut(number) else {
            return Ok(());
        };
        let parent = Arc::clone(&new.directory);
        let path = || parent.path_of(&name);
        let Some(kind) = Kind::of_mode(make.mode) else {
            return Err(Errno::Invalid
                .at(format!(
                    "{}: mode {:o} says no kind of file",
                    display(&path()),
                    make.mode
                ))
                .into());
        };
        if parent.path.len() + 1 + name.as_bytes().len() > PATH_BYTES_MAX {
            return Err(Errno::NameTooLong.at(display(&path())).into());
        }
        let hash = hash_of(&name);
        let id = self.id_in_new(names, &parent, kind, (&name, hash))?;
        let size = check_content(kind, &make.content, &|| display(&path()).to_string())?;
        check_made(asker, kind, make, &|| display(&path()).to_string())?;
        let inherits = parent.inode.mode & SETGID != 0;
        check_owner(asker, make, inherits, &|| display(&path()).to_string())?;
        let mut inode = new_inode(id, kind, make, size, (self.version, self.now_nanos()));
        let directory = kind == Kind::Directory;
        if inherits {
            // As where files are made one by one.
            inode.gid = parent.inode.gid;
            if directory {
                inode.mode |= SETGID;
            }
        }
        taken.sums.add(&inode, &name);
        let mut sums = [0; 4];
        if directory {
            sums[DIRECTORIES] = 1;
        } else {
            sums[FILES] = 1;
            sums[BYTES] = inode.size.cast_signed();
            sums[BLOCKS] = inode.blocks.cast_signed();
        }
        plus(&mut new.sums, &sums);
        new.changed |= make.times[2].is_none();
        names.filters.add(parent.id, hash);
        let dentry = Dentry {
            name,
            id,
            inode: DentryInode::Here(inode),
        };
        let (at, len) = taken.rows.value(|out| dentry.encode(out));
        new.rows.push(Row {
            hash,
            n: 0,
            awaited,
            at,
            len,
        });
        if !directory {
            return Ok(());
        }
        let DentryInode::Here(inode) = dentry.inode else {
            return Ok(());
        };
        names.filters.begin(id);
        let mut own = [0; 4];
        own[BYTES] = inode.size.cast_signed();
        own[BLOCKS] = inode.blocks.cast_signed();
        taken.new.push(New {
            directory: Arc::new(parent.child(&dentry.name, inode)),
            within: Some((parent.id, dentry.name)),
            rows: Vec::new(),
            // What a directory takes itself is part of what is below it.
            sums: own,
            changed: false,
        });
        Ok(())
    }

    /// The id of an entry of a directory of the subtree.
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
        let taken = may_be_taken && rows::whereabouts(&*self.overlay, id)?.is_some();
        Ok(if taken {
            id_within(kind, parent.id, name, salt)
        } else {
            id
        })
    }

    /// How a new directory's files get their ids; where somebody who is gone had claimed its path, they are looked up.
    fn naming_of_new(&mut self, directory: &Directory) -> Result<Naming> {
        let key = claim_key(id_at(Kind::Directory, &directory.path));
        let owner = self.overlay.get(Table::Names, &key)?;
        let naming = match owner {
            Some(owner) => {
                let owner = VertexId(owner.as_slice().try_into().unwrap_or_default());
                if rows::whereabouts(&*self.overlay, owner)?.is_none_or(|p| p.gone) {
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

    /// All has been read: rows get their order, sums are noted, further names and tags are made.
    fn finish(
        &mut self,
        names: &mut NamesTxn<'_>,
        mut taken: Taken,
        subtree: &Subtree,
    ) -> Result<()> {
        let now = self.now_nanos();
        for new in &mut taken.new {
            number(new, &taken.rows)?;
            self.rows_of(new, &mut taken.rows)?;
            let key = SpaceKey::Directory(new.directory.id);
            for (measure, n) in MEASURES.into_iter().zip(new.sums).filter(|(_, n)| *n != 0) {
                names.note(Counter::Space(key, measure), n);
            }
            if new.changed {
                names.note_changed(new.directory.id, now);
            }
        }
        for (key, sums) in taken.sums.finish() {
            for (measure, n) in MEASURES.into_iter().zip(sums).filter(|(_, n)| *n != 0) {
                names.note(Counter::Space(key, measure), n);
            }
        }
        let (new, mut rows) = (taken.new, taken.rows);
        if !taken.changes.is_empty() {
            new.iter().for_each(|new| names.local.keep(&new.directory));
        }
        let ids: HashSet<VertexId> = new.iter().map(|n| n.directory.id).collect();
        let entries = new.into_iter().map(|new| Entries {
            directory: new.directory.id,
            rows: new.rows,
        });
        rows.entries = entries.collect();
        if taken.changes.is_empty() {
            rows.settle(self.overlay, names.sorted_least);
            names.fresh = rows;
            return Ok(());
        }
        // Names that are taken, for what is looked for in the commit alone.
        let hashes: HashSet<(VertexId, u64)> = rows
            .entries
            .iter()
            .flat_map(|e| e.rows.iter().map(|row| (e.directory, row.hash)))
            .collect();
        rows.settle(self.overlay, names.sorted_least);
        for change in &taken.changes {
            self.change_within(names, change, (&ids, &hashes), subtree)?;
        }
        names.fresh = rows;
        Ok(())
    }

    /// A further name or a tag of a file of the subtree. Whoever made it owns all that it is about.
    fn change_within(
        &mut self,
        names: &mut NamesTxn<'_>,
        change: &Change,
        (ids, hashes): (&HashSet<VertexId>, &HashSet<(VertexId, u64)>),
        subtree: &Subtree,
    ) -> Result<()> {
        let inside = |path: &NamePath, free: bool| match self.reach(names, None, path, false)? {
            Reached::Entry(parent, name, _) if ids.contains(&parent.id) => {
                if free && hashes.contains(&(parent.id, hash_of(&name))) {
                    return Err(Errno::Exists.at(path).into());
                }
                Ok(())
            }
            _ => Err(refused(
                subtree,
                &format!("speaks of {path}, which is not in it"),
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
                        "brings a change of {} that is neither a further name nor a tag",
                        change.path()
                    ),
                ));
            }
        }
        Ok(())
    }

    /// The rows that say where a new directory is.
    fn rows_of(&mut self, new: &New, rows: &mut NewRows) -> Result<()> {
        let directory = &new.directory;
        let departed = directory
            .departed
            .load(std::sync::atomic::Ordering::Acquire);
        let Some((parent, name)) = &new.within else {
            if departed {
                let place = rows::whereabouts(&*self.overlay, directory.id)?.unwrap_or_default();
                self.put_whereabouts(directory.id, &Whereabouts { departed, ..place });
            }
            return Ok(());
        };
        let place = Whereabouts {
            departed,
            ..Whereabouts::at(*parent, name.clone())
        };
        let (at, len) = rows.value(|out| place.encode(out));
        let key = whereabouts_key(directory.id).to_vec();
        rows.others.push((key, at, len));
        let (at, len) = rows.value(|out| out.extend_from_slice(name.as_bytes()));
        let key = child_key(*parent, directory.id).to_vec();
        rows.others.push((key, at, len));
        Ok(())
    }
}

/// Puts the rows of a directory in order, and numbers names of one hash; two of one name are refused.
fn number(new: &mut New, rows: &NewRows) -> Result<()> {
    new.rows.sort_unstable();
    let name = |row: &Row| {
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
                // They are told apart by looking, where something is done to one.
                row.awaited = true;
            }
        }
        from += count;
    }
    Ok(())
}
