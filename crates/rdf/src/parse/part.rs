//! Partitioning of data that is too large for one process: a triple belongs to a part by the hash of its subject.

use crate::dictionary::Key;
use std::fmt;
use std::str::FromStr;

/// A part: its index and the number of parts.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct Part {
    index: u32,
    of: u32,
}

/// Limit of the number of parts.
const MOST: u32 = 4096;

impl Part {
    /// Returns the part with an index, from 0; `None` if out of range.
    pub fn new(index: usize, of: usize) -> Option<Self> {
        let (index, of) = (u32::try_from(index).ok()?, u32::try_from(of).ok()?);
        (index < of && of <= MOST).then_some(Self { index, of })
    }

    /// Returns the index, from 0.
    pub const fn index(self) -> usize {
        self.index as usize
    }

    /// Returns the number of parts.
    pub const fn of(self) -> usize {
        self.of as usize
    }

    /// Returns whether triples of a subject belong to this part. Blank nodes are hashed by their label in the file.
    pub fn contains(self, subject: &Key<'_>) -> bool {
        // Hash tables use the low bits; the high ones are independent of these.
        (subject.hash() >> 32) % u64::from(self.of) == u64::from(self.index)
    }
}

impl fmt::Display for Part {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}/{}", self.index + 1, self.of)
    }
}

impl FromStr for Part {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let read = || {
            let (index, of) = text.split_once('/')?;
            let (index, of) = (index.parse::<usize>().ok()?, of.parse::<usize>().ok()?);
            Self::new(index.checked_sub(1)?, of)
        };
        read().ok_or_else(|| {
            format!("`{text}` is not a part; expected K/N, as in 2/4 for the second of four, with 1 <= K <= N <= {MOST}")
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_part_is_written_as_it_is_read() {
        let part: Part = "2/4".parse().unwrap();
        assert_eq!((part.index(), part.of()), (1, 4));
        assert_eq!(part.to_string(), "2/4");
        for wrong in ["", "0/4", "5/4", "1", "1/0", "-1/3", "1/99999", "1/2/3"] {
            assert!(wrong.parse::<Part>().is_err(), "{wrong}");
        }
    }

    #[test]
    fn each_subject_belongs_to_one_part() {
        for n in 1..7 {
            let mut sizes = vec![0; n];
            for i in 0..1000 {
                let iri = format!("http://example.org/{i}");
                let parts: Vec<usize> = (0..n)
                    .filter(|p| Part::new(*p, n).unwrap().contains(&Key::Iri(&iri)))
                    .collect();
                assert_eq!(parts.len(), 1);
                sizes[parts[0]] += 1;
            }
            assert!(sizes.iter().all(|s| *s > 1000 / n / 2), "{sizes:?}");
        }
    }
}
