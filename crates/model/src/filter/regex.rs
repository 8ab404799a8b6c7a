//! Regular expressions of the crate `regex`, which match in linear time.

use super::error::is_unprintable;
use std::fmt;

/// Largest size of a compiled regular expression, and of the cache of its automaton, in bytes.
const COMPILED_BYTES_MAX: usize = 1 << 20;

/// A regular expression. Two are equal if their texts are equal.
#[derive(Clone)]
pub struct Regex(::regex::Regex);

/// The error for a text that is not a regular expression.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{0}")]
pub struct RegexError(pub String);

impl Regex {
    /// Compiles a regular expression.
    pub fn new(text: &str) -> Result<Self, RegexError> {
        // Unprintable characters are refused, so that the filter can be formatted on one line.
        if let Some(c) = text.chars().find(|c| is_unprintable(*c)) {
            let message = format!(
                "it has the character {:#x}, which must be written \\x{{{0:x}}}",
                u32::from(c)
            );
            return Err(RegexError(message));
        }
        ::regex::RegexBuilder::new(text)
            .size_limit(COMPILED_BYTES_MAX)
            .dfa_size_limit(COMPILED_BYTES_MAX)
            .build()
            .map(Self)
            .map_err(|e| RegexError(reason(&e)))
    }

    /// Whether the expression occurs anywhere in the text.
    pub fn is_match(&self, text: &str) -> bool {
        self.0.is_match(text)
    }

    /// Returns the text of the expression.
    pub fn as_str(&self) -> &str {
        self.0.as_str()
    }
}

/// Returns the library's message on one line.
fn reason(error: &::regex::Error) -> String {
    match error {
        ::regex::Error::CompiledTooBig(_) => {
            format!("compiled, it takes more than {COMPILED_BYTES_MAX} bytes")
        }
        // The last line has the reason; those before it mark the position in the library's own way.
        other => {
            let text = other.to_string();
            let last = text.lines().last().unwrap_or_default().trim();
            last.strip_prefix("error: ").unwrap_or(last).to_owned()
        }
    }
}

impl PartialEq for Regex {
    fn eq(&self, other: &Self) -> bool {
        self.as_str() == other.as_str()
    }
}

impl fmt::Debug for Regex {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Regex({:?})", self.as_str())
    }
}
