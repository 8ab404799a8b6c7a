//! Execution of the membership state machine's outputs.

use super::etcd::Etcd;
use super::gate::{Gate, LeaseGate, now_millis};
use super::hub::{Hub, StoreAssignment};
use super::takeover;
use crate::cluster::config::{ClusterConfig, EtcdConfig};
use crate::server::Server;
use esker::OpenOptions;
use esker_cluster::member::view::Member;
use esker_cluster::member::{Input, Machine, MemberId, MemberSettings, Output, View};
use esker_config::etcd::EtcdTrust;
use esker_model::Result;
use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, PoisonError, Weak};
use std::time::Duration;
use tokio::sync::mpsc::{UnboundedReceiver, UnboundedSender};
use tokio::task::JoinHandle;

/// Interval of the state machine's clock ticks.
const TICK: Duration = Duration::from_millis(50);
/// Pause between attempts to watch etcd.
const RETRY_PAUSE: Duration = Duration::from_millis(300);
/// Interval at which stores are checked for failed writes.
const STORE_CHECK: Duration = Duration::from_secs(1);
/// Free bytes above which a store that failed to write is opened again.
const FREE_LEAST: u64 = 32 << 20;
/// Interval at which everything is read again if no change is notified.
const REREAD: Duration = Duration::from_secs(2);

/// Progress of leaving, for the process.
#[derive(Debug, Clone, Default)]
pub(super) struct Progress {
    pub(super) left: bool,
}

