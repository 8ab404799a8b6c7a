//! Upstream of a tier that queries origins itself.

use super::{Fetch, FetchResponse, Upstream, UpstreamEvent};
use crate::answer::Refused;
use esker_origin::{Error, MetadataRequest, OriginUrl, Pool, Settings};
use futures_util::FutureExt as _;
use futures_util::future::BoxFuture;
use serde_json::{Value as Json, json};
use std::collections::HashMap;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;
use tokio::sync::mpsc;

/// Rules for access to origins.
#[derive(Debug, Clone, Default)]
pub struct Rules {
    /// Prefixes of allowed origins, such as `sftp://host`; `*` is every origin except folders of this machine.
    pub allow: Vec<String>,
    /// Prefixes of origins to which passwords may be sent in clear text, if the protocol has no other way.
    pub clear_passwords: Vec<String>,
    /// Whether the `default` account of `~/.netrc` is used for every origin; otherwise only for those that `allow` names with their
    /// host.
    pub default_login: bool,
    /// Settings of connections to origins.
    pub settings: Settings,
}

/// Whether a rule covers an origin: a prefix up to the host or the port, or `*` for all origins not on this machine.
fn covers(rule: &str, origin: &str) -> bool {
    if rule == "*" {
        return !origin.starts_with("file://");
    }
    let rest = origin.strip_prefix(rule);
    rest.is_some_and(|r| r.is_empty() || rule.ends_with("://") || r.starts_with(':'))
}

impl Rules {
    /// Returns the connection settings for an origin.
    fn settings_for(&self, origin: &str) -> Settings {
        let named = |rule: &&String| *rule != "*" && !rule.ends_with("://");
        let by_host = self.allow.iter().filter(named).any(|r| covers(r, origin));
        Settings {
            default_login: self.default_login || by_host,
            clear_passwords: self.clear_passwords.iter().any(|r| covers(r, origin)),
            ..self.settings.clone()
        }
    }
}

/// State of one origin.
struct OriginState {
    pool: Pool,
    /// Whether the origin sends notifications of changes.
    tells: AtomicBool,
}

/// Origins with their connection pools.
pub struct Origins {
    rules: Rules,
    states: Mutex<HashMap<Arc<str>, Arc<OriginState>>>,
    events: mpsc::UnboundedSender<UpstreamEvent>,
}

impl Origins {
    /// Creates the upstream without connections. Notifications from origins are sent to the receiver.
    pub fn new(rules: Rules) -> (Arc<Self>, mpsc::UnboundedReceiver<UpstreamEvent>) {
        let (events, receive) = mpsc::unbounded_channel();
        let origins = Self {
            rules,
            states: Mutex::new(HashMap::new()),
            events,
        };
        let origins = Arc::new(origins);
        let weak = Arc::downgrade(&origins);
        tokio::spawn(async move {
            loop {
                tokio::time::sleep(Duration::from_secs(10)).await;
                let Some(origins) = weak.upgrade() else {
                    return;
                };
                for (_, state) in origins.all() {
                    state.pool.tidy().await;
                }
            }
        });
        (origins, receive)
    }

    fn all(&self) -> Vec<(Arc<str>, Arc<OriginState>)> {
        let origins = self.states.lock().unwrap_or_else(PoisonError::into_inner);
        let pair = |(name, state): (&Arc<str>, &Arc<OriginState>)| (name.clone(), state.clone());
        origins.iter().map(pair).collect()
    }

    fn pool(&self, origin: &Arc<str>) -> Result<Arc<OriginState>, Error> {
        let mut all = self.states.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(state) = all.get(origin) {
            return Ok(state.clone());
        }
        let (place, _) = OriginUrl::parse(origin)?;
        let pool = esker_origin::open(&place, self.rules.settings_for(origin))?;
        let changes = pool.changes();
        let state = Arc::new(OriginState {
            pool,
            tells: AtomicBool::new(changes.is_some()),
        });
        if let Some(changes) = changes {
            let forward = forward(origin.clone(), state.clone(), changes, self.events.clone());
            tokio::spawn(forward);
        }
        all.insert(origin.clone(), state.clone());
        Ok(state)
    }

