//! Connections between coordinators and workers. With a secret they are encrypted, and each end proves that it knows the secret: its TLS
//! host key is derived from the secret, and requests carry the secret. Without a secret, both ends must be on this machine and belong to
//! one user, according to the kernel.

use crate::secret::{REFUSED, Secret};
use esker_access::peer::{is_own_or_root, user_of};
use esker_access::slots::{CONNECTIONS, Slot, Slots, Source};
use esker_access::tls::{self, Accepted, NotAccepted};
use hyper_util::rt::TokioIo;
use std::io;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};
use std::time::{Duration, Instant};
use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::mpsc;
use tokio_rustls::{TlsAcceptor, TlsConnector};
use tokio_stream::wrappers::ReceiverStream;
use tonic::transport::server::Connected;

/// ALPN protocols over TLS.
const PROTOCOLS: [&[u8]; 1] = [b"h2"];
/// Timeout for connecting to a worker.
const BEGIN_MAX: Duration = Duration::from_secs(10);
/// Poll interval for the owner of a connection that is established but not yet accepted.
const POLL_INTERVAL: Duration = Duration::from_millis(2);

trait Io: AsyncRead + AsyncWrite + Send + Unpin {}
impl<T: AsyncRead + AsyncWrite + Send + Unpin> Io for T {}

/// A connection, plain or encrypted.
pub(crate) struct Wire {
    io: Box<dyn Io>,
    /// Deadline of a worker's connection: it is closed unless the client has authenticated by then.
    overdue: Option<Pin<Box<dyn Future<Output = ()> + Send>>>,
    slot: Option<Arc<Slot>>,
}

impl Wire {
    fn new(io: Box<dyn Io>) -> Self {
        Self {
            io,
            overdue: None,
            slot: None,
        }
    }

    /// Marks a worker's connection as counted by `slot` until it ends.
    fn counted(mut self, slot: Slot) -> Self {
        let slot = Arc::new(slot);
        let waits = Arc::clone(&slot);
        self.overdue = Some(Box::pin(async move { waits.overdue().await }));
        self.slot = Some(slot);
        self
    }
}

impl Connected for Wire {
    /// Connection slot, used by [`Secret::check`].
    type ConnectInfo = Option<Arc<Slot>>;

    fn connect_info(&self) -> Self::ConnectInfo {
        self.slot.clone()
    }
}

impl AsyncRead for Wire {
    fn poll_read(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        into: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        if let Some(overdue) = &mut self.overdue
            && overdue.as_mut().poll(cx).is_ready()
        {
            self.overdue = None;
            return Poll::Ready(Err(io::ErrorKind::TimedOut.into()));
        }
        Pin::new(&mut self.io).poll_read(cx, into)
    }
}

impl AsyncWrite for Wire {
    fn poll_write(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        bytes: &[u8],
    ) -> Poll<io::Result<usize>> {
        Pin::new(&mut self.io).poll_write(cx, bytes)
    }

    fn poll_flush(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.io).poll_flush(cx)
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.io).poll_shutdown(cx)
    }
}

fn io_error(e: impl Into<Box<dyn std::error::Error + Send + Sync>>) -> io::Error {
    io::Error::other(e)
}

