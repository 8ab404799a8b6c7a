//! Tests of the archive: appended rows are found again, once, in whichever file they are.

use super::*;
use esker_model::key::{EdgeKey, attribute_history, static_history};
use esker_model::{EdgeTypeId, Version, VertexId};
use std::collections::BTreeMap;
use std::ops::ControlFlow;

fn id(n: u64) -> VertexId {
    let mut id = [0; 16];
    id[..8].copy_from_slice(&n.to_be_bytes());
    VertexId(id)
}

fn rows(seed: u64, vertices: u64) -> BTreeMap<Vec<u8>, Vec<u8>> {
    let mut rows = BTreeMap::new();
    for n in 0..vertices {
        let version = Version::new(1_000 + (n * 7 + seed) % 13, seed as u16);
        rows.insert(static_history(id(n), version), vec![0, 1, n as u8]);
        rows.insert(attribute_history(id(n), "über", version), vec![1]);
        let edge = EdgeKey {
            source: id(n),
            edge_type: EdgeTypeId((n % 3) as u16),
            destination: id(n * 31 % 97),
        };
        rows.insert(edge.history(version), n.to_be_bytes().to_vec());
    }
    rows
}

fn append(archive: &FolderArchive, rows: &BTreeMap<Vec<u8>, Vec<u8>>) -> u64 {
    archive
        .append(&mut rows.clone().into_iter().map(Ok))
        .unwrap()
}

fn all(archive: &FolderArchive, range: &KeyRange) -> Vec<(Vec<u8>, Vec<u8>)> {
    let mut out = Vec::new();
    archive
        .scan(range, &mut |k, v| {
            out.push((k.to_vec(), v.to_vec()));
            ControlFlow::Continue(())
        })
        .unwrap();
    out
}

/// The archive returns the appended rows for any range, each key once and in order, compared with a `BTreeMap`.
#[test]
fn the_archive_is_a_sorted_map() {
    let dir = tempfile::tempdir().unwrap();
    let folder = dir.path().join("archive");
    let archive = FolderArchive::open(&folder).unwrap();
    assert!(all(&archive, &KeyRange::ALL).is_empty());
    let mut model = BTreeMap::new();
    for seed in 0..3 {
        let rows = rows(seed, 9_000);
        assert_eq!(append(&archive, &rows), rows.len() as u64);
        model.extend(rows);
    }
    // A crash between archiving and removal: the same rows are appended again.
    append(&archive, &rows(1, 500));
    let reopened = FolderArchive::open(&folder).unwrap();
    let whole: Vec<_> = model.clone().into_iter().collect();
    assert_eq!(all(&archive, &KeyRange::ALL), whole);
    assert_eq!(all(&reopened, &KeyRange::ALL), whole);
    for n in [0, 1, 2_730, 2_731, 8_999, 9_000] {
        let range = KeyRange::prefix(&id(n).0);
        let expected: Vec<_> = whole
            .iter()
            .filter(|(k, _)| k.starts_with(&id(n).0))
            .cloned()
            .collect();
        assert_eq!(all(&archive, &range), expected, "vertex {n}");
        let half = KeyRange::between(&static_history(id(n), Version::MAX), &id(n + 2).0);
        let expected: Vec<_> = model
            .range(half.from.clone()..half.until.clone().unwrap())
            .map(|(k, v)| (k.clone(), v.clone()))
            .collect();
        assert_eq!(all(&archive, &half), expected, "vertex {n} and the next");
    }
}

/// Number of row groups of the first file that a range can need.
fn groups(archive: &FolderArchive, range: &KeyRange, versions: VersionRange) -> usize {
    let (_, file) = &archive.now().0[0];
    let first = file.first_group(&range.from);
    (first..file.groups())
        .filter(|group| file.may_hold(*group, range, versions))
        .count()
}

