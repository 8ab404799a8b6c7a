//! The lower end of a link to another tier.

use super::{Fetch, Got};
use crate::address::{KeyFiles, TierAddress};
use crate::given::Refused;
use crate::wire::convert::{self, Pieces, Whole};
use esker_access::peer::{is_own_or_root, user_of};
use esker_rpc::proto;
use esker_rpc::proto::site_client::SiteClient;
use esker_site_cache::entry::Happened;
use hyper_util::rt::TokioIo;
use std::collections::HashMap;
use std::io;
use std::net::SocketAddr;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, Weak};
use std::task::{Context, Poll};
use std::time::Duration;
use tokio::net::{TcpStream, UnixStream};
use tokio::sync::{mpsc, oneshot};
use tokio_stream::StreamExt as _;
use tokio_stream::wrappers::ReceiverStream;
use tonic::Streaming;
use tonic::transport::{Channel, Endpoint};

/// Questions that go into one message.
const TOGETHER: usize = 1024;
/// The largest message that is taken.
const MESSAGE_MAX: usize = 64 << 20;
/// How often a link that is silent is asked for a sign of life, and how long that may take.
const ALIVE: (Duration, Duration) = (Duration::from_secs(1), Duration::from_secs(3));
/// How long it may take to get through to a tier.
const CONNECT: Duration = Duration::from_secs(5);

/// What happens on a link without a question.
#[derive(Debug)]
pub(crate) enum Event {
    /// Something happened below an origin.
    Change(String, Vec<u8>, Happened),
    /// The tier above has lost who promised it to tell of changes.
    Cut,
    /// The link is gone.
    Gone,
}

enum Up {
    Ask(Box<proto::SiteAsk>),
    Cancel(u64),
    Doubt(proto::SiteChange),
}

struct Open {
    pieces: Pieces,
    then: oneshot::Sender<Whole>,
}

struct Inner {
    /// Nothing once the link is gone.
    open: Mutex<Option<HashMap<u64, Open>>>,
    next: AtomicU64,
    up: mpsc::UnboundedSender<Up>,
    to: Box<str>,
}

/// A link to a tier.
#[derive(Clone)]
pub struct Link {
    inner: Arc<Inner>,
}

/// An answer that came over a link.
#[derive(Debug)]
pub struct Linked {
    /// What came.
    pub got: Result<Got, Refused>,
    /// Whether the tier above had it at hand.
    pub hit: bool,
}

/// Takes a question back that nobody waits for any more.
struct Waiting<'a> {
    inner: &'a Inner,
    ticket: u64,
    over: bool,
}

impl Drop for Waiting<'_> {
    fn drop(&mut self) {
        if !self.over {
            if let Some(open) = self.inner.lock().as_mut() {
                open.remove(&self.ticket);
            }
            drop(self.inner.up.send(Up::Cancel(self.ticket)));
        }
    }
}

impl Inner {
    fn lock(&self) -> MutexGuard<'_, Option<HashMap<u64, Open>>> {
        self.open.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn gone(&self) -> Refused {
        Refused::Origin(format!("the link to the tier at {} is gone", self.to).into())
    }
}

/// The addresses of a connection over loopback.
#[derive(Debug, Clone, Copy)]
struct Ends {
    here: SocketAddr,
    there: SocketAddr,
}

/// A connection that is handed out once: another one would be another process's, perhaps.
struct Once<S>(Option<S>);

impl<S: Send + 'static> tower_service::Service<http::Uri> for Once<S> {
    type Response = TokioIo<S>;
    type Error = io::Error;
    type Future = std::future::Ready<io::Result<TokioIo<S>>>;

    fn poll_ready(&mut self, _: &mut Context<'_>) -> Poll<io::Result<()>> {
        Poll::Ready(Ok(()))
    }

    fn call(&mut self, _: http::Uri) -> Self::Future {
        let stream = self.0.take().map(TokioIo::new);
        std::future::ready(stream.ok_or_else(|| io::Error::other("the connection has ended")))
    }
}

