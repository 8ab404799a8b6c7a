//! Times in filters, and the ranges of time that they denote.

use super::{Comparison, Test};
use crate::value::Value;
use crate::version::Version;
use jiff::{Timestamp, civil, tz::TimeZone};

const REST_OF_MILLISECOND: i64 = 999_999;
const MILLIS_OF_DAY: i128 = 24 * 60 * 60 * 1000;

/// Returns the first and the last instant that a text denotes, in nanoseconds since 1970: for a date the whole day
/// (UTC), for anything else the whole millisecond. `None` if the text is not a time. Accepts the forms of
/// [`Version::parse_as_of`], and times before 1970.
pub fn time_bounds(text: &str) -> Option<(i64, i64)> {
    let text = text.trim();
    // Most compared texts are not times; they are recognised without building errors.
    if !text.starts_with(|c: char| c.is_ascii_digit() || matches!(c, '@' | '#' | '-' | '+')) {
        return None;
    }
    match (Version::parse_since(text), Version::parse_as_of(text)) {
        (Ok(first), Ok(last)) => Some((
            first.nanos(),
            last.nanos().saturating_add(REST_OF_MILLISECOND),
        )),
        _ => before_1970(text),
    }
}

/// Parses times before 1970, which versions cannot represent.
fn before_1970(text: &str) -> Option<(i64, i64)> {
    let utc = |t: civil::DateTime| Some(t.to_zoned(TimeZone::UTC).ok()?.timestamp());
    let (moment, millis) = if let Ok(t) = text.parse::<Timestamp>() {
        (t, 1)
    } else if let (true, Ok(t)) = (text.len() > 10, text.parse::<civil::DateTime>()) {
        (utc(t)?, 1)
    } else {
        let date = text.parse::<civil::Date>().ok()?;
        (
            utc(date.to_datetime(civil::Time::midnight()))?,
            MILLIS_OF_DAY,
        )
    };
    let first = moment.as_nanosecond().div_euclid(1_000_000);
    let nanos = |millis: i128| i64::try_from(millis * 1_000_000).ok();
    Some((
        nanos(first)?,
        nanos(first + millis - 1)?.saturating_add(REST_OF_MILLISECOND),
    ))
}

/// Ranges of time, as first and last instant, both included.
pub(super) type TimeRanges = Vec<(i64, i64)>;

const ALWAYS: (i64, i64) = (i64::MIN, i64::MAX);

impl Test {
    /// Returns the timestamps that match: sorted, disjoint ranges of nanoseconds since 1970, both ends included. Text
    /// in the test is read as a time.
    pub fn times(&self) -> Vec<(i64, i64)> {
        match self {
            Self::Exists => vec![ALWAYS],
            Self::Compare(comparison, x) => compared(*comparison, x),
            Self::Between(low, high) => {
                let (Some((from, _)), Some((_, until))) = (time_range(low), time_range(high))
                else {
                    return Vec::new();
                };
                if from <= until {
                    vec![(from, until)]
                } else {
                    Vec::new()
                }
            }
            Self::In(xs) => joined(xs.iter().filter_map(time_range).collect()),
            Self::Like(_) | Self::Matches(_) | Self::Contains(_) => Vec::new(),
            Self::Not(inner) => outside(&inner.times()),
        }
    }
}

/// Returns the range of time that a value denotes in a comparison with a timestamp.
fn time_range(value: &Value) -> Option<(i64, i64)> {
    match value {
        Value::Timestamp(t) => Some((*t, *t)),
        Value::String(text) => time_bounds(text),
        _ => None,
    }
}

fn compared(comparison: Comparison, x: &Value) -> TimeRanges {
    let Some((first, last)) = time_range(x) else {
        return match comparison {
            Comparison::Ne => vec![ALWAYS],
            _ => Vec::new(),
        };
    };
    let below = |end: Option<i64>| end.map(|end| (i64::MIN, end));
    let above = |start: Option<i64>| start.map(|start| (start, i64::MAX));
    let (one, two) = match comparison {
        Comparison::Eq => (Some((first, last)), None),
        Comparison::Ne => (below(first.checked_sub(1)), above(last.checked_add(1))),
        Comparison::Lt => (below(first.checked_sub(1)), None),
        Comparison::Le => (below(Some(last)), None),
        Comparison::Gt => (above(last.checked_add(1)), None),
        Comparison::Ge => (above(Some(first)), None),
    };
    one.into_iter().chain(two).collect()
}

/// Sorts the ranges and merges adjacent ones.
fn joined(mut all: TimeRanges) -> TimeRanges {
    all.sort_unstable();
    let mut out: TimeRanges = Vec::with_capacity(all.len());
    for (first, last) in all {
        match out.last_mut() {
            Some(before) if before.1 == i64::MAX || first <= before.1 + 1 => {
                before.1 = before.1.max(last);
            }
            _ => out.push((first, last)),
        }
    }
    out
}

/// Returns the complement of the ranges.
fn outside(all: &[(i64, i64)]) -> TimeRanges {
    let mut out = Vec::with_capacity(all.len() + 1);
    let mut from = Some(i64::MIN);
    for (first, last) in all {
        if let Some(from) = from.filter(|from| from < first) {
            out.push((from, first - 1));
        }
        from = last.checked_add(1);
    }
    out.extend(from.map(|from| (from, i64::MAX)));
    out
}

/// Whether an instant is in one of the ranges.
pub(super) fn inside(all: &[(i64, i64)], moment: i64) -> bool {
    match all {
        [] => false,
        [(first, last)] => *first <= moment && moment <= *last,
        _ => {
            let behind = all.partition_point(|(first, _)| *first <= moment);
            behind
                .checked_sub(1)
                .and_then(|i| all.get(i))
                .is_some_and(|(_, last)| moment <= *last)
        }
    }
}
