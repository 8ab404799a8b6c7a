//! Concurrent clients of a namespace under faults: each client makes, renames, links and removes files of its own,
//! under names that it uses once, and all clients compete for directories in a shared one.
//!
//! No client changes another's files, so a client that got a response knows its files. Without a response, a change
//! was done completely or not at all: a renamed file has exactly one of its two names.

use super::open_files::OpenFileState;
use super::{ChangeError, NamespaceResponse, Outcome, combined_check};
use crate::names::path;
use crate::rng::Rng;
use crate::sim::blocking_client::BlockingClient;
use crate::sim::cluster::{Cluster, Subject};
use crate::sim::exec::OUTSIDE;
use crate::sim::fault_schedule::run_clients;
use crate::sim::files::{FileFaults, Share};
use crate::sim::net::Faults;
use crate::sim::request::{ClientRequest, ClientResponse};
use crate::sim::scenario::{FaultLevel, RunReport, Scenario, started};
use esker_cluster::Kind;
use esker_model::namespace::{
    Call, Change, Changes, Errno, Inode, NamePath, NewFile, Open, OpenLookup, SetAttributes,
};
use esker_model::{Error, Version, VertexId};
use std::cell::{Cell, RefCell};
use std::collections::BTreeMap;
use std::rc::Rc;

/// Names of directories for which all clients compete.
const CONTESTED: [&str; 3] = ["x", "y", "z"];

/// A client's knowledge about one of its names.
#[derive(Debug, Clone, PartialEq, Eq)]
enum FileState {
    /// The file exists.
    There,
    /// The file does not exist.
    Gone,
    /// The file may exist.
    Perhaps,
    /// The file exists if and only if the other name does not.
    Or(NamePath),
}

/// Files by path, as one client knows them.
type OwnFiles = BTreeMap<NamePath, FileState>;

/// Attributes of a file under a lease.
struct LeasedInode {
    path: NamePath,
    inode: Inode,
    until: u64,
}

struct ClientsState {
    cluster: Rc<Cluster>,
    mine: RefCell<Vec<OwnFiles>>,
    busy: Cell<usize>,
    applied: Cell<usize>,
    records: Cell<usize>,
    leases: Cell<usize>,
    findings: RefCell<Vec<String>>,
}

/// Runs the simulation of a seed with all checks.
pub fn run(seed: u64, level: FaultLevel, tracing: bool) -> RunReport {
    let mut scenario = Scenario::of(seed, level, Subject::Nodes);
    scenario.clients = 1 + (seed % 7) as usize;
    // A resize concerns stopped servers, which have granted no leases.
    if level != FaultLevel::Resizes {
        scenario.shape.engine.lease_millis = [0, 20, 100, 400][(seed % 4) as usize];
    }
    // Crashes and lost messages suffice to leave files behind.
    scenario.shape.share = Share::of(
        seed,
        level != FaultLevel::Faultless || seed.is_multiple_of(2),
    );
    run_scenario(&scenario, tracing)
}

/// Runs in which partitions come back to servers that have given them away, and whose givers do not know yet that
/// they have arrived: partition `n` is on the `n`-th of three servers, so the third comes from the first, which had
/// the second one's. Most responses are lost.
pub fn run_with_returns(seed: u64, tracing: bool) -> RunReport {
    let mut scenario = Scenario::of(seed, FaultLevel::Messages, Subject::Nodes);
    scenario.clients = 4;
    scenario.calls = 30;
    scenario.shape.servers = 3;
    scenario.shape.vnodes = 64;
    scenario.shape.threshold = 2 + seed % 4;
    scenario.shape.placement = if seed.is_multiple_of(2) {
        Kind::Dido
    } else {
        Kind::GigaPlus
    };
    scenario.faults = Faults {
        lost_requests: 0,
        lost_responses: 200,
        repeated: 0,
        late: 0,
    };
    scenario.shape.share = Some(Share {
        least: 0,
        faults: FileFaults::default(),
        blind: 0,
    });
    run_scenario(&scenario, tracing)
}

fn run_scenario(scenario: &Scenario, tracing: bool) -> RunReport {
    let seed = scenario.seed;
    let cluster = Cluster::new(seed ^ 0x6669_6c65, scenario.shape, tracing);
    let mut report = RunReport::default();
    if let Err(why) = run_on(scenario, &cluster, &mut report) {
        report.findings.push(why);
    }
    report.collect(&cluster);
    report
}

