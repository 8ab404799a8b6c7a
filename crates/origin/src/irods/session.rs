//! One connection: requests go out as they come, replies come back in the same order.

use super::hello::{
    BUFFER, Hello, NO_COLLECTION, NO_DATA, NO_FILE, NO_PATH, NO_ROWS, refused, said, version,
};
use super::login::Login;
use super::message::{self, Message, ROWS, Rows, column, pack};
use super::tls::{Stream, Tls};
use crate::children::Children;
use crate::error::{Error, Result, shown};
use crate::question::{Found, Question};
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

/// Questions on one connection.
const WIDTH: usize = 64;
/// Listings at once: a server keeps 50 queries of a connection open, and each listing has two.
const LISTINGS: usize = 16;
/// One message in this many times the silence is no answer either.
const SILENCES: u32 = 4;
/// Versions whose messages name apostrophes and backticks alike.
const OLD: (u32, u32, u32) = (4, 2, 9);
/// Versions that log in by steps that have names.
const STEPS: (u32, u32, u32) = (4, 3, 0);

/// What is asked of data objects. The collection is compared here, for a condition may fit more.
const DATA: [u32; 6] = [
    column::DATA_NAME,
    column::DATA_SIZE,
    column::DATA_OWNER,
    column::DATA_STATUS,
    column::DATA_MODIFIED,
    column::COLLECTION,
];
/// What is asked of collections.
const COLLECTIONS: [u32; 4] = [
    column::COLLECTION,
    column::COLLECTION_PARENT,
    column::COLLECTION_OWNER,
    column::COLLECTION_MODIFIED,
];

type Waiter = oneshot::Sender<Result<Message>>;

struct Open {
    /// Requests without a reply, in their order: since when, and who waits. Nobody waits for a query to be ended.
    waiting: VecDeque<(Instant, Option<Waiter>)>,
    heard: Instant,
    broken: Option<Error>,
}

struct Wire {
    origin: Box<str>,
    out: mpsc::UnboundedSender<Vec<u8>>,
    open: Mutex<Open>,
    old: bool,
}

/// A query that has more rows. It is ended when it is dropped: a server has few.
struct Cursor<'w> {
    wire: &'w Wire,
    next: i32,
}

impl Drop for Cursor<'_> {
    fn drop(&mut self) {
        if self.next > 0 {
            self.wire.send(message::end(self.next), None);
        }
    }
}

impl Wire {
    fn lock(&self) -> MutexGuard<'_, Open> {
        self.open.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn send(&self, bytes: Vec<u8>, waiter: Option<Waiter>) {
        let mut open = self.lock();
        if let Some(error) = &open.broken {
            if let Some(waiter) = waiter {
                // Whoever asked may have gone.
                let _ = waiter.send(Err(error.clone()));
            }
            return;
        }
        open.waiting.push_back((Instant::now(), waiter));
        // With the lock held, so that the queue has the order of the wire. The other end is gone only when the connection is
        // broken, which is told to all who wait.
        let _ = self.out.send(bytes);
    }

    fn ask(&self, bytes: Vec<u8>) -> oneshot::Receiver<Result<Message>> {
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

    fn nonsense(&self, why: &str) -> Error {
        Error::Nonsense {
            origin: self.origin.clone(),
            why: why.into(),
        }
    }

    fn deliver(&self, message: Message) -> Result<()> {
        let mut open = self.lock();
        open.heard = Instant::now();
        let Some((_, waiter)) = open.waiting.pop_front() else {
            return Err(self.nonsense("a reply to what was not asked"));
        };
        drop(open);
        if message.kind != b"RODS_API_REPLY" {
            return Err(self.nonsense("a message that is no reply"));
        }
        if let Some(waiter) = waiter
            && let Err(Ok(message)) = waiter.send(Ok(message))
            && let Ok(Rows { next, .. }) = message::rows(&message.body, self.old)
            && next > 0
        {
            // Whoever asked has gone, and the query has more rows.
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

    /// Ends when no reply came for too long.
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
                return Error::Late {
                    origin: self.origin.clone(),
                    seconds: oldest.elapsed().as_secs(),
                };
            }
        }
    }
}

/// A connection to a server of iRODS.
pub(crate) struct Talk {
    wire: Arc<Wire>,
    about: String,
    listings: Semaphore,
    abort: AbortHandle,
}

impl Drop for Talk {
    fn drop(&mut self) {
        self.abort.abort();
    }
}

impl Talk {
    /// Introduces the user and logs in, and is ready for questions.
    pub(crate) async fn begin(
        origin: Box<str>,
        stream: impl Stream,
        login: &Login,
        tls: &Tls,
        silence: Duration,
    ) -> Result<Self> {
        let stream = BufReader::with_capacity(BUFFER, Box::new(stream) as Box<dyn Stream>);
        let mut hello = Hello { origin, stream };
        let release = hello.begin(login, tls).await?;
        let number = version(&release);
        if number >= STEPS {
            hello.log_in_by_steps(login).await?;
        } else {
            hello.log_in(login).await?;
        }
        let Hello { origin, stream } = hello;
        let (mut from, mut to) = tokio::io::split(stream);
        let (out, mut requests) = mpsc::unbounded_channel::<Vec<u8>>();
        let wire = Arc::new(Wire {
            origin,
            out,
            open: Mutex::new(Open {
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
                    let (origin, why) = (wire.origin.clone(), said(error));
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
                            Ok(Err(wrong)) => return wire.nonsense(wrong),
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
                            // What TLS keeps back until there is more would never go.
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
                    late = wire.watch(silence) => late,
                };
                wire.end(&error);
            }
        });
        Ok(Self {
            wire,
            about: format!("iRODS {}", shown(&release)),
            listings: Semaphore::new(LISTINGS),
            abort: task.abort_handle(),
        })
    }