    /// Closes the connections to all origins.
    pub async fn close(&self) {
        for (_, state) in self.all() {
            state.pool.close().await;
        }
    }
}

/// Forwards the notifications of an origin until it cannot send any more.
async fn forward(
    origin: Arc<str>,
    state: Arc<OriginState>,
    mut changes: mpsc::Receiver<esker_origin::Notification>,
    events: mpsc::UnboundedSender<UpstreamEvent>,
) {
    while let Some(notification) = changes.recv().await {
        if events
            .send(UpstreamEvent::Notified(origin.clone(), notification))
            .is_err()
        {
            return;
        }
    }
    state.tells.store(false, Ordering::Release);
    drop(events.send(UpstreamEvent::SubscriptionsLost));
}

impl Upstream for Origins {
    fn fetch(&self, fetch: Fetch) -> BoxFuture<'_, Result<FetchResponse, Refused>> {
        async move {
            let refused = |e: Error| match e {
                Error::InvalidName { .. } => Refused::Named(e.to_string().into()),
                Error::Denied { .. } => Refused::Denied(e.to_string().into()),
                other => Refused::Origin(other.to_string().into()),
            };
            let state = self.pool(&fetch.origin).map_err(refused)?;
            let path = fetch.path.clone();
            let question = MetadataRequest {
                path: fetch.path,
                wants: fetch.wants,
            };
            // Notifications must have been active before the request is sent; a later start does not cover its answer.
            let subscribed = state.tells.load(Ordering::Acquire);
            let found = state.pool.request(question).await.map_err(refused)?;
            let subscribed = subscribed && state.pool.notifies(&path);
            Ok(FetchResponse::Found {
                found,
                age: Duration::ZERO,
                subscribed,
            })
        }
        .boxed()
    }

    fn allows(&self, origin: &str) -> Result<(), Refused> {
        if self.rules.allow.iter().any(|rule| covers(rule, origin)) {
            return Ok(());
        }
        let asks = match self.rules.allow.as_slice() {
            [] => "none yet".to_owned(),
            list => list.join(", "),
        };
        Err(Refused::Named(
            format!(
                "`{origin}`: this tier does not ask that origin; it asks {asks}. Its owner, with whose credentials it would, can let \
                 it: [origins] allow = [\"{origin}\"] in its file, or --allow {origin}"
            )
            .into(),
        ))
    }

    fn invalidate(&self, _origin: &str, _path: &[u8]) {}

    fn status(&self) -> Json {
        let of = |(name, state): (Arc<str>, Arc<OriginState>)| {
            let report = state.pool.report();
            json!({
                "origin": &*name,
                "connections": report.connections,
                "in_flight": report.in_flight,
                "window": report.window,
                "asked": report.asked,
                "again": report.retries,
                "failed": report.failed,
                "fastest_ms": report.fastest.map(|t| t.as_secs_f64() * 1e3),
                "tells_of_changes": state.tells.load(Ordering::Acquire),
                "about": report.about,
                "last_error": report.last_error,
            })
        };
        json!({ "origins": self.all().into_iter().map(of).collect::<Vec<_>>() })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The `default` account of `~/.netrc` is used for origins that the owner named, and no password is sent in clear text elsewhere.
    #[test]
    fn credentials_are_for_origins_that_are_named() {
        let rules = Rules {
            allow: vec!["*".into(), "ftps://".into(), "ftp://lab.example".into()],
            clear_passwords: vec!["ftp://lab.example".into()],
            ..Rules::default()
        };
        let of = |origin: &str| {
            let settings = rules.settings_for(origin);
            (settings.default_login, settings.clear_passwords)
        };
        assert_eq!(of("ftp://lab.example"), (true, true));
        assert_eq!(of("ftp://lab.example:2121"), (true, true));
        for other in [
            "ftp://evil.example",
            "ftps://evil.example",
            "ftp://lab.example.evil.example",
            "ftp://lab.example@evil.example",
        ] {
            assert_eq!(of(other), (false, false), "{other}");
        }
    }
}
