//! Checks of bulk loads.

use super::rows::put;
use super::{Outcome, Rows, Workspace, equal, refused, scan, text};
use crate::{Durability, KeyRange, Store, Table, WriteBatch};
use esker_model::Result;

fn load(store: &dyn Store, table: Table, rows: &Rows) -> Result<()> {
    let mut load = store.bulk_load(table)?;
    for (key, value) in rows {
        load.push(key, value)?;
    }
    load.finish()
}

/// Returns rows with keys `from..until` by a step, some of whose values are large.
fn rows(from: u32, until: u32, step: usize, mark: u8) -> Rows {
    (from..until)
        .step_by(step)
        .map(|n| {
            let length = if n % 500 == 0 { 5000 } else { 20 };
            (n.to_be_bytes().to_vec(), vec![mark; length])
        })
        .collect()
}

pub(super) fn finished(workspace: &mut Workspace<'_, '_>) -> Outcome {
    let expected = rows(0, 20_000, 1, 1);
    let store = workspace.open()?;
    let mut load = store.bulk_load(Table::Rows)?;
    for (key, value) in &expected {
        load.push(key, value)?;
    }
    equal(
        "rows before finish",
        &scan(&*store, Table::Rows, &KeyRange::ALL)?,
        &text(&[]),
    )?;
    load.finish()?;
    equal(
        "rows after",
        &scan(&*store, Table::Rows, &KeyRange::ALL)?,
        &expected,
    )?;
    for (key, value) in expected.iter().step_by(997) {
        equal("get", &store.get(Table::Rows, key)?.as_ref(), &Some(value))?;
    }
    equal(
        "another table",
        &scan(&*store, Table::Index, &KeyRange::ALL)?,
        &text(&[]),
    )?;
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
    )?;
    store.bulk_load(Table::Rows)?.finish()?;
    equal(
        "after an empty load",
        &scan(&*store, Table::Rows, &KeyRange::ALL)?,
        &expected,
    )
}

pub(super) fn dropped(workspace: &mut Workspace<'_, '_>) -> Outcome {
    let store = workspace.open()?;
    put(&*store, Table::Rows, &[("a", "1")])?;
    let mut load = store.bulk_load(Table::Rows)?;
    for (key, value) in rows(0, 20_000, 1, 1) {
        load.push(&key, &value)?;
    }
    drop(load);
    equal(
        "rows",
        &scan(&*store, Table::Rows, &KeyRange::ALL)?,
        &text(&[("a", "1")]),
    )?;
    drop(store);
    let store = workspace.open()?;
    equal(
        "reopened",
        &scan(&*store, Table::Rows, &KeyRange::ALL)?,
        &text(&[("a", "1")]),
    )
}

pub(super) fn unsorted(workspace: &mut Workspace<'_, '_>) -> Outcome {
    let store = workspace.open()?;
    for (first, second) in [("b", "a"), ("b", "b"), ("ab", "a")] {
        let mut load = store.bulk_load(Table::Rows)?;
        load.push(first.as_bytes(), b"1")?;
        refused(
            &format!("{second} after {first}"),
            load.push(second.as_bytes(), b"2"),
        )?;
        // The load continues after a refused row.
        load.push(b"c", b"3")?;
        load.finish()?;
        let got = store.get(Table::Rows, first.as_bytes())?;
        equal("the row before it", &got, &Some(b"1".to_vec()))?;
        equal(
            "the row after it",
            &store.get(Table::Rows, b"c")?,
            &Some(b"3".to_vec()),
        )?;
    }
    equal("the refused row", &store.get(Table::Rows, b"a")?, &None)
}

pub(super) fn replaces(workspace: &mut Workspace<'_, '_>) -> Outcome {
    let store = workspace.open()?;
    let key = |n: u32| n.to_be_bytes();
    let mut batch = WriteBatch::default();
    for n in 0..1000 {
        batch.put(Table::Rows, key(n), *b"committed");
    }
    store.commit(batch, Durability::Relaxed)?;
    load(&*store, Table::Rows, &rows(0, 1000, 2, 7))?;
    for round in 0..3 {
        let what = ["at once", "compacted", "later"][round];
        equal(what, &store.get(Table::Rows, &key(2))?, &Some(vec![7; 20]))?;
        equal(
            what,
            &store.get(Table::Rows, &key(3))?,
            &Some(b"committed".to_vec()),
        )?;
        equal(
            what,
            &scan(&*store, Table::Rows, &KeyRange::ALL)?.len(),
            &1000,
        )?;
        store.compact()?;
    }
    put(&*store, Table::Meta, &[("x", "1")])?;
    let mut batch = WriteBatch::default();
    batch.put(Table::Rows, key(4), *b"again");
    batch.remove(Table::Rows, key(6));
    store.commit(batch, Durability::Relaxed)?;
    equal(
        "committed over it",
        &store.get(Table::Rows, &key(4))?,
        &Some(b"again".to_vec()),
    )?;
    equal("removed from it", &store.get(Table::Rows, &key(6))?, &None)?;
    load(&*store, Table::Rows, &rows(6, 7, 1, 8))?;
    drop(store);
    let store = workspace.open()?;
    equal(
        "committed over it",
        &store.get(Table::Rows, &key(4))?,
        &Some(b"again".to_vec()),
    )?;
    equal(
        "loaded again",
        &store.get(Table::Rows, &key(6))?,
        &Some(vec![8; 20]),
    )?;
    equal(
        "rows in the end",
        &scan(&*store, Table::Rows, &KeyRange::ALL)?.len(),
        &1000,
    )
}

pub(super) fn snapshot(workspace: &mut Workspace<'_, '_>) -> Outcome {
    let store = workspace.open()?;
    put(&*store, Table::History, &[("a", "1")])?;
    let snapshot = store.snapshot()?;
    load(&*store, Table::History, &text(&[("a", "2"), ("b", "2")]))?;
    for _ in 0..2 {
        let before = text(&[("a", "1")]);
        equal(
            "the snapshot",
            &scan(&*snapshot, Table::History, &KeyRange::ALL)?,
            &before,
        )?;
        equal("a get in it", &snapshot.get(Table::History, b"b")?, &None)?;
        let now = text(&[("a", "2"), ("b", "2")]);
        equal("now", &scan(&*store, Table::History, &KeyRange::ALL)?, &now)?;
        store.compact()?;
    }
    Ok(())
}

pub(super) fn alternate(workspace: &mut Workspace<'_, '_>) -> Outcome {
    let mut model = std::collections::BTreeMap::new();
    let mut store = workspace.open()?;
    for round in 0..12u8 {
        let start = u32::from(round) * 100;
        let loaded = rows(start, start + 400, 3, round);
        load(&*store, Table::Rows, &loaded)?;
        model.extend(loaded);
        let mut batch = WriteBatch::default();
        for n in (start..start + 400).step_by(5) {
            batch.put(Table::Rows, n.to_be_bytes(), [round, round]);
            model.insert(n.to_be_bytes().to_vec(), vec![round, round]);
        }
        for n in (start..start + 400).step_by(11) {
            batch.remove(Table::Rows, n.to_be_bytes());
            model.remove(n.to_be_bytes().as_slice());
        }
        store.commit(batch, Durability::Relaxed)?;
        if round % 4 == 1 {
            store.compact()?;
        }
        if round % 4 == 3 {
            drop(store);
            store = workspace.open()?;
        }
        let expected: Rows = model.clone().into_iter().collect();
        equal(
            &format!("round {round}"),
            &scan(&*store, Table::Rows, &KeyRange::ALL)?,
            &expected,
        )?;
    }
    Ok(())
}
