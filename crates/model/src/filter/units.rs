//! Units behind numbers: sizes and durations.

use crate::schema::nearest;

/// Meaning of a unit.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(super) enum Unit {
    /// A factor for bytes or other counts.
    Size(i64),
    /// A duration in nanoseconds.
    Time(i64),
}

/// Size units: powers of 1,000, and with an `i` powers of 1,024.
const SIZES: [(&str, i64); 17] = [
    ("B", 1),
    ("k", 1_000),
    ("M", 1_000_000),
    ("G", 1_000_000_000),
    ("T", 1_000_000_000_000),
    ("P", 1_000_000_000_000_000),
    ("kB", 1_000),
    ("MB", 1_000_000),
    ("GB", 1_000_000_000),
    ("TB", 1_000_000_000_000),
    ("PB", 1_000_000_000_000_000),
    ("KiB", 1 << 10),
    ("MiB", 1 << 20),
    ("GiB", 1 << 30),
    ("TiB", 1 << 40),
    ("PiB", 1 << 50),
    ("K", 1_000),
];

const SECOND: i64 = 1_000_000_000;
const DAY: i64 = 24 * 60 * 60 * SECOND;

/// Time units. Months and years have a fixed length; calendar time is written as a date.
const TIMES: [(&str, i64); 33] = [
    ("ns", 1),
    ("us", 1_000),
    ("µs", 1_000),
    ("μs", 1_000),
    ("ms", 1_000_000),
    ("s", SECOND),
    ("sec", SECOND),
    ("secs", SECOND),
    ("second", SECOND),
    ("seconds", SECOND),
    ("m", 60 * SECOND),
    ("min", 60 * SECOND),
    ("mins", 60 * SECOND),
    ("minute", 60 * SECOND),
    ("minutes", 60 * SECOND),
    ("h", 60 * 60 * SECOND),
    ("hr", 60 * 60 * SECOND),
    ("hrs", 60 * 60 * SECOND),
    ("hour", 60 * 60 * SECOND),
    ("hours", 60 * 60 * SECOND),
    ("d", DAY),
    ("day", DAY),
    ("days", DAY),
    ("w", 7 * DAY),
    ("week", 7 * DAY),
    ("weeks", 7 * DAY),
    ("mo", 30 * DAY),
    ("month", 30 * DAY),
    ("months", 30 * DAY),
    ("y", 365 * DAY),
    ("yr", 365 * DAY),
    ("year", 365 * DAY),
    ("years", 365 * DAY),
];

/// Expected units, for messages.
pub(super) const EXPECTED: &str = "a size (k, M, G, T, P: 1000s, B may follow; KiB, MiB, GiB, TiB, PiB) or a duration (ns, us, \
     ms, s, m, h, d, w, mo, y)";

/// Looks up a unit: as written in the tables or, if it has more than one letter, in any case.
pub(super) fn unit(name: &str) -> Option<Unit> {
    let find = |same: &dyn Fn(&str) -> bool| {
        let size = SIZES.iter().find(|(n, _)| same(n));
        let time = TIMES.iter().find(|(n, _)| same(n));
        size.map(|(_, factor)| Unit::Size(*factor))
            .or_else(|| time.map(|(_, factor)| Unit::Time(*factor)))
    };
    let loose = |n: &str| n.len() > 1 && n.eq_ignore_ascii_case(name);
    find(&|n| n == name).or_else(|| (name.chars().count() > 1).then(|| find(&loose)).flatten())
}

/// Returns the most similar unit to an unknown one.
pub(super) fn near(name: &str) -> Option<String> {
    let names = SIZES.iter().chain(&TIMES).map(|(n, _)| *n);
    nearest(name, names)
}
