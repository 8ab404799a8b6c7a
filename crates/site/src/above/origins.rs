//! A tier that asks origins itself.

use super::{Above, Fetch, Got, News};
use crate::given::Refused;
use esker_origin::{Error, Place, Pool, Question, Settings};
use futures_util::FutureExt as _;
use futures_util::future::BoxFuture;
use serde_json::{Value as Json, json};
use std::collections::HashMap;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;
use tokio::sync::mpsc;

/// Which origins may be asked, and how.
#[derive(Debug, Clone, Default)]
pub struct Rules {
    /// Beginnings of origins, as `sftp://host`; `*` is all that is not of this machine.
    pub allow: Vec<String>,
    /// Beginnings of origins to which passwords go in clear text, where the protocol has no other way.
    pub clear_passwords: Vec<String>,
    /// Whether an account that `~/.netrc` has for any host (`default`) is shown to every origin; else to those that `allow` names
    /// with their host.
    pub default_login: bool,
    /// How each is asked.
    pub settings: Settings,
}

/// Whether a rule is of that origin: its beginning up to the host or the port, or `*` for all that are not of this machine.
fn covers(rule: &str, origin: &str) -> bool {
    if rule == "*" {
        return !origin.starts_with("file://");
    }
    let rest = origin.strip_prefix(rule);
    rest.is_some_and(|r| r.is_empty() || rule.ends_with("://") || r.starts_with(':'))
}

impl Rules {
    /// How that origin is asked.
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

/// What an origin is asked through.
struct Known {
    pool: Pool,
    /// Whether it tells of changes.
    tells: AtomicBool,
}

/// Origins, each with its connections.
pub struct Origins {
    rules: Rules,
    known: Mutex<HashMap<Arc<str>, Arc<Known>>>,
    news: mpsc::UnboundedSender<News>,
}

impl Origins {
    /// No connections yet. What origins tell comes out of the receiver.
    pub fn new(rules: Rules) -> (Arc<Self>, mpsc::UnboundedReceiver<News>) {
        let (news, receive) = mpsc::unbounded_channel();
        let origins = Self {
            rules,
            known: Mutex::new(HashMap::new()),
            news,
        };
        let origins = Arc::new(origins);
        let weak = Arc::downgrade(&origins);
        tokio::spawn(async move {
            loop {
                tokio::time::sleep(Duration::from_secs(10)).await;
                let Some(origins) = weak.upgrade() else {
                    return;
                };
                for known in origins.all() {
                    known.1.pool.tidy().await;
                }
            }
        });
        (origins, receive)
    }

    fn all(&self) -> Vec<(Arc<str>, Arc<Known>)> {
        let known = self.known.lock().unwrap_or_else(PoisonError::into_inner);
        let pair = |(name, known): (&Arc<str>, &Arc<Known>)| (name.clone(), known.clone());
        known.iter().map(pair).collect()
    }

    fn pool(&self, origin: &Arc<str>) -> Result<Arc<Known>, Error> {
        let mut all = self.known.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(known) = all.get(origin) {
            return Ok(known.clone());
        }
        let (place, _) = Place::parse(origin)?;
        let pool = esker_origin::open(&place, self.rules.settings_for(origin))?;
        let changes = pool.changes();
        let known = Arc::new(Known {
            pool,
            tells: AtomicBool::new(changes.is_some()),
        });
        if let Some(changes) = changes {
            let forward = forward(origin.clone(), known.clone(), changes, self.news.clone());
            tokio::spawn(forward);
        }
        all.insert(origin.clone(), known.clone());
        Ok(known)
    }

    /// Closes all connections.
    pub async fn close(&self) {
        for (_, known) in self.all() {
            known.pool.close().await;
        }
    }
}

/// What an origin tells, for as long as it can.
async fn forward(
    origin: Arc<str>,
    known: Arc<Known>,
    mut changes: mpsc::Receiver<esker_origin::Told>,
    news: mpsc::UnboundedSender<News>,
) {
    while let Some(told) = changes.recv().await {
        if news.send(News::Told(origin.clone(), told)).is_err() {
            return;
        }
    }
    known.tells.store(false, Ordering::Release);
    drop(news.send(News::Cut));
}

impl Above for Origins {
    fn fetch(&self, fetch: Fetch) -> BoxFuture<'_, Result<Got, Refused>> {
        async move {
            let refused = |e: Error| match e {
                Error::Named { .. } => Refused::Named(e.to_string().into()),
                Error::Denied { .. } => Refused::Denied(e.to_string().into()),
                other => Refused::Origin(other.to_string().into()),
            };
            let known = self.pool(&fetch.origin).map_err(refused)?;
            let path = fetch.path.clone();
            let question = Question {
                path: fetch.path,
                wants: fetch.wants,
            };
            // What was told before this is asked is told of; what begins to be told later is not.
            let told = known.tells.load(Ordering::Acquire);
            let found = known.pool.ask(question).await.map_err(refused)?;
            let told = told && known.pool.tells(&path);
            Ok(Got::Found {
                found,
                age: Duration::ZERO,
                told,
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

    fn doubt(&self, _origin: &str, _path: &[u8]) {}

    fn status(&self) -> Json {
        let of = |(name, known): (Arc<str>, Arc<Known>)| {
            let report = known.pool.report();
            json!({
                "origin": &*name,
                "connections": report.connections,
                "in_flight": report.in_flight,
                "window": report.window,
                "asked": report.asked,
                "again": report.again,
                "failed": report.failed,
                "fastest_ms": report.fastest.map(|t| t.as_secs_f64() * 1e3),
                "tells_of_changes": known.tells.load(Ordering::Acquire),
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

    /// What `~/.netrc` has for any host is for origins that the owner named, and no password goes in clear text elsewhere.
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
