//! Edge list files: pairs of numbers, binary or as text. Each pair is one edge, in the order of insertion; duplicates count.
//!
//! This file uses nothing from the rest of the crate: the fuzz target `edge_list` includes it.

use std::fmt;
use std::io::{self, BufRead, Read};

/// Size of one edge in a binary list, in bytes.
const PAIR_BYTES: usize = 8;
/// Maximum number of edges: their indices must fit into 32 bits.
const EDGES_MAX: usize = u32::MAX as usize;
/// Maximum length of an invalid line in a message.
const SHOWN_MAX: usize = 60;

/// Errors of reading an edge list.
#[derive(Debug)]
pub(crate) enum EdgeListError {
    /// Reading the file failed.
    Io(io::Error),
    /// Expected content at a byte offset.
    Byte(u64, String),
    /// Expected content on a line, counted from 1.
    Line(u64, String),
    /// The list has no edges.
    Empty,
    /// The list has more than [`EDGES_MAX`] edges.
    TooMany,
}

/// Omits the file's name: `byte 12: …`, `line 3: …`.
impl fmt::Display for EdgeListError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Io(error) => error.fmt(f),
            Self::Byte(at, expected) => write!(f, "byte {at}: {expected}"),
            Self::Line(number, expected) => write!(f, "line {number}: {expected}"),
            Self::Empty => write!(f, "it holds no edges"),
            Self::TooMany => write!(f, "it holds more than {EDGES_MAX} edges"),
        }
    }
}

impl std::error::Error for EdgeListError {}

impl From<io::Error> for EdgeListError {
    fn from(error: io::Error) -> Self {
        Self::Io(error)
    }
}

/// Reads little-endian 32-bit numbers: source, destination, source, …
pub(crate) fn read_binary(mut from: impl Read) -> Result<Vec<(u32, u32)>, EdgeListError> {
    let mut edges = Vec::new();
    let mut buffer = vec![0; PAIR_BYTES << 13];
    let mut filled = 0;
    loop {
        let n = match from.read(&mut buffer[filled..]) {
            Ok(n) => n,
            Err(error) if error.kind() == io::ErrorKind::Interrupted => continue,
            Err(error) => return Err(error.into()),
        };
        if n == 0 {
            break;
        }
        filled += n;
        let (pairs, rest) = buffer[..filled].as_chunks::<PAIR_BYTES>();
        let kept = rest.len();
        edges.extend(pairs.iter().map(|pair| {
            let both = u64::from_le_bytes(*pair);
            (both as u32, (both >> 32) as u32)
        }));
        buffer.copy_within(filled - kept..filled, 0);
        filled = kept;
        check_count(&edges)?;
    }
    if filled > 0 {
        let at = (edges.len() * PAIR_BYTES) as u64;
        let expected = format!(
            "the last edge is cut short: expected {PAIR_BYTES} bytes, two little-endian 32-bit numbers, found {filled}"
        );
        return Err(EdgeListError::Byte(at, expected));
    }
    not_empty(edges)
}

/// Reads a source and a destination from each line: integers separated by spaces, tabs or a comma. The rest of a line is ignored;
/// empty lines and those that begin with `#` or `%` are comments.
pub(crate) fn read_text(mut from: impl BufRead) -> Result<Vec<(u32, u32)>, EdgeListError> {
    let mut edges = Vec::new();
    let mut line = Vec::new();
    let mut number = 0;
    loop {
        line.clear();
        if from.read_until(b'\n', &mut line)? == 0 {
            break;
        }
        number += 1;
        let text = line.trim_ascii();
        if matches!(text.first(), None | Some(b'#' | b'%')) {
            continue;
        }
        edges.push(pair(text).ok_or_else(|| {
            let shown = String::from_utf8_lossy(&text[..text.len().min(SHOWN_MAX)]).into_owned();
            let expected = format!(
                "expected a source and a destination, whole numbers from 0 to {}, found `{}`",
                u32::MAX,
                shown.escape_debug()
            );
            EdgeListError::Line(number, expected)
        })?);
        check_count(&edges)?;
    }
    not_empty(edges)
}

