//! A folder that all servers of a cluster see (`shared` in the cluster's file): partitions of directories pass through it as files.

use esker_cluster::node::{BoxFuture, MoveStats, PartitionMoveStats, SharedFiles};
use esker_model::{Error, Result};
use std::fmt::Write as _;
use std::fs::File;
use std::io::{ErrorKind, Read as _, Write as _};
use std::path::{Path, PathBuf};
use tokio::runtime::Handle;

/// The shared folder. Its I/O runs on separate threads: it may be on another machine.
pub(super) struct SharedFolder {
    folder: PathBuf,
    runtime: Handle,
}

fn failed(what: &str, path: &Path, e: std::io::Error) -> Error {
    Error::io(format!("{what} `{}`", path.display()), e)
}

impl SharedFolder {
    /// Creates the folder if its parent exists: a path that is not mounted must not be created.
    pub(super) fn new(folder: PathBuf, runtime: Handle) -> Self {
        match esker::modes::create_private(&folder) {
            Err(e) if e.kind() != ErrorKind::AlreadyExists => tracing::warn!(
                folder = %folder.display(),
                error = %e,
                "the folder that `shared` names cannot be made: directories that split send their entries in messages"
            ),
            _ => {}
        }
        Self { folder, runtime }
    }

    fn work<T: Send + 'static>(
        &self,
        name: &str,
        work: impl FnOnce(&Path) -> Result<T> + Send + 'static,
    ) -> BoxFuture<'static, Result<T>> {
        let path = self.folder.join(name);
        let done = self.runtime.spawn_blocking(move || work(&path));
        Box::pin(async move {
            done.await.unwrap_or_else(|e| {
                Err(Error::Unavailable(format!(
                    "what works on shared storage has ended: {e}"
                )))
            })
        })
    }
}

impl SharedFiles for SharedFolder {
    fn write(&self, name: String, bytes: Vec<u8>) -> BoxFuture<'static, Result<()>> {
        // The receiver reads the complete file or detects a partial one by its checksum. The file is not needed after a power failure, so
        // it is not synced.
        self.work(&name, move |path| {
            let written = File::create(path).and_then(|mut file| file.write_all(&bytes));
            written.map_err(|e| failed("writing", path, e))
        })
    }

    fn read(&self, name: String, most: u64) -> BoxFuture<'static, Result<Vec<u8>>> {
        self.work(&name, move |path| {
            let mut bytes = Vec::new();
            let read = File::open(path)
                .and_then(|file| file.take(most.saturating_add(1)).read_to_end(&mut bytes));
            let read = read.map_err(|e| failed("reading", path, e))?;
            if read as u64 > most {
                return Err(Error::Unavailable(format!(
                    "`{}` is longer than {most} bytes",
                    path.display()
                )));
            }
            Ok(bytes)
        })
    }

    fn remove(&self, name: String) -> BoxFuture<'static, Result<()>> {
        self.work(&name, move |path| match std::fs::remove_file(path) {
            Err(e) if e.kind() != ErrorKind::NotFound => Err(failed("removing", path, e)),
            _ => Ok(()),
        })
    }

    fn list(&self) -> BoxFuture<'static, Result<Vec<String>>> {
        self.work("", move |folder| {
            let entries = std::fs::read_dir(folder).map_err(|e| failed("listing", folder, e))?;
            let mut names = Vec::new();
            for entry in entries {
                let entry = entry.map_err(|e| failed("listing", folder, e))?;
                names.extend(entry.file_name().into_string());
            }
            Ok(names)
        })
    }
}

/// Writes metrics of the partitions that this server has moved to others, for Prometheus.
pub(super) fn metrics(moved: &PartitionMoveStats, out: &mut String) {
    type Figure = fn(&MoveStats) -> f64;
    let figures: [(&str, &str, Figure); 5] = [
        (
            "esker_given_partitions_total",
            "Partitions of directories that were given to other servers.",
            |m| m.partitions as f64,
        ),
        ("esker_given_rows_total", "Rows of them.", |m| m.rows as f64),
        (
            "esker_given_file_bytes_total",
            "Bytes of the files that had them.",
            |m| m.file_bytes as f64,
        ),
        (
            "esker_given_message_bytes_total",
            "Bytes of the messages that had them, or said which files they were.",
            |m| m.message_bytes as f64,
        ),
        (
            "esker_given_seconds_total",
            "How long their directories were blocked.",
            |m| m.micros as f64 / 1e6,
        ),
    ];
    for (name, help, figure) in figures {
        // Writing to a String cannot fail.
        let _ = writeln!(out, "# HELP {name} {help}\n# TYPE {name} counter");
        for (by, moved) in [("table", &moved.tables), ("message", &moved.messages)] {
            let _ = writeln!(out, "{name}{{by=\"{by}\"}} {}", figure(moved));
        }
    }
    let _ = writeln!(
        out,
        "# HELP esker_given_tables_unread_total Tables that could not be written, or that their receiver could not read.\n\
         # TYPE esker_given_tables_unread_total counter\n\
         esker_given_tables_unread_total {}",
        moved.unread
    );
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn files_come_back_and_go() {
        let dir = tempfile::tempdir().unwrap();
        let runtime = tokio::runtime::Builder::new_current_thread()
            .build()
            .unwrap();
        let at = dir.path().join("shared");
        let folder = SharedFolder::new(at.clone(), runtime.handle().clone());
        let again = SharedFolder::new(at, runtime.handle().clone());
        let name = || "split-0-1-1.table".to_owned();
        runtime.block_on(async {
            folder.write(name(), vec![1, 2, 3]).await.unwrap();
            assert_eq!(again.list().await.unwrap(), [name()]);
            assert_eq!(again.read(name(), 3).await.unwrap(), [1, 2, 3]);
            again.read(name(), 2).await.unwrap_err();
            folder.remove(name()).await.unwrap();
            folder.remove(name()).await.unwrap();
            again.read(name(), 3).await.unwrap_err();
            // A path that is not mounted.
            let nowhere = dir.path().join("a").join("b");
            let nowhere = SharedFolder::new(nowhere, runtime.handle().clone());
            nowhere.write(name(), vec![1]).await.unwrap_err();
        });
    }
}
