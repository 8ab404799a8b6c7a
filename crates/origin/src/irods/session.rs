//! One connection: requests go out as they come, replies come back in the same order.

use super::login::Login;
use super::message::{self, Body, Message, ROWS, Rows, call, column, pack};
use super::xml;
use crate::children::Children;
use crate::dav::base64;
use crate::error::{Error, Result, shown};
use crate::question::{Found, Question};
use crate::session::Session;
use esker_site_cache::entry::{Kind, Wants};
use futures_util::future::BoxFuture;
use std::collections::VecDeque;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};
use tokio::io::{AsyncRead, AsyncWrite, AsyncWriteExt as _, BufReader};
use tokio::sync::{Semaphore, mpsc, oneshot};
use tokio::task::AbortHandle;
use tokio::time::interval;

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

const NO_FILE: i32 = -310;
const NO_ROWS: i32 = -808;
const NO_COLLECTION: i32 = -814;
const NO_DATA: i32 = -817;
const NO_ACCESS: i32 = -818;
const BAD_LOGIN: i32 = -826;
const BAD_USER: i32 = -827;
const EXPIRED: i32 = -840;
/// Too many queries are open, or the server cannot start a process.
const BUSY: [i32; 3] = [-803, -11, -14];

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

/// What a call returned, if that is an error.
fn refused(origin: &str, message: &Message) -> Error {
    let origin: Box<str> = origin.into();
    let words = shown(&message::words(&message.error));
    let said = |what: &str| -> Box<str> {
        let told = if words.is_empty() {
            String::new()
        } else {
            format!(": {words}")
        };
        format!("{what} (iRODS error {}{told})", message.info).into()
    };
    let code = message.info / 1000;
    match code {
        NO_ACCESS => {
            let why = said("no permission");
            Error::Denied { origin, why }
        }
        BAD_LOGIN => {
            let why = said("the password is wrong; run `iinit` again, or set IRODS_PASSWORD");
            Error::Denied { origin, why }
        }
        BAD_USER => {
            let why = said(
                "it knows no such user in this zone; are IRODS_USER_NAME and IRODS_ZONE_NAME right?",
            );
            Error::Denied { origin, why }
        }
        EXPIRED => {
            let why = said("the password has expired; run `iinit` again");
            Error::Denied { origin, why }
        }
        _ if BUSY.contains(&code) => {
            let why = said("too much to do");
            Error::Busy { origin, why }
        }
        _ => {
            let why = said("the call failed");
            Error::Denied { origin, why }
        }
    }
}

