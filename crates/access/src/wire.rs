//! Strings of SSH's binary formats (RFC 4251, section 5): a length of four bytes, then the bytes.

/// Splits off the next string.
pub(crate) fn string<'a>(rest: &mut &'a [u8]) -> Option<&'a [u8]> {
    let (length, tail) = rest.split_first_chunk::<4>()?;
    let (bytes, tail) = tail.split_at_checked(u32::from_be_bytes(*length) as usize)?;
    *rest = tail;
    Some(bytes)
}

/// Appends a string with its length.
pub(crate) fn put(message: &mut Vec<u8>, bytes: &[u8]) {
    let length = u32::try_from(bytes.len()).unwrap_or(u32::MAX);
    message.extend_from_slice(&length.to_be_bytes());
    message.extend_from_slice(bytes);
}

/// Splits off the next number of eight bytes.
pub(crate) fn number(rest: &mut &[u8]) -> Option<u64> {
    let (bytes, tail) = rest.split_first_chunk::<8>()?;
    *rest = tail;
    Some(u64::from_be_bytes(*bytes))
}
