//! What a person is told about a filter that does not parse: where, what was expected, what they may have meant.

use crate::caret::{self, Shown};
pub(super) use crate::caret::{Span, excerpt, is_unprintable};

/// A filter that does not parse.
///
/// `Display` is one line that stands by itself; [`ParseError::render`] shows the place in the text.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("filter, line {line}, column {column}: {message}; {}", self.advice())]
pub struct ParseError {
    /// Byte offset of the place in the text; always on a character's boundary.
    pub at: usize,
    /// Bytes that the place covers; 0 where something is missing.
    pub len: usize,
    /// Line of the place, from 1.
    pub line: u32,
    /// Column of the place in characters, from 1.
    pub column: u32,
    /// What kind of mistake it is.
    pub kind: ParseErrorKind,
    /// What is wrong.
    pub message: String,
    /// What would have been right, to be read after the word "expected".
    pub expected: String,
    /// The closest text that would have been right, if one is close.
    pub suggestion: Option<String>,
}

/// Kinds of mistakes in a filter.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum ParseErrorKind {
    /// A character that no filter holds outside strings.
    Character,
    /// A string or a name in quotes without its closing quote.
    UnclosedString,
    /// A backslash followed by something without meaning.
    Escape,
    /// A malformed number, or one that fits no 64 bits.
    Number,
    /// A unit behind a number that is none.
    Unit,
    /// A parenthesis or bracket that is not closed, or one closed that was never opened.
    Unbalanced,
    /// Something in a place where something else must stand.
    Unexpected,
    /// An operator that does not exist.
    Operator,
    /// A text that names no attribute.
    Name,
    /// A value that the operator has no use for.
    Value,
    /// A regular expression that does not compile.
    Regex,
    /// A text that is no time, or a time beyond what 64 bits of nanoseconds hold.
    Time,
    /// A time relative to now, where nobody knows what time it is.
    NoClock,
    /// Something over a limit of [`crate::limits`].
    Limit,
}

/// A [`ParseError`] before its line and column are known.
pub(super) type Fault = caret::Fault<ParseErrorKind>;

impl Fault {
    /// The error, its place counted out in the text.
    pub(super) fn locate(self, text: &str) -> ParseError {
        let (at, line, column) = caret::place(text, self.span.at);
        ParseError {
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

impl ParseError {
    fn advice(&self) -> String {
        caret::advice(&self.expected, self.suggestion.as_deref())
    }

    /// Several lines for a terminal: what is wrong, the line of the text with carets under the place, what was
    /// expected. `text` is what was given to [`super::Expr::parse`]. No newline at the end.
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
            &Shown {
                at: self.at,
                len: self.len,
                line: self.line,
                message: &self.message,
                advice: self.advice(),
            },
        )
    }
}
