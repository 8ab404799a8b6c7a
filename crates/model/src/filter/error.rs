//! Errors of the filter parser: position, expected input and suggestion.

use crate::caret::{self, Report};
pub(super) use crate::caret::{Span, excerpt, is_unprintable};

/// A filter that does not parse.
///
/// `Display` is a self-contained line; [`FilterParseError::render`] marks the position in the text.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("filter, line {line}, column {column}: {message}; {}", self.advice())]
pub struct FilterParseError {
    /// Byte offset of the error in the text, on a character boundary.
    pub at: usize,
    /// Length of the marked text in bytes; 0 where something is missing.
    pub len: usize,
    /// Line of the error, from 1.
    pub line: u32,
    /// Column of the error in characters, from 1.
    pub column: u32,
    /// Kind of the mistake.
    pub kind: FilterErrorKind,
    /// Description of the problem.
    pub message: String,
    /// Expected input, to be read after the word "expected".
    pub expected: String,
    /// The most similar valid text, if one is similar enough.
    pub suggestion: Option<String>,
}

/// Kinds of mistakes in a filter.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum FilterErrorKind {
    /// A character that is not part of the syntax outside strings.
    Character,
    /// A string or a quoted name lacks its closing quote.
    UnclosedString,
    /// A backslash is followed by a character without meaning.
    Escape,
    /// A number is malformed or does not fit 64 bits.
    Number,
    /// The unit behind a number is unknown.
    Unit,
    /// A parenthesis or bracket is not closed, or was never opened.
    Unbalanced,
    /// A token of the wrong kind.
    Unexpected,
    /// The operator does not exist.
    Operator,
    /// A text is not the name of an attribute.
    Name,
    /// The operator does not accept the value.
    Value,
    /// A regular expression does not compile.
    Regex,
    /// A text is not a time, or a time outside the range of 64-bit nanoseconds.
    Time,
    /// A relative time where the current time is not given.
    NoClock,
    /// A size exceeds a limit of [`crate::limits`].
    Limit,
}

/// A [`FilterParseError`] before its line and column are computed.
pub(super) type FilterFault = caret::Fault<FilterErrorKind>;

impl FilterFault {
    /// Computes the line and column in the text.
    pub(super) fn locate(self, text: &str) -> FilterParseError {
        let (at, line, column) = caret::position(text, self.span.at);
        FilterParseError {
            at,
            len: self.span.len,
            line,
            column,
            kind: self.kind,
            message: self.message,
            expected: self.expected,
            suggestion: self.suggestion,
        }
    }
}

impl FilterParseError {
    fn advice(&self) -> String {
        caret::advice(&self.expected, self.suggestion.as_deref())
    }

    /// Formats the error in several lines for a terminal: the problem, the line of the text with carets under the
    /// position, and the expected input. `text` must be the input of [`super::Expr::parse`]. There is no newline at the
    /// end.
    ///
    /// ```text
    /// error: unknown operator `betwen`
    ///   step betwen 1 AND 5
    ///        ^^^^^^
    ///   expected =, !=, <, …; did you mean `BETWEEN`?
    /// ```
    pub fn render(&self, text: &str) -> String {
        caret::render(
            text,
            &Report {
                at: self.at,
                len: self.len,
                line: self.line,
                message: &self.message,
                advice: self.advice(),
            },
        )
    }
}
