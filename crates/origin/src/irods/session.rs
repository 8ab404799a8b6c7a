//! A connection to iRODS: requests are sent as they come, replies arrive in the same order.

use super::handshake::{
    BUFFER, Handshake, NO_COLLECTION, NO_DATA, NO_FILE, NO_PATH, NO_ROWS, io_error_text, refused,
    version,
};
use super::login::IrodsLogin;
use super::message::{self, Message, ROWS, Rows, column, pack};
use super::tls::{IrodsTransport, TlsPolicy};
use crate::children::Children;
use crate::error::{Error, Result, printable};
use crate::request::{MetadataRequest, PathMetadata};
use crate::session::Session;
use esker_site_cache::entry::{Kind, Wants};
use futures_util::future::BoxFuture;
use std::collections::VecDeque;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;
use tokio::io::{AsyncWriteExt as _, BufReader};
use tokio::sync::{Semaphore, mpsc, oneshot};
use tokio::task::AbortHandle;
use tokio::time::{Instant, interval};

/// Maximum number of requests in flight.
const WIDTH: usize = 64;
/// Maximum number of concurrent listings: a server allows 50 open queries per connection, and each listing has two.
const LISTINGS: usize = 16;
/// A reply must be complete within this multiple of `silence`, even if other messages arrive.
const SILENCES: u32 = 4;
/// Versions below this one encode apostrophes and backticks alike.
const OLD: (u32, u32, u32) = (4, 2, 9);
/// Versions from this one on log in by named steps.
const STEPS: (u32, u32, u32) = (4, 3, 0);

/// Columns requested for data objects. The collection is compared here, because a condition may match too many.
const DATA: [u32; 6] = [
    column::DATA_NAME,
    column::DATA_SIZE,
    column::DATA_OWNER,
    column::DATA_STATUS,
    column::DATA_MODIFIED,
    column::COLLECTION,
];
/// Columns requested for collections.
const COLLECTIONS: [u32; 4] = [
    column::COLLECTION,
    column::COLLECTION_PARENT,
    column::COLLECTION_OWNER,
    column::COLLECTION_MODIFIED,
];

type MessageSender = oneshot::Sender<Result<Message>>;

struct IrodsPending {
    /// Requests without a reply, in order: the time sent and the waiter, `None` for a query's end.
    waiting: VecDeque<(Instant, Option<MessageSender>)>,
    heard: Instant,
    broken: Option<Error>,
}

struct IrodsConnection {
    origin: Box<str>,
    out: mpsc::UnboundedSender<Vec<u8>>,
    open: Mutex<IrodsPending>,
    old: bool,
}

/// A query that has more rows; ended on drop, because a server allows few.
struct Cursor<'w> {
    wire: &'w IrodsConnection,
    next: i32,
}

impl Drop for Cursor<'_> {
    fn drop(&mut self) {
        if self.next > 0 {
            self.wire.send(message::end(self.next), None);
        }
    }
}

impl IrodsConnection {
    fn lock(&self) -> MutexGuard<'_, IrodsPending> {
        self.open.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn send(&self, bytes: Vec<u8>, waiter: Option<MessageSender>) {
        let mut open = self.lock();
        if let Some(error) = &open.broken {
            if let Some(waiter) = waiter {
                // The receiver may be gone.
                let _ = waiter.send(Err(error.clone()));
            }
            return;
        }
        open.waiting.push_back((Instant::now(), waiter));
        // Sent under the lock, so that the queue has the order of the wire. The receiver is closed only if the
        // connection is broken,
        // which all waiters learn.
        let _ = self.out.send(bytes);
    }

    fn request(&self, bytes: Vec<u8>) -> oneshot::Receiver<Result<Message>> {
        let (waiter, answer) = oneshot::channel();
        self.send(bytes, Some(waiter));
        answer
    }

    async fn wait(&self, answer: oneshot::Receiver<Result<Message>>) -> Result<Message> {
        let gone = |_| {
            let origin = self.origin.clone();
            let why = "it was closed".into();
            Err(Error::Broken { origin, why })
        };
        answer.await.unwrap_or_else(gone)
    }

    fn protocol_error(&self, why: &str) -> Error {
        Error::Protocol {
            origin: self.origin.clone(),
            why: why.into(),
        }
    }

