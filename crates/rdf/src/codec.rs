//! Binary encoding of numbers and texts in images and logs; little-endian, so that columns have the same layout as in memory.

use crate::error::{Error, Result};

/// Reader of encoded values.
#[derive(Debug)]
pub struct Reader<'a> {
    bytes: &'a [u8],
    at: usize,
}

impl<'a> Reader<'a> {
    /// Starts reading at the first byte.
    pub const fn new(bytes: &'a [u8]) -> Self {
        Self { bytes, at: 0 }
    }

    /// Returns whether all bytes were read.
    pub const fn is_empty(&self) -> bool {
        self.at >= self.bytes.len()
    }

    /// Reads the next `n` bytes.
    pub fn take(&mut self, n: usize) -> Result<&'a [u8]> {
        let part = self
            .at
            .checked_add(n)
            .and_then(|end| self.bytes.get(self.at..end))
            .ok_or_else(|| {
                Error::Corrupt(format!(
                    "{n} bytes were expected at byte {}, there are fewer",
                    self.at
                ))
            })?;
        self.at += n;
        Ok(part)
    }

    /// Reads one byte as a number.
    pub fn u8(&mut self) -> Result<u8> {
        Ok(self.take(1)?.first().copied().unwrap_or_default())
    }

    /// Reads a 32-bit number.
    pub fn u32(&mut self) -> Result<u32> {
        let mut word = [0; 4];
        word.copy_from_slice(self.take(4)?);
        Ok(u32::from_le_bytes(word))
    }

    /// Reads a 64-bit number.
    pub fn u64(&mut self) -> Result<u64> {
        let mut word = [0; 8];
        word.copy_from_slice(self.take(8)?);
        Ok(u64::from_le_bytes(word))
    }

    /// Reads a length, which must fit into the remaining bytes at `size` bytes per item.
    pub fn len(&mut self, size: usize) -> Result<usize> {
        let n = self.u64()?;
        let left = (self.bytes.len() - self.at) / size.max(1);
        usize::try_from(n)
            .ok()
            .filter(|n| *n <= left)
            .ok_or_else(|| {
                Error::Corrupt(format!(
                    "a length of {n} at byte {} is too large",
                    self.at - 8
                ))
            })
    }

    /// Reads a length-prefixed byte string.
    pub fn bytes(&mut self) -> Result<&'a [u8]> {
        let n = self.len(1)?;
        self.take(n)
    }

    /// Reads a length-prefixed UTF-8 text.
    pub fn text(&mut self) -> Result<&'a str> {
        let at = self.at;
        std::str::from_utf8(self.bytes()?)
            .map_err(|_| Error::Corrupt(format!("the text at byte {at} is not UTF-8")))
    }

    /// Reads a length-prefixed column of 32-bit numbers.
    pub fn column(&mut self) -> Result<Vec<u32>> {
        let n = self.len(4)?;
        let bytes = self.take(n * 4)?;
        let word = |from: &[u8]| {
            let mut word = [0; 4];
            word.copy_from_slice(from);
            u32::from_le_bytes(word)
        };
        Ok(bytes.chunks_exact(4).map(word).collect())
    }
}

pub(crate) fn put_u32(n: u32, to: &mut Vec<u8>) {
    to.extend_from_slice(&n.to_le_bytes());
}

pub(crate) fn put_u64(n: u64, to: &mut Vec<u8>) {
    to.extend_from_slice(&n.to_le_bytes());
}

pub(crate) fn put_bytes(bytes: &[u8], to: &mut Vec<u8>) {
    put_u64(bytes.len() as u64, to);
    to.extend_from_slice(bytes);
}

pub(crate) fn put_column(column: &[u32], to: &mut Vec<u8>) {
    put_u64(column.len() as u64, to);
    to.reserve(column.len() * 4);
    for n in column {
        to.extend_from_slice(&n.to_le_bytes());
    }
}
