//! The namespace as of a past version.
//!
//! A present entry is as old as its inode's version. The superseded states of an inode say what it was before, and where:
//! each was valid until the next newer state, the present one or the removal. Nothing finds the former entries of one
//! directory, so all of them are read at once, and the caller keeps them.

use super::inode_view::{nanos, with_sums};
use super::local_rows::LocalRows;
use super::rows::{self, CommittedRows, unchanged_root};
use super::show_tags;
use super::source::RowSource as _;
use crate::Engine;
use crate::read::{FirstError, Source, read_vertex};
use esker_model::key::Measure;
use esker_model::key::names::{DENTRY_PREFIX, INODE_HISTORY_PREFIX, NamesKey};
use esker_model::namespace::record::{Dentry, DentryInode, InodeHistory, decode_dentry_key};
use esker_model::namespace::{Content, Entry, Inode, Name, root};
use esker_model::{Error, Flow, Result, Version, VertexId};
use esker_store::{KeyRange, Read, Table};
use std::collections::HashMap;
use std::sync::atomic::Ordering;

/// Directory and name of each name of an inode.
type Locations = Vec<(VertexId, Name)>;

/// The state after a superseded one.
struct Successor {
    version: Version,
    /// Attributes and names; `None` if the inode was removed.
    state: Option<(Inode, Locations)>,
    /// Whether the content of this state is the present one.
    present_content: bool,
}

/// Entries found so far.
struct PastEntries<'e, 's> {
    engine: &'e Engine,
    source: &'s Source<'e>,
    as_of: Version,
    /// Time of the last change of entries, for each directory with a known one.
    changed: HashMap<VertexId, i64>,
    /// Directories, whose times and links depend on all entries.
    directories: Vec<(VertexId, Entry)>,
}

impl Engine {
    /// Passes all entries of the namespace as of a version to `sink`, each with its directory. The root is the entry
    /// `root` of no directory. Content in data files that has changed since has an empty path.
    pub(crate) fn past_files(
        &self,
        as_of: Version,
        sink: &mut dyn FnMut(VertexId, Entry) -> Flow,
    ) -> Result<()> {
        if self.names.is_distributed() {
            return Err(Error::Invalid(
                "a cluster cannot list its files as of a past time: its servers do not record when files were removed".into(),
            ));
        }
        let source = self.source_as_of(as_of)?;
        let retained = Version(self.retained_since.load(Ordering::Acquire));
        if as_of < retained {
            return Err(Error::Invalid(format!(
                "the files as of {as_of} are not known any more: `esker compact` has removed past states that were superseded by {retained}"
            )));
        }
        let mut past = PastEntries {
            engine: self,
            source: &source,
            as_of,
            changed: HashMap::new(),
            directories: Vec::new(),
        };
        if past.present(sink)?.is_break() || past.superseded(sink)?.is_break() {
            return Ok(());
        }
        past.finish(sink)
    }
}

/// Whether a state is the one that its file was created with, by a call that counts as a change of its directory.
fn is_creation(inode: &Inode) -> bool {
    let created = nanos(inode.version);
    inode.btime == created && inode.ctime == created
}

impl PastEntries<'_, '_> {
    fn rows(&self) -> CommittedRows<'_, Source<'_>> {
        CommittedRows(self.source)
    }

    fn note_changed(&mut self, directory: VertexId, version: Version) {
        let time = self.changed.entry(directory).or_default();
        *time = (*time).max(nanos(version));
    }

    fn pass(
        &mut self,
        directory: VertexId,
        name: Name,
        mut inode: Inode,
        sink: &mut dyn FnMut(VertexId, Entry) -> Flow,
    ) -> Result<Flow> {
        if self.engine.names.has_vertices()
            && let Some(vertex) = read_vertex(self.source, inode.id, self.as_of)?
            && !vertex.deleted
        {
            show_tags(&mut inode, &vertex.user);
        }
        let is_directory = inode.is_directory();
        let entry = Entry { name, inode };
        if is_directory {
            self.directories.push((directory, entry));
            return Ok(Flow::Continue(()));
        }
        Ok(sink(directory, entry))
    }

    /// Passes the present entries that are old enough.
    fn present(&mut self, sink: &mut dyn FnMut(VertexId, Entry) -> Flow) -> Result<Flow> {
        let (source, as_of) = (self.source, self.as_of);
        let mut error = FirstError::default();
        let mut flow = Flow::Continue(());
        source.scan(
            Table::Names,
            &KeyRange::prefix(&DENTRY_PREFIX),
            &mut |key, value| {
                let passed = (|| {
                    let (directory, ..) = decode_dentry_key(key).map_err(rows::corrupt)?;
                    let dentry = Dentry::decode(value).map_err(rows::corrupt)?;
                    let name = dentry.name.clone();
                    let inode = rows::inode(&CommittedRows(source), dentry)?;
                    if inode.version > as_of {
                        return Ok(Flow::Continue(()));
                    }
                    if is_creation(&inode) {
                        self.note_changed(directory, inode.version);
                    }
                    self.pass(directory, name, inode, sink)
                })();
                flow = error.keep(passed)?;
                flow
            },
        )?;
        error.into_result()?;
        Ok(flow)
    }

