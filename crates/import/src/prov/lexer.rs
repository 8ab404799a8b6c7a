//! Lexer for PROV-N.

use super::model::ProvError;
use super::names::ESCAPED;
use std::fmt;

/// A token of PROV-N.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Token {
    /// A keyword, a name, a time, a number or `-`, with its backslashes.
    Word(String),
    /// A string, and its language.
    Text(String, Option<String>),
    /// A name in single quotes.
    Quoted(String),
    /// An IRI in angle brackets.
    Iri(String),
    /// The type separator `%%`.
    Type,
    /// One of `( ) [ ] , ; =`
    Mark(char),
    /// End of the text.
    End,
}

impl fmt::Display for Token {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Word(word) => write!(f, "`{word}`"),
            Self::Text(..) => f.write_str("a string"),
            Self::Quoted(name) => write!(f, "'{name}'"),
            Self::Iri(iri) => write!(f, "<{iri}>"),
            Self::Type => f.write_str("`%%`"),
            Self::Mark(mark) => write!(f, "`{mark}`"),
            Self::End => f.write_str("the end of the document"),
        }
    }
}

/// Splits a text into tokens.
pub(super) struct Lexer<'a> {
    text: &'a str,
    at: usize,
}

impl<'a> Lexer<'a> {
    pub(super) fn new(text: &'a str) -> Self {
        let at = if text.starts_with('\u{feff}') { 3 } else { 0 };
        Self { text, at }
    }

    pub(super) const fn text(&self) -> &'a str {
        self.text
    }

    fn rest(&self) -> &'a str {
        self.text.get(self.at..).unwrap_or_default()
    }

    fn wrong(&self, at: usize, what: &str) -> ProvError {
        ProvError::at(self.text, at, what)
    }

    /// Skips white space and comments.
    fn skip(&mut self) -> Result<(), ProvError> {
        loop {
            let rest = self.rest();
            let blanks = rest.len() - rest.trim_start().len();
            let rest = rest.trim_start();
            let comment = if rest.starts_with("//") {
                rest.find('\n').unwrap_or(rest.len())
            } else if rest.starts_with("/*") {
                match rest.find("*/") {
                    Some(end) => end + 2,
                    None => return Err(self.wrong(self.at + blanks, "this comment does not end")),
                }
            } else {
                0
            };
            self.at += blanks + comment;
            if comment == 0 {
                return Ok(());
            }
        }
    }

    /// Returns the next token, and the byte at which it begins.
    pub(super) fn next(&mut self) -> Result<(usize, Token), ProvError> {
        self.skip()?;
        let at = self.at;
        let rest = self.rest();
        let Some(first) = rest.chars().next() else {
            return Ok((at, Token::End));
        };
        let token = match first {
            '(' | ')' | '[' | ']' | ',' | ';' | '=' => {
                self.at += 1;
                Token::Mark(first)
            }
            '%' if rest.starts_with("%%") => {
                self.at += 2;
                Token::Type
            }
            '<' => {
                let Some(end) = rest.find('>') else {
                    return Err(self.wrong(at, "this `<` has no `>`"));
                };
                self.at += end + 1;
                Token::Iri(rest.get(1..end).unwrap_or_default().to_owned())
            }
            '"' => self.string()?,
            '\'' => {
                self.at += 1;
                let word = self.word()?;
                if !self.rest().starts_with('\'') || word.is_empty() {
                    return Err(self.wrong(at, "expected 'prefix:name'"));
                }
                self.at += 1;
                Token::Quoted(word)
            }
            _ => {
                let word = self.word()?;
                if word.is_empty() {
                    return Err(self.wrong(at, &format!("`{first}` means nothing here")));
                }
                Token::Word(word)
            }
        };
        Ok((at, token))
    }

    /// Reads a word that may be a name.
    fn word(&mut self) -> Result<String, ProvError> {
        let rest = self.rest();
        let mut chars = rest.char_indices();
        let mut end = rest.len();
        while let Some((at, c)) = chars.next() {
            match c {
                '\\' => match chars.next() {
                    Some((_, next)) if ESCAPED.contains(next) => {}
                    _ => {
                        let what = format!("a backslash is allowed only before one of {ESCAPED}");
                        return Err(self.wrong(self.at + at, &what));
                    }
                },
                '%' => {
                    let hex = rest.get(at + 1..at + 3);
                    if !hex.is_some_and(|hex| hex.bytes().all(|b| b.is_ascii_hexdigit())) {
                        end = at;
                        break;
                    }
                }
                c if c.is_whitespace() || c.is_control() || "()[],;='\"<>".contains(c) => {
                    end = at;
                    break;
                }
                _ => {}
            }
        }
        self.at += end;
        Ok(rest.get(..end).unwrap_or_default().to_owned())
    }

    fn string(&mut self) -> Result<Token, ProvError> {
        let begin = self.at;
        let long = self.rest().starts_with("\"\"\"");
        let quote = if long { "\"\"\"" } else { "\"" };
        self.at += quote.len();
        let mut text = String::new();
        loop {
            let rest = self.rest();
            if rest.starts_with(quote) {
                self.at += quote.len();
                break;
            }
            let mut chars = rest.chars();
            match chars.next() {
                None => return Err(self.wrong(begin, "this string does not end")),
                Some('\n' | '\r') if !long => {
                    return Err(self.wrong(begin, "this string does not end in its line; those of several lines are in \"\"\""));
                }
                Some('\\') => {
                    let c = match chars.next() {
                        Some('t') => '\t',
                        Some('b') => '\u{8}',
                        Some('n') => '\n',
                        Some('r') => '\r',
                        Some('f') => '\u{c}',
                        Some(c @ ('"' | '\'' | '\\')) => c,
                        _ => {
                            let what =
                                "expected one of \\t \\b \\n \\r \\f \\\" \\' \\\\ in a string";
                            return Err(self.wrong(self.at, what));
                        }
                    };
                    text.push(c);
                    self.at += 2;
                }
                Some(c) => {
                    text.push(c);
                    self.at += c.len_utf8();
                }
            }
        }
        let rest = self.rest();
        let mut language = None;
        if let Some(tag) = rest.strip_prefix('@') {
            let end = tag
                .find(|c: char| !c.is_ascii_alphanumeric() && c != '-')
                .unwrap_or(tag.len());
            if end == 0 {
                return Err(self.wrong(self.at, "expected a language such as @en"));
            }
            language = tag.get(..end).map(str::to_owned);
            self.at += end + 1;
        }
        Ok(Token::Text(text, language))
    }
}
