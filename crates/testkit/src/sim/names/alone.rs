//! One client at a time, and nothing goes wrong: a cluster answers about files as one engine does.

use super::graph::Both;
use super::opened::Pairs;
use super::{NamesTold, Outcome, Refusal, Seen, whole};
use crate::history::START_MILLIS;
use crate::names::{path, people, some_change, some_path, some_subtree};
use crate::rng::Rng;
use crate::sim::ask::{Ask, Told};
use crate::sim::cluster::{Cluster, Shape, Subject};
use crate::sim::facade::Facade;
use crate::sim::files::Share;
use crate::sim::net::Times;
use crate::sim::play::{Played, Scenario, Weather, started};
use crate::world::schema_changes;
use esker_engine::{Engine, NoArchive};
use esker_model::namespace::{
    Call, Change, Changes, Make, NamePath, Namespace as _, SetAttributes, SpaceBy, XattrMode,
};
use esker_model::object::Asker;
use esker_model::once::Numbered;
use esker_model::{Error, GraphWrite as _, NeverCancel};
use esker_store::memory::MemoryStore;
use std::collections::BTreeMap;
use std::ops::ControlFlow;
use std::sync::Arc;

/// How many changes are made.
const CHANGES: usize = 150;
const NAMES: [&str; 9] = ["a", "b", "c", "d.x", "e", "f", "g.y", "h", "i"];

type Tree = BTreeMap<NamePath, Seen>;

/// Plays a seed.
pub fn play(seed: u64, tracing: bool) -> Played {
    let mut scenario = Scenario::of(seed, Weather::Calm, Subject::Nodes);
    scenario.shape = Shape {
        times: Times {
            delay_min: 1,
            delay_max: 20,
            wait: 2_000_000,
        },
        // Who waits for storage that does not answer may be told so: here everything is answered.
        share: Share::of(seed, seed.is_multiple_of(2)).map(Share::prompt),
        ..scenario.shape
    };
    let cluster = Cluster::new(seed, scenario.shape, tracing);
    let mut played = Played::default();
    let run = |played: &mut Played| -> Result<(), String> {
        let facade = started(&cluster, seed)?;
        let text = |e: Error| e.to_string();
        let model = Engine::open(
            Arc::new(MemoryStore::new()),
            cluster.clock(0).ok_or("server 0 is not there")?,
            Arc::new(NoArchive),
            scenario.shape.engine,
        )
        .map_err(text)?;
        model.define(&schema_changes()).map_err(text)?;
        let mut alone = Alone {
            facade,
            model,
            rng: Rng::new(seed ^ 0x6e61_6d65),
            merges: Rng::new(seed ^ 0x7472_6565),
            opens: Rng::new(seed ^ 0x6f70_656e),
            open: Pairs::default(),
            sent: 0,
        };
        let open = SetAttributes {
            mode: Some(0o777),
            ..SetAttributes::default()
        };
        alone.change(
            None,
            vec![Change::Set {
                path: NamePath::root(),
                follow: true,
                set: open,
            }],
        )?;
        let people = people();
        let names = if alone.rng.percent(50) {
            &NAMES[..]
        } else {
            &NAMES[..4]
        };
        for step in 0..CHANGES {
            let asker = alone.rng.pick(&people).clone();
            let count = 1 + if alone.rng.percent(10) {
                alone.rng.below(20)
            } else {
                0
            };
            let changes = if alone.rng.percent(10) {
                vec![alone.some_tag(names)]
            } else if alone.rng.percent(5) {
                alone.many(&asker)
            } else {
                (0..count)
                    .map(|_| some_change(&mut alone.rng, &asker, names))
                    .collect()
            };
            alone
                .change(Some(&asker), changes.clone())
                .map_err(|e| format!("step {step}, {changes:?}: {e}"))?;
            if alone.merges.percent(6) {
                let merge = vec![alone.subtree(&asker, names)];
                alone
                    .change(Some(&asker), merge.clone())
                    .map_err(|e| format!("step {step}, {merge:?}: {e}"))?;
            }
            if alone.rng.percent(30) {
                let Alone {
                    facade, model, rng, ..
                } = &mut alone;
                Both { facade, model }.tag(rng, names)?;
            }
            if alone.opens.percent(50) {
                let asker = alone.opens.pick(&people).clone();
                alone.use_open(&asker, names)?;
            }
            if step % 15 == 14 {
                for asker in &people {
                    alone.compare(asker, names)?;
                }
            }
        }
        alone.facade.wait(60_000_000);
        for asker in &people {
            alone.compare(asker, names)?;
        }
        played.applied = whole::check(&cluster, &mut played.findings)?;
        let splits = (0..cluster.len()).filter_map(|at| cluster.node(at));
        played.tables = cluster.files.read_count();
        let left = cluster.files.names();
        if !left.is_empty() {
            played
                .findings
                .push(format!("files are left on shared storage: {left:?}"));
        }
        played.records = splits.map(|node| node.splits_here()).sum();
        Ok(())
    };
    if let Err(why) = run(&mut played) {
        played.findings.push(why);
    }
    played.sum_up(&cluster);
    played
}

