//! Answers: what is at a path, in a directory, below it; and how much.

use super::change::nanos;
use super::directory::Directory;
use super::resolve::{Reached, Way};
use super::rows::{self, Committed, Rows};
use super::{Local, open, space};
use crate::Engine;
use crate::read::FirstError;
use esker_model::key::{Counter, Measure, SpaceKey};
use esker_model::namespace::record::{
    Dentry, children_prefix, decode_child_key, decode_dentry_key, dentries_prefix, dentry_key,
};
use esker_model::namespace::{
    Change, Content, Cookie, Done, Entry, Errno, Handle, Inode, Kind, Looked, Name, NamePath,
    Namespace, Open, Partition, Space, SpaceBy, Usage,
};
use esker_model::object::Asker;
use esker_model::{Cancel, Error, Flow, Result, VertexId, place};
use esker_store::{KeyRange, Table};
use std::collections::BTreeMap;
use std::sync::Arc;

/// What may be read of a directory by those who list it, and by those who look at what they know is there.
const READ: u32 = 4;
const SEARCH: u32 = 1;

impl Engine {
    pub(super) fn reach<T>(
        &self,
        asker: Option<&Asker>,
        call: impl FnOnce(&Way<'_, Committed<'_, dyn esker_store::Store>>) -> Result<T>,
    ) -> Result<T> {
        let rows = Committed(&*self.store);
        call(&Way {
            rows: &rows,
            asker,
            known: (!self.names.is_spread()).then_some(&self.names.directories),
            local: &Local::default(),
            filters: None,
            epoch: None,
        })
    }

    /// What those who ask see of a file: content and attributes only if they may read it; a directory has the names and
    /// times that its entries give it.
    fn seen(&self, asker: Option<&Asker>, path: &NamePath, inode: Inode) -> Result<Inode> {
        let inode = hidden(asker, path, inode);
        if !inode.is_directory() {
            return Ok(inode);
        }
        let key = SpaceKey::Directory(inode.id);
        let of = |measure| space::value(&*self.store, &self.counters, Counter::Space(key, measure));
        Ok(with_sums(
            inode,
            of(Measure::Directories)?,
            of(Measure::Changed)?,
        ))
    }

    /// What is asked most, with nothing in between and nothing written: a file whose row is in memory, in a directory that
    /// is known. `None` says nothing.
    fn stat_lately(&self, asker: Option<&Asker>, path: &NamePath) -> Result<Option<Inode>> {
        let Some((parent, name)) = path.split_bytes().filter(|_| !self.names.is_spread()) else {
            return Ok(None);
        };
        let open = |d: &Directory| d.may_search(asker).then_some(d.id);
        let Some(directory) = self.names.directories.look(parent, open).flatten() else {
            return Ok(None);
        };
        let key = dentry_key(directory, place::hash(name), 0);
        let look = |row: &[u8]| Dentry::inode_of(row, name).map_err(rows::corrupt);
        let found = self.staged.look_lately(&key, look).transpose()?.flatten();
        let plain = |inode: &Inode| !matches!(inode.kind(), Kind::Directory | Kind::Symlink);
        let Some(inode) = found.filter(plain) else {
            return Ok(None);
        };
        let mut inode = hidden(asker, path, inode);
        if inode.allows(asker, READ) {
            self.add_tags(&mut inode)?;
        }
        Ok(Some(inode))
    }

    /// What an open file is.
    fn stat_held(&self, asker: Option<&Asker>, path: &NamePath, handle: &Handle) -> Result<Inode> {
        let (inode, named) = self.reach(asker, |way| way.held_inode(handle))?;
        if !named {
            return Ok(hidden(asker, path, inode));
        }
        let mut inode = self.seen(asker, path, inode)?;
        if inode.allows(asker, READ) {
            self.add_tags(&mut inode)?;
        }
        Ok(inode)
    }

    /// With what sums and the graph say of it.
    fn tagged(&self, asker: Option<&Asker>, looked: Looked) -> Result<Looked> {
        let Looked::Found(path, inode) = looked else {
            return Ok(looked);
        };
        if inode.links == 0 {
            return Ok(Looked::Found(path, inode));
        }
        let mut inode = self.seen(asker, &path, *inode)?;
        if inode.allows(asker, READ) {
            self.add_tags(&mut inode)?;
        }
        Ok(Looked::Found(path, Box::new(inode)))
    }

    /// The id of what is at a path, if there is something.
    pub(super) fn id_now(&self, path: &NamePath) -> Option<VertexId> {
        self.stat(None, path, false).ok().map(|inode| inode.id)
    }

