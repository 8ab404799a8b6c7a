//! Reads: the file at a path, the entries of a directory, the tree below it, and sums.

use super::change::nanos;
use super::directory::Directory;
use super::resolve::{Reached, Resolver};
use super::rows::{self, CommittedRows, NameRows};
use super::{LocalDirectories, open, space};
use crate::Engine;
use crate::read::FirstError;
use esker_model::key::{Counter, Measure, SpaceKey};
use esker_model::namespace::record::{
    Dentry, children_prefix, decode_child_key, decode_dentry_key, dentries_prefix, dentry_key,
};
use esker_model::namespace::{
    AppliedChange, Change, Content, Cookie, Entry, Errno, Handle, Inode, Kind, Name, NamePath,
    Namespace, Open, OpenLookup, Partition, Space, SpaceBy, Usage,
};
use esker_model::object::Principal;
use esker_model::{Cancel, Error, Flow, Result, VertexId, file_home};
use esker_store::{KeyRange, Table};
use std::collections::BTreeMap;
use std::sync::Arc;

/// Permission to list a directory, and to look up a known name in it.
const READ: u32 = 4;
const SEARCH: u32 = 1;

impl Engine {
    pub(super) fn reach<T>(
        &self,
        principal: Option<&Principal>,
        call: impl FnOnce(&Resolver<'_, CommittedRows<'_, dyn esker_store::Store>>) -> Result<T>,
    ) -> Result<T> {
        let rows = CommittedRows(&*self.store);
        call(&Resolver {
            rows: &rows,
            principal,
            cached: (!self.names.is_distributed()).then_some(&self.names.directories),
            local: &LocalDirectories::default(),
            filters: None,
            epoch: None,
        })
    }