    fn deliver(&self, message: Message) -> Result<()> {
        let mut open = self.lock();
        open.heard = Instant::now();
        let Some((_, waiter)) = open.waiting.pop_front() else {
            return Err(self.protocol_error("a reply without a request"));
        };
        drop(open);
        if message.kind != b"RODS_API_REPLY" {
            return Err(self.protocol_error("a message that is not a reply"));
        }
        if let Some(waiter) = waiter
            && let Err(Ok(message)) = waiter.send(Ok(message))
            && let Ok(Rows { next, .. }) = message::rows(&message.body, self.old)
            && next > 0
        {
            // The caller is gone and the query has more rows.
            self.send(message::end(next), None);
        }
        Ok(())
    }

    fn end(&self, error: &Error) {
        let mut open = self.lock();
        open.broken.get_or_insert_with(|| error.clone());
        let waiting = std::mem::take(&mut open.waiting);
        drop(open);
        for waiter in waiting.into_iter().filter_map(|(_, waiter)| waiter) {
            let _ = waiter.send(Err(error.clone()));
        }
    }

    /// Returns when no reply arrived in time.
    async fn watch(&self, silence: Duration) -> Error {
        let mut ticks = interval((silence / 8).max(Duration::from_millis(10)));
        loop {
            ticks.tick().await;
            let open = self.lock();
            let Some((oldest, _)) = open.waiting.front() else {
                continue;
            };
            let quiet = oldest.elapsed().min(open.heard.elapsed());
            if quiet > silence || oldest.elapsed() > silence * SILENCES {
                return Error::TimedOut {
                    origin: self.origin.clone(),
                    seconds: oldest.elapsed().as_secs(),
                };
            }
        }
    }
}

/// A session with an iRODS server.
pub(crate) struct IrodsSession {
    wire: Arc<IrodsConnection>,
    about: String,
    listings: Semaphore,
    abort: AbortHandle,
}

impl Drop for IrodsSession {
    fn drop(&mut self) {
        self.abort.abort();
    }
}

impl IrodsSession {
    /// Introduces the user and logs in.
    pub(crate) async fn begin(
        origin: Box<str>,
        stream: impl IrodsTransport,
        login: &IrodsLogin,
        tls: &TlsPolicy,
        silence: Duration,
    ) -> Result<Self> {
        let stream = BufReader::with_capacity(BUFFER, Box::new(stream) as Box<dyn IrodsTransport>);
        let mut handshake = Handshake { origin, stream };
        let release = handshake.begin(login, tls).await?;
        let number = version(&release);
        if number >= STEPS {
            handshake.log_in_by_steps(login).await?;
        } else {
            handshake.log_in(login).await?;
        }
        let Handshake { origin, stream } = handshake;
        let (mut from, mut to) = tokio::io::split(stream);
        let (out, mut requests) = mpsc::unbounded_channel::<Vec<u8>>();
        let wire = Arc::new(IrodsConnection {
            origin,
            out,
            open: Mutex::new(IrodsPending {
                waiting: VecDeque::new(),
                heard: Instant::now(),
                broken: None,
            }),
            old: number < OLD,
        });
        let task = tokio::spawn({
            let wire = wire.clone();
            async move {
                let broken = |error: &std::io::Error| {
                    let (origin, why) = (wire.origin.clone(), io_error_text(error));
                    Error::Broken { origin, why }
                };
                let reading = async {
                    loop {
                        match message::read(&mut from).await {
                            Ok(Ok(message)) => {
                                if let Err(error) = wire.deliver(message) {
                                    return error;
                                }
                            }
                            Ok(Err(wrong)) => return wire.protocol_error(wrong),
                            Err(error) => return broken(&error),
                        }
                    }
                };
                let writing = async {
                    while let Some(mut bytes) = requests.recv().await {
                        while let Ok(more) = requests.try_recv() {
                            bytes.extend(more);
                        }
                        let written = async {
                            to.write_all(&bytes).await?;
                            // TLS may buffer data until it is flushed.
                            to.flush().await
                        };
                        if let Err(error) = written.await {
                            return broken(&error);
                        }
                    }
                    broken(&std::io::ErrorKind::UnexpectedEof.into())
                };
                let error = tokio::select! {
                    error = reading => error,
                    error = writing => error,
                    timed_out = wire.watch(silence) => timed_out,
                };
                wire.end(&error);
            }
        });
        Ok(Self {
            wire,
            about: format!("iRODS {}", printable(&release)),
            listings: Semaphore::new(LISTINGS),
            abort: task.abort_handle(),
        })
    }