struct Alone {
    facade: Facade,
    model: Engine,
    rng: Rng,
    /// For subtrees: all else is as it was without them.
    merges: Rng,
    /// For open files: so, too.
    opens: Rng,
    open: Pairs,
    /// How many changes were numbered.
    sent: u64,
}

impl Alone {
    fn told(&self, call: Call) -> Result<Result<NamesTold, Refusal>, String> {
        match self.facade.ask(&Ask::Names(Box::new(call))) {
            Ok(Told::Names(told)) => Ok(Ok(told)),
            Ok(other) => Err(format!("an answer to something else: {other:?}")),
            Err(e) => Ok(Err(e.into())),
        }
    }

    /// Opens, closes or uses open files.
    fn use_open(&mut self, asker: &Asker, names: &[&str]) -> Result<(), String> {
        let both = (&self.facade, &self.model);
        for _ in 0..=self.opens.below(3) {
            self.open.step(&mut self.opens, both, asker, names)?;
        }
        self.open.compare(&self.facade, &self.model)
    }

    /// Many files in one directory, so that it splits.
    fn many(&mut self, asker: &Asker) -> Vec<Change> {
        let directory = some_path(&mut self.rng, &NAMES);
        let (uid, gid) = (
            asker.uid as u32,
            asker.gids.first().map_or(0, |g| *g as u32),
        );
        let name = |n: usize| path(&format!("{directory}/n{n}"));
        (0..10 + self.rng.below(30))
            .map(|n| Change::Make(name(n), Make::new(0o10_0644, uid, gid)))
            .collect()
    }

    /// A subtree under a name that nobody has spoken of: on a cluster, its files' ids are not those of their paths.
    fn subtree(&mut self, asker: &Asker, names: &[&str]) -> Change {
        let parent = some_path(&mut self.merges, names).parent();
        let top = format!("m{}", self.merges.below(5));
        let at = path(&format!("{parent}/{top}"));
        Change::Merge(some_subtree(&mut self.merges, asker, &at))
    }

    /// A tag by the attribute that it is.
    fn some_tag(&mut self, names: &[&str]) -> Change {
        Change::Xattr {
            path: some_path(&mut self.rng, names),
            name: self.rng.pick(&[b"user.esker.n", b"user.esker.t"]).to_vec(),
            value: self.rng.percent(70).then(|| b"7".to_vec()),
            mode: *self
                .rng
                .pick(&[XattrMode::Any, XattrMode::Create, XattrMode::Replace]),
        }
    }

