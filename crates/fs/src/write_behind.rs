//! Write-behind: changes of names, and files with small contents, that are queued and sent in batches.
//!
//! Changes are applied in the order in which they were queued. Reads through the same [`crate::Fs`] send the queue
//! first, so they see all changes; other clients see them once they are sent. The next flush reports changes that
//! failed.

use crate::Result;
use crate::options::WriteBehind;
use esker_model::namespace::{AppliedChange, Change, Content, NamePath, NewFile};
use esker_model::object::Principal;
use esker_mount::direct::{Direct, Failure, Flags, OpenFile};
use parking_lot::{Condvar, Mutex};
use std::sync::{Arc, OnceLock};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

/// Largest number of changes in one call.
const CHANGES_PER_CALL: usize = 2_000;
/// Largest size of the contents in one call, in bytes.
const BYTES_PER_CALL: usize = 2 << 20;
/// Largest size of the contents in the queue, in bytes.
const QUEUED_BYTES_MAX: usize = 32 << 20;
const EEXIST: i32 = 17;
const EIO: i32 = 5;

/// The queue of changes, with the thread that sends them.
#[derive(Debug)]
pub(crate) struct WriteBehindQueue {
    inner: Arc<Inner>,
    thread: Option<JoinHandle<()>>,
}

#[derive(Debug)]
struct Inner {
    direct: Arc<Direct>,
    principal: Principal,
    options: WriteBehind,
    state: Mutex<State>,
    changed: Condvar,
    /// Held while sending, so that earlier changes are applied first.
    sending: Mutex<()>,
}

#[derive(Debug, Default)]
struct State {
    queued: Vec<QueuedChange>,
    /// Number of the current `queued` list; a ticket with another number refers to a list that was taken for sending.
    batch: u64,
    bytes: usize,
    oldest: Option<Instant>,
    /// The first failed change and the number of failed changes.
    failed: Option<(Failure, usize)>,
    closed: bool,
}

#[derive(Debug)]
struct QueuedChange {
    change: Change,
    /// Open flags and outcome of a file to create.
    file: Option<(Flags, Arc<CreateOutcome>)>,
}

/// Outcome of a queued creation: `None` if the file existed already.
type CreateOutcome = OnceLock<Result<Option<AppliedChange>>>;

/// A ticket for a file whose creation is queued.
#[derive(Debug)]
pub(crate) struct Ticket {
    batch: u64,
    index: usize,
    outcome: Arc<CreateOutcome>,
}

impl WriteBehindQueue {
    pub(crate) fn new(
        direct: &Arc<Direct>,
        principal: &Principal,
        options: WriteBehind,
    ) -> std::io::Result<Self> {
        let inner = Arc::new(Inner {
            direct: Arc::clone(direct),
            principal: principal.clone(),
            options,
            state: Mutex::default(),
            changed: Condvar::new(),
            sending: Mutex::default(),
        });
        let work = Arc::clone(&inner);
        let thread = std::thread::Builder::new()
            .name("esker-behind".into())
            .spawn(move || work.work())?;
        Ok(Self {
            inner,
            thread: Some(thread),
        })
    }

    /// Queues the creation of a file that is open from now on.
    pub(crate) fn create(&self, path: &NamePath, flags: Flags, make: NewFile) -> Result<Ticket> {
        let outcome = Arc::new(CreateOutcome::new());
        let queued = QueuedChange {
            change: Change::Create(path.clone(), make),
            file: Some((flags, Arc::clone(&outcome))),
        };
        let (batch, index) = self.add(queued)?;
        Ok(Ticket {
            batch,
            index,
            outcome,
        })
    }

    /// Adds a change to the queue.
    pub(crate) fn enqueue(&self, change: Change) -> Result<()> {
        self.add(QueuedChange { change, file: None })?;
        Ok(())
    }

    fn add(&self, queued: QueuedChange) -> Result<(u64, usize)> {
        let inner = &self.inner;
        let full = |state: &State| {
            state.queued.len() >= inner.options.most.max(1) || state.bytes >= QUEUED_BYTES_MAX
        };
        let mut state = inner.state.lock();
        if full(&state) {
            drop(state);
            inner.send()?;
            state = inner.state.lock();
        }
        if state.oldest.is_none() {
            state.oldest = Some(Instant::now());
            inner.changed.notify_one();
        }
        state.queued.push(queued);
        Ok((state.batch, state.queued.len() - 1))
    }

    /// Adds bytes to the content of a queued file. Returns false if they would leave a hole or exceed the inline size,
    /// or if the file was created meanwhile.
    pub(crate) fn write(&self, ticket: &Ticket, data: &[u8], offset: u64) -> bool {
        let mut state = self.inner.state.lock();
        if state.batch != ticket.batch {
            return false;
        }
        let Some(QueuedChange {
            change: Change::Create(_, make),
            ..
        }) = state.queued.get_mut(ticket.index)
        else {
            return false;
        };
        if make.content == Content::None {
            make.content = Content::Inline(Vec::new());
        }
        let Content::Inline(content) = &mut make.content else {
            return false;
        };
        let at = usize::try_from(offset).unwrap_or(usize::MAX);
        let Some(end) = at.checked_add(data.len()) else {
            return false;
        };
        if at > content.len() || end > self.inner.direct.inline_bytes() {
            return false;
        }
        let more = end.saturating_sub(content.len());
        if more > 0 {
            content.resize(end, 0);
        }
        if let Some(place) = content.get_mut(at..end) {
            place.copy_from_slice(data);
        }
        state.bytes += more;
        true
    }

