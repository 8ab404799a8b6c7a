//! Checks of rows: get, scan, cursors, batches, limits, reopening.

use super::{CheckFault, Outcome, Rows, Workspace, equal, refused, scan, text, walk};
use crate::{Durability, KeyRange, MAX_KEY_BYTES, MAX_VALUE_BYTES, Store, Table, WriteBatch};
use esker_model::{Flow, Result};

pub(super) fn put(store: &dyn Store, table: Table, rows: &[(&str, &str)]) -> Result<()> {
    let mut batch = WriteBatch::default();
    for (key, value) in rows {
        batch.put(table, *key, *value);
    }
    store.commit(batch, Durability::Relaxed)
}

pub(super) fn get(workspace: &mut Workspace<'_, '_>) -> Outcome {
    let store = workspace.open()?;
    equal("absent key", &store.get(Table::Rows, b"a")?, &None)?;
    put(&*store, Table::Rows, &[("a", "1"), ("b", "2")])?;
    equal("a", &store.get(Table::Rows, b"a")?, &Some(b"1".to_vec()))?;
    equal("a prefix of a key", &store.get(Table::Rows, b"")?, &None)?;
    equal("a longer key", &store.get(Table::Rows, b"aa")?, &None)?;
    put(&*store, Table::Rows, &[("a", "3")])?;
    equal(
        "replaced",
        &store.get(Table::Rows, b"a")?,
        &Some(b"3".to_vec()),
    )?;
    let mut batch = WriteBatch::default();
    batch.remove(Table::Rows, *b"a");
    batch.remove(Table::Rows, *b"never there");
    store.commit(batch, Durability::Relaxed)?;
    equal("removed", &store.get(Table::Rows, b"a")?, &None)?;
    let mut calls = 0;
    let found = store.get_with(Table::Rows, b"a", &mut |_| calls += 1)?;
    equal("get_with of a removed key", &(found, calls), &(false, 0))?;
    let found = store.get_with(Table::Rows, b"b", &mut |v| calls += v.len())?;
    equal("get_with", &(found, calls), &(true, 1))?;
    store.commit(WriteBatch::default(), Durability::Relaxed)?;
    store.commit(WriteBatch::default(), Durability::Sync)?;
    equal(
        "after empty commits",
        &scan(&*store, Table::Rows, &KeyRange::ALL)?,
        &text(&[("b", "2")]),
    )
}

pub(super) fn tables(workspace: &mut Workspace<'_, '_>) -> Outcome {
    let store = workspace.open()?;
    let mut batch = WriteBatch::default();
    for table in Table::ALL {
        batch.put(table, *b"k", table.name());
    }
    store.commit(batch, Durability::Relaxed)?;
    for table in Table::ALL {
        let expected = text(&[("k", table.name())]);
        equal(
            table.name(),
            &scan(&*store, table, &KeyRange::ALL)?,
            &expected,
        )?;
    }
    Ok(())
}

pub(super) fn last_wins(workspace: &mut Workspace<'_, '_>) -> Outcome {
    let store = workspace.open()?;
    put(&*store, Table::Rows, &[("b", "old"), ("c", "old")])?;
    let mut batch = WriteBatch::default();
    batch.put(Table::Rows, *b"a", *b"1");
    batch.put(Table::Rows, *b"a", *b"2");
    batch.put(Table::Rows, *b"b", *b"3");
    batch.remove(Table::Rows, *b"b");
    batch.remove(Table::Rows, *b"c");
    batch.put(Table::Rows, *b"c", *b"4");
    batch.put(Table::Rows, *b"d", *b"5");
    batch.remove(Table::Rows, *b"d");
    batch.put(Table::Rows, *b"d", *b"6");
    store.commit(batch, Durability::Relaxed)?;
    let expected = text(&[("a", "2"), ("c", "4"), ("d", "6")]);
    equal(
        "at once",
        &scan(&*store, Table::Rows, &KeyRange::ALL)?,
        &expected,
    )?;
    equal("get b", &store.get(Table::Rows, b"b")?, &None)?;
    drop(store);
    let store = workspace.open()?;
    equal(
        "reopened",
        &scan(&*store, Table::Rows, &KeyRange::ALL)?,
        &expected,
    )?;
    store.compact()?;
    equal(
        "compacted",
        &scan(&*store, Table::Rows, &KeyRange::ALL)?,
        &expected,
    )
}

