//! Checks of snapshots, cursors, atomic batches, compaction and checkpoints.

use super::rows::put;
use super::{CheckFault, Outcome, Workspace, drain, equal, refused, scan, text, walk};
use crate::{Durability, KeyRange, Store, Table, WriteBatch};
use esker_model::Result;
use std::sync::atomic::{AtomicBool, Ordering};

pub(super) fn snapshot(workspace: &mut Workspace<'_, '_>) -> Outcome {
    let store = workspace.open()?;
    let empty = store.snapshot()?;
    put(&*store, Table::Rows, &[("a", "1"), ("b", "1")])?;
    let first = store.snapshot()?;
    let mut batch = WriteBatch::default();
    batch.put(Table::Rows, *b"a", *b"2");
    batch.remove(Table::Rows, *b"b");
    batch.put(Table::Rows, *b"c", *b"2");
    store.commit(batch, Durability::Relaxed)?;
    let second = store.snapshot()?;
    put(&*store, Table::Rows, &[("b", "3")])?;
    for _ in 0..2 {
        let all = &KeyRange::ALL;
        equal(
            "before anything",
            &scan(&*empty, Table::Rows, all)?,
            &text(&[]),
        )?;
        equal(
            "first",
            &scan(&*first, Table::Rows, all)?,
            &text(&[("a", "1"), ("b", "1")]),
        )?;
        equal(
            "second",
            &walk(&*second, Table::Rows, all)?,
            &text(&[("a", "2"), ("c", "2")]),
        )?;
        equal("get in empty", &empty.get(Table::Rows, b"a")?, &None)?;
        equal(
            "get a in first",
            &first.get(Table::Rows, b"a")?,
            &Some(b"1".to_vec()),
        )?;
        equal("get c in first", &first.get(Table::Rows, b"c")?, &None)?;
        equal("get b in second", &second.get(Table::Rows, b"b")?, &None)?;
        let now = text(&[("a", "2"), ("b", "3"), ("c", "2")]);
        equal("now", &scan(&*store, Table::Rows, all)?, &now)?;
        // The second round reads again after more writes.
        put(&*store, Table::Rows, &[("a", "2"), ("b", "3")])?;
    }
    Ok(())
}

pub(super) fn snapshot_compaction(workspace: &mut Workspace<'_, '_>) -> Outcome {
    let store = workspace.open()?;
    let key = |n: u32| n.to_be_bytes();
    let mut batch = WriteBatch::default();
    for n in 0..1000 {
        batch.put(Table::History, key(n), *b"old");
    }
    store.commit(batch, Durability::Relaxed)?;
    store.compact()?;
    let snapshot = store.snapshot()?;
    let before = scan(&*snapshot, Table::History, &KeyRange::ALL)?;
    equal("rows before", &before.len(), &1000)?;
    for round in 0..3u8 {
        let mut batch = WriteBatch::default();
        for n in 0..1000 {
            if n % 3 == u32::from(round) {
                batch.remove(Table::History, key(n));
            } else {
                batch.put(Table::History, key(n), [round]);
            }
        }
        store.commit(batch, Durability::Relaxed)?;
        store.compact()?;
        let what = format!("the snapshot after compaction {round}");
        equal(
            &what,
            &scan(&*snapshot, Table::History, &KeyRange::ALL)?,
            &before,
        )?;
        let got = snapshot.get(Table::History, &key(u32::from(round)))?;
        equal("a get in it", &got, &Some(b"old".to_vec()))?;
    }
    drop(snapshot);
    store.compact()?;
    let rows = scan(&*store, Table::History, &KeyRange::ALL)?;
    equal("rows now", &rows.len(), &667)?;
    equal("their values", &rows.iter().all(|(_, v)| v == &[2]), &true)
}

pub(super) fn cursor(workspace: &mut Workspace<'_, '_>) -> Outcome {
    let store = workspace.open()?;
    put(&*store, Table::Rows, &[("a", "1"), ("b", "1"), ("c", "1")])?;
    let snapshot = store.snapshot()?;
    let mut direct = store.cursor(Table::Rows, &KeyRange::ALL)?;
    let mut within = snapshot.cursor(Table::Rows, &KeyRange::ALL)?;
    equal("first row", &direct.advance()?, &true)?;
    equal("its key", &direct.key().to_vec(), &b"a".to_vec())?;
    let mut batch = WriteBatch::default();
    batch.remove(Table::Rows, *b"b");
    batch.put(Table::Rows, *b"c", *b"2");
    batch.put(Table::Rows, *b"d", *b"2");
    store.commit(batch, Durability::Relaxed)?;
    store.compact()?;
    equal(
        "the rest",
        &drain(direct.as_mut())?,
        &text(&[("b", "1"), ("c", "1")]),
    )?;
    let all = text(&[("a", "1"), ("b", "1"), ("c", "1")]);
    equal("the snapshot's cursor", &drain(within.as_mut())?, &all)
}