fn run_on(
    scenario: &Scenario,
    cluster: &Rc<Cluster>,
    report: &mut RunReport,
) -> Result<(), String> {
    let client_view = started(cluster, scenario.seed)?;
    let all = Rc::new(ClientsState {
        cluster: Rc::clone(cluster),
        mine: RefCell::new(vec![OwnFiles::new(); scenario.clients]),
        busy: Cell::new(scenario.clients),
        applied: Cell::new(0),
        records: Cell::new(0),
        leases: Cell::new(0),
        findings: RefCell::default(),
    });
    let mut begin = vec![directory("/s")];
    begin.extend((0..scenario.clients).map(|n| directory(&format!("/c{n}"))));
    let made = client_view
        .call(&request(begin))
        .map_err(|e| e.to_string())?;
    if !matches!(&made, ClientResponse::Names(NamespaceResponse::Changed(done, _)) if done.iter().all(Result::is_ok))
    {
        return Err(format!("the first directories are not made: {made:?}"));
    }
    let mut rng = Rng::new(scenario.seed ^ 0x006e_616d);
    run_clients(
        scenario,
        (cluster, &client_view),
        &mut rng,
        &|| all.busy.get(),
        &mut |rng| {
            for client in 0..scenario.clients {
                let rng = Rng::new(rng.next());
                let opens = Rng::new(scenario.seed ^ client as u64 ^ 0x6f70_656e);
                let life = Rc::clone(&all).run_client(client, (rng, opens), 2 * scenario.calls);
                cluster.exec.spawn(OUTSIDE, Box::pin(life));
            }
        },
    )?;
    report.records = all.records.get();
    report.applied = all.applied.get();
    report.leases = all.leases.get();
    report.tables = cluster.files.read_count();
    report.findings.append(&mut all.findings.borrow_mut());
    all.check_final_state(&client_view, &mut report.findings)?;
    combined_check::check(cluster, &mut report.findings)?;
    let left = cluster.files.names();
    if !left.is_empty() {
        report
            .findings
            .push(format!("files are left on shared storage: {left:?}"));
    }
    Ok(())
}

fn request(changes: Vec<Change>) -> ClientRequest {
    ClientRequest::Names(Box::new(Call::Change(Changes {
        principal: None,
        changes,
        idempotency_key: None,
        is_retry: false,
    })))
}

fn directory(at: &str) -> Change {
    Change::Create(path(at), NewFile::new(0o4_0777, 0, 0))
}

fn file(at: &NamePath) -> Change {
    Change::Create(at.clone(), NewFile::new(0o10_0666, 0, 0))
}

impl ClientsState {
    /// Runs one client.
    async fn run_client(
        self: Rc<Self>,
        client: usize,
        (mut rng, mut opens): (Rng, Rng),
        calls: usize,
    ) {
        let mut leased = Vec::new();
        let mut open_files = BTreeMap::new();
        for number in 0..calls {
            self.step(client, number, &mut rng).await;
            if opens.percent(15) {
                self.use_open_file(client, &mut open_files, &mut opens)
                    .await;
            }
            if self.cluster.shape.engine.lease_millis > 0 {
                self.check_leases(client, &mut leased, &mut rng).await;
            }
            if rng.percent(50) {
                let pause = rng.number_below(self.cluster.shape.pause_max) as u64;
                self.cluster.shared().sleep(pause).await;
            }
        }
        self.busy.set(self.busy.get() - 1);
    }

    /// Sends changes once, since a repeated change would be another one.
    async fn change(&self, client: usize, rng: &mut Rng, changes: Vec<Change>) -> Vec<Outcome> {
        let count = changes.len();
        let shared = self.cluster.shared();
        let at = rng.number_below(self.cluster.len());
        shared.note(|| format!("client {client} asks server {at}: {changes:?}"));
        let timeout = self.cluster.shape.timeout;
        let response = self
            .cluster
            .call(at, request(changes), Version::ZERO, timeout)
            .await;
        shared.note(|| format!("client {client} hears from server {at}: {response:?}"));
        self.records.set(self.records.get() + 1);
        let outcomes = match response {
            Ok(ClientResponse::Names(NamespaceResponse::Changed(done, _)))
                if done.len() == count =>
            {
                done
            }
            Ok(other) => vec![Err(ChangeError::Other(format!("{other:?}"))); count],
            Err(e) => vec![Err(ChangeError::from(e)); count],
        };
        let done = outcomes.iter().filter(|o| o.is_ok()).count();
        self.applied.set(self.applied.get() + done);
        for outcome in &outcomes {
            if let Err(ChangeError::Other(why)) = outcome {
                self.findings
                    .borrow_mut()
                    .push(format!("client {client} is told {why}"));
            }
        }
        outcomes
    }

