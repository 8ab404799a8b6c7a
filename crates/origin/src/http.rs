//! HTTP for WebDAV and S3: requests with small bodies, responses of bounded size in bounded time.
//!
//! HTTP/1.1 pipelining is not reliable: each request in flight takes a kept connection, or a stream of one connection with TLS
//! and a server that offers HTTP/2.

use crate::error::{Error, Result, printable};
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

/// Maximum number of requests in flight: over HTTP/1.1, each on its own connection, and over HTTP/2.
pub(crate) const WIDTH: (usize, usize) = (16, 64);
/// Maximum size in bytes of a response about one path, and of a listing (about half a million WebDAV names).
pub(crate) const ONE_MAX: usize = 8 << 20;
pub(crate) const MANY_MAX: usize = 128 << 20;
/// Maximum size in bytes of all responses that are being read.
const ALL_MAX: usize = 1 << 30;
/// Unit in which that size is counted, in bytes.
const SIZE_UNIT: usize = 1 << 20;

/// An HTTP client for one origin.
pub(crate) struct Http {
    origin: Box<str>,
    client: Client<HttpsConnector<HttpConnector>, Full<Bytes>>,
    silence: Duration,
    is_http2: AtomicBool,
    size_budget: Arc<Semaphore>,
}

/// A complete HTTP response.
#[derive(Debug)]
pub(crate) struct HttpResponse {
    pub(crate) status: StatusCode,
    pub(crate) headers: HeaderMap,
    pub(crate) body: Vec<u8>,
    /// The response's share of [`ALL_MAX`].
    _size_budget: Option<OwnedSemaphorePermit>,
}

impl HttpResponse {
    /// Creates a response without a body.
    #[cfg(test)]
    pub(crate) fn of(status: StatusCode, headers: HeaderMap) -> Self {
        Self {
            status,
            headers,
            body: Vec::new(),
            _size_budget: None,
        }
    }

    /// Returns a header that is valid text.
    pub(crate) fn header(&self, name: &str) -> Option<&str> {
        self.headers.get(name)?.to_str().ok()
    }
}

impl Http {
    /// Creates a client; if `secure`, with the certificates that this machine trusts (`SSL_CERT_FILE` names others).
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
            is_http2: AtomicBool::new(false),
            size_budget: Arc::new(Semaphore::new(ALL_MAX / SIZE_UNIT)),
        })
    }

    /// Maximum number of requests in flight.
    pub(crate) fn width(&self) -> usize {
        if self.is_http2.load(Ordering::Relaxed) {
            WIDTH.1
        } else {
            WIDTH.0
        }
    }

    /// Sends a request and reads the response, which may have at most `most` bytes.
    pub(crate) async fn send(
        &self,
        request: Request<Full<Bytes>>,
        most: usize,
    ) -> Result<HttpResponse> {
        let timed_out = |_| Error::TimedOut {
            origin: self.origin.clone(),
            seconds: self.silence.as_secs(),
        };
        let sent = timeout(self.silence, self.client.request(request)).await;
        let answer = sent.map_err(timed_out)?.map_err(|e| {
            let (origin, why) = (self.origin.clone(), with_causes(&e));
            if e.is_connect() {
                Error::Unreachable { origin, why }
            } else {
                Error::Broken { origin, why }
            }
        })?;
        if answer.version() == Version::HTTP_2 {
            self.is_http2.store(true, Ordering::Relaxed);
        }
        let (head, mut body) = answer.into_parts();
        let mut bytes = Vec::new();
        let mut size_budget: Option<OwnedSemaphorePermit> = None;
        while let Some(frame) = timeout(self.silence, body.frame())
            .await
            .map_err(timed_out)?
        {
            let frame = frame.map_err(|e| Error::Broken {
                origin: self.origin.clone(),
                why: with_causes(&e),
            })?;
            let Some(data) = frame.data_ref() else {
                continue;
            };
            bytes.extend_from_slice(data);
            if bytes.len() > most {
                let most = most >> 20;
                return Err(self.protocol_error(&format!("an answer longer than {most} MiB")));
            }
            let held = size_budget
                .as_ref()
                .map_or(0, OwnedSemaphorePermit::num_permits);
            let more = (bytes.len() / SIZE_UNIT).saturating_sub(held) as u32;
            let more = self.size_budget.clone().try_acquire_many_owned(more);
            let more = more.map_err(|_| Error::Busy {
                origin: self.origin.clone(),
                why: "the answers that are being read take a gigabyte together".into(),
            })?;
            match &mut size_budget {
                Some(size_budget) => size_budget.merge(more),
                None => size_budget = Some(more),
            }
        }
        Ok(HttpResponse {
            status: head.status,
            headers: head.headers,
            body: bytes,
            _size_budget: size_budget,
        })
    }

    pub(crate) fn origin(&self) -> &str {
        &self.origin
    }

    pub(crate) fn protocol_error(&self, why: &str) -> Error {
        Error::Protocol {
            origin: self.origin.clone(),
            why: why.into(),
        }
    }

    /// Converts an unsuccessful status and the server's message to an error.
    pub(crate) fn refused(&self, status: StatusCode, words: &str, help: &str) -> Error {
        let origin = self.origin.clone();
        let mut why = format!("HTTP status {status}");
        if !words.is_empty() {
            why = format!("{why}: {}", printable(words.as_bytes()));
        }
        if !help.is_empty() {
            why = format!("{why} ({help})");
        }
        let why = why.into();
        match status.as_u16() {
            405 | 501 | 505 => Error::Unsupported { origin, why },
            408 | 423 | 425 | 429 | 500 | 502..=504 => Error::Busy { origin, why },
            400..=499 | 507 => Error::Denied { origin, why },
            _ => Error::Protocol { origin, why },
        }
    }
}

/// Formats an error with its causes.
fn with_causes(error: &(dyn std::error::Error + 'static)) -> Box<str> {
    let mut text = error.to_string();
    let mut cause = error.source();
    while let Some(error) = cause {
        let more = error.to_string();
        if !text.contains(&more) {
            text = format!("{text}: {more}");
        }
        cause = error.source();
    }
    printable(text.as_bytes())
}