fn endpoint(authority: &str) -> Result<Endpoint, String> {
    let endpoint = Endpoint::from_shared(format!("http://{authority}"))
        .map_err(|_| "its address is not one".to_owned())?
        .connect_timeout(CONNECT)
        .http2_keep_alive_interval(ALIVE.0)
        .keep_alive_timeout(ALIVE.1)
        .keep_alive_while_idle(true)
        .initial_stream_window_size(4 << 20)
        .initial_connection_window_size(16 << 20)
        .tcp_nodelay(true);
    Ok(endpoint)
}

/// Connects to a tier; over loopback the addresses of both ends as well.
async fn connect(to: TierAddress) -> Result<(Channel, Option<Ends>), String> {
    let unreached =
        |why: &str| format!("cannot be reached: {why}; is it running (`esker site serve`)?");
    let io_unreached = |e: io::Error| match e.kind() {
        io::ErrorKind::ConnectionRefused => unreached("Connection refused"),
        _ => unreached(&e.to_string()),
    };
    let late = |_| unreached("it does not answer in time");
    match to {
        TierAddress::Keyed(mut address) => {
            address.connect = Some(CONNECT);
            let endpoint = endpoint(&address.authority())?;
            let channel = esker_rpc::client::channel(&address, endpoint).await;
            Ok((channel.map_err(|e| e.to_string())?, None))
        }
        TierAddress::Unix(path) => {
            let stream = tokio::time::timeout(CONNECT, UnixStream::connect(&path)).await;
            let stream = stream.map_err(late)?.map_err(io_unreached)?;
            let owner = stream.peer_cred().map_err(|e| e.to_string())?.uid();
            if !is_own_or_root(owner) {
                return Err(format!("it belongs to user {owner}"));
            }
            let channel = over(stream, "localhost").await?;
            Ok((channel, None))
        }
        TierAddress::Loopback { authority } => {
            let stream = tokio::time::timeout(CONNECT, TcpStream::connect(&authority)).await;
            let stream = stream.map_err(late)?.map_err(io_unreached)?;
            stream.set_nodelay(true).map_err(io_unreached)?;
            let ends = Ends {
                here: stream.local_addr().map_err(io_unreached)?,
                there: stream.peer_addr().map_err(io_unreached)?,
            };
            let channel = over(stream, &authority).await?;
            Ok((channel, Some(ends)))
        }
    }
}

/// HTTP/2 over a connection that there is.
async fn over<S>(stream: S, authority: &str) -> Result<Channel, String>
where
    S: tokio::io::AsyncRead + tokio::io::AsyncWrite + Send + Unpin + 'static,
{
    let endpoint = endpoint(authority)?;
    let channel = endpoint.connect_with_connector(Once(Some(stream))).await;
    channel.map_err(|e| {
        format!(
            "does not speak HTTP/2: {}; is it a tier (`esker site serve`)?",
            deepest(&e)
        )
    })
}

impl Link {
    /// Opens a link to the tier at an address. A tier is told of changes; what happens comes out of `events`.
    pub(crate) async fn open(
        to: &str,
        keys: &KeyFiles,
        tier: bool,
        name: &str,
        events: mpsc::UnboundedSender<Event>,
    ) -> Result<Self, Refused> {
        let bad = |why: String| Refused::Origin(format!("the tier at {to}: {why}").into());
        let address = TierAddress::parse(to).map_err(|why| Refused::Named(why.into()))?;
        let shown = address.to_string();
        let to = &shown;
        let (channel, ends) = connect(address.with(keys)).await.map_err(bad)?;
        let (up, receive) = mpsc::unbounded_channel();
        let (messages, stream) = mpsc::channel(16);
        let hello = proto::SiteHello {
            tier,
            name: name.to_owned(),
        };
        let first = proto::SiteUp {
            hello: Some(hello),
            ..proto::SiteUp::default()
        };
        drop(messages.send(first).await);
        let mut client = SiteClient::new(channel).max_decoding_message_size(MESSAGE_MAX);
        let asked = tokio::time::timeout(CONNECT, client.link(ReceiverStream::new(stream)));
        let downs = asked
            .await
            .map_err(|_| bad(format!("no answer within {} s", CONNECT.as_secs())))?
            .map_err(|status| bad(format!("refuses: {}", status.message())))?
            .into_inner();
        // It has been accepted by now: the kernel knows by whom.
        if let Some(Ends { here, there }) = ends
            && !user_of(there, here).is_some_and(is_own_or_root)
        {
            return Err(bad(
                "it belongs to another user, or the kernel does not say to whom: what another user's tier answers is believed if \
                 it proves its host key (esker://HOST:PORT)"
                    .into(),
            ));
        }
        let inner = Arc::new(Inner {
            open: Mutex::new(Some(HashMap::new())),
            next: AtomicU64::new(1),
            up,
            to: to.as_str().into(),
        });
        tokio::spawn(send(receive, messages));
        tokio::spawn(receive_all(Arc::downgrade(&inner), downs, events));
        Ok(Self { inner })
    }