    /// The directory at a path, whose entries someone may list and look at: without the second nobody sees what they are.
    fn listed(&self, asker: Option<&Asker>, path: &NamePath) -> Result<Arc<Directory>> {
        let directory = self.reach(asker, |way| way.directory(path))?;
        demand_listing(&directory, asker, path)?;
        directory.demand_search(asker)?;
        Ok(directory)
    }

    /// The directories in a directory.
    pub(super) fn children(&self, directory: VertexId) -> Result<Vec<(VertexId, Name)>> {
        let mut error = FirstError::default();
        let mut children = Vec::new();
        let range = KeyRange::prefix(&children_prefix(directory));
        self.store.scan(Table::Names, &range, &mut |key, value| {
            let child = error.keep(decode_child_key(key).map_err(rows::corrupt))?;
            let name = error.keep(Name::new(value).map_err(Error::from))?;
            children.push((child, name));
            Flow::Continue(())
        })?;
        error.into_result()?;
        Ok(children)
    }

    /// The directories in a directory that someone may go into.
    fn open_children(
        &self,
        asker: Option<&Asker>,
        directory: &Arc<Directory>,
    ) -> Result<Vec<Arc<Directory>>> {
        let rows = Committed(&*self.store);
        let mut open = Vec::new();
        for (_, name) in self.children(directory.id)? {
            // It may have gone, or something else may have its name by now.
            let Ok(found) = rows::find(&rows, directory.id, &name)? else {
                continue;
            };
            let inode = rows::inode(&rows, found.dentry)?;
            if inode.is_directory() && inode.allows(asker, READ | SEARCH) {
                open.push(Arc::new(directory.child(&name, inode)));
            }
        }
        Ok(open)
    }
}

/// Whether someone may list a directory: its handle says so, or its mode.
pub(super) fn demand_listing(
    directory: &Directory,
    asker: Option<&Asker>,
    path: &NamePath,
) -> Result<()> {
    match path.handle() {
        Some(handle) if handle.read => Ok(()),
        Some(_) => Err(Errno::BadHandle.at(path).into()),
        None => Ok(directory.inode.demand(asker, READ, path.as_bytes())?),
    }
}

/// What someone may not read is left out. Content shows by what they opened it for, if that is how they ask; attributes by what they
/// may do now, as the kernel has it.
pub(super) fn hidden(asker: Option<&Asker>, path: &NamePath, mut inode: Inode) -> Inode {
    if !inode.allows(asker, READ) {
        inode.xattrs.clear();
    }
    if inode.kind() != Kind::Symlink && !open::readable(&inode, asker, path) {
        inode.content = Content::None;
    }
    if asker.is_some_and(|a| a.uid != 0) {
        inode
            .xattrs
            .retain(|(name, _)| !name.starts_with(b"trusted."));
    }
    inode
}

/// A directory with its number of links and its times, which its entries give it.
pub(super) fn with_sums(mut inode: Inode, directories: u64, changed: u64) -> Inode {
    inode.links = u32::try_from(directories.saturating_add(2)).unwrap_or(u32::MAX);
    changed_by_entries(inode, changed)
}

/// A key of the sums of one kind.
pub(super) fn example(by: SpaceBy) -> SpaceKey {
    match by {
        SpaceBy::User => SpaceKey::User(0),
        SpaceBy::Group => SpaceKey::Group(0),
        SpaceBy::Kind => SpaceKey::Kind(0),
        SpaceBy::Ending => SpaceKey::Ending([0; 8]),
        SpaceBy::Day => SpaceKey::Day(0),
    }
}

/// A directory's times: those that were set, unless something came or went since.
pub(super) fn changed_by_entries(mut inode: Inode, changed: u64) -> Inode {
    let changed = changed.cast_signed();
    if changed > nanos(inode.version) {
        inode.mtime = changed;
        inode.ctime = changed;
    }
    inode
}

/// Decodes one row of a listing.
fn entry(rows: &(impl Rows + ?Sized), key: &[u8], value: &[u8]) -> Result<(Cookie, Entry)> {
    let (_, hash, n) = decode_dentry_key(key).map_err(rows::corrupt)?;
    let dentry = Dentry::decode(value).map_err(rows::corrupt)?;
    let name = dentry.name.clone();
    let inode = rows::inode(rows, dentry)?;
    Ok((Cookie { hash, n }, Entry { name, inode }))
}

