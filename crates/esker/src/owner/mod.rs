//! The process that owns the store: engine, background threads, and the server for other processes.
//!
//! Suggested reading order: [`process`] (liveness), [`claim`] (ownership), [`core`] (operations), [`server`] (connections).

mod answer;
pub(crate) mod claim;
pub(crate) mod core;
pub(crate) mod hostile;
mod identity;
pub(crate) mod process;
mod server;
mod sharing;

use self::core::Core;
use crate::clock::SystemClock;
use crate::engine::{Clock as _, Engine};
use crate::limits::{FORGET_INTERVAL, HEARTBEAT};
use claim::{Claim, OwnerState};
use esker_model::Result;
use server::Server;
use std::sync::{Arc, Condvar, Mutex, PoisonError};
use std::thread::JoinHandle;
use std::time::Duration;

/// Ownership of an open database, with its threads. Dropping it closes the database properly.
pub(crate) struct Owner {
    // `Some` until closed.
    core: Option<Arc<Core>>,
    server: Option<Server>,
    threads: Vec<JoinHandle<()>>,
    stop: Arc<StopSignal>,
    claim: Arc<Claim>,
}

/// Signal for background threads to end.
#[derive(Default)]
struct StopSignal {
    stopped: Mutex<bool>,
    changed: Condvar,
}

impl StopSignal {
    /// Waits for `time`; returns false once stopped.
    fn wait(&self, time: Duration) -> bool {
        let guard = self.stopped.lock().unwrap_or_else(PoisonError::into_inner);
        let waited = self
            .changed
            .wait_timeout_while(guard, time, |stopped| !*stopped);
        !*waited.unwrap_or_else(PoisonError::into_inner).0
    }

    fn stop(&self) {
        *self.stopped.lock().unwrap_or_else(PoisonError::into_inner) = true;
        self.changed.notify_all();
    }
}

fn thread(name: &str, run: impl FnOnce() + Send + 'static) -> Result<JoinHandle<()>> {
    let spawned = std::thread::Builder::new().name(name.to_owned()).spawn(run);
    spawned.map_err(|e| esker_model::Error::io("starting a thread", e))
}

impl Owner {
    /// Starts serving. The heartbeat of the claim must run already ([`HeartbeatThread`]).
    pub(crate) fn start(
        core: Core,
        heartbeat: HeartbeatThread,
        sync_interval: Option<Duration>,
    ) -> Result<Self> {
        let HeartbeatThread {
            claim,
            stop,
            thread: beating,
        } = heartbeat;
        let core = Arc::new(core);
        let mut owner = Self {
            core: Some(core.clone()),
            server: None,
            threads: vec![beating],
            stop,
            claim,
        };
        if let Some(interval) = sync_interval {
            let (core, stop) = (core.clone(), owner.stop.clone());
            owner.threads.push(thread("esker-sync", move || {
                while stop.wait(interval) {
                    core.sync_if_dirty();
                }
            })?);
        }
        let forgetting = {
            let (core, stop) = (core.clone(), owner.stop.clone());
            thread("esker-forget", move || {
                while stop.wait(FORGET_INTERVAL) {
                    // A failed deletion is repeated the next time.
                    let _ = core.forget_old_requests(SystemClock.now_millis());
                }
            })?
        };
        owner.threads.push(forgetting);
        owner.server = Some(Server::start(&owner.claim, core)?);
        owner.claim.set_state(OwnerState::Serving)?;
        Ok(owner)
    }

    fn core(&self) -> Result<&Core> {
        match &self.core {
            Some(core) => core.usable().map(|()| &**core),
            None => Err(esker_model::Error::Closed("the database was closed".into())),
        }
    }

    /// A shared reference to the engine, which must be dropped before the owner closes.
    pub(crate) fn shared_engine(&self) -> Result<Arc<Engine>> {
        self.core().map(|c| Arc::clone(&c.engine))
    }

    /// The engine, unless another process has taken over.
    pub(crate) fn engine(&self) -> Result<&Engine> {
        self.core().map(|c| &*c.engine)
    }

    /// The operations of the owner beyond the engine.
    pub(crate) fn operations(&self) -> Result<&Core> {
        self.core()
    }

    /// Finishes requests in progress, persists and releases the database.
    pub(crate) fn close(mut self) -> Result<()> {
        self.end()
    }

    fn end(&mut self) -> Result<()> {
        let Some(core) = self.core.take() else {
            return Ok(());
        };
        let mut outcome = self.claim.set_state(OwnerState::Closing);
        if let Some(server) = self.server.take() {
            server.stop();
        }
        // Once another host has taken over, this process must not write to the files.
        if core.usable().is_ok() {
            outcome = outcome.and(core.close());
        }
        self.stop.stop();
        // The heartbeat runs until here, but must end before the release.
        for thread in self.threads.drain(..) {
            let _ = thread.join();
        }
        // The last reference: the store closes now and releases its own lock.
        drop(core);
        outcome.and(self.claim.release())
    }
}

impl Drop for Owner {
    fn drop(&mut self) {
        // A failure cannot be reported from `drop`; acknowledged writes are in the log in any case.
        let _ = self.end();
    }
}

/// A claim with a running heartbeat, used before and while the store opens.
pub(crate) struct HeartbeatThread {
    claim: Arc<Claim>,
    stop: Arc<StopSignal>,
    thread: JoinHandle<()>,
}

impl HeartbeatThread {
    /// Starts the heartbeat; its results are recorded in `heartbeat_status`.
    pub(crate) fn start(
        claim: Claim,
        heartbeat_status: Arc<core::HeartbeatStatus>,
    ) -> Result<Self> {
        let claim = Arc::new(claim);
        let stop = Arc::new(StopSignal::default());
        let beating = {
            let (claim, stop) = (claim.clone(), stop.clone());
            thread("esker-heart", move || {
                while stop.wait(HEARTBEAT) {
                    heartbeat_status.record(&claim.beat());
                }
            })
        };
        match beating {
            Ok(thread) => Ok(Self {
                claim,
                stop,
                thread,
            }),
            Err(e) => {
                claim.release()?;
                Err(e)
            }
        }
    }

    pub(crate) fn claim(&self) -> &Arc<Claim> {
        &self.claim
    }

    /// Releases a claim whose store did not open.
    pub(crate) fn give_up(self) -> Result<()> {
        self.stop.stop();
        let _ = self.thread.join();
        self.claim.release()
    }
}
