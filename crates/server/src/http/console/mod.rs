//! Answers for the console's pages, one endpoint per page. `esker_console` computes them; this module reads parameters and encodes
//! results.
//!
//! ```text
//!  assets.rs   the pages themselves
//!  session.rs  sessions of browsers
//!  oidc.rs     logins by a provider of OpenID Connect
//!  begun_login.rs  a login that waits for its provider's answer
//!  secret_map.rs   tickets, sessions and logins by their secrets
//!  home.rs     counts, rates, the latest runs and changes, health
//!  search.rs   type-ahead and search over all names
//!  runs.rs     runs, one run, two runs compared
//!  neighbourhood.rs  the neighbourhood of a vertex
//!  space.rs    space usage
//!  tags.rs     distribution of a tag's values; completion
//!  cluster.rs  the servers
//!  recent_traversals.rs  the latest traversals, step by step
//!  sites.rs    the tiers of site caches
//!  events.rs   a stream of changes
//! ```

pub(super) mod assets;
mod begun_login;
pub(super) mod cluster;
pub(super) mod events;
pub(super) mod home;
pub(super) mod neighbourhood;
pub(super) mod oidc;
pub(crate) mod recent_traversals;
pub(super) mod runs;
pub(super) mod search;
mod secret_map;
pub(crate) mod session;
pub(super) mod sites;
pub(super) mod space;
pub(super) mod tags;

use super::ApiError;
use super::api::Answer;
use crate::service::Service;
use esker_model::Error;
use serde::Serialize;
use std::net::SocketAddr;
use std::sync::{OnceLock, Weak};
use std::time::Duration;

/// Interval at which counters are sampled.
const SAMPLE: Duration = Duration::from_secs(1);

/// State that the pages keep between requests.
#[derive(Default)]
pub(crate) struct Console {
    names: search::NameCache,
    rates: home::Rates,
    changes: home::Changes,
    pub(crate) traversals: recent_traversals::Traversals,
    /// Address at which this server listens.
    pub(crate) address: OnceLock<SocketAddr>,
}

/// Samples the counters every second for as long as the service exists.
pub(crate) async fn sample(service: Weak<Service>) {
    while let Some(service) = service.upgrade() {
        service.metrics.sample();
        service.access.report();
        service.console.rates.note(&service.metrics);
        drop(service);
        tokio::time::sleep(SAMPLE).await;
    }
}

/// Encodes an answer as JSON text.
fn json_text(answer: &impl Serialize) -> Answer {
    serde_json::to_string(answer).map_err(|e| ApiError::Engine(Error::Invalid(e.to_string())))
}
