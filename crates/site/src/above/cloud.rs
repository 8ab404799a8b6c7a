//! Tiers above: one, or a pool of which any member can answer (SMURF, section III-B-1).
//!
//! A directory's questions go to the same member as long as it lives, so that each origin path is fetched, and each change
//! told, by one; which one is told by the highest hash of member and directory. When a member is gone, its directories go to the
//! others, and what it had promised to tell is not believed any more: all but one of M members may fail.

use super::link::{Event, Linked};
use super::{Above, Fetch, Got, Link};
use crate::address::KeyFiles;
use crate::given::Refused;
use foldhash::fast::FixedState;
use futures_util::FutureExt as _;
use futures_util::future::BoxFuture;
use serde_json::{Value as Json, json};
use std::hash::BuildHasher as _;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;
use tokio::sync::{Notify, mpsc};
use tokio::task::AbortHandle;
use tokio::time::{Instant, sleep, timeout, timeout_at};

/// The shortest and the longest time between attempts to reach a member.
const REST: (Duration, Duration) = (Duration::from_millis(100), Duration::from_secs(5));

/// One of the tiers above.
#[derive(Debug)]
pub struct Member {
    url: Box<str>,
    link: Mutex<Option<Link>>,
    asked: AtomicU64,
    failed: AtomicU64,
    error: Mutex<Option<String>>,
    task: Mutex<Option<AbortHandle>>,
}

impl std::fmt::Debug for Link {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Link").finish_non_exhaustive()
    }
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

impl Member {
    fn live(&self) -> Option<Link> {
        lock(&self.link).clone().filter(|l| !l.is_gone())
    }
}

impl Drop for Member {
    fn drop(&mut self) {
        if let Some(task) = lock(&self.task).take() {
            task.abort();
        }
    }
}

/// The tiers above.
pub struct Parents {
    name: Box<str>,
    members: Mutex<Vec<Arc<Member>>>,
    patience: Duration,
    keys: KeyFiles,
    events: mpsc::UnboundedSender<Event>,
    reached: Arc<Notify>,
}

impl Parents {
    /// Links to these, kept up. `name` is this tier's, `keys` what it proves and knows them by; what happens comes out of the
    /// receiver.
    pub(crate) fn new(
        name: &str,
        urls: &[String],
        patience: Duration,
        keys: KeyFiles,
    ) -> (Arc<Self>, mpsc::UnboundedReceiver<Event>) {
        let (events, receive) = mpsc::unbounded_channel();
        let parents = Arc::new(Self {
            name: name.into(),
            members: Mutex::new(Vec::new()),
            patience,
            keys,
            events,
            reached: Arc::new(Notify::new()),
        });
        parents.set(urls);
        (parents, receive)
    }

    /// Who there is now. Links to those who stay are not touched.
    pub(crate) fn set(&self, urls: &[String]) {
        let mut members = lock(&self.members);
        members.retain(|m| urls.iter().any(|u| **u == *m.url));
        for url in urls {
            if members.iter().all(|m| *m.url != **url) {
                members.push(self.member(url));
            }
        }
    }

    fn member(&self, url: &str) -> Arc<Member> {
        let member = Arc::new(Member {
            url: url.into(),
            link: Mutex::new(None),
            asked: AtomicU64::new(0),
            failed: AtomicU64::new(0),
            error: Mutex::new(None),
            task: Mutex::new(None),
        });
        let task = tokio::spawn(keep(
            Arc::downgrade(&member),
            url.to_owned(),
            self.keys.clone(),
            self.name.to_string(),
            self.events.clone(),
            self.reached.clone(),
        ));
        *lock(&member.task) = Some(task.abort_handle());
        member
    }

    /// All members, those first that a path's directory belongs to.
    fn order(&self, fetch: &Fetch) -> Vec<Arc<Member>> {
        let mut members = lock(&self.members).clone();
        let end = fetch.path.iter().rposition(|b| *b == b'/').unwrap_or(0);
        let directory = match fetch.wants {
            esker_site_cache::entry::Wants::List => &fetch.path[..],
            esker_site_cache::entry::Wants::Stat => &fetch.path[..end.max(1).min(fetch.path.len())],
        };
        let hash = FixedState::with_seed(11);
        members.sort_by_cached_key(|m| !hash.hash_one((&*m.url, &*fetch.origin, directory)));
        members
    }