/// What a directory is now: of one in memory only what lets people through is sure.
pub(super) fn present(rows: &dyn Rows, directory: &Directory) -> Result<Inode> {
    let Some(parent) = &directory.parent else {
        return rows::root_inode(rows);
    };
    let Some((_, name)) = NamePath::parse(&directory.path)?.split() else {
        return Ok(directory.inode.clone());
    };
    match rows::find(rows, parent.id, &name)? {
        Ok(found) => rows::inode(rows, found.dentry),
        Err(_) => Ok(directory.inode.clone()),
    }
}

impl Namespace for Engine {
    fn stat(&self, asker: Option<&Asker>, path: &NamePath, follow: bool) -> Result<Inode> {
        if let Some(inode) = self.stat_lately(asker, path)? {
            return Ok(inode);
        }
        if let Some(handle) = path.handle() {
            return self.stat_held(asker, path, &handle);
        }
        let reached = self.reach(asker, |way| way.reach(path, follow))?;
        let inode = match reached {
            Reached::Directory(directory) => present(&Committed(&*self.store), &directory)?,
            Reached::Entry(_, _, Err(_)) => return Err(Errno::NotFound.at(path).into()),
            Reached::Entry(_, _, Ok(found)) => rows::inode(&Committed(&*self.store), found.dentry)?,
        };
        let mut inode = self.seen(asker, path, inode)?;
        if inode.allows(asker, READ) {
            self.add_tags(&mut inode)?;
        }
        Ok(inode)
    }

    fn list(
        &self,
        asker: Option<&Asker>,
        path: &NamePath,
        after: Option<Cookie>,
        sink: &mut dyn FnMut(Cookie, Entry) -> Flow,
    ) -> Result<()> {
        let directory = self.listed(asker, path)?;
        let prefix = dentries_prefix(directory.id);
        let range = match after {
            Some(c) => KeyRange::prefix_after(&prefix, &dentry_key(directory.id, c.hash, c.n)),
            None => KeyRange::prefix(&prefix),
        };
        let snapshot = self.store.snapshot()?;
        let rows = Committed(&*snapshot);
        let mut error = FirstError::default();
        // What is in it is looked at by itself, however the directory was opened.
        let any = NamePath::root();
        snapshot.scan(Table::Names, &range, &mut |key, value| {
            let (cookie, mut entry) = error.keep(entry(&rows, key, value))?;
            entry.inode = error.keep(self.seen(asker, &any, entry.inode))?;
            sink(cookie, entry)
        })?;
        error.into_result()
    }

    fn walk(
        &self,
        asker: Option<&Asker>,
        path: &NamePath,
        cancel: &dyn Cancel,
        sink: &mut dyn FnMut(&NamePath, &Inode) -> Flow,
    ) -> Result<()> {
        path.demand_path()?;
        let inode = self.stat(asker, path, false)?;
        if sink(path, &inode).is_break() || !inode.is_directory() {
            return Ok(());
        }
        let snapshot = self.store.snapshot()?;
        let rows = Committed(&*snapshot);
        let mut left = vec![(path.clone(), inode.id)];
        if !inode.allows(asker, READ | SEARCH) {
            return Err(Errno::Access.at(path).into());
        }
        while let Some((path, id)) = left.pop() {
            let (mut error, mut seen) = (FirstError::default(), 0_u32);
            let mut below = Vec::new();
            let mut ended = false;
            snapshot.scan(
                Table::Names,
                &KeyRange::prefix(&dentries_prefix(id)),
                &mut |key, value| {
                    seen = seen.wrapping_add(1);
                    if seen.is_multiple_of(1024) && cancel.cancelled() {
                        return error.keep(Err(Error::Interrupted));
                    }
                    let (_, entry) = error.keep(entry(&rows, key, value))?;
                    let path = path.join(&entry.name);
                    let inode = error.keep(self.seen(asker, &path, entry.inode))?;
                    if inode.is_directory() && inode.allows(asker, READ | SEARCH) {
                        below.push((path.clone(), inode.id));
                    }
                    let flow = sink(&path, &inode);
                    ended |= flow.is_break();
                    flow
                },
            )?;
            error.into_result()?;
            if ended {
                return Ok(());
            }
            left.extend(below.into_iter().rev());
        }
        Ok(())
    }

    fn change(&self, asker: Option<&Asker>, changes: &[Change]) -> Result<Vec<Result<Done>>> {
        self.change_names(asker, changes)
    }

