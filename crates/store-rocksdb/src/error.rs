//! Messages for RocksDB's errors. RocksDB reports an error as one line of text, which is searched for known parts.

use esker_model::Error;
use std::io;
use std::path::Path;

/// Translates an error of a RocksDB call. `doing` is the operation, as in "writing to".
pub(crate) fn explain(doing: &str, path: &Path, error: rocksdb::Error) -> Error {
    let place = path.display();
    let kind = error.kind();
    let text = error.into_string();
    let has = |part: &str| text.contains(part);
    if has("lock hold by current process") || (has("While lock file") && has("LOCK")) {
        return Error::InUse(format!(
            "{place} is open in another process; close it there, or reach it through that process"
        ));
    }
    let disk = |kind: io::ErrorKind, remedy: &str| {
        Error::io(
            format!("{doing} {place}{remedy}"),
            io::Error::new(kind, text.clone()),
        )
    };
    match kind {
        rocksdb::ErrorKind::IOError if has("No space left") || has("Disk quota") => disk(
            io::ErrorKind::StorageFull,
            " (the disk is full: make room, close the database and open it again)",
        ),
        rocksdb::ErrorKind::IOError if has("Read-only file system") => disk(
            io::ErrorKind::ReadOnlyFilesystem,
            " (it is on a read-only file system)",
        ),
        rocksdb::ErrorKind::IOError if has("Permission denied") => disk(
            io::ErrorKind::PermissionDenied,
            " (the user of this process needs permission to read and write it)",
        ),
        rocksdb::ErrorKind::IOError => disk(io::ErrorKind::Other, ""),
        rocksdb::ErrorKind::Corruption => Error::Store {
            engine: "rocksdb",
            message: format!("{doing} {place}: {text}; restore a backup"),
        },
        _ => Error::Store {
            engine: "rocksdb",
            message: format!("{doing} {place}: {text}"),
        },
    }
}

/// Translates an error of the operating system.
pub(crate) fn disk(doing: &str, path: &Path, source: io::Error) -> Error {
    Error::io(format!("{doing} {}", path.display()), source)
}
