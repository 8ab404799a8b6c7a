//! IRIs of vertices in RDF and PROV: `urn:esker:type:key`.

use std::fmt::Write as _;

/// Prefix of all IRIs that Esker itself defines.
pub const IRI_PREFIX: &str = "urn:esker:";

/// Appends text to an IRI: characters that IRIs allow in a path stay, all others are percent-encoded by their bytes.
pub fn escape(text: &str, to: &mut String) {
    for c in text.chars() {
        if c.is_ascii_alphanumeric()
            || "-._~/:@!$&'()*+,;=".contains(c)
            || !c.is_ascii() && c.is_alphanumeric()
        {
            to.push(c);
        } else {
            let mut bytes = [0; 4];
            for b in c.encode_utf8(&mut bytes).bytes() {
                let _ = write!(to, "%{b:02X}");
            }
        }
    }
}

/// Decodes percent-encoded text. `None` if the result is not UTF-8.
pub fn unescape(text: &str) -> Option<String> {
    let mut out = Vec::with_capacity(text.len());
    let mut rest = text.as_bytes();
    while let [first, tail @ ..] = rest {
        let hex = tail.get(..2).and_then(|hex| std::str::from_utf8(hex).ok());
        let byte = hex.and_then(|hex| u8::from_str_radix(hex, 16).ok());
        if let Some(byte) = byte.filter(|_| *first == b'%') {
            out.push(byte);
            rest = tail.get(2..).unwrap_or_default();
        } else {
            out.push(*first);
            rest = tail;
        }
    }
    String::from_utf8(out).ok()
}

/// Returns the IRI of the vertex with this type prefix and key.
pub fn vertex(prefix: &str, key: &str) -> String {
    let mut to = String::with_capacity(IRI_PREFIX.len() + prefix.len() + key.len() + 1);
    to.push_str(IRI_PREFIX);
    escape(prefix, &mut to);
    to.push(':');
    escape(key, &mut to);
    to
}

/// Returns the type prefix and the key from the IRI of a vertex or of a version of one.
pub fn parse(iri: &str) -> Option<(String, String)> {
    let (prefix, rest) = iri.strip_prefix(IRI_PREFIX)?.split_once(':')?;
    let key = rest.split_once('?').map_or(rest, |(key, _)| key);
    Some((unescape(prefix)?, unescape(key)?))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_come_back() {
        for (prefix, key) in [
            ("file", "/a b/ü%20?x#y"),
            ("job", "77"),
            ("execution", "urn:uuid:1"),
            ("user", "é:\n"),
        ] {
            let iri = vertex(prefix, key);
            let name = Some((prefix.to_owned(), key.to_owned()));
            assert_eq!(parse(&iri), name);
            assert_eq!(parse(&format!("{iri}?version=2026")), name);
        }
        assert_eq!(parse("urn:esker:types/Job"), None);
        assert_eq!(parse("http://example.org/"), None);
    }
}
