//! Journal of the objects that this process may be writing. The kernel writes an object by itself, and the mount publishes its size when it is
//! synced or closed. If the process is killed in between, the inode has the size of an earlier moment than the content: the next mount reads
//! the journal and publishes the present size.
//!
//! ```text
//!  DIR/open/<pid>-<n>      locked (flock) as long as its process lives
//!    + length handle       the object of the file is written from now on
//!    - id                  everything that was written is published
//! ```

use crate::caller::MOUNT;
use crate::data::Folders;
use esker_model::namespace::{
    Change, Content, Errno, Handle, Inode, NamePath, Namespace, SetAttributes,
};
use esker_model::{Error, Result, VertexId};
use parking_lot::Mutex;
use rustix::fs::{FlockOperation, flock};
use std::collections::HashMap;
use std::ffi::OsStr;
use std::fs::{File, OpenOptions};
use std::io::{self, Read as _, Write as _};
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::{MetadataExt as _, OpenOptionsExt as _};
use std::path::{Path, PathBuf};
use std::sync::Arc;

const BEGIN: u8 = b'+';
const END: u8 = b'-';
/// Size from which a journal without open objects is emptied, in bytes.
const EMPTIED_FROM: u64 = 64 << 10;
/// Minimum size from which a journal is written anew with its open objects alone, in bytes.
const REWRITTEN_FROM: u64 = 4 << 20;
/// Largest size of a journal that is read, in bytes.
const READ_MAX: u64 = 256 << 20;

/// The journal of this process.
#[derive(Debug)]
pub(crate) struct WriteJournal {
    folders: Arc<Folders>,
    state: Mutex<JournalState>,
}

#[derive(Debug, Default)]
struct JournalState {
    /// Objects that may have unpublished writes, with the handles of their files.
    open: HashMap<VertexId, NamePath>,
    /// Made by the first entry.
    file: Option<JournalFile>,
}

#[derive(Debug)]
struct JournalFile {
    file: File,
    path: PathBuf,
    bytes: u64,
    /// Size from which it is written anew: twice its first size, so that many open objects are not copied at each entry.
    rewritten_from: u64,
}

impl WriteJournal {
    pub(crate) fn new(folders: Arc<Folders>) -> Self {
        Self {
            folders,
            state: Mutex::default(),
        }
    }

    /// Records that the object of a file may be written. Without room for the record the file is opened nevertheless: that is how room is made.
    pub(crate) fn begin(&self, id: VertexId, handle: &NamePath) {
        let mut state = self.state.lock();
        if state.open.contains_key(&id) {
            return;
        }
        state.open.insert(id, handle.clone());
        let _ = self.append(&mut state, &begin_record(handle));
    }

    /// Records that all writes of an object are published.
    pub(crate) fn end(&self, id: VertexId) {
        let mut state = self.state.lock();
        if state.open.remove(&id).is_none() {
            return;
        }
        let mut record = vec![END];
        record.extend_from_slice(&id.0);
        // A record that is missing makes the next mount compare one more object.
        let _ = self.append(&mut state, &record);
    }

    fn append(&self, state: &mut JournalState, record: &[u8]) -> io::Result<()> {
        let JournalState { open, file } = state;
        let bytes = file.as_ref().map_or(0, |file| file.bytes);
        match file {
            Some(journal) if open.is_empty() && bytes >= EMPTIED_FROM => {
                journal.file.set_len(0)?;
                journal.bytes = 0;
                return Ok(());
            }
            Some(journal) if bytes < journal.rewritten_from => return journal.append(record),
            _ => {}
        }
        let mut new = self.create()?;
        for handle in open.values() {
            new.append(&begin_record(handle))?;
        }
        new.rewritten_from = REWRITTEN_FROM.max(2 * new.bytes);
        if let Some(old) = file.replace(new) {
            std::fs::remove_file(old.path)?;
        }
        Ok(())
    }

    /// Creates a locked file in the first data folder.
    fn create(&self) -> io::Result<JournalFile> {
        let Some(folder) = self.folders.journals().next() else {
            return Err(io::ErrorKind::NotFound.into());
        };
        std::fs::create_dir_all(&folder)?;
        let mut number = 0_u32;
        loop {
            let path = folder.join(format!("{}-{number}", std::process::id()));
            let mut options = OpenOptions::new();
            options.append(true).create_new(true).mode(0o600);
            match options.open(&path) {
                // A process that recovers may have taken the new file for an old one; it removes it then.
                Ok(file) if flock(&file, FlockOperation::NonBlockingLockExclusive).is_ok() => {
                    return Ok(JournalFile {
                        file,
                        path,
                        bytes: 0,
                        rewritten_from: 0,
                    });
                }
                Ok(_) => {}
                Err(e) if e.kind() == io::ErrorKind::AlreadyExists => {}
                Err(e) => return Err(e),
            }
            number = number.checked_add(1).ok_or(io::ErrorKind::AlreadyExists)?;
        }
    }
}