    fn usage(&self, asker: Option<&Asker>, path: &NamePath, below: bool) -> Result<Usage> {
        let inode = self.stat(asker, path, false)?;
        if !inode.is_directory() {
            return Ok(Usage {
                files: 1,
                directories: 0,
                bytes: inode.size,
                blocks: inode.blocks,
            });
        }
        let mut sum = Usage {
            directories: u64::from(below),
            ..Usage::default()
        };
        let mut left = vec![self.listed(asker, path)?];
        while let Some(directory) = left.pop() {
            let key = SpaceKey::Directory(directory.id);
            sum += space::usage(&*self.store, &self.counters, key)?;
            if below {
                left.extend(self.open_children(asker, &directory)?);
            }
        }
        Ok(sum)
    }

    fn usages(
        &self,
        asker: Option<&Asker>,
        path: &NamePath,
        cancel: &dyn Cancel,
        sink: &mut dyn FnMut(&NamePath, &Usage) -> Flow,
    ) -> Result<()> {
        path.demand_path()?;
        // Each with the place of the one that it is in; those come before.
        let mut all: Vec<(NamePath, Usage, Option<usize>)> = Vec::new();
        let mut left = vec![(self.listed(asker, path)?, path.clone(), None)];
        while let Some((directory, path, parent)) = left.pop() {
            if cancel.cancelled() {
                return Err(Error::Interrupted);
            }
            let key = SpaceKey::Directory(directory.id);
            let mut own = space::usage(&*self.store, &self.counters, key)?;
            // It counts itself; those in it do the same.
            own.directories = 1;
            let place = all.len();
            for child in self.open_children(asker, &directory)? {
                let name = child.path.rsplit(|b| *b == b'/').next().unwrap_or_default();
                let path = path.join(&Name::new(name)?);
                left.push((child, path, Some(place)));
            }
            all.push((path, own, parent));
        }
        for place in (0..all.len()).rev() {
            let Some((_, usage, Some(parent))) = all.get(place) else {
                continue;
            };
            let (usage, parent) = (*usage, *parent);
            if let Some((_, sum, _)) = all.get_mut(parent) {
                *sum += usage;
            }
        }
        for (path, usage, _) in &all {
            if sink(path, usage).is_break() {
                break;
            }
        }
        Ok(())
    }

    fn ids(
        &self,
        asker: Option<&Asker>,
        paths: &[NamePath],
    ) -> Result<Vec<Option<(VertexId, Kind)>>> {
        if !self.names.any() {
            return Ok(vec![None; paths.len()]);
        }
        paths.iter().map(|path| self.id_at(asker, path)).collect()
    }

    fn partitions(&self, path: &NamePath) -> Result<Vec<Partition>> {
        self.reach(None, |way| way.directory(path))?;
        let own = self.usage(None, path, false)?;
        Ok(vec![Partition {
            index: 0,
            depth: 0,
            server: 0,
            entries: own.files + own.directories,
        }])
    }

    fn look(&self, asker: Option<&Asker>, path: &NamePath, how: Open) -> Result<Looked> {
        let looked = self.reach(asker, |way| open::look(way, path, how))?;
        self.tagged(asker, looked)
    }

    fn space(&self, by: SpaceBy) -> Result<Vec<Space>> {
        Ok(sums_of(self.names_space(by)?))
    }
}

/// Sums by key, of changes of counters that belong to one kind of key.
pub fn sums_of(values: impl IntoIterator<Item = (Counter, i64)>) -> Vec<Space> {
    let mut sums: BTreeMap<SpaceKey, Usage> = BTreeMap::new();
    for (counter, n) in values {
        let Counter::Space(key, measure) = counter else {
            continue;
        };
        let n = n.max(0).cast_unsigned();
        let sum = sums.entry(key).or_default();
        match measure {
            Measure::Files => sum.files = n,
            Measure::Directories => sum.directories = n,
            Measure::Bytes => sum.bytes = n,
            Measure::Blocks => sum.blocks = n,
            Measure::Changed => {}
        }
    }
    sums.retain(|_, usage| *usage != Usage::default());
    sums.into_iter()
        .map(|(key, usage)| Space {
            key: text(key),
            usage,
        })
        .collect()
}

fn text(key: SpaceKey) -> String {
    match key {
        SpaceKey::Directory(id) => id.to_string(),
        SpaceKey::User(n) | SpaceKey::Group(n) => n.to_string(),
        SpaceKey::Kind(bits) => {
            Kind::of_mode(bits).map_or_else(|| format!("{bits:o}"), |k| k.name().to_owned())
        }
        SpaceKey::Ending(text) => {
            let text: Vec<u8> = text.into_iter().take_while(|b| *b != 0).collect();
            esker_model::namespace::display(&text).to_string()
        }
        SpaceKey::Day(day) => day.to_string(),
    }
}
