//! Shared storage of all servers of a cluster.

use super::{BoxFuture, Node};
use esker_model::{Error, Result};
use futures_util::future::{Either, select};
use std::pin::pin;
use std::sync::atomic::{AtomicU64, Ordering};

/// A folder on storage that all servers share, for rows that move between servers. Losing a file is harmless: its
/// writer still has the rows.
pub trait SharedFiles: Send + Sync {
    /// Writes a file. Readers see all of it once the call has returned.
    fn write(&self, name: String, bytes: Vec<u8>) -> BoxFuture<'static, Result<()>>;

    /// Reads a file; fails if it is longer than `most` bytes.
    fn read(&self, name: String, most: u64) -> BoxFuture<'static, Result<Vec<u8>>>;

    /// Removes a file; a missing one is no error.
    fn remove(&self, name: String) -> BoxFuture<'static, Result<()>>;

    /// Lists the names of all files.
    fn list(&self) -> BoxFuture<'static, Result<Vec<String>>>;
}

/// Time limit for shared storage, in milliseconds. A directory that moves is blocked meanwhile, once for writing and
/// once for reading.
const WAIT_MAX: u64 = 2_000;

/// Counters of directory partitions that have moved from here since the node was opened.
#[derive(Debug, Default)]
pub(crate) struct MoveCounters {
    /// Moved as tables: partitions, rows, bytes of files, bytes of messages, microseconds for which directories were blocked.
    pub(crate) tables: [AtomicU64; 5],
    /// Moved in messages: as for `tables`.
    pub(crate) messages: [AtomicU64; 5],
    /// Number of tables that could not be written, or that the receiver could not read.
    pub(crate) unread: AtomicU64,
}

/// Statistics of directory partitions that have moved one way.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct MoveStats {
    /// Number of moved partitions.
    pub partitions: u64,
    /// Number of rows in them.
    pub rows: u64,
    /// Bytes of files, as they are stored.
    pub file_bytes: u64,
    /// Bytes of messages that contain the partition or name its file.
    pub message_bytes: u64,
    /// Time for which their directories were blocked, in microseconds.
    pub micros: u64,
}

/// Statistics of directory partitions that this server has given to others since its start.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct PartitionMoveStats {
    /// Moved as sorted tables, by their names.
    pub tables: MoveStats,
    /// Moved as rows in messages.
    pub messages: MoveStats,
    /// Number of tables that could not be written or read; their rows went in messages.
    pub unread: u64,
}

fn add(to: &[AtomicU64; 5], by: MoveStats) {
    let MoveStats {
        partitions,
        rows,
        file_bytes,
        message_bytes,
        micros,
    } = by;
    let all = [partitions, rows, file_bytes, message_bytes, micros];
    for (to, n) in to.iter().zip(all) {
        to.fetch_add(n, Ordering::Relaxed);
    }
}

fn read(from: &[AtomicU64; 5]) -> MoveStats {
    let [partitions, rows, file_bytes, message_bytes, micros] =
        from.each_ref().map(|n| n.load(Ordering::Relaxed));
    MoveStats {
        partitions,
        rows,
        file_bytes,
        message_bytes,
        micros,
    }
}

impl MoveCounters {
    pub(crate) fn by_table(&self, by: MoveStats) {
        add(&self.tables, by);
    }

    pub(crate) fn by_message(&self, by: MoveStats) {
        add(&self.messages, by);
    }
}

impl Node {
    /// Returns statistics of directory partitions that have moved from here.
    pub fn partition_moves(&self) -> PartitionMoveStats {
        PartitionMoveStats {
            tables: read(&self.moved.tables),
            messages: read(&self.moved.messages),
            unread: self.moved.unread.load(Ordering::Relaxed),
        }
    }

    /// Runs a storage operation whose result nobody awaits.
    pub(crate) fn in_background(
        &self,
        operation: BoxFuture<'static, Result<()>>,
    ) -> BoxFuture<'static, ()> {
        let wait = self.host.sleep(WAIT_MAX);
        Box::pin(async move {
            // Files that remain are removed at the next start.
            let _ = select(pin!(operation), wait).await;
        })
    }

    /// Awaits a storage operation, with a time limit.
    pub(crate) async fn with_timeout<T>(
        &self,
        operation: BoxFuture<'static, Result<T>>,
    ) -> Result<T> {
        match select(pin!(operation), self.host.sleep(WAIT_MAX)).await {
            Either::Left((answer, _)) => answer,
            Either::Right(_) => Err(Error::Unavailable(format!(
                "shared storage has not answered for {} s",
                WAIT_MAX / 1000
            ))),
        }
    }
}
