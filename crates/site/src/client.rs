//! Client of a tier, for programs.

use crate::address::KeyFiles;
use crate::answer::{Refused, TierAnswer};
use crate::node::MetadataQuery;
use crate::upstream::{Fetch, FetchResponse, Link};
use tokio::sync::mpsc;

/// A client's link to a tier.
#[derive(Debug, Clone)]
pub struct Client {
    link: Link,
}

impl Client {
    /// Connects to the tier at an address (`http://127.0.0.1:PORT`, `unix:/PATH`, `esker://HOST:PORT`); the tier shows `name` in its
    /// log.
    pub async fn connect(via: &str, name: &str) -> Result<Self, Refused> {
        let (events, _) = mpsc::unbounded_channel();
        let link = Link::open(via, &KeyFiles::default(), false, name, events).await?;
        Ok(Self { link })
    }

    /// Sends a request. Many requests may be in flight at once.
    pub async fn query(&self, query: MetadataQuery<'_>) -> Result<TierAnswer, Refused> {
        let fetch = Fetch {
            origin: query.origin.into(),
            path: query.path.into(),
            wants: query.wants,
            class: query.class,
            max_age: query.max_age,
            kept: None,
        };
        let linked = self.link.query(fetch, query.stale_if_error).await?;
        match linked.got? {
            FetchResponse::Found {
                found,
                age,
                subscribed,
            } => Ok(TierAnswer {
                found,
                age,
                subscribed,
                hit: linked.hit,
            }),
            FetchResponse::Unchanged { .. } => Err(Refused::Origin(
                "the tier says that nothing changed, but nothing was cached".into(),
            )),
        }
    }

    /// Notifies the tier that a path may have changed.
    pub fn invalidate(&self, origin: &str, path: &[u8]) {
        self.link.invalidate(origin, path);
    }
}
