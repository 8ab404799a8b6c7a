//! Doing what the machine says.

use super::etcd::Etcd;
use super::gate::{Gate, LeaseGate, now_millis};
use super::hub::{Hub, Seat};
use super::take;
use crate::cluster::config::{ClusterConfig, EtcdConfig};
use crate::server::Server;
use esker::OpenOptions;
use esker_cluster::member::view::Member;
use esker_cluster::member::{Input, Machine, MemberId, Output, Settings, View};
use esker_config::etcd::EtcdTrust;
use esker_model::Result;
use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, PoisonError, Weak};
use std::time::Duration;
use tokio::sync::mpsc::{UnboundedReceiver, UnboundedSender};
use tokio::task::JoinHandle;

/// How often the machine is told that time goes on.
const TICK: Duration = Duration::from_millis(50);
/// Between attempts to watch etcd.
const REST: Duration = Duration::from_millis(300);
/// How often it is looked whether stores take writes.
const LOOK: Duration = Duration::from_secs(1);
/// One that took none any more is opened anew once there are so many bytes for it.
const ROOM: u64 = 32 << 20;
/// Without news, everything is read again after so long.
const READ_AGAIN: Duration = Duration::from_secs(2);

/// What the process wants to know of it.
#[derive(Debug, Clone, Default)]
pub(super) struct Progress {
    pub(super) left: bool,
}

/// A store that is here.
struct Held {
    epoch: u64,
    gate: Arc<Gate>,
    /// Once it is open.
    server: Arc<Mutex<Option<Server>>>,
    /// It was said that it is to be opened anew.
    told: bool,
}

pub(super) struct Host {
    config: Arc<ClusterConfig>,
    moving: EtcdConfig,
    me: MemberId,
    options: OpenOptions,
    etcd: Etcd,
    hub: Arc<Hub>,
    inputs: UnboundedSender<Input>,
    progress: Arc<Mutex<Progress>>,
    leases: BTreeMap<u64, Arc<LeaseGate>>,
    held: BTreeMap<u32, Held>,
    /// While it is there, somebody watches.
    watching: Arc<()>,
    /// The lease that is being given up.
    revoking: Option<JoinHandle<()>>,
}

impl Host {
    pub(super) fn new(
        config: ClusterConfig,
        me: MemberId,
        options: OpenOptions,
        etcd: Etcd,
        hub: Arc<Hub>,
        inputs: UnboundedSender<Input>,
        progress: Arc<Mutex<Progress>>,
    ) -> Self {
        let moving = config.etcd.clone().unwrap_or(EtcdConfig {
            endpoints: Vec::new(),
            trust: EtcdTrust::default(),
            lease: Duration::from_secs(5),
            stores: 1,
            even: true,
        });
        Self {
            config: Arc::new(config),
            moving,
            me,
            options,
            etcd,
            hub,
            inputs,
            progress,
            leases: BTreeMap::new(),
            held: BTreeMap::new(),
            watching: Arc::new(()),
            revoking: None,
        }
    }

    /// Until the member has left.
    pub(super) async fn run(mut self, mut received: UnboundedReceiver<Input>) {
        let lease = u64::try_from(self.moving.lease.as_millis()).unwrap_or(u64::MAX);
        let mut settings = Settings::for_lease(self.me.clone(), self.moving.stores, lease);
        settings.even = self.moving.even;
        let mut machine = Machine::new(settings);
        tokio::spawn(watch(
            self.etcd.clone(),
            self.inputs.clone(),
            Arc::downgrade(&self.watching),
        ));
        let mut tick = tokio::time::interval(TICK);
        let mut look = tokio::time::interval(LOOK);
        look.set_missed_tick_behavior(tokio::time::MissedTickBehavior::Delay);
        tick.set_missed_tick_behavior(tokio::time::MissedTickBehavior::Delay);
        loop {
            let input = tokio::select! {
                biased;
                _ = tick.tick() => Input::Tick,
                _ = look.tick() => {
                    self.look_at_stores();
                    continue;
                }
                input = received.recv() => match input {
                    Some(input) => input,
                    None => return,
                },
            };
            let seen = match &input {
                Input::See(view) => Some(Arc::clone(view)),
                _ => None,
            };
            let outputs = machine.step(now_millis(), input);
            for output in outputs {
                self.follow(output);
            }
            if let Some(view) = seen {
                self.place(&view);
            }
            let trouble = machine
                .lease()
                .is_none()
                .then(|| "it has no lease of etcd".to_owned());
            self.hub.note(trouble);
            if self
                .progress
                .lock()
                .unwrap_or_else(PoisonError::into_inner)
                .left
            {
                return;
            }
        }
    }

