//! Times as people write them, and which moments they name.

use super::{Comparison, Test};
use crate::value::Value;
use crate::version::Version;
use jiff::{Timestamp, civil, tz::TimeZone};

const REST_OF_MILLISECOND: i64 = 999_999;
const MILLIS_OF_DAY: i128 = 24 * 60 * 60 * 1000;

/// The first and the last moment that a text names, in nanoseconds since 1970: of a date the whole day (UTC), of anything
/// else the whole millisecond. `None` if it is no time. Forms: those of [`Version::parse_as_of`], and times before 1970.
pub fn moments(text: &str) -> Option<(i64, i64)> {
    let text = text.trim();
    // Most texts that are compared with anything are no times: they are told without building errors.
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

/// Versions count from 1970; times need not.
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

/// First and last moment of each stretch of time, both inside.
pub(super) type Stretches = Vec<(i64, i64)>;

const ALWAYS: (i64, i64) = (i64::MIN, i64::MAX);

impl Test {
    /// The moments that fulfil it as timestamps: stretches of nanoseconds since 1970, both ends inside, in order, apart.
    /// Text in the test is read as a time here.
    pub fn times(&self) -> Vec<(i64, i64)> {
        match self {
            Self::Exists => vec![ALWAYS],
            Self::Compare(comparison, x) => compared(*comparison, x),
            Self::Between(low, high) => {
                let (Some((from, _)), Some((_, until))) = (stretch(low), stretch(high)) else {
                    return Vec::new();
                };
                if from <= until {
                    vec![(from, until)]
                } else {
                    Vec::new()
                }
            }
            Self::In(xs) => joined(xs.iter().filter_map(stretch).collect()),
            Self::Like(_) | Self::Matches(_) | Self::Contains(_) => Vec::new(),
            Self::Not(inner) => outside(&inner.times()),
        }
    }
}

/// What a value means beside a timestamp.
fn stretch(value: &Value) -> Option<(i64, i64)> {
    match value {
        Value::Timestamp(t) => Some((*t, *t)),
        Value::String(text) => moments(text),
        _ => None,
    }
}

fn compared(comparison: Comparison, x: &Value) -> Stretches {
    let Some((first, last)) = stretch(x) else {
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

/// In order, and those that touch made one.
fn joined(mut all: Stretches) -> Stretches {
    all.sort_unstable();
    let mut out: Stretches = Vec::with_capacity(all.len());
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

/// All other moments.
fn outside(all: &[(i64, i64)]) -> Stretches {
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

/// Whether a moment lies in one of the stretches.
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
