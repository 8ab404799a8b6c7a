//! Errors of the chain parser: position, expected input and suggestion.

use crate::caret::{self, Report};
pub(super) use crate::caret::{Span, excerpt, is_unprintable};

/// A traversal that does not parse.
///
/// `Display` is a self-contained line; [`TraversalParseError::render`] marks the position in the text.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("line {line}, column {column}: {message}; {}", self.advice())]
pub struct TraversalParseError {
    /// Byte offset of the error in the text, on a character boundary.
    pub at: usize,
    /// Length of the marked text in bytes; 0 where something is missing.
    pub len: usize,
    /// Line of the error, from 1.
    pub line: u32,
    /// Column of the error in characters, from 1.
    pub column: u32,
    /// Kind of the mistake.
    pub kind: TraversalErrorKind,
    /// Description of the problem.
    pub message: String,
    /// Expected input, to be read after the word "expected".
    pub expected: String,
    /// The most similar valid word, if one is similar enough.
    pub suggestion: Option<String>,
}

/// Kinds of mistakes in a chain.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum TraversalErrorKind {
    /// The text has only blanks and comments.
    Empty,
    /// A character that is not part of the syntax outside strings.
    Character,
    /// A string lacks its closing quote.
    UnclosedString,
    /// A backslash is followed by a character without meaning.
    Escape,
    /// A number is malformed or does not fit 64 bits.
    Number,
    /// A parenthesis or bracket is not closed, or was never opened.
    Unbalanced,
    /// A token of the wrong kind.
    Unexpected,
    /// The dot between two calls is missing.
    MissingDot,
    /// The call does not exist.
    UnknownCall,
    /// A call has too many or too few arguments.
    ArgumentCount,
    /// An argument has the wrong kind.
    ArgumentKind,
    /// The filter type is neither EQ nor IN nor RANGE.
    UnknownFilter,
    /// A text is not a time.
    Time,
    /// A text is not a vertex name.
    VertexName,
    /// A text is not the name of an attribute or type.
    Name,
    /// A call is in a position of the chain where it has no meaning.
    Order,
    /// A call that may occur only once is repeated.
    Duplicate,
    /// Two calls exclude each other.
    Conflict,
    /// A range contains nothing.
    EmptyRange,
    /// A condition of the filter language does not parse.
    Filter,
    /// A size exceeds a limit of [`crate::limits`].
    Limit,
}

/// A [`TraversalParseError`] before its line and column are computed.
pub(super) type TraversalFault = caret::Fault<TraversalErrorKind>;

impl TraversalFault {
    /// Computes the line and column in the text.
    pub(super) fn locate(self, text: &str) -> TraversalParseError {
        let (at, line, column) = caret::position(text, self.span.at);
        TraversalParseError {
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

impl TraversalParseError {
    fn advice(&self) -> String {
        caret::advice(&self.expected, self.suggestion.as_deref())
    }

    /// Formats the error in several lines for a terminal: the problem, the line of the text with carets under the
    /// position, and the expected input. `text` must be the input of [`crate::Traversal::parse`]. There is no newline
    /// at the end.
    ///
    /// ```text
    /// error: unknown call `retrun_fp`
    ///   v("file:/C").e("wasWrittenBy").retrun_fp()
    ///                                  ^^^^^^^^^
    ///   expected one of: e, ea, v, …; did you mean `return_fp`?
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
