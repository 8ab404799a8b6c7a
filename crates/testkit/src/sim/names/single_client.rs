//! A single client without faults: a cluster answers about files as one engine does.

use super::graph::ClusterAndEngine;
use super::open_files::OpenPairs;
use super::{ChangeError, NamespaceResponse, Outcome, VisibleInode, combined_check};
use crate::history::START_MILLIS;
use crate::names::{path, people, random_change, random_path, random_subtree};
use crate::rng::Rng;
use crate::sim::blocking_client::BlockingClient;
use crate::sim::cluster::{Cluster, Shape, Subject};
use crate::sim::files::Share;
use crate::sim::net::Times;
use crate::sim::request::{ClientRequest, ClientResponse};
use crate::sim::scenario::{FaultLevel, RunReport, Scenario, started};
use crate::test_graph::schema_changes;
use esker_engine::{Engine, NoArchive};
use esker_model::idempotency::ProducerKey;
use esker_model::namespace::{
    Call, Change, Changes, NamePath, Namespace as _, NewFile, SetAttributes, SpaceBy, XattrMode,
};
use esker_model::object::Principal;
use esker_model::{Error, GraphWrite as _, NeverCancel};
use esker_store::memory::MemoryStore;
use std::cell::Cell;
use std::collections::BTreeMap;
use std::ops::ControlFlow;
use std::sync::Arc;

/// Number of steps of a run.
const CHANGES: usize = 150;
const NAMES: [&str; 9] = ["a", "b", "c", "d.x", "e", "f", "g.y", "h", "i"];

type Tree = BTreeMap<NamePath, VisibleInode>;

/// Runs the simulation of a seed.
pub fn run(seed: u64, tracing: bool) -> RunReport {
    let mut scenario = Scenario::of(seed, FaultLevel::Faultless, Subject::Nodes);
    scenario.shape = Shape {
        times: Times {
            delay_min: 1,
            delay_max: 20,
            wait: 2_000_000,
        },
        // Operations may fail while storage hangs; in this simulation every call must succeed, so it never hangs.
        share: Share::of(seed, seed.is_multiple_of(2)).map(Share::prompt),
        ..scenario.shape
    };
    let cluster = Cluster::new(seed, scenario.shape, tracing);
    let mut report = RunReport::default();
    let run = |report: &mut RunReport| -> Result<(), String> {
        let client_view = started(&cluster, seed)?;
        let text = |e: Error| e.to_string();
        let model = Engine::open(
            Arc::new(MemoryStore::new()),
            cluster.clock(0).ok_or("server 0 is not there")?,
            Arc::new(NoArchive),
            scenario.shape.engine,
        )
        .map_err(text)?;
        model.define(&schema_changes()).map_err(text)?;
        let mut client = NamespaceClient {
            client_view,
            model,
            rng: Rng::new(seed ^ 0x6e61_6d65),
            merges: Rng::new(seed ^ 0x7472_6565),
            opens: Rng::new(seed ^ 0x6f70_656e),
            open: OpenPairs::default(),
            sent: 0,
            compared: Cell::new(0),
        };
        let open = SetAttributes {
            mode: Some(0o777),
            ..SetAttributes::default()
        };
        client.change(
            None,
            vec![Change::Set {
                path: NamePath::root(),
                follow: true,
                set: open,
            }],
        )?;
        let people = people();
        let names = if client.rng.percent(50) {
            &NAMES[..]
        } else {
            &NAMES[..4]
        };
        for step in 0..CHANGES {
            let principal = client.rng.pick(&people).clone();
            let count = 1 + if client.rng.percent(10) {
                client.rng.number_below(20)
            } else {
                0
            };
            let changes = if client.rng.percent(10) {
                vec![client.some_tag(names)]
            } else if client.rng.percent(5) {
                client.many(&principal)
            } else {
                (0..count)
                    .map(|_| random_change(&mut client.rng, &principal, names))
                    .collect()
            };
            client
                .change(Some(&principal), changes.clone())
                .map_err(|e| format!("step {step}, {changes:?}: {e}"))?;
            if client.merges.percent(6) {
                let merge = vec![client.subtree(&principal, names)];
                client
                    .change(Some(&principal), merge.clone())
                    .map_err(|e| format!("step {step}, {merge:?}: {e}"))?;
            }
            if client.rng.percent(30) {
                let NamespaceClient {
                    client_view,
                    model,
                    rng,
                    ..
                } = &mut client;
                ClusterAndEngine { client_view, model }.tag(rng, names)?;
            }
            if client.opens.percent(50) {
                let principal = client.opens.pick(&people).clone();
                client.use_open(&principal, names)?;
            }
            if step % 15 == 14 {
                for principal in &people {
                    client.compare(principal, names)?;
                }
            }
        }
        client.client_view.wait(60_000_000);
        for principal in &people {
            client.compare(principal, names)?;
        }
        report.compared = client.compared.get();
        report.applied = combined_check::check(&cluster, &mut report.findings)?;
        let splits = (0..cluster.len()).filter_map(|at| cluster.node(at));
        report.tables = cluster.files.read_count();
        let left = cluster.files.names();
        if !left.is_empty() {
            report
                .findings
                .push(format!("files are left on shared storage: {left:?}"));
        }
        report.records = splits.map(|node| node.splits_here()).sum();
        Ok(())
    };
    if let Err(why) = run(&mut report) {
        report.findings.push(why);
    }
    report.collect(&cluster);
    report
}

