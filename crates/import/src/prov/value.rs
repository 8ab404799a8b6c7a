//! Values of attributes, and times, in normal form.

/// Namespace of the prefix `prov`.
pub(super) const PROV: &str = "http://www.w3.org/ns/prov#";
/// Namespace of the prefix `xsd`.
pub(super) const XSD: &str = "http://www.w3.org/2001/XMLSchema#";

/// A value of an attribute.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Value {
    /// Name of a thing, as an IRI.
    Name(String),
    /// A literal of any datatype.
    Literal {
        /// Lexical form.
        text: String,
        /// The IRI of its datatype; empty for strings.
        datatype: String,
        /// Language in lower case; empty for none.
        language: String,
    },
}

impl Value {
    /// Creates a string value.
    pub fn string(text: impl Into<String>) -> Self {
        Self::Literal {
            text: text.into(),
            datatype: String::new(),
            language: String::new(),
        }
    }

    /// Creates a literal of an XML Schema datatype.
    pub fn xsd(text: impl Into<String>, datatype: &str) -> Self {
        Self::typed(text.into(), format!("{XSD}{datatype}"))
    }

    /// Creates a string in a language.
    pub fn tagged(text: impl Into<String>, language: &str) -> Self {
        Self::Literal {
            text: text.into(),
            datatype: String::new(),
            language: language.to_ascii_lowercase(),
        }
    }

    /// Creates a literal of any datatype, in its normal form.
    pub fn typed(text: String, datatype: String) -> Self {
        let (text, datatype) = match datatype.strip_prefix(XSD) {
            Some("string") => (text, String::new()),
            Some("dateTime") => (time(&text).unwrap_or(text), datatype),
            Some("boolean") => {
                let stated = match text.trim() {
                    "1" => "true".to_owned(),
                    "0" => "false".to_owned(),
                    stated if stated.eq_ignore_ascii_case("true") => "true".to_owned(),
                    stated if stated.eq_ignore_ascii_case("false") => "false".to_owned(),
                    _ => text,
                };
                (stated, datatype)
            }
            Some("int" | "integer" | "long") => {
                let stated = text.trim().parse::<i64>().map(|n| n.to_string());
                (stated.unwrap_or(text), datatype)
            }
            Some("double") => (double(&text).unwrap_or(text), datatype),
            _ => (text, datatype),
        };
        Self::Literal {
            text,
            datatype,
            language: String::new(),
        }
    }

    /// Creates an integer as PROV-JSON and PROV-N read one without a datatype.
    pub fn integer(n: i64) -> Self {
        let datatype = if i32::try_from(n).is_ok() {
            "int"
        } else {
            "long"
        };
        Self::xsd(n.to_string(), datatype)
    }
}

fn double(text: &str) -> Option<String> {
    let text = text.trim();
    let number: f64 = match text {
        "INF" | "+INF" => f64::INFINITY,
        "-INF" => f64::NEG_INFINITY,
        "NaN" => f64::NAN,
        _ if text.bytes().any(|b| b.is_ascii_digit()) => text.parse().ok()?,
        _ => return None,
    };
    Some(match number {
        n if n.is_nan() => "NaN".to_owned(),
        f64::INFINITY => "INF".to_owned(),
        f64::NEG_INFINITY => "-INF".to_owned(),
        n => format!("{n:?}"),
    })
}

/// Normalizes a date and time of XML Schema: in UTC if it has a time zone, otherwise unchanged. `None` if the text is not a date and time.
pub(super) fn time(text: &str) -> Option<String> {
    let text = text.trim();
    let (date, clock) = text.split_once('T')?;
    if let Some(rest) = clock.strip_prefix("24:00:00") {
        let rest = rest.trim_start_matches(['.', '0']);
        let zone = if rest.is_empty() || rest.starts_with(['Z', '+', '-']) {
            rest
        } else {
            return None;
        };
        let next: jiff::civil::Date = date.parse().ok()?;
        let next = next.tomorrow().ok()?;
        return time(&format!("{next}T00:00:00{zone}"));
    }
    if text.ends_with(['Z', 'z']) || clock.contains(['+', '-']) {
        let at: jiff::Timestamp = text.parse().ok()?;
        return Some(at.to_string());
    }
    let at: jiff::civil::DateTime = text.parse().ok()?;
    Some(at.to_string())
}

/// Returns a normalized time as nanoseconds since 1970-01-01 UTC; one without a time zone is taken as UTC.
pub(super) fn nanos(text: &str) -> Option<i64> {
    let at: jiff::Timestamp = match text.parse() {
        Ok(at) => at,
        Err(_) => format!("{text}Z").parse().ok()?,
    };
    i64::try_from(at.as_nanosecond()).ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn times_have_one_form() {
        assert_eq!(
            time("2011-11-16T16:05:00+01:00").unwrap(),
            "2011-11-16T15:05:00Z"
        );
        assert_eq!(
            time("2011-11-16T16:05:00.120Z").unwrap(),
            "2011-11-16T16:05:00.12Z"
        );
        assert_eq!(time("2011-11-16T16:05:00").unwrap(), "2011-11-16T16:05:00");
        assert_eq!(
            time("2011-12-31T24:00:00.0Z").unwrap(),
            "2012-01-01T00:00:00Z"
        );
        for bad in [
            "",
            "2011-11-16",
            "now",
            "2011-13-16T16:05:00",
            "T",
            "2011-11-16T24:00:01",
        ] {
            assert_eq!(time(bad), None, "{bad}");
        }
        assert_eq!(nanos("1970-01-01T00:00:01"), Some(1_000_000_000));
        assert_eq!(nanos("1970-01-01T00:00:01Z"), Some(1_000_000_000));
    }

    #[test]
    fn values_of_one_meaning_are_one_value() {
        assert_eq!(Value::xsd("01", "int"), Value::integer(1));
        assert_eq!(Value::xsd("1", "boolean"), Value::xsd("TRUE", "boolean"));
        assert_eq!(Value::xsd("1.50e0", "double"), Value::xsd("1.5", "double"));
        assert_eq!(Value::xsd("x", "string"), Value::string("x"));
        assert_ne!(Value::xsd("1", "integer"), Value::integer(1));
        assert_eq!(Value::tagged("x", "EN-gb"), Value::tagged("x", "en-GB"));
    }
}
