//! Batches of records applied, and what becomes of one that is refused.
//!
//! A batch that creates only new objects is applied at once. If it is refused, or the one before held objects that exist, the objects that exist are asked for and
//! treated as `--on-duplicate` says; if it is refused even so, it is halved, until the bad records stand alone. Each
//! range of records has a marker of its own, and a range that was halved gets its marker behind its halves: a run that
//! comes after one that was stopped, wherever, finds what is done.

use super::{Event, Row, Sums};
use crate::args::OnDuplicate;
use crate::interrupt::Interrupt;
use esker::Database;
use esker_import::table::ObjectRecord;
use esker_model::object::{Found, Identity, ObjectKey, ObjectRead as _, object_ref};
use esker_model::{
    Batch, Cancel as _, Error, ErrorKind, GraphRead as _, GraphWrite as _, Op, Result, Schema,
};
use std::cell::Cell;
use std::collections::HashMap;
use std::collections::hash_map::Entry;
use std::sync::mpsc::{Receiver, Sender};
use std::sync::{Mutex, PoisonError};

/// Applies batches.
pub(super) struct Writer<'a> {
    pub(super) database: &'a Database,
    pub(super) schema: &'a Schema,
    pub(super) on_duplicate: OnDuplicate,
    pub(super) salt: &'a [u8],
    pub(super) file: &'a str,
    pub(super) events: Sender<Event>,
    /// Whether the batch before held objects that exist: the next one then does as well, most likely.
    pub(super) duplicates: Cell<bool>,
}

/// A batch that respects what exists, and what it will have done.
struct Careful {
    batch: Batch,
    sums: Sums,
    bad: Vec<String>,
}

impl Writer<'_> {
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
            self.range(&rows)?;
            if interrupt.cancelled() {
                return Ok(());
            }
        }
    }

    fn range(&self, rows: &[Row]) -> Result<()> {
        if self.duplicates.get() {
            return self.carefully(rows);
        }
        let mut batch = Batch::new();
        for row in rows {
            batch.push(row.record.create());
        }
        match self.apply(batch, rows) {
            Ok(true) => {
                self.done(Sums {
                    created: rows.len() as u64,
                    ..Sums::default()
                });
                Ok(())
            }
            Ok(false) => {
                self.before(rows);
                Ok(())
            }
            Err(error) if is_about_input(&error) => self.carefully(rows),
            Err(error) => Err(error),
        }
    }

    fn carefully(&self, rows: &[Row]) -> Result<()> {
        if self.was_halved(rows)? {
            return self.halve(rows);
        }
        let careful = self.careful(rows)?;
        self.duplicates
            .set(careful.sums.created < rows.len() as u64);
        match self.apply(careful.batch, rows) {
            Ok(false) => {
                self.before(rows);
                Ok(())
            }
            Ok(true) => {
                for text in careful.bad {
                    self.bad(text);
                }
                self.done(careful.sums);
                Ok(())
            }
            Err(error) if is_about_input(&error) => match rows {
                [row] => {
                    self.apply(Batch::new(), rows)?;
                    self.bad(self.place(&row.record, &error.to_string()));
                    Ok(())
                }
                _ => self.halve(rows),
            },
            Err(error) => Err(error),
        }
    }

    /// Whether an earlier run halved that range: the left half of a half … of it is done then.
    fn was_halved(&self, rows: &[Row]) -> Result<bool> {
        let mut rows = rows;
        while rows.len() > 1 {
            rows = &rows[..rows.len() / 2];
            if self.database.applied(&self.marker(rows))? {
                return Ok(true);
            }
        }
        Ok(false)
    }

    fn halve(&self, rows: &[Row]) -> Result<()> {
        let (left, right) = rows.split_at(rows.len() / 2);
        self.range(left)?;
        self.range(right)?;
        self.apply(Batch::new(), rows)?;
        Ok(())
    }

    /// Creates what does not exist, and does with the rest as was asked.
    fn careful(&self, rows: &[Row]) -> Result<Careful> {
        let keys: Vec<ObjectKey> = rows
            .iter()
            .map(|row| ObjectKey::Identity(row.record.identity.clone()))
            .collect();
        let existing = self.database.read_objects(&keys, None)?;
        let mut careful = Careful {
            batch: Batch::new(),
            sums: Sums::default(),
            bad: Vec::new(),
        };
        // Records of this range with ID attributes that no object has: the first of them creates it.
        let mut new: Vec<ObjectRecord> = Vec::new();
        let mut places: HashMap<&Identity, usize> = HashMap::new();
        for (row, found) in rows.iter().zip(&existing) {
            let record = &row.record;
            let place = match found {
                Some(_) => None,
                None => match places.entry(&record.identity) {
                    Entry::Vacant(entry) => {
                        entry.insert(new.len());
                        new.push(record.clone());
                        careful.sums.created += 1;
                        continue;
                    }
                    Entry::Occupied(entry) => Some(*entry.get()),
                },
            };
            match self.on_duplicate {
                OnDuplicate::Skip => careful.sums.skipped += 1,
                OnDuplicate::Fail => {
                    let which = match found {
                        Some(found) => format!("object:{}", found.id),
                        None => "the same in a row before".to_owned(),
                    };
                    let message = format!("there is an object with {}: {which}", record.identity);
                    careful.bad.push(self.place(record, &message));
                }
                OnDuplicate::Update => {
                    careful.sums.updated += 1;
                    match (found, place.and_then(|p| new.get_mut(p))) {
                        (Some(found), _) => self.update(&mut careful.batch, found, record)?,
                        (None, Some(first)) => merge(first, record),
                        (None, None) => {}
                    }
                }
            }
        }
        for record in new {
            careful.batch.push(record.create());
        }
        Ok(careful)
    }

    fn update(&self, batch: &mut Batch, found: &Found, record: &ObjectRecord) -> Result<()> {
        let vertex = object_ref(self.schema, found.id)
            .ok_or_else(|| Error::Invalid("this database has no objects".to_owned()))?;
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

    /// Whether it was applied now; false if it had been before.
    fn apply(&self, mut batch: Batch, rows: &[Row]) -> Result<bool> {
        batch.once = Some(self.marker(rows));
        Ok(self.database.apply(batch)?.applied)
    }

    fn marker(&self, rows: &[Row]) -> Vec<u8> {
        ObjectRecord::marker(self.salt, rows.iter().map(|row| row.digest))
    }

    fn place(&self, record: &ObjectRecord, message: &str) -> String {
        match record.byte {
            Some(byte) => format!(
                "{}, line {} (byte {byte}): {message}",
                self.file, record.line
            ),
            None => format!("{}, row {}: {message}", self.file, record.line),
        }
    }

    fn bad(&self, text: String) {
        // Who listens goes last.
        let _ = self.events.send(Event::Bad(text));
    }

    fn before(&self, rows: &[Row]) {
        self.done(Sums {
            before: rows.len() as u64,
            ..Sums::default()
        });
    }

    fn done(&self, sums: Sums) {
        let _ = self.events.send(Event::Done(sums));
    }
}

/// A later row of the same object over an earlier one.
fn merge(first: &mut ObjectRecord, later: &ObjectRecord) {
    for (name, value) in later.attributes.iter() {
        first.attributes.set(name, value.clone());
    }
    for (name, value) in later.tags.iter() {
        first.tags.set(name, value.clone());
    }
}

/// Whether a record is to blame.
fn is_about_input(error: &Error) -> bool {
    matches!(error.kind(), ErrorKind::Invalid | ErrorKind::Missing)
}
