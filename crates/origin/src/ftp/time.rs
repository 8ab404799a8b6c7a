//! Dates of the Gregorian calendar, in UTC, as nanoseconds since 1970.

/// Days from 1970 to a date; `None` for an invalid date.
pub(super) fn days(year: i64, month: u8, day: u8) -> Option<i64> {
    let leap = (year % 4 == 0 && year % 100 != 0) || year % 400 == 0;
    let most = match month {
        2 if leap => 29,
        2 => 28,
        4 | 6 | 9 | 11 => 30,
        1..=12 => 31,
        _ => return None,
    };
    if !(1..=most).contains(&day) || !(1..=9999).contains(&year) {
        return None;
    }
    // Years begin in March here, so that a leap day is the last day.
    let months = (i64::from(month) + 9) % 12;
    let year = year - i64::from(months >= 10);
    let (era, of_era) = (year.div_euclid(400), year.rem_euclid(400));
    let of_year = (153 * months + 2) / 5 + i64::from(day) - 1;
    Some(era * 146_097 + of_era * 365 + of_era / 4 - of_era / 100 + of_year - 719_468)
}

/// Seconds from 1970 to a date and time.
pub(super) fn seconds(
    year: i64,
    month: u8,
    day: u8,
    hour: u8,
    minute: u8,
    second: u8,
) -> Option<i64> {
    // 60: a leap second.
    if hour > 23 || minute > 59 || second > 60 {
        return None;
    }
    let of_day = i64::from(hour) * 3600 + i64::from(minute) * 60 + i64::from(second);
    Some(days(year, month, day)? * 86_400 + of_day)
}

/// Returns the year of a time.
pub(super) fn year(seconds: i64) -> i64 {
    let mut year = 1970 + seconds.div_euclid(31_556_952);
    while days(year + 1, 1, 1).is_some_and(|next| next * 86_400 <= seconds) {
        year += 1;
    }
    while days(year, 1, 1).is_some_and(|first| first * 86_400 > seconds) {
        year -= 1;
    }
    year
}

/// Converts seconds to nanoseconds; `None` on overflow.
pub(super) fn nanoseconds(seconds: i64) -> Option<i64> {
    seconds.checked_mul(1_000_000_000)
}

/// Parses a number of at most 19 digits without sign or spaces.
pub(super) fn digits(text: &[u8]) -> Option<u64> {
    if text.is_empty() || text.len() > 19 || !text.iter().all(u8::is_ascii_digit) {
        return None;
    }
    Some(text.iter().fold(0, |all, d| all * 10 + u64::from(d - b'0')))
}

/// Parses `YYYYMMDDHHMMSS` with an optional fraction, as in MLST and MDTM, to nanoseconds.
pub(super) fn stamp(text: &[u8]) -> Option<i64> {
    let (whole, fraction) = match text.iter().position(|b| *b == b'.') {
        Some(at) => (text.get(..at)?, text.get(at + 1..)?),
        None => (text, &[][..]),
    };
    if whole.len() != 14 {
        return None;
    }
    let part = |from: usize, to: usize| digits(whole.get(from..to)?);
    let small = |from: usize| part(from, from + 2).map(|n| n as u8);
    let year = part(0, 4)? as i64;
    let seconds = seconds(
        year,
        small(4)?,
        small(6)?,
        small(8)?,
        small(10)?,
        small(12)?,
    )?;
    let mut rest = 0;
    if !fraction.is_empty() {
        digits(fraction)?;
        let nine = fraction.iter().copied().chain(std::iter::repeat(b'0'));
        let nine: Vec<u8> = nine.take(9).collect();
        rest = digits(&nine)? as i64;
    }
    nanoseconds(seconds)?.checked_add(rest)
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn known_dates() {
        assert_eq!(stamp(b"19700101000000"), Some(0));
        assert_eq!(stamp(b"20000229120000.5"), Some(951_825_600_500_000_000));
        assert_eq!(stamp(b"20010229120000"), None);
        assert_eq!(stamp(b"2001022912000"), None);
        assert_eq!(stamp(b"19691231235959"), Some(-1_000_000_000));
        assert_eq!(stamp(b"99991231235959"), None);
        assert_eq!(year(951_825_600), 2000);
        assert_eq!(year(-1), 1969);
    }

    proptest! {
        /// Consecutive dates have consecutive day numbers, each in its year.
        #[test]
        fn days_follow_each_other(year in 1_i64..9999, month in 1_u8..=12, day in 1_u8..=31) {
            let Some(this) = days(year, month, day) else { return Ok(()) };
            let next = days(year, month, day + 1)
                .or_else(|| days(year, month + 1, 1))
                .or_else(|| days(year + 1, 1, 1));
            prop_assert_eq!(next, Some(this + 1));
            prop_assert_eq!(super::year(this * 86_400), year);
            prop_assert_eq!(super::year(this * 86_400 + 86_399), year);
        }

        #[test]
        fn any_stamp_is_read_or_not(text in prop::collection::vec(prop_oneof![b'0'..=b'9', Just(b'.'), any::<u8>()], 0..24)) {
            let _ = stamp(&text);
        }
    }
}
