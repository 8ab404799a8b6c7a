//! An SFTP connection: numbered requests are sent immediately, replies are matched by number.

use super::packet::{self, Greeting, Name, ReplyPacket, Request};
use crate::children::Children;
use crate::error::{Error, Result, printable};
use crate::request::{MetadataRequest, PathMetadata};
use crate::session::Session;
use crate::unix;
use esker_site_cache::entry::{Attributes, Kind, Wants};
use futures_util::future::BoxFuture;
use std::collections::{HashMap, VecDeque};
use std::sync::atomic::AtomicUsize;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;
use tokio::io::{AsyncRead, AsyncReadExt as _, AsyncWrite, AsyncWriteExt as _, BufReader};
use tokio::sync::{mpsc, oneshot};
use tokio::task::{AbortHandle, JoinHandle};
use tokio::time::{Instant, interval, timeout};

/// Maximum number of requests in flight, as in OpenSSH's client.
const WIDTH: usize = 64;
/// Read-ahead of a directory in requests, at first and at most. OpenSSH answers each with up to 100 names.
const READ_AHEAD: (usize, usize) = (4, 32);
/// Number of replies without names after which a listing is taken for endless.
const EMPTY_MAX: usize = 16;
/// A reply must be complete within this multiple of `silence`, even if other packets arrive.
const SILENCES: u32 = 4;

const OK: u32 = 0;
const EOF: u32 = 1;
const NO_SUCH_FILE: u32 = 2;
const PERMISSION_DENIED: u32 = 3;
const BAD_MESSAGE: u32 = 5;
const NO_CONNECTION: u32 = 6;
const CONNECTION_LOST: u32 = 7;
const OP_UNSUPPORTED: u32 = 8;

/// The transport of a connection, which knows why the connection ended.
pub(crate) trait Carrier: Send + 'static {
    /// Converts the transport's last messages to an error.
    fn ended(&mut self, why: String, greeted: bool) -> BoxFuture<'_, Error>;
}

/// A reply as it is delivered. An unused handle is closed.
enum DeliveredReply {
    Status(u32, Box<[u8]>),
    Handle(Handle),
    Names(Vec<Name>),
    Attributes(Attributes),
}

/// An open directory, closed on drop.
struct Handle {
    wire: Arc<SftpConnection>,
    bytes: Box<[u8]>,
}

impl Drop for Handle {
    fn drop(&mut self) {
        self.wire
            .send(&Request::Close(std::mem::take(&mut self.bytes)), None);
    }
}

type ReplySender = oneshot::Sender<Result<DeliveredReply>>;

struct SftpPending {
    /// Requests without a reply: the time sent and the waiter, `None` for closing a directory.
    waiting: HashMap<u32, (Instant, Option<ReplySender>)>,
    next: u32,
    /// Time of the last complete packet.
    heard: Instant,
    broken: Option<Error>,
}

struct SftpConnection {
    origin: Box<str>,
    out: mpsc::UnboundedSender<Vec<u8>>,
    open: Mutex<SftpPending>,
    /// Number of names in all listings that are being read.
    names: Arc<AtomicUsize>,
}

impl SftpConnection {
    fn lock(&self) -> MutexGuard<'_, SftpPending> {
        self.open.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn send(&self, request: &Request, waiter: Option<ReplySender>) {
        let mut open = self.lock();
        if let Some(error) = &open.broken {
            if let Some(waiter) = waiter {
                // The receiver may be gone.
                let _ = waiter.send(Err(error.clone()));
            }
            return;
        }
        let id = open.next;
        open.next = id.wrapping_add(1);
        open.waiting.insert(id, (Instant::now(), waiter));
        let mut packet = Vec::new();
        request.encode(id, &mut packet);
        // Sent under the lock, so that requests have the order of their numbers. The receiver is closed only if the connection is
        // broken, which all waiters learn.
        let _ = self.out.send(packet);
    }

    fn request(&self, request: &Request) -> oneshot::Receiver<Result<DeliveredReply>> {
        let (waiter, answer) = oneshot::channel();
        self.send(request, Some(waiter));
        answer
    }

    fn protocol_error(&self, why: &str) -> Error {
        Error::Protocol {
            origin: self.origin.clone(),
            why: why.into(),
        }
    }

    fn broken(&self, why: &str) -> Error {
        Error::Broken {
            origin: self.origin.clone(),
            why: why.into(),
        }
    }