    /// Sends all queued changes and returns the outcome of a creation.
    pub(crate) fn outcome_of(&self, ticket: &Ticket) -> Result<Option<AppliedChange>> {
        self.inner.send()?;
        let unknown = || Err(Failure::new(EIO, "a file whose write was buffered"));
        ticket.outcome.get().cloned().unwrap_or_else(unknown)
    }

    /// Sends all queued changes.
    pub(crate) fn send(&self) -> Result<()> {
        if self.inner.state.lock().queued.is_empty() {
            // The lock waits for changes that another thread is sending.
            drop(self.inner.sending.lock());
            if self.inner.state.lock().queued.is_empty() {
                return Ok(());
            }
        }
        self.inner.send()
    }

    /// Sends all queued changes, and returns the errors of changes since the last flush.
    pub(crate) fn flush(&self) -> Result<()> {
        self.inner.send()?;
        match self.inner.state.lock().failed.take() {
            None => Ok(()),
            Some((failure, 1)) => Err(failure),
            Some((Failure { errno, text }, n)) => Err(Failure {
                errno,
                text: format!("{n} buffered changes could not be applied, the first: {text}"),
            }),
        }
    }
}

/// Sends the queued changes; their errors are lost.
impl Drop for WriteBehindQueue {
    fn drop(&mut self) {
        self.inner.state.lock().closed = true;
        self.inner.changed.notify_one();
        if let Some(thread) = self.thread.take() {
            let _ = thread.join();
        }
        let _ = self.inner.send();
    }
}

impl State {
    fn take(&mut self) -> Vec<QueuedChange> {
        self.batch += 1;
        self.bytes = 0;
        self.oldest = None;
        std::mem::take(&mut self.queued)
    }

    /// Puts changes that could not be sent before later ones. Tickets of their files no longer find them.
    fn requeue(&mut self, mut queued: Vec<QueuedChange>) {
        queued.append(&mut self.take());
        self.oldest = Some(Instant::now());
        self.queued = queued;
    }

    fn fail(&mut self, failure: Failure) {
        match &mut self.failed {
            Some((_, n)) => *n += 1,
            none => *none = Some((failure, 1)),
        }
    }
}

impl Inner {
    fn send(&self) -> Result<()> {
        let _sending = self.sending.lock();
        let mut queued = self.state.lock().take();
        while !queued.is_empty() {
            let rest = queued.split_off(call_len(&queued));
            let (changes, files): (Vec<Change>, Vec<_>) =
                queued.into_iter().map(|h| (h.change, h.file)).unzip();
            match self.direct.change_many(&self.principal, &changes) {
                Ok(answers) => {
                    let all = changes.into_iter().zip(files).zip(answers);
                    for ((change, file), answer) in all {
                        self.answered(&change, file, answer);
                    }
                }
                Err(e) => {
                    // A call that failed as a whole has changed nothing, or the target recognises its repetition.
                    let pairs = changes.into_iter().zip(files);
                    let mut back: Vec<QueuedChange> = pairs
                        .map(|(change, file)| QueuedChange { change, file })
                        .collect();
                    back.extend(rest);
                    self.state.lock().requeue(back);
                    return Err(e);
                }
            }
            queued = rest;
        }
        Ok(())
    }

    fn answered(
        &self,
        change: &Change,
        file: Option<(Flags, Arc<CreateOutcome>)>,
        answer: Result<AppliedChange>,
    ) {
        let Some((flags, outcome)) = file else {
            if let Err(e) = answer {
                self.state.lock().fail(e);
            }
            return;
        };
        let answer = match (answer, change) {
            // A file that exists already is opened instead.
            (Err(e), Change::Create(path, make)) if e.errno == EEXIST && !flags.exclusive => {
                self.write_over(path, make, flags).map(|()| None)
            }
            (answer, _) => answer.map(Some),
        };
        if let Err(e) = &answer {
            self.state.lock().fail(e.clone());
        }
        let _ = outcome.set(answer);
    }

    /// Writes the content that was queued for a new file at the beginning of the existing one.
    fn write_over(&self, path: &NamePath, make: &NewFile, flags: Flags) -> Result<()> {
        let content: &[u8] = match &make.content {
            Content::Inline(content) => content,
            _ => &[],
        };
        if content.is_empty() && !flags.truncate {
            return Ok(());
        }
        let flags = Flags {
            create: false,
            ..flags
        };
        let file = OpenFile::open(&self.direct, &self.principal, path, flags, 0)?;
        if !content.is_empty() {
            file.write_at(content, 0)?;
        }
        file.close()
    }

    /// Sends changes that are old enough or enough for a call, until the queue is closed.
    fn work(&self) {
        let mut state = self.state.lock();
        while !state.closed {
            let due = state.oldest.map(|oldest| oldest + self.options.age);
            match due.map(|due| due.saturating_duration_since(Instant::now())) {
                Some(Duration::ZERO) => {
                    drop(state);
                    // Changes that cannot be sent stay queued, and the next flush reports the error.
                    let _ = self.send();
                    state = self.state.lock();
                }
                Some(left) => {
                    self.changed.wait_for(&mut state, left);
                }
                None => self.changed.wait(&mut state),
            }
        }
    }
}

/// Returns the number of changes for the next call.
fn call_len(queued: &[QueuedChange]) -> usize {
    let mut bytes = 0;
    for (n, queued) in queued.iter().enumerate().take(CHANGES_PER_CALL) {
        if let Change::Create(
            _,
            NewFile {
                content: Content::Inline(content),
                ..
            },
        ) = &queued.change
        {
            bytes += content.len();
        }
        if bytes > BYTES_PER_CALL {
            return n.max(1);
        }
    }
    queued.len().min(CHANGES_PER_CALL)
}
