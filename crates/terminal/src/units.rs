//! Sizes and durations as users write them (`512MiB`, `90d`), and as they are printed.

use std::time::Duration;

/// Parses a size in bytes: a number, and a unit of 1,024 (`K`, `KiB`, `M`, `MiB`, …) or of 1,000 (`KB`, `MB`, …).
pub fn parse_size(text: &str) -> Result<u64, String> {
    let bad = || {
        format!("`{text}` is not a size: expected a number and a unit, as in 512MiB, 2G or 64000")
    };
    let (number, unit) = split_unit(text).ok_or_else(bad)?;
    let factor: u64 = match unit.to_ascii_lowercase().as_str() {
        "" | "b" => 1,
        "k" | "kib" => 1 << 10,
        "m" | "mib" => 1 << 20,
        "g" | "gib" => 1 << 30,
        "t" | "tib" => 1 << 40,
        "kb" => 1_000,
        "mb" => 1_000_000,
        "gb" => 1_000_000_000,
        "tb" => 1_000_000_000_000,
        _ => return Err(bad()),
    };
    number.checked_mul(factor).ok_or_else(bad)
}

/// Parses a duration: a number and `ms`, `s`, `m`, `h`, `d`, `w` or `y` (365 days).
pub fn parse_duration(text: &str) -> Result<Duration, String> {
    let bad = || {
        format!(
            "`{text}` is not a duration: expected a number and ms, s, m, h, d, w or y, as in 10s or 90d"
        )
    };
    let (number, unit) = split_unit(text).ok_or_else(bad)?;
    let millis: u64 = match unit {
        "ms" => 1,
        "s" => 1_000,
        "m" | "min" => 60_000,
        "h" => 3_600_000,
        "d" => 86_400_000,
        "w" => 7 * 86_400_000,
        "y" => 365 * 86_400_000,
        _ => return Err(bad()),
    };
    let millis = number.checked_mul(millis).ok_or_else(bad)?;
    Ok(Duration::from_millis(millis))
}

fn split_unit(text: &str) -> Option<(u64, &str)> {
    let text = text.trim();
    let end = text
        .find(|c: char| !c.is_ascii_digit())
        .unwrap_or(text.len());
    let (number, unit) = text.split_at(end);
    Some((number.parse().ok()?, unit.trim()))
}

/// Formats a number with separators: `1,234,567`.
pub fn count(n: u64) -> String {
    let digits = n.to_string();
    let mut out = String::with_capacity(digits.len() + digits.len() / 3);
    for (i, digit) in digits.chars().enumerate() {
        if i > 0 && (digits.len() - i).is_multiple_of(3) {
            out.push(',');
        }
        out.push(digit);
    }
    out
}

/// Formats a number and a noun: `1 file`, `2 files`.
pub fn counted(n: u64, one: &str, many: &str) -> String {
    format!("{} {}", count(n), if n == 1 { one } else { many })
}

/// Formats a size: `512 B`, `3.4 KiB`, `1.2 GiB`.
pub fn size(bytes: u64) -> String {
    const UNITS: [&str; 5] = ["KiB", "MiB", "GiB", "TiB", "PiB"];
    if bytes < 1024 {
        return format!("{bytes} B");
    }
    let mut scaled = bytes as f64 / 1024.0;
    let mut unit = UNITS[0];
    for next in &UNITS[1..] {
        if scaled < 1024.0 {
            break;
        }
        scaled /= 1024.0;
        unit = next;
    }
    format!("{scaled:.1} {unit}")
}

/// Formats a duration: `0.42 s`, `3 min 20 s`.
pub fn elapsed(time: Duration) -> String {
    let seconds = time.as_secs();
    if seconds < 120 {
        format!("{:.2} s", time.as_secs_f64())
    } else {
        format!("{} min {} s", seconds / 60, seconds % 60)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sizes() {
        assert_eq!(parse_size("512MiB"), Ok(512 << 20));
        assert_eq!(parse_size("2g"), Ok(2 << 30));
        assert_eq!(parse_size("1 MB"), Ok(1_000_000));
        assert_eq!(parse_size("7"), Ok(7));
        assert!(parse_size("").is_err());
        assert!(parse_size("MiB").is_err());
        assert!(parse_size("5 furlongs").is_err());
        assert!(parse_size("99999999999T").is_err());
        assert_eq!(size(1023), "1023 B");
        assert_eq!(size(3 * 1024 + 512), "3.5 KiB");
        assert_eq!(size(5 << 30), "5.0 GiB");
    }

    #[test]
    fn durations() {
        assert_eq!(parse_duration("10s"), Ok(Duration::from_secs(10)));
        assert_eq!(parse_duration("90d").map(|d| d.as_secs()), Ok(7_776_000));
        assert_eq!(parse_duration("250ms"), Ok(Duration::from_millis(250)));
        assert!(parse_duration("10").is_err());
        assert!(parse_duration("-1s").is_err());
    }

    #[test]
    fn counts() {
        assert_eq!(count(0), "0");
        assert_eq!(count(999), "999");
        assert_eq!(count(1_000), "1,000");
        assert_eq!(count(1_234_567), "1,234,567");
        assert_eq!(counted(1, "file", "files"), "1 file");
    }
}