    async fn wait(
        &self,
        answer: oneshot::Receiver<Result<DeliveredReply>>,
    ) -> Result<DeliveredReply> {
        let gone = |_| Err(self.broken("it was closed"));
        answer.await.unwrap_or_else(gone)
    }

    /// Delivers a packet to its waiter.
    fn deliver(self: &Arc<Self>, packet: &[u8]) -> Result<()> {
        let (id, reply) = packet::reply(packet).map_err(|why| self.protocol_error(why))?;
        let mut open = self.lock();
        open.heard = Instant::now();
        let Some((_, waiter)) = open.waiting.remove(&id) else {
            return Err(self.protocol_error("a reply without a request"));
        };
        drop(open);
        let answer = match reply {
            ReplyPacket::Status(code, words) => DeliveredReply::Status(code, words),
            ReplyPacket::Handle(bytes) => {
                let wire = self.clone();
                DeliveredReply::Handle(Handle { wire, bytes })
            }
            ReplyPacket::Names(names) => DeliveredReply::Names(names),
            ReplyPacket::Attributes(attributes) => DeliveredReply::Attributes(attributes),
        };
        if let Some(waiter) = waiter {
            // The receiver may be gone.
            let _ = waiter.send(Ok(answer));
        }
        Ok(())
    }

    /// Marks the connection as broken and passes the error to all waiters.
    fn end(&self, error: &Error) {
        let mut open = self.lock();
        open.broken = Some(error.clone());
        let waiting = std::mem::take(&mut open.waiting);
        drop(open);
        for (_, waiter) in waiting.into_values() {
            if let Some(waiter) = waiter {
                let _ = waiter.send(Err(error.clone()));
            }
        }
    }

    /// Returns when no reply arrived in time.
    async fn watch(&self, silence: Duration) -> Error {
        let mut ticks = interval((silence / 8).max(Duration::from_millis(10)));
        loop {
            ticks.tick().await;
            let open = self.lock();
            let Some(oldest) = open.waiting.values().map(|(since, _)| *since).min() else {
                continue;
            };
            let quiet = oldest.elapsed().min(open.heard.elapsed());
            // A server that only sends other packets counts as silent.
            if quiet > silence || oldest.elapsed() > silence * SILENCES {
                return Error::TimedOut {
                    origin: self.origin.clone(),
                    seconds: oldest.elapsed().as_secs(),
                };
            }
        }
    }

    /// Converts a status other than "no such file" to an error.
    fn refused(&self, code: u32, words: &[u8]) -> Error {
        let origin = self.origin.clone();
        let mut why = printable(words);
        if why.is_empty() {
            why = format!("status {code}").into();
        }
        match code {
            BAD_MESSAGE => Error::Protocol {
                origin,
                why: format!("it does not understand a request: {why}").into(),
            },
            NO_CONNECTION | CONNECTION_LOST => Error::Broken { origin, why },
            OP_UNSUPPORTED => Error::Unsupported { origin, why },
            _ => Error::Denied { origin, why },
        }
    }

    fn unexpected(&self) -> Error {
        self.protocol_error("a reply of another kind than requested")
    }
}

async fn read_loop(
    wire: &Arc<SftpConnection>,
    from: &mut (impl AsyncRead + Unpin),
) -> Result<String> {
    loop {
        match read_packet(from).await {
            Ok(Ok(packet)) => wire.deliver(&packet)?,
            Ok(Err(wrong)) => return Err(wire.protocol_error(wrong)),
            Err(error) => return Ok(end_reason(&error)),
        }
    }
}

fn end_reason(error: &std::io::Error) -> String {
    match error.kind() {
        std::io::ErrorKind::UnexpectedEof => "the server closed it".into(),
        _ => error.to_string(),
    }
}

async fn read_packet(
    from: &mut (impl AsyncRead + Unpin),
) -> std::io::Result<Result<Vec<u8>, packet::PacketError>> {
    let mut head = [0; 4];
    from.read_exact(&mut head).await?;
    let length = match packet::length(head) {
        Ok(length) => length,
        Err(wrong) => return Ok(Err(wrong)),
    };
    let mut packet = vec![0; length];
    from.read_exact(&mut packet).await?;
    Ok(Ok(packet))
}