impl Drop for WriteJournal {
    fn drop(&mut self) {
        let state = self.state.get_mut();
        if let Some(journal) = &state.file
            && state.open.is_empty()
        {
            let _ = std::fs::remove_file(&journal.path);
        }
    }
}

impl JournalFile {
    fn append(&mut self, record: &[u8]) -> io::Result<()> {
        if let Err(e) = self.file.write_all(record) {
            // Later records must not follow a part of this one.
            self.file.set_len(self.bytes)?;
            return Err(e);
        }
        self.bytes += record.len() as u64;
        Ok(())
    }
}

fn begin_record(handle: &NamePath) -> Vec<u8> {
    let handle = handle.as_bytes();
    let mut record = vec![BEGIN];
    record.extend_from_slice(&(handle.len() as u16).to_be_bytes());
    record.extend_from_slice(handle);
    record
}

/// Returns the handles of the files that a journal leaves open. A record that was cut off ends the journal.
fn open_files(mut journal: &[u8]) -> Vec<Handle> {
    let mut open: HashMap<VertexId, Handle> = HashMap::new();
    while let Some((kind, rest)) = journal.split_first() {
        let after = match *kind {
            BEGIN => begun(rest).map(|(handle, after)| {
                open.insert(handle.id, handle);
                after
            }),
            END => rest.split_first_chunk().map(|(id, after)| {
                open.remove(&VertexId(*id));
                after
            }),
            _ => None,
        };
        let Some(after) = after else { break };
        journal = after;
    }
    open.into_values().collect()
}

fn begun(record: &[u8]) -> Option<(Handle, &[u8])> {
    let (length, rest) = record.split_first_chunk()?;
    let (handle, after) = rest.split_at_checked(u16::from_be_bytes(*length).into())?;
    Some((NamePath::from_wire(handle).ok()?.handle()?, after))
}

/// Compares objects that killed processes may have written with their inodes; with `repair`, publishes their present size, space and time.
/// Returns the paths of the objects that differed.
pub fn recover(names: &dyn Namespace, folders: &Folders, repair: bool) -> Result<Vec<PathBuf>> {
    let mut differed = Vec::new();
    for folder in folders.journals() {
        let about = |source| Error::Io {
            context: format!("the journals of data folder {}", folder.display()),
            source,
        };
        for (path, journal) in journals_of_the_dead(&folder).map_err(about)? {
            let mut content = Vec::new();
            let read = journal.take(READ_MAX).read_to_end(&mut content);
            read.map_err(about)?;
            for handle in open_files(&content) {
                differed.extend(recover_file(names, folders, &handle, repair)?);
            }
            if repair {
                std::fs::remove_file(&path).map_err(about)?;
            }
        }
    }
    Ok(differed)
}

/// Opens and locks the journals in a folder whose processes have ended.
fn journals_of_the_dead(folder: &Path) -> io::Result<Vec<(PathBuf, File)>> {
    let entries = match std::fs::read_dir(folder) {
        Err(e) if e.kind() == io::ErrorKind::NotFound => return Ok(Vec::new()),
        entries => entries?,
    };
    let mut found = Vec::new();
    for entry in entries {
        let path = entry?.path();
        let file = match OpenOptions::new().read(true).write(true).open(&path) {
            // That of another user, who can recover it.
            Err(e) if e.kind() == io::ErrorKind::PermissionDenied => continue,
            Err(e) if e.kind() == io::ErrorKind::NotFound => continue,
            file => file?,
        };
        let lock = flock(&file, FlockOperation::NonBlockingLockExclusive);
        // Another process may have recovered it before the lock was taken.
        if lock.is_ok() && file.metadata()?.nlink() > 0 {
            found.push((path, file));
        }
    }
    found.sort_by(|(a, _), (b, _)| a.cmp(b));
    Ok(found)
}

/// Compares one object with its inode; returns its path if they differ.
fn recover_file(
    names: &dyn Namespace,
    folders: &Folders,
    handle: &Handle,
    repair: bool,
) -> Result<Option<PathBuf>> {
    let inode = match names.stat(None, &handle.path(), false) {
        Err(Error::File(e)) if matches!(e.errno, Errno::NotFound | Errno::Stale) => {
            return Ok(None);
        }
        inode => inode?,
    };
    let Content::Object(path) = &inode.content else {
        return Ok(None);
    };
    // Objects that are missing or belong to another file are found by a check of the data folders.
    let Ok((object, _)) = folders.open_object(path, handle.id, false) else {
        return Ok(None);
    };
    let path = PathBuf::from(OsStr::from_bytes(path));
    let meta = object.metadata().map_err(|source| Error::Io {
        context: path.display().to_string(),
        source,
    })?;
    let Some(set) = difference(&inode, &meta) else {
        return Ok(None);
    };
    if repair {
        let change = Change::Set {
            path: handle.path(),
            follow: false,
            set,
        };
        for done in names.change(Some(&MOUNT), &[change])? {
            done?;
        }
    }
    Ok(Some(path))
}