    fn found(&self, message: &Message) -> Result<PathMetadata> {
        match message.info / 1000 {
            NO_FILE | NO_PATH | NO_ROWS | NO_COLLECTION | NO_DATA => {
                return Ok(PathMetadata::Absent);
            }
            _ if message.info < 0 => return Err(refused(&self.wire.origin, message)),
            _ => {}
        }
        let attributes = message::attributes(&message.body, self.wire.old);
        let attributes = attributes.map_err(|why| self.wire.protocol_error(why))?;
        Ok(match attributes.kind {
            // A path without a type does not exist.
            Kind::Other if message.info == 0 => PathMetadata::Absent,
            _ => PathMetadata::Present(attributes),
        })
    }

    async fn stat(&self, path: &[u8]) -> Result<PathMetadata> {
        let answer = self.wire.request(message::stat(path));
        self.found(&self.wire.wait(answer).await?)
    }

    async fn list(&self, path: &[u8]) -> Result<PathMetadata> {
        // Acquiring fails only on a closed semaphore, and this one is never closed.
        let _turn = self.listings.acquire().await;
        let of =
            |columns: &[u32], which| self.wire.request(message::query(columns, which, ROWS, 0));
        let own = self.wire.request(message::stat(path));
        let in_it = (column::COLLECTION, path);
        let below = (column::COLLECTION_PARENT, path);
        let (first, second) = (of(&DATA, in_it), of(&COLLECTIONS, below));
        let own = self.found(&self.wire.wait(own).await?);
        let mut objects = Objects::default();
        let mut children = Children::default();
        let many = || self.wire.protocol_error("a collection with too many names");
        // All replies are read, so that queries with more rows are ended.
        let read = self.rows(first, &DATA, in_it, |rows, row| {
            if rows.field(row, column::COLLECTION) == path {
                objects.add(rows, row);
            }
            objects.len() <= crate::request::CHILDREN_MAX
        });
        read.await?;
        let read = self.rows(second, &COLLECTIONS, below, |rows, row| {
            let name = rows.field(row, column::COLLECTION);
            let inside = rows.field(row, column::COLLECTION_PARENT) == path && name != path;
            let name = name
                .iter()
                .rposition(|b| *b == b'/')
                .map(|at| &name[at + 1..]);
            match name {
                Some(name) if inside => children
                    .push(name.into(), message::of_collection(rows, row))
                    .is_ok(),
                _ => true,
            }
        });
        read.await?;
        let attributes = match own? {
            PathMetadata::Present(attributes) if attributes.kind == Kind::Directory => attributes,
            other => return Ok(other),
        };
        for (name, attributes) in objects.finish() {
            children.push(name, attributes).map_err(|_| many())?;
        }
        Ok(children.finish(attributes))
    }

    /// Reads all rows of a query, page by page, while `each` returns true.
    async fn rows(
        &self,
        first: oneshot::Receiver<Result<Message>>,
        columns: &[u32],
        which: (u32, &[u8]),
        mut each: impl FnMut(&Rows, usize) -> bool,
    ) -> Result<()> {
        let wire = &*self.wire;
        let mut cursor = Cursor { wire, next: 0 };
        let mut answer = first;
        loop {
            let message = wire.wait(answer).await?;
            cursor.next = 0;
            match message.info / 1000 {
                NO_ROWS | NO_COLLECTION => return Ok(()),
                _ if message.info < 0 => return Err(refused(&wire.origin, &message)),
                _ => {}
            }
            let rows = message::rows(&message.body, wire.old);
            let rows = rows.map_err(|why| wire.protocol_error(why))?;
            cursor.next = rows.next;
            for row in 0..rows.count {
                if !each(&rows, row) {
                    return Err(wire.protocol_error("a collection with too many names"));
                }
            }
            if rows.next <= 0 {
                return Ok(());
            }
            if rows.count == 0 {
                return Err(wire.protocol_error("a listing that continues without rows"));
            }
            answer = wire.request(message::query(columns, which, ROWS, rows.next));
        }
    }
}

