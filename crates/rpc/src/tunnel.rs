//! A door on this machine to a server elsewhere, for browsers: they cannot prove a key of SSH, and know no host keys. The tunnel proves
//! who asks on its connections to the server, and hears only the user whose process it is.
//!
//! ```text
//!  browser ── http://127.0.0.1:PORT ──► tunnel ── TLS by host key, proved by a key of SSH ──► server
//! ```
//!
//! Whoever connects is asked for at the kernel: processes of other users are turned away. So are requests for a page of another site, or
//! to a name that is not this machine's: a browser of the same user may send them without its user's wish.

use crate::http::{Connected, Failed, Outgoing, Place};
use bytes::Bytes;
use esker_access::page::{Foreign, Sender};
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

/// How often it is looked whether to go on.
const LOOK: Duration = Duration::from_millis(50);
/// How long connecting to the server may take, with the proof.
const CONNECT_MAX: Duration = Duration::from_secs(20);

/// What pages call the server, as whoever asks for them does.
const TARGET: &str = "esker-target";

type Answer = Response<Either<Incoming, Full<Bytes>>>;
type Upstream = client::SendRequest<Outgoing>;

/// A tunnel that listens.
#[derive(Debug)]
pub struct Tunnel {
    listener: std::net::TcpListener,
    address: SocketAddr,
}

fn said(status: StatusCode, message: &str) -> Answer {
    let text = format!("{{\"error\":{},\"retry_after_ms\":null}}", quoted(message));
    let mut response = Response::new(Either::Right(Full::new(Bytes::from(text))));
    *response.status_mut() = status;
    response.headers_mut().insert(
        header::CONTENT_TYPE,
        header::HeaderValue::from_static("application/json"),
    );
    response
}

/// A string of JSON.
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

/// Whether a request was sent here by a program, or for a page of this tunnel, as far as it says.
fn is_own<B>(request: &Request<B>) -> std::result::Result<(), Foreign> {
    let text = |name: &str| {
        let value = request.headers().get(name)?;
        Some(value.to_str().unwrap_or_default())
    };
    let authority = request.uri().authority();
    Sender::of(text, authority.map(http::uri::Authority::as_str)).is_own(|_| false)
}

impl Tunnel {
    /// Listens at that port of this machine; 0 lets the system choose.
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

    /// Where it listens.
    pub fn address(&self) -> SocketAddr {
        self.address
    }

    /// Whether the server is there and lets whoever this is in: asks it who that is.
    pub fn try_out(&self, place: &Place, stop: &dyn Fn() -> bool) -> Result<String> {
        let sent = crate::http::Sent::Nothing;
        let mut answer = place.ask("GET", "/api/v1/session", &[], sent, stop, None)?;
        let failed = |e| Error::io(format!("asking {place}"), e);
        let text = answer.text(64 << 10).map_err(failed)?;
        match answer.status {
            200 => Ok(text),
            404 => Err(Error::Target(format!(
                "the server at {place} has no console: it is older than this client, or no Esker server"
            ))),
            _ => Err(Error::Target(format!("{place}: {}", text.trim()))),
        }
    }

    /// Passes requests on until it is told to stop.
    pub fn run(self, place: Place, stop: &dyn Fn() -> bool) -> Result<()> {
        let runtime = tokio::runtime::Builder::new_multi_thread()
            .worker_threads(2)
            .thread_name("esker-tunnel")
            .enable_all()
            .build()
            .map_err(|e| Error::io("starting the tunnel's threads", e))?;
        let place = Arc::new(place);
        let listener = {
            let _inside = runtime.enter();
            TcpListener::from_std(self.listener).map_err(|e| Error::io("listening", e))?
        };
        let here = self.address;
        runtime.spawn(async move {
            loop {
                match listener.accept().await {
                    Ok((stream, from)) => {
                        tokio::spawn(serve(stream, from, here, Arc::clone(&place)));
                    }
                    // Out of descriptors, most likely: others may close theirs.
                    Err(_) => tokio::time::sleep(LOOK).await,
                }
            }
        });
        while !stop() {
            std::thread::sleep(LOOK);
        }
        runtime.shutdown_timeout(Duration::from_millis(200));
        Ok(())
    }
}

/// One connection of a browser.
async fn serve(stream: TcpStream, from: SocketAddr, here: SocketAddr, place: Arc<Place>) {
    let _ = stream.set_nodelay(true);
    let is_mine = tokio::task::spawn_blocking(move || {
        user_of(from, here) == Some(own_user()) && is_mapped(own_user())
    });
    let is_mine = is_mine.await.unwrap_or(false);
    // Each has a connection of its own: what is asked at once over several is answered at once.
    let upstream: Arc<Mutex<Option<Upstream>>> = Arc::default();
    let service = service_fn(move |request: Request<Incoming>| {
        let (place, upstream) = (Arc::clone(&place), Arc::clone(&upstream));
        async move {
            if !is_mine {
                let message = "this door is its user's own: run `esker console` yourself";
                return Ok::<_, Infallible>(said(StatusCode::FORBIDDEN, message));
            }
            if let Err(foreign) = is_own(&request) {
                return Ok(said(StatusCode::FORBIDDEN, &foreign.to_string()));
            }
            Ok(match forward(request, &place, &upstream).await {
                Ok(answer) => answer,
                Err(why) => said(StatusCode::BAD_GATEWAY, &why),
            })
        }
    });
    let _ = server::Builder::new()
        .serve_connection(TokioIo::new(stream), service)
        .await;
}

async fn forward(
    request: Request<Incoming>,
    place: &Place,
    upstream: &Mutex<Option<Upstream>>,
) -> std::result::Result<Answer, String> {
    let mut held = upstream.lock().await;
    if held.as_ref().is_none_or(client::SendRequest::is_closed) {
        let connecting = tokio::time::timeout(CONNECT_MAX, connect(place)).await;
        let sender = connecting.map_err(|_| format!("{place} did not answer in time"))??;
        *held = Some(sender);
    }
    let Some(sender) = held.as_mut() else {
        return Err(format!("{place} cannot be asked"));
    };
    let failed = |e: hyper::Error| format!("{place} did not answer: {e}");
    sender.ready().await.map_err(failed)?;
    let mut request = request.map(Outgoing::Passed);
    // Pages show commands that name the server: this end knows what it is called.
    if let (Place::Tcp { authority, .. }, headers) = (place, request.headers_mut())
        && let Ok(target) = header::HeaderValue::from_str(&format!("esker://{authority}"))
    {
        headers.insert(TARGET, target);
    }
    let answer = sender.send_request(request).await.map_err(failed)?;
    Ok(answer.map(Either::Left))
}

/// A connection on which it is proved who asks.
async fn connect(place: &Place) -> std::result::Result<Upstream, String> {
    let told = |e: Failed| e.told(place);
    let Connected { stream, exporter } = place.connect().await.map_err(told)?;
    let (mut sender, connection) = client::handshake(TokioIo::new(stream))
        .await
        .map_err(|e| format!("{place} did not answer: {e}"))?;
    tokio::spawn(connection);
    // Where no proof is good enough, the answer to what is asked next says so.
    place.prove(exporter, &mut sender).await.map_err(told)?;
    Ok(sender)
}