    fn found(&self, message: &Message) -> Result<Found> {
        match message.info / 1000 {
            NO_FILE | NO_PATH | NO_ROWS | NO_COLLECTION | NO_DATA => return Ok(Found::Absent),
            _ if message.info < 0 => return Err(refused(&self.wire.origin, message)),
            _ => {}
        }
        let attributes = message::attributes(&message.body, self.wire.old);
        let attributes = attributes.map_err(|why| self.wire.nonsense(why))?;
        Ok(match attributes.kind {
            // A path of no kind is one where nothing is.
            Kind::Other if message.info == 0 => Found::Absent,
            _ => Found::Present(attributes),
        })
    }

    async fn stat(&self, path: &[u8]) -> Result<Found> {
        let answer = self.wire.ask(message::stat(path));
        self.found(&self.wire.wait(answer).await?)
    }

    async fn list(&self, path: &[u8]) -> Result<Found> {
        // Only a semaphore that is closed refuses, and this one never is.
        let _turn = self.listings.acquire().await;
        let of = |columns: &[u32], which| self.wire.ask(message::query(columns, which, ROWS, 0));
        let own = self.wire.ask(message::stat(path));
        let in_it = (column::COLLECTION, path);
        let below = (column::COLLECTION_PARENT, path);
        let (first, second) = (of(&DATA, in_it), of(&COLLECTIONS, below));
        let own = self.found(&self.wire.wait(own).await?);
        let mut objects = Objects::default();
        let mut children = Children::default();
        let many = || self.wire.nonsense("a collection with too many names");
        // All are read, so that queries that have more rows are ended.
        let read = self.rows(first, &DATA, in_it, |rows, row| {
            if rows.field(row, column::COLLECTION) == path {
                objects.add(rows, row);
            }
            objects.len() <= crate::question::CHILDREN_MAX
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
            Found::Present(attributes) if attributes.kind == Kind::Directory => attributes,
            other => return Ok(other),
        };
        for (name, attributes) in objects.finish() {
            children.push(name, attributes).map_err(|_| many())?;
        }
        Ok(children.finish(attributes))
    }

    /// All rows of a query, page by page, as long as `each` wants more.
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
            let rows = rows.map_err(|why| wire.nonsense(why))?;
            cursor.next = rows.next;
            for row in 0..rows.count {
                if !each(&rows, row) {
                    return Err(wire.nonsense("a collection with too many names"));
                }
            }
            if rows.next <= 0 {
                return Ok(());
            }
            if rows.count == 0 {
                return Err(wire.nonsense("a listing that goes on without rows"));
            }
            answer = wire.ask(message::query(columns, which, ROWS, rows.next));
        }
    }
}

/// Data objects by name: each has a row for each different replica, of which the best is told of.
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

impl Session for Talk {
    fn ask(&self, question: Question) -> BoxFuture<'_, Result<Found>> {
        Box::pin(async move {
            match question.wants {
                Wants::Stat => self.stat(&question.path).await,
                Wants::List => self.list(&question.path).await,
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
            // The other end is gone only when all is over already.
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

    fn login() -> Login {
        Login {
            user: "ann".into(),
            zone: "lab".into(),
            password: "word".into(),
        }
    }

    const VERSION: &[u8] =
        b"<Version_PI><status>0</status><relVersion>rods4.2.11</relVersion></Version_PI>";
    const CHALLENGE: &[u8] = b"<authRequestOut_PI><challenge>eA==</challenge></authRequestOut_PI>";

    /// A server that says these bytes, whatever it is asked, and hangs up.
    async fn ask(bytes: Vec<u8>) -> Result<Vec<Result<Found>>> {
        let (here, mut there) = tokio::io::duplex(1 << 20);
        tokio::spawn(async move {
            // The other side may hang up first.
            let _ = there.write_all(&bytes).await;
            tokio::time::sleep(Duration::from_millis(20)).await;
        });
        let silence = Duration::from_millis(500);
        let tls = Tls::default();
        let talk = Talk::begin("irods://h".into(), here, &login(), &tls, silence).await?;
        let asked = [
            talk.ask(Question::stat(b"/a")),
            talk.ask(Question::list(b"/a")),
        ];
        Ok(futures_util::future::join_all(asked).await)
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(64))]

        /// Whatever a server says, before and after the log-in, there is an answer or an error, and soon.
        #[test]
        fn any_bytes_are_survived(
            bytes in proptest::collection::vec(any::<u8>(), 0..300),
            known in 0..4_usize,
            info in -1000..1000_i32,
        ) {
            let hello = [
                pack("RODS_VERSION", 0, VERSION),
                pack("RODS_API_REPLY", 0, CHALLENGE),
                pack("RODS_API_REPLY", 0, b""),
            ];
            let mut all = hello[..known.min(3)].concat();
            if let Some((at, rest)) = bytes.split_first() {
                // One whole reply of it, then anything.
                let (part, rest) = rest.split_at(usize::from(*at).min(rest.len()));
                all.extend(pack("RODS_API_REPLY", info * 1000, part));
                all.extend(rest);
            }
            let runtime = tokio::runtime::Builder::new_current_thread().enable_all().start_paused(true).build().unwrap();
            let asked = async { timeout(Duration::from_secs(20), ask(all)).await };
            prop_assert!(runtime.block_on(asked).is_ok());
        }
    }
}
