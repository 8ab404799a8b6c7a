//! Write-behind: changes of names, and files with small contents, that are held back and sent many at once.
//!
//! They are made in the order in which they came. Whoever asks anything of the same [`crate::Fs`] sees them all, for they are sent
//! before; others see them once they are sent. What could not be made is told by the next flush.

use crate::Result;
use crate::options::WriteBehind;
use esker_model::namespace::{Change, Content, Done, Make, NamePath};
use esker_model::object::Asker;
use esker_mount::direct::{Direct, Failure, Flags, OpenFile};
use parking_lot::{Condvar, Mutex};
use std::sync::{Arc, OnceLock};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

/// Changes of one call.
const TOGETHER: usize = 2_000;
/// Bytes of contents of one call.
const TOGETHER_BYTES: usize = 2 << 20;
/// Contents that are held, in bytes.
const BYTES_MAX: usize = 32 << 20;
const EEXIST: i32 = 17;
const EIO: i32 = 5;

/// Changes that are held back.
#[derive(Debug)]
pub(crate) struct Late {
    inner: Arc<Inner>,
    thread: Option<JoinHandle<()>>,
}

#[derive(Debug)]
struct Inner {
    direct: Arc<Direct>,
    asker: Asker,
    options: WriteBehind,
    state: Mutex<State>,
    changed: Condvar,
    /// Held by who sends: what came first is made first.
    sending: Mutex<()>,
}

#[derive(Debug, Default)]
struct State {
    held: Vec<Held>,
    /// Of which `held` it is: tickets of others are of what was taken from here.
    batch: u64,
    bytes: usize,
    oldest: Option<Instant>,
    /// The first change that could not be made, and how many.
    failed: Option<(Failure, usize)>,
    closed: bool,
}

#[derive(Debug)]
struct Held {
    change: Change,
    /// How a file was opened that is to be made.
    file: Option<(Flags, Arc<Told>)>,
}

/// What became of a file that was to be made: it was, or there had been one already.
type Told = OnceLock<Result<Option<Done>>>;

/// A file that is to be made.
#[derive(Debug)]
pub(crate) struct Ticket {
    batch: u64,
    index: usize,
    told: Arc<Told>,
}

