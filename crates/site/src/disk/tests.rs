//! The disk cache compared with a map, through changes, restarts and damage.

use super::{Disk, StoredAnswer};
use esker_origin::{DirEntry, PathMetadata};
use esker_site_cache::entry::{Attributes, ChangeKind, Kind, Wants};
use proptest::prelude::*;
use std::collections::HashMap;

const ORIGIN: &str = "sftp://host";

fn found(size: u64) -> PathMetadata {
    let attributes = Attributes {
        size: Some(size),
        ..Attributes::of(Kind::File)
    };
    match size % 3 {
        0 => PathMetadata::Absent,
        1 => PathMetadata::Present(attributes),
        _ => PathMetadata::Listing {
            children: (0..size % 50)
                .map(|i| DirEntry {
                    name: format!("child-{i}").into_bytes().into(),
                    attributes: attributes.clone(),
                })
                .collect(),
            attributes,
            complete: size.is_multiple_of(2),
        },
    }
}

#[derive(Debug, Clone)]
enum Step {
    Put(u8, bool, u64),
    Get(u8, bool),
    Changed(u8),
    Deleted(u8),
    Again,
}

fn step() -> impl Strategy<Value = Step> {
    prop_oneof![
        4 => (any::<u8>(), any::<bool>(), 0_u64..2000).prop_map(|(p, l, s)| Step::Put(p, l, s)),
        4 => (any::<u8>(), any::<bool>()).prop_map(|(p, l)| Step::Get(p, l)),
        1 => any::<u8>().prop_map(Step::Changed),
        1 => any::<u8>().prop_map(Step::Deleted),
        1 => Just(Step::Again),
    ]
}

fn path(n: u8) -> Vec<u8> {
    match n % 3 {
        0 => format!("/d{}", n % 4),
        1 => format!("/d{}/e{}", n % 4, n % 5),
        _ => format!("/d{}/e{}/f{n}", n % 4, n % 5),
    }
    .into_bytes()
}

fn wants(list: bool) -> Wants {
    if list { Wants::List } else { Wants::Stat }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 64, ..ProptestConfig::default() })]

    #[test]
    fn it_says_what_was_put_last_or_nothing(steps in prop::collection::vec(step(), 1..200)) {
        let folder = tempfile::tempdir().unwrap();
        let most = 200 << 10;
        let mut now = 1000;
        let mut disk = Disk::open(folder.path(), most, now).unwrap();
        let mut began = now;
        let mut model: HashMap<(Vec<u8>, bool), (StoredAnswer, u64)> = HashMap::new();
        for step in steps {
            now += 1;
            match step {
                Step::Put(p, list, size) => {
                    let old = StoredAnswer { found: found(size), at: now, subscribed: size % 2 == 0 };
                    disk.put(ORIGIN, &path(p), wants(list), &old).unwrap();
                    model.insert((path(p), list), (old, began));
                }
                Step::Get(p, list) => {
                    let got = disk.get(ORIGIN, &path(p), wants(list), 0);
                    if let Some(got) = got {
                        let (known, run) = model.get(&(path(p), list)).expect("it was put, and not touched");
                        prop_assert_eq!(&got.found, &known.found);
                        prop_assert_eq!(got.subscribed, known.subscribed && *run == began);
                    }
                }
                Step::Changed(p) => {
                    let changed = ChangeKind::Changed(Attributes::default());
                    disk.record_change(ORIGIN, &path(p), &changed, now).unwrap();
                    touched(&mut model, &path(p), false);
                }
                Step::Deleted(p) => {
                    disk.record_change(ORIGIN, &path(p), &ChangeKind::Deleted, now).unwrap();
                    touched(&mut model, &path(p), true);
                }
                Step::Again => {
                    drop(disk);
                    disk = Disk::open(folder.path(), most, now).unwrap();
                    began = now;
                }
            }
            let files: u64 = std::fs::read_dir(folder.path()).unwrap()
                .map(|f| f.unwrap().metadata().unwrap().len()).sum();
            prop_assert!(files <= most && files == disk.used().0);
        }
    }
}

/// Removes from the model the entries that a change invalidates; the disk may forget more.
fn touched(model: &mut HashMap<(Vec<u8>, bool), (StoredAnswer, u64)>, path: &[u8], tree: bool) {
    let upstream = path
        .iter()
        .rposition(|b| *b == b'/')
        .map(|i| path[..i.max(1)].to_vec());
    model.retain(|(known, list), _| {
        let own = known == path;
        let listing = *list && upstream.as_ref() == Some(known);
        let below = tree && known.starts_with(path) && known.get(path.len()) == Some(&b'/');
        !(own || listing || below)
    });
}

#[test]
fn damage_is_as_if_nothing_were_there() {
    let folder = tempfile::tempdir().unwrap();
    let old = |n| StoredAnswer {
        found: found(3 * n + 1),
        at: n,
        subscribed: false,
    };
    let disk = Disk::open(folder.path(), 1 << 20, 1).unwrap();
    for n in 0..100 {
        disk.put(ORIGIN, format!("/f{n}").as_bytes(), Wants::Stat, &old(n))
            .unwrap();
    }
    drop(disk);
    let file = std::fs::read_dir(folder.path())
        .unwrap()
        .map(|f| f.unwrap().path())
        .find(|f| f.extension().is_some_and(|e| e == "site"))
        .unwrap();
    let whole = std::fs::read(&file).unwrap();
    for at in (0..whole.len()).step_by(37) {
        let mut damaged = whole.clone();
        damaged[at] ^= 0x55;
        damaged.truncate(whole.len() - at % 11);
        std::fs::write(&file, &damaged).unwrap();
        let disk = Disk::open(folder.path(), 1 << 20, 1).unwrap();
        for n in 0..100 {
            let path = format!("/f{n}");
            if let Some(got) = disk.get(ORIGIN, path.as_bytes(), Wants::Stat, 0) {
                assert_eq!(got, old(n));
            }
        }
        // Operation continues from there.
        disk.put(ORIGIN, b"/new", Wants::Stat, &old(7)).unwrap();
        assert_eq!(disk.get(ORIGIN, b"/new", Wants::Stat, 0), Some(old(7)));
    }
}

#[test]
fn a_folder_is_one_tiers_alone() {
    let folder = tempfile::tempdir().unwrap();
    let _first = Disk::open(folder.path(), 1 << 20, 1).unwrap();
    let Err(error) = Disk::open(folder.path(), 1 << 20, 1) else {
        panic!("two tiers have it");
    };
    assert!(error.to_string().contains("another tier"), "{error}");
}
