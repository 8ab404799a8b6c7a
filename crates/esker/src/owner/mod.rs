//! The process that holds the store: the engine, its background threads, and the others that it serves.
//!
//! Suggested reading order: [`process`] (who lives), [`claim`] (who owns), [`core`] (what an owner does),
//! [`server`] (how it serves others).

mod answer;
pub(crate) mod claim;
pub(crate) mod core;
pub(crate) mod hostile;
mod identity;
pub(crate) mod process;
mod server;

use self::core::Core;
use crate::clock::SystemClock;
use crate::engine::{Clock as _, Engine};
use crate::limits::{FORGET_INTERVAL, HEARTBEAT};
use claim::{Claim, State};
use esker_model::Result;
use server::Server;
use std::sync::{Arc, Condvar, Mutex, PoisonError};
use std::thread::JoinHandle;
use std::time::Duration;

/// Ownership of an open database, with all that runs because of it. Dropping it closes in good order.
pub(crate) struct Owner {
    // All are `Some` until closed.
    core: Option<Arc<Core>>,
    server: Option<Server>,
    threads: Vec<JoinHandle<()>>,
    stop: Arc<Stop>,
    claim: Arc<Claim>,
}

/// Tells background threads to end.
#[derive(Default)]
struct Stop {
    stopped: Mutex<bool>,
    changed: Condvar,
}

impl Stop {
    /// Waits; false once stopped.
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
    /// Starts to serve. The claim's heartbeat must be running already ([`Heart`]).
    pub(crate) fn start(core: Core, heart: Heart, sync_interval: Option<Duration>) -> Result<Self> {
        let Heart {
            claim,
            stop,
            thread: beating,
        } = heart;
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
                    // What is not forgotten now is forgotten the next time.
                    let _ = core.forget_old_requests(SystemClock.now_millis());
                }
            })?
        };
        owner.threads.push(forgetting);
        owner.server = Some(Server::start(&owner.claim, core)?);
        owner.claim.set_state(State::Serving)?;
        Ok(owner)
    }

    fn core(&self) -> Result<&Core> {
        match &self.core {
            Some(core) => core.usable().map(|()| &**core),
            None => Err(esker_model::Error::Unavailable(
                "the database was closed".into(),
            )),
        }
    }

    /// The engine itself, to be let go before the owner closes.
    pub(crate) fn shared_engine(&self) -> Result<Arc<Engine>> {
        self.core().map(|c| Arc::clone(&c.engine))
    }

    /// The engine, unless another process has taken over.
    pub(crate) fn engine(&self) -> Result<&Engine> {
        self.core().map(|c| &*c.engine)
    }

    /// What an owner does beyond the engine.
    pub(crate) fn operations(&self) -> Result<&Core> {
        self.core()
    }

    /// Finishes what is under way, persists and lets go.
    pub(crate) fn close(mut self) -> Result<()> {
        self.end()
    }

    fn end(&mut self) -> Result<()> {
        let Some(core) = self.core.take() else {
            return Ok(());
        };
        let mut outcome = self.claim.set_state(State::Closing);
        if let Some(server) = self.server.take() {
            server.stop();
        }
        // Once another host has taken over, the files are not this process's to write.
        if core.usable().is_ok() {
            outcome = outcome.and(core.close());
        }
        self.stop.stop();
        // The heartbeat goes on until here, but must not outlive the release.
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
        // Nobody is left to hear of a failure; what was acknowledged is in the log in any case.
        let _ = self.end();
    }
}

/// A claim whose heartbeat runs, before and while the store opens.
pub(crate) struct Heart {
    claim: Arc<Claim>,
    stop: Arc<Stop>,
    thread: JoinHandle<()>,
}

impl Heart {
    /// Starts to beat; `lost` is called once if another process takes over.
    pub(crate) fn start(claim: Claim, pulse: Arc<core::Pulse>) -> Result<Self> {
        let claim = Arc::new(claim);
        let stop = Arc::new(Stop::default());
        let beating = {
            let (claim, stop) = (claim.clone(), stop.clone());
            thread("esker-heart", move || {
                while stop.wait(HEARTBEAT) {
                    pulse.record(&claim.beat());
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

    /// Lets go of a claim whose store did not open.
    pub(crate) fn give_up(self) -> Result<()> {
        self.stop.stop();
        let _ = self.thread.join();
        self.claim.release()
    }
}
