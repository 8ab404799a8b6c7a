//! Numbers for terms: which ranges mean what, and the small values that stand in the number itself.
//!
//! ```text
//! 0                        unbound; as a graph: the default graph
//! 1          .. 8000_0000  terms of the dictionary
//! 8000_0000  .. C000_0000  terms that a query computed, known to that query only
//! C000_0000  ..            kind (3 bits) and value (27 bits): integers, booleans, dates
//! ```

/// The number of a term.
pub type Id = u32;

/// No value; also the name of the default graph.
pub const UNBOUND: Id = 0;
/// First number of what a query computed.
pub const LOCAL: Id = 0x8000_0000;
/// First number of the values that need no dictionary.
pub const INLINE: Id = 0xC000_0000;

const KIND_SHIFT: u32 = 27;
const VALUE: u32 = (1 << KIND_SHIFT) - 1;
const BIAS: i64 = 1 << (KIND_SHIFT - 1);
const INTEGER: u32 = 0;
const BOOLEAN: u32 = 1;
const DATE: u32 = 2;

/// The namespace of XML Schema's datatypes.
pub const XSD: &str = "http://www.w3.org/2001/XMLSchema#";

/// A value that stands in its number.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Inline {
    /// `xsd:integer`.
    Integer(i64),
    /// `xsd:boolean`.
    Boolean(bool),
    /// `xsd:date` without a time zone: days since 1970-01-01.
    Date(i64),
}

/// The number of a literal whose text is the only way to write its value, if it fits.
pub fn inline(value: &str, datatype: &str) -> Option<Id> {
    let local = datatype.strip_prefix(XSD)?;
    let make = |kind: u32, n: i64| {
        let biased = n.checked_add(BIAS)?;
        (0..=i64::from(VALUE))
            .contains(&biased)
            .then_some(INLINE | (kind << KIND_SHIFT) | biased as u32)
    };
    match local {
        "integer" => make(INTEGER, canonical_integer(value)?),
        "boolean" => match value {
            "true" => make(BOOLEAN, 1),
            "false" => make(BOOLEAN, 0),
            _ => None,
        },
        "date" => make(DATE, days(value)?),
        _ => None,
    }
}

/// What that number holds, if it is one of these.
pub fn value(id: Id) -> Option<Inline> {
    if id < INLINE {
        return None;
    }
    let n = i64::from(id & VALUE) - BIAS;
    match (id & !INLINE) >> KIND_SHIFT {
        INTEGER => Some(Inline::Integer(n)),
        BOOLEAN => Some(Inline::Boolean(n == 1)),
        DATE => Some(Inline::Date(n)),
        _ => None,
    }
}

/// The number of a boolean.
pub const fn boolean(b: bool) -> Id {
    INLINE | (BOOLEAN << KIND_SHIFT) | (BIAS as u32 + b as u32)
}

/// The number of an integer, if it fits.
pub fn integer(n: i64) -> Option<Id> {
    let biased = n.checked_add(BIAS)?;
    (0..=i64::from(VALUE))
        .contains(&biased)
        .then_some(INLINE | (INTEGER << KIND_SHIFT) | biased as u32)
}

impl Inline {
    /// The text between the quotes.
    pub fn text(self) -> String {
        match self {
            Self::Integer(n) => n.to_string(),
            Self::Boolean(b) => b.to_string(),
            Self::Date(days) => {
                let (y, m, d) = civil(days);
                format!("{y:04}-{m:02}-{d:02}")
            }
        }
    }

    /// The name of its datatype within XML Schema's namespace.
    pub const fn datatype(self) -> &'static str {
        match self {
            Self::Integer(_) => "integer",
            Self::Boolean(_) => "boolean",
            Self::Date(_) => "date",
        }
    }
}

