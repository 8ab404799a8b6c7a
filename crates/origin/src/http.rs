//! HTTP as WebDAV and S3 need it: requests without bodies worth the name, answers of bounded length in bounded time.
//!
//! HTTP/1.1 has no pipelining that servers and proxies agree on, so questions in flight are requests on as many kept
//! connections; with TLS and a server that offers HTTP/2, they are streams of one connection.

use crate::error::{Error, Result, shown};
use http::{HeaderMap, Request, StatusCode, Version};
use http_body_util::{BodyExt as _, Full};
use hyper::body::Bytes;
use hyper_rustls::{ConfigBuilderExt as _, HttpsConnector, HttpsConnectorBuilder};
use hyper_util::client::legacy::Client;
use hyper_util::client::legacy::connect::HttpConnector;
use hyper_util::rt::{TokioExecutor, TokioTimer};
use rustls::{ClientConfig, RootCertStore};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;
use tokio::sync::{OwnedSemaphorePermit, Semaphore};
use tokio::time::timeout;

/// Questions of one session at once over HTTP/1.1, which is as many connections; and over HTTP/2.
pub(crate) const WIDTH: (usize, usize) = (16, 64);
/// The longest answer about one path, and the longest about what stands in one: half a million names of WebDAV or so.
pub(crate) const ONE_MAX: usize = 8 << 20;
pub(crate) const MANY_MAX: usize = 128 << 20;
/// What all answers that are being read may take together.
const ALL_MAX: usize = 1 << 30;
/// What is counted of that at once.
const PART: usize = 1 << 20;

/// A client for one origin.
pub(crate) struct Http {
    origin: Box<str>,
    client: Client<HttpsConnector<HttpConnector>, Full<Bytes>>,
    silence: Duration,
    second: AtomicBool,
    room: Arc<Semaphore>,
}

/// A whole answer.
#[derive(Debug)]
pub(crate) struct Answer {
    pub(crate) status: StatusCode,
    pub(crate) headers: HeaderMap,
    pub(crate) body: Vec<u8>,
    /// What it takes of the room for answers.
    _room: Option<OwnedSemaphorePermit>,
}

impl Answer {
    /// Without a body.
    #[cfg(test)]
    pub(crate) fn of(status: StatusCode, headers: HeaderMap) -> Self {
        Self {
            status,
            headers,
            body: Vec::new(),
            _room: None,
        }
    }

    /// A header as text, if it is there and is text.
    pub(crate) fn header(&self, name: &str) -> Option<&str> {
        self.headers.get(name)?.to_str().ok()
    }
}

impl Http {
    /// With the certificates that this machine trusts (`SSL_CERT_FILE` names others), if they are needed.
    pub(crate) fn new(origin: Box<str>, secure: bool, silence: Duration) -> Result<Self> {
        let unsupported = |why: String| Error::Unsupported {
            origin: origin.clone(),
            why: why.into(),
        };
        let provider = Arc::new(rustls::crypto::ring::default_provider());
        let config = ClientConfig::builder_with_provider(provider)
            .with_safe_default_protocol_versions()
            .map_err(|e| unsupported(e.to_string()))?;
        let config = if secure {
            config.with_native_roots().map_err(|e| {
                unsupported(format!(
                    "this machine has no certificates to trust ({e}); install ca-certificates, or set SSL_CERT_FILE"
                ))
            })?
        } else {
            config.with_root_certificates(RootCertStore::empty())
        };
        let builder = HttpsConnectorBuilder::new().with_tls_config(config.with_no_client_auth());
        let mut plain = HttpConnector::new();
        plain.enforce_http(false);
        plain.set_nodelay(true);
        plain.set_connect_timeout(Some(silence));
        let connector = builder
            .https_or_http()
            .enable_all_versions()
            .wrap_connector(plain);
        let client = Client::builder(TokioExecutor::new())
            .pool_timer(TokioTimer::new())
            .timer(TokioTimer::new())
            .pool_idle_timeout(Duration::from_secs(30))
            .pool_max_idle_per_host(64)
            .http1_max_buf_size(64 << 10)
            .http2_max_header_list_size(64 << 10)
            .build(connector);
        Ok(Self {
            origin,
            client,
            silence,
            second: AtomicBool::new(false),
            room: Arc::new(Semaphore::new(ALL_MAX / PART)),
        })
    }