    /// Whether nothing comes over it any more.
    pub fn is_gone(&self) -> bool {
        self.inner.lock().is_none()
    }

    /// Asks. A link that ends meanwhile is an error; how long to wait is the caller's business.
    pub async fn ask(&self, fetch: Fetch, stale_if_error: bool) -> Result<Linked, Refused> {
        let ticket = self.inner.next.fetch_add(1, Ordering::Relaxed);
        let (then, receive) = oneshot::channel();
        match self.inner.lock().as_mut() {
            None => return Err(self.inner.gone()),
            Some(open) => open.insert(
                ticket,
                Open {
                    pieces: Pieces::default(),
                    then,
                },
            ),
        };
        let mut waiting = Waiting {
            inner: &self.inner,
            ticket,
            over: false,
        };
        let ask = convert::ask(ticket, fetch, stale_if_error);
        if self.inner.up.send(Up::Ask(Box::new(ask))).is_err() {
            return Err(self.inner.gone());
        }
        let whole = receive.await.map_err(|_| self.inner.gone());
        waiting.over = true;
        let Whole { got, hit } = whole?;
        Ok(Linked { got, hit })
    }

    /// Says that a path may have changed.
    pub fn doubt(&self, origin: &str, path: &[u8]) {
        let change = convert::change(origin, path.to_vec(), &Happened::Doubted);
        // A link that is gone has nothing to forget.
        drop(self.inner.up.send(Up::Doubt(change)));
    }
}

fn deepest(error: &(dyn std::error::Error + 'static)) -> String {
    let mut at = error;
    while let Some(below) = at.source() {
        at = below;
    }
    at.to_string()
}

async fn send(mut receive: mpsc::UnboundedReceiver<Up>, messages: mpsc::Sender<proto::SiteUp>) {
    let mut batch = Vec::new();
    loop {
        let count = tokio::select! {
            count = receive.recv_many(&mut batch, TOGETHER) => count,
            () = messages.closed() => return,
        };
        if count == 0 {
            return;
        }
        let mut message = proto::SiteUp::default();
        for one in batch.drain(..) {
            match one {
                Up::Ask(ask) => message.asks.push(*ask),
                Up::Cancel(ticket) => message.cancels.push(ticket),
                Up::Doubt(change) => message.doubts.push(change),
            }
        }
        if messages.send(message).await.is_err() {
            return;
        }
    }
}

async fn receive_all(
    inner: Weak<Inner>,
    mut downs: Streaming<proto::SiteDown>,
    events: mpsc::UnboundedSender<Event>,
) {
    while let Some(Ok(message)) = downs.next().await {
        // Changes first: what an answer says is not older than they are.
        for change in message.changes {
            let happened = convert::of_change(&change);
            drop(events.send(Event::Change(change.origin, change.path, happened)));
        }
        if message.cut {
            drop(events.send(Event::Cut));
        }
        // Nobody has this end of the link any more.
        let Some(inner) = inner.upgrade() else { break };
        let mut open = inner.lock();
        let Some(open) = open.as_mut() else { break };
        for answer in message.answers {
            let ticket = answer.ticket;
            let Some(waits) = open.get_mut(&ticket) else {
                continue;
            };
            if let Some(whole) = waits.pieces.take(answer)
                && let Some(waits) = open.remove(&ticket)
            {
                drop(waits.then.send(whole));
            }
        }
    }
    // Dropping them tells all who wait.
    if let Some(inner) = inner.upgrade() {
        inner.lock().take();
    }
    drop(events.send(Event::Gone));
}