/// An integer as it is written when there is only one way: no sign before a positive one, no leading zeros.
fn canonical_integer(text: &str) -> Option<i64> {
    let digits = text.strip_prefix('-').unwrap_or(text);
    let bytes = digits.as_bytes();
    let plain = !bytes.is_empty() && bytes.len() <= 9 && bytes.iter().all(u8::is_ascii_digit);
    let first = bytes.first()?;
    if !plain || (*first == b'0' && (bytes.len() > 1 || text.len() > 1)) {
        return None;
    }
    text.parse().ok()
}

/// Days since 1970 of `YYYY-MM-DD`, for years that have four digits.
fn days(text: &str) -> Option<i64> {
    let b = text.as_bytes();
    if b.len() != 10 || b.get(4) != Some(&b'-') || b.get(7) != Some(&b'-') {
        return None;
    }
    let number = |from: usize, to: usize| -> Option<i64> {
        let part = b.get(from..to)?;
        part.iter().all(u8::is_ascii_digit).then_some(())?;
        text.get(from..to)?.parse().ok()
    };
    let (y, m, d) = (number(0, 4)?, number(5, 7)?, number(8, 10)?);
    if y == 0 || !(1..=12).contains(&m) || d == 0 {
        return None;
    }
    let days = from_civil(y, m, d);
    (civil(days) == (y, m, d)).then_some(days)
}

/// Days since 1970-01-01 of a date of the Gregorian calendar.
fn from_civil(y: i64, m: i64, d: i64) -> i64 {
    let y = if m <= 2 { y - 1 } else { y };
    let era = y.div_euclid(400);
    let of_era = y.rem_euclid(400);
    let of_year = (153 * (if m > 2 { m - 3 } else { m + 9 }) + 2) / 5 + d - 1;
    era * 146_097 + of_era * 365 + of_era / 4 - of_era / 100 + of_year - 719_468
}

fn civil(days: i64) -> (i64, i64, i64) {
    let z = days + 719_468;
    let era = z.div_euclid(146_097);
    let of_era = z.rem_euclid(146_097);
    let year_of_era = (of_era - of_era / 1460 + of_era / 36_524 - of_era / 146_096) / 365;
    let of_year = of_era - (365 * year_of_era + year_of_era / 4 - year_of_era / 100);
    let mp = (5 * of_year + 2) / 153;
    let d = of_year - (153 * mp + 2) / 5 + 1;
    let m = if mp < 10 { mp + 3 } else { mp - 9 };
    let y = year_of_era + era * 400 + i64::from(m <= 2);
    (y, m, d)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn round(text: &str, datatype: &str) -> Option<String> {
        let id = inline(text, &format!("{XSD}{datatype}"))?;
        let v = value(id)?;
        assert_eq!(v.datatype(), datatype);
        Some(v.text())
    }

    #[test]
    fn what_has_one_spelling_stands_in_the_number() {
        for (text, datatype) in [
            ("0", "integer"),
            ("-17", "integer"),
            ("67108863", "integer"),
            ("true", "boolean"),
            ("false", "boolean"),
            ("2026-02-28", "date"),
            ("0001-01-01", "date"),
            ("9999-12-31", "date"),
        ] {
            assert_eq!(round(text, datatype).as_deref(), Some(text));
        }
    }

    #[test]
    fn other_spellings_stay_in_the_dictionary() {
        for (text, datatype) in [
            ("007", "integer"),
            ("+1", "integer"),
            ("-0", "integer"),
            ("", "integer"),
            ("-", "integer"),
            ("67108864", "integer"),
            ("1", "boolean"),
            ("2026-02-30", "date"),
            ("2026-02-28Z", "date"),
            ("1.0", "decimal"),
        ] {
            assert_eq!(round(text, datatype), None, "{text}");
        }
    }

    #[test]
    fn integers_keep_their_order() {
        let mut last = 0;
        for n in [-67_000_000, -1, 0, 1, 67_000_000] {
            let id = integer(n).unwrap();
            assert!(id > last);
            last = id;
        }
    }
}
