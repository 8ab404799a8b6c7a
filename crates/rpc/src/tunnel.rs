//! Local proxy to a remote server for browsers, which cannot prove an SSH key and know no host keys. The tunnel proves
//! the user's
//! identity on its connections to the server, and accepts only connections of the user who runs it.
//!
//! ```text
//!  browser ── http://127.0.0.1:PORT ──► tunnel ── TLS by host key, proved by an SSH key ──► server
//! ```
//!
//! The kernel reports the user of each connection; those of other users are refused. So are requests from pages of
//! other sites and
//! requests for a host name other than this machine's, which a browser of the same user may send without its user's intent.

use crate::http::{Endpoint, OpenConnection, OutgoingBody, RequestError};
use bytes::Bytes;
use esker_access::origin_check::{ForeignRequest, OriginHeaders};
use esker_access::peer::{is_mapped, own_user, user_of};
use esker_model::{Error, Result};
use http::{Request, Response, StatusCode, header};
use http_body_util::{Either, Full};
use hyper::body::Incoming;
use hyper::client::conn::http1 as client;
use hyper::server::conn::http1 as server;
use hyper::service::service_fn;
use hyper_util::rt::TokioIo;
use std::convert::Infallible;
use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::Mutex;

/// Interval at which the tunnel checks whether to stop.
const POLL_INTERVAL: Duration = Duration::from_millis(50);
/// Time limit for connecting to the server, including the proof.
const CONNECT_MAX: Duration = Duration::from_secs(20);

/// Header with the target that pages show in commands: the server as this user addresses it.
const TARGET: &str = "esker-target";

type Answer = Response<Either<Incoming, Full<Bytes>>>;
/// Connection to the server.
struct Upstream {
    sender: client::SendRequest<OutgoingBody>,
    /// Token of the user's login, which each request carries.
    token: Option<header::HeaderValue>,
}

/// A tunnel that listens for connections.
#[derive(Debug)]
pub struct Tunnel {
    listener: std::net::TcpListener,
    address: SocketAddr,
}

fn error_response(status: StatusCode, message: &str) -> Answer {
    let text = format!("{{\"error\":{},\"retry_after_ms\":null}}", quoted(message));
    let mut response = Response::new(Either::Right(Full::new(Bytes::from(text))));
    *response.status_mut() = status;
    response.headers_mut().insert(
        header::CONTENT_TYPE,
        header::HeaderValue::from_static("application/json"),
    );
    response
}

/// A JSON string literal.
fn quoted(text: &str) -> String {
    let mut out = String::from("\"");
    for c in text.chars() {
        match c {
            '"' => out.push_str("\\\""),
            '\\' => out.push_str("\\\\"),
            c if c.is_control() => out.push(' '),
            c => out.push(c),
        }
    }
    out.push('"');
    out
}

/// Whether a request comes from a program or from a page of this tunnel, according to its headers.
fn is_own<B>(request: &Request<B>) -> std::result::Result<(), ForeignRequest> {
    let text = |name: &str| {
        let value = request.headers().get(name)?;
        Some(value.to_str().unwrap_or_default())
    };
    let authority = request.uri().authority();
    OriginHeaders::of(text, authority.map(http::uri::Authority::as_str)).is_own(|_| false)
}

impl Tunnel {
    /// Listens at a port of this machine; 0 lets the system choose.
    pub fn new(port: u16) -> Result<Self> {
        let failed = |e| {
            Error::io(
                format!("listening at 127.0.0.1:{port} (choose another port, or 0)"),
                e,
            )
        };
        let listener = std::net::TcpListener::bind(("127.0.0.1", port)).map_err(failed)?;
        let address = listener.local_addr().map_err(failed)?;
        listener.set_nonblocking(true).map_err(failed)?;
        Ok(Self { listener, address })
    }

    /// Address that the tunnel listens at.
    pub fn address(&self) -> SocketAddr {
        self.address
    }

    /// Checks that the server responds and grants access; returns its description of the session.
    pub fn try_out(&self, endpoint: &Endpoint, stop: &dyn Fn() -> bool) -> Result<String> {
        let sent = crate::http::RequestBody::Nothing;
        let mut answer = endpoint.request("GET", "/api/v1/session", &[], sent, stop, None)?;
        let failed = |e| Error::io(format!("asking {endpoint}"), e);
        let text = answer.text(64 << 10).map_err(failed)?;
        match answer.status {
            200 => Ok(text),
            404 => Err(Error::Target(format!(
                "the server at {endpoint} has no console: it is older than this client, or not an Esker server"
            ))),
            _ => Err(Error::Target(format!("{endpoint}: {}", text.trim()))),
        }
    }

