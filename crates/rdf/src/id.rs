//! Term ids: their ranges, and the small values encoded in the id itself.
//!
//! ```text
//! 0                        unbound; as a graph: the default graph
//! 1          .. 8000_0000  terms of the dictionary
//! 8000_0000  .. C000_0000  terms that a query computed, local to that query
//! C000_0000  ..            kind (3 bits) and value (27 bits): integers, booleans, dates
//! ```

/// The id of a term.
pub type Id = u32;

/// Unbound value; also the default graph.
pub const UNBOUND: Id = 0;
/// First id of terms that a query computed.
pub const LOCAL: Id = 0x8000_0000;
/// First id of inline values, which need no dictionary.
pub const INLINE: Id = 0xC000_0000;

const KIND_SHIFT: u32 = 27;
const VALUE: u32 = (1 << KIND_SHIFT) - 1;
const BIAS: i64 = 1 << (KIND_SHIFT - 1);
const INTEGER: u32 = 0;
const BOOLEAN: u32 = 1;
const DATE: u32 = 2;

/// The namespace of XML Schema's datatypes.
pub const XSD: &str = "http://www.w3.org/2001/XMLSchema#";

/// A value encoded in its id.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Inline {
    /// A value of type `xsd:integer`.
    Integer(i64),
    /// A value of type `xsd:boolean`.
    Boolean(bool),
    /// A value of type `xsd:date` without a time zone, in days since 1970-01-01.
    Date(i64),
}

/// Returns the inline id of a literal in canonical form, if it fits.
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

/// Returns the inline value of an id, if it is one.
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

/// Returns the inline id of a boolean.
pub const fn boolean(b: bool) -> Id {
    INLINE | (BOOLEAN << KIND_SHIFT) | (BIAS as u32 + b as u32)
}

/// Returns the inline id of an integer, if it fits.
pub fn integer(n: i64) -> Option<Id> {
    let biased = n.checked_add(BIAS)?;
    (0..=i64::from(VALUE))
        .contains(&biased)
        .then_some(INLINE | (INTEGER << KIND_SHIFT) | biased as u32)
}

impl Inline {
    /// Returns the lexical form.
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

    /// Returns the local name of the datatype in XML Schema's namespace.
    pub const fn datatype(self) -> &'static str {
        match self {
            Self::Integer(_) => "integer",
            Self::Boolean(_) => "boolean",
            Self::Date(_) => "date",
        }
    }
}

/// Parses an integer in canonical form: no plus sign, no leading zeros.
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

/// Returns the days since 1970-01-01 of `YYYY-MM-DD`, for years of four digits.
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

/// Returns the days since 1970-01-01 of a Gregorian date.
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
