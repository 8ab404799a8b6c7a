//! iRODS: its XML protocol, with native authentication.
//!
//! A server answers the requests of a connection one after the other, and more may be sent before it has answered. A path is
//! asked about by one call; a collection by three that are sent together: its own attributes, its data objects and the
//! collections in it, page by page. Replicas of a data object are told of as one.
//!
//! No registry of packages has a server of iRODS. What is here was tried against a small responder that Python's official
//! client accepts as well, not against a real zone. TLS is spoken where the server demands it, or the user's
//! `irods_client_server_policy` does; log-in by PAM is not.

mod hello;
mod login;
mod message;
mod session;
mod tls;
mod xml;

use crate::error::{Error, Result};
use crate::place::Place;
use crate::session::{Connect, Session};
use futures_util::future::BoxFuture;
pub use login::Login;
use session::Talk;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;
use tls::Tls;
use tokio::net::TcpStream;

/// Connections to a server of iRODS.
#[derive(Debug)]
pub struct Irods {
    place: Place,
    login: Login,
    tls: Tls,
    silence: Duration,
}

impl Irods {
    /// To a place, as whom and how the user's iRODS environment says.
    pub fn find(place: Place, silence: Duration) -> Result<Self> {
        let login = Login::find(&place)?;
        let (required, trusted) = login::tls();
        let mut irods = Self::new(place, login, silence);
        irods.tls.required = required;
        irods.tls.trusted = trusted;
        Ok(irods)
    }

    /// To a place, as somebody. `silence` is how long a server may say nothing.
    pub fn new(place: Place, login: Login, silence: Duration) -> Self {
        let tls = Tls {
            host: place.host.clone(),
            ..Tls::default()
        };
        Self {
            place,
            login,
            tls,
            silence,
        }
    }

    /// With TLS, or not at all; `trusted` is a file of certificates instead of those that this machine trusts.
    #[must_use]
    pub fn with_tls(mut self, trusted: Option<PathBuf>) -> Self {
        self.tls.required = true;
        self.tls.trusted = trusted;
        self
    }
}

impl Connect for Irods {
    fn place(&self) -> &Place {
        &self.place
    }

    fn connect(&self) -> BoxFuture<'_, Result<Arc<dyn Session>>> {
        Box::pin(async {
            let origin: Box<str> = self.place.to_string().into();
            let stream = TcpStream::connect(self.place.authority()).await;
            let stream = stream.and_then(|s| s.set_nodelay(true).map(|()| s));
            let stream = stream.map_err(|e| Error::Unreachable {
                origin: origin.clone(),
                why: e.to_string().into(),
            })?;
            let talk = Talk::begin(origin, stream, &self.login, &self.tls, self.silence).await?;
            Ok(Arc::new(talk) as Arc<dyn Session>)
        })
    }
}
