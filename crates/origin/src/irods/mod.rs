//! iRODS: its XML protocol, with native authentication.
//!
//! A server answers the requests of a connection one after the other, and more may be sent before it has answered. A path is
//! asked about by one call; a collection by three that are sent together: its own attributes, its data objects and the
//! collections in it, page by page. Replicas of a data object are told of as one.
//!
//! No registry of packages has a server of iRODS. What is here was tried against a small responder that Python's official
//! client accepts as well, not against a real zone. TLS and log-in by PAM are not spoken: a server that demands them is
//! refused with words that say so.

mod hello;
mod login;
mod message;
mod session;
mod xml;

use crate::error::{Error, Result};
use crate::place::Place;
use crate::session::{Connect, Session};
use futures_util::future::BoxFuture;
pub use login::Login;
use session::Talk;
use std::sync::Arc;
use std::time::Duration;
use tokio::net::TcpStream;

/// Connections to a server of iRODS.
#[derive(Debug)]
pub struct Irods {
    place: Place,
    login: Login,
    silence: Duration,
}

impl Irods {
    /// To a place, as somebody. `silence` is how long a server may say nothing.
    pub fn new(place: Place, login: Login, silence: Duration) -> Self {
        Self {
            place,
            login,
            silence,
        }
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
            let (from, to) = stream.into_split();
            let talk = Talk::begin(origin, from, to, &self.login, self.silence).await?;
            Ok(Arc::new(talk) as Arc<dyn Session>)
        })
    }
}
