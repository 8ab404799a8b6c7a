//! Storage that all servers of a cluster see, as a node asks for it.

use super::{BoxFuture, Node};
use esker_model::{Error, Result};
use futures_util::future::{Either, select};
use std::pin::pin;
use std::sync::atomic::{AtomicU64, Ordering};

/// A folder that all servers of a cluster see, for rows on their way from one to another. What lies there is lost without harm: whoever
/// wrote it has it still.
pub trait SharedFiles: Send + Sync {
    /// Writes a file. Others that read it from the answer on see all of it.
    fn write(&self, name: String, bytes: Vec<u8>) -> BoxFuture<'static, Result<()>>;

    /// Reads a file; fails if it is longer than that.
    fn read(&self, name: String, most: u64) -> BoxFuture<'static, Result<Vec<u8>>>;

    /// Removes a file; one that is not there is no error.
    fn remove(&self, name: String) -> BoxFuture<'static, Result<()>>;

    /// The names of all files.
    fn list(&self) -> BoxFuture<'static, Result<Vec<String>>>;
}

/// For so long storage is waited for, in milliseconds: a directory stands still meanwhile, once for the writing and once for the reading.
const WAIT_MAX: u64 = 2_000;

/// How partitions of directories have moved from here to other servers since the node was opened.
#[derive(Debug, Default)]
pub(crate) struct Moved {
    /// As tables: how many, their rows, the bytes of their files, those of the messages that they took, for how long their directories stood
    /// still (in microseconds).
    pub(crate) tables: [AtomicU64; 5],
    /// In messages: the same.
    pub(crate) messages: [AtomicU64; 5],
    /// Tables that the receiver could not read, or that could not be written.
    pub(crate) unread: AtomicU64,
}

/// Partitions of directories that have moved one way.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct MovedBy {
    /// How many.
    pub partitions: u64,
    /// Their rows.
    pub rows: u64,
    /// Bytes of files, as they are packed.
    pub file_bytes: u64,
    /// Bytes of the message that has the partition, or says where it lies.
    pub message_bytes: u64,
    /// For how long their directories stood still, in microseconds.
    pub micros: u64,
}

/// Partitions of directories that this server has given to others since it was started.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct MovedFigures {
    /// As sorted tables, by their names.
    pub tables: MovedBy,
    /// In messages.
    pub messages: MovedBy,
    /// Tables that could not be written, or that their receiver could not read: their rows went in messages.
    pub unread: u64,
}

fn add(to: &[AtomicU64; 5], by: MovedBy) {
    let MovedBy {
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

fn read(from: &[AtomicU64; 5]) -> MovedBy {
    let [partitions, rows, file_bytes, message_bytes, micros] =
        from.each_ref().map(|n| n.load(Ordering::Relaxed));
    MovedBy {
        partitions,
        rows,
        file_bytes,
        message_bytes,
        micros,
    }
}

impl Moved {
    pub(crate) fn by_table(&self, by: MovedBy) {
        add(&self.tables, by);
    }

    pub(crate) fn by_message(&self, by: MovedBy) {
        add(&self.messages, by);
    }
}

impl Node {
    /// Partitions of directories that have moved from here.
    pub fn partitions_given(&self) -> MovedFigures {
        MovedFigures {
            tables: read(&self.moved.tables),
            messages: read(&self.moved.messages),
            unread: self.moved.unread.load(Ordering::Relaxed),
        }
    }

    /// Asks storage for something that nobody waits for.
    pub(crate) fn in_time_of_its_own(
        &self,
        asked: BoxFuture<'static, Result<()>>,
    ) -> BoxFuture<'static, ()> {
        let wait = self.host.sleep(WAIT_MAX);
        Box::pin(async move {
            // What stays is swept at the next start.
            let _ = select(pin!(asked), wait).await;
        })
    }

    /// What storage answers, if it does so in time.
    pub(crate) async fn in_time<T>(&self, asked: BoxFuture<'static, Result<T>>) -> Result<T> {
        match select(pin!(asked), self.host.sleep(WAIT_MAX)).await {
            Either::Left((answer, _)) => answer,
            Either::Right(_) => Err(Error::Unavailable(format!(
                "shared storage has not answered for {} s",
                WAIT_MAX / 1000
            ))),
        }
    }
}
