//! Import of one log: read, parse, build batches, apply.

use esker::Database;
use esker_import::darshan::{
    self, Damage, GraphCounts, GraphOptions, GraphTypes, LogError, LogIdentity, ParseOptions,
};
use esker_import::jobs::{LinkTypes, delete_foreign};
use esker_model::namespace::FileRefResolver;
use esker_model::{Batch, Cancel as _, Error, ErrorKind, GraphRead as _, GraphWrite as _, Schema};
use esker_terminal::interrupt::Interrupt;
use std::fs;
use std::io;
use std::path::Path;
use std::sync::Arc;

/// State that all workers share.
pub(super) struct LogWork<'a> {
    pub(super) database: &'a Database,
    pub(super) schema: Arc<Schema>,
    pub(super) types: GraphTypes,
    pub(super) options: GraphOptions,
    pub(super) links: LinkTypes,
    pub(super) cluster: Option<&'a str>,
    pub(super) again: bool,
}

/// Result of one log.
#[derive(Debug)]
pub(super) enum LogOutcome {
    /// The log was imported.
    Imported(Imported),
    /// The log had been imported before.
    AlreadyImported,
    /// The file could not be read.
    Unreadable(io::Error),
    /// The file is no log, or no part of it is usable.
    Refused(LogError),
    /// The database does not accept the log's content.
    Rejected(Error),
    /// Ctrl-C or `--timeout` stopped the import of the log.
    Stopped,
    /// The database failed, so the import cannot continue.
    Fatal(Error),
}

/// Counts of an imported log.
#[derive(Debug, Default)]
pub(super) struct Imported {
    pub(super) bytes: u64,
    pub(super) records: u64,
    pub(super) vertices_created: u64,
    pub(super) edges_created: u64,
    pub(super) counts: GraphCounts,
    /// Parts of the log that could not be read.
    pub(super) damages: Vec<Damage>,
    /// Whether Darshan itself marked the log as incomplete.
    pub(super) partial: bool,
    /// Whether the log has objects of DAOS, which are not imported.
    pub(super) objects_alone: bool,
}

pub(super) fn import_log(path: &Path, work: &LogWork<'_>, interrupt: &Interrupt) -> LogOutcome {
    let bytes = match fs::read(path) {
        Ok(bytes) => bytes,
        Err(error) => return LogOutcome::Unreadable(error),
    };
    let identity = LogIdentity::of(&bytes);
    let marker = link_key(&identity, work);
    if !work.again {
        match work.database.applied(&marker) {
            Ok(true) => return LogOutcome::AlreadyImported,
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
        objects_alone: log.has_objects_alone(),
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
        resolver: FileRefResolver::default(),
        imported: &mut imported,
        stop: None,
    };
    let counts = darshan::graph(&log, &identity, &work.types, &options, &mut |batch| {
        applier.push(batch);
    });
    let mut link = darshan::job_link(&log, &identity, &work.types, work.cluster);
    link.idempotency_key = Some(marker);
    if let Some(stop) = applier.finish(log_key(&identity, &work.options), link) {
        return stop;
    }
    imported.counts = counts;
    LogOutcome::Imported(imported)
}

/// Returns the idempotency key of the batch that links a log to its job. That batch is the last, so the key shows that the complete log
/// was imported. It includes the options that change what is imported.
fn link_key(identity: &LogIdentity, work: &LogWork<'_>) -> Vec<u8> {
    let mut marker = log_key(identity, &work.options);
    marker.extend(b"job");
    marker.extend(work.cluster.unwrap_or_default().as_bytes());
    marker
}

/// Returns the idempotency key of the last batch of a log's own vertices and edges.
fn log_key(identity: &LogIdentity, options: &GraphOptions) -> Vec<u8> {
    let mut marker = b"darshan-log".to_vec();
    marker.push(u8::from(options.keep_helpers) | u8::from(options.processes) << 1);
    marker.extend(identity.0);
    marker
}

/// Applies batches one behind the reader, because only the last gets the log's key.
struct Applier<'a> {
    work: &'a LogWork<'a>,
    interrupt: &'a Interrupt,
    waiting: Option<Batch>,
    /// Resolves the log's paths to files.
    resolver: FileRefResolver,
    imported: &'a mut Imported,
    stop: Option<LogOutcome>,
}

impl Applier<'_> {
    fn push(&mut self, batch: Batch) {
        if let Some(before) = self.waiting.replace(batch) {
            self.apply(before);
        }
    }

    /// Applies the last batch with the log's key, and then the link to the job.
    fn finish(mut self, marker: Vec<u8>, mut link: Batch) -> Option<LogOutcome> {
        if let Some(mut last) = self.waiting.take() {
            last.idempotency_key = Some(marker);
            self.apply(last);
        }
        let LogWork {
            database, links, ..
        } = self.work;
        match delete_foreign(*database, links, links.job, &mut link.mutations) {
            Ok(()) => self.apply(link),
            Err(error) => self.fail(error),
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
            batch.idempotency_key = None;
        }
        let resolved = self.resolver.resolve_mutations(
            self.work.database,
            &self.work.schema,
            &mut batch.mutations,
        );
        match resolved.and_then(|()| self.work.database.apply(batch)) {
            Ok(commit) => {
                self.imported.vertices_created += commit.vertices_created;
                self.imported.edges_created += commit.edges_created;
            }
            Err(error) => self.fail(error),
        }
    }

    /// Stops the import of the log, unless it was stopped before.
    fn fail(&mut self, error: Error) {
        self.stop.get_or_insert_with(|| match error.kind() {
            ErrorKind::Invalid | ErrorKind::Missing => LogOutcome::Rejected(error),
            ErrorKind::Interrupted => LogOutcome::Stopped,
            ErrorKind::Unavailable | ErrorKind::Storage | ErrorKind::Corrupt => {
                LogOutcome::Fatal(error)
            }
        });
    }
}
