//! Tokens of the chain syntax (words, strings, numbers, signs) with their positions.

use super::error::{Span, TraversalErrorKind as Kind, TraversalFault, excerpt};
use crate::schema::nearest;
use crate::value::Value;
use jiff::{Timestamp, civil, tz::TimeZone};

/// A token of a chain.
#[derive(Debug, Clone, PartialEq)]
pub(super) enum ChainToken {
    /// A word: `repeat`, `EQ`, `size`, `true`.
    Word(String),
    /// A string `"…"`, escapes resolved.
    Text(String),
    /// A number, `t"…"` or `x"…"`.
    Literal(Value),
    /// One character of `().,=[]`.
    Sign(char),
    /// The end of the text.
    End,
}

/// Reads tokens from front to back.
#[derive(Debug, Clone)]
pub(super) struct ChainLexer<'a> {
    text: &'a str,
    at: usize,
}

/// Multipliers that may follow a number: decimal as in disk sizes, binary as in memory sizes.
const SUFFIXES: [(&str, i64); 18] = [
    ("B", 1),
    ("k", 1_000),
    ("K", 1_000),
    ("M", 1_000_000),
    ("G", 1_000_000_000),
    ("T", 1_000_000_000_000),
    ("P", 1_000_000_000_000_000),
    ("kB", 1_000),
    ("KB", 1_000),
    ("MB", 1_000_000),
    ("GB", 1_000_000_000),
    ("TB", 1_000_000_000_000),
    ("PB", 1_000_000_000_000_000),
    ("KiB", 1 << 10),
    ("MiB", 1 << 20),
    ("GiB", 1 << 30),
    ("TiB", 1 << 40),
    ("PiB", 1 << 50),
];

impl<'a> ChainLexer<'a> {
    pub(super) fn new(text: &'a str) -> Self {
        Self { text, at: 0 }
    }

