//! Versions: hybrid logical clock timestamps, and the time formats that users write.
//!
//! A version has 48 bits of milliseconds since 1970-01-01 UTC, then 16 bits that order events within one millisecond.
//! Every vertex attribute and every edge has the version at which it took its value.

use jiff::{Timestamp, Zoned, civil, tz::TimeZone};
use std::fmt;

/// Hybrid logical timestamp at which an item took its value. Larger is later.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Version(pub u64);

impl Version {
    /// The version before all others.
    pub const ZERO: Self = Self(0);
    /// The version after all others: reading as of it reads the newest state.
    pub const MAX: Self = Self(u64::MAX);
    /// The largest number of milliseconds that a version can contain.
    pub const MILLIS_MAX: u64 = (1 << 48) - 1;

    /// Builds a version from milliseconds since 1970-01-01 UTC and the logical part. Milliseconds beyond the maximum
    /// are clamped.
    pub const fn new(millis: u64, logical: u16) -> Self {
        let millis = if millis > Self::MILLIS_MAX {
            Self::MILLIS_MAX
        } else {
            millis
        };
        Self(millis << 16 | logical as u64)
    }

    /// Returns the milliseconds since 1970-01-01 UTC.
    pub const fn millis(self) -> u64 {
        self.0 >> 16
    }

    /// Returns the logical part, which orders versions within one millisecond.
    pub const fn logical(self) -> u16 {
        self.0 as u16
    }

    /// Returns the version just after this one.
    #[must_use]
    pub const fn next(self) -> Self {
        Self(self.0.saturating_add(1))
    }

    /// Returns the last version of a millisecond: reading as of it sees all changes in that millisecond.
    pub const fn end_of_millis(millis: u64) -> Self {
        Self::new(millis, u16::MAX)
    }

    /// Returns nanoseconds since 1970-01-01 UTC, as in [`crate::Value::Timestamp`].
    pub const fn nanos(self) -> i64 {
        let nanos = self.millis() as i128 * 1_000_000;
        if nanos > i64::MAX as i128 {
            i64::MAX
        } else {
            nanos as i64
        }
    }

    /// Parses a time for a read *as of* it: returns the last version of the given instant, so that a read sees all
    /// changes at that instant.
    ///
    /// Accepted are RFC 3339 (`2026-03-01T12:00:00Z`, with an offset and a fraction, and with `~N` for the logical
    /// part as `Display` prints it), a date and time without offset (UTC), a date (its end, UTC), `@SECONDS[.FRACTION]`
    /// since 1970, and `#VERSION` (the raw 64-bit number).
    pub fn parse_as_of(text: &str) -> Result<Self, TimeError> {
        let bad = || TimeError {
            text: text.to_owned(),
        };
        let t = text.trim();
        if let Some(raw) = t.strip_prefix('#') {
            return raw.parse().map(Self).map_err(|_| bad());
        }
        if let Some(seconds) = t.strip_prefix('@') {
            return seconds_to_millis(seconds)
                .map(Self::end_of_millis)
                .ok_or_else(bad);
        }
        let (t, logical) = match t.rsplit_once('~') {
            Some((head, tail)) => (head, Some(tail.parse::<u16>().map_err(|_| bad())?)),
            None => (t, None),
        };
        let at = |ms: i64| {
            let ms = u64::try_from(ms).map_err(|_| bad())?;
            Ok(logical.map_or(Self::end_of_millis(ms), |l| Self::new(ms, l)))
        };
        if let Ok(ts) = t.parse::<Timestamp>() {
            return at(ts.as_millisecond());
        }
        if t.len() > 10
            && let Ok(dt) = t.parse::<civil::DateTime>()
        {
            return at(utc(dt).ok_or_else(bad)?.timestamp().as_millisecond());
        }
        if let Ok(date) = t.parse::<civil::Date>() {
            let next = date.tomorrow().map_err(|_| bad())?;
            let midnight = utc(next.to_datetime(civil::Time::midnight())).ok_or_else(bad)?;
            return at(midnight.timestamp().as_millisecond() - 1);
        }
        Err(bad())
    }

    /// Parses a time for a read *since* it: returns the first version of the given instant, where [`Self::parse_as_of`]
    /// returns the last. The accepted forms are the same; a date is its first millisecond, `~N` and `#VERSION` name one
    /// version.
    pub fn parse_since(text: &str) -> Result<Self, TimeError> {
        let last = Self::parse_as_of(text)?;
        let t = text.trim();
        if t.starts_with('#') || t.contains('~') {
            return Ok(last);
        }
        // A date alone is the only form that covers more than one millisecond.
        let is_day = !t.starts_with('@')
            && t.parse::<Timestamp>().is_err()
            && (t.len() <= 10 || t.parse::<civil::DateTime>().is_err());
        let millis = if is_day {
            last.millis().saturating_sub(DAY_MILLIS - 1)
        } else {
            last.millis()
        };
        Ok(Self::new(millis, 0))
    }
}

const DAY_MILLIS: u64 = 24 * 60 * 60 * 1000;

fn utc(dt: civil::DateTime) -> Option<Zoned> {
    dt.to_zoned(TimeZone::UTC).ok()
}

fn seconds_to_millis(text: &str) -> Option<u64> {
    let (whole, fraction) = text.split_once('.').unwrap_or((text, ""));
    if !fraction.bytes().all(|b| b.is_ascii_digit()) {
        return None;
    }
    let millis: u64 = format!("{fraction:0<3}").get(..3)?.parse().ok()?;
    whole
        .parse::<u64>()
        .ok()?
        .checked_mul(1000)?
        .checked_add(millis)
}

/// Formats as `2026-03-01T12:00:00.123Z`, followed by `~N` where the logical part is not zero.
impl fmt::Display for Version {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if *self == Self::MAX {
            return f.write_str("now");
        }
        match Timestamp::from_millisecond(self.millis() as i64) {
            Ok(ts) => write!(f, "{ts:.3}")?,
            Err(_) => return write!(f, "#{}", self.0),
        }
        if self.logical() != 0 {
            write!(f, "~{}", self.logical())?;
        }
        Ok(())
    }
}

/// The error for a text that is not a time.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error(
    "`{text}` is not a time: expected a date (2026-03-01), RFC 3339 (2026-03-01T12:00:00Z), @SECONDS or #VERSION"
)]
pub struct TimeError {
    /// The text that was given.
    pub text: String,
}

/// A half-open range of versions, `[from, until)`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct VersionRange {
    /// First version in the range.
    pub from: Version,
    /// First version after the range.
    pub until: Version,
}

impl VersionRange {
    /// All versions up to and including `last`.
    pub fn up_to(last: Version) -> Self {
        Self {
            from: Version::ZERO,
            until: last.next(),
        }
    }

    /// The range of all versions.
    pub const ALL: Self = Self {
        from: Version::ZERO,
        until: Version::MAX,
    };

    /// Whether the version is in the range.
    pub fn contains(&self, version: Version) -> bool {
        self.from <= version && (version < self.until || self.until == Version::MAX)
    }
}