fn said(error: &std::io::Error) -> Box<str> {
    match error.kind() {
        std::io::ErrorKind::UnexpectedEof => "the server closed it".into(),
        _ => error.to_string().into(),
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

/// A connection before it takes questions.
struct Hello<F, T> {
    origin: Box<str>,
    from: BufReader<F>,
    to: T,
}

impl<F: AsyncRead + Unpin, T: AsyncWrite + Unpin> Hello<F, T> {
    fn broken(&self, error: &std::io::Error) -> Error {
        let (origin, why) = (self.origin.clone(), said(error));
        Error::Broken { origin, why }
    }

    fn nonsense(&self, why: &str) -> Error {
        let origin = self.origin.clone();
        let why = why.into();
        Error::Nonsense { origin, why }
    }

    async fn send(&mut self, bytes: &[u8]) -> Result<()> {
        let sent = self.to.write_all(bytes).await;
        sent.map_err(|e| self.broken(&e))
    }

    async fn read(&mut self) -> Result<Message> {
        let read = message::read(&mut self.from).await;
        let message = read.map_err(|e| self.broken(&e))?;
        let message = message.map_err(|why| self.nonsense(why))?;
        if message.info < 0 {
            return Err(refused(&self.origin, &message));
        }
        Ok(message)
    }

    async fn call(&mut self, bytes: &[u8]) -> Result<Message> {
        self.send(bytes).await?;
        self.read().await
    }

    fn field(&self, message: &Message, name: &str) -> Result<Vec<u8>> {
        let root = xml::parse(&message.body).map_err(|why| self.nonsense(why))?;
        let lacks = || self.nonsense(&format!("a message that lacks {name}"));
        root.string(name, false).ok_or_else(lacks)
    }

    /// Introduces the user, agrees on a connection without TLS, and learns the server's version.
    async fn begin(&mut self, login: &Login) -> Result<Vec<u8>> {
        let (user, zone) = (login.user.as_bytes(), login.zone.as_bytes());
        let hello = Body::new()
            .number("irodsProt", 1)
            .number("reconnFlag", 0)
            .number("connectCnt", 0)
            .put("proxyUser", user)
            .put("proxyRcatZone", zone)
            .put("clientUser", user)
            .put("clientRcatZone", zone)
            .put("relVersion", b"rods4.3.0")
            .put("apiVersion", b"d")
            .put("option", b"eskerrequest_server_negotiation");
        let mut message = self
            .call(&pack("RODS_CONNECT", 0, &hello.within("StartupPack_PI")))
            .await?;
        if message.kind == b"RODS_CS_NEG_T" {
            let policy = self.field(&message, "result")?;
            let refused = policy == b"CS_NEG_REQUIRE";
            let (status, result) = if refused {
                (0, "cs_neg_result_kw=CS_NEG_FAILURE;")
            } else {
                (1, "cs_neg_result_kw=CS_NEG_USE_TCP;")
            };
            let body = Body::new()
                .number("status", status)
                .put("result", result.as_bytes());
            self.send(&pack("RODS_CS_NEG_T", 0, &body.within("CS_NEG_PI")))
                .await?;
            if refused {
                let why = "it wants TLS, which is not spoken here yet; ask for a server whose policy is CS_NEG_DONT_CARE, or go \
                           through its WebDAV or SFTP door";
                return Err(Error::Unsupported {
                    origin: self.origin.clone(),
                    why: why.into(),
                });
            }
            message = self.read().await?;
        }
        if message.kind != b"RODS_VERSION" {
            return Err(self.nonsense("something else than its version first"));
        }
        self.field(&message, "relVersion")
    }

    /// Challenge and response, as servers before 4.3 have it.
    async fn log_in(&mut self, login: &Login) -> Result<()> {
        let message = self
            .call(&pack("RODS_API_REQ", call::AUTH_REQUEST, b""))
            .await?;
        let challenge = self.field(&message, "challenge")?;
        let challenge = unbase64(&challenge)
            .ok_or_else(|| self.nonsense("a challenge that is not in base 64"))?;
        let name = format!("{}#{}", login.user, login.zone);
        let body = Body::new()
            .put("response", base64(&login.response(&challenge)).as_bytes())
            .put("username", name.as_bytes());
        let body = body.within("authResponseInp_PI");
        self.call(&pack("RODS_API_REQ", call::AUTH_RESPONSE, &body))
            .await?;
        Ok(())
    }

    /// The same, with the names that later servers have for it.
    async fn log_in_by_steps(&mut self, login: &Login) -> Result<()> {
        let begin = serde_json::json!({
            "scheme": "native",
            "user_name": &*login.user,
            "zone_name": &*login.zone,
            "next_operation": "auth_agent_auth_request",
        });
        let mut state = self.step(&begin).await?;
        let challenge = state.get("request_result").and_then(|v| v.as_str());
        let challenge = challenge.ok_or_else(|| self.nonsense("a log-in without a challenge"))?;
        let digest = base64(&login.response(challenge.as_bytes()));
        let Some(fields) = state.as_object_mut() else {
            return Err(self.nonsense("a log-in without fields"));
        };
        for (name, value) in [
            ("digest", &*digest),
            ("next_operation", "auth_agent_auth_response"),
            ("scheme", "native"),
            ("user_name", &*login.user),
            ("zone_name", &*login.zone),
        ] {
            fields.insert(name.into(), value.into());
        }
        self.step(&state).await?;
        Ok(())
    }

    async fn step(&mut self, state: &serde_json::Value) -> Result<serde_json::Value> {
        let json = state.to_string();
        let body = Body::new()
            .number("buflen", json.len())
            .put("buf", base64(json.as_bytes()).as_bytes());
        let body = pack(
            "RODS_API_REQ",
            call::AUTHENTICATION,
            &body.within("BinBytesBuf_PI"),
        );
        let message = self.call(&body).await?;
        let mut json = unbase64(&self.field(&message, "buf")?).unwrap_or_default();
        // Text over there ends with a zero.
        json.retain(|b| *b != 0);
        serde_json::from_slice(&json).map_err(|_| self.nonsense("a log-in that is not in JSON"))
    }
}

/// The numbers in `rods4.2.11`.
fn version(text: &[u8]) -> (u32, u32, u32) {
    let text = String::from_utf8_lossy(text);
    let mut numbers = text
        .trim_start_matches("rods")
        .split('.')
        .map(|n| n.parse().unwrap_or(0));
    let mut next = || numbers.next().unwrap_or(0);
    (next(), next(), next())
}

/// RFC 4648, section 4; spaces and ends of lines are skipped.
fn unbase64(text: &[u8]) -> Option<Vec<u8>> {
    let mut out = Vec::new();
    let (mut bits, mut count) = (0_u32, 0);
    for byte in text.iter().filter(|b| !b.is_ascii_whitespace()) {
        let digit = match byte {
            b'A'..=b'Z' => byte - b'A',
            b'a'..=b'z' => byte - b'a' + 26,
            b'0'..=b'9' => byte - b'0' + 52,
            b'+' => 62,
            b'/' => 63,
            b'=' => break,
            _ => return None,
        };
        bits = bits << 6 | u32::from(digit);
        count += 6;
        if count >= 8 {
            count -= 8;
            out.push((bits >> count) as u8);
        }
    }
    Some(out)
}

impl Talk {
    /// Introduces the user and logs in, and is ready for questions.
    pub(crate) async fn begin(
        origin: Box<str>,
        from: impl AsyncRead + Unpin + Send + 'static,
        to: impl AsyncWrite + Unpin + Send + 'static,
        login: &Login,
        silence: Duration,
    ) -> Result<Self> {
        let from = BufReader::with_capacity(64 << 10, from);
        let mut hello = Hello { origin, from, to };
        let release = hello.begin(login).await?;
        let number = version(&release);
        if number >= STEPS {
            hello.log_in_by_steps(login).await?;
        } else {
            hello.log_in(login).await?;
        }
        let Hello {
            origin,
            mut from,
            mut to,
        } = hello;
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
                        if let Err(error) = to.write_all(&bytes).await {
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
            NO_FILE | NO_ROWS | NO_COLLECTION | NO_DATA => return Ok(Found::Absent),
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

    proptest! {
        #[test]
        fn base64_comes_back(bytes in proptest::collection::vec(any::<u8>(), 0..50)) {
            prop_assert_eq!(unbase64(base64(&bytes).as_bytes()), Some(bytes.clone()));
            let _ = (unbase64(&bytes), version(&bytes));
        }
    }

    #[test]
    fn versions_are_compared() {
        assert!(version(b"rods4.2.11") >= OLD && version(b"rods4.2.8") < OLD);
        assert!(version(b"rods4.3.0") >= STEPS && version(b"nothing") < OLD);
    }
}