    /// A store that has met a full disk reads on and takes no writes: once there is room it is opened anew.
    fn look_at_stores(&mut self) {
        for (store, held) in &mut self.held {
            let failed = {
                let server = held.server.lock().unwrap_or_else(PoisonError::into_inner);
                server.as_ref().is_some_and(Server::store_failed)
            };
            if held.told || !failed {
                continue;
            }
            let room = rustix::fs::statvfs(&self.config.storage);
            let Ok(room) = room.map(|s| s.f_bavail.saturating_mul(s.f_frsize)) else {
                continue;
            };
            if room < ROOM {
                tracing::debug!(store, room, "a store takes no writes until there is room");
                continue;
            }
            held.told = true;
            let (store, epoch) = (*store, held.epoch);
            tracing::warn!(
                store,
                epoch,
                "a write has failed, and there is room now: the store is opened anew"
            );
            let _ = self.inputs.send(Input::Failed { store, epoch });
        }
    }

    /// Notes where stores are.
    fn place(&self, view: &View) {
        let stores = (0..self.moving.stores).map(|store| {
            let member = view.holder(store)?.clone();
            Some((member, view.claims.get(&store)?.epoch))
        });
        let members = view.members.keys().cloned().collect();
        self.hub.places().set(members, stores.collect());
        self.hub.places_changed();
    }

    /// Asks etcd something beside, and tells the machine what it said.
    fn ask<F>(&self, answer: F)
    where
        F: Future<Output = Option<Input>> + Send + 'static,
    {
        let inputs = self.inputs.clone();
        tokio::spawn(async move {
            if let Some(input) = answer.await {
                let _ = inputs.send(input);
            }
        });
    }

    /// What others get to see of this process.
    fn listed(leaving: bool) -> Member {
        Member {
            pid: std::process::id(),
            host: host_name(),
            version: env!("CARGO_PKG_VERSION").to_owned(),
            leaving,
            ..Member::default()
        }
    }

    fn follow(&mut self, output: Output) {
        tracing::debug!(?output, "member");
        let etcd = self.etcd.clone();
        match output {
            Output::Grant => {
                let (me, listed, lease) = (self.me.clone(), Self::listed(false), self.moving.lease);
                self.ask(async move {
                    let sent = now_millis();
                    Some(match etcd.grant(lease.as_secs(), &me, &listed).await {
                        Ok((lease_id, revision)) => {
                            tracing::info!(member = me, "listed under a new lease");
                            Input::Granted {
                                lease: lease_id,
                                sent,
                                lasts: lease.as_secs() * 1_000,
                                revision,
                            }
                        }
                        Err(e) => {
                            tracing::warn!(error = %e, "no lease");
                            Input::NotGranted
                        }
                    })
                });
            }
            Output::Keep { lease } => {
                let lasts = self.moving.lease.as_secs() * 1_000;
                self.ask(async move {
                    let sent = now_millis();
                    match etcd.keep(lease).await {
                        Ok(true) => Some(Input::Kept { lease, sent, lasts }),
                        Ok(false) => Some(Input::Gone { lease }),
                        Err(e) => {
                            tracing::warn!(error = %e, "the lease was not prolonged");
                            None
                        }
                    }
                });
            }
            Output::Serve { lease, until } => self.leases.entry(lease).or_default().extend(until),
            Output::End { lease } => {
                tracing::warn!(
                    "the lease is over: nothing is answered any more until there is another"
                );
                if let Some(gate) = self.leases.remove(&lease) {
                    gate.end();
                }
            }
            Output::Fence(epochs) => {
                self.hub.fences().raise(&epochs);
                for (store, held) in &self.held {
                    if epochs.get(store).is_some_and(|epoch| *epoch > held.epoch) {
                        held.gate.shut();
                    }
                }
            }
            Output::Confirm { lease, revision } => {
                let key = format!("seen/{}", self.me);
                self.ask(async move {
                    let _ = etcd.put(&key, &revision.to_string(), Some(lease)).await;
                    None
                });
            }
            Output::Withdraw { lease } => {
                let (key, text) = (format!("members/{}", self.me), Self::listed(true).text());
                self.ask(async move {
                    let _ = etcd.put(&key, &text, Some(lease)).await;
                    None
                });
            }
            Output::Revoke { lease } => {
                self.revoking = Some(tokio::spawn(async move {
                    let _ = etcd.revoke(lease).await;
                }));
            }
            Output::Claim { store, lease } => self.claim(store, lease),
            Output::Release {
                store,
                epoch,
                lease,
            } => {
                self.ask(async move {
                    let done = etcd.release(store, lease).await.is_ok();
                    Some(Input::Released { store, epoch, done })
                });
            }
            Output::Open {
                store,
                epoch,
                lease,
            } => self.open(store, epoch, lease),
            Output::Close { store, epoch, lost } => self.close(store, epoch, lost),
            Output::Left => {
                let (progress, revoking) = (Arc::clone(&self.progress), self.revoking.take());
                // Until it is heard, others take this member for one that lives.
                tokio::spawn(async move {
                    if let Some(revoking) = revoking {
                        let _ = revoking.await;
                    }
                    progress.lock().unwrap_or_else(PoisonError::into_inner).left = true;
                });
            }
        }
    }

