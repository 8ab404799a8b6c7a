//! Tokens of a filter (words, strings, numbers, signs) with their positions.

use super::error::{FilterErrorKind as Kind, FilterFault, Span, excerpt};
use super::token::{Part, Token};
use crate::traversal::{hexadecimal, parse_nanos};
use crate::value::Value;

/// Signs, longest first, so that `<=` is not read as `<`.
const SIGNS: [&str; 21] = [
    "&&", "||", "==", "!=", "<>", "<=", ">=", "!~", "=~", "=", "<", ">", "~", "!", "(", ")", "[",
    "]", ",", "-", "+",
];

/// Reads tokens from front to back.
#[derive(Debug, Clone)]
pub(super) struct Lexer<'a> {
    text: &'a str,
    at: usize,
}

impl<'a> Lexer<'a> {
    pub(super) fn new(text: &'a str) -> Self {
        Self { text, at: 0 }
    }

    fn rest(&self) -> &'a str {
        self.text.get(self.at..).unwrap_or_default()
    }

    fn peek(&self) -> Option<char> {
        self.rest().chars().next()
    }

    fn since(&self, start: usize) -> &'a str {
        self.text.get(start..self.at).unwrap_or_default()
    }

    fn span(&self, start: usize) -> Span {
        Span::new(start, self.at - start)
    }

    fn take_while(&mut self, keep: impl Fn(char) -> bool) -> &'a str {
        let rest = self.rest();
        let len = rest.find(|c| !keep(c)).unwrap_or(rest.len());
        self.at += len;
        rest.get(..len).unwrap_or_default()
    }

    fn skip_blanks(&mut self) {
        self.take_while(|c| c.is_whitespace() || c == '\u{feff}');
    }

    /// Reads the next token and its position. With `pattern`, a string is a pattern and keeps its backslashes.
    pub(super) fn next(&mut self, pattern: bool) -> Result<(Token, Span), FilterFault> {
        self.skip_blanks();
        let start = self.at;
        let Some(c) = self.peek() else {
            return Ok((Token::End, Span::new(start, 0)));
        };
        let token = match c {
            '\'' | '"' | '`' => self.quoted(c, pattern)?,
            '0'..='9' => self.number_or_time()?,
            '@' => {
                self.at += 1;
                self.take_while(|c| c.is_ascii_digit() || matches!(c, '.' | '-'));
                Token::Time(self.since(start).to_owned())
            }
            c if c.is_alphabetic() || c == '_' => self.word_or_literal()?,
            c => {
                let rest = self.rest();
                let Some(sign) = SIGNS.into_iter().find(|sign| rest.starts_with(sign)) else {
                    return Err(unexpected_character(c, Span::new(start, c.len_utf8())));
                };
                self.at += sign.len();
                Token::Sign(sign)
            }
        };
        Ok((token, self.span(start)))
    }

    /// Reads a name, a keyword, or a literal that begins with a letter and a quote.
    fn word_or_literal(&mut self) -> Result<Token, FilterFault> {
        let start = self.at;
        let word = self.word();
        if !matches!(word, "t" | "x") || !matches!(self.peek(), Some('\'' | '"')) {
            return Ok(Token::Word(word.to_owned()));
        }
        let quote = self.peek().unwrap_or('\'');
        let text = self.string(quote, false)?;
        let span = self.span(start);
        let literal = if word == "t" {
            parse_nanos(&text).map(Value::Timestamp).ok_or_else(|| {
                FilterFault::new(
                    span,
                    Kind::Time,
                    format!("`{}` is not a time", excerpt(&text)),
                    "RFC 3339 (t'2026-03-01T12:00:00Z'), a date (t'2026-03-01', its first moment) or t'@SECONDS', from \
                     1677-09-22 to 2262-04-11",
                )
            })?
        } else {
            hexadecimal(&text).map(Value::Bytes).ok_or_else(|| {
                FilterFault::new(
                    span,
                    Kind::Value,
                    format!("`{}` is not a byte string", excerpt(&text)),
                    "an even number of hexadecimal digits, as in x'00ff'",
                )
            })?
        };
        Ok(Token::Literal(literal))
    }

    /// Reads a word: letters, digits and `_`, with `-`, `.`, `:` and `/` between two of those.
    fn word(&mut self) -> &'a str {
        let start = self.at;
        let inner = |c: char| c.is_alphanumeric() || c == '_';
        loop {
            self.take_while(inner);
            let mut ahead = self.rest().chars();
            let (sign, behind) = (ahead.next(), ahead.next());
            let joins = matches!(sign, Some('-' | '.' | ':' | '/')) && behind.is_some_and(inner);
            // `now-2h` is a time, not a name.
            let now = self.since(start).eq_ignore_ascii_case("now")
                && sign == Some('-')
                && behind.is_some_and(|c| c.is_ascii_digit());
            if !joins || now {
                return self.since(start);
            }
            self.at += 1;
        }
    }

    fn quoted(&mut self, quote: char, pattern: bool) -> Result<Token, FilterFault> {
        let text = self.string(quote, pattern && quote != '`')?;
        Ok(Token::Quoted(quote, text))
    }

    /// Reads a string, from its opening quote on. A doubled quote stands for one quote.
    fn string(&mut self, quote: char, pattern: bool) -> Result<String, FilterFault> {
        let open = self.at;
        self.at += quote.len_utf8();
        let mut out = String::new();
        loop {
            let here = self.at;
            let Some(c) = self.peek().filter(|c| *c != '\n') else {
                return Err(FilterFault::new(
                    Span::new(open, here - open),
                    Kind::UnclosedString,
                    "this string is not closed",
                    format!("a closing {quote} on the same line (write a line break as \\n)"),
                ));
            };
            self.at += c.len_utf8();
            if c == quote {
                if self.peek() != Some(quote) {
                    return Ok(out);
                }
                self.at += quote.len_utf8();
                out.push(quote);
            } else if c != '\\' {
                out.push(c);
            } else if pattern {
                out.push(c);
                // The character behind a backslash belongs to it, even the closing quote.
                if let Some(next) = self.peek().filter(|c| *c != '\n') {
                    self.at += next.len_utf8();
                    out.push(next);
                }
            } else {
                out.push(self.escape(here)?);
            }
        }
    }

    /// Reads the escape whose backslash is at `start`.
    fn escape(&mut self, start: usize) -> Result<char, FilterFault> {
        let c = self.peek().filter(|c| *c != '\n');
        self.at += c.map_or(0, char::len_utf8);
        let resolved = match c {
            Some('n') => Some('\n'),
            Some('r') => Some('\r'),
            Some('t') => Some('\t'),
            Some('0') => Some('\0'),
            Some(c @ ('\\' | '"' | '\'' | '`')) => Some(c),
            Some('u') if self.peek() == Some('{') => {
                self.at += 1;
                let digits = self.take_while(|c| c.is_ascii_hexdigit());
                let closed = self.peek() == Some('}');
                self.at += usize::from(closed);
                u32::from_str_radix(digits, 16)
                    .ok()
                    .filter(|_| closed)
                    .and_then(char::from_u32)
            }
            _ => None,
        };
        resolved.ok_or_else(|| {
            FilterFault::new(
                self.span(start),
                Kind::Escape,
                format!(
                    "`{}` has no meaning in a string",
                    excerpt(self.since(start))
                ),
                r#"\n, \r, \t, \0, \\, \", \', \` or \u{…} with a code point in hexadecimal"#,
            )
        })
    }

    fn number_or_time(&mut self) -> Result<Token, FilterFault> {
        let start = self.at;
        if let Some(len) = time_len(self.rest()) {
            self.at += len;
            return Ok(Token::Time(self.since(start).to_owned()));
        }
        let mut parts = Vec::new();
        while self.peek().is_some_and(|c| c.is_ascii_digit()) {
            parts.push(self.part()?);
        }
        // `12abc.def` was probably meant as one word.
        let letter = |c: char| c.is_alphanumeric() || c == '_';
        if self.peek().is_some_and(letter) {
            self.take_while(letter);
            return Err(not_a_number(self.since(start), self.span(start)));
        }
        Ok(Token::Number(parts))
    }

    /// Reads digits and the letters directly behind them.
    fn part(&mut self) -> Result<Part, FilterFault> {
        let start = self.at;
        let digit = |c: char| c.is_ascii_digit() || c == '_';
        if self.rest().starts_with("0x") || self.rest().starts_with("0X") {
            self.at += 2;
            self.take_while(|c| c.is_ascii_hexdigit() || c == '_');
        } else {
            self.take_while(digit);
            let behind = |n: usize| self.rest().as_bytes().get(n).copied();
            if behind(0) == Some(b'.') && behind(1).is_some_and(|b| b.is_ascii_digit()) {
                self.at += 1;
                self.take_while(digit);
            }
            let mark = self.at;
            if matches!(self.peek(), Some('e' | 'E')) {
                self.at += 1;
                if matches!(self.peek(), Some('+' | '-')) {
                    self.at += 1;
                }
                if self.take_while(|c| c.is_ascii_digit()).is_empty() {
                    self.at = mark;
                }
            }
        }
        let digits = self.since(start);
        if digits.ends_with('_') || digits.contains("__") || digits.contains("_.") {
            return Err(FilterFault::new(
                self.span(start),
                Kind::Number,
                format!("`{}` is not a number", excerpt(digits)),
                "single `_` between digits only, as in 1_000_000",
            ));
        }
        let unit = self.take_while(char::is_alphabetic);
        Ok(Part {
            digits: digits.to_owned(),
            unit: unit.to_owned(),
            span: self.span(start),
        })
    }
}