impl Late {
    pub(crate) fn new(
        direct: &Arc<Direct>,
        asker: &Asker,
        options: WriteBehind,
    ) -> std::io::Result<Self> {
        let inner = Arc::new(Inner {
            direct: Arc::clone(direct),
            asker: asker.clone(),
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

    /// A file is to be made, if there is none, and is open.
    pub(crate) fn create(&self, path: &NamePath, flags: Flags, make: Make) -> Result<Ticket> {
        let told = Arc::new(Told::new());
        let held = Held {
            change: Change::Make(path.clone(), make),
            file: Some((flags, Arc::clone(&told))),
        };
        let (batch, index) = self.add(held)?;
        Ok(Ticket { batch, index, told })
    }

    /// A change is to be made.
    pub(crate) fn hold(&self, change: Change) -> Result<()> {
        self.add(Held { change, file: None })?;
        Ok(())
    }

    fn add(&self, held: Held) -> Result<(u64, usize)> {
        let inner = &self.inner;
        let full = |state: &State| {
            state.held.len() >= inner.options.most.max(1) || state.bytes >= BYTES_MAX
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
        state.held.push(held);
        Ok((state.batch, state.held.len() - 1))
    }

    /// Bytes go into a file that is to be made. Not where they would leave a hole, or are too many, or it was made meanwhile.
    pub(crate) fn write(&self, ticket: &Ticket, data: &[u8], offset: u64) -> bool {
        let mut state = self.inner.state.lock();
        if state.batch != ticket.batch {
            return false;
        }
        let Some(Held {
            change: Change::Make(_, make),
            ..
        }) = state.held.get_mut(ticket.index)
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

    /// What became of a file that was to be made: all that is held is sent for that.
    pub(crate) fn settled(&self, ticket: &Ticket) -> Result<Option<Done>> {
        self.inner.send()?;
        let unknown = || Err(Failure::new(EIO, "a file that was held back"));
        ticket.told.get().cloned().unwrap_or_else(unknown)
    }

    /// Sends what is held.
    pub(crate) fn send(&self) -> Result<()> {
        if self.inner.state.lock().held.is_empty() {
            // What somebody else is sending is seen, too.
            drop(self.inner.sending.lock());
            if self.inner.state.lock().held.is_empty() {
                return Ok(());
            }
        }
        self.inner.send()
    }

    /// Sends what is held, and says what of all that was taken since the last time could not be made.
    pub(crate) fn flush(&self) -> Result<()> {
        self.inner.send()?;
        match self.inner.state.lock().failed.take() {
            None => Ok(()),
            Some((failure, 1)) => Err(failure),
            Some((Failure { errno, text }, n)) => Err(Failure {
                errno,
                text: format!(
                    "{n} changes that were held back could not be made, the first: {text}"
                ),
            }),
        }
    }
}

/// What is held is sent; what becomes of it nobody is told.
impl Drop for Late {
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
    fn take(&mut self) -> Vec<Held> {
        self.batch += 1;
        self.bytes = 0;
        self.oldest = None;
        std::mem::take(&mut self.held)
    }

    /// What could not be sent comes before what came since. Nobody finds their file in it by its ticket any more.
    fn give_back(&mut self, mut held: Vec<Held>) {
        held.append(&mut self.take());
        self.oldest = Some(Instant::now());
        self.held = held;
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
        let mut held = self.state.lock().take();
        while !held.is_empty() {
            let rest = held.split_off(one_call(&held));
            let (changes, files): (Vec<Change>, Vec<_>) =
                held.into_iter().map(|h| (h.change, h.file)).unzip();
            match self.direct.change_many(&self.asker, &changes) {
                Ok(answers) => {
                    let all = changes.into_iter().zip(files).zip(answers);
                    for ((change, file), answer) in all {
                        self.answered(&change, file, answer);
                    }
                }
                Err(e) => {
                    // A call that failed as a whole has done nothing, or is known to the target as done when it comes again.
                    let pairs = changes.into_iter().zip(files);
                    let mut back: Vec<Held> =
                        pairs.map(|(change, file)| Held { change, file }).collect();
                    back.extend(rest);
                    self.state.lock().give_back(back);
                    return Err(e);
                }
            }
            held = rest;
        }
        Ok(())
    }

    fn answered(&self, change: &Change, file: Option<(Flags, Arc<Told>)>, answer: Result<Done>) {
        let Some((flags, told)) = file else {
            if let Err(e) = answer {
                self.state.lock().fail(e);
            }
            return;
        };
        let answer = match (answer, change) {
            // Whoever makes a file that is there opens it.
            (Err(e), Change::Make(path, make)) if e.errno == EEXIST && !flags.exclusive => {
                self.write_over(path, make, flags).map(|()| None)
            }
            (answer, _) => answer.map(Some),
        };
        if let Err(e) = &answer {
            self.state.lock().fail(e.clone());
        }
        let _ = told.set(answer);
    }

    /// What was to be the content of a new file is the beginning of one that is there.
    fn write_over(&self, path: &NamePath, make: &Make, flags: Flags) -> Result<()> {
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
        let file = OpenFile::open(&self.direct, &self.asker, path, flags, 0)?;
        if !content.is_empty() {
            file.write_at(content, 0)?;
        }
        file.close()
    }

    /// Sends what has been held for long enough, or is enough for a call, until it is closed.
    fn work(&self) {
        let mut state = self.state.lock();
        while !state.closed {
            let due = state.oldest.map(|oldest| oldest + self.options.age);
            match due.map(|due| due.saturating_duration_since(Instant::now())) {
                Some(Duration::ZERO) => {
                    drop(state);
                    // It stays held if it cannot be sent, and whoever flushes is told.
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

/// How many of them go into one call.
fn one_call(held: &[Held]) -> usize {
    let mut bytes = 0;
    for (n, held) in held.iter().enumerate().take(TOGETHER) {
        if let Change::Make(
            _,
            Make {
                content: Content::Inline(content),
                ..
            },
        ) = &held.change
        {
            bytes += content.len();
        }
        if bytes > TOGETHER_BYTES {
            return n.max(1);
        }
    }
    held.len().min(TOGETHER)
}
