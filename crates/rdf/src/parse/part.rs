//! Parts of data that is too much for one process: triples belong to them by the hash of the subject.

use crate::dictionary::Key;
use std::fmt;
use std::str::FromStr;

/// A part of so many.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct Part {
    index: u32,
    of: u32,
}

/// Parts at most.
const MOST: u32 = 4096;

impl Part {
    /// The part of that number, from 0.
    pub fn new(index: usize, of: usize) -> Option<Self> {
        let (index, of) = (u32::try_from(index).ok()?, u32::try_from(of).ok()?);
        (index < of && of <= MOST).then_some(Self { index, of })
    }

    /// Its number, from 0.
    pub const fn index(self) -> usize {
        self.index as usize
    }

    /// How many there are.
    pub const fn of(self) -> usize {
        self.of as usize
    }

    /// Whether triples of that subject belong to it. Blank nodes go by the label that stands in the file.
    pub fn holds(self, subject: &Key<'_>) -> bool {
        // The low bits choose places in hash tables; the high ones are free.
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
            format!("`{text}` is no part; expected K/N, as in 2/4 for the second of four, with 1 <= K <= N <= {MOST}")
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
                    .filter(|p| Part::new(*p, n).unwrap().holds(&Key::Iri(&iri)))
                    .collect();
                assert_eq!(parts.len(), 1);
                sizes[parts[0]] += 1;
            }
            assert!(sizes.iter().all(|s| *s > 1000 / n / 2), "{sizes:?}");
        }
    }
}
