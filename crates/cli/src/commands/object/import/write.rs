//! Application of batches, and treatment of refused ones.
//!
//! A batch that creates only new objects is applied at once. If it is refused, or the one before had existing objects, existing objects
//! are looked up and treated as `--on-duplicate` says; if it is still refused, it is halved until the bad records are alone. Each range
//! of records has its own idempotency key, and a halved range gets its key after its halves: a run that follows an interrupted one,
//! wherever that stopped, recognises what is done.

use super::{ImportEvent, ObjectTotals, Row};
use crate::args::OnDuplicate;
use crate::commands::object::names::NO_OBJECTS;
use esker::Database;
use esker_import::table::ObjectRecord;
use esker_model::object::{Found, Identity, ObjectKey, ObjectRead as _, object_ref};
use esker_model::{
    Batch, Cancel as _, Error, ErrorKind, GraphRead as _, GraphWrite as _, Op, Result, Schema,
};
use esker_terminal::interrupt::Interrupt;
use std::cell::Cell;
use std::collections::HashMap;
use std::collections::hash_map::Entry;
use std::sync::mpsc::{Receiver, Sender};
use std::sync::{Mutex, PoisonError};

/// Writer of batches of records.
pub(super) struct BatchWriter<'a> {
    pub(super) database: &'a Database,
    pub(super) schema: &'a Schema,
    pub(super) on_duplicate: OnDuplicate,
    pub(super) salt: &'a [u8],
    pub(super) file: &'a str,
    pub(super) events: Sender<ImportEvent>,
    /// Whether the previous batch had existing objects, so that the next one probably has, too.
    pub(super) duplicates: Cell<bool>,
}

/// A batch after the lookup of existing objects, with its counts if it is applied.
struct CheckedBatch {
    batch: Batch,
    sums: ObjectTotals,
    bad: Vec<String>,
}