/// Writes all queued packets in one write.
async fn write_loop(
    mut packets: mpsc::UnboundedReceiver<Vec<u8>>,
    mut to: impl AsyncWrite + Unpin,
) -> String {
    while let Some(mut bytes) = packets.recv().await {
        // An empty packet requests the close.
        let mut ends = bytes.is_empty();
        while let Ok(more) = packets.try_recv() {
            ends |= more.is_empty();
            bytes.extend(more);
        }
        if let Err(error) = to.write_all(&bytes).await {
            return error.to_string();
        }
        if ends {
            if let Err(error) = to.shutdown().await {
                return error.to_string();
            }
            // A child's pipe is closed only by dropping it; outstanding replies still arrive.
            drop(to);
            return std::future::pending().await;
        }
    }
    "it was closed".into()
}

/// A session with an SFTP server.
pub(crate) struct SftpSession {
    wire: Arc<SftpConnection>,
    greeting: Greeting,
    task: Mutex<Option<JoinHandle<()>>>,
    abort: AbortHandle,
}

impl Drop for SftpSession {
    fn drop(&mut self) {
        self.abort.abort();
    }
}

impl SftpSession {
    /// Exchanges versions with the server and returns the session.
    pub(crate) async fn begin(
        origin: Box<str>,
        from: impl AsyncRead + Unpin + Send + 'static,
        mut to: impl AsyncWrite + Unpin + Send + 'static,
        mut carrier: impl Carrier,
        silence: Duration,
    ) -> Result<Self> {
        let mut from = BufReader::with_capacity(64 << 10, from);
        let greeted = async {
            to.write_all(&packet::hello()).await?;
            to.flush().await?;
            read_packet(&mut from).await
        };
        let greeting = match greeted.await {
            Ok(Ok(packet)) => packet::greeting(&packet),
            Ok(Err(wrong)) => Err(wrong),
            Err(error) => return Err(carrier.ended(end_reason(&error), false).await),
        };
        let greeting = greeting.map_err(|why| Error::Protocol {
            origin: origin.clone(),
            why: why.into(),
        })?;
        let (out, packets) = mpsc::unbounded_channel();
        let open = SftpPending {
            waiting: HashMap::new(),
            next: 1,
            heard: Instant::now(),
            broken: None,
        };
        let wire = Arc::new(SftpConnection {
            origin,
            out,
            open: Mutex::new(open),
            names: Arc::default(),
        });
        let task = tokio::spawn({
            let wire = wire.clone();
            async move {
                let ended = tokio::select! {
                    ended = read_loop(&wire, &mut from) => ended,
                    why = write_loop(packets, to) => Ok(why),
                    timed_out = wire.watch(silence) => Err(timed_out),
                };
                // The end is reported immediately; the transport's messages take a while.
                wire.lock().broken = Some(wire.broken("it ended"));
                let error = match ended {
                    Ok(why) => carrier.ended(why, true).await,
                    Err(error) => error,
                };
                wire.end(&error);
            }
        });
        let abort = task.abort_handle();
        Ok(Self {
            wire,
            greeting,
            task: Mutex::new(Some(task)),
            abort,
        })
    }

    #[cfg(test)]
    pub(crate) async fn wire_readlink(&self) {
        let answer = self.wire.request(&Request::ReadLink(b"/"[..].into()));
        let _ = self.wire.wait(answer).await;
    }

    async fn stat(&self, path: Box<[u8]>) -> Result<PathMetadata> {
        let wire = &self.wire;
        let answer = wire.request(&Request::Lstat(path.clone()));
        let mut attributes = match wire.wait(answer).await? {
            DeliveredReply::Attributes(attributes) => attributes,
            DeliveredReply::Status(NO_SUCH_FILE, _) => return Ok(PathMetadata::Absent),
            DeliveredReply::Status(code, words) => return Err(wire.refused(code, &words)),
            _ => return Err(wire.unexpected()),
        };
        if attributes.kind == Kind::Link {
            let answer = wire.request(&Request::ReadLink(path));
            // An unreadable or deleted link keeps its attributes.
            if let DeliveredReply::Names(names) = wire.wait(answer).await?
                && let Some(first) = names.into_iter().next()
                && let Ok(target) = String::from_utf8(first.name.into_vec())
            {
                unix::add(&mut attributes, "target", &target);
            }
        }
        Ok(PathMetadata::Present(attributes))
    }