    fn change(&mut self, asker: Option<&Asker>, changes: Vec<Change>) -> Result<(), String> {
        let expected = self
            .model
            .change(asker, &changes)
            .map_err(|e| e.to_string())?;
        let expected: Vec<Outcome> = expected
            .into_iter()
            .map(|d| d.map(|_| ()).map_err(Refusal::from))
            .collect();
        // Markers of several are not kept where they are several servers'.
        let repeats = changes.len() == 1 && expected.iter().all(Result::is_ok);
        let mut changes = Changes {
            asker: asker.cloned(),
            changes,
            once: repeats.then(|| self.marker()),
            again: false,
        };
        let times = if repeats { 2 } else { 1 };
        for time in 0..times {
            changes.again = time > 0;
            match self.told(Call::Change(changes.clone()))? {
                Ok(NamesTold::Changed(got, _)) if got == expected => {}
                got => return Err(format!("told {got:?}, expected {expected:?} ({time})")),
            }
        }
        Ok(())
    }

    /// As a client numbers its changes.
    fn marker(&mut self) -> Vec<u8> {
        let number = self.sent;
        self.sent += 1;
        Numbered {
            sender: [7; 16],
            number,
            settled: number,
            made: START_MILLIS + self.facade.now() / 1000,
        }
        .encode()
    }

    /// What somebody sees, page by page.
    fn tree(&mut self, asker: &Asker) -> Result<Tree, String> {
        let mut tree = Tree::new();
        let mut left = vec![NamePath::root()];
        while let Some(directory) = left.pop() {
            let mut after = None;
            loop {
                let limit = 1 + self.rng.below(30);
                let call = Call::List {
                    asker: Some(asker.clone()),
                    path: directory.clone(),
                    after,
                    limit,
                    directories: false,
                };
                let (entries, more) = match self.told(call)? {
                    Ok(NamesTold::Page(entries, more)) => (entries, more),
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
                    if entry.inode.is_directory() && entry.inode.allows(Some(asker), 5) {
                        left.push(path.clone());
                    }
                    tree.insert(path, Seen::from(&entry.inode));
                }
                if !more {
                    break;
                }
            }
        }
        Ok(tree)
    }

    fn compare(&mut self, asker: &Asker, names: &[&str]) -> Result<(), String> {
        let Self {
            facade, model, rng, ..
        } = self;
        Both { facade, model }.compare(rng, asker, names)?;
        let root = NamePath::root();
        let mut expected = Tree::new();
        let walked = self
            .model
            .walk(Some(asker), &root, &NeverCancel, &mut |path, inode| {
                if !path.is_root() {
                    expected.insert(path.clone(), Seen::from(inode));
                }
                ControlFlow::Continue(())
            });
        if walked.is_err() {
            // The root itself is closed to them.
            return Ok(());
        }
        let got = self.tree(asker)?;
        if got != expected {
            return Err(format!(
                "user {} sees {got:#?}, expected {expected:#?}",
                asker.uid
            ));
        }
        for _ in 0..3 {
            let at = some_path(&mut self.rng, names);
            let follow = self.rng.percent(50);
            let expected = self.model.stat(Some(asker), &at, follow);
            let expected = expected.map(|i| Seen::from(&i)).map_err(Refusal::from);
            let got = self.told(Call::Stat {
                asker: Some(asker.clone()),
                path: at.clone(),
                follow,
            })?;
            let got = match got {
                Ok(NamesTold::Inode(inode)) => Ok(Seen::from(&*inode)),
                Ok(other) => return Err(format!("{other:?}")),
                Err(e) => Err(e),
            };
            if got != expected {
                return Err(format!("{at} is {got:?}, expected {expected:?}"));
            }
            let expected = self.model.usage(Some(asker), &at, false);
            let expected = expected.map_err(Refusal::from);
            let got = self.told(Call::Usage {
                asker: Some(asker.clone()),
                path: at.clone(),
            })?;
            let got = match got {
                Ok(NamesTold::Usage(usage)) => Ok(usage),
                Ok(other) => return Err(format!("{other:?}")),
                Err(e) => Err(e),
            };
            if got != expected {
                return Err(format!("{at} holds {got:?}, expected {expected:?}"));
            }
        }
        let expected = self.model.space(SpaceBy::Kind).map_err(|e| e.to_string())?;
        match self.told(Call::Space(SpaceBy::Kind))? {
            Ok(NamesTold::Space(got)) if got == expected => Ok(()),
            got => Err(format!("sums are {got:?}, expected {expected:?}")),
        }
    }
}
