//! One connection: requests with numbers go out as fast as they come, replies find who waits for them.

use super::packet::{self, Greeting, Name, Reply, Request};
use crate::children::Children;
use crate::error::{Error, Result, shown};
use crate::question::{Found, Question};
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

/// Questions on one connection: what OpenSSH's own client does with requests.
const WIDTH: usize = 64;
/// Requests for more names of one directory that are open at first, and at most. OpenSSH answers each with up to 100 names.
const AHEAD: (usize, usize) = (4, 32);
/// Replies without names in one listing, before it is taken for one without end.
const EMPTY_MAX: usize = 16;
/// One packet in this many times the silence is no answer either.
const SILENCES: u32 = 4;

const OK: u32 = 0;
const EOF: u32 = 1;
const NO_SUCH_FILE: u32 = 2;
const PERMISSION_DENIED: u32 = 3;
const BAD_MESSAGE: u32 = 5;
const NO_CONNECTION: u32 = 6;
const CONNECTION_LOST: u32 = 7;
const OP_UNSUPPORTED: u32 = 8;

/// What carries a connection, and knows why it ended.
pub(crate) trait Carrier: Send + 'static {
    /// Makes an error of what the carrier said at the end.
    fn ended(&mut self, why: String, greeted: bool) -> BoxFuture<'_, Error>;
}

/// A reply as it is handed on. A handle that nobody takes is closed.
enum Answer {
    Status(u32, Box<[u8]>),
    Handle(Handle),
    Names(Vec<Name>),
    Attributes(Attributes),
}

/// An open directory, closed when it is dropped.
struct Handle {
    wire: Arc<Wire>,
    bytes: Box<[u8]>,
}

impl Drop for Handle {
    fn drop(&mut self) {
        self.wire
            .send(&Request::Close(std::mem::take(&mut self.bytes)), None);
    }
}

type Waiter = oneshot::Sender<Result<Answer>>;

struct Open {
    /// Requests without a reply: since when, and who waits. Nobody waits for a directory to be closed.
    waiting: HashMap<u32, (Instant, Option<Waiter>)>,
    next: u32,
    /// When a whole packet came last.
    heard: Instant,
    broken: Option<Error>,
}

struct Wire {
    origin: Box<str>,
    out: mpsc::UnboundedSender<Vec<u8>>,
    open: Mutex<Open>,
    /// Names of all listings that are being read.
    names: Arc<AtomicUsize>,
}

impl Wire {
    fn lock(&self) -> MutexGuard<'_, Open> {
        self.open.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn send(&self, request: &Request, waiter: Option<Waiter>) {
        let mut open = self.lock();
        if let Some(error) = &open.broken {
            if let Some(waiter) = waiter {
                // Whoever asked may have gone.
                let _ = waiter.send(Err(error.clone()));
            }
            return;
        }
        let id = open.next;
        open.next = id.wrapping_add(1);
        open.waiting.insert(id, (Instant::now(), waiter));
        let mut packet = Vec::new();
        request.encode(id, &mut packet);
        // With the lock held, so that requests go out in the order of their numbers. The other end is gone only when the
        // connection is broken, which is told to all who wait.
        let _ = self.out.send(packet);
    }

    fn ask(&self, request: &Request) -> oneshot::Receiver<Result<Answer>> {
        let (waiter, answer) = oneshot::channel();
        self.send(request, Some(waiter));
        answer
    }

