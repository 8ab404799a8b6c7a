//! What a server tells of what it was asked about.

use crate::question::Told;
use esker_rpc::client::{FileLink, Happened, Watching, What};
use esker_site_cache::entry::{Attributes, Kind};
use std::collections::HashSet;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use tokio::sync::mpsc;
use tokio::task::AbortHandle;

/// Changes that wait for whoever is told; then the server is not listened to for a while.
const WAITING_MAX: usize = 1024;
/// Paths that nothing is told of: those that lead through symbolic links. With more of them, nothing is believed to be told.
const UNTOLD_MAX: usize = 1 << 16;

/// What is told of an origin, over all its connections.
#[derive(Debug, Default)]
pub(super) struct Ears {
    tell: Mutex<Option<mpsc::Sender<Told>>>,
    untold: Mutex<HashSet<Box<[u8]>>>,
    /// A connection is not told of changes.
    deaf: AtomicBool,
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

impl Ears {
    /// Begins to listen, from the next connection on.
    pub(super) fn open(&self) -> mpsc::Receiver<Told> {
        let (tell, changes) = mpsc::channel(WAITING_MAX);
        *lock(&self.tell) = Some(tell);
        changes
    }

    /// Whether changes of what was last answered about that path are told.
    pub(super) fn tells(&self, path: &[u8]) -> bool {
        !self.deaf.load(Ordering::Acquire) && !lock(&self.untold).contains(path)
    }

    /// How an answer about a path was given.
    pub(super) fn note(&self, path: &[u8], told: bool) {
        if self.deaf.load(Ordering::Acquire) {
            return;
        }
        let mut untold = lock(&self.untold);
        if told {
            untold.remove(path);
        } else if untold.len() < UNTOLD_MAX {
            untold.insert(path.into());
        } else {
            self.deaf.store(true, Ordering::Release);
        }
    }

    /// Listens on a connection; nothing if nobody wants to hear, or the server does not tell.
    pub(super) async fn listen(self: &Arc<Self>, link: &Arc<FileLink>) -> Option<Ear> {
        let tell = lock(&self.tell).clone()?;
        let Ok(watching) = link.watch().await else {
            self.deaf.store(true, Ordering::Release);
            return None;
        };
        let number = Arc::new(AtomicU64::new(watching.number()));
        let task = tokio::spawn(forward(watching, Arc::clone(&number), tell));
        Some(Ear {
            number,
            task: task.abort_handle(),
        })
    }
}

/// One connection's watcher.
#[derive(Debug)]
pub(super) struct Ear {
    number: Arc<AtomicU64>,
    task: AbortHandle,
}

impl Ear {
    /// What questions name it by; 0 once it hears no more.
    pub(super) fn number(&self) -> u64 {
        self.number.load(Ordering::Acquire)
    }
}

impl Drop for Ear {
    fn drop(&mut self) {
        self.task.abort();
    }
}

/// Says that nothing is promised any more, however the task ends.
struct Missed(mpsc::Sender<Told>);

impl Drop for Missed {
    fn drop(&mut self) {
        let tell = self.0.clone();
        if let Err(mpsc::error::TrySendError::Full(cut)) = tell.try_send(Told::Cut)
            && let Ok(runtime) = tokio::runtime::Handle::try_current()
        {
            runtime.spawn(async move { tell.send(cut).await });
        }
    }
}

async fn forward(mut watching: Watching, number: Arc<AtomicU64>, tell: mpsc::Sender<Told>) {
    // Dropped after the number is taken back: what is asked before that is doubted with the rest.
    let _missed = Missed(tell.clone());
    while let Ok(Some(happened)) = watching.next().await {
        for one in happened {
            if tell.send(told(one)).await.is_err() {
                return;
            }
        }
    }
    number.store(0, Ordering::Release);
}

fn told(happened: Happened) -> Told {
    let path = happened.path.into_boxed_slice();
    match What::try_from(happened.what) {
        Ok(What::Changed) => Told::Changed(path, Attributes::of(Kind::Unknown)),
        Ok(What::Gone) => Told::Deleted(path),
        Ok(What::Missed) | Err(_) => Told::Missed(path),
    }
}