    fn claim(&self, store: u32, lease: u64) {
        let (etcd, me, storage) = (
            self.etcd.clone(),
            self.me.clone(),
            self.config.storage.clone(),
        );
        self.ask(async move {
            let least = tokio::task::spawn_blocking(move || take::newest(&storage, store)).await;
            let claimed = match least {
                Ok(Ok(least)) => etcd.claim(store, least, lease, &me).await,
                Ok(Err(e)) => Err(e),
                Err(_) => Ok(None),
            };
            Some(match claimed {
                Ok(Some((epoch, revision))) => Input::Claimed {
                    store,
                    lease,
                    epoch,
                    revision,
                },
                Ok(None) => Input::NotClaimed { store, lease },
                Err(e) => {
                    tracing::warn!(store, error = %e, "not claimed");
                    Input::NotClaimed { store, lease }
                }
            })
        });
    }

    fn open(&mut self, store: u32, epoch: u64, lease: u64) {
        let gate = Gate::new(Arc::clone(self.leases.entry(lease).or_default()));
        let held = Held {
            epoch,
            gate: Arc::clone(&gate),
            server: Arc::default(),
            told: false,
        };
        let place = Arc::clone(&held.server);
        self.held.insert(store, held);
        let seat = Seat {
            hub: Arc::clone(&self.hub),
            epoch,
            gate,
        };
        let (config, options, inputs) = (
            Arc::clone(&self.config),
            self.options.clone(),
            self.inputs.clone(),
        );
        let started = std::thread::Builder::new()
            .name("esker-open".into())
            .spawn(move || {
                let input = match serve(&config, &options, store, epoch, seat) {
                    Ok(server) => {
                        tracing::info!(store, epoch, "serving");
                        *place.lock().unwrap_or_else(PoisonError::into_inner) = Some(server);
                        Input::Opened { store, epoch }
                    }
                    Err(e) => {
                        tracing::error!(store, epoch, error = %e, "a store cannot be opened");
                        Input::NotOpened { store, epoch }
                    }
                };
                let _ = inputs.send(input);
            });
        if started.is_err() {
            let _ = self.inputs.send(Input::NotOpened { store, epoch });
        }
    }

    fn close(&mut self, store: u32, epoch: u64, lost: bool) {
        let Some(held) = self.held.remove(&store) else {
            let _ = self.inputs.send(Input::Closed { store, epoch });
            return;
        };
        if lost {
            held.gate.shut();
        }
        let inputs = self.inputs.clone();
        let closing = move || {
            let server = held
                .server
                .lock()
                .unwrap_or_else(PoisonError::into_inner)
                .take();
            match server {
                // What it would answer nobody is to hear.
                Some(server) if lost => drop(server),
                Some(server) => {
                    if let Err(e) = server.stop() {
                        tracing::warn!(store, error = %e, "a store was not closed as it should be");
                    }
                }
                None => {}
            }
            held.gate.shut();
            tracing::info!(store, epoch, lost, "served no more");
            let _ = inputs.send(Input::Closed { store, epoch });
        };
        if std::thread::Builder::new()
            .name("esker-close".into())
            .spawn(closing)
            .is_err()
        {
            tracing::error!(store, "no thread to close a store");
        }
    }
}

/// Takes a store over and serves it.
fn serve(
    config: &ClusterConfig,
    options: &OpenOptions,
    store: u32,
    epoch: u64,
    seat: Seat,
) -> Result<Server> {
    let folder = take::take(&config.storage, store, epoch)?;
    let folder = folder.to_string_lossy();
    let whole = format!(
        "`{folder}` is store {store} of cluster `{}`, and process {} has it open: use esker://{}",
        config.name,
        std::process::id(),
        seat.hub.address()
    );
    let database = options.clone().part_of(&whole).open(&folder)?;
    let server = Server::start_seated(database, config, store, seat)?;
    if let Err(e) = take::remove_older(&config.storage, store, epoch) {
        tracing::warn!(store, error = %e, "what the store was before is not removed");
    }
    Ok(server)
}

fn host_name() -> String {
    let name = std::fs::read_to_string("/proc/sys/kernel/hostname").unwrap_or_default();
    name.trim().to_owned()
}

/// Tells what etcd holds, whenever it changes and now and then, for as long as somebody wants to know.
async fn watch(etcd: Etcd, inputs: UnboundedSender<Input>, wanted: Weak<()>) {
    while wanted.strong_count() > 0 {
        if let Err(e) = follow(&etcd, &inputs, &wanted).await {
            tracing::warn!(error = %e, "etcd does not say who has what");
        }
        tokio::time::sleep(REST).await;
    }
}

async fn follow(etcd: &Etcd, inputs: &UnboundedSender<Input>, wanted: &Weak<()>) -> Result<()> {
    let view = etcd.view().await?;
    let mut changes = etcd.watch(view.revision).await?;
    let _ = inputs.send(Input::See(Arc::new(view)));
    while wanted.strong_count() > 0 {
        match tokio::time::timeout(READ_AGAIN, changes.changed()).await {
            // Whatever changed, all is read anew: it is little.
            Ok(Ok(true)) | Err(_) => {
                let _ = inputs.send(Input::See(Arc::new(etcd.view().await?)));
            }
            Ok(Ok(false) | Err(_)) => return Ok(()),
        }
    }
    Ok(())
}
