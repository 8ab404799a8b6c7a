//! What a person is told about a chain that does not parse: where, what was expected, what they may have meant.

use std::fmt::Write as _;
use unicode_width::UnicodeWidthChar as _;

/// A traversal that does not parse.
///
/// `Display` is one line that stands by itself; [`ParseError::render`] shows the place in the text.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("line {line}, column {column}: {message}; {}", self.advice())]
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
    /// The closest word that would have been right, if one is close.
    pub suggestion: Option<String>,
}

/// Kinds of mistakes in a chain.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum ParseErrorKind {
    /// Nothing but blanks and comments.
    Empty,
    /// A character that no chain holds outside strings.
    Character,
    /// A string without its closing quote.
    UnclosedString,
    /// A backslash followed by something without meaning.
    Escape,
    /// A malformed number, or one that fits no 64 bits.
    Number,
    /// A parenthesis or bracket that is not closed, or one closed that was never opened.
    Unbalanced,
    /// Something in a place where something else must stand.
    Unexpected,
    /// Two calls without a dot between them.
    MissingDot,
    /// A call that does not exist.
    UnknownCall,
    /// Too many or too few arguments.
    ArgumentCount,
    /// An argument of the wrong kind.
    ArgumentKind,
    /// A filter type other than EQ, IN and RANGE.
    UnknownFilter,
    /// A text that is no time.
    Time,
    /// A text that names no vertex.
    VertexName,
    /// A text that names no attribute or type.
    Name,
    /// A call in a place of the chain where it has no meaning.
    Order,
    /// A call that may stand only once.
    Duplicate,
    /// Calls that exclude each other.
    Conflict,
    /// A range without anything inside.
    EmptyRange,
    /// Something over a limit of [`crate::limits`].
    Limit,
}

/// A piece of the text, in bytes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Span {
    pub(super) at: usize,
    pub(super) len: usize,
}

impl Span {
    pub(super) const fn new(at: usize, len: usize) -> Self {
        Self { at, len }
    }

    pub(super) const fn end(self) -> usize {
        self.at + self.len
    }

    /// From the start of this one to the end of the other.
    pub(super) const fn to(self, last: Self) -> Self {
        Self::new(self.at, last.end().saturating_sub(self.at))
    }
}

/// A [`ParseError`] before its line and column are known.
#[derive(Debug)]
pub(super) struct Fault {
    span: Span,
    kind: ParseErrorKind,
    message: String,
    expected: String,
    suggestion: Option<String>,
}

impl Fault {
    pub(super) fn new(
        span: Span,
        kind: ParseErrorKind,
        message: impl Into<String>,
        expected: impl Into<String>,
    ) -> Self {
        Self {
            span,
            kind,
            message: message.into(),
            expected: expected.into(),
            suggestion: None,
        }
    }

    pub(super) fn suggest(mut self, suggestion: Option<String>) -> Self {
        self.suggestion = suggestion;
        self
    }

    /// The error, its place counted out in the text.
    pub(super) fn locate(self, text: &str) -> ParseError {
        let at = boundary(text, self.span.at);
        let before = text.get(..at).unwrap_or_default();
        let line_start = before.rfind('\n').map_or(0, |i| i + 1);
        let column = before.get(line_start..).unwrap_or_default();
        ParseError {
            at,
            len: self.span.len,
            line: small(before.matches('\n').count() + 1),
            column: small(column.chars().count() + 1),
            kind: self.kind,
            message: self.message,
            expected: self.expected,
            suggestion: self.suggestion,
        }
    }
}

fn small(n: usize) -> u32 {
    u32::try_from(n).unwrap_or(u32::MAX)
}

/// The last character boundary at or before that byte.
fn boundary(text: &str, at: usize) -> usize {
    let at = at.min(text.len());
    (0..=at)
        .rev()
        .find(|i| text.is_char_boundary(*i))
        .unwrap_or(0)
}

/// Characters of a line that are shown around the place.
const SHOWN_BEFORE: usize = 60;
const SHOWN_AFTER: usize = 60;