    /// Forwards requests until `stop` returns true.
    pub fn run(self, endpoint: Endpoint, stop: &dyn Fn() -> bool) -> Result<()> {
        let runtime = tokio::runtime::Builder::new_multi_thread()
            .worker_threads(2)
            .thread_name("esker-tunnel")
            .enable_all()
            .build()
            .map_err(|e| Error::io("starting the tunnel's threads", e))?;
        let endpoint = Arc::new(endpoint);
        let listener = {
            let _inside = runtime.enter();
            TcpListener::from_std(self.listener).map_err(|e| Error::io("listening", e))?
        };
        let here = self.address;
        runtime.spawn(async move {
            loop {
                match listener.accept().await {
                    Ok((stream, from)) => {
                        tokio::spawn(serve(stream, from, here, Arc::clone(&endpoint)));
                    }
                    // Probably out of descriptors; other connections may be closed meanwhile.
                    Err(_) => tokio::time::sleep(POLL_INTERVAL).await,
                }
            }
        });
        while !stop() {
            std::thread::sleep(POLL_INTERVAL);
        }
        runtime.shutdown_timeout(Duration::from_millis(200));
        Ok(())
    }
}

/// Serves one connection of a browser.
async fn serve(stream: TcpStream, from: SocketAddr, here: SocketAddr, endpoint: Arc<Endpoint>) {
    let _ = stream.set_nodelay(true);
    let is_mine = tokio::task::spawn_blocking(move || {
        user_of(from, here) == Some(own_user()) && is_mapped(own_user())
    });
    let is_mine = is_mine.await.unwrap_or(false);
    // Each connection has its own upstream connection, so parallel requests are answered in parallel.
    let upstream: Arc<Mutex<Option<Upstream>>> = Arc::default();
    let service = service_fn(move |request: Request<Incoming>| {
        let (endpoint, upstream) = (Arc::clone(&endpoint), Arc::clone(&upstream));
        async move {
            if !is_mine {
                let message = "this door is its user's own: run `esker console` yourself";
                return Ok::<_, Infallible>(error_response(StatusCode::FORBIDDEN, message));
            }
            if let Err(foreign) = is_own(&request) {
                return Ok(error_response(StatusCode::FORBIDDEN, &foreign.to_string()));
            }
            Ok(match forward(request, &endpoint, &upstream).await {
                Ok(answer) => answer,
                Err(why) => error_response(StatusCode::BAD_GATEWAY, &why),
            })
        }
    });
    let _ = server::Builder::new()
        .serve_connection(TokioIo::new(stream), service)
        .await;
}

async fn forward(
    request: Request<Incoming>,
    endpoint: &Endpoint,
    upstream: &Mutex<Option<Upstream>>,
) -> std::result::Result<Answer, String> {
    let mut guard = upstream.lock().await;
    if guard
        .as_ref()
        .is_none_or(|upstream| upstream.sender.is_closed())
    {
        let connecting = tokio::time::timeout(CONNECT_MAX, connect(endpoint)).await;
        let upstream = connecting.map_err(|_| format!("{endpoint} did not answer in time"))??;
        *guard = Some(upstream);
    }
    let Some(Upstream { sender, token }) = guard.as_mut() else {
        return Err(format!("{endpoint} cannot be asked"));
    };
    let failed = |e: hyper::Error| format!("{endpoint} did not answer: {e}");
    sender.ready().await.map_err(failed)?;
    let mut request = request.map(OutgoingBody::Passed);
    // Pages show commands with the server's address, which only this end knows.
    if let (Endpoint::Tcp { authority, .. }, headers) = (endpoint, request.headers_mut())
        && let Ok(target) = header::HeaderValue::from_str(&format!("esker://{authority}"))
    {
        headers.insert(TARGET, target);
    }
    if let Some(token) = token {
        let headers = request.headers_mut();
        headers.insert(header::AUTHORIZATION, token.clone());
    }
    let answer = sender.send_request(request).await.map_err(failed)?;
    Ok(answer.map(Either::Left))
}

/// Opens an upstream connection; uses the token of the user's login there, or proves a key.
async fn connect(endpoint: &Endpoint) -> std::result::Result<Upstream, String> {
    let message_of = |e: RequestError| e.message(endpoint);
    let OpenConnection { stream, exporter } = endpoint.connect().await.map_err(message_of)?;
    let (mut sender, connection) = client::handshake(TokioIo::new(stream))
        .await
        .map_err(|e| format!("{endpoint} did not answer: {e}"))?;
    tokio::spawn(connection);
    let token = endpoint.authorization(exporter.as_ref()).await;
    let token = token.map_err(message_of)?;
    if token.is_none() {
        // If no proof is sufficient, the response to the next request says so.
        endpoint
            .prove(exporter, &mut sender)
            .await
            .map_err(message_of)?;
    }
    Ok(Upstream { sender, token })
}
