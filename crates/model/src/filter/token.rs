//! What a filter's text consists of.

use super::error::Span;
use crate::value::Value;

/// One piece of a filter.
#[derive(Debug, Clone, PartialEq)]
pub(super) enum Token {
    /// `energy`, `AND`, `Conf_0`.
    Word(String),
    /// `'…'`, `"…"` or `` `…` ``: the quote and what it holds, escapes resolved. Behind an operator that takes a pattern
    /// backslashes are left as they are.
    Quoted(char, String),
    /// A number, with what follows it directly: `2.5`, `1GiB`, `2h30m`.
    Number(Vec<Part>),
    /// A time without quotes: `2026-03-01`, `@1700000000`.
    Time(String),
    /// `t'…'` or `x'…'`.
    Literal(Value),
    /// `=`, `<=`, `(`, ….
    Sign(&'static str),
    /// The end of the text.
    End,
}

/// A number and its unit, which may be empty.
#[derive(Debug, Clone, PartialEq)]
pub(super) struct Part {
    /// As written.
    pub(super) digits: String,
    pub(super) unit: String,
    pub(super) span: Span,
}

impl Token {
    pub(super) fn is_word(&self, word: &str) -> bool {
        matches!(self, Self::Word(w) if w.eq_ignore_ascii_case(word))
    }
}

/// Words that are no names unless they stand in double quotes.
pub(super) const RESERVED: [&str; 14] = [
    "AND", "OR", "NOT", "EXISTS", "TRUE", "FALSE", "NULL", "BETWEEN", "IN", "LIKE", "ILIKE",
    "GLOB", "MATCHES", "CONTAINS",
];

/// Whether a word is one of those.
pub(super) fn is_reserved(word: &str) -> bool {
    RESERVED.iter().any(|r| r.eq_ignore_ascii_case(word))
}