impl BatchWriter<'_> {
    pub(super) fn run(
        &self,
        batches: &Mutex<Receiver<Vec<Row>>>,
        interrupt: &Interrupt,
    ) -> Result<()> {
        loop {
            let next = batches
                .lock()
                .unwrap_or_else(PoisonError::into_inner)
                .recv();
            let Ok(rows) = next else {
                return Ok(());
            };
            self.import_range(&rows)?;
            if interrupt.cancelled() {
                return Ok(());
            }
        }
    }

    fn import_range(&self, rows: &[Row]) -> Result<()> {
        if self.duplicates.get() {
            return self.apply_checked(rows);
        }
        let mut batch = Batch::new();
        for row in rows {
            batch.push(row.record.create());
        }
        match self.apply(batch, rows) {
            Ok(true) => {
                self.done(ObjectTotals {
                    created: rows.len() as u64,
                    ..ObjectTotals::default()
                });
                Ok(())
            }
            Ok(false) => {
                self.before(rows);
                Ok(())
            }
            Err(error) if is_about_input(&error) => self.apply_checked(rows),
            Err(error) => Err(error),
        }
    }

    fn apply_checked(&self, rows: &[Row]) -> Result<()> {
        if self.was_halved(rows)? {
            return self.halve(rows);
        }
        let checked = self.check(rows)?;
        self.duplicates
            .set(checked.sums.created < rows.len() as u64);
        match self.apply(checked.batch, rows) {
            Ok(false) => {
                self.before(rows);
                Ok(())
            }
            Ok(true) => {
                for text in checked.bad {
                    self.bad(text);
                }
                self.done(checked.sums);
                Ok(())
            }
            Err(error) if is_about_input(&error) => match rows {
                [row] => {
                    self.apply(Batch::new(), rows)?;
                    self.bad(self.at_record(&row.record, &error.to_string()));
                    Ok(())
                }
                _ => self.halve(rows),
            },
            Err(error) => Err(error),
        }
    }

    /// Whether an earlier run halved that range: then its leftmost part of some size was applied.
    fn was_halved(&self, rows: &[Row]) -> Result<bool> {
        let mut rows = rows;
        while rows.len() > 1 {
            rows = &rows[..rows.len() / 2];
            if self.database.applied(&self.key_of(rows))? {
                return Ok(true);
            }
        }
        Ok(false)
    }

    fn halve(&self, rows: &[Row]) -> Result<()> {
        let (left, right) = rows.split_at(rows.len() / 2);
        self.import_range(left)?;
        self.import_range(right)?;
        self.apply(Batch::new(), rows)?;
        Ok(())
    }

    /// Builds the batch that creates new objects and treats existing ones as `--on-duplicate` says.
    fn check(&self, rows: &[Row]) -> Result<CheckedBatch> {
        let keys: Vec<ObjectKey> = rows
            .iter()
            .map(|row| ObjectKey::Identity(row.record.identity.clone()))
            .collect();
        let existing = self.database.read_objects(&keys, None)?;
        let mut checked = CheckedBatch {
            batch: Batch::new(),
            sums: ObjectTotals::default(),
            bad: Vec::new(),
        };
        // Records with ID attributes that no object has; the first of several creates the object.
        let mut new: Vec<ObjectRecord> = Vec::new();
        let mut places: HashMap<&Identity, usize> = HashMap::new();
        for (row, found) in rows.iter().zip(&existing) {
            let record = &row.record;
            let index = match found {
                Some(_) => None,
                None => match places.entry(&record.identity) {
                    Entry::Vacant(entry) => {
                        entry.insert(new.len());
                        new.push(record.clone());
                        checked.sums.created += 1;
                        continue;
                    }
                    Entry::Occupied(entry) => Some(*entry.get()),
                },
            };
            match self.on_duplicate {
                OnDuplicate::Skip => checked.sums.skipped += 1,
                OnDuplicate::Fail => {
                    let which = match found {
                        Some(found) => format!("object:{}", found.id),
                        None => "the same in a row before".to_owned(),
                    };
                    let message = format!("there is an object with {}: {which}", record.identity);
                    checked.bad.push(self.at_record(record, &message));
                }
                OnDuplicate::Update => {
                    checked.sums.updated += 1;
                    match (found, index.and_then(|p| new.get_mut(p))) {
                        (Some(found), _) => self.update(&mut checked.batch, found, record)?,
                        (None, Some(first)) => merge(first, record),
                        (None, None) => {}
                    }
                }
            }
        }
        for record in new {
            checked.batch.push(record.create());
        }
        Ok(checked)
    }

    fn update(&self, batch: &mut Batch, found: &Found, record: &ObjectRecord) -> Result<()> {
        let vertex = object_ref(self.schema, found.id)
            .ok_or_else(|| Error::Invalid(NO_OBJECTS.to_owned()))?;
        if !record.attributes.is_empty() {
            batch.push(Op::ChangeVertex {
                vertex,
                set: record.attributes.clone(),
                remove: Vec::new(),
            });
        }
        if !record.tags.is_empty() {
            batch.push(Op::SetAttributes {
                vertex,
                set: record.tags.clone(),
                remove: Vec::new(),
            });
        }
        Ok(())
    }

    /// Applies a batch; false if an earlier run had applied it.
    fn apply(&self, mut batch: Batch, rows: &[Row]) -> Result<bool> {
        batch.idempotency_key = Some(self.key_of(rows));
        Ok(self.database.apply(batch)?.applied)
    }

    fn key_of(&self, rows: &[Row]) -> Vec<u8> {
        ObjectRecord::idempotency_key(self.salt, rows.iter().map(|row| row.digest))
    }

    fn at_record(&self, record: &ObjectRecord, message: &str) -> String {
        match record.byte {
            Some(byte) => format!(
                "{}, line {} (byte {byte}): {message}",
                self.file, record.line
            ),
            None => format!("{}, row {}: {message}", self.file, record.line),
        }
    }

    fn bad(&self, text: String) {
        // The receiver outlives the writers.
        let _ = self.events.send(ImportEvent::Bad(text));
    }

    fn before(&self, rows: &[Row]) {
        self.done(ObjectTotals {
            before: rows.len() as u64,
            ..ObjectTotals::default()
        });
    }

    fn done(&self, sums: ObjectTotals) {
        let _ = self.events.send(ImportEvent::Done(sums));
    }
}

/// Merges a later row of an object into an earlier one.
fn merge(first: &mut ObjectRecord, later: &ObjectRecord) {
    for (name, value) in later.attributes.iter() {
        first.attributes.set(name, value.clone());
    }
    for (name, value) in later.tags.iter() {
        first.tags.set(name, value.clone());
    }
}

/// Whether a record caused the error.
fn is_about_input(error: &Error) -> bool {
    matches!(error.kind(), ErrorKind::Invalid | ErrorKind::Missing)
}
