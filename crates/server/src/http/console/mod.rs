//! What the console's pages ask: short answers, each made for one page. What is worked out lies in `esker_console`; here it is asked for
//! and told.
//!
//! ```text
//!  assets.rs   the pages themselves
//!  session.rs  who looks, and how a browser becomes somebody
//!  home.rs     counts, rates, the latest runs and changes, health
//!  look.rs     type-ahead and search over all names
//!  runs.rs     runs, one run, two runs beside each other
//!  around.rs   the neighbourhood of a vertex
//!  space.rs    what takes how much
//!  tags.rs     how a tag's values spread; what may be typed next
//!  cluster.rs  the servers
//!  lately.rs   the latest traversals, step by step
//!  sites.rs    the tiers of site caches
//!  events.rs   changes as they happen
//! ```

pub(super) mod around;
pub(super) mod assets;
pub(super) mod cluster;
pub(super) mod events;
pub(super) mod home;
pub(crate) mod lately;
pub(super) mod look;
pub(super) mod runs;
pub(crate) mod session;
pub(super) mod sites;
pub(super) mod space;
pub(super) mod tags;

use super::Refused;
use super::api::Answer;
use crate::service::Service;
use esker_model::Error;
use serde::Serialize;
use std::net::SocketAddr;
use std::sync::{OnceLock, Weak};
use std::time::Duration;

/// Between two looks at what is counted.
const SAMPLE: Duration = Duration::from_secs(1);

/// What is kept for the pages between two requests.
#[derive(Default)]
pub(crate) struct Console {
    names: look::Kept,
    rates: home::Rates,
    changes: home::Changes,
    pub(crate) traversals: lately::Traversals,
    /// Where this server listens.
    pub(crate) address: OnceLock<SocketAddr>,
}

/// Notes every second what there was to do, for as long as the server is there.
pub(crate) async fn sample(service: Weak<Service>) {
    while let Some(service) = service.upgrade() {
        service.metrics.sample();
        service.access.report();
        service.console.rates.note(&service.metrics);
        drop(service);
        tokio::time::sleep(SAMPLE).await;
    }
}

/// An answer as text.
fn told(answer: &impl Serialize) -> Answer {
    serde_json::to_string(answer).map_err(|e| Refused::Failed(Error::Invalid(e.to_string())))
}