impl ParseError {
    fn advice(&self) -> String {
        let mut advice = format!("expected {}", self.expected);
        if let Some(word) = &self.suggestion {
            let _ = write!(advice, "; did you mean `{word}`?");
        }
        advice
    }

    /// Several lines for a terminal: what is wrong, the line of the text with carets under the place, what was
    /// expected. `text` is what was given to [`crate::Traversal::parse`]. No newline at the end.
    ///
    /// ```text
    /// error: unknown call `retrun_fp`
    ///   v("file:/C").e("wasWrittenBy").retrun_fp()
    ///                                  ^^^^^^^^^
    ///   expected one of: e, ea, v, …; did you mean `return_fp`?
    /// ```
    pub fn render(&self, text: &str) -> String {
        let at = boundary(text, self.at);
        let start = text
            .get(..at)
            .and_then(|head| head.rfind('\n'))
            .map_or(0, |i| i + 1);
        let end = text
            .get(at..)
            .and_then(|tail| tail.find('\n'))
            .map_or(text.len(), |i| at + i);
        let marked_end = boundary(text, at.saturating_add(self.len)).clamp(at, end);

        let mut shown = String::new();
        let mut carets = String::new();
        let before: Vec<char> = text.get(start..at).unwrap_or_default().chars().collect();
        let skipped = before.len().saturating_sub(SHOWN_BEFORE);
        if skipped > 0 {
            shown.push('…');
            carets.push(' ');
        }
        for c in before.into_iter().skip(skipped) {
            show(c, ' ', &mut shown, &mut carets);
        }
        let caret_from = carets.len();
        let marked = text.get(at..marked_end).unwrap_or_default();
        let after = text.get(marked_end..end).unwrap_or_default();
        let mut left = SHOWN_AFTER;
        for (part, mark) in [(marked, '^'), (after, ' ')] {
            for c in part.trim_end_matches('\r').chars() {
                if left == 0 {
                    break;
                }
                left -= 1;
                show(c, mark, &mut shown, &mut carets);
            }
        }
        if left == 0 {
            shown.push('…');
        }
        let mut carets = carets.trim_end_matches(' ').to_owned();
        if !carets.contains('^') {
            while carets.len() < caret_from {
                carets.push(' ');
            }
            carets.push('^');
        }
        let place = if text.trim_end().contains('\n') {
            format!(" on line {}", self.line)
        } else {
            String::new()
        };
        format!(
            "error{place}: {}\n  {}\n  {carets}\n  {}",
            self.message,
            shown.trim_end(),
            self.advice()
        )
    }
}

/// Adds one character to the line shown and what stands under it. Tabs stay tabs in both, so that they line up
/// whatever the terminal's tab stops are; control characters would move the cursor and are replaced.
fn show(c: char, mark: char, shown: &mut String, carets: &mut String) {
    if c == '\t' {
        shown.push('\t');
        carets.push(if mark == ' ' { '\t' } else { mark });
        return;
    }
    let c = if is_unprintable(c) { '\u{fffd}' } else { c };
    shown.push(c);
    carets.extend(std::iter::repeat_n(mark, c.width().unwrap_or(0)));
}

/// Control characters and those that turn the direction of the text around.
pub(super) fn is_unprintable(c: char) -> bool {
    c.is_control()
        || matches!(c, '\u{200e}' | '\u{200f}' | '\u{2028}'..='\u{202e}' | '\u{2066}'..='\u{2069}' | '\u{feff}')
}

/// A piece of the text as messages quote it: no line breaks, nothing unprintable, not too long.
pub(super) fn excerpt(text: &str) -> String {
    const CHARS: usize = 40;
    let mut out: String = text
        .chars()
        .take(CHARS)
        .map(|c| if is_unprintable(c) { '\u{fffd}' } else { c })
        .collect();
    if text.chars().nth(CHARS).is_some() {
        out.push('…');
    }
    out
}
