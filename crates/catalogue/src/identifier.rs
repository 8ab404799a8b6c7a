//! Identifiers of licences, DOIs and checksums, and their encoding in URIs.

use std::fmt::Write as _;

/// A licence with its identifiers.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct License {
    /// Identifier of SPDX, such as `CC-BY-4.0`, if it is given by one.
    pub spdx: Option<String>,
    /// Address of the licence's text, if it is known.
    pub url: Option<String>,
    /// Name of the licence for display.
    pub name: String,
}

impl License {
    const SPDX: &str = "https://spdx.org/licenses/";

    /// Parses a licence: an address, an identifier of SPDX, or a text.
    pub fn parse(text: &str) -> Self {
        let text = text.trim();
        if is_url(text) {
            let spdx = text.strip_prefix(Self::SPDX).filter(|id| is_spdx(id));
            let spdx = spdx.map(|id| id.trim_end_matches(".html").to_owned());
            return Self {
                name: spdx.clone().unwrap_or_else(|| text.to_owned()),
                spdx,
                url: Some(text.to_owned()),
            };
        }
        // An identifier of SPDX has a digit or a hyphen (`MIT` and a few others have none).
        let known = ["MIT", "ISC", "Zlib", "Unlicense", "PostgreSQL"].contains(&text);
        let spdx = is_spdx(text) && (known || text.contains('-'));
        Self {
            spdx: spdx.then(|| text.to_owned()),
            url: spdx.then(|| format!("{}{text}", Self::SPDX)),
            name: text.to_owned(),
        }
    }
}

fn is_spdx(text: &str) -> bool {
    let fits = |c: char| c.is_ascii_alphanumeric() || ".-+".contains(c);
    !text.is_empty() && text.len() <= 64 && text.chars().all(fits)
}

/// Whether a text is an absolute address of HTTP.
pub fn is_url(text: &str) -> bool {
    let http = text.starts_with("https://") || text.starts_with("http://");
    http && url::Url::parse(text).is_ok()
}

/// Returns the DOI in a text: `10.PREFIX/SUFFIX`, also behind `doi:` or `https://doi.org/`.
pub(crate) fn doi(text: &str) -> Option<String> {
    let mut rest = text.trim();
    for prefix in [
        "https://doi.org/",
        "http://doi.org/",
        "https://dx.doi.org/",
        "http://dx.doi.org/",
        "doi:",
    ] {
        if let Some(head) = rest.get(..prefix.len())
            && head.eq_ignore_ascii_case(prefix)
        {
            rest = &rest[prefix.len()..];
            break;
        }
    }
    let (prefix, suffix) = rest.split_once('/')?;
    let registrant = prefix.strip_prefix("10.")?;
    let digits =
        (4..=9).contains(&registrant.len()) && registrant.bytes().all(|b| b.is_ascii_digit());
    let plain = suffix
        .chars()
        .all(|c| !c.is_control() && !c.is_whitespace());
    (digits && plain && !suffix.is_empty()).then(|| rest.to_owned())
}

/// Whether a text is a SHA-256 in hexadecimal digits.
pub fn is_sha256(text: &str) -> bool {
    text.len() == 64 && text.bytes().all(|b| b.is_ascii_hexdigit())
}

/// Percent-encodes a name as the path of a URI; slashes and colons stay.
pub fn encoded(text: &str) -> String {
    encode(text, b"-._~/:")
}

/// Percent-encodes a file's path for a URI.
pub(crate) fn encoded_path(text: &str) -> String {
    encode(text, b"-._~/:()")
}

fn encode(text: &str, plain: &[u8]) -> String {
    let mut out = String::with_capacity(text.len());
    for byte in text.bytes() {
        if byte.is_ascii_alphanumeric() || plain.contains(&byte) {
            out.push(char::from(byte));
        } else {
            // Writing to a String cannot fail.
            let _ = write!(out, "%{byte:02X}");
        }
    }
    out
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn dois_in_all_their_forms() {
        for (text, expected) in [
            ("10.5072/abc", Some("10.5072/abc")),
            ("https://doi.org/10.5281/zenodo.7", Some("10.5281/zenodo.7")),
            ("DOI:10.1000/1/2", Some("10.1000/1/2")),
            ("10.5072/", None),
            ("10.x/abc", None),
            ("11.5072/abc", None),
            ("10.5072/a b", None),
            ("", None),
        ] {
            assert_eq!(doi(text).as_deref(), expected, "{text}");
        }
    }

    #[test]
    fn licences_by_address_identifier_and_text() {
        let license = License::parse("CC-BY-4.0");
        assert_eq!(license.spdx.as_deref(), Some("CC-BY-4.0"));
        assert_eq!(
            license.url.as_deref(),
            Some("https://spdx.org/licenses/CC-BY-4.0")
        );
        assert_eq!(
            License::parse("https://spdx.org/licenses/MIT")
                .spdx
                .as_deref(),
            Some("MIT")
        );
        let text = License::parse("for members only");
        assert_eq!((text.spdx, text.url), (None, None));
        let other = License::parse("https://example.org/terms");
        assert_eq!(other.spdx, None);
        assert_eq!(other.url.as_deref(), Some("https://example.org/terms"));
    }

    #[test]
    fn names_are_encoded_as_paths() {
        assert_eq!(encoded("file:/a b/ü%"), "file:/a%20b/%C3%BC%25");
        assert_eq!(encoded("job:1?x#y"), "job:1%3Fx%23y");
    }
}
