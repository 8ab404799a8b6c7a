//! Leased states of files do not change before the lease ends.

use super::graph::vertex;
use super::{change, directory, file, path, sound, stat};
use crate::small::Small;
use esker_engine::Engine;
use esker_model::namespace::{Change, Inode, NamePath, Namespace as _, SetAttributes, XattrMode};
use esker_model::object::Principal;
use esker_model::{Batch, Error, GraphWrite as _, Op, Properties, Result};
use esker_testkit::names::{NAMES, people, random_change, random_path};
use esker_testkit::rng::Rng;

const LENGTH: u32 = 1_000;

/// A leased answer of a client.
struct LeasedAnswer {
    principal: Option<Principal>,
    path: NamePath,
    follow: bool,
    until: u64,
    inode: Inode,
}

struct TestGraph {
    small: Small,
    now: u64,
    answers: Vec<LeasedAnswer>,
    leased: usize,
    waited: usize,
    tagged: usize,
}

impl TestGraph {
    fn new() -> Self {
        let small = Small::new();
        small.engine.enable_leases(LENGTH).unwrap();
        Self {
            small,
            now: 0,
            answers: Vec::new(),
            leased: 0,
            waited: 0,
            tagged: 0,
        }
    }

    fn pass(&mut self, micros: u64) {
        self.now += micros;
        self.small.clock.pass_micros(micros);
        self.answers.retain(|answers| answers.until > self.now);
    }

    /// Asserts that all leased answers are still correct.
    fn look(&self) {
        for answers in &self.answers {
            let (principal, path) = (answers.principal.as_ref(), &answers.path);
            let now = self.small.engine.stat(principal, path, answers.follow);
            match now {
                Ok(now) => assert_eq!(now, answers.inode, "{path} for {principal:?}"),
                Err(e) => panic!("{path} for {principal:?}: {e}"),
            }
        }
    }

    fn read_with_lease(&mut self, principal: Option<Principal>, path: NamePath, follow: bool) {
        let asked = self
            .small
            .engine
            .stat_with_lease(principal.as_ref(), &path, follow);
        let Ok((inode, millis @ 1..)) = asked else {
            return;
        };
        assert!(millis <= LENGTH);
        self.leased += 1;
        self.answers.push(LeasedAnswer {
            principal,
            path,
            follow,
            until: self.now + u64::from(millis) * 1_000,
            inode,
        });
    }

    /// Sets a tag of the file's vertex.
    fn tag(&mut self, at: &str, value: i64) {
        let vertex = vertex(&self.small.engine, &format!("file:{at}"));
        let batch = || {
            let mut batch = Batch::new();
            batch.push(Op::EnsureVertex {
                vertex,
                key: at.to_owned(),
            });
            batch.push(Op::SetAttributes {
                vertex,
                set: Properties::new().with("note", value),
                remove: Vec::new(),
            });
            batch
        };
        for _ in 0..3 {
            match self.small.engine.apply(batch()) {
                Err(Error::Leased { millis }) => {
                    self.waited += 1;
                    self.tagged += 1;
                    self.look();
                    self.pass(millis * 1_000);
                }
                // The file does not exist, or it is a directory.
                _ => return,
            }
        }
        panic!("a tag of {at} waits for ever");
    }

    /// Applies a change as soon as leases allow.
    fn make(
        &mut self,
        principal: Option<&Principal>,
        change: &Change,
    ) -> Vec<Result<esker_model::namespace::AppliedChange>> {
        for _ in 0..3 {
            match self
                .small
                .engine
                .change(principal, std::slice::from_ref(change))
            {
                Ok(done) => return done,
                Err(Error::Leased { millis }) => {
                    self.waited += 1;
                    assert!(!self.answers.is_empty(), "nobody knows anything");
                    assert!((1..=u64::from(LENGTH) + 1).contains(&millis));
                    self.look();
                    self.pass(millis * 1_000);
                }
                Err(e) => panic!("{e}"),
            }
        }
        panic!("{change:?} waits for ever");
    }
}

#[test]
fn leased_answers_are_correct_until_the_lease_ends() {
    let cases: u64 = std::env::var("ESKER_LEASE_CASES").map_or(12, |n| n.parse().unwrap());
    let (mut leased, mut waited, mut tagged) = (0, 0, 0);
    for seed in 0..cases {
        let mut rng = Rng::new(seed);
        let mut world = TestGraph::new();
        for _ in 0..1_500 {
            let person = rng.pick(&people()).clone();
            let principal = rng.percent(70).then_some(person);
            match rng.number_below(24) {
                0..=13 => {
                    let (at, follow) = (random_path(&mut rng, &NAMES), rng.percent(30));
                    world.read_with_lease(principal, at, follow);
                }
                14..=16 => {
                    let person = principal.clone().unwrap_or_else(|| people()[0].clone());
                    let what = random_change(&mut rng, &person, &NAMES);
                    world.make(principal.as_ref(), &what);
                }
                17 => {
                    let at = random_path(&mut rng, &NAMES);
                    world.tag(&at.to_string(), rng.number_below(9) as i64);
                }
                18 => {
                    // A tag of the vertex is an attribute of the file.
                    let what = Change::Xattr {
                        path: random_path(&mut rng, &NAMES),
                        name: b"user.esker.note".to_vec(),
                        value: rng.percent(60).then(|| b"x".to_vec()),
                        mode: XattrMode::Any,
                    };
                    world.make(None, &what);
                }
                _ => world.pass(rng.number_below(400_000) as u64),
            }
            world.look();
        }
        sound(&world.small.engine);
        leased += world.leased;
        waited += world.waited;
        tagged += world.tagged;
    }
    let cases = cases as usize;
    assert!(leased > 20 * cases, "{leased} promises");
    assert!(waited > cases, "{waited} waited");
    assert!(tagged > 0, "no tag waited");
}

