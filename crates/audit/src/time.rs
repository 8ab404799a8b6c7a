//! Times of records: microseconds since 1970, and their form in RFC 3339.

use jiff::Timestamp;

/// Formats a time in UTC with six digits after the second.
pub fn format(micros: i64) -> String {
    let time = Timestamp::from_microsecond(micros).unwrap_or(Timestamp::UNIX_EPOCH);
    format!("{time:.6}")
}

/// Parses a time that [`format`] made.
pub fn parse(text: &str) -> Option<i64> {
    text.parse::<Timestamp>()
        .ok()
        .map(Timestamp::as_microsecond)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn times_have_six_digits_in_utc() {
        assert_eq!(format(0), "1970-01-01T00:00:00.000000Z");
        assert_eq!(format(1_796_000_000_000_007), "2026-11-30T00:53:20.000007Z");
        assert_eq!(
            parse(&format(1_796_000_000_000_007)),
            Some(1_796_000_000_000_007)
        );
        assert_eq!(parse("yesterday"), None);
    }
}
