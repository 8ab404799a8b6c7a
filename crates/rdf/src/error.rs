//! Errors of the engine, with the remedy in each message.

use std::fmt;

/// Errors of the engine.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// Syntax error in a query or an update.
    #[error("{0}")]
    Syntax(Box<SyntaxError>),
    /// Syntax error in RDF data.
    #[error("{place}: {message}")]
    Data {
        /// File, line and column.
        place: String,
        /// Description of the error.
        message: String,
    },
    /// Cancelled by the host, or timed out.
    #[error("the query was stopped: {0}")]
    Stopped(&'static str),
    /// An intermediate result exceeds the memory limit.
    #[error(
        "the query needs more memory than it may have: {rows} rows of {columns} columns are in \
         memory, the limit is {limit} bytes; add a LIMIT, a more selective pattern, or allow more \
         memory"
    )]
    Memory {
        /// Rows of the intermediate result.
        rows: usize,
        /// Columns of the intermediate result.
        columns: usize,
        /// Memory limit in bytes.
        limit: usize,
    },
    /// Computed strings and terms exceed the memory limit.
    #[error(
        "the query needs more memory than it may have: the strings and tables that it computes are larger than the limit of {limit} bytes; \
         make fewer or shorter strings, add a LIMIT, or allow more memory"
    )]
    MemoryOfStrings {
        /// Memory limit in bytes.
        limit: usize,
    },
    /// A computed string is too long.
    #[error(
        "the query makes a string of more than {limit} bytes, the maximum: join fewer or shorter strings"
    )]
    LongString {
        /// Limit of a string, in bytes.
        limit: usize,
    },
    /// A regular expression is too long.
    #[error(
        "the query has a regular expression of {bytes} bytes; the limit is {limit} bytes: use a shorter one"
    )]
    LongPattern {
        /// Its length in bytes.
        bytes: usize,
        /// Limit of a regular expression, in bytes.
        limit: usize,
    },
    /// The host's memory limit for all queries is exhausted.
    #[error(
        "all queries together need more memory than they may have: try again when fewer run, or ask for less"
    )]
    MemoryOfAll,
    /// A part of SPARQL that is not supported.
    #[error("{0} is not supported")]
    Unsupported(String),
    /// An update that must fail according to the standard.
    #[error("{0}")]
    Refused(String),
    /// A change of a graph that the principal may not change; contains the graph's name.
    #[error("{0}: permission denied")]
    Denied(String),
    /// The dictionary has no free ids.
    #[error(
        "the dictionary is full: it numbers 2^31 terms; drop graphs that are not needed, then checkpoint"
    )]
    Full,
    /// A term longer than the dictionary allows.
    #[error("a term of {0} bytes is longer than the {1} bytes that the dictionary takes")]
    Long(usize, usize),
    /// A triple term within too many triple terms.
    #[error(
        "a triple term is within more than {0} triple terms, the maximum: name the inner ones by reifiers"
    )]
    Nested(usize),
    /// Corrupt bytes of an image or a log.
    #[error("{0}")]
    Corrupt(String),
}

/// A syntax error in a query or update.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SyntaxError {
    /// Line number, from 1.
    pub line: usize,
    /// Column in characters, from 1.
    pub column: usize,
    /// Full message, with the line of the text and a caret.
    pub rendered: String,
}

impl fmt::Display for SyntaxError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.rendered)
    }
}

/// Result type of the engine.
pub type Result<T> = std::result::Result<T, Error>;