    fn nonsense(&self, why: &str) -> Error {
        Error::Nonsense {
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

    async fn wait(&self, answer: oneshot::Receiver<Result<Answer>>) -> Result<Answer> {
        let gone = |_| Err(self.broken("it was closed"));
        answer.await.unwrap_or_else(gone)
    }

    /// Hands a packet to whoever waits for it.
    fn deliver(self: &Arc<Self>, packet: &[u8]) -> Result<()> {
        let (id, reply) = packet::reply(packet).map_err(|why| self.nonsense(why))?;
        let mut open = self.lock();
        open.heard = Instant::now();
        let Some((_, waiter)) = open.waiting.remove(&id) else {
            return Err(self.nonsense("a reply to what was not asked"));
        };
        drop(open);
        let answer = match reply {
            Reply::Status(code, words) => Answer::Status(code, words),
            Reply::Handle(bytes) => {
                let wire = self.clone();
                Answer::Handle(Handle { wire, bytes })
            }
            Reply::Names(names) => Answer::Names(names),
            Reply::Attributes(attributes) => Answer::Attributes(attributes),
        };
        if let Some(waiter) = waiter {
            // Whoever asked may have gone.
            let _ = waiter.send(Ok(answer));
        }
        Ok(())
    }

    /// The connection is of no use any more; all who wait are told why.
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

    /// Ends when no reply came for too long.
    async fn watch(&self, silence: Duration) -> Error {
        let mut ticks = interval((silence / 8).max(Duration::from_millis(10)));
        loop {
            ticks.tick().await;
            let open = self.lock();
            let Some(oldest) = open.waiting.values().map(|(since, _)| *since).min() else {
                continue;
            };
            let quiet = oldest.elapsed().min(open.heard.elapsed());
            // A server that says something now and then, but never that, is no better than one that says nothing.
            if quiet > silence || oldest.elapsed() > silence * SILENCES {
                return Error::Late {
                    origin: self.origin.clone(),
                    seconds: oldest.elapsed().as_secs(),
                };
            }
        }
    }

    /// What a status other than "there is nothing" means.
    fn refused(&self, code: u32, words: &[u8]) -> Error {
        let origin = self.origin.clone();
        let mut why = shown(words);
        if why.is_empty() {
            why = format!("status {code}").into();
        }
        match code {
            BAD_MESSAGE => Error::Nonsense {
                origin,
                why: format!("it does not understand a request: {why}").into(),
            },
            NO_CONNECTION | CONNECTION_LOST => Error::Broken { origin, why },
            OP_UNSUPPORTED => Error::Unsupported { origin, why },
            _ => Error::Denied { origin, why },
        }
    }

    fn unexpected(&self) -> Error {
        self.nonsense("a reply of another kind than the request asks for")
    }
}

async fn read_loop(wire: &Arc<Wire>, from: &mut (impl AsyncRead + Unpin)) -> Result<String> {
    loop {
        match read_packet(from).await {
            Ok(Ok(packet)) => wire.deliver(&packet)?,
            Ok(Err(wrong)) => return Err(wire.nonsense(wrong)),
            Err(error) => return Ok(said(&error)),
        }
    }
}

fn said(error: &std::io::Error) -> String {
    match error.kind() {
        std::io::ErrorKind::UnexpectedEof => "the server closed it".into(),
        _ => error.to_string(),
    }
}

async fn read_packet(
    from: &mut (impl AsyncRead + Unpin),
) -> std::io::Result<Result<Vec<u8>, packet::Wrong>> {
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

/// Whatever waits goes out in one piece.
async fn write_loop(
    mut packets: mpsc::UnboundedReceiver<Vec<u8>>,
    mut to: impl AsyncWrite + Unpin,
) -> String {
    while let Some(mut bytes) = packets.recv().await {
        // An empty packet says goodbye.
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
            // A child's pipe is closed by being dropped, and by nothing else; the answers to what was asked still come.
            drop(to);
            return std::future::pending().await;
        }
    }
    "it was closed".into()
}

/// A connection to a server of SFTP.
pub(crate) struct Talk {
    wire: Arc<Wire>,
    greeting: Greeting,
    task: Mutex<Option<JoinHandle<()>>>,
    abort: AbortHandle,
}

impl Drop for Talk {
    fn drop(&mut self) {
        self.abort.abort();
    }
}

impl Talk {
    /// Greets the server, and is ready for questions.
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
            Err(error) => return Err(carrier.ended(said(&error), false).await),
        };
        let greeting = greeting.map_err(|why| Error::Nonsense {
            origin: origin.clone(),
            why: why.into(),
        })?;
        let (out, packets) = mpsc::unbounded_channel();
        let open = Open {
            waiting: HashMap::new(),
            next: 1,
            heard: Instant::now(),
            broken: None,
        };
        let wire = Arc::new(Wire {
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
                    late = wire.watch(silence) => Err(late),
                };
                // What ended is told at once; what the carrier says of it takes a moment.
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
        let answer = self.wire.ask(&Request::ReadLink(b"/"[..].into()));
        let _ = self.wire.wait(answer).await;
    }

    async fn stat(&self, path: Box<[u8]>) -> Result<Found> {
        let wire = &self.wire;
        let answer = wire.ask(&Request::Lstat(path.clone()));
        let mut attributes = match wire.wait(answer).await? {
            Answer::Attributes(attributes) => attributes,
            Answer::Status(NO_SUCH_FILE, _) => return Ok(Found::Absent),
            Answer::Status(code, words) => return Err(wire.refused(code, &words)),
            _ => return Err(wire.unexpected()),
        };
        if attributes.kind == Kind::Link {
            let answer = wire.ask(&Request::ReadLink(path));
            // That a link cannot be read, or is gone by now, makes its attributes no worse.
            if let Answer::Names(names) = wire.wait(answer).await?
                && let Some(first) = names.into_iter().next()
                && let Ok(target) = String::from_utf8(first.name.into_vec())
            {
                unix::add(&mut attributes, "target", &target);
            }
        }
        Ok(Found::Present(attributes))
    }

    async fn list(&self, path: Box<[u8]>) -> Result<Found> {
        let wire = &self.wire;
        let attributes = wire.ask(&Request::Lstat(path.clone()));
        let handle = wire.ask(&Request::OpenDir(path));
        let attributes = match wire.wait(attributes).await? {
            Answer::Attributes(attributes) => attributes,
            Answer::Status(NO_SUCH_FILE, _) => return Ok(Found::Absent),
            Answer::Status(code, words) => return Err(wire.refused(code, &words)),
            _ => return Err(wire.unexpected()),
        };
        // What is behind a link is listed where the link leads to.
        if !matches!(attributes.kind, Kind::Directory | Kind::Unknown) {
            return Ok(Found::Present(attributes));
        }
        let handle = match wire.wait(handle).await? {
            Answer::Handle(handle) => handle,
            Answer::Status(..) if attributes.kind == Kind::Unknown => {
                return Ok(Found::Present(attributes));
            }
            Answer::Status(NO_SUCH_FILE, _) => return Ok(Found::Absent),
            Answer::Status(code @ (PERMISSION_DENIED | OP_UNSUPPORTED), words) => {
                return Err(wire.refused(code, &words));
            }
            Answer::Status(_, words) => {
                // Too many open files, or it was something else than a directory a moment later.
                return Err(Error::Busy {
                    origin: wire.origin.clone(),
                    why: format!("the directory cannot be opened: {}", shown(&words)).into(),
                });
            }
            _ => return Err(wire.unexpected()),
        };
        let children = self.read(&handle).await?;
        Ok(children.finish(attributes))
    }

    /// All names of an open directory, a few requests ahead of the answers.
    async fn read(&self, handle: &Handle) -> Result<Children> {
        let wire = &self.wire;
        let request = Request::ReadDir(handle.bytes.clone());
        let mut children = Children::among(&wire.names);
        let mut asked = VecDeque::new();
        let (mut ahead, mut ended, mut empty) = (AHEAD.0, false, 0);
        loop {
            while !ended && asked.len() < ahead {
                asked.push_back(wire.ask(&request));
            }
            // A server may answer out of order: what was asked before the end became known may still bring names.
            let Some(answer) = asked.pop_front() else {
                return Ok(children);
            };
            match wire.wait(answer).await? {
                Answer::Names(names) => {
                    empty += usize::from(names.is_empty());
                    if empty > EMPTY_MAX {
                        return Err(wire.nonsense("a listing that goes on without names"));
                    }
                    for Name { name, attributes } in names {
                        let taken = children.push(name, attributes);
                        taken.map_err(|_| wire.nonsense("a directory with too many names"))?;
                    }
                    ahead = (ahead + 1).min(AHEAD.1);
                }
                Answer::Status(EOF | OK, _) => ended = true,
                Answer::Status(code, words) => return Err(wire.refused(code, &words)),
                _ => return Err(wire.unexpected()),
            }
        }
    }
}

impl Session for Talk {
    fn ask(&self, question: Question) -> BoxFuture<'_, Result<Found>> {
        Box::pin(async move {
            if question.path.contains(&0) {
                return Err(Error::Named {
                    what: shown(&question.path),
                    why: "a path has no zero bytes".into(),
                });
            }
            match question.wants {
                Wants::Stat => self.stat(question.path).await,
                Wants::List => self.list(question.path).await,
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
            // The other end is gone only when all is over already.
            let _ = self.wire.out.send(Vec::new());
            let task = {
                let mut task = self.task.lock().unwrap_or_else(PoisonError::into_inner);
                task.take()
            };
            if let Some(task) = task {
                // A server that does not hang up is not waited for.
                let _ = timeout(Duration::from_secs(2), task).await;
            }
            self.abort.abort();
            if !self.is_broken() {
                self.wire.end(&self.wire.broken("it was closed"));
            }
        })
    }
}