    async fn list(&self, path: Box<[u8]>) -> Result<PathMetadata> {
        let wire = &self.wire;
        let attributes = wire.request(&Request::Lstat(path.clone()));
        let handle = wire.request(&Request::OpenDir(path));
        let attributes = match wire.wait(attributes).await? {
            DeliveredReply::Attributes(attributes) => attributes,
            DeliveredReply::Status(NO_SUCH_FILE, _) => return Ok(PathMetadata::Absent),
            DeliveredReply::Status(code, words) => return Err(wire.refused(code, &words)),
            _ => return Err(wire.unexpected()),
        };
        // A link is not followed: its target is listed at the target's path.
        if !matches!(attributes.kind, Kind::Directory | Kind::Unknown) {
            return Ok(PathMetadata::Present(attributes));
        }
        let handle = match wire.wait(handle).await? {
            DeliveredReply::Handle(handle) => handle,
            DeliveredReply::Status(..) if attributes.kind == Kind::Unknown => {
                return Ok(PathMetadata::Present(attributes));
            }
            DeliveredReply::Status(NO_SUCH_FILE, _) => return Ok(PathMetadata::Absent),
            DeliveredReply::Status(code @ (PERMISSION_DENIED | OP_UNSUPPORTED), words) => {
                return Err(wire.refused(code, &words));
            }
            DeliveredReply::Status(_, words) => {
                // Too many open files, or the path was replaced by something other than a directory.
                return Err(Error::Busy {
                    origin: wire.origin.clone(),
                    why: format!("the directory cannot be opened: {}", printable(&words)).into(),
                });
            }
            _ => return Err(wire.unexpected()),
        };
        let children = self.read(&handle).await?;
        Ok(children.finish(attributes))
    }

    /// Reads all names of an open directory with several requests in flight.
    async fn read(&self, handle: &Handle) -> Result<Children> {
        let wire = &self.wire;
        let request = Request::ReadDir(handle.bytes.clone());
        let mut children = Children::among(&wire.names);
        let mut asked = VecDeque::new();
        let (mut ahead, mut ended, mut empty) = (READ_AHEAD.0, false, 0);
        loop {
            while !ended && asked.len() < ahead {
                asked.push_back(wire.request(&request));
            }
            // A server may answer out of order: requests sent before the end became known may still return names.
            let Some(answer) = asked.pop_front() else {
                return Ok(children);
            };
            match wire.wait(answer).await? {
                DeliveredReply::Names(names) => {
                    empty += usize::from(names.is_empty());
                    if empty > EMPTY_MAX {
                        return Err(wire.protocol_error("a listing that continues without names"));
                    }
                    for Name { name, attributes } in names {
                        let taken = children.push(name, attributes);
                        taken
                            .map_err(|_| wire.protocol_error("a directory with too many names"))?;
                    }
                    ahead = (ahead + 1).min(READ_AHEAD.1);
                }
                DeliveredReply::Status(EOF | OK, _) => ended = true,
                DeliveredReply::Status(code, words) => return Err(wire.refused(code, &words)),
                _ => return Err(wire.unexpected()),
            }
        }
    }
}

impl Session for SftpSession {
    fn request(&self, request: MetadataRequest) -> BoxFuture<'_, Result<PathMetadata>> {
        Box::pin(async move {
            if request.path.contains(&0) {
                return Err(Error::InvalidName {
                    what: printable(&request.path),
                    why: "a path has no zero bytes".into(),
                });
            }
            match request.wants {
                Wants::Stat => self.stat(request.path).await,
                Wants::List => self.list(request.path).await,
            }
        })
    }

    fn width(&self) -> usize {
        WIDTH
    }

    fn is_broken(&self) -> bool {
        self.wire.lock().broken.is_some()
    }

    fn about(&self) -> String {
        let Greeting {
            version,
            extensions,
        } = &self.greeting;
        if extensions.is_empty() {
            return format!("SFTP {version}");
        }
        format!("SFTP {version} with {}", extensions.join(", "))
    }

    fn close(&self) -> BoxFuture<'_, ()> {
        Box::pin(async move {
            // The receiver is closed only if the connection has ended.
            let _ = self.wire.out.send(Vec::new());
            let task = {
                let mut task = self.task.lock().unwrap_or_else(PoisonError::into_inner);
                task.take()
            };
            if let Some(task) = task {
                // A server that does not close the connection is not waited for.
                let _ = timeout(Duration::from_secs(2), task).await;
            }
            self.abort.abort();
            if !self.is_broken() {
                self.wire.end(&self.wire.broken("it was closed"));
            }
        })
    }
}