/// The history of one vertex reads only the row groups that can contain it.
#[test]
fn row_groups_are_skipped_by_their_figures() {
    let dir = tempfile::tempdir().unwrap();
    let archive = FolderArchive::open(dir.path()).unwrap();
    append(&archive, &rows(0, 9_000));
    assert_eq!(groups(&archive, &KeyRange::ALL, VersionRange::ALL), 4);
    let one = KeyRange::prefix(&id(10).0);
    assert_eq!(groups(&archive, &one, VersionRange::ALL), 1);
    let none = KeyRange::prefix(&id(10_000).0);
    assert_eq!(groups(&archive, &none, VersionRange::ALL), 0);
}

/// Row groups whose versions are all outside the requested range are not read.
#[test]
fn row_groups_of_other_versions_are_skipped() {
    let dir = tempfile::tempdir().unwrap();
    let archive = FolderArchive::open(dir.path()).unwrap();
    append(&archive, &rows(0, 9_000)); // milliseconds 1000 to 1012
    let within = |from: u64, until: u64| VersionRange {
        from: Version::new(from, 0),
        until: Version::new(until, 0),
    };
    for (versions, expected) in [
        (within(0, 1_000), 0),
        (within(0, 1_001), 4),
        (within(1_012, 1_013), 4),
        (within(1_013, u64::MAX), 0),
        (VersionRange::ALL, 4),
    ] {
        assert_eq!(
            groups(&archive, &KeyRange::ALL, versions),
            expected,
            "{versions:?}"
        );
    }
}

/// One cursor with ranges in any order, nested and overlapping, returns what a sorted map has in that range for the
/// requested
/// versions.
#[test]
fn a_cursor_goes_wherever_it_is_told() {
    let dir = tempfile::tempdir().unwrap();
    let archive = FolderArchive::open(dir.path()).unwrap();
    let mut model = BTreeMap::new();
    for seed in 0..3 {
        let rows = rows(seed, 3_000);
        append(&archive, &rows);
        model.extend(rows);
    }
    let versions = VersionRange {
        from: Version::new(1_003, 0),
        until: Version::new(1_009, 0),
    };
    let view = archive.view().unwrap();
    let mut cursor = view.cursor(versions).unwrap();
    assert!(!cursor.advance().unwrap(), "over nothing at first");
    let mut n: u64 = 1;
    for _ in 0..60 {
        // Lehmer's generator; the values only have to be scattered.
        n = n * 48_271 % 2_147_483_647;
        let (from, len) = (n % 3_001, [0, 1, 2, 900][(n % 4) as usize]);
        let range = KeyRange::between(&id(from).0, &id(from + len).0);
        cursor.seek(&range);
        let mut found = Vec::new();
        while cursor.advance().unwrap() {
            let version = Version(!u64::from_be_bytes(*cursor.key().last_chunk().unwrap()));
            if versions.contains(version) {
                found.push((cursor.key().to_vec(), cursor.value().to_vec()));
            }
        }
        assert!(!cursor.advance().unwrap(), "an end stays one");
        let expected: Vec<_> = model
            .range(range.from.clone()..range.until.clone().unwrap())
            .filter(|(k, _)| {
                versions.contains(Version(!u64::from_be_bytes(*k.last_chunk().unwrap())))
            })
            .map(|(k, v)| (k.clone(), v.clone()))
            .collect();
        assert_eq!(found, expected, "vertices {from} and the {len} behind it");
    }
}

/// A view keeps its contents while files are added, merged and removed.
#[test]
fn a_view_does_not_change() {
    let dir = tempfile::tempdir().unwrap();
    let archive = FolderArchive::open(dir.path()).unwrap();
    let before = rows(0, 50);
    append(&archive, &before);
    let view = archive.view().unwrap();
    for seed in 1..=ARCHIVE_FILES_MAX as u64 {
        append(&archive, &rows(seed, 50));
    }
    archive.merge_if_many().unwrap();
    let mut cursor = view.cursor(VersionRange::ALL).unwrap();
    cursor.seek(&KeyRange::ALL);
    let mut found = BTreeMap::new();
    while cursor.advance().unwrap() {
        found.insert(cursor.key().to_vec(), cursor.value().to_vec());
    }
    assert_eq!(found, before);
}

