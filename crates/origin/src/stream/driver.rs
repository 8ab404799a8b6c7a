//! The task that owns a connection: commands out, replies in, the clock.

use super::chain::{After, Job, Take};
use super::{Codec, Fault, Limits, Shared};
use crate::error::Error;
use bytes::BytesMut;
use std::collections::VecDeque;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;
use tokio::io::{AsyncRead, AsyncReadExt, AsyncWrite, AsyncWriteExt, ReadHalf, WriteHalf, split};
use tokio::sync::mpsc;
use tokio::time::{Instant, sleep_until};

/// Bytes of commands that wait to be written at most; more commands wait as such.
const OUT_BYTES: usize = 64 << 10;
/// Bytes that one read may take.
const READ_BYTES: usize = 32 << 10;
/// How often a slow reply is looked at, once it is one.
const LOOK: Duration = Duration::from_secs(1);

pub(super) struct Driver<C: Codec, S> {
    read: ReadHalf<S>,
    write: WriteHalf<S>,
    codec: C,
    inbox: mpsc::UnboundedReceiver<Vec<Job<C>>>,
    queue: VecDeque<Job<C>>,
    flying: VecDeque<Box<dyn Take<C>>>,
    input: BytesMut,
    out: BytesMut,
    /// There is something to be written, or what was written may stand in a buffer below, that of TLS for example.
    unflushed: bool,
    shared: Arc<Shared>,
    limits: Limits,
    /// When an item came last, or the first command went out after a time without any.
    heard: Instant,
    /// Since when the reply to the oldest command is the next to come, and the bytes of it.
    front: (Instant, u64),
}

