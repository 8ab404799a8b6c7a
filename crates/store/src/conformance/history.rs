//! Random histories of all operations, compared with a plain map.

use super::{Dice, Outcome, Rows, Workspace, equal, scan, walk};
use crate::{Durability, KeyRange, Read, Store, Table, WriteBatch};
use std::collections::BTreeMap;

type Model = BTreeMap<(Table, Vec<u8>), Vec<u8>>;

const HISTORIES: u64 = 4;
const OPERATIONS: usize = 200;

pub(super) fn random(workspace: &mut Workspace<'_, '_>) -> Outcome {
    for seed in 0..HISTORIES {
        one(workspace, seed).map_err(|mut fault| {
            fault.0 = format!("history {seed}: {}", fault.0);
            fault
        })?;
    }
    Ok(())
}

fn one(workspace: &mut Workspace<'_, '_>, seed: u64) -> Outcome {
    let mut dice = Dice::new(seed + 1);
    let mut model = Model::new();
    let name = format!("history-{seed}");
    let mut store = workspace.open_at(&name)?;
    for operation in 0..OPERATIONS {
        match dice.number_below(100) {
            0..55 => commit(&*store, &mut model, &mut dice)?,
            55..62 => load(&*store, &mut model, &mut dice)?,
            62 => store.compact()?,
            63..66 => {
                drop(store);
                store = workspace.open_at(&name)?;
            }
            66 => {
                let copy = format!("{name}-{operation}");
                store.checkpoint(&workspace.path(&copy)?)?;
                same(&*workspace.open_at(&copy)?, &model)?;
            }
            67..77 => check_snapshot(&*store, &mut model, &mut dice)?,
            _ => look(&*store, &model, &mut dice)?,
        }
    }
    same(&*store, &model)?;
    drop(store);
    same(&*workspace.open_at(&name)?, &model)
}

/// Returns one of few distinct keys, so that histories use them repeatedly; some share prefixes, some contain extreme
/// bytes.
fn key(dice: &mut Dice) -> Vec<u8> {
    let mut key = vec![[0x00, 0x01, 0x41, 0xff][dice.number_below(4)]];
    for _ in 0..dice.number_below(4) {
        key.push([0x00, 0x10, 0x80, 0xff][dice.number_below(4)]);
    }
    if dice.number_below(4) == 0 {
        key.extend([0x55; 30]);
    }
    key
}

fn value(dice: &mut Dice) -> Vec<u8> {
    let length = match dice.number_below(20) {
        0 => 0,
        1 => 1024 + dice.number_below(4096),
        2 => 20_000,
        _ => dice.number_below(200),
    };
    dice.bytes(length)
}

fn table(dice: &mut Dice) -> Table {
    Table::ALL[dice.number_below(Table::ALL.len())]
}

fn commit(store: &dyn Store, model: &mut Model, dice: &mut Dice) -> Outcome {
    let mut batch = WriteBatch::default();
    for _ in 0..=dice.number_below(12) {
        let (table, key) = (table(dice), key(dice));
        if dice.number_below(3) == 0 {
            batch.remove(table, key.clone());
            model.remove(&(table, key));
        } else {
            let value = value(dice);
            batch.put(table, key.clone(), value.clone());
            model.insert((table, key), value);
        }
    }
    let durability = match dice.number_below(10) {
        0 => Durability::Sync,
        _ => Durability::Relaxed,
    };
    Ok(store.commit(batch, durability)?)
}

fn load(store: &dyn Store, model: &mut Model, dice: &mut Dice) -> Outcome {
    let table = table(dice);
    let rows: BTreeMap<Vec<u8>, Vec<u8>> = (0..dice.number_below(40))
        .map(|_| (key(dice), value(dice)))
        .collect();
    let mut load = store.bulk_load(table)?;
    for (key, value) in &rows {
        load.push(key, value)?;
    }
    if dice.number_below(5) > 0 {
        load.finish()?;
        model.extend(rows.into_iter().map(|(key, value)| ((table, key), value)));
    }
    Ok(())
}

/// Checks that a snapshot does not change while commits, loads and compactions continue.
fn check_snapshot(store: &dyn Store, model: &mut Model, dice: &mut Dice) -> Outcome {
    let snapshot = store.snapshot()?;
    let before = model.clone();
    for _ in 0..dice.number_below(4) {
        match dice.number_below(12) {
            0 => store.compact()?,
            1 => load(store, model, dice)?,
            _ => commit(store, model, dice)?,
        }
    }
    same(&*snapshot, &before)?;
    look(&*snapshot, &before, dice)
}

/// Compares one get and one range with the model.
fn look(read: &(impl Read + ?Sized), model: &Model, dice: &mut Dice) -> Outcome {
    let (table, wanted) = (table(dice), key(dice));
    let expected = model.get(&(table, wanted.clone()));
    equal(
        &format!("get {wanted:02x?}"),
        &read.get(table, &wanted)?.as_ref(),
        &expected,
    )?;
    let range = match dice.number_below(3) {
        0 => KeyRange::prefix(&key(dice)),
        1 => KeyRange::prefix_after(&wanted[..1], &wanted),
        _ => KeyRange::between(&key(dice), &key(dice)),
    };
    let expected: Rows = model
        .iter()
        .filter(|((of, key), _)| {
            *of == table && *key >= range.from && range.until.as_ref().is_none_or(|u| key < u)
        })
        .map(|((_, key), value)| (key.clone(), value.clone()))
        .collect();
    let what = format!("{} {range:02x?}", table.name());
    equal(&what, &scan(read, table, &range)?, &expected)?;
    equal(&what, &walk(read, table, &range)?, &expected)
}

fn same(read: &(impl Read + ?Sized), model: &Model) -> Outcome {
    for table in Table::ALL {
        let expected: Rows = model
            .iter()
            .filter(|((of, _), _)| *of == table)
            .map(|((_, key), value)| (key.clone(), value.clone()))
            .collect();
        equal(table.name(), &scan(read, table, &KeyRange::ALL)?, &expected)?;
    }
    Ok(())
}
