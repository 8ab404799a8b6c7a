//! What somebody was promised of a file stays so.

use super::graph::vertex;
use super::{change, directory, file, path, sound, stat};
use crate::small::Small;
use esker_engine::Engine;
use esker_model::namespace::{Change, Inode, NamePath, Namespace as _, SetAttributes, XattrMode};
use esker_model::object::Asker;
use esker_model::{Batch, Error, GraphWrite as _, Op, Properties, Result};
use esker_testkit::names::{NAMES, people, some_change, some_path};
use esker_testkit::rng::Rng;

const LENGTH: u32 = 1_000;

/// What somebody knows.
struct Known {
    asker: Option<Asker>,
    path: NamePath,
    follow: bool,
    until: u64,
    inode: Inode,
}

struct World {
    small: Small,
    now: u64,
    known: Vec<Known>,
    promised: usize,
    waited: usize,
    tagged: usize,
}

impl World {
    fn new() -> Self {
        let small = Small::new();
        small.engine.make_promises(LENGTH).unwrap();
        Self {
            small,
            now: 0,
            known: Vec::new(),
            promised: 0,
            waited: 0,
            tagged: 0,
        }
    }

    fn pass(&mut self, micros: u64) {
        self.now += micros;
        self.small.clock.pass_micros(micros);
        self.known.retain(|known| known.until > self.now);
    }

    /// What anybody knows is so.
    fn look(&self) {
        for known in &self.known {
            let (asker, path) = (known.asker.as_ref(), &known.path);
            let now = self.small.engine.stat(asker, path, known.follow);
            match now {
                Ok(now) => assert_eq!(now, known.inode, "{path} for {asker:?}"),
                Err(e) => panic!("{path} for {asker:?}: {e}"),
            }
        }
    }

    fn ask(&mut self, asker: Option<Asker>, path: NamePath, follow: bool) {
        let asked = self
            .small
            .engine
            .stat_promised(asker.as_ref(), &path, follow);
        let Ok((inode, millis @ 1..)) = asked else {
            return;
        };
        assert!(millis <= LENGTH);
        self.promised += 1;
        self.known.push(Known {
            asker,
            path,
            follow,
            until: self.now + u64::from(millis) * 1_000,
            inode,
        });
    }

