//! What can go wrong, and what to do then.

use std::fmt;

/// Errors of the engine.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// The text of a query or an update is wrong.
    #[error("{0}")]
    Syntax(Box<Mistake>),
    /// The text of RDF data is wrong.
    #[error("{place}: {message}")]
    Data {
        /// File, line and column.
        place: String,
        /// What is wrong there.
        message: String,
    },
    /// The host gave up, or the time that was asked for is over.
    #[error("the query was stopped: {0}")]
    Stopped(&'static str),
    /// An intermediate result is too large.
    #[error(
        "the query needs more memory than it may have: {rows} rows of {columns} columns stand in memory, the limit is {limit} bytes; \
         add a LIMIT, a more selective pattern, or allow more memory"
    )]
    Memory {
        /// Rows of the result that was too large.
        rows: usize,
        /// Its columns.
        columns: usize,
        /// What was allowed.
        limit: usize,
    },
    /// The strings and terms that a query computes are too many or too long.
    #[error(
        "the query needs more memory than it may have: the strings and tables that it computes are larger than the limit of {limit} bytes; \
         make fewer or shorter strings, add a LIMIT, or allow more memory"
    )]
    MemoryOfStrings {
        /// What was allowed, in bytes.
        limit: usize,
    },
    /// One computed string is too long.
    #[error(
        "the query makes a string of more than {limit} bytes, the most that one may have: join fewer or shorter strings"
    )]
    LongString {
        /// What was allowed, in bytes.
        limit: usize,
    },
    /// A regular expression is too long.
    #[error(
        "the query has a regular expression of {bytes} bytes; the limit is {limit} bytes: use a shorter one"
    )]
    LongPattern {
        /// Its length in bytes.
        bytes: usize,
        /// What was allowed, in bytes.
        limit: usize,
    },
    /// All queries of the host together have no memory left for this one.
    #[error(
        "all queries together need more memory than they may have: ask again when fewer run, or ask for less"
    )]
    MemoryOfAll,
    /// Something of SPARQL that is not there.
    #[error("{0} is not supported")]
    Unsupported(String),
    /// An update that the standard says must fail.
    #[error("{0}")]
    Refused(String),
    /// A change of a graph that whoever asks may not change: its name.
    #[error("{0}: permission denied")]
    Denied(String),
    /// The database holds all that it can number.
    #[error(
        "the dictionary is full: it numbers 2^31 terms; drop graphs that are not needed, then checkpoint"
    )]
    Full,
    /// A term longer than the dictionary takes.
    #[error("a term of {0} bytes is longer than the {1} bytes that the dictionary takes")]
    Long(usize, usize),
    /// The bytes of an image or of a log are not what was written.
    #[error("{0}")]
    Corrupt(String),
}

/// A mistake in the text of a query.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Mistake {
    /// Line, from 1.
    pub line: usize,
    /// Column in characters, from 1.
    pub column: usize,
    /// The whole message, with the line of the text and a caret.
    pub shown: String,
}

impl fmt::Display for Mistake {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.shown)
    }
}

/// Results of the engine.
pub type Result<T> = std::result::Result<T, Error>;