/// Returns the attributes of an inode that differ from its object.
fn difference(inode: &Inode, object: &std::fs::Metadata) -> Option<SetAttributes> {
    let seconds = object.mtime().saturating_mul(1_000_000_000);
    let written = seconds.saturating_add(object.mtime_nsec());
    // Times that were set after the last write stay.
    let time = (written > inode.ctime).then_some(written);
    let size = (object.size() != inode.size || time.is_some()).then_some(object.size());
    let blocks = (object.blocks() != inode.blocks).then_some(object.blocks());
    (size.is_some() || blocks.is_some()).then_some(SetAttributes {
        size,
        blocks,
        mtime: time,
        ctime: time,
        ..SetAttributes::default()
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use esker_model::namespace::{Name, SEAL_BYTES, root};
    use proptest::prelude::*;

    fn handle(n: u8) -> NamePath {
        Handle {
            id: VertexId([n; 16]),
            directory: root(),
            name: Name::new(&[b'a'; 200]).unwrap(),
            born: 0,
            read: true,
            write: true,
            seal: [0; SEAL_BYTES],
        }
        .path()
    }

    fn journal() -> (tempfile::TempDir, WriteJournal) {
        let scratch = tempfile::tempdir().unwrap();
        let folders = Folders::open(&[scratch.path().join("data")]).unwrap();
        (scratch, WriteJournal::new(Arc::new(folders)))
    }

    fn files(scratch: &tempfile::TempDir) -> Vec<PathBuf> {
        let entries = std::fs::read_dir(scratch.path().join("data/open")).unwrap();
        entries.map(|e| e.unwrap().path()).collect()
    }

    fn open_ids(content: &[u8]) -> Vec<u8> {
        let mut ids: Vec<u8> = open_files(content).iter().map(|h| h.id.0[0]).collect();
        ids.sort_unstable();
        ids
    }

    #[test]
    fn a_journal_says_what_is_open_wherever_it_is_cut_off() {
        let (scratch, journal) = journal();
        for n in 0..3 {
            journal.begin(VertexId([n; 16]), &handle(n));
            journal.begin(VertexId([n; 16]), &handle(n));
        }
        journal.end(VertexId([1; 16]));
        journal.end(VertexId([9; 16]));
        let files = files(&scratch);
        let content = std::fs::read(&files[0]).unwrap();
        assert_eq!((files.len(), open_ids(&content)), (1, vec![0, 2]));
        let record = begin_record(&handle(0)).len();
        for cut in 0..content.len() {
            let whole = (cut / record).min(3);
            assert_eq!(open_ids(&content[..cut]).len(), whole, "cut off at {cut}");
        }
        // The process lives.
        assert!(
            journals_of_the_dead(&scratch.path().join("data/open"))
                .unwrap()
                .is_empty()
        );
        drop(journal);
        let dead = journals_of_the_dead(&scratch.path().join("data/open")).unwrap();
        assert_eq!(dead.len(), 1);
    }

    #[test]
    fn a_journal_stays_small() {
        let (scratch, journal) = journal();
        journal.begin(VertexId([7; 16]), &handle(7));
        let pair = begin_record(&handle(1)).len() as u64 + 17;
        for round in 0..2 {
            for _ in 0..REWRITTEN_FROM / pair + 10 {
                journal.begin(VertexId([1; 16]), &handle(1));
                journal.end(VertexId([1; 16]));
            }
            let files = files(&scratch);
            let content = std::fs::read(&files[0]).unwrap();
            let open: &[u8] = if round == 0 { &[7] } else { &[] };
            assert_eq!((files.len(), &*open_ids(&content)), (1, open));
            assert!((content.len() as u64) < REWRITTEN_FROM / 8);
            journal.end(VertexId([7; 16]));
        }
        drop(journal);
        assert!(files(&scratch).is_empty());
    }

    proptest! {
        /// A journal may be damaged in any way.
        #[test]
        fn damaged_journals_are_read(noise in any::<Vec<u8>>(), at in 0..500_usize, byte in any::<u8>()) {
            open_files(&noise);
            let mut journal = [begin_record(&handle(1)), begin_record(&handle(2))].concat();
            if let Some(place) = journal.get_mut(at) {
                *place = byte;
            }
            prop_assert!(open_files(&journal).len() <= 2);
        }
    }
}
