//! The interface of a protocol: one connection with many requests in flight.

use crate::error::Result;
use crate::origin_url::OriginUrl;
use crate::request::{MetadataRequest, Notification, PathMetadata};
use futures_util::future::BoxFuture;
use std::sync::Arc;
use tokio::sync::mpsc;

/// One connection to an origin.
pub trait Session: Send + Sync + 'static {
    /// Sends a request; up to [`Session::width`] may be in flight. If the future is dropped, the response may still arrive and is
    /// discarded.
    ///
    /// # Errors
    /// After `Error::Broken` and `Error::TimedOut` the connection is unusable.
    fn request(&self, request: MetadataRequest) -> BoxFuture<'_, Result<PathMetadata>>;

    /// Maximum number of requests in flight, from the server's announcement and its behaviour.
    fn width(&self) -> usize;

    /// Whether the connection is unusable.
    fn is_broken(&self) -> bool;

    /// Description of the server for display: its name and supported protocol features.
    fn about(&self) -> String {
        String::new()
    }

    /// Closes the connection, with the protocol's closing message if it has one.
    fn close(&self) -> BoxFuture<'_, ()> {
        Box::pin(std::future::ready(()))
    }
}

/// Makes connections to one origin.
pub trait Connect: Send + Sync + 'static {
    /// The origin to connect to.
    fn origin_url(&self) -> &OriginUrl;

    /// Connects, authenticates and probes the server's capabilities. The caller bounds the time.
    fn connect(&self) -> BoxFuture<'_, Result<Arc<dyn Session>>>;

    /// Starts change notifications, if the origin supports them. The stream ends when the origin can send no more.
    fn changes(&self) -> Option<mpsc::Receiver<Notification>> {
        None
    }

    /// Whether changes to the last response for a path are notified, if the origin sends notifications.
    fn notifies(&self, _path: &[u8]) -> bool {
        true
    }
}