    /// Returns an inode as the principal sees it: content and attributes only with read permission; a directory with the link
    /// count and times that are derived from its entries.
    fn visible_inode(
        &self,
        principal: Option<&Principal>,
        path: &NamePath,
        inode: Inode,
    ) -> Result<Inode> {
        let inode = hide_unreadable(principal, path, inode);
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

    /// Serves the most frequent read without path resolution: a file whose row is in memory, in a cached directory. `None` if
    /// that is not possible.
    fn stat_cached(&self, principal: Option<&Principal>, path: &NamePath) -> Result<Option<Inode>> {
        let Some((parent, name)) = path.split_bytes().filter(|_| !self.names.is_distributed())
        else {
            return Ok(None);
        };
        let open = |d: &Directory| d.may_search(principal).then_some(d.id);
        let Some(directory) = self.names.directories.look(parent, open).flatten() else {
            return Ok(None);
        };
        let key = dentry_key(directory, file_home::name_hash(name), 0);
        let look = |row: &[u8]| Dentry::inode_of(row, name).map_err(rows::corrupt);
        let found = self.memtable.look_cached(&key, look).transpose()?.flatten();
        let plain = |inode: &Inode| !matches!(inode.kind(), Kind::Directory | Kind::Symlink);
        let Some(inode) = found.filter(plain) else {
            return Ok(None);
        };
        let mut inode = hide_unreadable(principal, path, inode);
        if inode.allows(principal, READ) {
            self.add_tags(&mut inode)?;
        }
        Ok(Some(inode))
    }

    /// Returns the inode of an open file.
    fn stat_open(
        &self,
        principal: Option<&Principal>,
        path: &NamePath,
        handle: &Handle,
    ) -> Result<Inode> {
        let (inode, named) = self.reach(principal, |resolver| resolver.open_inode(handle))?;
        if !named {
            return Ok(hide_unreadable(principal, path, inode));
        }
        let mut inode = self.visible_inode(principal, path, inode)?;
        if inode.allows(principal, READ) {
            self.add_tags(&mut inode)?;
        }
        Ok(inode)
    }

    /// Adds sums and tags to the inode of an opened file.
    fn with_sums_and_tags(
        &self,
        principal: Option<&Principal>,
        looked: OpenLookup,
    ) -> Result<OpenLookup> {
        let OpenLookup::Found(path, inode) = looked else {
            return Ok(looked);
        };
        if inode.links == 0 {
            return Ok(OpenLookup::Found(path, inode));
        }
        let mut inode = self.visible_inode(principal, &path, *inode)?;
        if inode.allows(principal, READ) {
            self.add_tags(&mut inode)?;
        }
        Ok(OpenLookup::Found(path, Box::new(inode)))
    }

    /// Returns the id of the file at a path, if there is one.
    pub(super) fn id_now(&self, path: &NamePath) -> Option<VertexId> {
        self.stat(None, path, false).ok().map(|inode| inode.id)
    }

    /// Returns the directory at a path if the principal may list and search it; without search permission entries have no attributes.
    fn listable_directory(
        &self,
        principal: Option<&Principal>,
        path: &NamePath,
    ) -> Result<Arc<Directory>> {
        let directory = self.reach(principal, |resolver| resolver.directory(path))?;
        demand_listing(&directory, principal, path)?;
        directory.demand_search(principal)?;
        Ok(directory)
    }

    /// Returns the subdirectories of a directory.
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

    /// Returns the subdirectories of a directory that the principal may list and search.
    fn open_children(
        &self,
        principal: Option<&Principal>,
        directory: &Arc<Directory>,
    ) -> Result<Vec<Arc<Directory>>> {
        let rows = CommittedRows(&*self.store);
        let mut open = Vec::new();
        for (_, name) in self.children(directory.id)? {
            // The name may have been removed or given to another file meanwhile.
            let Ok(found) = rows::find(&rows, directory.id, &name)? else {
                continue;
            };
            let inode = rows::inode(&rows, found.dentry)?;
            if inode.is_directory() && inode.allows(principal, READ | SEARCH) {
                open.push(Arc::new(directory.child(&name, inode)));
            }
        }
        Ok(open)
    }
}

/// Checks that the principal may list a directory, according to its handle or else to its mode.
pub(super) fn demand_listing(
    directory: &Directory,
    principal: Option<&Principal>,
    path: &NamePath,
) -> Result<()> {
    match path.handle() {
        Some(handle) if handle.read => Ok(()),
        Some(_) => Err(Errno::BadHandle.at(path).into()),
        None => Ok(directory.inode.demand(principal, READ, path.as_bytes())?),
    }
}

/// Removes what the principal may not read. Access to content depends on the mode of opening, if the path is a handle; access to
/// attributes depends on present permissions, as in the kernel.
pub(super) fn hide_unreadable(
    principal: Option<&Principal>,
    path: &NamePath,
    mut inode: Inode,
) -> Inode {
    if !inode.allows(principal, READ) {
        inode.xattrs.clear();
    }
    if inode.kind() != Kind::Symlink && !open::readable(&inode, principal, path) {
        inode.content = Content::None;
    }
    if principal.is_some_and(|a| a.uid != 0) {
        inode
            .xattrs
            .retain(|(name, _)| !name.starts_with(b"trusted."));
    }
    inode
}

/// Sets a directory's link count and times, which are derived from its entries.
pub(super) fn with_sums(mut inode: Inode, directories: u64, changed: u64) -> Inode {
    inode.links = u32::try_from(directories.saturating_add(2)).unwrap_or(u32::MAX);
    changed_by_entries(inode, changed)
}

/// Returns a sample key of the sums of one kind.
pub(super) fn sample_key(by: SpaceBy) -> SpaceKey {
    match by {
        SpaceBy::User => SpaceKey::User(0),
        SpaceBy::Group => SpaceKey::Group(0),
        SpaceBy::Kind => SpaceKey::Kind(0),
        SpaceBy::Ending => SpaceKey::Ending([0; 8]),
        SpaceBy::Day => SpaceKey::Day(0),
    }
}

/// Sets a directory's times to that of its last change of entries, if it is newer than its inode.
pub(super) fn changed_by_entries(mut inode: Inode, changed: u64) -> Inode {
    let changed = changed.cast_signed();
    if changed > nanos(inode.version) {
        inode.mtime = changed;
        inode.ctime = changed;
    }
    inode
}

/// Decodes one row of a listing.
fn entry(rows: &(impl NameRows + ?Sized), key: &[u8], value: &[u8]) -> Result<(Cookie, Entry)> {
    let (_, hash, n) = decode_dentry_key(key).map_err(rows::corrupt)?;
    let dentry = Dentry::decode(value).map_err(rows::corrupt)?;
    let name = dentry.name.clone();
    let inode = rows::inode(rows, dentry)?;
    Ok((Cookie { hash, n }, Entry { name, inode }))
}

/// Returns the present inode of a directory; the cache is accurate in permissions only.
pub(super) fn present(rows: &dyn NameRows, directory: &Directory) -> Result<Inode> {
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
    fn stat(&self, principal: Option<&Principal>, path: &NamePath, follow: bool) -> Result<Inode> {
        if let Some(inode) = self.stat_cached(principal, path)? {
            return Ok(inode);
        }
        if let Some(handle) = path.handle() {
            return self.stat_open(principal, path, &handle);
        }
        let reached = self.reach(principal, |resolver| resolver.reach(path, follow))?;
        let inode = match reached {
            Reached::Directory(directory) => present(&CommittedRows(&*self.store), &directory)?,
            Reached::Entry(_, _, Err(_)) => return Err(Errno::NotFound.at(path).into()),
            Reached::Entry(_, _, Ok(found)) => {
                rows::inode(&CommittedRows(&*self.store), found.dentry)?
            }
        };
        let mut inode = self.visible_inode(principal, path, inode)?;
        if inode.allows(principal, READ) {
            self.add_tags(&mut inode)?;
        }
        Ok(inode)
    }

    fn list(
        &self,
        principal: Option<&Principal>,
        path: &NamePath,
        after: Option<Cookie>,
        sink: &mut dyn FnMut(Cookie, Entry) -> Flow,
    ) -> Result<()> {
        let directory = self.listable_directory(principal, path)?;
        let prefix = dentries_prefix(directory.id);
        let range = match after {
            Some(c) => KeyRange::prefix_after(&prefix, &dentry_key(directory.id, c.hash, c.n)),
            None => KeyRange::prefix(&prefix),
        };
        let snapshot = self.store.snapshot()?;
        let rows = CommittedRows(&*snapshot);
        let mut error = FirstError::default();
        // Each entry is checked by its own mode, regardless of how the directory was opened.
        let any = NamePath::root();
        snapshot.scan(Table::Names, &range, &mut |key, value| {
            let (cookie, mut entry) = error.keep(entry(&rows, key, value))?;
            entry.inode = error.keep(self.visible_inode(principal, &any, entry.inode))?;
            sink(cookie, entry)
        })?;
        error.into_result()
    }

    fn walk(
        &self,
        principal: Option<&Principal>,
        path: &NamePath,
        cancel: &dyn Cancel,
        sink: &mut dyn FnMut(&NamePath, &Inode) -> Flow,
    ) -> Result<()> {
        path.demand_path()?;
        let inode = self.stat(principal, path, false)?;
        if sink(path, &inode).is_break() || !inode.is_directory() {
            return Ok(());
        }
        let snapshot = self.store.snapshot()?;
        let rows = CommittedRows(&*snapshot);
        let mut left = vec![(path.clone(), inode.id)];
        if !inode.allows(principal, READ | SEARCH) {
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
                    let inode = error.keep(self.visible_inode(principal, &path, entry.inode))?;
                    if inode.is_directory() && inode.allows(principal, READ | SEARCH) {
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

    fn change(
        &self,
        principal: Option<&Principal>,
        changes: &[Change],
    ) -> Result<Vec<Result<AppliedChange>>> {
        self.change_names(principal, changes)
    }

    fn usage(&self, principal: Option<&Principal>, path: &NamePath, below: bool) -> Result<Usage> {
        let inode = self.stat(principal, path, false)?;
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
        let mut left = vec![self.listable_directory(principal, path)?];
        while let Some(directory) = left.pop() {
            let key = SpaceKey::Directory(directory.id);
            sum += space::usage(&*self.store, &self.counters, key)?;
            if below {
                left.extend(self.open_children(principal, &directory)?);
            }
        }
        Ok(sum)
    }

    fn usages(
        &self,
        principal: Option<&Principal>,
        path: &NamePath,
        cancel: &dyn Cancel,
        sink: &mut dyn FnMut(&NamePath, &Usage) -> Flow,
    ) -> Result<()> {
        path.demand_path()?;
        // Each directory with the index of its parent; parents come first.
        let mut all: Vec<(NamePath, Usage, Option<usize>)> = Vec::new();
        let mut left = vec![(
            self.listable_directory(principal, path)?,
            path.clone(),
            None,
        )];
        while let Some((directory, path, parent)) = left.pop() {
            if cancel.cancelled() {
                return Err(Error::Interrupted);
            }
            let key = SpaceKey::Directory(directory.id);
            let mut own = space::usage(&*self.store, &self.counters, key)?;
            // A directory counts itself; its subdirectories do the same.
            own.directories = 1;
            let place = all.len();
            for child in self.open_children(principal, &directory)? {
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
        principal: Option<&Principal>,
        paths: &[NamePath],
    ) -> Result<Vec<Option<(VertexId, Kind)>>> {
        if !self.names.any() {
            return Ok(vec![None; paths.len()]);
        }
        paths
            .iter()
            .map(|path| self.id_at(principal, path))
            .collect()
    }

    fn partitions(&self, path: &NamePath) -> Result<Vec<Partition>> {
        self.reach(None, |resolver| resolver.directory(path))?;
        let own = self.usage(None, path, false)?;
        Ok(vec![Partition {
            index: 0,
            depth: 0,
            server: 0,
            entries: own.files + own.directories,
        }])
    }

    fn resolve_open(
        &self,
        principal: Option<&Principal>,
        path: &NamePath,
        how: Open,
    ) -> Result<OpenLookup> {
        let looked = self.reach(principal, |resolver| open::look(resolver, path, how))?;
        self.with_sums_and_tags(principal, looked)
    }

    fn space(&self, by: SpaceBy) -> Result<Vec<Space>> {
        Ok(sums_of(self.names_space(by)?))
    }
}

/// Combines counters of one kind of key into sums by key.
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