    /// Says something of the file in the graph.
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
                Err(Error::Promised { millis }) => {
                    self.waited += 1;
                    self.tagged += 1;
                    self.look();
                    self.pass(millis * 1_000);
                }
                // There is no such file, or it is a directory.
                _ => return,
            }
        }
        panic!("a tag of {at} waits for ever");
    }

    /// Does something as soon as it can be done.
    fn make(
        &mut self,
        asker: Option<&Asker>,
        change: &Change,
    ) -> Vec<Result<esker_model::namespace::Done>> {
        for _ in 0..3 {
            match self
                .small
                .engine
                .change(asker, std::slice::from_ref(change))
            {
                Ok(done) => return done,
                Err(Error::Promised { millis }) => {
                    self.waited += 1;
                    assert!(!self.known.is_empty(), "nobody knows anything");
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
fn what_was_promised_is_so_until_it_has_passed() {
    let cases: u64 = std::env::var("ESKER_PROMISE_CASES").map_or(12, |n| n.parse().unwrap());
    let (mut promised, mut waited, mut tagged) = (0, 0, 0);
    for seed in 0..cases {
        let mut rng = Rng::new(seed);
        let mut world = World::new();
        for _ in 0..1_500 {
            let person = rng.pick(&people()).clone();
            let asker = rng.percent(70).then_some(person);
            match rng.below(24) {
                0..=13 => {
                    let (at, follow) = (some_path(&mut rng, &NAMES), rng.percent(30));
                    world.ask(asker, at, follow);
                }
                14..=16 => {
                    let person = asker.clone().unwrap_or_else(|| people()[0].clone());
                    let what = some_change(&mut rng, &person, &NAMES);
                    world.make(asker.as_ref(), &what);
                }
                17 => {
                    let at = some_path(&mut rng, &NAMES);
                    world.tag(&at.to_string(), rng.below(9) as i64);
                }
                18 => {
                    // A tag of the vertex is an attribute of the file.
                    let what = Change::Xattr {
                        path: some_path(&mut rng, &NAMES),
                        name: b"user.esker.note".to_vec(),
                        value: rng.percent(60).then(|| b"x".to_vec()),
                        mode: XattrMode::Any,
                    };
                    world.make(None, &what);
                }
                _ => world.pass(rng.below(400_000) as u64),
            }
            world.look();
        }
        sound(&world.small.engine);
        promised += world.promised;
        waited += world.waited;
        tagged += world.tagged;
    }
    let cases = cases as usize;
    assert!(promised > 20 * cases, "{promised} promises");
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
        Err(Error::Promised { millis }) => millis,
        Ok(_) => 0,
        Err(e) => panic!("{e}"),
    }
}

fn promise(engine: &Engine, at: &str) -> u32 {
    engine.stat_promised(None, &path(at), false).unwrap().1
}

fn two_files() -> Small {
    let small = Small::new();
    let engine = &small.engine;
    for at in ["/d", "/e"] {
        change(engine, None, Change::Make(path(at), directory(0o755))).unwrap();
    }
    for at in ["/d/a", "/d/b"] {
        change(engine, None, Change::Make(path(at), file(0o644))).unwrap();
    }
    small
}

/// Nothing else waits but what was promised; what comes again meanwhile goes on holding.
#[test]
fn only_what_was_promised_waits() {
    let small = two_files();
    let engine = &small.engine;
    assert_eq!(promise(engine, "/d/a"), 0, "nobody makes promises");
    engine.make_promises(LENGTH).unwrap();
    assert_eq!(promise(engine, "/d/a"), LENGTH);
    assert_eq!(
        promise(engine, "/d"),
        0,
        "what is in a directory changes what it shows"
    );
    assert_eq!(wait_of(engine, set("/d/b", 0o600)), 0);
    assert_eq!(wait_of(engine, Change::Make(path("/d/c"), file(0o644))), 0);
    assert_eq!(wait_of(engine, set("/d/a", 0o600)), u64::from(LENGTH) + 1);
    assert_eq!(stat(engine, "/d/a").unwrap().mode & 0o777, 0o644);
    assert_eq!(promise(engine, "/d/a"), 0, "somebody waits");
    // Others of the same call are not done either.
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
    // Callers that have nothing to do with it are not held up by being in one commit with it.
    small.clock.pass_micros(10_000_000);
    for _ in 0..10 {
        if promise(engine, "/d/a") > 0 {
            break;
        }
    }
    let together =
        [set("/d/a", 0o640), set("/d/b", 0o640)].map(|change| esker_model::namespace::Changes {
            asker: None,
            changes: vec![change],
            once: None,
            again: false,
        });
    let done = engine.change_together(&together);
    assert!(matches!(done[0], Err(Error::Promised { .. })), "{done:?}");
    assert!(matches!(done[1].as_deref(), Ok([Ok(_)])), "{done:?}");
    sound(engine);
}

/// An engine that is opened after a crash does not know what was promised, but that something was.
#[test]
fn promises_outlive_whoever_made_them() {
    let small = two_files();
    small.engine.make_promises(LENGTH).unwrap();
    small.engine.persist().unwrap();
    let after = small.after_crash(0);
    let wait = wait_of(&after.engine, set("/d/a", 0o600));
    assert_eq!(wait, u64::from(LENGTH) + 1);
    assert_eq!(promise(&after.engine, "/d/a"), 0);
    after.clock.pass_micros(wait * 1_000);
    assert_eq!(wait_of(&after.engine, set("/d/a", 0o600)), 0);

    // One that was closed leaves nothing.
    after.engine.make_promises(LENGTH).unwrap();
    for _ in 0..10 {
        let _ = promise(&after.engine, "/d/b");
    }
    let left = after.engine.end_promises().unwrap();
    assert!(left > 0);
    assert_eq!(promise(&after.engine, "/d/b"), 0);
    after.clock.pass_micros(left * 1_000);
    assert_eq!(after.engine.end_promises().unwrap(), 0);
    after.engine.close().unwrap();
    let closed = after.after_crash(usize::MAX);
    assert_eq!(wait_of(&closed.engine, set("/d/a", 0o640)), 0);
}
