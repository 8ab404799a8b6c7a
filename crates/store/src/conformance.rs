//! The conformance suite: named checks of [`Store`] that every implementation must pass. The tests of an implementation
//! call [`run`] with a function that opens a store in a directory; the in-memory store runs the same checks.
//!
//! A failed check describes the difference that it found. The suite needs no test framework, so that implementations
//! outside this workspace can run it. Random histories are seeded, so that failures are reproducible.

mod history;
mod load;
mod rows;
mod snapshots;

use crate::{Cursor, KeyRange, Read, Store, Table};
use esker_model::{Error, Flow, Result};
use std::path::{Path, PathBuf};

/// Function that opens the store in a directory, creating it if it is absent. It is called again on the same directory
/// after the store was dropped, and on directories that [`Store::checkpoint`] wrote.
pub type Open<'a> = dyn FnMut(&Path) -> Result<Box<dyn Store>> + 'a;

/// The failure of a check.
#[derive(Debug, thiserror::Error)]
#[error("conformance check `{check}`: {message}")]
pub struct Failure {
    /// Name of the check.
    pub check: &'static str,
    /// Description of the actual and the expected result.
    pub message: String,
}

/// A check of the suite.
#[derive(Clone, Copy)]
pub struct Check {
    /// Name of the check in messages.
    pub name: &'static str,
    run: fn(&mut Workspace<'_, '_>) -> Outcome,
}

impl std::fmt::Debug for Check {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_tuple("Check").field(&self.name).finish()
    }
}

/// All checks, cheap ones first.
pub const CHECKS: &[Check] = &[
    Check {
        name: "get returns what was put, and nothing else",
        run: rows::get,
    },
    Check {
        name: "tables are apart",
        run: rows::tables,
    },
    Check {
        name: "the last write of a key in a batch wins",
        run: rows::last_wins,
    },
    Check {
        name: "scans and cursors are in key order within bounds",
        run: rows::order,
    },
    Check {
        name: "prefix ranges hold with bytes of 0xff",
        run: rows::prefixes,
    },
    Check {
        name: "a scan stops where its sink breaks",
        run: rows::stop,
    },
    Check {
        name: "a sink may read and write the store that it reads",
        run: rows::reentry,
    },
    Check {
        name: "empty values are values",
        run: rows::empty_values,
    },
    Check {
        name: "large values come back whole",
        run: rows::large_values,
    },
    Check {
        name: "keys and values over the limits are refused whole",
        run: rows::limits,
    },
    Check {
        name: "both durabilities survive a reopen",
        run: rows::reopen,
    },
    Check {
        name: "a snapshot keeps its moment",
        run: snapshots::snapshot,
    },
    Check {
        name: "a snapshot keeps its moment through compaction",
        run: snapshots::snapshot_compaction,
    },
    Check {
        name: "an open cursor keeps its moment",
        run: snapshots::cursor,
    },
    Check {
        name: "readers never see half a batch",
        run: snapshots::atomic,
    },
    Check {
        name: "compaction changes no row",
        run: snapshots::compaction,
    },
    Check {
        name: "a checkpoint opens with what was committed",
        run: snapshots::checkpoint,
    },
    Check {
        name: "a checkpoint is consistent while a writer goes on",
        run: snapshots::checkpoint_online,
    },
    Check {
        name: "a checkpoint refuses a directory that is not empty",
        run: snapshots::checkpoint_refused,
    },
    Check {
        name: "a bulk load shows whole when finished, and survives",
        run: load::finished,
    },
    Check {
        name: "a bulk load dropped leaves nothing",
        run: load::dropped,
    },
    Check {
        name: "a bulk load refuses unsorted and equal keys",
        run: load::unsorted,
    },
    Check {
        name: "a bulk load replaces and is replaced",
        run: load::replaces,
    },
    Check {
        name: "an older snapshot does not see a bulk load",
        run: load::snapshot,
    },
    Check {
        name: "bulk loads and commits alternate",
        run: load::alternate,
    },
    Check {
        name: "random histories equal a plain map",
        run: history::random,
    },
];

/// Runs all checks, each in its own directory below `root`; the first failure is the error.
pub fn run(root: &Path, open: &mut Open<'_>) -> Result<(), Failure> {
    for (index, check) in CHECKS.iter().enumerate() {
        run_one(*check, &root.join(format!("{index:02}")), open)?;
    }
    Ok(())
}

