//! A namespace as of a past time, in memory: all entries are read once, when the mount begins.

use esker_model::codec::Reader;
use esker_model::namespace::record::{put_inode, take_inode};
use esker_model::namespace::{
    AppliedChange, Change, Cookie, Entry, Errno, Inode, Name, NamePath, Namespace, Open,
    OpenLookup, Partition, Space, SpaceBy, Usage, hash_of, root, tree_walk,
};
use esker_model::object::Principal;
use esker_model::version::Version;
use esker_model::{Cancel, Error, Flow, GraphRead, Result, VertexId};
use std::collections::{BTreeMap, HashMap};
use std::ops::{Bound, ControlFlow};

/// A namespace as it was at a version. It answers the owner of the database; the kernel checks the rights of users.
#[derive(Debug, Default)]
pub struct PastNamespace {
    /// Encoded attributes of each file.
    inodes: HashMap<VertexId, Box<[u8]>>,
    /// Total size of their contents.
    bytes: u64,
    /// Entries of each directory, by hash and number, with the ids of their files.
    entries: HashMap<VertexId, BTreeMap<(u64, u8), (Name, VertexId)>>,
}

impl PastNamespace {
    /// Reads all entries as of a version.
    ///
    /// # Errors
    /// Those of [`GraphRead::past_files`].
    pub fn read(graph: &dyn GraphRead, as_of: Version) -> Result<Self> {
        let mut past = Self::default();
        graph.past_files(as_of, &mut |directory, entry| {
            past.add(directory, &entry);
            ControlFlow::Continue(())
        })?;
        Ok(past)
    }

    /// Adds an entry, which may be there already.
    fn add(&mut self, directory: VertexId, entry: &Entry) {
        let id = entry.inode.id;
        let mut encoded = Vec::new();
        put_inode(&entry.inode, &mut encoded);
        if self.inodes.insert(id, encoded.into()).is_none() {
            self.bytes = self.bytes.saturating_add(entry.inode.size);
        }
        let entries = self.entries.entry(directory).or_default();
        let hash = hash_of(&entry.name);
        for n in 0..=u8::MAX {
            let (name, file) = entries
                .entry((hash, n))
                .or_insert_with(|| (entry.name.clone(), id));
            if *name == entry.name {
                *file = id;
                return;
            }
        }
    }

    fn inode(&self, id: VertexId) -> Result<Inode> {
        let encoded = self.inodes.get(&id);
        let encoded = encoded.ok_or_else(|| Errno::Stale.at("a file of a past time"))?;
        take_inode(&mut Reader::new(encoded)).map_err(|e| Error::corrupt("a past file", e))
    }

    /// Returns the id of the file at a path without symbolic links, or of an open file.
    fn id_at(&self, path: &NamePath) -> Result<VertexId> {
        if let Some(handle) = path.handle() {
            return Ok(handle.id);
        }
        let names = path.as_bytes().split(|b| *b == b'/');
        names
            .filter(|name| !name.is_empty())
            .try_fold(root(), |directory, name| {
                let name = Name::new(name)?;
                let hash = hash_of(&name);
                let entries = self.entries.get(&directory);
                let mut same_hash = entries
                    .into_iter()
                    .flat_map(|entries| entries.range((hash, 0)..=(hash, u8::MAX)));
                let found = same_hash.find(|(_, (known, _))| *known == name);
                let (_, (_, id)) = found.ok_or_else(|| Error::from(Errno::NotFound.at(path)))?;
                Ok(*id)
            })
    }
}

impl Namespace for PastNamespace {
    fn stat(&self, _: Option<&Principal>, path: &NamePath, _: bool) -> Result<Inode> {
        self.inode(self.id_at(path)?)
    }

    fn list(
        &self,
        _: Option<&Principal>,
        path: &NamePath,
        after: Option<Cookie>,
        sink: &mut dyn FnMut(Cookie, Entry) -> Flow,
    ) -> Result<()> {
        let id = self.id_at(path)?;
        if !self.inode(id)?.is_directory() {
            return Err(Errno::NotDirectory.at(path).into());
        }
        let after = after.map(|cookie| (cookie.hash, cookie.n));
        let from = after.map_or(Bound::Unbounded, Bound::Excluded);
        let entries = self.entries.get(&id).into_iter();
        let entries = entries.flat_map(|entries| entries.range((from, Bound::Unbounded)));
        for (&(hash, n), (name, id)) in entries {
            let inode = self.inode(*id)?;
            let name = name.clone();
            if sink(Cookie { hash, n }, Entry { name, inode }).is_break() {
                break;
            }
        }
        Ok(())
    }

    fn walk(
        &self,
        principal: Option<&Principal>,
        path: &NamePath,
        cancel: &dyn Cancel,
        sink: &mut dyn FnMut(&NamePath, &Inode) -> Flow,
    ) -> Result<()> {
        tree_walk::walk(self, principal, path, cancel, sink)
    }

    fn change(
        &self,
        _: Option<&Principal>,
        changes: &[Change],
    ) -> Result<Vec<Result<AppliedChange>>> {
        let refused = |change: &Change| Err(Errno::NotPermitted.at(change.path()).into());
        Ok(changes.iter().map(refused).collect())
    }

    fn usage(&self, _: Option<&Principal>, _: &NamePath, _: bool) -> Result<Usage> {
        Ok(Usage::default())
    }

    fn usages(
        &self,
        _: Option<&Principal>,
        _: &NamePath,
        _: &dyn Cancel,
        _: &mut dyn FnMut(&NamePath, &Usage) -> Flow,
    ) -> Result<()> {
        Ok(())
    }

    fn resolve_open(
        &self,
        principal: Option<&Principal>,
        path: &NamePath,
        _: Open,
    ) -> Result<OpenLookup> {
        let inode = self.stat(principal, path, false)?;
        Ok(OpenLookup::Found(path.clone(), Box::new(inode)))
    }

    /// Returns one group with all files.
    fn space(&self, _: SpaceBy) -> Result<Vec<Space>> {
        let usage = Usage {
            files: self.inodes.len() as u64,
            bytes: self.bytes,
            ..Usage::default()
        };
        let key = String::new();
        Ok(vec![Space { key, usage }])
    }

    fn partitions(&self, _: &NamePath) -> Result<Vec<Partition>> {
        Ok(Vec::new())
    }
}