/// Data objects by name; of the rows for different replicas, the best counts.
#[derive(Default)]
struct Objects {
    by_name: std::collections::HashMap<Box<[u8]>, (bool, esker_site_cache::entry::Attributes)>,
}

impl Objects {
    fn len(&self) -> usize {
        self.by_name.len()
    }

    fn add(&mut self, rows: &Rows, row: usize) {
        let good = rows.field(row, column::DATA_STATUS) == b"1";
        let attributes = message::of_data(rows, row);
        let name = rows.field(row, column::DATA_NAME);
        let better = self.by_name.get(name).is_none_or(|(known_good, known)| {
            (good, attributes.modified) > (*known_good, known.modified)
        });
        if better {
            self.by_name.insert(name.into(), (good, attributes));
        }
    }

    fn finish(self) -> impl Iterator<Item = (Box<[u8]>, esker_site_cache::entry::Attributes)> {
        let all = self.by_name.into_iter();
        all.map(|(name, (_, attributes))| (name, attributes))
    }
}

impl Session for IrodsSession {
    fn request(&self, request: MetadataRequest) -> BoxFuture<'_, Result<PathMetadata>> {
        Box::pin(async move {
            match request.wants {
                Wants::Stat => self.stat(&request.path).await,
                Wants::List => self.list(&request.path).await,
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
        self.about.clone()
    }

    fn close(&self) -> BoxFuture<'_, ()> {
        Box::pin(async move {
            // The receiver is closed only if the connection has ended.
            let _ = self.wire.out.send(pack("RODS_DISCONNECT", 0, b""));
            tokio::time::sleep(Duration::from_millis(10)).await;
            self.abort.abort();
            let origin = self.wire.origin.clone();
            let why = "it was closed".into();
            self.wire.end(&Error::Broken { origin, why });
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use tokio::time::timeout;

    fn login() -> IrodsLogin {
        IrodsLogin {
            user: "ann".into(),
            zone: "lab".into(),
            password: "word".into(),
        }
    }

    const VERSION: &[u8] =
        b"<Version_PI><status>0</status><relVersion>rods4.2.11</relVersion></Version_PI>";
    const CHALLENGE: &[u8] = b"<authRequestOut_PI><challenge>eA==</challenge></authRequestOut_PI>";

    /// A server that sends these bytes regardless of the requests, then disconnects.
    async fn request(bytes: Vec<u8>) -> Result<Vec<Result<PathMetadata>>> {
        let (here, mut there) = tokio::io::duplex(1 << 20);
        tokio::spawn(async move {
            // The client may disconnect first.
            let _ = there.write_all(&bytes).await;
            tokio::time::sleep(Duration::from_millis(20)).await;
        });
        let silence = Duration::from_millis(500);
        let tls = TlsPolicy::default();
        let talk = IrodsSession::begin("irods://h".into(), here, &login(), &tls, silence).await?;
        let asked = [
            talk.request(MetadataRequest::stat(b"/a")),
            talk.request(MetadataRequest::list(b"/a")),
        ];
        Ok(futures_util::future::join_all(asked).await)
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(64))]

        /// Random server output, before and after the login, yields a response or an error in bounded time.
        #[test]
        fn any_bytes_are_survived(
            bytes in proptest::collection::vec(any::<u8>(), 0..300),
            known in 0..4_usize,
            info in -1000..1000_i32,
        ) {
            let handshake = [
                pack("RODS_VERSION", 0, VERSION),
                pack("RODS_API_REPLY", 0, CHALLENGE),
                pack("RODS_API_REPLY", 0, b""),
            ];
            let mut all = handshake[..known.min(3)].concat();
            if let Some((at, rest)) = bytes.split_first() {
                // One valid reply followed by random bytes.
                let (part, rest) = rest.split_at(usize::from(*at).min(rest.len()));
                all.extend(pack("RODS_API_REPLY", info * 1000, part));
                all.extend(rest);
            }
            let runtime = tokio::runtime::Builder::new_current_thread().enable_all().start_paused(true).build().unwrap();
            let asked = async { timeout(Duration::from_secs(20), request(all)).await };
            prop_assert!(runtime.block_on(asked).is_ok());
        }
    }
}
