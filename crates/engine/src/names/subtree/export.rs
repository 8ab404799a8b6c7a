//! Export of a directory with all its descendants as a subtree.

use crate::Engine;
use crate::names::local_rows::LocalRows;
use crate::names::rows;
use crate::names::show_tags;
use crate::names::source::RowSource as _;
use crate::read::FirstError;
use esker_model::namespace::record::{Dentry, DentryInode, dentries_prefix};
use esker_model::namespace::tags::TAG_PREFIX;
use esker_model::namespace::{
    Change, Errno, Inode, NamePath, Namespace as _, NewFile, Subtree, SubtreeBuilder, XattrMode,
};
use esker_model::{Error, Flow, Result, VertexId};
use esker_store::{KeyRange, Table};
use std::collections::{HashMap, VecDeque};

/// A file with several names.
#[derive(Default)]
struct LinkedFile {
    first: Option<NamePath>,
    others: Vec<NamePath>,
}

struct SubtreeExport<'e> {
    engine: &'e Engine,
    builder: SubtreeBuilder,
    linked: HashMap<VertexId, LinkedFile>,
    tags: Vec<Change>,
    directories: VecDeque<(VertexId, NamePath, u64)>,
}

impl Engine {
    /// Exports a directory with its present descendants and their times, as a subtree that would create it; past states are left out.
    /// No other client may change the directory meanwhile.
    pub fn subtree(&self, at: &NamePath) -> Result<Subtree> {
        let Some((_, name)) = at.split() else {
            return Err(Errno::Busy.at(at).into());
        };
        let inode = self.stat(None, at, false)?;
        if !inode.is_directory() {
            return Err(Errno::NotDirectory.at(at).into());
        }
        let mut export = SubtreeExport {
            engine: self,
            builder: SubtreeBuilder::default(),
            linked: HashMap::new(),
            tags: Vec::new(),
            directories: VecDeque::new(),
        };
        export.builder.in_existing_directory(&at.parent());
        let (id, make) = export.make(inode, at);
        // Merging the subtree adds the entry to its directory, and changes the directory's times.
        let mut times = make.times;
        times[2] = None;
        let make = NewFile { times, ..make };
        let tagged = !export.tags.is_empty();
        let number = export.builder.entry(&name, &make, tagged);
        export
            .directories
            .extend(number.map(|n| (id, at.clone(), n)));
        while let Some((id, path, number)) = export.directories.pop_front() {
            export.directory(id, &path, number)?;
        }
        export.finish()
    }
}

impl SubtreeExport<'_> {
    fn directory(&mut self, id: VertexId, path: &NamePath, number: u64) -> Result<()> {
        let mut error = FirstError::default();
        let mut first = true;
        let range = KeyRange::prefix(&dentries_prefix(id));
        self.engine
            .store
            .scan(Table::Names, &range, &mut |_, value| {
                if std::mem::take(&mut first) {
                    self.builder.in_new_directory(number);
                }
                let dentry = error.keep(Dentry::decode(value).map_err(rows::corrupt))?;
                error.keep(self.entry((id, path), dentry))?;
                Flow::Continue(())
            })?;
        error.into_result()
    }

    fn entry(&mut self, (directory, path): (VertexId, &NamePath), dentry: Dentry) -> Result<()> {
        let Dentry { name, id, inode } = dentry;
        let mut inode = match inode {
            DentryInode::Inline(inode) if inode.is_directory() => {
                self.engine.stat(None, &path.join(&name), false)?
            }
            DentryInode::Inline(inode) => inode,
            DentryInode::Linked(_) => {
                let place = rows::location_record(&LocalRows(self.engine), id)?.unwrap_or_default();
                let linked = self.linked.entry(id).or_default();
                let at = path.join(&name);
                let first = place.names.first();
                if first.is_none_or(|(d, n)| (*d, n) != (directory, &name)) {
                    linked.others.push(at);
                    return Ok(());
                }
                linked.first = Some(at);
                place.inode.ok_or_else(|| Error::Store {
                    engine: "namespace",
                    message: format!(
                        "{at}: no row says what it is; run `esker check`",
                        at = path.join(&name)
                    ),
                })?
            }
        };
        if !inode.is_directory()
            && let Some(user) = LocalRows(self.engine).tags(inode.id)?
        {
            show_tags(&mut inode, &user);
        }
        let linked = inode.links > 1 && !inode.is_directory();
        let plain = !linked && inode.xattrs.is_empty();
        let tags = self.tags.len();
        let (id, make) = if plain {
            (inode.id, creation_of(inode))
        } else {
            self.make(inode, &path.join(&name))
        };
        let in_commit = linked || self.tags.len() > tags;
        if let Some(number) = self.builder.entry(&name, &make, in_commit) {
            self.directories.push_back((id, path.join(&name), number));
        }
        Ok(())
    }

    /// Returns the creation parameters of a file, and records its tags.
    fn make(&mut self, mut inode: Inode, path: &NamePath) -> (VertexId, NewFile) {
        let id = inode.id;
        for (name, value) in inode
            .xattrs
            .extract_if(.., |(n, _)| n.starts_with(TAG_PREFIX))
        {
            self.tags.push(Change::Xattr {
                path: path.clone(),
                name,
                value: Some(value),
                mode: XattrMode::Any,
            });
        }
        (id, creation_of(inode))
    }

    fn finish(mut self) -> Result<Subtree> {
        // Sorted, so that equal trees become equal subtrees.
        let mut linked: Vec<LinkedFile> = self.linked.into_values().collect();
        linked.sort_by(|a, b| a.first.cmp(&b.first));
        for LinkedFile { first, others } in linked {
            let Some(from) = first else { continue };
            for to in others {
                let from = from.clone();
                self.builder.change(&Change::Link { from, to });
            }
        }
        self.tags.iter().for_each(|tag| self.builder.change(tag));
        self.builder.finish()
    }
}

fn creation_of(inode: Inode) -> NewFile {
    NewFile {
        mode: inode.mode,
        umask: 0,
        uid: inode.uid,
        gid: inode.gid,
        size: inode.size,
        blocks: inode.blocks,
        rdev: inode.rdev,
        times: [
            Some(inode.atime),
            Some(inode.mtime),
            Some(inode.ctime),
            Some(inode.btime),
        ],
        content: inode.content,
        xattrs: inode.xattrs,
    }
}
