//! Tests of SIGKILL during renames, removals and all other changes of files: acknowledged changes are kept, the change
//! in progress
//! is applied whole or not at all, and no change is applied twice.
//!
//! A child makes random changes, and prints after each commit their number so far. The reader makes the same changes in a
//! database that is not killed. `ESKER_KILLS` sets the number of kills (6), `ESKER_KILLS_SEED` the first seed.

use crate::child::Child;
use crate::processes::{database, open};
use esker::model::NeverCancel;
use esker::model::namespace::{
    Change, Inode, Name, NamePath, Namespace, NewFile, SetAttributes, Subtree, SubtreeBuilder,
    XattrMode,
};
use esker::{CheckOptions, Database};
use std::collections::BTreeMap;
use std::ops::ControlFlow;
use std::time::Duration;

/// Random numbers from a seed (`SplitMix64`).
struct Rng(u64);

impl Rng {
    fn random_below(&mut self, bound: u64) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut z = self.0;
        z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        (z ^ (z >> 31)) % bound
    }
}

fn some_path(rng: &mut Rng) -> NamePath {
    let mut text = String::new();
    for _ in 0..=rng.random_below(3) {
        text.push('/');
        text.push_str(["a", "b", "c", "d", "e", "f"][rng.random_below(6) as usize]);
    }
    NamePath::parse(text.as_bytes()).unwrap()
}

/// The changes of one commit. Some are refused, in both databases.
fn step(seed: u64, number: u64, kind: &str) -> Vec<Change> {
    let mut rng = Rng(seed ^ number.wrapping_mul(0x2545_f491_4f6c_dd1d));
    if kind == "subtrees" && rng.random_below(2) == 0 {
        return vec![Change::Merge(subtree(number))];
    }
    let many = if rng.random_below(3) == 0 {
        1 + rng.random_below(12)
    } else {
        1
    };
    (0..many).map(|_| one(&mut rng, number, kind)).collect()
}

/// A subtree with enough files for a sorted table of its own.
fn subtree(number: u64) -> Subtree {
    let name = |text: String| Name::new(text.as_bytes()).unwrap();
    let mut builder = SubtreeBuilder::default();
    builder.in_existing_directory(&NamePath::root());
    let directory = NewFile::new(0o4_0755, 0, 0);
    builder.entry(&name(format!("s{number}")), &directory, false);
    for n in 1..=3 {
        builder.in_new_directory(0);
        builder.entry(&name(format!("d{n}")), &directory, false);
        builder.in_new_directory(n);
        for file in 0..2_800 {
            let make = NewFile::new(0o10_0644, 7, 8);
            builder.entry(&name(format!("f{file}")), &make, file == 0);
        }
        let file = NamePath::parse(format!("/s{number}/d{n}/f0").as_bytes()).unwrap();
        builder.change(&Change::Xattr {
            path: file.clone(),
            name: b"user.esker.step".to_vec(),
            value: Some(number.to_string().into_bytes()),
            mode: XattrMode::Any,
        });
        let to = NamePath::parse(format!("/s{number}/d1/link{n}").as_bytes()).unwrap();
        builder.change(&Change::Link { from: file, to });
    }
    builder.finish().unwrap()
}

fn one(rng: &mut Rng, number: u64, kind: &str) -> Change {
    let path = some_path(rng);
    let what = match kind {
        "renames" => [0, 0, 1, 1, 2, 2, 2, 2, 2, 3, 4, 5][rng.random_below(12) as usize],
        _ => [0, 0, 1, 1, 1, 3, 3, 3, 4, 5, 6, 7][rng.random_below(12) as usize],
    };
    match what {
        0 => Change::Create(path, NewFile::new(0o4_0755, 0, 0)),
        1 => Change::Create(path, NewFile::new(0o10_0644, 7, 8)),
        2 => Change::Rename {
            from: path,
            to: some_path(rng),
            no_replace: rng.random_below(4) == 0,
        },
        3 => Change::Unlink(path),
        4 => Change::Link {
            from: path,
            to: some_path(rng),
        },
        // An extended attribute that moves with the file.
        5 => Change::Xattr {
            path,
            name: b"user.esker.step".to_vec(),
            value: Some(number.to_string().into_bytes()),
            mode: XattrMode::Any,
        },
        6 => Change::Rmdir(path),
        _ => Change::Set {
            path,
            follow: false,
            set: SetAttributes {
                size: Some(rng.random_below(1 << 20)),
                mode: Some(rng.random_below(0o1000) as u32),
                ..SetAttributes::default()
            },
        },
    }
}

