//! Formatting of traversals in the chain syntax: `parse(display(t)) == t`.
//!
//! The canonical form quotes all names, writes `v()` behind every `e(…)`, `IN` with a list, and puts calls about the
//! whole chain last.

use super::error::is_unprintable;
use super::{Filter, Hop, Predicate, Segment, Start, Traversal};
use crate::value::Value;
use crate::version::Version;
use jiff::Timestamp;
use std::fmt::{self, Formatter, Write as _};

impl fmt::Display for Traversal {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        match &self.start {
            Start::Vertices(names) => {
                f.write_str("v(")?;
                separated(f, names, |f, name| {
                    // `VertexName`'s own format is not used, because it loses the type's case.
                    quoted(f, &format!("{}:{}", name.type_name, name.key))
                })?;
                f.write_str(")")?;
            }
            Start::Type(name) => {
                f.write_str("v(type=")?;
                quoted(f, name)?;
                f.write_str(")")?;
            }
        }
        filters(f, ".va", &self.start_filters)?;
        if self.start_returned {
            f.write_str(".rtn()")?;
        }
        for segment in &self.segments {
            write!(f, ".{segment}")?;
        }
        if let Some(version) = self.as_of {
            f.write_str(".as_of(")?;
            quoted(f, &exact(version, u16::MAX))?;
            f.write_str(")")?;
        }
        if let Some(range) = self.versions {
            f.write_str(".versions(")?;
            if range.from == Version::ZERO {
                f.write_str("null")?;
            } else {
                quoted(f, &exact(range.from, 0))?;
            }
            f.write_str(", ")?;
            if range.until == Version::MAX {
                f.write_str("null")?;
            } else {
                quoted(
                    f,
                    &exact(Version(range.until.0.saturating_sub(1)), u16::MAX),
                )?;
            }
            f.write_str(")")?;
        }
        if let Some(limit) = self.limit {
            write!(f, ".limit({limit})")?;
        }
        if self.return_paths {
            f.write_str(".return_fp()")?;
        }
        Ok(())
    }
}

/// Formats the hops followed by `repeat(…)`.
impl fmt::Display for Segment {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        for (i, hop) in self.hops.iter().enumerate() {
            if i > 0 {
                f.write_str(".")?;
            }
            hop.fmt(f)?;
        }
        match self.repeat {
            None => Ok(()),
            Some(super::Repeat { max: None }) => f.write_str(".repeat()"),
            Some(super::Repeat { max: Some(max) }) => write!(f, ".repeat(max={max})"),
        }
    }
}

/// Formats as `e("read").v()`, filters and `rtn()` included.
impl fmt::Display for Hop {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        f.write_str("e(")?;
        separated(f, &self.edge_types, |f, name| quoted(f, name))?;
        f.write_str(")")?;
        filters(f, ".ea", &self.edge_filters)?;
        f.write_str(".v()")?;
        filters(f, ".va", &self.vertex_filters)?;
        if self.returned {
            f.write_str(".rtn()")?;
        }
        Ok(())
    }
}

/// Formats the arguments of `va(…)` or `ea(…)`: `"size", RANGE, 10, null` or `"size >= 10"`.
impl fmt::Display for Filter {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        let (attribute, predicate) = match self {
            Self::Attribute {
                attribute,
                predicate,
            } => (attribute, predicate),
            Self::Where(expr) => return quoted(f, &expr.to_string()),
        };
        quoted(f, attribute)?;
        match predicate {
            Predicate::Eq(x) => {
                f.write_str(", EQ, ")?;
                write_value(f, x)
            }
            Predicate::In(xs) => {
                f.write_str(", IN, ")?;
                list(f, xs)
            }
            Predicate::Range(low, high) => {
                f.write_str(", RANGE, ")?;
                write_value(f, low)?;
                f.write_str(", ")?;
                write_value(f, high)
            }
        }
    }
}

impl Hop {
    /// Returns the hop in the chain syntax, as profiles show it: `e("read").v()`.
    pub fn text(&self) -> String {
        self.to_string()
    }
}

impl Traversal {
    /// Iterates over all hops in the order of the chain, numbered from 1 like [`super::WorkingSet::hop`] (repeats not
    /// counted).
    pub fn hops(&self) -> impl Iterator<Item = (u32, &Hop)> {
        (1..).zip(self.segments.iter().flat_map(|s| &s.hops))
    }
}

/// Formats a value in the chain syntax: `"text"`, `1`, `1.0`, `true`, `null`, `t"…"`, `x"00ff"`, `[1, 2]`. NaN, which
/// nothing equals, is written `nan` and cannot be parsed.
pub fn value_text(value: &Value) -> String {
    struct Text<'a>(&'a Value);
    impl fmt::Display for Text<'_> {
        fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
            write_value(f, self.0)
        }
    }
    Text(value).to_string()
}

fn separated<T>(
    f: &mut Formatter<'_>,
    items: &[T],
    one: impl Fn(&mut Formatter<'_>, &T) -> fmt::Result,
) -> fmt::Result {
    for (i, item) in items.iter().enumerate() {
        if i > 0 {
            f.write_str(", ")?;
        }
        one(f, item)?;
    }
    Ok(())
}

fn filters(f: &mut Formatter<'_>, call: &str, filters: &[Filter]) -> fmt::Result {
    filters
        .iter()
        .try_for_each(|filter| write!(f, "{call}({filter})"))
}

fn list(f: &mut Formatter<'_>, items: &[Value]) -> fmt::Result {
    f.write_str("[")?;
    separated(f, items, write_value)?;
    f.write_str("]")
}

fn write_value(f: &mut Formatter<'_>, value: &Value) -> fmt::Result {
    match value {
        Value::Null => f.write_str("null"),
        Value::Bool(b) => write!(f, "{b}"),
        Value::I64(n) => write!(f, "{n}"),
        Value::F64(x) if x.is_nan() => f.write_str("nan"),
        // `Debug` keeps the point that distinguishes 1.0 from 1.
        Value::F64(x) => write!(f, "{x:?}"),
        Value::String(s) => quoted(f, s),
        Value::Bytes(bytes) => {
            f.write_str("x\"")?;
            bytes.iter().try_for_each(|b| write!(f, "{b:02x}"))?;
            f.write_str("\"")
        }
        Value::Timestamp(nanos) => match Timestamp::from_nanosecond(i128::from(*nanos)) {
            Ok(t) => write!(f, "t\"{t}\""),
            Err(_) => write!(f, "t\"@{}\"", nanos / 1_000_000_000),
        },
        Value::List(items) => list(f, items),
    }
}

/// Writes a string in double quotes that the lexer can read.
fn quoted(f: &mut Formatter<'_>, text: &str) -> fmt::Result {
    f.write_char('"')?;
    for c in text.chars() {
        match c {
            '"' | '\\' => write!(f, "\\{c}")?,
            '\n' => f.write_str("\\n")?,
            '\r' => f.write_str("\\r")?,
            '\t' => f.write_str("\\t")?,
            c if is_unprintable(c) => write!(f, "\\u{{{:x}}}", u32::from(c))?,
            c => f.write_char(c)?,
        }
    }
    f.write_char('"')
}

/// Formats a version unambiguously. `implied` is the logical part that a time without one gets.
fn exact(version: Version, implied: u16) -> String {
    let moment = Version::new(version.millis(), 0);
    let text = moment.to_string();
    if version == Version::MAX || text.starts_with('#') {
        format!("#{}", version.0)
    } else if version.logical() == implied {
        text
    } else {
        format!("{text}~{}", version.logical())
    }
}
