//! Change notifications from another Esker server.

use crate::request::Notification;
use esker_rpc::client::{ChangeKind, FileLink, FileSubscription, Happened};
use esker_site_cache::entry::{Attributes, Kind};
use std::collections::HashSet;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use tokio::sync::mpsc;
use tokio::task::AbortHandle;

/// Notifications that may wait for the receiver; when the queue is full, reading from the server pauses.
const WAITING_MAX: usize = 1024;
/// Maximum number of paths without notifications (paths through symbolic links). Beyond it, notifications are disabled.
const UNWATCHED_MAX: usize = 1 << 16;

/// Notifications of one origin, over all its connections.
#[derive(Debug, Default)]
pub(super) struct Subscriptions {
    tell: Mutex<Option<mpsc::Sender<Notification>>>,
    unwatched: Mutex<HashSet<Box<[u8]>>>,
    /// Whether notifications are disabled because some connection does not deliver them.
    disabled: AtomicBool,
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

impl Subscriptions {
    /// Starts forwarding notifications, from the next connection on.
    pub(super) fn open(&self) -> mpsc::Receiver<Notification> {
        let (tell, changes) = mpsc::channel(WAITING_MAX);
        *lock(&self.tell) = Some(tell);
        changes
    }

    /// Whether changes to the last response for `path` will be notified.
    pub(super) fn notifies(&self, path: &[u8]) -> bool {
        !self.disabled.load(Ordering::Acquire) && !lock(&self.unwatched).contains(path)
    }

    /// Records whether changes to a response for `path` will be notified.
    pub(super) fn note(&self, path: &[u8], told: bool) {
        if self.disabled.load(Ordering::Acquire) {
            return;
        }
        let mut unwatched = lock(&self.unwatched);
        if told {
            unwatched.remove(path);
        } else if unwatched.len() < UNWATCHED_MAX {
            unwatched.insert(path.into());
        } else {
            self.disabled.store(true, Ordering::Release);
        }
    }

    /// Subscribes on a connection; `None` if there is no receiver or the server sends no notifications.
    pub(super) async fn listen(self: &Arc<Self>, link: &Arc<FileLink>) -> Option<Subscription> {
        let tell = lock(&self.tell).clone()?;
        let Ok(watching) = link.watch().await else {
            self.disabled.store(true, Ordering::Release);
            return None;
        };
        let number = Arc::new(AtomicU64::new(watching.number()));
        let task = tokio::spawn(forward(watching, Arc::clone(&number), tell));
        Some(Subscription {
            number,
            task: task.abort_handle(),
        })
    }
}

/// The subscription of one connection.
#[derive(Debug)]
pub(super) struct Subscription {
    number: Arc<AtomicU64>,
    task: AbortHandle,
}

impl Subscription {
    /// The number that requests pass to the server; 0 once the subscription has ended.
    pub(super) fn number(&self) -> u64 {
        self.number.load(Ordering::Acquire)
    }
}

impl Drop for Subscription {
    fn drop(&mut self) {
        self.task.abort();
    }
}

/// Sends `MissedOnDrop` when the task ends for any reason.
struct MissedOnDrop(mpsc::Sender<Notification>);

impl Drop for MissedOnDrop {
    fn drop(&mut self) {
        let tell = self.0.clone();
        if let Err(mpsc::error::TrySendError::Full(cut)) = tell.try_send(Notification::SourceLost)
            && let Ok(runtime) = tokio::runtime::Handle::try_current()
        {
            runtime.spawn(async move { tell.send(cut).await });
        }
    }
}

async fn forward(
    mut watching: FileSubscription,
    number: Arc<AtomicU64>,
    tell: mpsc::Sender<Notification>,
) {
    // Dropped after the number is reset, so that responses requested before the reset are also invalidated.
    let _missed = MissedOnDrop(tell.clone());
    while let Ok(Some(happened)) = watching.next().await {
        for one in happened {
            if tell.send(notification(one)).await.is_err() {
                return;
            }
        }
    }
    number.store(0, Ordering::Release);
}

fn notification(happened: Happened) -> Notification {
    let path = happened.path.into_boxed_slice();
    match ChangeKind::try_from(happened.kind) {
        Ok(ChangeKind::Changed) => Notification::Changed(path, Attributes::of(Kind::Unknown)),
        Ok(ChangeKind::Gone) => Notification::Deleted(path),
        Ok(ChangeKind::Missed) | Err(_) => Notification::Missed(path),
    }
}