struct NamespaceClient {
    client_view: BlockingClient,
    model: Engine,
    rng: Rng,
    /// Separate generator for subtrees, so that other choices do not depend on them.
    merges: Rng,
    /// Separate generator for open files, for the same reason.
    opens: Rng,
    open: OpenPairs,
    /// Number of numbered changes.
    sent: u64,
    /// Number of responses that were compared.
    compared: Cell<usize>,
}

impl NamespaceClient {
    fn call(&self, call: Call) -> Result<Result<NamespaceResponse, ChangeError>, String> {
        self.compared.update(|n| n + 1);
        match self.client_view.call(&ClientRequest::Names(Box::new(call))) {
            Ok(ClientResponse::Names(response)) => Ok(Ok(response)),
            Ok(other) => Err(format!(
                "a response of another kind than the request's: {other:?}"
            )),
            Err(e) => Ok(Err(e.into())),
        }
    }

    /// Compares the space used by each directory at and below a path.
    fn compare_usages(&self, principal: &Principal, at: &NamePath) -> Result<(), String> {
        self.compared.update(|n| n + 1);
        let mut expected = Vec::new();
        let read = self
            .model
            .usages(Some(principal), at, &NeverCancel, &mut |path, usage| {
                expected.push((path.clone(), *usage));
                ControlFlow::Continue(())
            });
        let expected = read.map(|()| expected).map_err(ChangeError::from);
        let request = ClientRequest::Usages(principal.clone(), at.clone());
        let got = match self.client_view.call(&request) {
            Ok(ClientResponse::Usages(usages)) => Ok(usages),
            Ok(other) => {
                return Err(format!(
                    "a response of another kind than the request's: {other:?}"
                ));
            }
            Err(e) => Err(ChangeError::from(e)),
        };
        if got != expected {
            return Err(format!(
                "user {}: below {at} is {got:?}, expected {expected:?}",
                principal.uid
            ));
        }
        // `usages` follows a symbolic link to a directory, and `usage` does not.
        let at_directory = self.model.stat(Some(principal), at, false);
        if !at_directory.is_ok_and(|inode| inode.is_directory()) {
            return Ok(());
        }
        let sum = self.model.usage(Some(principal), at, true);
        match (expected, sum) {
            (Ok(all), Ok(sum)) if all.first().is_some_and(|(_, first)| *first != sum) => {
                Err(format!("{at} holds {sum:?}, listed as {all:?}"))
            }
            _ => Ok(()),
        }
    }

    /// Opens, closes or uses open files.
    fn use_open(&mut self, principal: &Principal, names: &[&str]) -> Result<(), String> {
        let both = (&self.client_view, &self.model);
        for _ in 0..=self.opens.number_below(3) {
            self.open.step(&mut self.opens, both, principal, names)?;
        }
        self.open.compare(&self.client_view, &self.model)
    }

    /// Many files in one directory, so that it splits.
    fn many(&mut self, principal: &Principal) -> Vec<Change> {
        let directory = random_path(&mut self.rng, &NAMES);
        let (uid, gid) = (
            principal.uid as u32,
            principal.gids.first().map_or(0, |g| *g as u32),
        );
        let name = |n: usize| path(&format!("{directory}/n{n}"));
        (0..10 + self.rng.number_below(30))
            .map(|n| Change::Create(name(n), NewFile::new(0o10_0644, uid, gid)))
            .collect()
    }

    /// A subtree under an unused name: on a cluster, the ids of its files are not those of their paths.
    fn subtree(&mut self, principal: &Principal, names: &[&str]) -> Change {
        let parent = random_path(&mut self.merges, names).parent();
        let top = format!("m{}", self.merges.number_below(5));
        let at = path(&format!("{parent}/{top}"));
        Change::Merge(random_subtree(&mut self.merges, principal, &at))
    }

    /// A tag, set as an extended attribute.
    fn some_tag(&mut self, names: &[&str]) -> Change {
        Change::Xattr {
            path: random_path(&mut self.rng, names),
            name: self.rng.pick(&[b"user.esker.n", b"user.esker.t"]).to_vec(),
            value: self.rng.percent(70).then(|| b"7".to_vec()),
            mode: *self
                .rng
                .pick(&[XattrMode::Any, XattrMode::Create, XattrMode::Replace]),
        }
    }

