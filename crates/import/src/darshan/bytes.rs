//! Reads numbers from byte slices, in either byte order, without panics.

#![cfg_attr(not(test), deny(clippy::indexing_slicing))]

use std::ffi::CStr;

/// The byte order of the machine that wrote a log.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ByteOrder {
    /// Little-endian: x86, ARM, POWER in little-endian mode.
    Little,
    /// Big-endian: BG/P, BG/Q and other POWER machines.
    Big,
}

impl ByteOrder {
    /// Returns the 8 bytes at `offset`; zero if the slice is too short (callers check lengths once per record).
    #[inline]
    pub(crate) fn u64(self, bytes: &[u8], offset: usize) -> u64 {
        let Some(raw) = bytes.get(offset..).and_then(|rest| rest.first_chunk::<8>()) else {
            return 0;
        };
        match self {
            Self::Little => u64::from_le_bytes(*raw),
            Self::Big => u64::from_be_bytes(*raw),
        }
    }

    /// Returns the 4 bytes at `offset`; zero if the slice is too short.
    #[inline]
    pub(crate) fn u32(self, bytes: &[u8], offset: usize) -> u32 {
        let Some(raw) = bytes.get(offset..).and_then(|rest| rest.first_chunk::<4>()) else {
            return 0;
        };
        match self {
            Self::Little => u32::from_le_bytes(*raw),
            Self::Big => u32::from_be_bytes(*raw),
        }
    }

    /// Signed form of [`ByteOrder::u64`].
    #[inline]
    pub(crate) fn i64(self, bytes: &[u8], offset: usize) -> i64 {
        self.u64(bytes, offset).cast_signed()
    }

    /// Signed form of [`ByteOrder::u32`].
    #[inline]
    pub(crate) fn i32(self, bytes: &[u8], offset: usize) -> i32 {
        self.u32(bytes, offset).cast_signed()
    }

    /// Returns the 8 bytes at `offset` as a floating-point number.
    #[inline]
    pub(crate) fn f64(self, bytes: &[u8], offset: usize) -> f64 {
        f64::from_bits(self.u64(bytes, offset))
    }
}

/// Returns text as Darshan stores it: up to the first NUL. Bytes that are not UTF-8 become `\xNN`, so that different names stay different.
pub(crate) fn text(bytes: &[u8]) -> String {
    with_text(bytes, str::to_owned)
}

/// Passes the text that [`text`] returns to a function, without a copy if the bytes are UTF-8: a log may have a name for each record.
pub(crate) fn with_text<T>(bytes: &[u8], take: impl FnOnce(&str) -> T) -> T {
    let bytes = until_nul(bytes).unwrap_or(bytes);
    match std::str::from_utf8(bytes) {
        Ok(text) => take(text),
        Err(_) => take(&escaped(bytes)),
    }
}

/// Returns the bytes before the first NUL; `None` if there is no NUL.
pub(crate) fn until_nul(bytes: &[u8]) -> Option<&[u8]> {
    Some(CStr::from_bytes_until_nul(bytes).ok()?.to_bytes())
}

fn escaped(bytes: &[u8]) -> String {
    let mut out = String::with_capacity(bytes.len() + 8);
    for chunk in bytes.utf8_chunks() {
        out.push_str(chunk.valid());
        for byte in chunk.invalid() {
            out.push_str("\\x");
            for nibble in [byte >> 4, byte & 15] {
                out.push(char::from_digit(u32::from(nibble), 16).unwrap_or('0'));
            }
        }
    }
    out
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn either_order_and_short_slices() {
        let bytes = [0, 0, 0, 0, 0, 100, 53, 103, 9];
        assert_eq!(ByteOrder::Big.u64(&bytes, 0), 6_567_271);
        assert_eq!(
            ByteOrder::Little.u32(&bytes, 5),
            u32::from_le_bytes([100, 53, 103, 9])
        );
        assert_eq!(ByteOrder::Little.u64(&bytes, 2), 0);
        assert_eq!(ByteOrder::Little.u64(&bytes, 1 << 40), 0);
    }

    #[test]
    fn names_that_are_not_utf8_stay_different() {
        assert_eq!(text(b"/a/\xff\0junk"), "/a/\\xff");
        assert_eq!(text(b"/a/\xfe"), "/a/\\xfe");
        assert_eq!(text("/é".as_bytes()), "/é");
    }
}
