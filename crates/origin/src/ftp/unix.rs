//! Lines of `ls -l`, for servers without a better format.
//!
//! Times have no seconds and no zone; UTC is assumed, as most servers use it. A date without a year is the latest such day that
//! is not in the future.

use super::time;
use crate::error::printable;
use esker_site_cache::entry::{Attributes, Kind};

/// Parses a line. `now`, in seconds since 1970, determines the year of dates without one.
pub fn parse(line: &[u8], now: i64) -> Option<(Attributes, &[u8])> {
    let line = line.strip_prefix(b" ").unwrap_or(line);
    let (kind, mode) = mode(line)?;
    let tokens = tokens(line);
    // Owners and groups may contain spaces, so the date is searched, with the size in front of it.
    let date = (3..tokens.len()).find_map(|at| date(line, &tokens, at, now).map(|d| (at, d)))?;
    let (at, (modified, last)) = date;
    let word = |at: usize| tokens.get(at).and_then(|(from, to)| line.get(*from..*to));
    // Devices have two numbers in place of a size.
    let is_device = matches!(line.first(), Some(b'b' | b'c'));
    let size = if is_device {
        None
    } else {
        Some(time::digits(word(at - 1)?)?)
    };
    // The name begins one byte after the date and may begin with spaces.
    let end = tokens.get(last)?.1;
    let mut name = line.get(end + 1..).filter(|name| !name.is_empty())?;
    let mut more: Vec<(Box<str>, Box<str>)> = Vec::new();
    let mut target = None;
    if kind == Kind::Link {
        let (own, link) = divide(name, size)?;
        name = own;
        target = Some(printable(link));
    }
    if let (Some(owner), true) = (word(2), at >= 4) {
        more.push(("owner".into(), printable(owner)));
    }
    if let (Some(group), true) = (word(3), at == 5) {
        more.push(("group".into(), printable(group)));
    }
    more.extend(target.map(|target| ("target".into(), target)));
    let attributes = Attributes {
        kind,
        size,
        modified: Some(modified),
        mode: Some(mode),
        more: (!more.is_empty()).then(|| more.into()),
    };
    Some((attributes, name))
}

/// Positions of words; at most as many as can precede a name.
fn tokens(line: &[u8]) -> Vec<(usize, usize)> {
    let mut tokens = Vec::new();
    let mut from = None;
    for (at, byte) in line.iter().enumerate() {
        match (*byte == b' ', from) {
            (false, None) => from = Some(at),
            (true, Some(start)) => {
                tokens.push((start, at));
                from = None;
                if tokens.len() == 20 {
                    break;
                }
            }
            _ => {}
        }
    }
    tokens
}

/// Parses `Nov 23 01:30` or `Feb  3  2001` from word `at` on; returns the time and the index of its last word.
fn date(line: &[u8], tokens: &[(usize, usize)], at: usize, now: i64) -> Option<(i64, usize)> {
    const MONTHS: [&[u8]; 12] = [
        b"jan", b"feb", b"mar", b"apr", b"may", b"jun", b"jul", b"aug", b"sep", b"oct", b"nov",
        b"dec",
    ];
    let word = |at: usize| tokens.get(at).and_then(|(from, to)| line.get(*from..*to));
    let month = word(at)?.to_ascii_lowercase();
    let month = MONTHS.iter().position(|m| **m == month[..])? as u8 + 1;
    let day = time::digits(word(at + 1)?).filter(|d| *d <= 31)? as u8;
    let third = word(at + 2)?;
    time::digits(word(at - 1)?)?;
    let seconds = if let Some(colon) = third.iter().position(|b| *b == b':') {
        let part = |text: Option<&[u8]>| time::digits(text?).filter(|n| *n < 60).map(|n| n as u8);
        let (hour, minute) = (part(third.get(..colon))?, part(third.get(colon + 1..))?);
        let year = time::year(now);
        let this = time::seconds(year, month, day, hour, minute, 0);
        // Clocks and zones differ: a date up to one day ahead belongs to this year.
        match this.filter(|this| *this <= now + 86_400) {
            Some(this) => this,
            None => time::seconds(year - 1, month, day, hour, minute, 0)?,
        }
    } else {
        let year = time::digits(third).filter(|y| (1900..=9999).contains(y))?;
        time::seconds(year as i64, month, day, 0, 0, 0)?
    };
    Some((time::nanoseconds(seconds)?, at + 2))
}

/// Parses `drwxr-sr-x` and an optional mark after it.
fn mode(line: &[u8]) -> Option<(Kind, u32)> {
    let (letters, rest) = line.split_at_checked(10)?;
    if !matches!(rest, [b' ', ..] | [b'.' | b'+' | b'@', b' ', ..]) {
        return None;
    }
    let kind = match letters.first()? {
        b'-' => Kind::File,
        b'd' => Kind::Directory,
        b'l' => Kind::Link,
        b'b' | b'c' | b'p' | b's' | b'D' => Kind::Other,
        _ => return None,
    };
    let mut mode = 0;
    for (at, letter) in letters.iter().skip(1).enumerate() {
        let bit = 0o400 >> at;
        let special = [0o4000, 0o2000, 0o1000].get(at / 3)?;
        mode |= match (at % 3, letter) {
            (_, b'-') => 0,
            (0, b'r') | (1, b'w') | (2, b'x') => bit,
            (2, b's') if at < 6 => bit | special,
            (2, b'S' | b'l') if at < 6 => *special,
            (2, b't') if at > 6 => bit | special,
            (2, b'T') if at > 6 => *special,
            _ => return None,
        };
    }
    Some((kind, mode))
}

