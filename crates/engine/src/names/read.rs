//! The namespace of an engine that has all of its rows: [`NamesReader`] over [`LocalRows`].

use super::directory::Directory;
use super::inode_view::hide_unreadable;
use super::local_rows::LocalRows;
use super::reader::{NamesReader, entry};
use super::rows::{self, CommittedRows};
use super::source::RowSource as _;
use super::usage_tree::UsageTree;
use super::{LocalDirectories, show_tags};
use crate::Engine;
use crate::read::FirstError;
use esker_model::key::{Counter, Measure, SpaceKey};
use esker_model::namespace::record::{Dentry, dentries_prefix, dentry_key};
use esker_model::namespace::{
    AppliedChange, Change, Cookie, Entry, Errno, Inode, Kind, NamePath, Namespace, Open,
    OpenLookup, Partition, Space, SpaceBy, Usage,
};
use esker_model::object::Principal;
use esker_model::{Cancel, Error, Flow, NeverCancel, Result, VertexId, file_home};
use esker_store::{KeyRange, Table};
use std::collections::BTreeMap;

/// Permission to list a directory, and to look up a known name in it.
const READ: u32 = 4;

impl Engine {
    /// Runs a read over this engine's rows alone.
    pub(super) fn read_local<T>(
        &self,
        principal: Option<&Principal>,
        run: impl FnOnce(&NamesReader<'_>) -> Result<T>,
    ) -> Result<T> {
        let (source, local) = (LocalRows(self), LocalDirectories::default());
        run(&NamesReader::new(self, &source, principal, &local))
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
        if inode.allows(principal, READ)
            && let Some(user) = LocalRows(self).tags(inode.id)?
        {
            show_tags(&mut inode, &user);
        }
        Ok(Some(inode))
    }

    /// Returns the id of the file at a path, if there is one.
    pub(super) fn id_now(&self, path: &NamePath) -> Option<VertexId> {
        self.stat(None, path, false).ok().map(|inode| inode.id)
    }

    /// Sums up directories at and below a path.
    fn usage_tree(
        &self,
        principal: Option<&Principal>,
        path: &NamePath,
        cancel: &dyn Cancel,
    ) -> Result<Vec<(NamePath, Usage)>> {
        self.read_local(principal, |reader| {
            let mut tree = UsageTree::new(path, reader.listable(path)?);
            loop {
                let next = tree.next_ids();
                if next.is_empty() {
                    return Ok(tree.finish());
                }
                if cancel.cancelled() {
                    return Err(Error::Interrupted);
                }
                tree.add(reader.usages(&next)?);
            }
        })
    }
}

impl Namespace for Engine {
    fn stat(&self, principal: Option<&Principal>, path: &NamePath, follow: bool) -> Result<Inode> {
        if let Some(inode) = self.stat_cached(principal, path)? {
            return Ok(inode);
        }
        self.read_local(principal, |reader| reader.stat(path, follow))
    }

    fn list(
        &self,
        principal: Option<&Principal>,
        path: &NamePath,
        after: Option<Cookie>,
        sink: &mut dyn FnMut(Cookie, Entry) -> Flow,
    ) -> Result<()> {
        self.read_local(principal, |reader| {
            reader.list(path, after, usize::MAX, sink)
        })
    }

    fn walk(
        &self,
        principal: Option<&Principal>,
        path: &NamePath,
        cancel: &dyn Cancel,
        sink: &mut dyn FnMut(&NamePath, &Inode) -> Flow,
    ) -> Result<()> {
        path.demand_path()?;
        let (source, local) = (LocalRows(self), LocalDirectories::default());
        let reader = NamesReader::new(self, &source, principal, &local);
        let inode = reader.stat(path, false)?;
        if sink(path, &inode).is_break() || !inode.is_directory() {
            return Ok(());
        }
        let snapshot = self.store.snapshot()?;
        let rows = CommittedRows(&*snapshot);
        let mut left = vec![(path.clone(), inode.id)];
        if !inode.lets_walk(principal) {
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
                    let inode = error.keep(reader.visible_inode(&path, entry.inode))?;
                    if inode.is_directory() && inode.lets_walk(principal) {
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
        if below && self.stat(principal, path, false)?.is_directory() {
            let all = self.usage_tree(principal, path, &NeverCancel)?;
            return Ok(all.first().map(|(_, usage)| *usage).unwrap_or_default());
        }
        self.read_local(principal, |reader| reader.usage(path))
    }

    fn usages(
        &self,
        principal: Option<&Principal>,
        path: &NamePath,
        cancel: &dyn Cancel,
        sink: &mut dyn FnMut(&NamePath, &Usage) -> Flow,
    ) -> Result<()> {
        path.demand_path()?;
        let all = self.usage_tree(principal, path, cancel)?;
        let _ = all.iter().try_for_each(|(path, usage)| sink(path, usage));
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
        self.read_local(principal, |reader| reader.ids(paths))
    }

    fn partitions(&self, path: &NamePath) -> Result<Vec<Partition>> {
        let own = self.read_local(None, |reader| {
            reader.directory(path)?;
            reader.usage(path)
        })?;
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
        self.read_local(principal, |reader| reader.resolve_open(path, how))
    }

    fn space(&self, by: SpaceBy) -> Result<Vec<Space>> {
        Ok(sums_of(self.partial_namespace().space(by)?))
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
