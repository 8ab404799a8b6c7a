//! iRODS: its XML protocol with native authentication.
//!
//! A server answers the requests of a connection in order, and more can be sent before it has answered. The attributes of a path
//! take one call; a collection takes three calls that are sent together: its own attributes, its data objects and its
//! collections, page by page. Replicas of a data object are reported as one.
//!
//! No package registry offers an iRODS server. This client was tested against a small responder that Python's official client
//! accepts as well, not against a real zone. TLS is used if the server requires it or the user's `irods_client_server_policy`
//! does; PAM login is not supported.

mod handshake;
mod login;
mod message;
mod session;
mod tls;
mod xml;

use crate::error::{Error, Result};
use crate::origin_url::OriginUrl;
use crate::session::{Connect, Session};
use futures_util::future::BoxFuture;
pub use login::IrodsLogin;
use session::IrodsSession;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;
use tls::TlsPolicy;
use tokio::net::TcpStream;

/// An iRODS server as an origin.
#[derive(Debug)]
pub struct Irods {
    origin_url: OriginUrl,
    login: IrodsLogin,
    tls: TlsPolicy,
    silence: Duration,
}

impl Irods {
    /// Creates the origin with the account and TLS policy of the user's iRODS environment.
    pub fn find(origin_url: OriginUrl, silence: Duration) -> Result<Self> {
        let login = IrodsLogin::find(&origin_url)?;
        let (required, trusted) = login::tls();
        let mut irods = Self::new(origin_url, login, silence);
        irods.tls.required = required;
        irods.tls.trusted = trusted;
        Ok(irods)
    }

    /// Creates the origin with an account. `silence` is the time after which a server that sends nothing has failed.
    pub fn new(origin_url: OriginUrl, login: IrodsLogin, silence: Duration) -> Self {
        let tls = TlsPolicy {
            host: origin_url.host.clone(),
            ..TlsPolicy::default()
        };
        Self {
            origin_url,
            login,
            tls,
            silence,
        }
    }

    /// Requires TLS; `trusted` is a certificates file that replaces the system's.
    #[must_use]
    pub fn with_tls(mut self, trusted: Option<PathBuf>) -> Self {
        self.tls.required = true;
        self.tls.trusted = trusted;
        self
    }
}

impl Connect for Irods {
    fn origin_url(&self) -> &OriginUrl {
        &self.origin_url
    }

    fn connect(&self) -> BoxFuture<'_, Result<Arc<dyn Session>>> {
        Box::pin(async {
            let origin: Box<str> = self.origin_url.to_string().into();
            let stream = TcpStream::connect(self.origin_url.authority()).await;
            let stream = stream.and_then(|s| s.set_nodelay(true).map(|()| s));
            let stream = stream.map_err(|e| Error::Unreachable {
                origin: origin.clone(),
                why: e.to_string().into(),
            })?;
            let talk =
                IrodsSession::begin(origin, stream, &self.login, &self.tls, self.silence).await?;
            Ok(Arc::new(talk) as Arc<dyn Session>)
        })
    }
}
