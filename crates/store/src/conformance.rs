//! What every back end must do, as named checks over [`Store`]. A back end's tests call [`run`] with a way to open a
//! store in a directory; the in-memory store runs the same.
//!
//! The checks say what they saw when they fail, and need no test framework: a back end outside this workspace can run
//! them too. Random histories are seeded, so that a failure comes back.

mod history;
mod load;
mod moments;
mod rows;

use crate::{Cursor, KeyRange, Read, Store, Table};
use esker_model::{Error, Flow, Result};
use std::path::{Path, PathBuf};

/// Opens the store in a directory, creating it if it is absent. Called again on the same directory after the store was
/// dropped, and on directories that [`Store::checkpoint`] wrote.
pub type Open<'a> = dyn FnMut(&Path) -> Result<Box<dyn Store>> + 'a;

/// A check that did not hold.
#[derive(Debug, thiserror::Error)]
#[error("conformance check `{check}`: {message}")]
pub struct Failure {
    /// Which check.
    pub check: &'static str,
    /// What was seen and what was expected.
    pub message: String,
}

/// One check: its name and what it does.
#[derive(Clone, Copy)]
pub struct Check {
    /// Its name, as in messages.
    pub name: &'static str,
    run: fn(&mut Place<'_, '_>) -> Outcome,
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
        run: moments::snapshot,
    },
    Check {
        name: "a snapshot keeps its moment through compaction",
        run: moments::snapshot_compaction,
    },
    Check {
        name: "an open cursor keeps its moment",
        run: moments::cursor,
    },
    Check {
        name: "readers never see half a batch",
        run: moments::atomic,
    },
    Check {
        name: "compaction changes no row",
        run: moments::compaction,
    },
    Check {
        name: "a checkpoint opens with what was committed",
        run: moments::checkpoint,
    },
    Check {
        name: "a checkpoint is consistent while a writer goes on",
        run: moments::checkpoint_online,
    },
    Check {
        name: "a checkpoint refuses a directory that is not empty",
        run: moments::checkpoint_refused,
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

/// Runs all checks, each in a directory of its own below `root`; the first that does not hold is the error.
pub fn run(root: &Path, open: &mut Open<'_>) -> Result<(), Failure> {
    for (index, check) in CHECKS.iter().enumerate() {
        run_one(*check, &root.join(format!("{index:02}")), open)?;
    }
    Ok(())
}

/// Runs one check in a directory, which must be absent or empty.
pub fn run_one(check: Check, directory: &Path, open: &mut Open<'_>) -> Result<(), Failure> {
    let mut place = Place {
        directory: directory.to_path_buf(),
        open,
    };
    (check.run)(&mut place).map_err(|Fault(message)| Failure {
        check: check.name,
        message,
    })
}

/// Where a check works.
struct Place<'a, 'b> {
    directory: PathBuf,
    open: &'a mut Open<'b>,
}

impl Place<'_, '_> {
    fn open(&mut self) -> Result<Box<dyn Store>, Fault> {
        self.open_at("store")
    }

    fn open_at(&mut self, name: &str) -> Result<Box<dyn Store>, Fault> {
        let path = self.path(name)?;
        (self.open)(&path).map_err(|e| Fault(format!("opening {}: {e}", path.display())))
    }

    fn path(&self, name: &str) -> Result<PathBuf, Fault> {
        std::fs::create_dir_all(&self.directory)
            .map_err(|e| Fault(format!("making {}: {e}", self.directory.display())))?;
        Ok(self.directory.join(name))
    }
}

/// Why a check does not hold.
struct Fault(String);

impl From<Error> for Fault {
    fn from(error: Error) -> Self {
        Self(format!("an operation failed: {error}"))
    }
}

type Outcome = Result<(), Fault>;

/// Fails the check unless both sides are equal.
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
    Err(Fault(message))
}

/// Fails the check unless the operation was refused.
#[allow(
    clippy::needless_pass_by_value,
    reason = "the callers have no other use for it"
)]
fn refused<T>(what: &str, result: Result<T>) -> Outcome {
    match result {
        Ok(_) => Err(Fault(format!("{what} was accepted"))),
        Err(_) => Ok(()),
    }
}

type Rows = Vec<(Vec<u8>, Vec<u8>)>;

/// All rows of a range, by `scan`.
fn scan(read: &(impl Read + ?Sized), table: Table, range: &KeyRange) -> Result<Rows, Fault> {
    let mut rows = Rows::new();
    read.scan(table, range, &mut |key, value| {
        rows.push((key.to_vec(), value.to_vec()));
        Flow::Continue(())
    })?;
    Ok(rows)
}

/// All rows of a range, by `cursor`.
fn walk(read: &(impl Read + ?Sized), table: Table, range: &KeyRange) -> Result<Rows, Fault> {
    drain(read.cursor(table, range)?.as_mut())
}

/// The rows that a cursor has left.
fn drain(cursor: &mut dyn Cursor) -> Result<Rows, Fault> {
    let mut rows = Rows::new();
    while cursor.advance()? {
        rows.push((cursor.key().to_vec(), cursor.value().to_vec()));
    }
    if cursor.advance()? {
        return Err(Fault("a cursor went on after its end".to_owned()));
    }
    Ok(rows)
}

/// Rows from text.
fn text(rows: &[(&str, &str)]) -> Rows {
    rows.iter()
        .map(|(key, value)| (key.as_bytes().to_vec(), value.as_bytes().to_vec()))
        .collect()
}

/// A small deterministic source of numbers (xorshift64*), so that a check needs no dependency and can be repeated.
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

    /// A number below `bound`.
    fn below(&mut self, bound: usize) -> usize {
        // The product's high half is below the bound, which is a usize.
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