    fn rest(&self) -> &'a str {
        self.text.get(self.at..).unwrap_or_default()
    }

    fn peek(&self) -> Option<char> {
        self.rest().chars().next()
    }

    fn peek_second(&self) -> Option<char> {
        self.rest().chars().nth(1)
    }

    fn take_while(&mut self, keep: impl Fn(char) -> bool) -> &'a str {
        let rest = self.rest();
        let len = rest.find(|c| !keep(c)).unwrap_or(rest.len());
        self.at += len;
        rest.get(..len).unwrap_or_default()
    }

    fn skip_blanks(&mut self) {
        loop {
            self.take_while(|c| c.is_whitespace() || c == '\u{feff}');
            if self.peek() != Some('#') {
                return;
            }
            self.take_while(|c| c != '\n');
        }
    }

    /// Returns the text from `at` up to the next blank, quote, comma or closing sign, which was probably meant as one
    /// word.
    pub(super) fn run_from(&self, at: usize) -> &'a str {
        let rest = self.text.get(at..).unwrap_or_default();
        let len = rest
            .find(|c: char| c.is_whitespace() || matches!(c, ',' | ')' | ']' | '"' | '\''))
            .unwrap_or(rest.len());
        rest.get(..len).unwrap_or_default()
    }

    /// Whether a colon or slash follows immediately, as in a vertex name without quotes.
    pub(super) fn at_name_sign(&self) -> bool {
        matches!(self.peek(), Some(':' | '/'))
    }

    /// Reads the next token and its position.
    pub(super) fn next(&mut self) -> Result<(ChainToken, Span), TraversalFault> {
        self.skip_blanks();
        let start = self.at;
        let Some(c) = self.peek() else {
            return Ok((ChainToken::End, Span::new(start, 0)));
        };
        let token = match c {
            '(' | ')' | '.' | ',' | '=' | '[' | ']' => {
                self.at += 1;
                ChainToken::Sign(c)
            }
            '"' | '\'' => ChainToken::Text(self.string()?),
            't' | 'x' if matches!(self.peek_second(), Some('"' | '\'')) => {
                self.at += 1;
                let text = self.string()?;
                let span = Span::new(start, self.at - start);
                if c == 't' {
                    ChainToken::Literal(Value::Timestamp(timestamp(&text, span)?))
                } else {
                    ChainToken::Literal(Value::Bytes(byte_string(&text, span)?))
                }
            }
            '0'..='9' => ChainToken::Literal(self.number()?),
            '-' if matches!(self.peek_second(), Some('0'..='9')) => {
                ChainToken::Literal(self.number()?)
            }
            '-' if self.rest().starts_with("-inf") => {
                self.at += 4;
                ChainToken::Literal(Value::F64(f64::NEG_INFINITY))
            }
            c if c.is_alphabetic() || c == '_' => {
                let word = self.take_while(|c| c.is_alphanumeric() || c == '_' || c == '-');
                ChainToken::Word(word.to_owned())
            }
            c => return Err(unexpected_character(c, Span::new(start, c.len_utf8()))),
        };
        Ok((token, Span::new(start, self.at - start)))
    }

    /// Reads a string, from its opening quote on.
    fn string(&mut self) -> Result<String, TraversalFault> {
        let open = self.at;
        let quote = self.peek().unwrap_or('"');
        self.at += quote.len_utf8();
        let mut out = String::new();
        loop {
            let here = self.at;
            let Some(c) = self.peek().filter(|c| *c != '\n') else {
                return Err(TraversalFault::new(
                    Span::new(open, here - open),
                    Kind::UnclosedString,
                    "this string is not closed",
                    format!("a closing {quote} on the same line (write a line break as \\n)"),
                ));
            };
            self.at += c.len_utf8();
            if c == quote {
                return Ok(out);
            }
            out.push(if c == '\\' { self.escape(here)? } else { c });
        }
    }

    /// Reads the escape whose backslash is at `start`.
    fn escape(&mut self, start: usize) -> Result<char, TraversalFault> {
        let c = self.peek().filter(|c| *c != '\n');
        self.at += c.map_or(0, char::len_utf8);
        let resolved = match c {
            Some('n') => Some('\n'),
            Some('r') => Some('\r'),
            Some('t') => Some('\t'),
            Some('0') => Some('\0'),
            Some(c @ ('\\' | '"' | '\'')) => Some(c),
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
            let written = self.text.get(start..self.at).unwrap_or_default();
            TraversalFault::new(
                Span::new(start, self.at - start),
                Kind::Escape,
                format!("`{}` has no meaning in a string", excerpt(written)),
                r#"\n, \r, \t, \0, \\, \", \' or \u{…} with a code point in hexadecimal"#,
            )
        })
    }

    /// Reads a number with its optional suffix.
    fn number(&mut self) -> Result<Value, TraversalFault> {
        let start = self.at;
        let digit = |c: char| c.is_ascii_digit() || c == '_';
        if self.peek() == Some('-') {
            self.at += 1;
        }
        self.take_while(digit);
        let mut whole = true;
        if self.peek() == Some('.') && self.peek_second().is_some_and(|c| c.is_ascii_digit()) {
            whole = false;
            self.at += 1;
            self.take_while(digit);
        }
        if matches!(self.peek(), Some('e' | 'E')) {
            let mark = self.at;
            self.at += 1;
            if matches!(self.peek(), Some('+' | '-')) {
                self.at += 1;
            }
            if self.peek().is_some_and(|c| c.is_ascii_digit()) {
                whole = false;
                self.take_while(digit);
            } else {
                self.at = mark;
            }
        }
        let written = self.text.get(start..self.at).unwrap_or_default();
        let suffix = self.take_while(|c| c.is_alphanumeric() || c == '_');
        let span = Span::new(start, self.at - start);
        let fault = |message: String, expected: &str| {
            Err(TraversalFault::new(span, Kind::Number, message, expected))
        };
        let shown = excerpt(self.text.get(start..self.at).unwrap_or_default());
        if written.ends_with('_') || written.contains("__") || written.contains("_.") {
            return fault(
                format!("`{shown}` is not a number"),
                "single `_` between digits only, as in 1_000_000",
            );
        }
        let digits = written.replace('_', "");
        let unit = if suffix.is_empty() {
            None
        } else {
            match SUFFIXES.iter().find(|(name, _)| *name == suffix) {
                Some((_, unit)) => Some(*unit),
                None => {
                    return Err(TraversalFault::new(
                        span,
                        Kind::Number,
                        format!("`{shown}` is not a number: unknown suffix `{}`", excerpt(suffix)),
                        "no suffix or one of: k, M, G, T, P (1000s, B may follow), KiB, MiB, GiB, TiB, PiB",
                    )
                    .suggest(nearest(suffix, SUFFIXES.iter().map(|(name, _)| *name))));
                }
            }
        };
        let range =
            "an integer from -9223372036854775808 to 9223372036854775807, or a double as in 1e20";
        match (whole, unit) {
            (true, None) => digits
                .parse()
                .map(Value::I64)
                .or_else(|_| fault(format!("`{shown}` does not fit 64 bits"), range)),
            (true, Some(unit)) => {
                let scaled = digits.parse::<i64>().ok().and_then(|n| n.checked_mul(unit));
                scaled.map(Value::I64).map_or_else(
                    || fault(format!("`{shown}` does not fit 64 bits"), range),
                    Ok,
                )
            }
            (false, unit) => {
                let value: f64 = digits.parse().unwrap_or(f64::INFINITY);
                if value.is_infinite() {
                    return fault(
                        format!("`{shown}` does not fit a double"),
                        "a number up to about 1.8e308 (`inf` stands for infinity)",
                    );
                }
                let Some(unit) = unit else {
                    return Ok(Value::F64(value));
                };
                let scaled = value * unit as f64;
                // Up to 2^53 a double represents every integer exactly.
                if scaled.fract() == 0.0 && scaled.abs() < 9_007_199_254_740_992.0 {
                    #[allow(clippy::cast_possible_truncation, reason = "whole and within 2^53")]
                    return Ok(Value::I64(scaled as i64));
                }
                fault(
                    format!("`{shown}` is not a whole number"),
                    "a number with a suffix to come to a whole number, as in 1.5GiB",
                )
            }
        }
    }
}