pub(super) fn order(workspace: &mut Workspace<'_, '_>) -> Outcome {
    let store = workspace.open()?;
    let keys: [&[u8]; 8] = [
        b"\x00",
        b"\x00\x00",
        b"a",
        b"a\x00",
        b"ab",
        b"b",
        b"\x7f\xff",
        b"\xff\xff",
    ];
    let mut batch = WriteBatch::default();
    for key in keys.iter().rev() {
        batch.put(Table::History, *key, *key);
    }
    store.commit(batch, Durability::Relaxed)?;
    let snapshot = store.snapshot()?;
    let bounds: Vec<&[u8]> = [
        &b""[..],
        b"\x00\x00",
        b"a",
        b"aa",
        b"ab",
        b"c",
        b"\xff",
        b"\xff\xff\xff",
    ]
    .into_iter()
    .chain(keys)
    .collect();
    let mut sorted = keys.to_vec();
    sorted.sort_unstable();
    for from in &bounds {
        for until in bounds.iter().copied().map(Some).chain([None]) {
            let expected: Rows = sorted
                .iter()
                .filter(|key| **key >= *from && until.is_none_or(|until| **key < until))
                .map(|key| (key.to_vec(), key.to_vec()))
                .collect();
            let range = KeyRange {
                from: from.to_vec(),
                until: until.map(<[u8]>::to_vec),
            };
            let what = format!("{range:?}");
            equal(
                &format!("scan of {what}"),
                &scan(&*store, Table::History, &range)?,
                &expected,
            )?;
            equal(
                &format!("cursor of {what}"),
                &walk(&*store, Table::History, &range)?,
                &expected,
            )?;
            equal(
                &format!("scan of {what} in a snapshot"),
                &scan(&*snapshot, Table::History, &range)?,
                &expected,
            )?;
            equal(
                &format!("cursor of {what} in a snapshot"),
                &walk(&*snapshot, Table::History, &range)?,
                &expected,
            )?;
        }
    }
    Ok(())
}

pub(super) fn prefixes(workspace: &mut Workspace<'_, '_>) -> Outcome {
    let store = workspace.open()?;
    let mut keys: Vec<Vec<u8>> = Vec::new();
    for first in [0x00, 0x41, 0xfe, 0xff] {
        keys.push(vec![first]);
        for second in [0x00, 0x7f, 0xff] {
            keys.push(vec![first, second]);
            keys.push(vec![first, second, 0xff]);
        }
    }
    let mut batch = WriteBatch::default();
    for key in &keys {
        batch.put(Table::Index, key.as_slice(), *b"");
    }
    store.commit(batch, Durability::Relaxed)?;
    keys.sort();
    let mut prefixes = keys.clone();
    prefixes.extend([vec![], vec![0xff; 4], vec![0x42]]);
    for prefix in &prefixes {
        let expected: Rows = keys
            .iter()
            .filter(|key| key.starts_with(prefix))
            .map(|key| (key.clone(), Vec::new()))
            .collect();
        let got = scan(&*store, Table::Index, &KeyRange::prefix(prefix))?;
        equal(&format!("prefix {prefix:02x?}"), &got, &expected)?;
        for after in &keys {
            let expected: Rows = expected
                .iter()
                .filter(|(key, _)| key > after)
                .cloned()
                .collect();
            let got = walk(
                &*store,
                Table::Index,
                &KeyRange::prefix_after(prefix, after),
            )?;
            equal(
                &format!("prefix {prefix:02x?} after {after:02x?}"),
                &got,
                &expected,
            )?;
        }
    }
    Ok(())
}