impl<C: Codec, S: AsyncRead + AsyncWrite + Send + 'static> Driver<C, S> {
    pub(super) fn new(
        io: S,
        codec: C,
        inbox: mpsc::UnboundedReceiver<Vec<Job<C>>>,
        shared: Arc<Shared>,
        limits: Limits,
    ) -> Self {
        let (read, write) = split(io);
        let now = Instant::now();
        Self {
            read,
            write,
            codec,
            inbox,
            queue: VecDeque::new(),
            flying: VecDeque::new(),
            input: BytesMut::new(),
            out: BytesMut::new(),
            unflushed: false,
            shared,
            limits,
            heard: now,
            front: (now, 0),
        }
    }

    pub(super) async fn run(mut self) {
        let Err(error) = self.work().await else {
            return;
        };
        // Only whose reply it was is told of nonsense; to all others the connection just broke, and they may ask elsewhere.
        let to_others = match &error {
            Error::Nonsense { .. } => self.broken(&error.to_string()),
            _ => error.clone(),
        };
        // First the reason, so that whoever finds the inbox closed finds it, too.
        let ended = self.shared.ended.get_or_init(|| to_others).clone();
        self.inbox.close();
        if let Some(mut take) = self.flying.pop_front() {
            take.fail(&error);
        }
        let error = ended;
        for mut take in self.flying.drain(..) {
            take.fail(&error);
        }
        for mut job in self.queue.drain(..) {
            job.take.fail(&error);
        }
        while let Ok(jobs) = self.inbox.try_recv() {
            for mut job in jobs {
                job.take.fail(&error);
            }
        }
    }

    /// Ends well when nobody can ask any more.
    async fn work(&mut self) -> Result<(), Error> {
        loop {
            self.fill()?;
            // As much as there is in one read, not what happens to be left of the buffer.
            self.input.reserve(READ_BYTES);
            let deadline = self.deadline();
            tokio::select! {
                jobs = self.inbox.recv() => {
                    let Some(jobs) = jobs else { return Ok(()) };
                    self.queue.extend(jobs);
                    // Who was woken by the same bytes asks now, too: one write for all of them.
                    tokio::task::yield_now().await;
                    while let Ok(jobs) = self.inbox.try_recv() {
                        self.queue.extend(jobs);
                    }
                }
                read = self.read.read_buf(&mut self.input) => {
                    match read {
                        Ok(0) => return Err(self.broken("the server closed it")),
                        Ok(count) => self.front.1 += count as u64,
                        Err(error) => return Err(self.broken(&error.to_string())),
                    }
                    self.take()?;
                }
                pushed = push(&mut self.write, &mut self.out), if self.unflushed => {
                    match pushed {
                        Ok(flushed) => self.unflushed = !flushed,
                        Err(error) => return Err(self.broken(&error.to_string())),
                    }
                }
                () = self.shared.given_up.notified() => return Err(self.broken("it was given up")),
                () = sleep_until(deadline), if !self.flying.is_empty() => self.look()?,
            }
        }
    }

    /// Commands from the queue into what is written next.
    fn fill(&mut self) -> Result<(), Error> {
        let width = self.shared.width.load(Ordering::Relaxed);
        while self.flying.len() < width && self.out.len() < OUT_BYTES {
            let Some(job) = self.queue.pop_front() else {
                break;
            };
            if !job.take.wanted() {
                continue;
            }
            if self.flying.is_empty() {
                self.heard = Instant::now();
                self.front = (self.heard, 0);
            }
            self.unflushed = true;
            let encoded = self.codec.encode(&job.command, &mut self.out);
            self.flying.push_back(job.take);
            encoded.map_err(|fault| self.fault(fault))?;
        }
        Ok(())
    }

    /// All items that have come.
    fn take(&mut self) -> Result<(), Error> {
        loop {
            let decoded = self.codec.decode(&mut self.input);
            let Some(item) = decoded.map_err(|fault| self.fault(fault))? else {
                break;
            };
            self.heard = Instant::now();
            let ends = C::ends(&item);
            let Some(front) = self.flying.front_mut() else {
                return Err(Error::Nonsense {
                    origin: self.shared.origin.clone(),
                    why: "it replies to what nobody said".into(),
                });
            };
            // Bytes that have come, not those that were read: near enough.
            let bytes = self.front.1;
            let after = if front.wanted() {
                front.item(item, ends, &self.shared.origin)
            } else if bytes > self.limits.unwanted as u64 {
                return Err(self.broken("a reply for which nobody waits does not end"));
            } else {
                After::Nothing
            };
            if bytes > self.limits.reply as u64 {
                return Err(Error::Nonsense {
                    origin: self.shared.origin.clone(),
                    why: format!("a reply of more than {} bytes", self.limits.reply).into(),
                });
            }
            if ends {
                self.flying.pop_front();
                self.front = (self.heard, self.input.len() as u64);
            }
            match after {
                After::Nothing => {}
                After::Ask(jobs) => self.queue.extend(jobs),
                After::Break(error) => return Err(error),
            }
        }
        if self.input.len() > self.limits.buffer {
            return Err(Error::Nonsense {
                origin: self.shared.origin.clone(),
                why: format!("more than {} bytes without an end", self.limits.buffer).into(),
            });
        }
        Ok(())
    }

    fn deadline(&self) -> Instant {
        let silence = self.heard + self.limits.silence;
        let slow = (self.front.0 + self.limits.grace).max(Instant::now() + LOOK);
        silence.min(slow)
    }

    /// Whether what is awaited comes at all, and fast enough.
    fn look(&mut self) -> Result<(), Error> {
        if self.shared.at_work.swap(false, Ordering::Relaxed) {
            self.heard = Instant::now();
            self.front = (self.heard, 0);
            return Ok(());
        }
        let late = |waited: Duration| Error::Late {
            origin: self.shared.origin.clone(),
            seconds: waited.as_secs().max(1),
        };
        if self.heard.elapsed() >= self.limits.silence {
            return Err(late(self.limits.silence));
        }
        let (since, bytes) = self.front;
        let waited = since.elapsed();
        if waited >= self.limits.grace && bytes / waited.as_secs().max(1) < self.limits.slowest {
            return Err(late(waited));
        }
        Ok(())
    }

    fn fault(&self, fault: Fault) -> Error {
        match fault {
            Fault::Nonsense(why) => Error::Nonsense {
                origin: self.shared.origin.clone(),
                why,
            },
            Fault::Closing(why) => self.broken(&why),
        }
    }

    fn broken(&self, why: &str) -> Error {
        Error::Broken {
            origin: self.shared.origin.clone(),
            why: why.into(),
        }
    }
}

/// Writes some of what there is; when there is nothing more, flushes, and says so. May be dropped at any time.
async fn push<W: AsyncWrite + Unpin>(write: &mut W, out: &mut BytesMut) -> std::io::Result<bool> {
    if out.is_empty() {
        write.flush().await?;
        return Ok(true);
    }
    if write.write_buf(out).await? == 0 {
        return Err(std::io::ErrorKind::WriteZero.into());
    }
    Ok(false)
}
