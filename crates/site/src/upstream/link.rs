//! Client end of a link to another tier.

use super::{Fetch, FetchResponse};
use crate::address::{KeyFiles, TierAddress};
use crate::answer::Refused;
use crate::wire::convert::{self, CompleteAnswer, Pieces};
use esker_access::peer::{is_own_or_root, user_of};
use esker_rpc::proto;
use esker_rpc::proto::site_client::SiteClient;
use esker_site_cache::entry::ChangeKind;
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

/// Maximum number of requests in one message.
const BATCH_MAX: usize = 1024;
/// Maximum size of a received message, in bytes.
const MESSAGE_MAX: usize = 64 << 20;
/// Interval and timeout of keep-alive probes on an idle link.
const ALIVE: (Duration, Duration) = (Duration::from_secs(1), Duration::from_secs(3));
/// Timeout for connecting to a tier.
const CONNECT: Duration = Duration::from_secs(5);

/// Unsolicited event of a link.
#[derive(Debug)]
pub(crate) enum Event {
    /// A change below an origin.
    Change(String, Vec<u8>, ChangeKind),
    /// The upstream tier lost its own upstream subscription.
    SubscriptionsLost,
    /// The link is disconnected.
    Disconnected,
}

enum Up {
    Request(Box<proto::SiteAsk>),
    Cancel(u64),
    Invalidate(proto::SiteChange),
}

struct PendingRequest {
    pieces: Pieces,
    then: oneshot::Sender<CompleteAnswer>,
}

struct Inner {
    /// Requests without an answer; `None` once the link is disconnected.
    pending: Mutex<Option<HashMap<u64, PendingRequest>>>,
    next: AtomicU64,
    up: mpsc::UnboundedSender<Up>,
    to: Box<str>,
}

/// A link to a tier.
#[derive(Clone)]
pub struct Link {
    inner: Arc<Inner>,
}

/// An answer received over a link.
#[derive(Debug)]
pub struct LinkAnswer {
    /// Response, or reason of its absence.
    pub got: Result<FetchResponse, Refused>,
    /// Whether the upstream tier answered from its cache.
    pub hit: bool,
}

/// Cancels a request when its caller stops waiting.
struct CancelGuard<'a> {
    inner: &'a Inner,
    ticket: u64,
    over: bool,
}

impl Drop for CancelGuard<'_> {
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
    fn lock(&self) -> MutexGuard<'_, Option<HashMap<u64, PendingRequest>>> {
        self.pending.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn disconnected(&self) -> Refused {
        Refused::Origin(format!("the link to the tier at {} is gone", self.to).into())
    }
}

/// Addresses of both ends of a loopback connection.
#[derive(Debug, Clone, Copy)]
struct Ends {
    here: SocketAddr,
    there: SocketAddr,
}

/// Connector that provides one connection: a second one could reach another process.
struct SingleConnection<S>(Option<S>);

impl<S: Send + 'static> tower_service::Service<http::Uri> for SingleConnection<S> {
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

/// Connects to a tier; returns the addresses of both ends of a loopback connection.
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
            let channel = http2_over(stream, "localhost").await?;
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
            let channel = http2_over(stream, &authority).await?;
            Ok((channel, Some(ends)))
        }
    }
}

/// Starts HTTP/2 over an existing connection.
async fn http2_over<S>(stream: S, authority: &str) -> Result<Channel, String>
where
    S: tokio::io::AsyncRead + tokio::io::AsyncWrite + Send + Unpin + 'static,
{
    let endpoint = endpoint(authority)?;
    let channel = endpoint
        .connect_with_connector(SingleConnection(Some(stream)))
        .await;
    channel.map_err(|e| {
        format!(
            "does not speak HTTP/2: {}; is it a tier (`esker site serve`)?",
            deepest(&e)
        )
    })
}

impl Link {
    /// Opens a link to the tier at an address. A link of a tier receives changes; its events are sent to `events`.
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
        // The tier has accepted the connection, so the kernel knows its user.
        if let Some(Ends { here, there }) = ends
            && !user_of(there, here).is_some_and(is_own_or_root)
        {
            return Err(bad(
                "it belongs to another user, or the kernel does not say to whom: what another \
                 user's tier answers is trusted only if it proves its host key (esker://HOST:PORT)"
                    .into(),
            ));
        }
        let inner = Arc::new(Inner {
            pending: Mutex::new(Some(HashMap::new())),
            next: AtomicU64::new(1),
            up,
            to: to.as_str().into(),
        });
        tokio::spawn(send(receive, messages));
        tokio::spawn(receive_all(Arc::downgrade(&inner), downs, events));
        Ok(Self { inner })
    }

    /// Whether the link is disconnected.
    pub fn is_disconnected(&self) -> bool {
        self.inner.lock().is_none()
    }

    /// Sends a request. Fails if the link is disconnected meanwhile; the caller has to limit the waiting time.
    pub async fn query(&self, fetch: Fetch, stale_if_error: bool) -> Result<LinkAnswer, Refused> {
        let ticket = self.inner.next.fetch_add(1, Ordering::Relaxed);
        let (then, receive) = oneshot::channel();
        match self.inner.lock().as_mut() {
            None => return Err(self.inner.disconnected()),
            Some(open) => open.insert(
                ticket,
                PendingRequest {
                    pieces: Pieces::default(),
                    then,
                },
            ),
        };
        let mut waiting = CancelGuard {
            inner: &self.inner,
            ticket,
            over: false,
        };
        let ask = convert::site_ask(ticket, fetch, stale_if_error);
        if self.inner.up.send(Up::Request(Box::new(ask))).is_err() {
            return Err(self.inner.disconnected());
        }
        let whole = receive.await.map_err(|_| self.inner.disconnected());
        waiting.over = true;
        let CompleteAnswer { got, hit } = whole?;
        Ok(LinkAnswer { got, hit })
    }

    /// Notifies the tier that a path may have changed.
    pub fn invalidate(&self, origin: &str, path: &[u8]) {
        let change = convert::change(origin, path.to_vec(), &ChangeKind::Invalidated);
        // A disconnected tier has dropped the subscription anyway.
        drop(self.inner.up.send(Up::Invalidate(change)));
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
            count = receive.recv_many(&mut batch, BATCH_MAX) => count,
            () = messages.closed() => return,
        };
        if count == 0 {
            return;
        }
        let mut message = proto::SiteUp::default();
        for one in batch.drain(..) {
            match one {
                Up::Request(ask) => message.asks.push(*ask),
                Up::Cancel(ticket) => message.cancels.push(ticket),
                Up::Invalidate(change) => message.doubts.push(change),
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
        // Changes first: the answers in the message are not older.
        for change in message.changes {
            let kind = convert::of_change(&change);
            drop(events.send(Event::Change(change.origin, change.path, kind)));
        }
        if message.cut {
            drop(events.send(Event::SubscriptionsLost));
        }
        // All handles of the link are dropped.
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
    // Dropping the senders fails all waiting requests.
    if let Some(inner) = inner.upgrade() {
        inner.lock().take();
    }
    drop(events.send(Event::Disconnected));
}