/// Returns a stream of the connections that a worker accepts; accepting ends when the stream is dropped.
pub(crate) fn accepted(
    listener: TcpListener,
    secret: &Secret,
) -> io::Result<ReceiverStream<io::Result<Wire>>> {
    let acceptor = match secret.host_key() {
        Some(key) => {
            let config = tls::server(&key, &[], None, &PROTOCOLS).map_err(io_error)?;
            Some(TlsAcceptor::from(Arc::new(config)))
        }
        None => None,
    };
    let slots = Slots::new("worker", CONNECTIONS, 0);
    let (send, receive) = mpsc::channel(16);
    tokio::spawn(async move {
        loop {
            // Yields, so that a flood of connections does not starve other tasks of the thread.
            tokio::task::yield_now().await;
            let accepted = tokio::select! {
                accepted = listener.accept() => accepted,
                () = send.closed() => return,
            };
            let (stream, from) = match accepted {
                Ok(accepted) => accepted,
                Err(error) => {
                    // Mostly out of file descriptors, which is temporary.
                    tracing::warn!(%error, "a connection could not be accepted");
                    tokio::time::sleep(Duration::from_millis(100)).await;
                    continue;
                }
            };
            let here = stream.local_addr();
            let user = here.ok().and_then(|here| user_of(from, here));
            let owner = user.is_some_and(is_own_or_root);
            if acceptor.is_none() && !owner {
                let user = user.map_or("?".to_owned(), |u| u.to_string());
                tracing::warn!(%from, user, "refused: the user does not own this worker, which has no secret");
                continue;
            }
            let source = Source::new(from.ip(), user);
            let Some(slot) = slots.take(source, owner) else {
                tracing::debug!(%source, "a connection too many is closed");
                slots.close_later(stream);
                continue;
            };
            let (acceptor, send) = (acceptor.clone(), send.clone());
            tokio::spawn(async move {
                match begin(stream, acceptor.as_ref()).await {
                    Ok(wire) => drop(send.send(Ok(wire.counted(slot))).await),
                    Err(NotAccepted::Tls(error)) => tracing::warn!(%from, %error, "refused"),
                    Err(NotAccepted::Silent) => {
                        tracing::debug!(%from, "a client did not start in time");
                    }
                }
            });
        }
    });
    Ok(ReceiverStream::new(receive))
}

/// Starts the worker's side of a connection. Without TLS a request carries no secret and is refused with a message.
async fn begin(stream: TcpStream, acceptor: Option<&TlsAcceptor>) -> Result<Wire, NotAccepted> {
    if let Err(error) = stream.set_nodelay(true) {
        tracing::debug!(%error, "TCP_NODELAY");
    }
    Ok(match tls::accept(stream, acceptor, true).await? {
        Accepted::Plain(stream) => Wire::new(Box::new(stream)),
        Accepted::Encrypted(stream) => Wire::new(stream),
    })
}

/// Connects to a worker at `HOST:PORT`.
pub(crate) async fn connect(authority: &str, secret: &Secret) -> io::Result<TokioIo<Wire>> {
    let until = Instant::now() + BEGIN_MAX;
    let stream = tokio::time::timeout(BEGIN_MAX, TcpStream::connect(authority)).await;
    let stream = stream.map_err(io::Error::from)??;
    stream.set_nodelay(true)?;
    let Some(own) = secret.host_key() else {
        own_worker(&stream, until).await?;
        return Ok(TokioIo::new(Wire::new(Box::new(stream))));
    };
    let client = tls::Client::new(&PROTOCOLS).map_err(io_error)?;
    let name = tls::Client::name().map_err(io_error)?;
    let handshake = TlsConnector::from(client.config()).connect(name, stream);
    let stream = tokio::time::timeout(BEGIN_MAX, handshake).await;
    let stream = stream
        .map_err(io::Error::from)?
        .map_err(|_| io_error(REFUSED))?;
    if client.key().as_ref() != Some(own.public().key_data()) {
        return Err(io_error(REFUSED));
    }
    Ok(TokioIo::new(Wire::new(Box::new(stream))))
}

/// Checks that the listening process belongs to this user; without a secret nothing else identifies it as the user's own worker.
async fn own_worker(stream: &TcpStream, until: Instant) -> io::Result<()> {
    let (here, there) = (stream.local_addr()?, stream.peer_addr()?);
    if !there.ip().to_canonical().is_loopback() {
        return Err(io_error(
            "a worker on another machine requires a secret; give the workers' own (--secret-file)",
        ));
    }
    loop {
        // A connection has no owner before it is accepted.
        match user_of(there, here) {
            Some(user) if is_own_or_root(user) => return Ok(()),
            None if Instant::now() < until => {
                let mut byte = [0; 1];
                match tokio::time::timeout(POLL_INTERVAL, stream.peek(&mut byte)).await {
                    Ok(Ok(0) | Err(_)) => {
                        return Err(io_error(
                            "it answers its own user only: give the workers' secret (--secret-file)",
                        ));
                    }
                    Ok(Ok(_)) => tokio::time::sleep(POLL_INTERVAL).await,
                    Err(_) => {}
                }
            }
            user => {
                return Err(io_error(format!(
                    "it belongs to user {}, and not to you: give the workers' secret (--secret-file)",
                    user.map_or("?".to_owned(), |u| u.to_string())
                )));
            }
        }
    }
}