/// Returns the length of the time at the start of the text, if there is one: a date, with or without `T` or a blank and
/// a time of day.
fn time_len(text: &str) -> Option<usize> {
    let bytes = text.as_bytes();
    let fits = |from: usize, form: &[u8]| {
        form.iter().enumerate().all(|(i, f)| {
            let byte = bytes.get(from + i);
            byte.is_some_and(|b| (*f == b'0' && b.is_ascii_digit()) || b == f)
        })
    };
    if !fits(0, b"0000-00-00") {
        return None;
    }
    let clock = fits(11, b"00:00");
    match bytes.get(10) {
        Some(b'T' | b't') => {}
        Some(b' ') if clock => {}
        _ => return Some(10),
    }
    let rest = bytes.get(11..).unwrap_or_default();
    let len = rest
        .iter()
        .position(|b| !(b.is_ascii_alphanumeric() || matches!(b, b':' | b'.' | b'+' | b'-')))
        .unwrap_or(rest.len());
    Some(11 + len)
}

fn not_a_number(text: &str, span: Span) -> FilterFault {
    FilterFault::new(
        span,
        Kind::Number,
        format!("`{}` is not a number", excerpt(text)),
        format!(
            "a number with a unit or without; a string in quotes ('{0}'); a name that begins with a digit in double \
             quotes (\"{0}\")",
            excerpt(text)
        ),
    )
}

/// Builds the error for a character that is not part of the syntax outside strings.
fn unexpected_character(c: char, span: Span) -> FilterFault {
    let expected = match c {
        '“' | '”' | '„' | '‘' | '’' | '«' | '»' => {
            "straight quotes: 'text' around a string, \"name\" around a name"
        }
        '&' => "AND or && between two conditions",
        '|' => "OR or || between two conditions",
        '%' | '*' | '?' => "wildcards inside the quotes of LIKE 'run%' or GLOB 'run*'",
        ';' => "the end of the filter (no `;` after it)",
        '{' | '}' => "conditions in parentheses, lists in brackets",
        '$' | '#' | '\\' | ':' | '/' | '.' => {
            "quotes: 'text' around a string, \"name\" around a name with other signs than letters, digits and _"
        }
        _ => "a name, an operator, a number, a string in quotes, or AND, OR, NOT",
    };
    FilterFault::new(
        span,
        Kind::Character,
        format!("unexpected character `{}`", excerpt(&c.to_string())),
        expected,
    )
}