    /// Requests a lease on a file, and checks that the attributes under earlier leases have not changed for any server.
    async fn check_leases(&self, client: usize, leased: &mut Vec<LeasedInode>, rng: &mut Rng) {
        let (a, b) = (*rng.pick(&CONTESTED), *rng.pick(&CONTESTED));
        let at = path(&format!("/s/{a}/{b}"));
        let at = match self.random_own_file(client, rng) {
            Some(mine) if rng.percent(70) => mine,
            _ => at,
        };
        let timeout = self.cluster.shape.timeout;
        let now = || self.cluster.shared().now();
        // The server that has the entry grants the lease.
        for server in 0..self.cluster.len() {
            let sent = now();
            let request = ClientRequest::Leased(at.clone());
            let response = self
                .cluster
                .call(server, request, Version::ZERO, timeout)
                .await;
            if let Ok(ClientResponse::Leased(inode, millis @ 1..)) = response {
                self.leases.set(self.leases.get() + 1);
                leased.push(LeasedInode {
                    path: at,
                    inode: *inode,
                    until: sent + u64::from(millis) * 1_000,
                });
                break;
            }
        }
        leased.retain(|lease| now() < lease.until);
        for lease in &*leased {
            let call = Call::Stat {
                principal: None,
                path: lease.path.clone(),
                follow: false,
            };
            let at = rng.number_below(self.cluster.len());
            let request = ClientRequest::Names(Box::new(call));
            let response = self.cluster.call(at, request, Version::ZERO, timeout).await;
            if now() >= lease.until {
                continue;
            }
            let wrong = match &response {
                Ok(ClientResponse::Names(NamespaceResponse::Inode(inode))) => {
                    **inode != lease.inode
                }
                Ok(_) | Err(Error::File(_)) => true,
                Err(_) => false,
            };
            if wrong {
                let what = format!(
                    "client {client} was promised {:?} of {} and server {at} says {response:?}",
                    lease.inode, lease.path
                );
                self.findings.borrow_mut().push(what);
            }
        }
    }

    /// Opens one of the client's files, or writes to an open one and checks it: it is the same file with what was
    /// written, whatever happened to its names.
    async fn use_open_file(
        &self,
        client: usize,
        open_files: &mut BTreeMap<VertexId, OpenFileState>,
        rng: &mut Rng,
    ) {
        let timeout = self.cluster.shape.timeout;
        let request = |call: Call, at: usize| {
            let request = ClientRequest::Names(Box::new(call));
            self.cluster.call(at, request, Version::ZERO, timeout)
        };
        if open_files.len() < 4
            && rng.percent(50)
            && let Some(mine) = self.random_own_file(client, rng)
        {
            let how = Open::BOTH;
            let (principal, path) = (None, mine.clone());
            let at = rng.number_below(self.cluster.len());
            match request(
                Call::Look {
                    principal,
                    path,
                    how,
                },
                at,
            )
            .await
            {
                Ok(ClientResponse::Names(NamespaceResponse::OpenLookup(OpenLookup::Found(
                    path,
                    inode,
                )))) => {
                    open_files
                        .entry(inode.id)
                        .or_insert_with(|| OpenFileState::new(path));
                }
                Err(Error::File(e)) => {
                    let outcome = Err(ChangeError::File(e.errno));
                    self.report_unexpected(client, "cannot open", &mine, &outcome);
                }
                _ => {}
            }
            return;
        }
        let which = rng.number_below(open_files.len().max(1));
        let Some(holding) = open_files.values_mut().nth(which) else {
            return;
        };
        let outcome = self
            .change(client, rng, vec![holding.append()])
            .await
            .remove(0);
        if holding.appended(&outcome).is_err() {
            self.report_unexpected(client, "cannot write to", &holding.path, &outcome);
        }
        let call = Call::Stat {
            principal: None,
            path: holding.path.clone(),
            follow: false,
        };
        let response = request(call, rng.number_below(self.cluster.len())).await;
        if let Some(wrong) = holding.wrong(&response) {
            let mut findings = self.findings.borrow_mut();
            findings.push(format!("client {client} has open: {wrong}"));
        }
    }