    async fn ask(&self, fetch: Fetch) -> Result<Got, Refused> {
        let until = Instant::now() + self.patience;
        let mut last = None;
        loop {
            let reached = self.reached.notified();
            tokio::pin!(reached);
            reached.as_mut().enable();
            let members = self.order(&fetch);
            let mut tried = false;
            for member in &members {
                let Some(link) = member.live() else { continue };
                tried = true;
                member.asked.fetch_add(1, Ordering::Relaxed);
                match timeout_at(until, link.ask(fetch.clone(), false)).await {
                    Ok(Ok(Linked { got, .. })) => return got,
                    Ok(Err(gone)) => {
                        member.failed.fetch_add(1, Ordering::Relaxed);
                        last = Some(gone);
                    }
                    Err(_) => {
                        member.failed.fetch_add(1, Ordering::Relaxed);
                        return Err(Refused::Origin(
                            format!(
                                "the tier at {} did not answer within {} s",
                                member.url,
                                self.patience.as_secs()
                            )
                            .into(),
                        ));
                    }
                }
            }
            let why = members.iter().find_map(|m| lock(&m.error).clone());
            let wait = if tried { REST.0 } else { self.patience };
            // Nobody can be asked: the first who can be reached again is, but those who have failed are waited for briefly.
            let soon = if why.is_some() { REST.0 * 10 } else { wait };
            let wait = timeout(soon.min(until - Instant::now()), reached).await;
            if wait.is_err() && (Instant::now() >= until || why.is_some()) {
                let why = why.map(|w| Refused::Origin(w.into()));
                let none = || Refused::Origin("there is no tier above that can be asked".into());
                return Err(last.or(why).unwrap_or_else(none));
            }
        }
    }
}

/// Keeps one link up.
async fn keep(
    member: std::sync::Weak<Member>,
    url: String,
    keys: KeyFiles,
    name: String,
    events: mpsc::UnboundedSender<Event>,
    reached: Arc<Notify>,
) {
    let mut rest = REST.0;
    loop {
        let (own, mut receive) = mpsc::unbounded_channel();
        match Link::open(&url, &keys, true, &name, own).await {
            Ok(link) => {
                let Some(member) = member.upgrade() else {
                    return;
                };
                tracing::info!(%url, "linked to the tier above");
                *lock(&member.error) = None;
                *lock(&member.link) = Some(link);
                drop(member);
                rest = REST.0;
                reached.notify_waiters();
                while let Some(event) = receive.recv().await {
                    let gone = matches!(event, Event::Gone);
                    if events.send(event).is_err() {
                        return;
                    }
                    if gone {
                        break;
                    }
                }
                tracing::warn!(%url, "the link to the tier above is gone");
            }
            Err(refused) => {
                let Some(member) = member.upgrade() else {
                    return;
                };
                *lock(&member.error) = Some(refused.to_string());
            }
        }
        sleep(rest).await;
        rest = (rest * 2).min(REST.1);
    }
}

impl Above for Parents {
    fn fetch(&self, fetch: Fetch) -> BoxFuture<'_, Result<Got, Refused>> {
        self.ask(fetch).boxed()
    }

    fn allows(&self, _origin: &str) -> Result<(), Refused> {
        // Who asks the origin decides.
        Ok(())
    }

    fn doubt(&self, origin: &str, path: &[u8]) {
        for member in lock(&self.members).iter() {
            if let Some(link) = member.live() {
                link.doubt(origin, path);
            }
        }
    }

    fn status(&self) -> Json {
        let of = |m: &Arc<Member>| {
            json!({
                "url": &*m.url,
                "linked": m.live().is_some(),
                "asked": m.asked.load(Ordering::Relaxed),
                "failed": m.failed.load(Ordering::Relaxed),
                "last_error": lock(&m.error).clone(),
            })
        };
        json!({ "parents": lock(&self.members).iter().map(of).collect::<Vec<_>>() })
    }
}
