//! Tokens of a filter.

use super::error::Span;
use crate::value::Value;

/// A token of a filter.
#[derive(Debug, Clone, PartialEq)]
pub(super) enum Token {
    /// A name or keyword: `energy`, `AND`, `Conf_0`.
    Word(String),
    /// A quoted text `'…'`, `"…"` or `` `…` ``: the quote and the text, escapes resolved. Behind an operator that takes
    /// a pattern, backslashes are kept.
    Quoted(char, String),
    /// A number with the letters that follow it directly: `2.5`, `1GiB`, `2h30m`.
    Number(Vec<Part>),
    /// A time without quotes: `2026-03-01`, `@1700000000`.
    Time(String),
    /// A time `t'…'` or bytes `x'…'`.
    Literal(Value),
    /// An operator or punctuation: `=`, `<=`, `(`, ….
    Sign(&'static str),
    /// The end of the text.
    End,
}

/// A number and its unit, which may be empty.
#[derive(Debug, Clone, PartialEq)]
pub(super) struct Part {
    /// The digits as written.
    pub(super) digits: String,
    pub(super) unit: String,
    pub(super) span: Span,
}

impl Token {
    pub(super) fn is_word(&self, word: &str) -> bool {
        matches!(self, Self::Word(w) if w.eq_ignore_ascii_case(word))
    }
}

/// Keywords, which are names only in double quotes.
pub(super) const RESERVED: [&str; 14] = [
    "AND", "OR", "NOT", "EXISTS", "TRUE", "FALSE", "NULL", "BETWEEN", "IN", "LIKE", "ILIKE",
    "GLOB", "MATCHES", "CONTAINS",
];

/// Whether a word is a keyword.
pub(super) fn is_reserved(word: &str) -> bool {
    RESERVED.iter().any(|r| r.eq_ignore_ascii_case(word))
}