/// Runs one check in a directory, which must be absent or empty.
pub fn run_one(check: Check, directory: &Path, open: &mut Open<'_>) -> Result<(), Failure> {
    let mut workspace = Workspace {
        directory: directory.to_path_buf(),
        open,
    };
    (check.run)(&mut workspace).map_err(|CheckFault(message)| Failure {
        check: check.name,
        message,
    })
}

/// Directory and opening function of a check.
struct Workspace<'a, 'b> {
    directory: PathBuf,
    open: &'a mut Open<'b>,
}

impl Workspace<'_, '_> {
    fn open(&mut self) -> Result<Box<dyn Store>, CheckFault> {
        self.open_at("store")
    }

    fn open_at(&mut self, name: &str) -> Result<Box<dyn Store>, CheckFault> {
        let path = self.path(name)?;
        (self.open)(&path).map_err(|e| CheckFault(format!("opening {}: {e}", path.display())))
    }

    fn path(&self, name: &str) -> Result<PathBuf, CheckFault> {
        std::fs::create_dir_all(&self.directory)
            .map_err(|e| CheckFault(format!("making {}: {e}", self.directory.display())))?;
        Ok(self.directory.join(name))
    }
}

/// Reason why a check fails.
struct CheckFault(String);

impl From<Error> for CheckFault {
    fn from(error: Error) -> Self {
        Self(format!("an operation failed: {error}"))
    }
}

type Outcome = Result<(), CheckFault>;

/// Fails the check unless both values are equal.
fn equal<T: PartialEq + std::fmt::Debug>(what: &str, got: &T, expected: &T) -> Outcome {
    if got == expected {
        return Ok(());
    }
    let mut message = format!("{what}: got {got:?}, expected {expected:?}");
    if message.len() > 2000 {
        let end = message.floor_char_boundary(2000);
        message.truncate(end);
        message.push_str("...");
    }
    Err(CheckFault(message))
}

/// Fails the check unless the operation was refused.
#[allow(
    clippy::needless_pass_by_value,
    reason = "the callers have no other use for it"
)]
fn refused<T>(what: &str, result: Result<T>) -> Outcome {
    match result {
        Ok(_) => Err(CheckFault(format!("{what} was accepted"))),
        Err(_) => Ok(()),
    }
}

type Rows = Vec<(Vec<u8>, Vec<u8>)>;

/// Returns all rows of a range, read by `scan`.
fn scan(read: &(impl Read + ?Sized), table: Table, range: &KeyRange) -> Result<Rows, CheckFault> {
    let mut rows = Rows::new();
    read.scan(table, range, &mut |key, value| {
        rows.push((key.to_vec(), value.to_vec()));
        Flow::Continue(())
    })?;
    Ok(rows)
}

/// Returns all rows of a range, read by `cursor`.
fn walk(read: &(impl Read + ?Sized), table: Table, range: &KeyRange) -> Result<Rows, CheckFault> {
    drain(read.cursor(table, range)?.as_mut())
}

/// Returns the remaining rows of a cursor.
fn drain(cursor: &mut dyn Cursor) -> Result<Rows, CheckFault> {
    let mut rows = Rows::new();
    while cursor.advance()? {
        rows.push((cursor.key().to_vec(), cursor.value().to_vec()));
    }
    if cursor.advance()? {
        return Err(CheckFault("a cursor went on after its end".to_owned()));
    }
    Ok(rows)
}

/// Builds rows from text.
fn text(rows: &[(&str, &str)]) -> Rows {
    rows.iter()
        .map(|(key, value)| (key.as_bytes().to_vec(), value.as_bytes().to_vec()))
        .collect()
}

/// A small deterministic random number generator (xorshift64*), so that a check has no dependency and is reproducible.
struct Dice(u64);

impl Dice {
    fn new(seed: u64) -> Self {
        Self(seed.wrapping_mul(0x9e37_79b9_7f4a_7c15) | 1)
    }

    fn next(&mut self) -> u64 {
        self.0 ^= self.0 >> 12;
        self.0 ^= self.0 << 25;
        self.0 ^= self.0 >> 27;
        self.0.wrapping_mul(0x2545_f491_4f6c_dd1d)
    }

    /// Returns a random number less than `bound`.
    fn number_below(&mut self, bound: usize) -> usize {
        // The product's high half is less than the bound, which is a usize.
        usize::try_from((u128::from(self.next()) * bound as u128) >> 64).unwrap_or(0)
    }

    fn bytes(&mut self, length: usize) -> Vec<u8> {
        let mut bytes = Vec::with_capacity(length + 8);
        while bytes.len() < length {
            bytes.extend_from_slice(&self.next().to_be_bytes());
        }
        bytes.truncate(length);
        bytes
    }
}
