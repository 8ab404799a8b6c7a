//! One log: read, parsed, turned into batches, applied.

use crate::interrupt::Interrupt;
use esker::Database;
use esker_import::darshan::{
    self, Damage, GraphCounts, GraphOptions, GraphTypes, LogError, LogIdentity, ParseOptions,
};
use esker_model::namespace::Settled;
use esker_model::{Batch, Cancel as _, Error, ErrorKind, GraphRead as _, GraphWrite as _, Schema};
use std::fs;
use std::io;
use std::path::Path;
use std::sync::Arc;

/// What all workers share.
pub(super) struct Work<'a> {
    pub(super) database: &'a Database,
    pub(super) schema: Arc<Schema>,
    pub(super) types: GraphTypes,
    pub(super) options: GraphOptions,
    pub(super) again: bool,
}

/// What became of one log.
#[derive(Debug)]
pub(super) enum LogOutcome {
    /// It is in the database.
    Imported(Imported),
    /// It was there before.
    Known,
    /// The file could not be read.
    Unreadable(io::Error),
    /// It is no log, or nothing of it can be used.
    Refused(LogError),
    /// The database does not accept what it says.
    Rejected(Error),
    /// Ctrl-C or `--timeout` in the middle of it.
    Stopped,
    /// The database failed: nothing can go on.
    Fatal(Error),
}

/// What came of a log that was imported.
#[derive(Debug, Default)]
pub(super) struct Imported {
    pub(super) bytes: u64,
    pub(super) records: u64,
    pub(super) vertices_created: u64,
    pub(super) edges_created: u64,
    pub(super) counts: GraphCounts,
    /// Parts that could not be read.
    pub(super) damages: Vec<Damage>,
    /// Whether Darshan itself says that it does not hold everything.
    pub(super) partial: bool,
}

pub(super) fn import_log(path: &Path, work: &Work<'_>, interrupt: &Interrupt) -> LogOutcome {
    let bytes = match fs::read(path) {
        Ok(bytes) => bytes,
        Err(error) => return LogOutcome::Unreadable(error),
    };
    let identity = LogIdentity::of(&bytes);
    let marker = whole_log_marker(&identity, &work.options);
    if !work.again {
        match work.database.applied(&marker) {
            Ok(true) => return LogOutcome::Known,
            Ok(false) => {}
            Err(error) => return LogOutcome::Fatal(error),
        }
    }
    let log = match darshan::parse(&bytes, &ParseOptions::default()) {
        Ok(log) => log,
        Err(error) => return LogOutcome::Refused(error),
    };
    let mut imported = Imported {
        bytes: bytes.len() as u64,
        records: log.records.len() as u64,
        damages: log.damages.clone(),
        partial: log.modules.iter().any(|m| m.partial),
        ..Imported::default()
    };
    drop(bytes);
    let options = GraphOptions {
        log_name: Some(path.display().to_string()),
        ..work.options.clone()
    };
    let mut applier = Applier {
        work,
        interrupt,
        waiting: None,
        settled: Settled::default(),
        imported: &mut imported,
        stop: None,
    };
    let counts = darshan::graph(&log, &identity, &work.types, &options, &mut |batch| {
        applier.push(batch);
    });
    if let Some(stop) = applier.finish(marker) {
        return stop;
    }
    imported.counts = counts;
    LogOutcome::Imported(imported)
}

/// The marker of the last batch of a log: once it is there, so is all of the log. The options that change what is made of
/// a log are part of it.
fn whole_log_marker(identity: &LogIdentity, options: &GraphOptions) -> Vec<u8> {
    let mut marker = b"darshan-log".to_vec();
    marker.push(u8::from(options.keep_helpers) | u8::from(options.processes) << 1);
    marker.extend(identity.0);
    marker
}

/// Applies batches as they are made, one behind, because only the last takes the log's marker.
struct Applier<'a> {
    work: &'a Work<'a>,
    interrupt: &'a Interrupt,
    waiting: Option<Batch>,
    /// Which files the log's paths are of.
    settled: Settled,
    imported: &'a mut Imported,
    stop: Option<LogOutcome>,
}

impl Applier<'_> {
    fn push(&mut self, batch: Batch) {
        if let Some(before) = self.waiting.replace(batch) {
            self.apply(before);
        }
    }

    fn finish(mut self, marker: Vec<u8>) -> Option<LogOutcome> {
        if let Some(mut last) = self.waiting.take() {
            last.once = Some(marker);
            self.apply(last);
        }
        self.stop
    }

    fn apply(&mut self, mut batch: Batch) {
        if self.stop.is_some() {
            return;
        }
        if self.interrupt.cancelled() {
            self.stop = Some(LogOutcome::Stopped);
            return;
        }
        if self.work.again {
            batch.once = None;
        }
        let settled =
            self.settled
                .settle(self.work.database, &self.work.schema, &mut batch.mutations);
        match settled.and_then(|()| self.work.database.apply(batch)) {
            Ok(commit) => {
                self.imported.vertices_created += commit.vertices_created;
                self.imported.edges_created += commit.edges_created;
            }
            Err(error) => {
                self.stop = Some(match error.kind() {
                    ErrorKind::Invalid | ErrorKind::Missing => LogOutcome::Rejected(error),
                    ErrorKind::Interrupted => LogOutcome::Stopped,
                    ErrorKind::Unavailable | ErrorKind::Storage | ErrorKind::Corrupt => {
                        LogOutcome::Fatal(error)
                    }
                });
            }
        }
    }
}
