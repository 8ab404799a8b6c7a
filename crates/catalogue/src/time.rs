//! Times and dates as text.

use jiff::Timestamp;
use jiff::civil::Date;

fn timestamp(nanos: i64) -> Timestamp {
    Timestamp::from_nanosecond(i128::from(nanos)).unwrap_or(Timestamp::UNIX_EPOCH)
}

/// Formats nanoseconds since 1970 as an RFC 3339 time in UTC, in whole seconds: the granularity of OAI-PMH.
pub(crate) fn seconds(nanos: i64) -> String {
    let whole = nanos.div_euclid(1_000_000_000);
    let then = Timestamp::from_second(whole).unwrap_or(Timestamp::UNIX_EPOCH);
    then.to_string()
}

/// Formats nanoseconds since 1970 as an RFC 3339 time in UTC.
pub(crate) fn full(nanos: i64) -> String {
    timestamp(nanos).to_string()
}

/// Formats the day of nanoseconds since 1970 as `YYYY-MM-DD`, in UTC.
pub(crate) fn date(nanos: i64) -> String {
    let text = timestamp(nanos).to_string();
    text.get(..10).unwrap_or(&text).to_owned()
}

/// Returns a date `YYYY`, `YYYY-MM` or `YYYY-MM-DD` out of a text that is one or begins with one as an RFC 3339 time does.
pub(crate) fn parse_date(text: &str) -> Option<String> {
    let text = text.trim();
    let day = match text.split_once('T') {
        Some((day, _)) => {
            text.parse::<Timestamp>().ok()?;
            day
        }
        None => text,
    };
    let whole = match day.len() {
        4 => format!("{day}-01-01"),
        7 => format!("{day}-01"),
        10 => day.to_owned(),
        _ => return None,
    };
    whole.parse::<Date>().ok()?;
    Some(day.to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn dates_are_checked_and_cut_out_of_times() {
        for (text, date) in [
            ("2026", Some("2026")),
            ("2026-03", Some("2026-03")),
            (" 2026-03-01 ", Some("2026-03-01")),
            ("2026-03-01T10:00:00Z", Some("2026-03-01")),
            ("2026-13", None),
            ("2026-02-30", None),
            ("2026-03-01Tten", None),
            ("March 2026", None),
            ("", None),
        ] {
            assert_eq!(parse_date(text).as_deref(), date, "{text}");
        }
    }

    #[test]
    fn times_are_in_utc() {
        assert_eq!(seconds(-1), "1969-12-31T23:59:59Z");
        assert_eq!(full(1_500_000_000), "1970-01-01T00:00:01.5Z");
        assert_eq!(date(86_400_000_000_000), "1970-01-02");
    }
}
