//! Random changes, checked against the cached answers of a watching client.

use super::*;
use esker::{Database, OpenOptions};
use esker_model::namespace::{Change, Content, Inode, NewFile, SetAttributes, XattrMode};

/// Random number generator with a seed.
struct Random(u64);

impl Random {
    fn number_below(&mut self, most: u64) -> u64 {
        // Xorshift64*.
        self.0 ^= self.0 >> 12;
        self.0 ^= self.0 << 25;
        self.0 ^= self.0 >> 27;
        (self.0.wrapping_mul(0x2545_f491_4f6c_dd1d) >> 33) % most
    }

    /// A path out of a small set, so that changes collide.
    fn path(&mut self) -> NamePath {
        let depth = 1 + self.number_below(4);
        let names = (0..depth).map(|_| ["a", "b", "c"][self.number_below(3) as usize]);
        let path = names.fold(String::new(), |path, name| path + "/" + name);
        NamePath::parse(path.as_bytes()).unwrap()
    }

    fn change(&mut self) -> Change {
        let path = self.path();
        match self.number_below(20) {
            0..=4 => Change::Create(path, NewFile::new(0o4_0755, 1, 1)),
            5..=7 => Change::Create(path, NewFile::new(0o10_0644, 1, 1)),
            8 => {
                let mut link = NewFile::new(0o12_0777, 1, 1);
                link.content = Content::Symlink(self.path().to_string().into_bytes());
                Change::Create(path, link)
            }
            9..=10 => Change::Unlink(path),
            11..=12 => Change::Rmdir(path),
            13..=15 => Change::Rename {
                from: path,
                to: self.path(),
                no_replace: self.number_below(2) == 0,
            },
            16 => Change::Link {
                from: path,
                to: self.path(),
            },
            17 => Change::Set {
                path,
                follow: false,
                set: SetAttributes {
                    mode: Some(0o600 + self.number_below(8) as u32),
                    ..SetAttributes::default()
                },
            },
            18 => Change::Write {
                path,
                at: Some(0),
                data: vec![b'x'; self.number_below(9) as usize],
            },
            _ => Change::Xattr {
                path,
                name: b"user.esker.k".to_vec(),
                value: Some(self.number_below(5).to_string().into_bytes()),
                mode: XattrMode::Any,
            },
        }
    }
}

/// Cached answers of a client, valid until it is notified.
type CachedAnswers = BTreeMap<Vec<u8>, Option<Inode>>;

fn look(database: &Database, path: &[u8]) -> Option<Inode> {
    let path = NamePath::parse(path).unwrap();
    match database.stat(None, &path, false) {
        Ok(inode) => Some(inode),
        Err(Error::File(_)) => None,
        Err(e) => panic!("{e}"),
    }
}

fn apply_notifications(cached: &mut CachedAnswers, happened: &[Happened]) {
    for one in happened {
        let within = |path: &Vec<u8>| {
            *path == one.path || path.starts_with(&join_path(&one.path, b"")) || one.path == b"/"
        };
        match ChangeKind::try_from(one.kind).unwrap() {
            ChangeKind::Changed => {
                cached.remove(&one.path);
            }
            ChangeKind::Gone => {
                for (_, inode) in cached.iter_mut().filter(|(path, _)| within(path)) {
                    *inode = None;
                }
            }
            ChangeKind::Missed => cached.retain(|path, _| !within(path)),
        }
    }
}

fn soon() -> Duration {
    Duration::from_millis(0)
}

/// After random changes, every answer that was not invalidated by a notification must still be true.
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
        let mut cached = CachedAnswers::new();
        for step in 0..250 {
            let changes: Vec<Change> = (0..=random.number_below(3))
                .map(|_| random.change())
                .collect();
            let _ = database.change(None, &changes).unwrap();
            apply_notifications(&mut cached, &watcher.take(soon()));
            for (path, inode) in &cached {
                let now = look(&database, path);
                assert_eq!(
                    *inode,
                    now,
                    "seed {seed} step {step}: {} after {changes:?}",
                    String::from_utf8_lossy(path)
                );
                gone += usize::from(now.is_none());
            }
            held += cached.len();
            for _ in 0..random.number_below(4) {
                let path = random.path();
                if watcher.cover(&path).unwrap() {
                    cached.insert(path.as_bytes().to_vec(), look(&database, path.as_bytes()));
                } else {
                    uncovered += 1;
                }
            }
            // Paths that were dropped for others are notified.
            apply_notifications(&mut cached, &watcher.take(soon()));
            let kept = lock(&watcher.state).paths.len();
            assert!(kept <= PATHS_MAX, "{kept}");
        }
        watchers.close(number);
        // Without a watcher no notifications are queued.
        let _ = database.change(None, &[random.change()]).unwrap();
        assert!(watcher.take(soon()).is_empty());
        assert!(lock(&watcher.state).paths.is_empty());
        drop(engine);
        database.close().unwrap();
    }
    // The test exercised enough cases.
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
    // The number of watchers per client is limited; other clients have their own.
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
fn ancestors_lead_to_a_path() {
    let all = |path: &'static str| -> Vec<&[u8]> { ancestors(path.as_bytes()).collect() };
    assert_eq!(all("/"), [b"/"]);
    assert_eq!(all("/a/bc/d"), [&b"/"[..], b"/a", b"/a/bc", b"/a/bc/d"]);
}
