//! Formatting of filters: `parse(display(e)) == e` for every result of the parser, and for [`Expr::normal`] of anything
//! else.
//!
//! The canonical form has keywords in capitals, parentheses only where they are needed, strings in single quotes,
//! times as `t'…'`, and names in double quotes where they need them. It is also the form on the wire.

use super::error::is_unprintable;
use super::lexer::Lexer;
use super::token::{Token, is_reserved};
use super::{Expr, Term, Test};
use crate::value::Value;
use jiff::Timestamp;
use std::fmt::{self, Display, Formatter, Write as _};

impl Display for Expr {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        match self {
            Self::All => f.write_str("true"),
            Self::And(parts) if parts.is_empty() => f.write_str("true"),
            Self::Or(parts) if parts.is_empty() => f.write_str("false"),
            Self::And(parts) => joined(
                f,
                parts,
                " AND ",
                |part| matches!(part, Self::And(inner) | Self::Or(inner) if inner.len() > 1),
            ),
            Self::Or(parts) => joined(
                f,
                parts,
                " OR ",
                |part| matches!(part, Self::Or(inner) if inner.len() > 1),
            ),
            Self::Not(inner) => match &**inner {
                Self::All => f.write_str("false"),
                Self::And(_) | Self::Or(_) => write!(f, "NOT ({inner})"),
                _ => write!(f, "NOT {inner}"),
            },
            Self::Term(term) => term.fmt(f),
        }
    }
}

fn joined(
    f: &mut Formatter<'_>,
    parts: &[Expr],
    between: &str,
    parentheses: impl Fn(&Expr) -> bool,
) -> fmt::Result {
    for (i, part) in parts.iter().enumerate() {
        if i > 0 {
            f.write_str(between)?;
        }
        if parentheses(part) {
            write!(f, "({part})")?;
        } else {
            part.fmt(f)?;
        }
    }
    Ok(())
}

impl Display for Term {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        write_name(f, &self.name)?;
        write_test(f, &self.test)
    }
}

fn write_test(f: &mut Formatter<'_>, test: &Test) -> fmt::Result {
    match test {
        // A name without an operator tests its existence.
        Test::Exists => Ok(()),
        // No item matches; `x NOT EXISTS` would match where the name is missing.
        Test::Not(inner) if **inner == Test::Exists => f.write_str(" IN ()"),
        Test::Not(inner) => {
            f.write_str(" NOT")?;
            write_test(f, inner)
        }
        Test::Compare(comparison, value) => {
            write!(f, " {} ", comparison.sign())?;
            write_value(f, value)
        }
        Test::Between(low, high) => {
            f.write_str(" BETWEEN ")?;
            write_value(f, low)?;
            f.write_str(" AND ")?;
            write_value(f, high)
        }
        Test::In(values) => {
            f.write_str(" IN (")?;
            separated(f, values)?;
            f.write_char(')')
        }
        Test::Like(pattern) => {
            f.write_str(if pattern.ignores_case() {
                " ILIKE "
            } else {
                " LIKE "
            })?;
            write_raw(f, &pattern.to_string())
        }
        Test::Matches(regex) => {
            f.write_str(" ~ ")?;
            write_raw(f, regex.as_str())
        }
        Test::Contains(value) => {
            f.write_str(" CONTAINS ")?;
            write_value(f, value)
        }
    }
}

/// Writes a name, in double quotes if it would not be read as one without.
fn write_name(f: &mut Formatter<'_>, name: &str) -> fmt::Result {
    let alone = Lexer::new(name).next(false);
    let plain = matches!(alone, Ok((Token::Word(word), span)) if word == name && span.at == 0);
    if plain && !is_reserved(name) {
        f.write_str(name)
    } else {
        quoted(f, name, '"')
    }
}

fn separated(f: &mut Formatter<'_>, values: &[Value]) -> fmt::Result {
    for (i, value) in values.iter().enumerate() {
        if i > 0 {
            f.write_str(", ")?;
        }
        write_value(f, value)?;
    }
    Ok(())
}

fn write_value(f: &mut Formatter<'_>, value: &Value) -> fmt::Result {
    match value {
        Value::Null => f.write_str("null"),
        Value::Bool(b) => write!(f, "{b}"),
        Value::I64(n) => write!(f, "{n}"),
        Value::F64(x) if x.is_nan() => f.write_str("nan"),
        // `Debug` keeps the point that distinguishes 1.0 from 1.
        Value::F64(x) => write!(f, "{x:?}"),
        Value::String(s) => quoted(f, s, '\''),
        Value::Bytes(bytes) => {
            f.write_str("x'")?;
            bytes.iter().try_for_each(|b| write!(f, "{b:02x}"))?;
            f.write_char('\'')
        }
        Value::Timestamp(nanos) => match Timestamp::from_nanosecond(i128::from(*nanos)) {
            Ok(t) => write!(f, "t'{t}'"),
            Err(_) => write!(f, "t'@{}'", nanos / 1_000_000_000),
        },
        Value::List(items) => {
            f.write_char('[')?;
            separated(f, items)?;
            f.write_char(']')
        }
    }
}

/// Writes text in quotes that the lexer can read.
fn quoted(f: &mut Formatter<'_>, text: &str, quote: char) -> fmt::Result {
    f.write_char(quote)?;
    for c in text.chars() {
        match c {
            '\\' => f.write_str("\\\\")?,
            '\n' => f.write_str("\\n")?,
            '\r' => f.write_str("\\r")?,
            '\t' => f.write_str("\\t")?,
            c if c == quote => write!(f, "{c}{c}")?,
            c if is_unprintable(c) => write!(f, "\\u{{{:x}}}", u32::from(c))?,
            c => f.write_char(c)?,
        }
    }
    f.write_char(quote)
}

/// Writes a pattern in single quotes: its backslashes stay, with the characters they escape.
fn write_raw(f: &mut Formatter<'_>, text: &str) -> fmt::Result {
    f.write_char('\'')?;
    let mut chars = text.chars();
    while let Some(c) = chars.next() {
        f.write_char(c)?;
        match c {
            '\\' => {
                if let Some(next) = chars.next() {
                    f.write_char(next)?;
                }
            }
            '\'' => f.write_char('\'')?,
            _ => {}
        }
    }
    f.write_char('\'')
}