    fn change(
        &mut self,
        principal: Option<&Principal>,
        changes: Vec<Change>,
    ) -> Result<(), String> {
        let expected = self
            .model
            .change(principal, &changes)
            .map_err(|e| e.to_string())?;
        let expected: Vec<Outcome> = expected
            .into_iter()
            .map(|d| d.map(|_| ()).map_err(ChangeError::from))
            .collect();
        // Idempotency keys of several changes are not stored if they are on several servers.
        let repeats = changes.len() == 1 && expected.iter().all(Result::is_ok);
        let mut changes = Changes {
            principal: principal.cloned(),
            changes,
            idempotency_key: repeats.then(|| self.idempotency_key()),
            is_retry: false,
        };
        let times = if repeats { 2 } else { 1 };
        for time in 0..times {
            changes.is_retry = time > 0;
            match self.call(Call::Change(changes.clone()))? {
                Ok(NamespaceResponse::Changed(got, _)) if got == expected => {}
                got => return Err(format!("told {got:?}, expected {expected:?} ({time})")),
            }
        }
        Ok(())
    }

    /// An idempotency key with the next number, as a client makes it.
    fn idempotency_key(&mut self) -> Vec<u8> {
        let number = self.sent;
        self.sent += 1;
        ProducerKey {
            producer: [7; 16],
            sequence: number,
            settled_below: number,
            created_millis: START_MILLIS + self.client_view.now() / 1000,
        }
        .encode()
    }

    /// Lists all that a principal sees, page by page.
    fn tree(&mut self, principal: &Principal) -> Result<Tree, String> {
        let mut tree = Tree::new();
        let mut left = vec![NamePath::root()];
        while let Some(directory) = left.pop() {
            let mut after = None;
            loop {
                let limit = 1 + self.rng.number_below(30);
                let call = Call::List {
                    principal: Some(principal.clone()),
                    path: directory.clone(),
                    after,
                    limit,
                };
                let (entries, more) = match self.call(call)? {
                    Ok(NamespaceResponse::Page(entries, more)) => (entries, more),
                    got => return Err(format!("listing {directory}: {got:?}")),
                };
                if entries.len() > limit {
                    return Err(format!("{} entries, asked for {limit}", entries.len()));
                }
                for (cookie, entry) in entries {
                    if after.is_some_and(|a| a >= cookie) {
                        return Err(format!("{directory} is out of order at {cookie:?}"));
                    }
                    after = Some(cookie);
                    let path = directory.join(&entry.name);
                    if entry.inode.is_directory() && entry.inode.allows(Some(principal), 5) {
                        left.push(path.clone());
                    }
                    tree.insert(path, VisibleInode::from(&entry.inode));
                }
                if !more {
                    break;
                }
            }
        }
        Ok(tree)
    }

    fn compare(&mut self, principal: &Principal, names: &[&str]) -> Result<(), String> {
        let Self {
            client_view,
            model,
            rng,
            ..
        } = self;
        ClusterAndEngine { client_view, model }.compare(rng, principal, names)?;
        let root = NamePath::root();
        self.compare_usages(principal, &root)?;
        let mut expected = Tree::new();
        let walked = self
            .model
            .walk(Some(principal), &root, &NeverCancel, &mut |path, inode| {
                if !path.is_root() {
                    expected.insert(path.clone(), VisibleInode::from(inode));
                }
                ControlFlow::Continue(())
            });
        if walked.is_err() {
            // The root itself is not readable for the principal.
            return Ok(());
        }
        let got = self.tree(principal)?;
        if got != expected {
            return Err(format!(
                "user {} sees {got:#?}, expected {expected:#?}",
                principal.uid
            ));
        }
        for _ in 0..3 {
            let at = random_path(&mut self.rng, names);
            let follow = self.rng.percent(50);
            let expected = self.model.stat(Some(principal), &at, follow);
            let expected = expected
                .map(|i| VisibleInode::from(&i))
                .map_err(ChangeError::from);
            let got = self.call(Call::Stat {
                principal: Some(principal.clone()),
                path: at.clone(),
                follow,
            })?;
            let got = match got {
                Ok(NamespaceResponse::Inode(inode)) => Ok(VisibleInode::from(&*inode)),
                Ok(other) => return Err(format!("{other:?}")),
                Err(e) => Err(e),
            };
            if got != expected {
                return Err(format!("{at} is {got:?}, expected {expected:?}"));
            }
            let expected = self.model.usage(Some(principal), &at, false);
            let expected = expected.map_err(ChangeError::from);
            let got = self.call(Call::Usage {
                principal: Some(principal.clone()),
                path: at.clone(),
            })?;
            let got = match got {
                Ok(NamespaceResponse::Usage(usage)) => Ok(usage),
                Ok(other) => return Err(format!("{other:?}")),
                Err(e) => Err(e),
            };
            if got != expected {
                return Err(format!("{at} holds {got:?}, expected {expected:?}"));
            }
        }
        let at = random_path(&mut self.rng, names);
        self.compare_usages(principal, &at)?;
        for by in [SpaceBy::Kind, SpaceBy::User, SpaceBy::Ending] {
            let expected = self.model.space(by).map_err(|e| e.to_string())?;
            match self.call(Call::Space(by))? {
                Ok(NamespaceResponse::Space(got)) if got == expected => {}
                got => return Err(format!("sums are {got:?}, expected {expected:?}")),
            }
        }
        Ok(())
    }
}