/// The program of a child: `SEED FIRST KIND`, changes from number FIRST on, until it is killed.
pub(crate) fn run_changes(db: &Database, told: &str, say: &dyn Fn(&str)) -> String {
    let words: Vec<&str> = told.split(' ').collect();
    let (seed, first) = (words[0].parse().unwrap(), words[1].parse().unwrap());
    for number in first.. {
        match db.change(None, &step(seed, number, words[2])) {
            Ok(_) => say(&format!("made {number}")),
            Err(e) => return format!("error {:?}: {e}", e.kind()),
        }
    }
    unreachable!("numbers go on")
}

type FileStates = BTreeMap<NamePath, (u32, u32, u64, u32, Vec<(Vec<u8>, Vec<u8>)>)>;

/// The state of all files.
fn files(db: &Database) -> FileStates {
    let mut all: Vec<(NamePath, Inode)> = Vec::new();
    db.walk(None, &NamePath::root(), &NeverCancel, &mut |path, inode| {
        all.push((path.clone(), inode.clone()));
        ControlFlow::Continue(())
    })
    .unwrap();
    let count = all.len();
    let shown: FileStates = all
        .into_iter()
        .map(|(path, _)| {
            let i = db.stat(None, &path, false).unwrap();
            (path, (i.mode, i.uid, i.size, i.links, i.xattrs))
        })
        .collect();
    assert_eq!(shown.len(), count, "nothing is there twice");
    shown
}

fn sound(db: &Database) {
    let report = db
        .check(&CheckOptions::default(), &NeverCancel, &mut |_| {})
        .unwrap();
    assert!(
        report.complete && report.problems.is_empty(),
        "{:#?}",
        report.problems
    );
}

fn kills(kind: &str) {
    let number = |name: &str, or: u64| std::env::var(name).map_or(or, |n| n.parse().unwrap());
    let seed = number("ESKER_KILLS_SEED", 1);
    let (dir, other) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
    let path = database(dir.path());
    let model = open(&database(other.path()));
    let mut next = 0;
    let mut moments = Rng(seed);
    let mut in_flight = 0;
    for round in 0..number("ESKER_KILLS", 6) {
        let mut child = Child::start();
        assert_eq!(child.open(&path), "owner");
        child.send(&format!("names {seed} {next} {kind}"));
        let mut acked = next;
        let mut take = |line: &str| {
            let made = line
                .strip_prefix("made ")
                .unwrap_or_else(|| panic!("{line}"));
            assert_eq!(made.parse::<u64>().unwrap(), acked, "round {round}");
            acked += 1;
        };
        // A subtree takes as long as a hundred other changes.
        let (answers, micros) = if kind == "subtrees" {
            (3, 100_000)
        } else {
            (120, 3_000)
        };
        for _ in 0..moments.random_below(answers) {
            take(&child.answer().unwrap());
        }
        std::thread::sleep(Duration::from_micros(moments.random_below(micros)));
        child.kill();
        for line in child.rest() {
            take(&line);
        }
        for number in next..acked {
            model.change(None, &step(seed, number, kind)).unwrap();
        }
        let db = open(&path);
        let found = files(&db);
        sound(&db);
        if found == files(&model) {
            next = acked;
        } else {
            // The commit whose response was lost.
            model.change(None, &step(seed, acked, kind)).unwrap();
            assert_eq!(found, files(&model), "round {round}, after {acked} changes");
            next = acked + 1;
            in_flight += 1;
        }
        db.close().unwrap();
    }
    eprintln!("{kind}: {next} commits, {in_flight} of them unanswered and there");
}

#[test]
fn files_are_renamed_when_death_comes() {
    kills("renames");
}

#[test]
fn files_are_removed_when_death_comes() {
    kills("removals");
}

#[test]
fn subtrees_come_in_when_death_comes() {
    kills("subtrees");
}
