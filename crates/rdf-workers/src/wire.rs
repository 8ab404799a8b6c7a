//! Connections between coordinators and workers. With a secret they are encrypted, and each end proves that it knows the secret: its
//! host key for TLS is made of it, and requests say it. Without one, both ends are on this machine and of one user, as the kernel says.

use crate::secret::{REFUSED, Secret};
use esker_access::peer::{is_own_or_root, user_of};
use esker_access::tls::{self, FIRST_BYTE};
use hyper_util::rt::TokioIo;
use std::io;
use std::net::SocketAddr;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};
use std::time::{Duration, Instant};
use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::{Semaphore, mpsc};
use tokio_rustls::{TlsAcceptor, TlsConnector};
use tokio_stream::wrappers::ReceiverStream;
use tonic::transport::server::{Connected, TcpConnectInfo};

/// What is spoken over TLS.
const PROTOCOLS: [&[u8]; 1] = [b"h2"];
/// How long a client may take to begin and to agree on TLS, and a worker to be reached.
const BEGIN_MAX: Duration = Duration::from_secs(10);
/// Connections that are being begun at once.
const BEGINNING_MAX: usize = 256;
/// How often the kernel is asked whose a connection is that was made and not accepted yet.
const LOOK: Duration = Duration::from_millis(2);

trait Io: AsyncRead + AsyncWrite + Send + Unpin {}
impl<T: AsyncRead + AsyncWrite + Send + Unpin> Io for T {}

/// A connection.
pub(crate) struct Wire {
    io: Box<dyn Io>,
    peer: Option<SocketAddr>,
}

impl Connected for Wire {
    type ConnectInfo = TcpConnectInfo;

    fn connect_info(&self) -> TcpConnectInfo {
        TcpConnectInfo {
            local_addr: None,
            remote_addr: self.peer,
        }
    }
}

impl AsyncRead for Wire {
    fn poll_read(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        into: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
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
    let beginning = Arc::new(Semaphore::new(BEGINNING_MAX));
    let (send, receive) = mpsc::channel(16);
    tokio::spawn(async move {
        loop {
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
            let Ok(place) = beginning.clone().try_acquire_owned() else {
                continue;
            };
            let (acceptor, send) = (acceptor.clone(), send.clone());
            tokio::spawn(async move {
                match tokio::time::timeout(BEGIN_MAX, begin(stream, from, acceptor)).await {
                    Ok(Ok(wire)) => drop(send.send(Ok(wire)).await),
                    Ok(Err(error)) => tracing::warn!(%from, %error, "refused"),
                    Err(_) => tracing::debug!(%from, "a client did not begin in time"),
                }
                drop(place);
            });
        }
    });
    Ok(ReceiverStream::new(receive))
}

/// The worker's side of a connection.
async fn begin(
    stream: TcpStream,
    from: SocketAddr,
    acceptor: Option<TlsAcceptor>,
) -> io::Result<Wire> {
    stream.set_nodelay(true)?;
    let peer = Some(from);
    let Some(acceptor) = acceptor else {
        let user = user_of(from, stream.local_addr()?);
        if !user.is_some_and(is_own_or_root) {
            return Err(other(format!(
                "user {} does not own this worker, which has no secret",
                user.map_or("?".to_owned(), |u| u.to_string())
            )));
        }
        let io: Box<dyn Io> = Box::new(stream);
        return Ok(Wire { io, peer });
    };
    let mut byte = [0; 1];
    let is_tls = stream.peek(&mut byte).await? == 1 && byte[0] == FIRST_BYTE;
    // Without TLS a request says no secret, and is told so.
    let io: Box<dyn Io> = if is_tls {
        Box::new(acceptor.accept(stream).await?)
    } else {
        Box::new(stream)
    };
    Ok(Wire { io, peer })
}

/// Connects to a worker at `HOST:PORT`.
pub(crate) async fn connect(authority: &str, secret: &Secret) -> io::Result<TokioIo<Wire>> {
    let until = Instant::now() + BEGIN_MAX;
    let stream = tokio::time::timeout(BEGIN_MAX, TcpStream::connect(authority)).await;
    let stream = stream.map_err(io::Error::from)??;
    stream.set_nodelay(true)?;
    let peer = Some(stream.peer_addr()?);
    let Some(own) = secret.host_key() else {
        own_worker(&stream, until).await?;
        let io: Box<dyn Io> = Box::new(stream);
        return Ok(TokioIo::new(Wire { io, peer }));
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
    let io: Box<dyn Io> = Box::new(stream);
    Ok(TokioIo::new(Wire { io, peer }))
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
