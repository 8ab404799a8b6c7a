//! Restores a store from its checkpoint: the base, then the later segments in order.

use super::manifest::{Manifest, Span};
use super::storage::{self, FileName};
use esker_model::codec::DecodeError;
use esker_model::{Error, Result};
use esker_store::segment::{Kind, SegmentError, SegmentReader, commits};
use esker_store::{BulkLoad, Durability, Store, Table, WriteBatch};
use std::fs::File;
use std::io::BufReader;
use std::path::{Path, PathBuf};

/// A checkpoint file with its path.
struct CheckpointFile {
    name: FileName,
    path: PathBuf,
}

/// Result of a restore.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(crate) struct Restored {
    /// Number of the last commit.
    pub(crate) last: u64,
    /// Size of the base in bytes.
    pub(crate) base_bytes: u64,
    /// Size in bytes of the segments after the base.
    pub(crate) segment_bytes: u64,
    /// Number of segments after the base.
    pub(crate) segments: u64,
}

/// Fills an empty store from a checkpoint.
pub(crate) fn restore(manifest: &Manifest, store: &dyn Store) -> Result<Restored> {
    let mut files = Vec::new();
    for folder in &manifest.folders {
        // An unmounted folder may have the last segments, so an unreadable folder is an error.
        let there = storage::list(folder, manifest.store).map_err(|e| {
            Error::Target(format!(
                "the checkpoint is incomplete: `{}` has a part of it and cannot be read ({e}); is that storage mounted here?",
                folder.display()
            ))
        })?;
        files.extend(there.into_iter().map(|name| CheckpointFile {
            name,
            path: folder.join(name.text()),
        }));
    }
    let mut done = Restored::default();
    if let Some((generation, last)) = manifest.base {
        let base = files.iter().find(|f| {
            let head = f.name.head;
            head.kind == Kind::Base && head.generation == generation && head.last == last
        });
        let base =
            base.ok_or_else(|| missing(manifest, &format!("the base with commits up to {last}")))?;
        done.base_bytes = load_base(base, store)?;
        done.last = last;
    }
    let open = Span {
        generation: manifest.open.0,
        first: manifest.open.1,
        last: u64::MAX,
    };
    for span in manifest.spans.iter().chain([&open]) {
        replay_span(manifest, &files, *span, store, &mut done)?;
    }
    Ok(done)
}

fn missing(manifest: &Manifest, what: &str) -> Error {
    let folders: Vec<String> = manifest
        .folders
        .iter()
        .map(|f| format!("`{}`", f.display()))
        .collect();
    Error::Target(format!(
        "the checkpoint is incomplete: {what} is missing; it should be in one of {}: is that storage mounted here?",
        folders.join(", ")
    ))
}

/// Replays the segments of a span after commit `done.last`.
fn replay_span(
    manifest: &Manifest,
    files: &[CheckpointFile],
    span: Span,
    store: &dyn Store,
    done: &mut Restored,
) -> Result<()> {
    let of = |f: &&CheckpointFile| {
        let head = f.name.head;
        head.kind == Kind::Segment
            && head.generation == span.generation
            && head.first >= span.first
            && head.first <= span.last
    };
    let mut segments: Vec<&CheckpointFile> = files.iter().filter(of).collect();
    segments.sort_unstable_by_key(|f| f.name.head.first);
    for segment in segments {
        let head = segment.name.head;
        // A base may end within a segment.
        if head.last <= done.last {
            continue;
        }
        if head.first > done.last + 1 {
            return Err(gap(manifest, done.last + 1, head.first - 1));
        }
        done.segment_bytes += replay(segment, done.last.min(span.last), span.last, store)?;
        done.segments += 1;
        done.last = head.last.min(span.last);
    }
    if span.last != u64::MAX && done.last < span.last {
        return Err(gap(manifest, done.last + 1, span.last));
    }
    Ok(())
}

fn gap(manifest: &Manifest, first: u64, last: u64) -> Error {
    missing(
        manifest,
        &format!("the segment with commits {first} to {last}"),
    )
}

fn open(found: &CheckpointFile) -> Result<SegmentReader<BufReader<File>>> {
    let file = File::open(&found.path)
        .map_err(|e| Error::io(format!("opening `{}`", found.path.display()), e))?;
    let reader = SegmentReader::begin(BufReader::with_capacity(1 << 16, file));
    let reader = reader.map_err(|e| unreadable(&found.path, e))?;
    if reader.head() != found.name.head {
        return Err(damaged(
            &found.path,
            0,
            "the head that goes with the file's name",
        ));
    }
    Ok(reader)
}

fn unreadable(path: &Path, e: SegmentError) -> Error {
    match e {
        SegmentError::Damaged { at, expected } => damaged(path, at, expected),
        SegmentError::Io(e) => Error::io(format!("reading `{}`", path.display()), e),
    }
}

fn damaged(path: &Path, at: u64, expected: &str) -> Error {
    Error::Target(format!(
        "the checkpoint's file `{}` is damaged at byte {at}: expected {expected}; put it back from a copy of the storage: the \
         writes in it are nowhere else",
        path.display()
    ))
}

/// Error of one commit in a block.
enum CommitError {
    Decode(DecodeError),
    Store(Error),
}

impl From<DecodeError> for CommitError {
    fn from(e: DecodeError) -> Self {
        Self::Decode(e)
    }
}

/// Passes all commits of a file to `sink`; returns the length of the file.
fn for_each_commit(
    found: &CheckpointFile,
    sink: &mut dyn FnMut(WriteBatch) -> Result<()>,
) -> Result<u64> {
    let mut reader = open(found)?;
    loop {
        let at = reader.position();
        let block = reader.block().map_err(|e| unreadable(&found.path, e))?;
        let Some(block) = block else {
            return Ok(reader.position());
        };
        commits(&block, &mut |batch| sink(batch).map_err(CommitError::Store)).map_err(
            |e| match e {
                CommitError::Decode(e) => damaged(&found.path, at, e.expected),
                CommitError::Store(e) => e,
            },
        )?;
    }
}

/// Replays the commits of a segment after `after` and up to `until`.
fn replay(found: &CheckpointFile, after: u64, until: u64, store: &dyn Store) -> Result<u64> {
    let head = found.name.head;
    let mut next = head.first;
    let bytes = for_each_commit(found, &mut |batch| {
        let number = next;
        next += 1;
        if number <= after || number > until || batch.is_empty() {
            return Ok(());
        }
        store.commit(batch, Durability::Relaxed)
    })?;
    if next != head.last.wrapping_add(1) {
        return Err(damaged(
            &found.path,
            bytes,
            "as many commits as the file's name says",
        ));
    }
    Ok(bytes)
}

/// Loads all rows of a base, which are sorted, table by table.
fn load_base(found: &CheckpointFile, store: &dyn Store) -> Result<u64> {
    let mut load: Option<(Table, Box<dyn BulkLoad + '_>)> = None;
    let bytes = for_each_commit(found, &mut |batch| {
        for write in batch.iter() {
            if load.as_ref().is_none_or(|(table, _)| *table != write.table) {
                if let Some((_, load)) = load.take() {
                    load.finish()?;
                }
                load = Some((write.table, store.bulk_load(write.table)?));
            }
            if let (Some((_, load)), Some(value)) = (&mut load, write.value) {
                load.push(write.key, value)?;
            }
        }
        Ok(())
    })?;
    if let Some((_, load)) = load.take() {
        load.finish()?;
    }
    Ok(bytes)
}