    fn random_own_file(&self, client: usize, rng: &mut Rng) -> Option<NamePath> {
        let all = self.mine.borrow();
        let mine = all.get(client)?.iter();
        let there: Vec<&NamePath> = mine
            .filter(|(_, known)| **known == FileState::There)
            .map(|(path, _)| path)
            .collect();
        (!there.is_empty()).then(|| there[rng.number_below(there.len())].clone())
    }

    fn set(&self, client: usize, path: &NamePath, known: FileState) {
        if let Some(mine) = self.mine.borrow_mut().get_mut(client) {
            mine.insert(path.clone(), known);
        }
    }

    /// Records a refusal that no other client can have caused.
    fn report_unexpected(&self, client: usize, what: &str, path: &NamePath, outcome: &Outcome) {
        let what = format!("client {client} {what} {path}, which is its own: {outcome:?}");
        self.findings.borrow_mut().push(what);
    }

    async fn step(&self, client: usize, number: usize, rng: &mut Rng) {
        // In the client's own directory, or between the files of others in the shared one.
        let parent = if rng.percent(50) {
            format!("/c{client}")
        } else {
            "/s".into()
        };
        let new_path = path(&format!("{parent}/{client}-{number}"));
        // Some clients do little else than compete.
        let fights = if client.is_multiple_of(2) { 10 } else { 40 };
        match rng.number_below(fights) {
            0..=2 => {
                let outcome = self
                    .change(client, rng, vec![file(&new_path)])
                    .await
                    .remove(0);
                match &outcome {
                    Ok(()) => self.set(client, &new_path, FileState::There),
                    Err(ChangeError::Unavailable(_)) => {
                        self.set(client, &new_path, FileState::Perhaps);
                    }
                    Err(_) => self.report_unexpected(client, "cannot make", &new_path, &outcome),
                }
            }
            3 => {
                let many: Vec<NamePath> = (0..2 + rng.number_below(12))
                    .map(|n| path(&format!("{new_path}-{n}")))
                    .collect();
                let changes = many.iter().map(file).collect();
                let outcomes = self.change(client, rng, changes).await;
                for (at, outcome) in many.iter().zip(&outcomes) {
                    match outcome {
                        Ok(()) => self.set(client, at, FileState::There),
                        Err(ChangeError::Unavailable(_)) => {
                            self.set(client, at, FileState::Perhaps);
                        }
                        Err(_) => self.report_unexpected(client, "cannot make", at, outcome),
                    }
                }
            }
            4 => {
                let Some(at) = self.random_own_file(client, rng) else {
                    return;
                };
                let change = vec![Change::Unlink(at.clone())];
                let outcome = self.change(client, rng, change).await.remove(0);
                match &outcome {
                    Ok(()) => self.set(client, &at, FileState::Gone),
                    Err(ChangeError::Unavailable(_)) => self.set(client, &at, FileState::Perhaps),
                    Err(_) => self.report_unexpected(client, "cannot remove", &at, &outcome),
                }
            }
            5..=6 => {
                let Some(at) = self.random_own_file(client, rng) else {
                    return;
                };
                let change = vec![Change::Rename {
                    from: at.clone(),
                    to: new_path.clone(),
                    no_replace: rng.percent(50),
                }];
                let outcome = self.change(client, rng, change).await.remove(0);
                match &outcome {
                    Ok(()) => {
                        self.set(client, &at, FileState::Gone);
                        self.set(client, &new_path, FileState::There);
                    }
                    Err(ChangeError::Unavailable(_)) => {
                        self.set(client, &at, FileState::Or(new_path.clone()));
                        self.set(client, &new_path, FileState::Or(at));
                    }
                    Err(_) => self.report_unexpected(client, "cannot rename", &at, &outcome),
                }
            }
            7 => {
                let Some(at) = self.random_own_file(client, rng) else {
                    return;
                };
                let change = vec![Change::Link {
                    from: at.clone(),
                    to: new_path.clone(),
                }];
                let outcome = self.change(client, rng, change).await.remove(0);
                match &outcome {
                    Ok(()) => self.set(client, &new_path, FileState::There),
                    Err(ChangeError::Unavailable(_)) => {
                        self.set(client, &new_path, FileState::Perhaps);
                    }
                    Err(_) => self.report_unexpected(client, "cannot link", &at, &outcome),
                }
            }
            8 => {
                let Some(at) = self.random_own_file(client, rng) else {
                    return;
                };
                let set = SetAttributes {
                    mode: Some(0o600 + rng.number_below(8) as u32),
                    ..SetAttributes::default()
                };
                let change = vec![Change::Set {
                    path: at.clone(),
                    follow: true,
                    set,
                }];
                let outcome = self.change(client, rng, change).await.remove(0);
                if let Err(ChangeError::File(_)) = &outcome {
                    self.report_unexpected(client, "cannot change", &at, &outcome);
                }
            }
            _ => self.contend(client, rng).await,
        }
    }

