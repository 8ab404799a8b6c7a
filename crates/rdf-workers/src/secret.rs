//! The secret that workers and coordinators share: who does not know it is not answered.

use async_trait::async_trait;
use datafusion::error::DataFusionError;
use datafusion_distributed::grpc::{
    BoxCloneSyncChannel, DefaultChannelResolver, create_worker_client,
};
use datafusion_distributed::{ChannelResolver, WorkerChannel};
use http::HeaderValue;
use tonic::{Request, Status};
use tower::ServiceExt;
use url::Url;

/// The header that carries it.
const HEADER: &str = "x-esker-secret";

/// A secret, or none.
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
    /// Of that text, which must be visible ASCII.
    pub fn new(text: &str) -> Result<Self, String> {
        let mut value = HeaderValue::from_str(text)
            .map_err(|_| "a secret is one line of visible ASCII characters".to_owned())?;
        value.set_sensitive(true);
        Ok(Self(Some(value)))
    }

    /// Whether there is one.
    pub const fn is_some(&self) -> bool {
        self.0.is_some()
    }

    /// Refuses requests without it.
    pub(crate) fn check(
        &self,
    ) -> impl Fn(Request<()>) -> Result<Request<()>, Status> + Clone + Send + Sync + 'static {
        // Hashes are compared, so that how long it takes tells nothing.
        let wanted = self.0.as_ref().map(|v| blake3::hash(v.as_bytes()));
        move |request| {
            let said = request
                .metadata()
                .get(HEADER)
                .map(|v| blake3::hash(v.as_encoded_bytes()));
            match (wanted, said) {
                (None, _) => Ok(request),
                (Some(wanted), Some(said)) if wanted == said => Ok(request),
                _ => Err(Status::unauthenticated(
                    "the secret is missing or another one; give the workers' own (--secret-file)",
                )),
            }
        }
    }

    /// Connections that say it.
    pub(crate) fn channels(&self) -> Channels {
        Channels {
            secret: self.0.clone(),
            inner: DefaultChannelResolver::default(),
        }
    }
}

/// Connections to workers, kept, each request with the secret.
#[derive(Clone)]
pub(crate) struct Channels {
    secret: Option<HeaderValue>,
    inner: DefaultChannelResolver,
}

#[async_trait]
impl ChannelResolver for Channels {
    async fn get_worker_client_for_url(
        &self,
        url: &Url,
    ) -> Result<Box<dyn WorkerChannel>, DataFusionError> {
        let channel = self.inner.get_channel(url).await?;
        let Some(secret) = self.secret.clone() else {
            return Ok(create_worker_client(channel));
        };
        let with = channel.map_request(move |mut request: http::Request<tonic::body::Body>| {
            request.headers_mut().insert(HEADER, secret.clone());
            request
        });
        Ok(create_worker_client(BoxCloneSyncChannel::new(with)))
    }
}