    /// Passes the superseded states that were valid as of the version.
    fn superseded(&mut self, sink: &mut dyn FnMut(VertexId, Entry) -> Flow) -> Result<Flow> {
        let source = self.source;
        let mut error = FirstError::default();
        let mut flow = Flow::Continue(());
        let mut newer: Option<(VertexId, Successor)> = None;
        source.scan(
            Table::Names,
            &KeyRange::prefix(&INODE_HISTORY_PREFIX),
            &mut |key, value| {
                let passed = (|| {
                    let id = NamesKey::decode(key).map_err(rows::corrupt)?.id();
                    let state = InodeHistory::decode(id, value).map_err(rows::corrupt)?;
                    // States of one inode are read from the newest to the oldest one.
                    let successor = match newer.take() {
                        Some((same, successor)) if same == id => successor,
                        _ => self.successor(&state)?,
                    };
                    let (flow, successor) = self.state(state, &successor, sink)?;
                    newer = Some((id, successor));
                    Ok(flow)
                })();
                flow = error.keep(passed)?;
                flow
            },
        )?;
        error.into_result()?;
        Ok(flow)
    }

    /// Returns the present state of an inode whose newest superseded state is given, or its removal.
    fn successor(&self, newest: &InodeHistory) -> Result<Successor> {
        let rows = self.rows();
        let id = newest.inode.id;
        let place = rows::location_record(&rows, id)?;
        let present = |inode: Inode, names| Successor {
            version: inode.version,
            state: Some((inode, names)),
            present_content: true,
        };
        if id == root() {
            let names = vec![(newest.directory, newest.name.clone())];
            return Ok(present(rows::root_inode(&rows)?, names));
        }
        let mut names = match place {
            Some(place) if place.deleted => {
                // The record of a file that was forgotten has no attributes.
                return Ok(Successor {
                    version: place.inode.map_or(Version::ZERO, |inode| inode.version),
                    state: None,
                    present_content: false,
                });
            }
            Some(place) => match place.inode {
                Some(inode) => return Ok(present(inode, place.names)),
                None => place.names,
            },
            None => Vec::new(),
        };
        if names.is_empty() {
            names.push((newest.directory, newest.name.clone()));
        }
        for (directory, name) in &names {
            if let Ok(found) = rows::find(&rows, *directory, name)?
                && found.dentry.id == id
                && let DentryInode::Inline(inode) = found.dentry.inode
            {
                return Ok(present(inode, names));
            }
        }
        Err(Error::Store {
            engine: "namespace",
            message: format!("no row says what became of file {id}; run `esker check`"),
        })
    }

    /// Passes a superseded state if it was valid, and returns it as the successor of the next older one.
    fn state(
        &mut self,
        past: InodeHistory,
        newer: &Successor,
        sink: &mut dyn FnMut(VertexId, Entry) -> Flow,
    ) -> Result<(Flow, Successor)> {
        let inode = past.inode;
        let mut names = past.others;
        names.insert(0, (past.directory, past.name));
        let same_content = newer.state.as_ref().is_some_and(|(next, _)| {
            (&next.content, next.size, next.mtime) == (&inode.content, inode.size, inode.mtime)
        });
        let present_content = newer.present_content && same_content;
        if newer.version <= self.as_of {
            let after = newer.state.as_ref().map(|(_, names)| names.as_slice());
            let after = after.unwrap_or_default();
            let left = names.iter().filter(|name| !after.contains(name));
            let came = after.iter().filter(|name| !names.contains(name));
            for (directory, _) in left.chain(came) {
                self.note_changed(*directory, newer.version);
            }
        }
        if inode.version <= self.as_of && is_creation(&inode) {
            self.note_changed(past.directory, inode.version);
        }
        let mut flow = Flow::Continue(());
        if inode.version <= self.as_of && self.as_of < newer.version {
            let mut shown = inode.clone();
            if !present_content && let Content::Object(path) = &mut shown.content {
                path.clear();
            }
            for (directory, name) in &names {
                flow = self.pass(*directory, name.clone(), shown.clone(), sink)?;
                if flow.is_break() {
                    break;
                }
            }
        }
        let successor = Successor {
            version: inode.version,
            state: Some((inode, names)),
            present_content,
        };
        Ok((flow, successor))
    }

    /// Passes the directories, with the times and links that follow from their entries.
    fn finish(mut self, sink: &mut dyn FnMut(VertexId, Entry) -> Flow) -> Result<()> {
        if !self.directories.iter().any(|(_, e)| e.inode.id == root()) {
            let inode = unchanged_root();
            let name = rows::root_name()?;
            self.directories
                .push((VertexId::default(), Entry { name, inode }));
        }
        let mut below: HashMap<VertexId, i64> = HashMap::new();
        for (directory, _) in &self.directories {
            *below.entry(*directory).or_default() += 1;
        }
        for (directory, mut entry) in self.directories {
            let id = entry.inode.id;
            let known = self.changed.get(&id).copied().unwrap_or(0);
            // The present sum is exact if nothing has changed since.
            let sum = LocalRows(self.engine).sum(id, Measure::Changed)?;
            let changed = if sum <= nanos(self.as_of) { sum } else { known };
            let directories = below.get(&id).copied().unwrap_or(0);
            entry.inode = with_sums(entry.inode, directories, changed);
            if sink(directory, entry).is_break() {
                break;
            }
        }
        Ok(())
    }
}