fn set(at: &str, mode: u32) -> Change {
    Change::Set {
        path: path(at),
        follow: false,
        set: SetAttributes {
            mode: Some(mode),
            ..SetAttributes::default()
        },
    }
}

fn wait_of(engine: &Engine, what: Change) -> u64 {
    match change(engine, None, what) {
        Err(Error::Leased { millis }) => millis,
        Ok(_) => 0,
        Err(e) => panic!("{e}"),
    }
}

fn lease(engine: &Engine, at: &str) -> u32 {
    engine.stat_with_lease(None, &path(at), false).unwrap().1
}

fn two_files() -> Small {
    let small = Small::new();
    let engine = &small.engine;
    for at in ["/d", "/e"] {
        change(engine, None, Change::Create(path(at), directory(0o755))).unwrap();
    }
    for at in ["/d/a", "/d/b"] {
        change(engine, None, Change::Create(path(at), file(0o644))).unwrap();
    }
    small
}

/// Only changes of leased rows wait; repeated reads do not extend a lease while a change waits.
#[test]
fn only_changes_of_leased_rows_wait() {
    let small = two_files();
    let engine = &small.engine;
    assert_eq!(lease(engine, "/d/a"), 0, "nobody makes promises");
    engine.enable_leases(LENGTH).unwrap();
    assert_eq!(lease(engine, "/d/a"), LENGTH);
    assert_eq!(
        lease(engine, "/d"),
        0,
        "what is in a directory changes what it shows"
    );
    assert_eq!(wait_of(engine, set("/d/b", 0o600)), 0);
    assert_eq!(
        wait_of(engine, Change::Create(path("/d/c"), file(0o644))),
        0
    );
    assert_eq!(wait_of(engine, set("/d/a", 0o600)), u64::from(LENGTH) + 1);
    assert_eq!(stat(engine, "/d/a").unwrap().mode & 0o777, 0o644);
    assert_eq!(lease(engine, "/d/a"), 0, "somebody waits");
    // No other change of the call is applied.
    let both = [set("/d/b", 0o640), set("/d/a", 0o600)];
    assert!(engine.change(None, &both).is_err());
    assert_eq!(stat(engine, "/d/b").unwrap().mode & 0o777, 0o600);
    assert!(
        wait_of(engine, set("/d", 0o700)) > 0,
        "the way to it changes"
    );
    assert!(
        wait_of(engine, set("/e", 0o700)) > 0,
        "all directories go together"
    );
    small.clock.pass_micros(u64::from(LENGTH + 1) * 1_000);
    assert_eq!(wait_of(engine, set("/d/a", 0o600)), 0);
    assert_eq!(wait_of(engine, set("/d", 0o700)), 0);
    // Callers with unrelated changes are not delayed by sharing a commit.
    small.clock.pass_micros(10_000_000);
    for _ in 0..10 {
        if lease(engine, "/d/a") > 0 {
            break;
        }
    }
    let together =
        [set("/d/a", 0o640), set("/d/b", 0o640)].map(|change| esker_model::namespace::Changes {
            principal: None,
            changes: vec![change],
            idempotency_key: None,
            is_retry: false,
        });
    let done = engine.change_all(&together);
    assert!(matches!(done[0], Err(Error::Leased { .. })), "{done:?}");
    assert!(matches!(done[1].as_deref(), Ok([Ok(_)])), "{done:?}");
    sound(engine);
}

/// After a crash an engine does not know which leases were granted, but that some were.
#[test]
fn leases_outlive_a_crash_of_the_engine() {
    let small = two_files();
    small.engine.enable_leases(LENGTH).unwrap();
    small.engine.persist().unwrap();
    let after = small.after_crash(0);
    let wait = wait_of(&after.engine, set("/d/a", 0o600));
    assert_eq!(wait, u64::from(LENGTH) + 1);
    assert_eq!(lease(&after.engine, "/d/a"), 0);
    after.clock.pass_micros(wait * 1_000);
    assert_eq!(wait_of(&after.engine, set("/d/a", 0o600)), 0);

    // A closed engine leaves no leases.
    after.engine.enable_leases(LENGTH).unwrap();
    for _ in 0..10 {
        let _ = lease(&after.engine, "/d/b");
    }
    let left = after.engine.disable_leases().unwrap();
    assert!(left > 0);
    assert_eq!(lease(&after.engine, "/d/b"), 0);
    after.clock.pass_micros(left * 1_000);
    assert_eq!(after.engine.disable_leases().unwrap(), 0);
    after.engine.close().unwrap();
    let closed = after.after_crash(usize::MAX);
    assert_eq!(wait_of(&closed.engine, set("/d/a", 0o640)), 0);
}