pub(super) fn stop(workspace: &mut Workspace<'_, '_>) -> Outcome {
    let store = workspace.open()?;
    put(&*store, Table::Rows, &[("a", "1"), ("b", "2"), ("c", "3")])?;
    let mut seen = Vec::new();
    store.scan(Table::Rows, &KeyRange::ALL, &mut |key, _| {
        seen.extend_from_slice(key);
        if key == b"b" {
            Flow::Break(())
        } else {
            Flow::Continue(())
        }
    })?;
    equal("keys seen", &seen, &b"ab".to_vec())
}

pub(super) fn reentry(workspace: &mut Workspace<'_, '_>) -> Outcome {
    let store = workspace.open()?;
    put(&*store, Table::Rows, &[("a", "1"), ("b", "2"), ("c", "3")])?;
    let mut outcome = Ok(());
    let mut seen = Rows::new();
    store.scan(Table::Rows, &KeyRange::ALL, &mut |key, value| {
        seen.push((key.to_vec(), value.to_vec()));
        let mut batch = WriteBatch::default();
        batch.put(Table::Rows, [key, b"+"].concat(), value);
        batch.remove(Table::Rows, key);
        outcome = store
            .commit(batch, Durability::Relaxed)
            .and_then(|()| store.get(Table::Rows, key).map(|_| ()));
        if outcome.is_ok() {
            Flow::Continue(())
        } else {
            Flow::Break(())
        }
    })?;
    outcome?;
    equal(
        "rows of the scan's moment",
        &seen,
        &text(&[("a", "1"), ("b", "2"), ("c", "3")]),
    )?;
    let expected = text(&[("a+", "1"), ("b+", "2"), ("c+", "3")]);
    equal(
        "rows afterwards",
        &scan(&*store, Table::Rows, &KeyRange::ALL)?,
        &expected,
    )
}

pub(super) fn empty_values(workspace: &mut Workspace<'_, '_>) -> Outcome {
    let store = workspace.open()?;
    put(&*store, Table::Index, &[("a", ""), ("b", "")])?;
    put(&*store, Table::Rows, &[("a", ""), ("b", "x")])?;
    put(&*store, Table::Rows, &[("b", "")])?;
    let look = |store: &dyn Store| -> Outcome {
        for table in [Table::Rows, Table::Index] {
            equal("get", &store.get(table, b"a")?, &Some(Vec::new()))?;
            equal(
                "scan",
                &scan(store, table, &KeyRange::ALL)?,
                &text(&[("a", ""), ("b", "")]),
            )?;
        }
        Ok(())
    };
    look(&*store)?;
    drop(store);
    let store = workspace.open()?;
    look(&*store)?;
    store.compact()?;
    look(&*store)
}

pub(super) fn large_values(workspace: &mut Workspace<'_, '_>) -> Outcome {
    let store = workspace.open()?;
    let value = |seed: u64, length: usize| super::Dice::new(seed).bytes(length);
    let sizes = [
        1 << 10,
        (1 << 10) - 1,
        4 << 10,
        64 << 10,
        1 << 20,
        (1 << 20) + 1,
    ];
    for table in [Table::Rows, Table::History, Table::Meta] {
        for (n, size) in sizes.into_iter().enumerate() {
            let mut batch = WriteBatch::default();
            batch.put(table, [b'k', n.to_be_bytes()[7]], value(n as u64, size));
            store.commit(batch, Durability::Relaxed)?;
        }
    }
    let look = |store: &dyn Store| -> Outcome {
        for table in [Table::Rows, Table::History, Table::Meta] {
            for (n, size) in sizes.into_iter().enumerate() {
                let got = store.get(table, &[b'k', n.to_be_bytes()[7]])?;
                if got.as_deref() != Some(value(n as u64, size).as_slice()) {
                    let length = got.map(|v| v.len());
                    return Err(CheckFault(format!(
                        "{size} bytes came back as {length:?} or changed"
                    )));
                }
            }
            let rows = scan(store, table, &KeyRange::ALL)?;
            let lengths: Vec<usize> = rows.iter().map(|(_, v)| v.len()).collect();
            equal("lengths in a scan", &lengths, &sizes.to_vec())?;
            if rows
                .iter()
                .enumerate()
                .any(|(n, (_, v))| *v != value(n as u64, v.len()))
            {
                return Err(CheckFault("a scan changed a large value".to_owned()));
            }
        }
        Ok(())
    };
    look(&*store)?;
    store.compact()?;
    look(&*store)?;
    drop(store);
    let store = workspace.open()?;
    look(&*store)?;
    let mut batch = WriteBatch::default();
    batch.put(Table::Rows, *b"k\x00", *b"small now");
    batch.remove(Table::Rows, *b"k\x04");
    store.commit(batch, Durability::Relaxed)?;
    store.compact()?;
    equal(
        "replaced",
        &store.get(Table::Rows, b"k\x00")?,
        &Some(b"small now".to_vec()),
    )?;
    equal("removed", &store.get(Table::Rows, b"k\x04")?, &None)
}

