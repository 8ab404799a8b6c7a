//! Shared secret of workers and coordinators; requests without it are refused.

use crate::wire;
use async_trait::async_trait;
use datafusion::error::DataFusionError;
use datafusion_distributed::grpc::{BoxCloneSyncChannel, create_worker_client};
use datafusion_distributed::{ChannelResolver, WorkerChannel};
use esker_access::HostKey;
use esker_access::slots::Slot;
use http::HeaderValue;
use std::collections::HashMap;
use std::sync::{Arc, Mutex, PoisonError};
use tonic::transport::{Channel, Endpoint};
use tonic::{Request, Status};
use tower::ServiceExt;
use url::Url;

/// Name of the request header with the secret.
const HEADER: &str = "x-esker-secret";
/// Context string for deriving the TLS key (BLAKE3 `derive_key`).
const DERIVED: &str = "esker rdf workers 2026-11 host key of TLS";
/// Minimum length of a secret in characters. A client of a worker sees a public key derived from the secret and can test guesses offline.
const LEAST: usize = 20;
/// Limit of cached connections.
const KEPT_MAX: usize = 4096;
/// Error message for a wrong secret.
pub(crate) const REFUSED: &str =
    "the secret is missing or another one; give the workers' own (--secret-file)";

/// An optional shared secret.
#[derive(Clone, Default)]
pub struct Secret(Option<HeaderValue>);

impl std::fmt::Debug for Secret {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(if self.0.is_some() {
            "Secret(..)"
        } else {
            "Secret(none)"
        })
    }
}

impl Secret {
    /// Creates a secret from a text of visible ASCII characters. The text must not be guessable.
    pub fn new(text: &str) -> Result<Self, String> {
        if text.len() < LEAST {
            return Err(format!(
                "a secret has at least {LEAST} characters, so that it cannot be guessed: make one with `openssl rand -hex 32`"
            ));
        }
        let mut value = HeaderValue::from_str(text)
            .map_err(|_| "a secret is one line of visible ASCII characters".to_owned())?;
        value.set_sensitive(true);
        Ok(Self(Some(value)))
    }

    /// Returns whether a secret is set.
    pub const fn is_some(&self) -> bool {
        self.0.is_some()
    }

    /// Returns the TLS host key derived from the secret, the same for all that know the secret.
    pub(crate) fn host_key(&self) -> Option<HostKey> {
        let secret = self.0.as_ref()?;
        let seed = blake3::derive_key(DERIVED, secret.as_bytes());
        Some(HostKey::from_seed(&seed))
    }

    /// Returns an interceptor that refuses requests without the secret and those on connections above the limits.
    pub(crate) fn check(
        &self,
    ) -> impl Fn(Request<()>) -> Result<Request<()>, Status> + Clone + Send + Sync + 'static {
        // Hashes are compared, so that the time taken reveals nothing.
        let wanted = self.0.as_ref().map(|v| blake3::hash(v.as_bytes()));
        move |request| {
            let said = request
                .metadata()
                .get(HEADER)
                .map(|v| blake3::hash(v.as_encoded_bytes()));
            let Some(Some(slot)) = request.extensions().get::<Option<Arc<Slot>>>() else {
                return Err(Status::internal("the caller is not known"));
            };
            if let Some(words) = slot.refusal() {
                return Err(Status::resource_exhausted(words));
            }
            match (wanted, said) {
                (None, _) => {}
                (Some(wanted), Some(said)) if wanted == said => {}
                _ => {
                    let words = slot.hindered().unwrap_or_else(|| REFUSED.to_owned());
                    slot.failed();
                    return Err(Status::unauthenticated(words));
                }
            }
            // The secret is common to all, so connections are counted by address.
            slot.admit_authenticated(|| slot.source().to_string().into())
                .map_err(Status::resource_exhausted)?;
            Ok(request)
        }
    }

    /// Returns a pool of connections that send the secret.
    pub(crate) fn channels(&self) -> Channels {
        Channels {
            secret: self.clone(),
            kept: Arc::default(),
        }
    }
}

/// Pool of connections to workers; each request carries the secret.
#[derive(Clone)]
pub(crate) struct Channels {
    secret: Secret,
    kept: Arc<Mutex<HashMap<Url, Channel>>>,
}

impl Channels {
    async fn channel(&self, url: &Url) -> Result<Channel, DataFusionError> {
        let kept = || self.kept.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(channel) = kept().get(url) {
            return Ok(channel.clone());
        }
        let failed = |e: &dyn std::error::Error| {
            let mut root = e;
            while let Some(cause) = root.source() {
                root = cause;
            }
            DataFusionError::Execution(format!("connecting to the worker at {url}: {root}"))
        };
        let endpoint = Endpoint::from_shared(url.to_string()).map_err(|e| failed(&e))?;
        let authority = url.authority().to_owned();
        let secret = self.secret.clone();
        let connector = tower::service_fn(move |_: http::Uri| {
            let (authority, secret) = (authority.clone(), secret.clone());
            async move { wire::connect(&authority, &secret).await }
        });
        let channel = endpoint.connect_with_connector(connector).await;
        let channel = channel.map_err(|e| failed(&e))?;
        let mut kept = kept();
        if kept.len() >= KEPT_MAX {
            kept.clear();
        }
        kept.insert(url.clone(), channel.clone());
        Ok(channel)
    }
}

#[async_trait]
impl ChannelResolver for Channels {
    async fn get_worker_client_for_url(
        &self,
        url: &Url,
    ) -> Result<Box<dyn WorkerChannel>, DataFusionError> {
        let channel = self.channel(url).await?;
        let secret = self.secret.0.clone();
        let with = channel.map_request(move |mut request: http::Request<tonic::body::Body>| {
            if let Some(secret) = &secret {
                request.headers_mut().insert(HEADER, secret.clone());
            }
            request
        });
        Ok(create_worker_client(BoxCloneSyncChannel::new(with)))
    }
}
