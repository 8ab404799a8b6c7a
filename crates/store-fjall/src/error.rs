//! Messages for fjall's errors: what happened, to what, and what to do.

use esker_model::Error;
use std::io;
use std::path::Path;

const ENGINE: &str = "fjall";

/// Translates an error of a fjall call. `doing` is the operation, as in "writing to".
pub(crate) fn explain(doing: &str, path: &Path, error: fjall::Error) -> Error {
    let place = path.display();
    let engine = |message: String| Error::Store {
        engine: ENGINE,
        message,
    };
    match error {
        fjall::Error::Io(source) | fjall::Error::Storage(fjall::LsmError::Io(source)) => {
            disk(doing, path, source)
        }
        fjall::Error::Locked => Error::InUse(format!(
            "{place} is open in another process; close it there, or reach it through that process"
        )),
        fjall::Error::InvalidVersion(found) => {
            let found = found.map_or_else(
                || "an unknown format".to_owned(),
                |version| format!("format {version}"),
            );
            Error::Target(format!(
                "{place} was written in {found} of the fjall engine; this build reads format 3: use the build that wrote it"
            ))
        }
        fjall::Error::Poisoned => engine(format!(
            "{place} takes no more writes, because one failed before (most often the disk was full); \
             make room, close the database and open it again: what was acknowledged is kept"
        )),
        fjall::Error::JournalRecovery(cause) => engine(format!(
            "the log of {place} is damaged ({cause}); restore a backup"
        )),
        fjall::Error::Storage(fjall::LsmError::ChecksumMismatch { got, expected }) => {
            engine(format!(
                "{doing} {place}: a block fails its checksum (got {got:?}, expected {expected:?}); restore a backup"
            ))
        }
        fjall::Error::Unrecoverable | fjall::Error::Storage(fjall::LsmError::Unrecoverable) => {
            engine(format!(
                "{place} lacks files or holds damaged ones; restore a backup"
            ))
        }
        other => engine(format!("{doing} {place}: {other}")),
    }
}

/// Translates an error of the operating system, with the remedy where it is known.
pub(crate) fn disk(doing: &str, path: &Path, source: io::Error) -> Error {
    let remedy = match source.kind() {
        io::ErrorKind::StorageFull | io::ErrorKind::QuotaExceeded => {
            " (the disk is full: make room, close the database and open it again)"
        }
        io::ErrorKind::ReadOnlyFilesystem => " (it is on a read-only file system)",
        io::ErrorKind::PermissionDenied => {
            " (the user of this process needs permission to read and write it)"
        }
        _ => "",
    };
    Error::io(format!("{doing} {}{remedy}", path.display()), source)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn said(error: fjall::Error) -> String {
        explain("writing to", Path::new("/data/lab.esker"), error).to_string()
    }

    #[test]
    fn messages_name_the_place_and_the_remedy() {
        let full = || io::Error::from_raw_os_error(28);
        for error in [
            fjall::Error::Io(full()),
            fjall::Error::Storage(fjall::LsmError::Io(full())),
        ] {
            let text = said(error);
            assert!(
                text.starts_with("writing to /data/lab.esker (the disk is full"),
                "{text}"
            );
            assert!(text.contains("No space left"), "{text}");
        }
        let text = said(fjall::Error::Io(io::Error::from_raw_os_error(30)));
        assert!(text.contains("read-only file system"), "{text}");
        let text = said(fjall::Error::Locked);
        assert!(text.contains("open in another process"), "{text}");
        let text = said(fjall::Error::InvalidVersion(Some(fjall::FormatVersion::V2)));
        assert!(
            text.contains("format 2") && text.contains("reads format 3"),
            "{text}"
        );
        let text = said(fjall::Error::Poisoned);
        assert!(text.contains("takes no more writes"), "{text}");
    }
}