/// A store that this member has.
struct OpenStore {
    epoch: u64,
    gate: Arc<Gate>,
    /// The server, once it is open.
    server: Arc<Mutex<Option<Server>>>,
    /// Whether the state machine was told that the store has to be opened again.
    reopen_requested: bool,
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
    stores: BTreeMap<u32, OpenStore>,
    /// The watching task runs as long as this exists.
    watching: Arc<()>,
    /// The task that revokes the lease.
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
            stores: BTreeMap::new(),
            watching: Arc::new(()),
            revoking: None,
        }
    }

    /// Runs until the member has left.
    pub(super) async fn run(mut self, mut received: UnboundedReceiver<Input>) {
        let lease = u64::try_from(self.moving.lease.as_millis()).unwrap_or(u64::MAX);
        let mut settings = MemberSettings::for_lease(self.me.clone(), self.moving.stores, lease);
        settings.even = self.moving.even;
        let mut machine = Machine::new(settings);
        tokio::spawn(watch(
            self.etcd.clone(),
            self.inputs.clone(),
            Arc::downgrade(&self.watching),
        ));
        let mut tick = tokio::time::interval(TICK);
        let mut check = tokio::time::interval(STORE_CHECK);
        check.set_missed_tick_behavior(tokio::time::MissedTickBehavior::Delay);
        tick.set_missed_tick_behavior(tokio::time::MissedTickBehavior::Delay);
        loop {
            let input = tokio::select! {
                biased;
                _ = tick.tick() => Input::Tick,
                _ = check.tick() => {
                    self.check_stores();
                    continue;
                }
                input = received.recv() => match input {
                    Some(input) => input,
                    None => return,
                },
            };
            let view = match &input {
                Input::See(view) => Some(Arc::clone(view)),
                _ => None,
            };
            let outputs = machine.step(now_millis(), input);
            for output in outputs {
                self.execute(output);
            }
            if let Some(view) = view {
                self.note_assignments(&view);
            }
            let problem = machine
                .lease()
                .is_none()
                .then(|| "it has no lease of etcd".to_owned());
            self.hub.note(problem);
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

    /// Checks stores for failed writes: a store that met a full disk answers reads but accepts no writes. It is opened again once there
    /// is space.
    fn check_stores(&mut self) {
        for (store, open) in &mut self.stores {
            let failed = {
                let server = open.server.lock().unwrap_or_else(PoisonError::into_inner);
                server.as_ref().is_some_and(Server::store_failed)
            };
            if open.reopen_requested || !failed {
                continue;
            }
            let room = rustix::fs::statvfs(&self.config.storage);
            let Ok(room) = room.map(|s| s.f_bavail.saturating_mul(s.f_frsize)) else {
                continue;
            };
            if room < FREE_LEAST {
                tracing::debug!(store, room, "a store takes no writes until there is room");
                continue;
            }
            open.reopen_requested = true;
            let (store, epoch) = (*store, open.epoch);
            tracing::warn!(
                store,
                epoch,
                "a write has failed, and there is room now: the store is reopened"
            );
            let _ = self.inputs.send(Input::Failed { store, epoch });
        }
    }

    /// Notes the assignment of stores.
    fn note_assignments(&self, view: &View) {
        let stores = (0..self.moving.stores).map(|store| {
            let member = view.holder(store)?.clone();
            Some((member, view.claims.get(&store)?.epoch))
        });
        let members = view.members.keys().cloned().collect();
        self.hub.assignments().set(members, stores.collect());
        self.hub.assignments_changed();
    }

    /// Runs a request to etcd in a task and passes its result to the state machine.
    fn spawn_request<F>(&self, answer: F)
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

    /// Description of this process for other members.
    fn listed(leaving: bool) -> Member {
        Member {
            pid: std::process::id(),
            host: host_name(),
            version: env!("CARGO_PKG_VERSION").to_owned(),
            leaving,
            ..Member::default()
        }
    }

    fn execute(&mut self, output: Output) {
        tracing::debug!(?output, "member");
        let etcd = self.etcd.clone();
        match output {
            Output::Grant => {
                let (me, listed, lease) = (self.me.clone(), Self::listed(false), self.moving.lease);
                self.spawn_request(async move {
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
                self.spawn_request(async move {
                    let sent = now_millis();
                    match etcd.keep_alive(lease).await {
                        Ok(true) => Some(Input::Kept { lease, sent, lasts }),
                        Ok(false) => Some(Input::Gone { lease }),
                        Err(e) => {
                            tracing::warn!(error = %e, "the lease was not renewed");
                            None
                        }
                    }
                });
            }
            Output::Serve { lease, until } => self.leases.entry(lease).or_default().extend(until),
            Output::End { lease } => {
                tracing::warn!("the lease has ended: nothing is answered until there is another");
                if let Some(gate) = self.leases.remove(&lease) {
                    gate.end();
                }
            }
            Output::Fence(epochs) => {
                self.hub.fences().raise(&epochs);
                for (store, open) in &self.stores {
                    if epochs.get(store).is_some_and(|epoch| *epoch > open.epoch) {
                        open.gate.close();
                    }
                }
            }
            Output::Confirm { lease, revision } => {
                let key = format!("seen/{}", self.me);
                self.spawn_request(async move {
                    let _ = etcd.put(&key, &revision.to_string(), Some(lease)).await;
                    None
                });
            }
            Output::Withdraw { lease } => {
                let (key, text) = (format!("members/{}", self.me), Self::listed(true).text());
                self.spawn_request(async move {
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
                self.spawn_request(async move {
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
                // Until the lease is revoked, others take this member for a live one.
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
        self.spawn_request(async move {
            let least =
                tokio::task::spawn_blocking(move || takeover::newest(&storage, store)).await;
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
        let open = OpenStore {
            epoch,
            gate: Arc::clone(&gate),
            server: Arc::default(),
            reopen_requested: false,
        };
        let slot = Arc::clone(&open.server);
        self.stores.insert(store, open);
        let assignment = StoreAssignment {
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
                let input = match serve(&config, &options, store, epoch, assignment) {
                    Ok(server) => {
                        tracing::info!(store, epoch, "serving");
                        *slot.lock().unwrap_or_else(PoisonError::into_inner) = Some(server);
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
        let Some(open) = self.stores.remove(&store) else {
            let _ = self.inputs.send(Input::Closed { store, epoch });
            return;
        };
        if lost {
            open.gate.close();
        }
        let inputs = self.inputs.clone();
        let closing = move || {
            let server = open
                .server
                .lock()
                .unwrap_or_else(PoisonError::into_inner)
                .take();
            match server {
                // A lost store must not send answers.
                Some(server) if lost => drop(server),
                Some(server) => {
                    if let Err(e) = server.stop() {
                        tracing::warn!(store, error = %e, "a store was not closed as it should be");
                    }
                }
                None => {}
            }
            open.gate.close();
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

/// Takes over a store and serves it.
fn serve(
    config: &ClusterConfig,
    options: &OpenOptions,
    store: u32,
    epoch: u64,
    assignment: StoreAssignment,
) -> Result<Server> {
    let folder = takeover::take_over(&config.storage, store, epoch)?;
    let folder = folder.to_string_lossy();
    let whole = format!(
        "`{folder}` is store {store} of cluster `{}`, and process {} has it open: use esker://{}",
        config.name,
        std::process::id(),
        assignment.hub.address()
    );
    let database = options.clone().part_of(&whole).open(&folder)?;
    let server = Server::start_assigned(database, config, store, assignment)?;
    if let Err(e) = takeover::remove_older(&config.storage, store, epoch) {
        tracing::warn!(store, error = %e, "the earlier folder of the store could not be removed");
    }
    Ok(server)
}

fn host_name() -> String {
    let name = std::fs::read_to_string("/proc/sys/kernel/hostname").unwrap_or_default();
    name.trim().to_owned()
}

/// Sends the state in etcd to the state machine on each change and at intervals, as long as `alive` exists.
async fn watch(etcd: Etcd, inputs: UnboundedSender<Input>, alive: Weak<()>) {
    while alive.strong_count() > 0 {
        if let Err(e) = follow(&etcd, &inputs, &alive).await {
            tracing::warn!(error = %e, "etcd did not return the assignments");
        }
        tokio::time::sleep(RETRY_PAUSE).await;
    }
}

async fn follow(etcd: &Etcd, inputs: &UnboundedSender<Input>, alive: &Weak<()>) -> Result<()> {
    let view = etcd.view().await?;
    let mut changes = etcd.watch(view.revision).await?;
    let _ = inputs.send(Input::See(Arc::new(view)));
    while alive.strong_count() > 0 {
        match tokio::time::timeout(REREAD, changes.changed()).await {
            // After any change everything is read again, as it is little.
            Ok(Ok(true)) | Err(_) => {
                let _ = inputs.send(Input::See(Arc::new(etcd.view().await?)));
            }
            Ok(Ok(false) | Err(_)) => return Ok(()),
        }
    }
    Ok(())
}