    /// Changes shared directories, which all clients make and remove.
    async fn contend(&self, client: usize, rng: &mut Rng) {
        let name = *rng.pick(&CONTESTED);
        let contested = path(&format!("/s/{name}"));
        let within = path(&format!("/s/{name}/{}", rng.pick(&CONTESTED)));
        let change = match rng.number_below(7) {
            0..=1 => directory(&format!("/s/{name}")),
            2 => file(&within),
            3 => Change::Unlink(within),
            4 => Change::Rmdir(contested),
            5 => Change::Rename {
                from: contested,
                to: path(&format!("/s/{}", rng.pick(&CONTESTED))),
                no_replace: false,
            },
            _ => Change::Rename {
                from: within,
                to: path(&format!("/s/{}/{name}", rng.pick(&CONTESTED))),
                no_replace: false,
            },
        };
        let outcome = self.change(client, rng, vec![change]).await.remove(0);
        let expected = [
            Errno::NotFound,
            Errno::Exists,
            Errno::NotEmpty,
            Errno::Invalid,
            Errno::NotDirectory,
            Errno::IsDirectory,
        ];
        if let Err(ChangeError::File(errno)) = &outcome
            && !expected.contains(errno)
        {
            self.findings
                .borrow_mut()
                .push(format!("client {client} is told {errno:?}"));
        }
    }

    /// Checks the final state that every server returns.
    fn check_final_state(
        &self,
        client_view: &BlockingClient,
        findings: &mut Vec<String>,
    ) -> Result<(), String> {
        for at in 0..self.cluster.len() {
            let mut parents = vec!["/s".to_owned()];
            parents.extend((0..self.mine.borrow().len()).map(|n| format!("/c{n}")));
            let mut there = Vec::new();
            for parent in parents {
                there.extend(listed(client_view, at, &path(&parent))?);
            }
            for (client, mine) in self.mine.borrow().iter().enumerate() {
                for (path, known) in mine {
                    let is = there.contains(path);
                    let right = match known {
                        FileState::There => is,
                        FileState::Gone => !is,
                        FileState::Perhaps => true,
                        FileState::Or(other) => is != there.contains(other),
                    };
                    if !right {
                        findings.push(format!(
                            "server {at}: {path} of client {client} is {}, and it knows: {known:?}",
                            if is { "there" } else { "not there" }
                        ));
                    }
                }
            }
        }
        Ok(())
    }
}

/// Lists a directory through one server.
fn listed(
    client_view: &BlockingClient,
    at: usize,
    directory: &NamePath,
) -> Result<Vec<NamePath>, String> {
    let mut all = Vec::new();
    let mut after = None;
    loop {
        let call = Call::List {
            principal: None,
            path: directory.clone(),
            after,
            limit: 20,
        };
        let response = client_view.call_at(at, &ClientRequest::Names(Box::new(call)));
        match response {
            Ok(ClientResponse::Names(NamespaceResponse::Page(entries, more))) => {
                after = entries.last().map(|(cookie, _)| *cookie);
                all.extend(entries.iter().map(|(_, e)| directory.join(&e.name)));
                if !more {
                    return Ok(all);
                }
            }
            other => return Err(format!("server {at} lists {directory}: {other:?}")),
        }
    }
}
