//! Primitives of all encodings: big-endian integers, LEB128 lengths, length-prefixed bytes.
//!
//! Decoding never panics and never allocates more than the input has bytes: a short or damaged buffer gives a
//! [`DecodeError`] with the byte offset and what was expected there.

#![deny(clippy::indexing_slicing)]

/// The error for a buffer that does not decode.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("byte {at}: expected {expected}")]
pub struct DecodeError {
    /// Offset from the start of the buffer, in bytes.
    pub at: usize,
    /// Description of the bytes that a valid buffer has at this offset.
    pub expected: &'static str,
}

/// Appends a `u16`, big-endian.
#[inline]
pub fn put_u16(out: &mut Vec<u8>, value: u16) {
    out.extend_from_slice(&value.to_be_bytes());
}

/// Appends a `u32`, big-endian.
#[inline]
pub fn put_u32(out: &mut Vec<u8>, value: u32) {
    out.extend_from_slice(&value.to_be_bytes());
}

/// Appends a `u64`, big-endian.
#[inline]
pub fn put_u64(out: &mut Vec<u8>, value: u64) {
    out.extend_from_slice(&value.to_be_bytes());
}

/// Appends an unsigned LEB128 integer (1 to 10 bytes).
#[inline]
pub fn put_varint(out: &mut Vec<u8>, mut value: u64) {
    while value >= 0x80 {
        out.push((value as u8 & 0x7f) | 0x80);
        value >>= 7;
    }
    out.push(value as u8);
}

/// Appends a length (LEB128), then the bytes.
#[inline]
pub fn put_bytes(out: &mut Vec<u8>, bytes: &[u8]) {
    put_varint(out, bytes.len() as u64);
    out.extend_from_slice(bytes);
}

/// A cursor that reads the output of the `put_…` functions from front to back.
#[derive(Debug, Clone)]
pub struct Reader<'a> {
    rest: &'a [u8],
    at: usize,
}

impl<'a> Reader<'a> {
    /// Creates a reader at the first byte.
    #[inline]
    pub fn new(bytes: &'a [u8]) -> Self {
        Self { rest: bytes, at: 0 }
    }

    /// Returns the number of unread bytes.
    #[inline]
    pub fn remaining(&self) -> usize {
        self.rest.len()
    }

    /// Returns the next byte without consuming it.
    #[inline]
    pub fn peek(&self) -> Option<u8> {
        self.rest.first().copied()
    }

    /// Returns the offset of the next byte.
    #[inline]
    pub fn position(&self) -> usize {
        self.at
    }

    /// Builds an error at the current position.
    #[inline]
    pub fn error(&self, expected: &'static str) -> DecodeError {
        DecodeError {
            at: self.at,
            expected,
        }
    }

    /// Reads the next `n` bytes.
    #[inline]
    pub fn take(&mut self, n: usize, expected: &'static str) -> Result<&'a [u8], DecodeError> {
        let Some((head, tail)) = self.rest.split_at_checked(n) else {
            return Err(self.error(expected));
        };
        self.rest = tail;
        self.at += n;
        Ok(head)
    }

    /// Reads all remaining bytes.
    pub fn take_rest(&mut self) -> &'a [u8] {
        let rest = self.rest;
        self.at += rest.len();
        self.rest = &[];
        rest
    }

    /// Reads a single byte.
    #[inline]
    pub fn u8(&mut self, expected: &'static str) -> Result<u8, DecodeError> {
        match self.take(1, expected)? {
            [b] => Ok(*b),
            _ => Err(self.error(expected)),
        }
    }

    /// Reads a big-endian `u16`.
    #[inline]
    pub fn u16(&mut self, expected: &'static str) -> Result<u16, DecodeError> {
        self.array(expected).map(u16::from_be_bytes)
    }

    /// Reads a big-endian `u32`.
    #[inline]
    pub fn u32(&mut self, expected: &'static str) -> Result<u32, DecodeError> {
        self.array(expected).map(u32::from_be_bytes)
    }

    /// Reads a big-endian `u64`.
    #[inline]
    pub fn u64(&mut self, expected: &'static str) -> Result<u64, DecodeError> {
        self.array(expected).map(u64::from_be_bytes)
    }

    /// Reads a fixed number of bytes.
    #[inline]
    pub fn array<const N: usize>(
        &mut self,
        expected: &'static str,
    ) -> Result<[u8; N], DecodeError> {
        let at = self.at;
        self.take(N, expected)?
            .try_into()
            .map_err(|_| DecodeError { at, expected })
    }

    /// Reads an unsigned LEB128 integer.
    #[inline]
    pub fn varint(&mut self, expected: &'static str) -> Result<u64, DecodeError> {
        let mut value = 0_u64;
        for shift in (0..64).step_by(7) {
            let byte = self.u8(expected)?;
            let bits = u64::from(byte & 0x7f);
            if shift == 63 && bits > 1 {
                return Err(self.error(expected));
            }
            value |= bits << shift;
            if byte & 0x80 == 0 {
                return Ok(value);
            }
        }
        Err(self.error(expected))
    }

    /// Reads a LEB128 count of items of at least `item_bytes_min` bytes each. Refuses a count that the rest of the
    /// buffer cannot contain, so that a damaged count never causes a large allocation.
    #[inline]
    pub fn count(
        &mut self,
        item_bytes_min: usize,
        expected: &'static str,
    ) -> Result<usize, DecodeError> {
        let count = self.varint(expected)?;
        let fits = usize::try_from(count)
            .ok()
            .filter(|n| n.saturating_mul(item_bytes_min.max(1)) <= self.remaining());
        fits.ok_or_else(|| self.error(expected))
    }

    /// Reads length-prefixed bytes, without copying.
    #[inline]
    pub fn bytes(&mut self, expected: &'static str) -> Result<&'a [u8], DecodeError> {
        let len = self.count(1, expected)?;
        self.take(len, expected)
    }

    /// Reads a length-prefixed UTF-8 string.
    #[inline]
    pub fn str(&mut self, expected: &'static str) -> Result<&'a str, DecodeError> {
        let at = self.at;
        std::str::from_utf8(self.bytes(expected)?).map_err(|_| DecodeError { at, expected })
    }

    /// Ends reading; refuses trailing bytes.
    pub fn finish(self) -> Result<(), DecodeError> {
        if self.rest.is_empty() {
            Ok(())
        } else {
            Err(self.error("the end of the record"))
        }
    }
}
