//! Random changes beside somebody who holds answers.

use super::*;
use esker::{Database, OpenOptions};
use esker_model::namespace::{Change, Content, Inode, Make, SetAttributes, XattrMode};

/// Numbers from a seed.
struct Random(u64);

impl Random {
    fn below(&mut self, most: u64) -> u64 {
        // Xorshift64*.
        self.0 ^= self.0 >> 12;
        self.0 ^= self.0 << 25;
        self.0 ^= self.0 >> 27;
        (self.0.wrapping_mul(0x2545_f491_4f6c_dd1d) >> 33) % most
    }

    /// Few of them, so that they meet.
    fn path(&mut self) -> NamePath {
        let depth = 1 + self.below(4);
        let names = (0..depth).map(|_| ["a", "b", "c"][self.below(3) as usize]);
        let path = names.fold(String::new(), |path, name| path + "/" + name);
        NamePath::parse(path.as_bytes()).unwrap()
    }

    fn change(&mut self) -> Change {
        let path = self.path();
        match self.below(20) {
            0..=4 => Change::Make(path, Make::new(0o4_0755, 1, 1)),
            5..=7 => Change::Make(path, Make::new(0o10_0644, 1, 1)),
            8 => {
                let mut link = Make::new(0o12_0777, 1, 1);
                link.content = Content::Symlink(self.path().to_string().into_bytes());
                Change::Make(path, link)
            }
            9..=10 => Change::Unlink(path),
            11..=12 => Change::Rmdir(path),
            13..=15 => Change::Rename {
                from: path,
                to: self.path(),
                no_replace: self.below(2) == 0,
            },
            16 => Change::Link {
                from: path,
                to: self.path(),
            },
            17 => Change::Set {
                path,
                follow: false,
                set: SetAttributes {
                    mode: Some(0o600 + self.below(8) as u32),
                    ..SetAttributes::default()
                },
            },
            18 => Change::Write {
                path,
                at: Some(0),
                data: vec![b'x'; self.below(9) as usize],
            },
            _ => Change::Xattr {
                path,
                name: b"user.esker.k".to_vec(),
                value: Some(self.below(5).to_string().into_bytes()),
                mode: XattrMode::Any,
            },
        }
    }
}

/// What somebody holds: answers that they believe until they are told.
type Known = BTreeMap<Vec<u8>, Option<Inode>>;

fn look(database: &Database, path: &[u8]) -> Option<Inode> {
    let path = NamePath::parse(path).unwrap();
    match database.stat(None, &path, false) {
        Ok(inode) => Some(inode),
        Err(Error::File(_)) => None,
        Err(e) => panic!("{e}"),
    }
}

fn hear(known: &mut Known, happened: &[Happened]) {
    for one in happened {
        let within = |path: &Vec<u8>| {
            *path == one.path || path.starts_with(&below(&one.path, b"")) || one.path == b"/"
        };
        match What::try_from(one.what).unwrap() {
            What::Changed => {
                known.remove(&one.path);
            }
            What::Gone => {
                for (_, inode) in known.iter_mut().filter(|(path, _)| within(path)) {
                    *inode = None;
                }
            }
            What::Missed => known.retain(|path, _| !within(path)),
        }
    }
}

fn soon() -> Duration {
    Duration::from_millis(0)
}

/// Random changes, and somebody who asks now and then: what they were not told of is still so, each time.
#[test]
fn what_is_not_told_is_still_so() {
    let (mut held, mut gone, mut uncovered) = (0, 0, 0);
    let seeds = std::env::var("ESKER_WATCH_SEEDS").ok();
    let seeds = seeds.and_then(|s| s.parse().ok()).unwrap_or(15_u64);
    for seed in 1..=seeds {
        let dir = tempfile::tempdir().unwrap();
        let database = OpenOptions::new()
            .create(true)
            .memory_bytes(32 << 20)
            .open(dir.path().join("w").to_str().unwrap())
            .unwrap();
        let (engine, _) = database.engine().unwrap();
        let watchers = Watchers::default();
        let (number, watcher) = watchers.open(&engine, "ada".into()).unwrap();
        let mut random = Random(seed.wrapping_mul(0x9e37_79b9_7f4a_7c15));
        let mut known = Known::new();
        for step in 0..250 {
            let changes: Vec<Change> = (0..=random.below(3)).map(|_| random.change()).collect();
            let _ = database.change(None, &changes).unwrap();
            hear(&mut known, &watcher.take(soon()));
            for (path, inode) in &known {
                let now = look(&database, path);
                assert_eq!(
                    *inode,
                    now,
                    "seed {seed} step {step}: {} after {changes:?}",
                    String::from_utf8_lossy(path)
                );
                gone += usize::from(now.is_none());
            }
            held += known.len();
            for _ in 0..random.below(4) {
                let path = random.path();
                if watcher.cover(&path).unwrap() {
                    known.insert(path.as_bytes().to_vec(), look(&database, path.as_bytes()));
                } else {
                    uncovered += 1;
                }
            }
            // What was given up for others is told.
            hear(&mut known, &watcher.take(soon()));
            let kept = lock(&watcher.held).paths.len();
            assert!(kept <= PATHS_MAX, "{kept}");
        }
        watchers.close(number);
        // Nobody watches any more, and nothing is gathered.
        let _ = database.change(None, &[random.change()]).unwrap();
        assert!(watcher.take(soon()).is_empty());
        assert!(lock(&watcher.held).paths.is_empty());
        drop(engine);
        database.close().unwrap();
    }
    // It was about something.
    assert!(
        held > 5_000 && gone > 300 && uncovered > 30,
        "{held} {gone} {uncovered}"
    );
}

#[test]
fn watchers_are_bounded() {
    let dir = tempfile::tempdir().unwrap();
    let database = OpenOptions::new()
        .create(true)
        .memory_bytes(32 << 20)
        .open(dir.path().join("w").to_str().unwrap())
        .unwrap();
    let (engine, _) = database.engine().unwrap();
    let watchers = Watchers::default();
    let open = |client: usize| watchers.open(&engine, client.to_string().into());
    // One client has so many, and others have theirs.
    let mut all: Vec<u64> = (0..WATCHERS_EACH).map(|_| open(0).unwrap().0).collect();
    let refused = open(0).map(|(number, _)| number).unwrap_err().to_string();
    assert!(refused.contains("watches of files that 0 has"), "{refused}");
    all.extend((WATCHERS_EACH..WATCHERS_MAX).map(|n| open(1 + n / WATCHERS_EACH).unwrap().0));
    assert!(matches!(open(99), Err(Error::Limit { .. })));
    watchers.close(all[3]);
    assert!(open(0).is_ok());
    assert!(watchers.get(all[3]).is_none() && watchers.get(0).is_none());
}

#[test]
fn ways_lead_to_a_path() {
    let all = |path: &'static str| -> Vec<&[u8]> { ways(path.as_bytes()).collect() };
    assert_eq!(all("/"), [b"/"]);
    assert_eq!(all("/a/bc/d"), [&b"/"[..], b"/a", b"/a/bc", b"/a/bc/d"]);
}
