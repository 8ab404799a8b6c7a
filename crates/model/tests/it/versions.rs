//! Versions: formatting and parsing are inverse, and times denote the expected instants.

use crate::strategies::version;
use esker_model::{Version, VersionRange};
use proptest::prelude::*;

/// Milliseconds from 1970 to 9999-12-30, the range that calendars can print.
const CALENDAR: std::ops::Range<u64> = 0..253_402_207_200_000;

proptest! {
    #[test]
    fn a_printed_version_is_read_back(version in version()) {
        let text = version.to_string();
        if version == Version::MAX {
            prop_assert_eq!(text, "now");
        } else if version.logical() == 0 && !text.starts_with('#') {
            // Printed as a plain time; a read as of it sees all of that millisecond, a read since it begins with that
            // millisecond.
            prop_assert_eq!(Version::parse_since(&text), Ok(version));
            prop_assert_eq!(Version::parse_as_of(&text), Ok(Version::end_of_millis(version.millis())));
        } else {
            prop_assert_eq!(Version::parse_as_of(&text), Ok(version));
            prop_assert_eq!(Version::parse_since(&text), Ok(version));
        }
    }

    #[test]
    fn later_milliseconds_print_later(a in CALENDAR, b in CALENDAR) {
        let text = |ms| Version::new(ms, 0).to_string();
        prop_assert_eq!(text(a).cmp(&text(b)), a.cmp(&b));
    }

    #[test]
    fn the_raw_number_names_any_version(version in version()) {
        prop_assert_eq!(Version::parse_as_of(&format!("#{}", version.0)), Ok(version));
        prop_assert_eq!(Version::parse_since(&format!("#{}", version.0)), Ok(version));
    }

    #[test]
    fn parts_make_the_whole(version in version()) {
        prop_assert_eq!(Version::new(version.millis(), version.logical()), version);
        prop_assert!(version.next() > version || version == Version::MAX);
    }

    #[test]
    fn since_comes_no_later_than_as_of(text in "[0-9TZ:.~@#+-]{0,24}|\\PC{0,16}") {
        match (Version::parse_since(&text), Version::parse_as_of(&text)) {
            (Ok(since), Ok(as_of)) => prop_assert!(since <= as_of),
            (Err(_), Err(_)) => {}
            mixed => prop_assert!(false, "{mixed:?}"),
        }
    }

    #[test]
    fn ranges_are_half_open(from in version(), until in version(), at in version()) {
        let range = VersionRange { from, until };
        let inside = from <= at && (at < until || until == Version::MAX);
        prop_assert_eq!(range.contains(at), inside);
        prop_assert!(VersionRange::ALL.contains(at));
    }
}

#[test]
fn times_that_people_write() {
    let day = 1_772_323_200_000; // 2026-03-01T00:00:00Z
    let noon = day + 12 * 3_600_000;
    let cases = [
        ("2026-03-01", day, day + 86_400_000 - 1),
        ("2026-03-01T12:00:00Z", noon, noon),
        ("2026-03-01T12:00:00", noon, noon),
        ("2026-03-01 12:00:00", noon, noon),
        ("2026-03-01T13:00:00+01:00", noon, noon),
        ("2026-03-01T12:00:00.123Z", noon + 123, noon + 123),
        ("2026-03-01T12:00:00.123999Z", noon + 123, noon + 123),
        (" @1772323200.5 ", day + 500, day + 500),
    ];
    for (text, first, last) in cases {
        assert_eq!(
            Version::parse_since(text),
            Ok(Version::new(first, 0)),
            "since {text}"
        );
        assert_eq!(
            Version::parse_as_of(text),
            Ok(Version::end_of_millis(last)),
            "as of {text}"
        );
    }
    for bad in [
        "",
        "yesterday",
        "2026-13-01",
        "2026-02-30",
        "#",
        "#-1",
        "@",
        "@1.x",
        "1969-12-31",
        "2026-03-01~x",
    ] {
        assert!(Version::parse_as_of(bad).is_err(), "{bad}");
        assert!(Version::parse_since(bad).is_err(), "{bad}");
    }
}

#[test]
fn a_bad_time_says_what_is_expected() {
    let error = Version::parse_as_of("soon").unwrap_err();
    assert_eq!(
        error.to_string(),
        "`soon` is not a time: expected a date (2026-03-01), RFC 3339 (2026-03-01T12:00:00Z), @SECONDS or #VERSION"
    );
}

#[test]
fn nanoseconds_do_not_overflow() {
    assert_eq!(Version::new(1, 9).nanos(), 1_000_000);
    assert_eq!(Version::MAX.nanos(), i64::MAX);
    assert_eq!(Version::new(u64::MAX, 3).millis(), Version::MILLIS_MAX);
}