fn pair(text: &[u8]) -> Option<(u32, u32)> {
    let mut words = text
        .split(|b| b.is_ascii_whitespace() || *b == b',')
        .filter(|word| !word.is_empty());
    Some((number(words.next()?)?, number(words.next()?)?))
}

fn number(digits: &[u8]) -> Option<u32> {
    digits.iter().try_fold(0_u32, |n, digit| {
        let digit = digit.is_ascii_digit().then(|| u32::from(digit - b'0'))?;
        n.checked_mul(10)?.checked_add(digit)
    })
}

fn check_count(edges: &[(u32, u32)]) -> Result<(), EdgeListError> {
    if edges.len() > EDGES_MAX {
        return Err(EdgeListError::TooMany);
    }
    Ok(())
}

fn not_empty(edges: Vec<(u32, u32)>) -> Result<Vec<(u32, u32)>, EdgeListError> {
    if edges.is_empty() {
        return Err(EdgeListError::Empty);
    }
    Ok(edges)
}

/// Encodes an edge for [`read_binary`].
pub(crate) fn binary(edge: (u32, u32)) -> [u8; PAIR_BYTES] {
    (u64::from(edge.1) << 32 | u64::from(edge.0)).to_le_bytes()
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A reader that returns a few bytes at a time, so that pairs are split anywhere.
    struct Trickle<'a>(&'a [u8], usize);

    impl Read for Trickle<'_> {
        fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
            let n = self.1.min(buffer.len()).min(self.0.len());
            buffer[..n].copy_from_slice(&self.0[..n]);
            self.0 = &self.0[n..];
            Ok(n)
        }
    }

    #[test]
    fn binary_lists_come_back_however_they_are_cut() {
        let edges: Vec<(u32, u32)> = (0..20_000).map(|i| (i, u32::MAX - i * 7)).collect();
        let bytes: Vec<u8> = edges.iter().flat_map(|e| binary(*e)).collect();
        assert_eq!(bytes[..8], [0, 0, 0, 0, 0xff, 0xff, 0xff, 0xff]);
        for step in [3, 8, 65_536] {
            assert_eq!(read_binary(Trickle(&bytes, step)).unwrap(), edges);
        }
    }

    #[test]
    fn a_list_that_is_cut_short_says_where() {
        let error = read_binary(&[1, 0, 0, 0, 2, 0, 0, 0, 3, 0, 0][..]).unwrap_err();
        assert_eq!(
            error.to_string(),
            "byte 8: the last edge is cut short: expected 8 bytes, two little-endian 32-bit numbers, found 3"
        );
        assert_eq!(
            read_binary(&[][..]).unwrap_err().to_string(),
            "it holds no edges"
        );
    }

    #[test]
    fn text_is_read_as_people_write_it() {
        let text = "# a comment\n1\t2\n\n 3 4 5.5 extra\r\n5,6\n% another\n1 2";
        assert_eq!(
            read_text(text.as_bytes()).unwrap(),
            [(1, 2), (3, 4), (5, 6), (1, 2)]
        );
    }

    #[test]
    fn a_bad_line_is_named() {
        for (text, number, found) in [
            ("1 2\n3", 2, "3"),
            ("a b", 1, "a b"),
            ("\n\n1 4294967296", 3, "1 4294967296"),
            ("1 -2", 1, "1 -2"),
            ("1 \x1b[2J", 1, "1 \\u{1b}[2J"),
        ] {
            let error = read_text(text.as_bytes()).unwrap_err().to_string();
            assert_eq!(
                error,
                format!(
                    "line {number}: expected a source and a destination, whole numbers from 0 to 4294967295, found `{found}`"
                )
            );
        }
        assert!(matches!(
            read_text("# x\n".as_bytes()),
            Err(EdgeListError::Empty)
        ));
    }
}
