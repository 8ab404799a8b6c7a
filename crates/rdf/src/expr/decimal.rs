//! Arithmetic and text of decimals and durations. The functions have the results of the library, which divides a number of 128 bits by 10 for
//! each digit; they divide it once or twice, and then numbers of 64 bits.

use oxsdatatypes::{DayTimeDuration, Decimal, Double};
use std::fmt::Write as _;

/// Number of decimal digits behind the point of a stored decimal.
const DIGITS: u32 = 18;
const ONE: u128 = 10_u128.pow(DIGITS);
const BILLION: i128 = 1_000_000_000;

/// Returns the number that stands for a decimal: the decimal times 10^18.
fn scaled(n: Decimal) -> i128 {
    i128::from_be_bytes(n.to_be_bytes())
}

/// Removes at most `most` zeros from the end of a number that is not 0; returns the rest and the number of removed zeros.
fn without_zeros(mut n: i128, most: u32) -> (i128, u32) {
    let mut zeros = 0;
    while zeros + 9 <= most && n % BILLION == 0 {
        n /= BILLION;
        zeros += 9;
    }
    if let Ok(mut small) = i64::try_from(n) {
        while zeros < most && small % 10 == 0 {
            small /= 10;
            zeros += 1;
        }
        return (small.into(), zeros);
    }
    while zeros < most && n % 10 == 0 {
        n /= 10;
        zeros += 1;
    }
    (n, zeros)
}

/// Multiplies; `None` if the product has more than 18 digits behind the point, or is too large.
pub(crate) fn product(a: Decimal, b: Decimal) -> Option<Decimal> {
    let (left, right) = (scaled(a), scaled(b));
    if left == 0 || right == 0 {
        return Some(Decimal::default());
    }
    let (left, zeros) = without_zeros(left, DIGITS);
    let (right, more) = without_zeros(right, DIGITS - zeros);
    let Some(product) = left.checked_mul(right) else {
        return a.checked_mul(b);
    };
    let one = 10_i128.pow(DIGITS - zeros - more);
    (product % one == 0).then(|| Decimal::from_be_bytes((product / one).to_be_bytes()))
}

/// Divides, with the result cut to 18 digits behind the point; `None` for a divisor of 0, or if the quotient is too large.
pub(crate) fn quotient(a: Decimal, b: Decimal) -> Option<Decimal> {
    let (mut left, right) = (scaled(a), scaled(b));
    if right == 0 {
        return None;
    }
    let mut shift = 0;
    if left != 0 {
        while let Some(longer) = left.checked_mul(10) {
            left = longer;
            shift += 1;
        }
    }
    let (right, zeros) = without_zeros(right, u32::MAX);
    let shift = (shift + zeros).checked_sub(DIGITS)?;
    let quotient = left.checked_div(right)?;
    let quotient = quotient.checked_div(10_i128.checked_pow(shift)?)?;
    Some(Decimal::from_be_bytes(quotient.to_be_bytes()))
}

/// Converts a decimal to the nearest double.
#[expect(
    clippy::cast_precision_loss,
    reason = "the result is the nearest double"
)]
pub(crate) fn double(n: Decimal) -> Double {
    let n = scaled(n);
    if n == 0 {
        return Double::from(0.0);
    }
    let (n, zeros) = without_zeros(n, DIGITS);
    Double::from(n as f64 / 10_u64.pow(DIGITS - zeros) as f64)
}

/// Appends the canonical form of a decimal.
pub(crate) fn put(n: Decimal, to: &mut String) {
    let n = scaled(n);
    if n < 0 {
        to.push('-');
    }
    let (whole, rest) = (n.unsigned_abs() / ONE, n.unsigned_abs() % ONE);
    let _ = match u64::try_from(whole) {
        Ok(whole) => write!(to, "{whole}"),
        Err(_) => write!(to, "{whole}"),
    };
    put_fraction(rest, to);
}

/// Appends the digits behind the point, without zeros at their end; `rest` is the fraction times 10^18.
fn put_fraction(rest: u128, to: &mut String) {
    if rest != 0 {
        let _ = write!(to, ".{:018}", rest as u64);
        to.truncate(to.trim_end_matches('0').len());
    }
}

/// Appends the canonical form of a duration, such as `-P1DT2H3M4.5S`.
pub(crate) fn put_duration(n: DayTimeDuration, to: &mut String) {
    let n = scaled(n.as_seconds());
    let (whole, rest) = (n.unsigned_abs() / ONE, n.unsigned_abs() % ONE);
    let Ok(seconds) = u64::try_from(whole) else {
        let _ = write!(
            to,
            "{}",
            DayTimeDuration::new(Decimal::from_be_bytes(n.to_be_bytes()))
        );
        return;
    };
    to.push_str(if n < 0 { "-P" } else { "P" });
    if seconds >= 86_400 {
        let _ = write!(to, "{}D", seconds / 86_400);
    }
    let (hours, minutes, seconds) = (seconds / 3_600 % 24, seconds / 60 % 60, seconds % 60);
    let has_seconds = seconds != 0 || rest != 0 || n == 0;
    if hours != 0 || minutes != 0 || has_seconds {
        to.push('T');
    }
    if hours != 0 {
        let _ = write!(to, "{hours}H");
    }
    if minutes != 0 {
        let _ = write!(to, "{minutes}M");
    }
    if has_seconds {
        let _ = write!(to, "{seconds}");
        put_fraction(rest, to);
        to.push('S');
    }
}

#[cfg(test)]
mod tests {
    use super::{DayTimeDuration, Decimal, Double, double, product, put, put_duration, quotient};
    use proptest::prelude::*;

    /// Decimals of all magnitudes, many with few digits.
    fn decimal() -> impl Strategy<Value = Decimal> {
        let of = |n: i128| Decimal::from_be_bytes(n.to_be_bytes());
        prop_oneof![
            (any::<i128>(), 0_u32..128).prop_map(move |(n, shift)| of(n >> shift.min(127))),
            (any::<i32>(), 0_u32..19).prop_map(move |(n, e)| of(i128::from(n) * 10_i128.pow(e))),
            (any::<i16>(), 0_u32..30).prop_map(move |(n, e)| of(i128::from(n) * 10_i128.pow(e))),
        ]
    }

    /// Returns the bits of a decimal, which differ where its text differs.
    fn bits(n: Option<Decimal>) -> Option<[u8; 16]> {
        n.map(Decimal::to_be_bytes)
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(2_000))]

        #[test]
        fn results_are_those_of_the_library(a in decimal(), b in decimal()) {
            prop_assert_eq!(bits(product(a, b)), bits(a.checked_mul(b)), "{} * {}", a, b);
            prop_assert_eq!(bits(quotient(a, b)), bits(a.checked_div(b)), "{} / {}", a, b);
            prop_assert_eq!(f64::from(double(a)).to_bits(), f64::from(Double::from(a)).to_bits());
            let (mut text, mut duration) = (String::new(), String::new());
            put(a, &mut text);
            prop_assert_eq!(text, a.to_string());
            put_duration(DayTimeDuration::new(a), &mut duration);
            prop_assert_eq!(duration, DayTimeDuration::new(a).to_string());
        }
    }
}