    /// How many questions may be open at once.
    pub(crate) fn width(&self) -> usize {
        if self.second.load(Ordering::Relaxed) {
            WIDTH.1
        } else {
            WIDTH.0
        }
    }

    /// Sends, and reads the whole answer, which may have `most` bytes.
    pub(crate) async fn send(&self, request: Request<Full<Bytes>>, most: usize) -> Result<Answer> {
        let late = |_| Error::Late {
            origin: self.origin.clone(),
            seconds: self.silence.as_secs(),
        };
        let sent = timeout(self.silence, self.client.request(request)).await;
        let answer = sent.map_err(late)?.map_err(|e| {
            let (origin, why) = (self.origin.clone(), said(&e));
            if e.is_connect() {
                Error::Unreachable { origin, why }
            } else {
                Error::Broken { origin, why }
            }
        })?;
        if answer.version() == Version::HTTP_2 {
            self.second.store(true, Ordering::Relaxed);
        }
        let (head, mut body) = answer.into_parts();
        let mut bytes = Vec::new();
        let mut room: Option<OwnedSemaphorePermit> = None;
        while let Some(frame) = timeout(self.silence, body.frame()).await.map_err(late)? {
            let frame = frame.map_err(|e| Error::Broken {
                origin: self.origin.clone(),
                why: said(&e),
            })?;
            let Some(data) = frame.data_ref() else {
                continue;
            };
            bytes.extend_from_slice(data);
            if bytes.len() > most {
                let most = most >> 20;
                return Err(self.nonsense(&format!("an answer longer than {most} MiB")));
            }
            let held = room.as_ref().map_or(0, OwnedSemaphorePermit::num_permits);
            let more = (bytes.len() / PART).saturating_sub(held) as u32;
            let more = self.room.clone().try_acquire_many_owned(more);
            let more = more.map_err(|_| Error::Busy {
                origin: self.origin.clone(),
                why: "the answers that are being read take a gigabyte together".into(),
            })?;
            match &mut room {
                Some(room) => room.merge(more),
                None => room = Some(more),
            }
        }
        Ok(Answer {
            status: head.status,
            headers: head.headers,
            body: bytes,
            _room: room,
        })
    }

    pub(crate) fn origin(&self) -> &str {
        &self.origin
    }

    pub(crate) fn nonsense(&self, why: &str) -> Error {
        Error::Nonsense {
            origin: self.origin.clone(),
            why: why.into(),
        }
    }

    /// What a status without success means, with the server's words.
    pub(crate) fn refused(&self, status: StatusCode, words: &str, help: &str) -> Error {
        let origin = self.origin.clone();
        let mut why = format!("HTTP status {status}");
        if !words.is_empty() {
            why = format!("{why}: {}", shown(words.as_bytes()));
        }
        if !help.is_empty() {
            why = format!("{why} ({help})");
        }
        let why = why.into();
        match status.as_u16() {
            405 | 501 | 505 => Error::Unsupported { origin, why },
            408 | 423 | 425 | 429 | 500 | 502..=504 => Error::Busy { origin, why },
            400..=499 | 507 => Error::Denied { origin, why },
            _ => Error::Nonsense { origin, why },
        }
    }
}

/// An error with its causes, which say more than it does.
fn said(error: &(dyn std::error::Error + 'static)) -> Box<str> {
    let mut text = error.to_string();
    let mut cause = error.source();
    while let Some(error) = cause {
        let more = error.to_string();
        if !text.contains(&more) {
            text = format!("{text}: {more}");
        }
        cause = error.source();
    }
    shown(text.as_bytes())
}