/// The row groups that can contain one edge of a hub are found by edge type and destination.
#[test]
fn one_edge_of_a_hub_reads_few_row_groups() {
    let dir = tempfile::tempdir().unwrap();
    let archive = FolderArchive::open(dir.path()).unwrap();
    let edge = |n: u64| EdgeKey {
        source: id(7),
        edge_type: EdgeTypeId(300 + u16::from(n >= 40_000)),
        destination: id(n),
    };
    let mut rows = BTreeMap::new();
    for n in 0..80_000 {
        rows.insert(edge(n).history(Version::new(5, 0)), vec![0]);
    }
    rows.insert(static_history(id(7), Version::new(5, 0)), vec![1]);
    append(&archive, &rows);
    assert_eq!(groups(&archive, &KeyRange::ALL, VersionRange::ALL), 10);
    for n in [0, 9_000, 39_999, 40_000, 79_999] {
        let range = KeyRange::prefix(&edge(n).encode());
        assert!(groups(&archive, &range, VersionRange::ALL) <= 3, "edge {n}");
        assert_eq!(all(&archive, &range).len(), 1, "edge {n}");
    }
    assert_eq!(all(&archive, &KeyRange::prefix(&id(7).0)).len(), 80_001);
    assert_eq!(
        all(
            &archive,
            &KeyRange::prefix(&static_history(id(7), Version::new(5, 0)))
        )
        .len(),
        1
    );
}

#[test]
fn many_files_become_one_with_the_same_rows() {
    let dir = tempfile::tempdir().unwrap();
    let archive = FolderArchive::open(dir.path()).unwrap();
    let mut model = BTreeMap::new();
    for seed in 0..=ARCHIVE_FILES_MAX as u64 {
        let rows = rows(seed, 50);
        append(&archive, &rows);
        model.extend(rows);
    }
    archive.merge_if_many().unwrap();
    assert_eq!(std::fs::read_dir(dir.path()).unwrap().count(), 1);
    let whole: Vec<_> = model.into_iter().collect();
    assert_eq!(all(&archive, &KeyRange::ALL), whole);
    append(&archive, &rows(99, 1));
    assert_eq!(
        all(&FolderArchive::open(dir.path()).unwrap(), &KeyRange::ALL).len(),
        whole.len() + 3
    );
}

/// A failed append leaves no file, and earlier rows stay readable.
#[test]
fn a_failed_append_leaves_nothing_behind() {
    let dir = tempfile::tempdir().unwrap();
    let archive = FolderArchive::open(dir.path()).unwrap();
    append(&archive, &rows(0, 10));
    let mut failing = rows(1, 10)
        .into_iter()
        .map(Ok)
        .chain([Err(Error::Interrupted)]);
    assert!(matches!(
        archive.append(&mut failing),
        Err(Error::Interrupted)
    ));
    assert_eq!(std::fs::read_dir(dir.path()).unwrap().count(), 1);
    let backwards: Vec<_> = rows(1, 10).into_iter().rev().map(Ok).collect();
    assert!(archive.append(&mut backwards.into_iter()).is_err());
    assert_eq!(all(&archive, &KeyRange::ALL).len(), 30);
}

#[test]
fn a_damaged_file_is_named() {
    let dir = tempfile::tempdir().unwrap();
    append(&FolderArchive::open(dir.path()).unwrap(), &rows(0, 10));
    let path = dir.path().join("0000000000000001.parquet");
    let bytes = std::fs::read(&path).unwrap();
    std::fs::write(&path, &bytes[..bytes.len() / 2]).unwrap();
    let message = FolderArchive::open(dir.path()).unwrap_err().to_string();
    assert!(
        message.starts_with("opening the archive `")
            && message.contains("0000000000000001.parquet"),
        "{message}"
    );
}