/// Builds the error for a character that is not part of the syntax outside strings.
fn unexpected_character(c: char, span: Span) -> TraversalFault {
    let expected = match c {
        '“' | '”' | '„' | '‘' | '’' | '«' | '»' | '`' => {
            "straight quotes around a string: \"…\" or '…'"
        }
        ':' | '/' => "a vertex name in quotes, as in \"file:/scratch/a.h5\"",
        ';' => "the end of the traversal (no `;` after it)",
        '-' | '+' => "a digit after the sign, as in -1",
        '{' | '}' => "arguments in parentheses, lists in brackets",
        _ => "a call such as `.e(…)`, a string in quotes, a number or a name",
    };
    TraversalFault::new(
        span,
        Kind::Character,
        format!("unexpected character `{}`", excerpt(&c.to_string())),
        expected,
    )
}

fn timestamp(text: &str, span: Span) -> Result<i64, TraversalFault> {
    parse_nanos(text).ok_or_else(|| {
        TraversalFault::new(
            span,
            Kind::Time,
            format!("`{}` is not a time", excerpt(text)),
            "RFC 3339 (t\"2026-03-01T12:00:00Z\"), a date (t\"2026-03-01\", its first moment) or t\"@SECONDS\", \
             from 1677-09-22 to 2262-04-11",
        )
    })
}

/// Parses a time into nanoseconds since 1970-01-01 UTC. A date means its first instant; a time without an offset is
/// UTC.
pub(crate) fn parse_nanos(text: &str) -> Option<i64> {
    let text = text.trim();
    if let Some(seconds) = text.strip_prefix('@') {
        let (whole, fraction) = seconds.split_once('.').unwrap_or((seconds, ""));
        let (sign, whole) = match whole.strip_prefix('-') {
            Some(rest) => (-1, rest),
            None => (1, whole),
        };
        let digits = |t: &str| t.bytes().all(|b| b.is_ascii_digit());
        if whole.is_empty() || !digits(whole) || !digits(fraction) || fraction.len() > 9 {
            return None;
        }
        let nanos: i64 = format!("{fraction:0<9}").parse().ok()?;
        let seconds: i64 = whole.parse().ok()?;
        return seconds
            .checked_mul(1_000_000_000)?
            .checked_add(nanos)?
            .checked_mul(sign);
    }
    let timestamp = if let Ok(t) = text.parse::<Timestamp>() {
        t
    } else {
        let civil = if text.len() > 10 {
            text.parse::<civil::DateTime>().ok()?
        } else {
            text.parse::<civil::Date>()
                .ok()?
                .to_datetime(civil::Time::midnight())
        };
        civil.to_zoned(TimeZone::UTC).ok()?.timestamp()
    };
    i64::try_from(timestamp.as_nanosecond()).ok()
}

fn byte_string(text: &str, span: Span) -> Result<Vec<u8>, TraversalFault> {
    hexadecimal(text).ok_or_else(|| {
        TraversalFault::new(
            span,
            Kind::ArgumentKind,
            format!("`{}` is not a byte string", excerpt(text)),
            "an even number of hexadecimal digits, as in x\"00ff\"",
        )
    })
}

/// Decodes bytes from an even number of hexadecimal digits.
pub(crate) fn hexadecimal(text: &str) -> Option<Vec<u8>> {
    let nibbles: Vec<u8> = text
        .chars()
        .map(|c| c.to_digit(16).and_then(|d| u8::try_from(d).ok()))
        .collect::<Option<_>>()?;
    nibbles.len().is_multiple_of(2).then(|| {
        nibbles
            .chunks_exact(2)
            .map(|pair| pair.iter().fold(0, |byte, nibble| byte << 4 | nibble))
            .collect()
    })
}
