//! Zone in which times are printed for people: the user's on a terminal, UTC everywhere else.

use esker_model::Version;
use jiff::Timestamp;
use jiff::tz::{Offset, TimeZone};
use std::sync::OnceLock;

/// Zone of times on this terminal; without one, times are in UTC.
static ZONE: OnceLock<TimeZone> = OnceLock::new();

/// Prints times in the user's zone from now on: `$TZ`, or the machine's zone.
pub fn use_zone_of_user() {
    ZONE.get_or_init(TimeZone::system);
}

/// Formats a time in nanoseconds since 1970 as RFC 3339, with the offset of the zone.
pub fn time(nanos: i64) -> String {
    time_in(ZONE.get(), nanos)
}

/// Formats a version as [`Version`]'s own text, with the offset of the zone. Commands accept it as a time.
pub fn version(version: Version) -> String {
    version_in(ZONE.get(), version)
}

/// Formats the time of a version, without the number that tells versions of one millisecond apart.
pub fn version_time(version: Version) -> String {
    version_in(ZONE.get(), Version::new(version.millis(), 0))
}

/// Offset from UTC at a time; `None` in UTC, where the time is written with `Z`.
fn offset(zone: Option<&TimeZone>, time: Timestamp) -> Option<Offset> {
    let offset = zone?.to_offset(time);
    (offset != Offset::UTC).then_some(offset)
}

fn time_in(zone: Option<&TimeZone>, nanos: i64) -> String {
    let Ok(time) = Timestamp::from_nanosecond(i128::from(nanos)) else {
        return nanos.to_string();
    };
    match offset(zone, time) {
        Some(offset) => time.display_with_offset(offset).to_string(),
        None => time.to_string(),
    }
}

fn version_in(zone: Option<&TimeZone>, version: Version) -> String {
    let time = i64::try_from(version.millis())
        .ok()
        .and_then(|millis| Timestamp::from_millisecond(millis).ok())
        .filter(|_| version != Version::MAX);
    let Some((time, offset)) = time.and_then(|time| Some((time, offset(zone, time)?))) else {
        return version.to_string();
    };
    let text = format!("{:.3}", time.display_with_offset(offset));
    match version.logical() {
        0 => text,
        logical => format!("{text}~{logical}"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn times_have_the_offset_of_the_zone_and_can_be_read_back() {
        let zone =
            TimeZone::fixed(jiff::tz::offset(-5).saturating_add(jiff::Span::new().minutes(-30)));
        let then = Version::parse_since("2026-03-01T12:00:00.250Z").unwrap();
        let text = version_in(Some(&zone), then);
        assert_eq!(text, "2026-03-01T06:30:00.250-05:30");
        assert_eq!(Version::parse_since(&text), Ok(then));
        let third = Version::new(then.millis(), 3);
        let text = version_in(Some(&zone), third);
        assert_eq!(text, "2026-03-01T06:30:00.250-05:30~3");
        assert_eq!(Version::parse_since(&text), Ok(third));
        assert_eq!(
            time_in(Some(&zone), then.nanos()),
            "2026-03-01T06:30:00.25-05:30"
        );
        assert_eq!(version_in(Some(&zone), Version::MAX), "now");
    }

    #[test]
    fn times_in_utc_are_as_everywhere() {
        let then = Version::parse_since("2026-03-01T12:00:00.250Z").unwrap();
        for zone in [None, Some(&TimeZone::UTC)] {
            assert_eq!(version_in(zone, then), then.to_string());
            assert_eq!(time_in(zone, then.nanos()), "2026-03-01T12:00:00.25Z");
        }
    }
}
