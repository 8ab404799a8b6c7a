//! Times on the command line: the time of a read, the time of a change, ranges of versions.

use esker_model::Version;
use esker_model::version::{TimeError, VersionRange};
use std::time::{Duration, SystemTime, UNIX_EPOCH};

/// Parses a time to read at: the last version within the instant given, or `now`.
pub(crate) fn parse_as_of(text: &str) -> Result<Version, TimeError> {
    if text.trim().eq_ignore_ascii_case("now") {
        return Ok(Version::MAX);
    }
    Version::parse_as_of(text)
}

/// Parses a time to write at: the first version within the instant given. A date is its first millisecond; a version as Esker prints it
/// (`…~N`, `#N`) is that version.
pub(crate) fn parse_at(text: &str) -> Result<Version, TimeError> {
    Version::parse_since(text)
}

/// Parses `FROM..UNTIL`, each end optional. Both ends are included, `UNTIL` with all its versions.
pub(crate) fn parse_range(text: &str) -> Result<VersionRange, String> {
    let Some((from, until)) = text.split_once("..") else {
        return Err(format!(
            "`{text}` is not a range of versions: expected FROM..UNTIL, as in 2026-01-01..2026-02-01 or 2026-01-01.."
        ));
    };
    let from = match from.trim() {
        "" => Version::ZERO,
        from => parse_at(from).map_err(|e| e.to_string())?,
    };
    let until = match until.trim() {
        "" => Version::MAX,
        until => match parse_as_of(until).map_err(|e| e.to_string())? {
            Version::MAX => Version::MAX,
            last => last.next(),
        },
    };
    if from >= until {
        return Err(format!(
            "`{text}` contains no versions: it ends before it begins"
        ));
    }
    Ok(VersionRange { from, until })
}

/// Returns a version as text for messages; an instant that was given without `~N` is printed without it.
pub(crate) fn format_version(version: Version) -> String {
    if version.logical() == u16::MAX && version != Version::MAX {
        Version::new(version.millis(), 0).to_string()
    } else {
        version.to_string()
    }
}

/// Returns the current time in nanoseconds since 1970, the base of `now` and `30d ago` in a filter.
pub(crate) fn now_nanos() -> i64 {
    let now = SystemTime::now()
        .duration_since(UNIX_EPOCH)
        .unwrap_or_default();
    i64::try_from(now.as_nanos()).unwrap_or(i64::MAX)
}

/// Returns the version of this time from now.
pub(crate) fn hence(time: Duration) -> Version {
    let now = SystemTime::now()
        .duration_since(UNIX_EPOCH)
        .unwrap_or_default();
    let then = u64::try_from(now.saturating_add(time).as_millis());
    Version::new(then.unwrap_or(u64::MAX), 0)
}

/// Returns the version of this time before now.
pub(crate) fn ago(time: Duration) -> Version {
    let now = SystemTime::now()
        .duration_since(UNIX_EPOCH)
        .unwrap_or_default();
    let then = now.saturating_sub(time);
    Version::new(u64::try_from(then.as_millis()).unwrap_or(u64::MAX), 0)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_write_on_a_date_is_seen_by_a_read_on_that_date_and_not_the_day_before() {
        let at = parse_at("2026-03-01").unwrap();
        assert_eq!(at.to_string(), "2026-03-01T00:00:00.000Z");
        assert!(at <= parse_as_of("2026-03-01").unwrap());
        assert!(at > parse_as_of("2026-02-28").unwrap());
    }

    #[test]
    fn what_is_printed_is_read_back() {
        let version = Version::new(1_700_000_000_123, 7);
        assert_eq!(parse_at(&version.to_string()).unwrap(), version);
        assert_eq!(parse_as_of(&version.to_string()).unwrap(), version);
        assert_eq!(parse_as_of("now").unwrap(), Version::MAX);
    }

    #[test]
    fn ranges() {
        let all = parse_range("..").unwrap();
        assert_eq!(all, VersionRange::ALL);
        let march = parse_range("2026-03-01..2026-03-31").unwrap();
        assert!(march.contains(parse_at("2026-03-31T23:59:59Z").unwrap()));
        assert!(!march.contains(parse_at("2026-04-01").unwrap()));
        assert!(parse_range("2026-03-01").is_err());
        assert!(parse_range("2026-03-02..2026-03-01").is_err());
        assert!(parse_at("yesterday").is_err());
        assert!(parse_at("xxxx-xx-xx").is_err());
    }
}