/// Writes pairs of keys in different tables with equal numbers; a reader that sees them differ saw a part of a batch.
/// Batches are large, so that a reader meets one under way; compactions run in between, because a flush or a compaction
/// that publishes too much is a typical way to break this.
pub(super) fn atomic(workspace: &mut Workspace<'_, '_>) -> Outcome {
    const KEYS: u32 = 200;
    let store = workspace.open()?;
    let store = &*store;
    let write = |round: u64| -> Result<()> {
        let mut batch = WriteBatch::default();
        for table in [Table::Rows, Table::History, Table::Counts] {
            for n in 0..KEYS {
                batch.put(table, n.to_be_bytes(), round.to_be_bytes());
            }
        }
        store.commit(batch, Durability::Relaxed)
    };
    write(0)?;
    let done = AtomicBool::new(false);
    std::thread::scope(|scope| -> Outcome {
        let writer = scope.spawn(|| {
            let result = (1..150).try_for_each(|round| {
                if round % 25 == 0 {
                    store.compact()?;
                }
                write(round)
            });
            done.store(true, Ordering::Release);
            result
        });
        let mut last = 0;
        let mut looks = 0u64;
        let outcome = loop {
            let stop = done.load(Ordering::Acquire);
            match one_round(store, KEYS as usize) {
                Ok(round) if round < last => {
                    break Err(CheckFault(format!(
                        "a reader saw round {round} after round {last}"
                    )));
                }
                Ok(round) => last = round,
                Err(fault) => break Err(fault),
            }
            looks += 1;
            if stop {
                break Ok(());
            }
        };
        let written = writer
            .join()
            .map_err(|_| CheckFault("the writer panicked".to_owned()))?;
        written?;
        outcome?;
        equal("looks", &(looks > 0), &true)?;
        equal("the last round", &last, &149)
    })
}

/// Returns the single round that a snapshot, and a scan within one table, must show.
fn one_round(store: &dyn Store, keys: usize) -> Result<u64, CheckFault> {
    let snapshot = store.snapshot()?;
    let mut seen = Vec::new();
    for table in [Table::Rows, Table::History, Table::Counts] {
        let rows = scan(&*snapshot, table, &KeyRange::ALL)?;
        equal("rows of a table", &rows.len(), &keys)?;
        seen.extend(rows.into_iter().map(|(_, value)| value));
    }
    let direct = scan(store, Table::Rows, &KeyRange::ALL)?;
    let first = direct.first().map(|(_, value)| value.clone());
    if direct
        .iter()
        .any(|(_, value)| Some(value) != first.as_ref())
    {
        return Err(CheckFault("a scan saw half a batch".to_owned()));
    }
    let value = seen.first().cloned().unwrap_or_default();
    if seen.iter().any(|other| *other != value) {
        return Err(CheckFault("a snapshot saw half a batch".to_owned()));
    }
    let bytes = <[u8; 8]>::try_from(value.as_slice())
        .map_err(|_| CheckFault(format!("a value came back as {value:?}")))?;
    Ok(u64::from_be_bytes(bytes))
}

pub(super) fn compaction(workspace: &mut Workspace<'_, '_>) -> Outcome {
    let store = workspace.open()?;
    store.compact()?;
    for round in 0..4u8 {
        let mut batch = WriteBatch::default();
        for n in 0..500u32 {
            batch.put(Table::Rows, n.to_be_bytes(), vec![round; 100]);
            if n % 7 == u32::from(round) {
                batch.remove(Table::Rows, (n / 2).to_be_bytes());
            }
        }
        store.commit(batch, Durability::Relaxed)?;
        let before = scan(&*store, Table::Rows, &KeyRange::ALL)?;
        store.compact()?;
        equal(
            "rows",
            &scan(&*store, Table::Rows, &KeyRange::ALL)?,
            &before,
        )?;
        for (key, value) in &before {
            equal("get", &store.get(Table::Rows, key)?.as_ref(), &Some(value))?;
        }
    }
    Ok(())
}

