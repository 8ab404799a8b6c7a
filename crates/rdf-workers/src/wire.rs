//! Connections between coordinators and workers. With a secret they are encrypted, and each end proves that it knows the secret: its
//! host key for TLS is made of it, and requests say it. Without one, both ends are on this machine and of one user, as the kernel says.

use crate::secret::{REFUSED, Secret};
use esker_access::peer::{is_own_or_root, user_of};
use esker_access::slots::{CONNECTIONS, Slot, Slots, Source};
use esker_access::tls::{self, Begun, NotBegun};
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

/// What is spoken over TLS.
const PROTOCOLS: [&[u8]; 1] = [b"h2"];
/// How long a worker may take to be reached.
const BEGIN_MAX: Duration = Duration::from_secs(10);
/// How often the kernel is asked whose a connection is that was made and not accepted yet.
const LOOK: Duration = Duration::from_millis(2);

trait Io: AsyncRead + AsyncWrite + Send + Unpin {}
impl<T: AsyncRead + AsyncWrite + Send + Unpin> Io for T {}

/// A connection.
pub(crate) struct Wire {
    io: Box<dyn Io>,
    /// Of a worker's: when it is closed because nobody has said the secret on it.
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

    /// At a worker, which counts it until it ends.
    fn counted(mut self, slot: Slot) -> Self {
        let slot = Arc::new(slot);
        let waits = Arc::clone(&slot);
        self.overdue = Some(Box::pin(async move { waits.overdue().await }));
        self.slot = Some(slot);
        self
    }
}

impl Connected for Wire {
    /// What it is counted by, for [`Secret::check`].
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

fn other(e: impl Into<Box<dyn std::error::Error + Send + Sync>>) -> io::Error {
    io::Error::other(e)
}

/// Connections that a worker accepts, until nobody takes them any more.
pub(crate) fn accepted(
    listener: TcpListener,
    secret: &Secret,
) -> io::Result<ReceiverStream<io::Result<Wire>>> {
    let acceptor = match secret.host_key() {
        Some(key) => {
            let config = tls::server(&key, &[], None, &PROTOCOLS).map_err(other)?;
            Some(TlsAcceptor::from(Arc::new(config)))
        }
        None => None,
    };
    let slots = Slots::new("worker", CONNECTIONS, 0);
    let (send, receive) = mpsc::channel(16);
    tokio::spawn(async move {
        loop {
            // A flood of connections is taken one by one between what else the thread does.
            tokio::task::yield_now().await;
            let accepted = tokio::select! {
                accepted = listener.accept() => accepted,
                () = send.closed() => return,
            };
            let (stream, from) = match accepted {
                Ok(accepted) => accepted,
                Err(error) => {
                    // Out of descriptors, mostly: it passes.
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
                    Err(NotBegun::Tls(error)) => tracing::warn!(%from, %error, "refused"),
                    Err(NotBegun::Silent) => {
                        tracing::debug!(%from, "a client did not begin in time");
                    }
                }
            });
        }
    });
    Ok(ReceiverStream::new(receive))
}

/// The worker's side of a connection. Without TLS a request says no secret, and is told so.
async fn begin(stream: TcpStream, acceptor: Option<&TlsAcceptor>) -> Result<Wire, NotBegun> {
    if let Err(error) = stream.set_nodelay(true) {
        tracing::debug!(%error, "TCP_NODELAY");
    }
    Ok(match tls::begin(stream, acceptor, true).await? {
        Begun::Plain(stream) => Wire::new(Box::new(stream)),
        Begun::Encrypted(stream) => Wire::new(stream),
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
    let client = tls::Client::new(&PROTOCOLS).map_err(other)?;
    let name = tls::Client::name().map_err(other)?;
    let handshake = TlsConnector::from(client.config()).connect(name, stream);
    let stream = tokio::time::timeout(BEGIN_MAX, handshake).await;
    let stream = stream
        .map_err(io::Error::from)?
        .map_err(|_| other(REFUSED))?;
    if client.key().as_ref() != Some(own.public().key_data()) {
        return Err(other(REFUSED));
    }
    Ok(TokioIo::new(Wire::new(Box::new(stream))))
}

/// Whether whoever listens is a process of this user: without a secret nothing else says that it is a worker of theirs.
async fn own_worker(stream: &TcpStream, until: Instant) -> io::Result<()> {
    let (here, there) = (stream.local_addr()?, stream.peer_addr()?);
    if !there.ip().to_canonical().is_loopback() {
        return Err(other(
            "a worker on another machine is asked with a secret only; give the workers' own (--secret-file)",
        ));
    }
    loop {
        // Nobody has it before it is accepted.
        match user_of(there, here) {
            Some(user) if is_own_or_root(user) => return Ok(()),
            None if Instant::now() < until => {
                let mut byte = [0; 1];
                match tokio::time::timeout(LOOK, stream.peek(&mut byte)).await {
                    Ok(Ok(0) | Err(_)) => {
                        return Err(other(
                            "it answers its own user only: give the workers' secret (--secret-file)",
                        ));
                    }
                    Ok(Ok(_)) => tokio::time::sleep(LOOK).await,
                    Err(_) => {}
                }
            }
            user => {
                return Err(other(format!(
                    "it belongs to user {}, and not to you: give the workers' secret (--secret-file)",
                    user.map_or("?".to_owned(), |u| u.to_string())
                )));
            }
        }
    }
}
