//! The final check: all acknowledged writes are present once, and nothing else.

use super::load::{ClientLoad, OBJECTS, expected_number, folder, identity, removed};
use esker::Database;
use esker_model::filter::Expr;
use esker_model::namespace::{Entry, Namespace as _};
use esker_model::object::{Find, Found, Identity, ObjectRead as _};
use esker_model::{GraphRead as _, NeverCancel, Value, VersionRange, VertexChange};
use std::collections::BTreeSet;
use std::ops::ControlFlow;
use std::sync::atomic::Ordering;

/// Checks everything and returns the number of checks. Violations are recorded in the load.
pub(super) fn verify(load: &ClientLoad, database: &Database) -> anyhow::Result<u64> {
    let mut looked = 0;
    for (n, register) in load.registers.iter().enumerate() {
        let acknowledged = register.acknowledged.load(Ordering::Acquire);
        let writer = n * load.writers.len() / load.registers.len().max(1);
        // A write that failed may have been applied.
        let doubt = load
            .writers
            .get(writer)
            .is_some_and(|w| w.failed.load(Ordering::Acquire));
        for vertex in register.vertices {
            let mut events = database.vertex_history(vertex.id, VersionRange::ALL)?;
            events.reverse();
            let history: Vec<Option<u64>> = events
                .iter()
                .map(|event| match &event.change {
                    VertexChange::Put(attributes) => match attributes.get("n") {
                        Some(Value::I64(n)) => u64::try_from(*n).ok(),
                        _ => None,
                    },
                    _ => None,
                })
                .collect();
            looked += history.len() as u64;
            let expected: Vec<Option<u64>> = (1..=acknowledged).map(expected_number).collect();
            let more = history.len() - history.len().min(expected.len());
            let same = history.starts_with(&expected) && (more == 0 || (doubt && more == 1));
            if !same {
                let differs = history.iter().zip(&expected).position(|(a, b)| a != b);
                load.violation(format!(
                    "register {n}: {acknowledged} writes were acknowledged, and its history has {} (the first that differs: {differs:?})",
                    history.len()
                ));
            }
            let increasing = events.windows(2).all(|w| w[0].version < w[1].version);
            if !increasing {
                load.violation(format!(
                    "register {n}: versions of its history do not increase"
                ));
            }
        }
    }
    looked += objects(load, database)?;
    looked += files(load, database)?;
    Ok(looked)
}

fn objects(load: &ClientLoad, database: &Database) -> anyhow::Result<u64> {
    let mut found: BTreeSet<Identity> = BTreeSet::new();
    let mut sink = |object: Found| {
        if let Some(identity) = object.identity()
            && !found.insert(identity.clone())
        {
            load.violation(format!("object {identity:?} is found twice"));
        }
        ControlFlow::Continue(())
    };
    let report = database.find(&Find::all(Expr::All), &NeverCancel, &mut sink)?;
    anyhow::ensure!(
        report.complete && report.missing.is_empty(),
        "a search over all objects is not complete: {report:?}"
    );
    let looked = found.len() as u64;
    for (writer, done) in load.writers.iter().enumerate() {
        let rounds = done.rounds.load(Ordering::Acquire);
        if rounds == 0 || !load.writes_objects() {
            continue;
        }
        for n in 0..rounds * OBJECTS {
            let identity = identity(writer, n);
            let there = found.remove(&identity);
            let deleted = n.is_multiple_of(OBJECTS);
            if there && deleted {
                load.violation(format!("object {identity:?} was deleted, and is there"));
            }
            if !there && !deleted {
                load.violation(format!("object {identity:?} was created, and is not there"));
            }
        }
        if done.failed.load(Ordering::Acquire) {
            // The effect of the failed round is unknown.
            for n in rounds * OBJECTS..(rounds + 1) * OBJECTS {
                found.remove(&identity(writer, n));
            }
        }
    }
    for identity in found {
        load.violation(format!(
            "object {identity:?} was never acknowledged, and is there"
        ));
    }
    Ok(looked)
}

fn files(load: &ClientLoad, database: &Database) -> anyhow::Result<u64> {
    let mut looked = 0;
    for (writer, done) in load.writers.iter().enumerate() {
        let rounds = done.rounds.load(Ordering::Acquire);
        let mut names: BTreeSet<String> = BTreeSet::new();
        let mut sink = |_, entry: Entry| {
            if !names.insert(entry.name.to_string()) {
                load.violation(format!(
                    "writer {writer}: file {} is listed twice",
                    entry.name
                ));
            }
            ControlFlow::Continue(())
        };
        database.list(None, &folder(writer)?, None, &mut sink)?;
        looked += names.len() as u64;
        if !load.writes_objects() {
            continue;
        }
        let failed = done.failed.load(Ordering::Acquire);
        for n in 0..rounds {
            let there = names.remove(&format!("f{n}"));
            // The failed round may have removed the file of the one before.
            let doubtful = failed && n + 1 == rounds;
            if there == removed(n, rounds) && !doubtful {
                load.violation(format!(
                    "writer {writer}: file f{n} of {rounds} is {}",
                    if there {
                        "there, though it was removed"
                    } else {
                        "not there"
                    }
                ));
            }
        }
        if failed {
            names.remove(&format!("f{rounds}"));
        }
        for name in names {
            load.violation(format!(
                "writer {writer}: file {name} was never acknowledged"
            ));
        }
    }
    Ok(looked)
}
