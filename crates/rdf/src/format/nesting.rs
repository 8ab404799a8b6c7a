//! Limit on triple terms within triple terms in Turtle, `TriG`, N-Triples and N-Quads. The parsers of the libraries have none, and a term that is
//! nested too deeply overflows the stack when it is dropped.

use crate::dictionary::triple::NESTED_MAX;
use crate::error::Error;
use std::io::{self, Read};

/// State of the lexer, which recognizes brackets of triple terms.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum LexerState {
    Plain,
    /// Behind a backslash.
    Escape,
    /// Behind `<`.
    Less,
    /// Behind `<<`.
    Open,
    /// Behind `)`.
    Parenthesis,
    /// Behind `)>`.
    Close,
    Iri,
    Comment,
}

/// Counter of triple terms that are open. It reads no strings, whose ends differ between formats: a quotation mark ends the count, because none
/// occurs between the beginnings of nested triple terms.
#[derive(Debug)]
pub(crate) struct Nesting {
    open: usize,
    state: LexerState,
    line: u64,
}

impl Default for Nesting {
    fn default() -> Self {
        Self {
            open: 0,
            state: LexerState::Plain,
            line: 1,
        }
    }
}

impl Nesting {
    /// Reads the next bytes of the text.
    ///
    /// # Errors
    /// Fails if triple terms are nested too deeply.
    pub(crate) fn read(&mut self, bytes: &[u8]) -> Result<(), String> {
        for b in bytes {
            self.line += u64::from(*b == b'\n');
            self.state = match (self.state, b) {
                (LexerState::Comment, b'\n' | b'\r')
                | (LexerState::Escape, _)
                | (LexerState::Iri, b'>') => LexerState::Plain,
                (LexerState::Comment, _) => LexerState::Comment,
                (LexerState::Less, b'<') => LexerState::Open,
                (_, b'<') => LexerState::Less,
                (LexerState::Open, b'(') => {
                    self.open += 1;
                    if self.open > NESTED_MAX {
                        let error = Error::Nested(NESTED_MAX);
                        return Err(format!("line {}: {error}", self.line));
                    }
                    LexerState::Plain
                }
                (LexerState::Parenthesis, b'>') => LexerState::Close,
                (LexerState::Close, b'>') => {
                    self.open = self.open.saturating_sub(1);
                    LexerState::Plain
                }
                (_, b'"') => {
                    self.open = 0;
                    LexerState::Plain
                }
                // Further characters of an IRI.
                (LexerState::Less | LexerState::Iri, b) if *b > b' ' => LexerState::Iri,
                (_, b'\'') => {
                    self.open = 0;
                    LexerState::Plain
                }
                (_, b'#') => LexerState::Comment,
                (_, b'\\') => LexerState::Escape,
                (_, b')') => LexerState::Parenthesis,
                _ => LexerState::Plain,
            };
        }
        Ok(())
    }
}

/// A source whose triple terms are not nested too deeply.
pub(super) struct Bounded<R> {
    from: R,
    nesting: Nesting,
}

impl<R> Bounded<R> {
    pub(super) fn new(from: R) -> Self {
        Self {
            from,
            nesting: Nesting::default(),
        }
    }
}

impl<R: Read> Read for Bounded<R> {
    fn read(&mut self, to: &mut [u8]) -> io::Result<usize> {
        let n = self.from.read(to)?;
        let read = self.nesting.read(to.get(..n).unwrap_or_default());
        read.map_err(|message| io::Error::new(io::ErrorKind::InvalidData, message))?;
        Ok(n)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn is_deep(text: &str) -> bool {
        Nesting::default().read(text.as_bytes()).is_err()
    }

    #[test]
    fn nested_triple_terms_have_a_limit() {
        for level in [
            "<<( <http://a/s#x> <http://a/p> ",
            "<<(:a :b",
            "<<(:a :b # \" )>> ' \n",
            "<<( :a\\# :b\\'",
            "<<(<a'>:b",
        ] {
            assert!(!is_deep(&level.repeat(NESTED_MAX)), "{level}");
            assert!(is_deep(&level.repeat(NESTED_MAX + 1)), "{level}");
        }
    }

    #[test]
    fn other_triple_terms_have_none() {
        for text in [
            "<<( <http://a/s#x> <http://a/p> <<(:a :b :c)>> )>> . ",
            "<<( :a :b \"x\"@en )>> , ",
            "\"std::cout <<(1)\" ",
            "'''<<( <<( ''' ",
            "<< << :a :b :c >> :b :c >> ",
            "# <<(\n",
        ] {
            assert!(!is_deep(&text.repeat(1000)), "{text}");
        }
    }
}
