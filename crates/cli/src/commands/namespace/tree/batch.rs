//! Batches of new files, sent to the database as subtrees, which need no lookups of directories.

use super::part::DirectoryPart;
use esker::{Database, Result};
use esker_model::Error;
use esker_model::namespace::{Change, NamePath, Namespace as _, SubtreeBuilder};
use std::collections::HashMap;
use std::sync::mpsc::{self, Receiver, SyncSender};
use std::thread::Scope;
use std::time::{Duration, Instant};

/// Limits of a batch; a killed scan loses at most one that is being sent and one that is being gathered.
const FILES_MAX: u64 = 1 << 16;
const BYTES_MAX: usize = 16 << 20;
const AGE_MAX: Duration = Duration::from_secs(1);

/// A batch of new files.
pub(super) struct FileBatch {
    builder: SubtreeBuilder,
    /// New directories in the batch, with their numbers.
    made: HashMap<NamePath, u64>,
    began: Option<Instant>,
    /// Whether batches are disabled: in a cluster, files are on many servers, so a subtree saves nothing.
    disabled: bool,
}

impl FileBatch {
    pub(super) fn new(disabled: bool) -> Self {
        Self {
            builder: SubtreeBuilder::default(),
            made: HashMap::new(),
            began: None,
            disabled,
        }
    }

    /// Adds a part of a directory, if it has only new files; else returns it.
    pub(super) fn add(&mut self, part: DirectoryPart) -> Option<DirectoryPart> {
        if self.disabled || !part.changes.is_empty() || !part.last.is_empty() {
            return Some(part);
        }
        if part.new.is_empty() {
            return None;
        }
        self.began.get_or_insert_with(Instant::now);
        match self.made.get(&part.directory) {
            Some(number) => self.builder.in_new_directory(*number),
            None => self.builder.in_existing_directory(&part.directory),
        }
        for (name, found) in part.new {
            if let Some(number) = self.builder.entry(&name, &found.into_new_file(), false) {
                self.made.insert(part.directory.join(&name), number);
            }
        }
        None
    }

    /// Whether the batch has reached a limit.
    pub(super) fn is_due(&self) -> bool {
        self.builder.entries() >= FILES_MAX
            || self.builder.bytes() >= BYTES_MAX
            || self.began.is_some_and(|began| began.elapsed() >= AGE_MAX)
    }

    /// Takes the files gathered so far.
    pub(super) fn take(&mut self) -> Option<SubtreeBuilder> {
        let gathered = std::mem::replace(self, Self::new(self.disabled));
        (gathered.builder.entries() > 0).then_some(gathered.builder)
    }
}

/// The number of created files of a batch, and the changes to send one by one if the batch was refused.
pub(super) type SentBatch = (u64, Vec<Change>);

fn send(database: &Database, builder: SubtreeBuilder) -> Result<SentBatch> {
    let files = builder.entries();
    let subtree = builder.finish()?;
    let done = database.change(None, &[Change::Merge(subtree.clone())])?;
    match done.into_iter().next() {
        Some(Ok(_)) => Ok((files, Vec::new())),
        Some(Err(Error::File(_) | Error::Invalid(_) | Error::Limit { .. })) => {
            Ok((0, subtree.changes()?))
        }
        Some(Err(e)) => Err(e),
        None => Err(Error::Undecided(
            "the files were sent, but the server did not answer; repeat `esker import tree`".into(),
        )),
    }
}

/// Sends batches in a thread of its own, so that the next one is gathered meanwhile.
pub(super) struct BatchSender {
    batches: SyncSender<SubtreeBuilder>,
    answers: Receiver<Result<SentBatch>>,
    /// Whether a batch was given to the thread and its answer is not taken.
    sending: bool,
}

impl BatchSender {
    pub(super) fn start<'s>(scope: &'s Scope<'s, '_>, database: &'s Database) -> Self {
        let (batches, given) = mpsc::sync_channel(1);
        let (answer, answers) = mpsc::sync_channel(1);
        scope.spawn(move || {
            for builder in given {
                if answer.send(send(database, builder)).is_err() {
                    return;
                }
            }
        });
        Self {
            batches,
            answers,
            sending: false,
        }
    }

    /// Starts to send a batch. The answer to the one before must have been taken.
    pub(super) fn start_sending(&mut self, builder: SubtreeBuilder) {
        self.sending = self.batches.send(builder).is_ok();
    }

    /// Waits for the answer to the batch that is being sent, if there is one.
    pub(super) fn answer(&mut self) -> Result<Option<SentBatch>> {
        if !std::mem::take(&mut self.sending) {
            return Ok(None);
        }
        match self.answers.recv() {
            Ok(answer) => answer.map(Some),
            Err(_) => Err(Error::Undecided(
                "the thread that sends files ended; repeat `esker import tree`".into(),
            )),
        }
    }
}
