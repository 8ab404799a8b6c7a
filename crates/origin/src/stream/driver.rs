//! The task that owns a connection: commands out, replies in, time limits.

use super::chain::{FollowUp, Job, ReplyReader};
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

/// Maximum number of encoded bytes that wait to be written; further commands wait unencoded.
const OUT_BYTES: usize = 64 << 10;
/// Maximum number of bytes per read.
const READ_BYTES: usize = 32 << 10;
/// Interval at which the rate of a slow reply is checked.
const CHECK_INTERVAL: Duration = Duration::from_secs(1);

pub(super) struct Driver<C: Codec, S> {
    read: ReadHalf<S>,
    write: WriteHalf<S>,
    codec: C,
    inbox: mpsc::UnboundedReceiver<Vec<Job<C>>>,
    queue: VecDeque<Job<C>>,
    in_flight: VecDeque<Box<dyn ReplyReader<C>>>,
    input: BytesMut,
    out: BytesMut,
    /// Whether bytes are to be written, or written bytes may be in a lower buffer such as that of TLS.
    unflushed: bool,
    shared: Arc<Shared>,
    limits: Limits,
    /// Time of the last item, or of the first command after an idle time.
    heard: Instant,
    /// Time since which the oldest command's reply is due, and the bytes of it so far.
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
            in_flight: VecDeque::new(),
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
        // Only the request whose reply was invalid gets the protocol error; the others get a broken connection and can retry.
        let to_others = match &error {
            Error::Protocol { .. } => self.broken(&error.to_string()),
            _ => error.clone(),
        };
        // The reason is set first, so that a caller that finds the inbox closed also finds the reason.
        let ended = self.shared.ended.get_or_init(|| to_others).clone();
        self.inbox.close();
        if let Some(mut reader) = self.in_flight.pop_front() {
            reader.fail(&error);
        }
        let error = ended;
        for mut reader in self.in_flight.drain(..) {
            reader.fail(&error);
        }
        for mut job in self.queue.drain(..) {
            job.reader.fail(&error);
        }
        while let Ok(jobs) = self.inbox.try_recv() {
            for mut job in jobs {
                job.reader.fail(&error);
            }
        }
    }

    /// Returns without an error when all senders are gone.
    async fn work(&mut self) -> Result<(), Error> {
        loop {
            self.fill()?;
            // Reserved for one large read, not limited by the rest of the buffer.
            self.input.reserve(READ_BYTES);
            let deadline = self.deadline();
            tokio::select! {
                jobs = self.inbox.recv() => {
                    let Some(jobs) = jobs else { return Ok(()) };
                    self.queue.extend(jobs);
                    // Tasks woken by the same bytes can now send requests, which share one write.
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
                    self.process_input()?;
                }
                pushed = push(&mut self.write, &mut self.out), if self.unflushed => {
                    match pushed {
                        Ok(flushed) => self.unflushed = !flushed,
                        Err(error) => return Err(self.broken(&error.to_string())),
                    }
                }
                () = self.shared.given_up.notified() => return Err(self.broken("it was given up")),
                () = sleep_until(deadline), if !self.in_flight.is_empty() => self.check_progress()?,
            }
        }
    }

    /// Encodes queued commands into the output buffer.
    fn fill(&mut self) -> Result<(), Error> {
        let width = self.shared.width.load(Ordering::Relaxed);
        while self.in_flight.len() < width && self.out.len() < OUT_BYTES {
            let Some(job) = self.queue.pop_front() else {
                break;
            };
            if !job.reader.is_wanted() {
                continue;
            }
            if self.in_flight.is_empty() {
                self.heard = Instant::now();
                self.front = (self.heard, 0);
            }
            self.unflushed = true;
            let encoded = self.codec.encode(&job.command, &mut self.out);
            self.in_flight.push_back(job.reader);
            encoded.map_err(|fault| self.fault(fault))?;
        }
        Ok(())
    }

    /// Processes all complete items.
    fn process_input(&mut self) -> Result<(), Error> {
        loop {
            let decoded = self.codec.decode(&mut self.input);
            let Some(item) = decoded.map_err(|fault| self.fault(fault))? else {
                break;
            };
            self.heard = Instant::now();
            let ends = C::ends(&item);
            let Some(front) = self.in_flight.front_mut() else {
                return Err(Error::Protocol {
                    origin: self.shared.origin.clone(),
                    why: "it sent a reply without a request".into(),
                });
            };
            // Counts arrived bytes, not parsed ones: a sufficient approximation.
            let bytes = self.front.1;
            let after = if front.is_wanted() {
                front.item(item, ends, &self.shared.origin)
            } else if bytes > self.limits.unwanted as u64 {
                return Err(self.broken("a reply that no request waits for does not end"));
            } else {
                FollowUp::Nothing
            };
            if bytes > self.limits.reply as u64 {
                return Err(Error::Protocol {
                    origin: self.shared.origin.clone(),
                    why: format!("a reply of more than {} bytes", self.limits.reply).into(),
                });
            }
            if ends {
                self.in_flight.pop_front();
                self.front = (self.heard, self.input.len() as u64);
            }
            match after {
                FollowUp::Nothing => {}
                FollowUp::Send(jobs) => self.queue.extend(jobs),
                FollowUp::Break(error) => return Err(error),
            }
        }
        if self.input.len() > self.limits.buffer {
            return Err(Error::Protocol {
                origin: self.shared.origin.clone(),
                why: format!("more than {} bytes without an end", self.limits.buffer).into(),
            });
        }
        Ok(())
    }

    fn deadline(&self) -> Instant {
        let silence = self.heard + self.limits.silence;
        let slow = (self.front.0 + self.limits.grace).max(Instant::now() + CHECK_INTERVAL);
        silence.min(slow)
    }

    /// Checks that the awaited reply arrives, and fast enough.
    fn check_progress(&mut self) -> Result<(), Error> {
        if self.shared.at_work.swap(false, Ordering::Relaxed) {
            self.heard = Instant::now();
            self.front = (self.heard, 0);
            return Ok(());
        }
        let timed_out = |waited: Duration| Error::TimedOut {
            origin: self.shared.origin.clone(),
            seconds: waited.as_secs().max(1),
        };
        if self.heard.elapsed() >= self.limits.silence {
            return Err(timed_out(self.limits.silence));
        }
        let (since, bytes) = self.front;
        let waited = since.elapsed();
        if waited >= self.limits.grace && bytes / waited.as_secs().max(1) < self.limits.slowest {
            return Err(timed_out(waited));
        }
        Ok(())
    }

    fn fault(&self, fault: Fault) -> Error {
        match fault {
            Fault::Protocol(why) => Error::Protocol {
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

/// Writes a part of `out`; if it is empty, flushes and returns true. May be cancelled at any time.
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
