//! Percent-encoded texts in URLs and forms.

/// Decodes `%41` and `+`.
pub(super) fn decode(text: &str) -> Option<String> {
    let mut out = Vec::with_capacity(text.len());
    let mut bytes = text.bytes();
    while let Some(byte) = bytes.next() {
        out.push(match byte {
            b'+' => b' ',
            b'%' => {
                let digits = [bytes.next()?, bytes.next()?];
                u8::from_str_radix(std::str::from_utf8(&digits).ok()?, 16).ok()?
            }
            byte => byte,
        });
    }
    String::from_utf8(out).ok()
}

/// Decodes a path segment, in which `+` stands for itself.
pub(super) fn decode_path(text: &str) -> Option<String> {
    decode(&text.replace('+', "%2B"))
}
