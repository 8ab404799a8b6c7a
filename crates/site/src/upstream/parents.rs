//! Upstream tiers: one, or a pool in which any member can answer (SMURF, section III-B-1).
//!
//! Requests of one directory go to the same live member, chosen by the highest hash of member and directory, so that each origin
//! path is fetched, and each change notified, by one member. When a member fails, its directories move to the others, and the
//! answers that rely on its invalidations expire: all but one of M members may fail.

use super::link::{Event, LinkAnswer};
use super::{Fetch, FetchResponse, Link, Upstream};
use crate::address::KeyFiles;
use crate::answer::Refused;
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

/// Minimum and maximum delay between attempts to connect to a member.
const RETRY_DELAY: (Duration, Duration) = (Duration::from_millis(100), Duration::from_secs(5));

/// One of the upstream tiers.
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
        lock(&self.link).clone().filter(|l| !l.is_disconnected())
    }
}

impl Drop for Member {
    fn drop(&mut self) {
        if let Some(task) = lock(&self.task).take() {
            task.abort();
        }
    }
}

/// The upstream tiers with their links.
pub struct Parents {
    name: Box<str>,
    members: Mutex<Vec<Arc<Member>>>,
    patience: Duration,
    keys: KeyFiles,
    events: mpsc::UnboundedSender<Event>,
    reached: Arc<Notify>,
}

impl Parents {
    /// Keeps links to the tiers at `urls`. `name` is this tier's name, `keys` are its key files; the receiver gets the events of all
    /// links.
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

    /// Replaces the members. Links to those that remain are kept.
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

    /// Returns all members, in the order of preference for the path's directory.
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

    async fn fetch_from_members(&self, fetch: Fetch) -> Result<FetchResponse, Refused> {
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
                match timeout_at(until, link.query(fetch.clone(), false)).await {
                    Ok(Ok(LinkAnswer { got, .. })) => return got,
                    Ok(Err(lost)) => {
                        member.failed.fetch_add(1, Ordering::Relaxed);
                        last = Some(lost);
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
            let wait = if tried { RETRY_DELAY.0 } else { self.patience };
            // No live member: wait for the first to reconnect, but only briefly if members have failed.
            let soon = if why.is_some() {
                RETRY_DELAY.0 * 10
            } else {
                wait
            };
            let wait = timeout(soon.min(until - Instant::now()), reached).await;
            if wait.is_err() && (Instant::now() >= until || why.is_some()) {
                let why = why.map(|w| Refused::Origin(w.into()));
                let none = || Refused::Origin("there is no upstream tier that can be asked".into());
                return Err(last.or(why).unwrap_or_else(none));
            }
        }
    }
}

/// Keeps one link connected.
async fn keep(
    member: std::sync::Weak<Member>,
    url: String,
    keys: KeyFiles,
    name: String,
    events: mpsc::UnboundedSender<Event>,
    reached: Arc<Notify>,
) {
    let mut rest = RETRY_DELAY.0;
    loop {
        let (own, mut receive) = mpsc::unbounded_channel();
        match Link::open(&url, &keys, true, &name, own).await {
            Ok(link) => {
                let Some(member) = member.upgrade() else {
                    return;
                };
                tracing::info!(%url, "linked to the upstream tier");
                *lock(&member.error) = None;
                *lock(&member.link) = Some(link);
                drop(member);
                rest = RETRY_DELAY.0;
                reached.notify_waiters();
                while let Some(event) = receive.recv().await {
                    let lost = matches!(event, Event::Disconnected);
                    if events.send(event).is_err() {
                        return;
                    }
                    if lost {
                        break;
                    }
                }
                tracing::warn!(%url, "the link to the upstream tier is gone");
            }
            Err(refused) => {
                let Some(member) = member.upgrade() else {
                    return;
                };
                *lock(&member.error) = Some(refused.to_string());
            }
        }
        sleep(rest).await;
        rest = (rest * 2).min(RETRY_DELAY.1);
    }
}

impl Upstream for Parents {
    fn fetch(&self, fetch: Fetch) -> BoxFuture<'_, Result<FetchResponse, Refused>> {
        self.fetch_from_members(fetch).boxed()
    }

    fn allows(&self, _origin: &str) -> Result<(), Refused> {
        // The tier that queries the origin decides.
        Ok(())
    }

    fn invalidate(&self, origin: &str, path: &[u8]) {
        for member in lock(&self.members).iter() {
            if let Some(link) = member.live() {
                link.invalidate(origin, path);
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