/// Splits `name -> target`; both may contain an arrow, so the link's size gives the length of its target.
fn divide(text: &[u8], size: Option<u64>) -> Option<(&[u8], &[u8])> {
    const ARROW: &[u8] = b" -> ";
    let cut = |at: usize| Some((text.get(..at)?, text.get(at + ARROW.len()..)?));
    let by_size = size.and_then(|size| {
        let at = text.len().checked_sub(size as usize)?;
        let at = at.checked_sub(ARROW.len())?;
        text.get(at..)?.starts_with(ARROW).then_some(at)
    });
    let first = || text.windows(ARROW.len()).position(|w| w == ARROW);
    let at = by_size.or_else(first)?;
    cut(at).filter(|(name, _)| !name.is_empty())
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    /// 2026-11-23 02:00.
    const NOW: i64 = 1_795_399_200;

    fn read(line: &str) -> Option<(Attributes, String)> {
        let (attributes, name) = parse(line.as_bytes(), NOW)?;
        Some((attributes, String::from_utf8_lossy(name).into_owned()))
    }

    #[test]
    fn what_servers_print() {
        let (a, name) =
            read("-rw-r--r--    1 0        0        5368709120 Nov 23 01:30 a b").unwrap();
        assert_eq!(
            (a.kind, a.size, name.as_str()),
            (Kind::File, Some(5_368_709_120), "a b")
        );
        assert_eq!(a.modified, Some(1_795_397_400_000_000_000));
        assert_eq!(a.mode, Some(0o644));
        let (a, name) =
            read(" drwxrwsr-t   2 root     root         4096 Feb  3  2001  lead").unwrap();
        assert_eq!(
            (a.kind, a.mode, name.as_str()),
            (Kind::Directory, Some(0o3775), " lead")
        );
        let (a, name) = read("-rwSr-sr-T. 1 ann Domain Users 6 Dec 24 12:00 x").unwrap();
        assert_eq!((a.mode, name.as_str()), (Some(0o7654), "x"));
        // A December after `now` is last year's.
        assert_eq!(a.modified, Some(1_766_577_600_000_000_000));
        let (a, name) = read("lrwxrwxrwx 1 root root 3 Nov 23 01:32 l3 -> m -> one").unwrap();
        assert_eq!((a.kind, name.as_str()), (Kind::Link, "l3 -> m"));
        assert_eq!(a.more.unwrap()[2], ("target".into(), "one".into()));
        let (a, name) = read("crw-rw-rw- 1 root root 1, 3 Nov 23 01:30 null").unwrap();
        assert_eq!((a.kind, a.size, name.as_str()), (Kind::Other, None, "null"));
        // A line without a group.
        assert_eq!(read("-rw-r--r-- 1 ann 6 Nov 23 01:30 x").unwrap().1, "x");
        for bad in [
            "",
            "total 8",
            "11-23-26  01:30AM       <DIR>          x",
            "+i8388621.48594,m825718503,r,s280,\tx",
            "-rw-r--r-- 1 a b 6 Nov 23 01:30",
            "-rw-r--r-- 1 a b 6 Nov 23 01:30 ",
            "-rw-r--r-- 1 a b 6 Nov 32 01:30 x",
            "-rw-r--r-- 1 a b six Nov 23 01:30 x",
            "lrwxrwxrwx 1 a b 6 Nov 23 01:30 x",
            "-rw-r--r--",
        ] {
            assert_eq!(read(bad), None, "{bad}");
        }
    }

    proptest! {
        #[test]
        fn any_line_is_read_or_not(line in prop::collection::vec(any::<u8>(), 0..200), now in any::<i32>()) {
            let _ = parse(&line, i64::from(now));
        }

        #[test]
        fn what_looks_like_one_is_read_or_not(line in "[-dlbc]([-rwxsStT]{9})[ .+]?( {1,2}([0-9]{1,5}|root|Nov|Feb|[0-9]{2}:[0-9]{2}| -> )){0,12} ?.{0,9}") {
            let _ = parse(line.as_bytes(), NOW);
        }

        /// A line formatted as by `ls` is parsed back to its values.
        #[test]
        fn lines_of_ls_are_read(size in 0_u64..1 << 50, name in "[^\r\n]{1,40}", day in 1_u8..=28, hour in 0_u8..24) {
            let line = format!("-rw-r--r--    1 ann      users {size:>12} Oct {day:02} {hour:02}:07 {name}");
            let (attributes, read) = parse(line.as_bytes(), NOW).unwrap();
            prop_assert_eq!(read, name.as_bytes());
            prop_assert_eq!(attributes.size, Some(size));
        }
    }
}