pub(super) fn checkpoint(workspace: &mut Workspace<'_, '_>) -> Outcome {
    let store = workspace.open()?;
    let empty = workspace.path("of nothing")?;
    store.checkpoint(&empty)?;
    let mut batch = WriteBatch::default();
    for n in 0..2000u32 {
        for table in Table::ALL {
            batch.put(
                table,
                n.to_be_bytes(),
                vec![table as u8; (n % 300) as usize],
            );
        }
    }
    batch.put(Table::Rows, *b"large", vec![9; 100_000]);
    store.commit(batch, Durability::Relaxed)?;
    let mut load = store.bulk_load(Table::History)?;
    load.push(b"loaded", b"1")?;
    load.finish()?;
    let path = workspace.path("copy")?;
    let bytes = store.checkpoint(&path)?;
    equal(
        "bytes written are more than the values",
        &(bytes > 100_000),
        &true,
    )?;
    let mut batch = WriteBatch::default();
    batch.put(Table::Rows, *b"after", *b"1");
    batch.remove(Table::Rows, 5u32.to_be_bytes());
    let before = Table::ALL.map(|table| scan(&*store, table, &KeyRange::ALL));
    store.commit(batch, Durability::Relaxed)?;
    store.compact()?;
    for round in 0..3u8 {
        let copy = workspace.open_at("copy")?;
        for (table, before) in Table::ALL.into_iter().zip(&before) {
            let rows = scan(&*copy, table, &KeyRange::ALL)?;
            let Ok(before) = before else {
                return Err(CheckFault("a scan failed".to_owned()));
            };
            let rows: Vec<_> = rows
                .into_iter()
                .filter(|(key, _)| key != b"of the copy")
                .collect();
            equal(table.name(), &rows, before)?;
        }
        // The copy is a store by itself: it accepts writes, also over keys that it was copied with, and keeps them.
        if round > 0 {
            let got = copy.get(Table::Rows, b"of the copy")?;
            equal("the copy's own row", &got, &Some(vec![round - 1]))?;
        }
        let mut batch = WriteBatch::default();
        batch.put(Table::Rows, *b"of the copy", [round]);
        copy.commit(batch, Durability::Relaxed)?;
        copy.compact()?;
    }
    let nothing = workspace.open_at("of nothing")?;
    equal(
        "the empty copy",
        &scan(&*nothing, Table::Rows, &KeyRange::ALL)?,
        &text(&[]),
    )?;
    put(&*nothing, Table::Rows, &[("a", "1")])?;
    equal(
        "a row of it",
        &nothing.get(Table::Rows, b"a")?,
        &Some(b"1".to_vec()),
    )?;
    equal(
        "the original",
        &store.get(Table::Rows, b"of the copy")?,
        &None,
    )?;
    equal(
        "and its own row",
        &store.get(Table::Rows, b"after")?,
        &Some(b"1".to_vec()),
    )
}

pub(super) fn checkpoint_online(workspace: &mut Workspace<'_, '_>) -> Outcome {
    let store = workspace.open()?;
    let paths = [workspace.path("first")?, workspace.path("second")?];
    let write = |n: u64| -> Result<()> {
        let mut batch = WriteBatch::default();
        batch.put(Table::Rows, n.to_be_bytes(), vec![1; 200]);
        batch.put(Table::History, n.to_be_bytes(), vec![2; 2000]);
        batch.put(Table::Counts, *b"count", (n + 1).to_be_bytes());
        store.commit(batch, Durability::Relaxed)
    };
    let done = AtomicBool::new(false);
    let (least, outcome) = std::thread::scope(|scope| {
        let writer = scope.spawn(|| -> Result<u64> {
            let mut n = 0;
            while !done.load(Ordering::Acquire) || n < 500 {
                write(n)?;
                n += 1;
            }
            Ok(n)
        });
        let mut least = Vec::new();
        let outcome = paths.iter().try_for_each(|path| {
            least.push(store.get(Table::Counts, b"count")?);
            store.checkpoint(path).map(|_| ())
        });
        done.store(true, Ordering::Release);
        (
            least,
            outcome.and(writer.join().unwrap_or(Ok(0)).map(|_| ())),
        )
    });
    outcome?;
    let number = |value: Option<Vec<u8>>| {
        value.map_or(0, |v| {
            v.iter().fold(0, |sum, byte| sum << 8 | u64::from(*byte))
        })
    };
    for (name, least) in ["first", "second"].into_iter().zip(least) {
        let copy = workspace.open_at(name)?;
        let count = number(copy.get(Table::Counts, b"count")?);
        equal(
            "what was acknowledged before is in",
            &(count >= number(least)),
            &true,
        )?;
        for (table, length) in [(Table::Rows, 200), (Table::History, 2000)] {
            let rows = scan(&*copy, table, &KeyRange::ALL)?;
            equal("rows against the count", &(rows.len() as u64), &count)?;
            for (n, (key, value)) in rows.iter().enumerate() {
                equal("a key", key, &(n as u64).to_be_bytes().to_vec())?;
                equal("a value's length", &value.len(), &length)?;
            }
        }
    }
    Ok(())
}

pub(super) fn checkpoint_refused(workspace: &mut Workspace<'_, '_>) -> Outcome {
    let store = workspace.open()?;
    put(&*store, Table::Rows, &[("a", "1")])?;
    let path = workspace.path("copy")?;
    store.checkpoint(&path)?;
    refused("a second checkpoint into it", store.checkpoint(&path))?;
    let copy = workspace.open_at("copy")?;
    equal(
        "the first one",
        &copy.get(Table::Rows, b"a")?,
        &Some(b"1".to_vec()),
    )
}
