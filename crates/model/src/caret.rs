//! Error positions shared by the parsers of traversals and filters, and their rendering with carets under the offending
//! text.

use std::fmt::Write as _;
use unicode_width::UnicodeWidthChar as _;

/// A range of the text, in bytes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Span {
    pub(crate) at: usize,
    pub(crate) len: usize,
}

impl Span {
    pub(crate) const fn new(at: usize, len: usize) -> Self {
        Self { at, len }
    }

    pub(crate) const fn end(self) -> usize {
        self.at + self.len
    }

    /// Returns the span from the start of this one to the end of `last`.
    pub(crate) const fn to(self, last: Self) -> Self {
        Self::new(self.at, last.end().saturating_sub(self.at))
    }
}

/// A parse error before its line and column are computed.
#[derive(Debug)]
pub(crate) struct Fault<K> {
    pub(crate) span: Span,
    pub(crate) kind: K,
    pub(crate) message: String,
    pub(crate) expected: String,
    pub(crate) suggestion: Option<String>,
}

impl<K> Fault<K> {
    pub(crate) fn new(
        span: Span,
        kind: K,
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

    pub(crate) fn suggest(mut self, suggestion: Option<String>) -> Self {
        self.suggestion = suggestion;
        self
    }
}

/// Returns the byte offset moved back to a character boundary, with its line and column, both from 1.
pub(crate) fn position(text: &str, at: usize) -> (usize, u32, u32) {
    let at = boundary(text, at);
    let before = text.get(..at).unwrap_or_default();
    let line_start = before.rfind('\n').map_or(0, |i| i + 1);
    let column = before.get(line_start..).unwrap_or_default();
    (
        at,
        small(before.matches('\n').count() + 1),
        small(column.chars().count() + 1),
    )
}

/// Formats the expected input and, if there is one, the suggested replacement.
pub(crate) fn advice(expected: &str, suggestion: Option<&str>) -> String {
    let mut advice = format!("expected {expected}");
    if let Some(word) = suggestion {
        let _ = write!(advice, "; did you mean `{word}`?");
    }
    advice
}

fn small(n: usize) -> u32 {
    u32::try_from(n).unwrap_or(u32::MAX)
}

/// Returns the last character boundary at or before the byte offset.
fn boundary(text: &str, at: usize) -> usize {
    let at = at.min(text.len());
    (0..=at)
        .rev()
        .find(|i| text.is_char_boundary(*i))
        .unwrap_or(0)
}

/// Number of characters of the line shown on each side of the position.
const CONTEXT_BEFORE: usize = 60;
const CONTEXT_AFTER: usize = 60;

/// The data that [`render`] prints.
pub(crate) struct Report<'a> {
    pub(crate) at: usize,
    pub(crate) len: usize,
    pub(crate) line: u32,
    pub(crate) message: &'a str,
    pub(crate) advice: String,
}

/// Formats an error in several lines for a terminal: the message, the line of the text with carets under the span, and
/// the advice. There is no newline at the end.
pub(crate) fn render(text: &str, report: &Report<'_>) -> String {
    let at = boundary(text, report.at);
    let start = text
        .get(..at)
        .and_then(|head| head.rfind('\n'))
        .map_or(0, |i| i + 1);
    let end = text
        .get(at..)
        .and_then(|tail| tail.find('\n'))
        .map_or(text.len(), |i| at + i);
    let marked_end = boundary(text, at.saturating_add(report.len)).clamp(at, end);

    let mut shown = String::new();
    let mut carets = String::new();
    let before: Vec<char> = text.get(start..at).unwrap_or_default().chars().collect();
    let skipped = before.len().saturating_sub(CONTEXT_BEFORE);
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
    let mut left = CONTEXT_AFTER;
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
    let on_line = if text.trim_end().contains('\n') {
        format!(" on line {}", report.line)
    } else {
        String::new()
    };
    format!(
        "error{on_line}: {}\n  {}\n  {carets}\n  {}",
        report.message,
        shown.trim_end(),
        report.advice
    )
}

/// Adds one character to the printed line and its mark to the line of carets. Tabs stay tabs in both lines, so that the
/// lines align whatever the terminal's tab stops are; control characters would move the cursor and are replaced.
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

/// Whether the character is a control character or changes the direction of the text.
pub(crate) fn is_unprintable(c: char) -> bool {
    c.is_control()
        || matches!(c, '\u{200e}' | '\u{200f}' | '\u{2028}'..='\u{202e}' | '\u{2066}'..='\u{2069}' | '\u{feff}')
}

/// Returns a part of the text for messages: one line, without unprintable characters, at most 40 characters.
pub(crate) fn excerpt(text: &str) -> String {
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
