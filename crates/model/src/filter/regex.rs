//! Regular expressions: those of the crate `regex`, which take linear time whatever they are.

use super::error::is_unprintable;
use std::fmt;

/// Bytes that a compiled regular expression may take, and the cache of its automaton beside it.
const COMPILED_BYTES_MAX: usize = 1 << 20;

/// A regular expression. Two are equal if they are written the same.
#[derive(Clone)]
pub struct Regex(::regex::Regex);

/// A text that is no regular expression.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{0}")]
pub struct RegexError(pub String);

impl Regex {
    /// Compiles it.
    pub fn new(text: &str) -> Result<Self, RegexError> {
        // So that it can be written back on one line.
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

    /// Whether it is found anywhere in the text.
    pub fn is_match(&self, text: &str) -> bool {
        self.0.is_match(text)
    }

    /// As it was written.
    pub fn as_str(&self) -> &str {
        self.0.as_str()
    }
}

/// What the library says, on one line.
fn reason(error: &::regex::Error) -> String {
    match error {
        ::regex::Error::CompiledTooBig(_) => {
            format!("compiled, it takes more than {COMPILED_BYTES_MAX} bytes")
        }
        // The last line says what is wrong; those before draw the place in their own way.
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