pub(super) fn limits(workspace: &mut Workspace<'_, '_>) -> Outcome {
    let store = workspace.open()?;
    let longest = vec![7; MAX_KEY_BYTES];
    let mut batch = WriteBatch::default();
    batch.put(Table::Rows, longest.clone(), *b"v");
    store.commit(batch, Durability::Relaxed)?;
    equal(
        "the longest key",
        &store.get(Table::Rows, &longest)?,
        &Some(b"v".to_vec()),
    )?;
    let bad_keys = [Vec::new(), vec![7; MAX_KEY_BYTES + 1]];
    for key in bad_keys {
        let mut batch = WriteBatch::default();
        batch.put(Table::Rows, *b"good", *b"v");
        batch.put(Table::Rows, key.clone(), *b"v");
        refused("a bad key", store.commit(batch, Durability::Relaxed))?;
        let mut batch = WriteBatch::default();
        batch.remove(Table::Rows, key.clone());
        refused(
            "removing a bad key",
            store.commit(batch, Durability::Relaxed),
        )?;
        let mut load = store.bulk_load(Table::Rows)?;
        refused("loading a bad key", load.push(&key, b"v"))?;
    }
    let mut batch = WriteBatch::default();
    batch.put(Table::Rows, *b"good", *b"v");
    batch.put(Table::Rows, *b"huge", vec![0; MAX_VALUE_BYTES + 1]);
    refused("a huge value", store.commit(batch, Durability::Relaxed))?;
    equal(
        "nothing half-applied",
        &store.get(Table::Rows, b"good")?,
        &None,
    )
}

pub(super) fn reopen(workspace: &mut Workspace<'_, '_>) -> Outcome {
    let store = workspace.open()?;
    let mut batch = WriteBatch::default();
    batch.put(Table::Rows, *b"relaxed", *b"1");
    batch.put(Table::Counts, *b"relaxed", *b"2");
    store.commit(batch, Durability::Relaxed)?;
    let mut batch = WriteBatch::default();
    batch.put(Table::Rows, *b"sync", *b"3");
    batch.put(Table::Meta, *b"sync", *b"4");
    store.commit(batch, Durability::Sync)?;
    store.persist()?;
    drop(store);
    for round in 0u8..3 {
        let store = workspace.open()?;
        let rows = text(&[("relaxed", "1"), ("sync", "3")]);
        equal("rows", &scan(&*store, Table::Rows, &KeyRange::ALL)?, &rows)?;
        equal(
            "counts",
            &store.get(Table::Counts, b"relaxed")?,
            &Some(b"2".to_vec()),
        )?;
        equal(
            "meta",
            &store.get(Table::Meta, b"sync")?,
            &Some(b"4".to_vec()),
        )?;
        for past in 0..round {
            equal(
                "earlier rounds",
                &store.get(Table::Index, &[past])?,
                &Some(vec![past]),
            )?;
        }
        let mut batch = WriteBatch::default();
        batch.put(Table::Index, [round], [round]);
        store.commit(batch, Durability::Relaxed)?;
    }
    Ok(())
}
