//! Web pages: the files of `dist/`, built from `web/` and compiled into the program.

use rust_embed::RustEmbed;
use std::borrow::Cow;

#[derive(RustEmbed)]
#[folder = "dist/"]
struct Dist;

/// A file of the web pages.
#[derive(Debug, Clone)]
pub struct Asset {
    /// Content of the file.
    pub bytes: Cow<'static, [u8]>,
    /// Media type of the file.
    pub kind: &'static str,
    /// Entity tag, a hash of the content.
    pub tag: String,
    /// Whether the name changes with the content, so that the file may be cached for ever.
    pub lasting: bool,
}

/// Returns the media type of a file by its extension.
fn kind(path: &str) -> &'static str {
    match path.rsplit_once('.').map(|(_, ending)| ending) {
        Some("html") => "text/html; charset=utf-8",
        Some("js") => "text/javascript; charset=utf-8",
        Some("css") => "text/css; charset=utf-8",
        Some("svg") => "image/svg+xml",
        Some("png") => "image/png",
        Some("json" | "map") => "application/json",
        Some("woff2") => "font/woff2",
        Some("txt") => "text/plain; charset=utf-8",
        _ => "application/octet-stream",
    }
}

/// Returns the file at a path below the root; the empty path is the page itself.
pub fn asset(path: &str) -> Option<Asset> {
    let path = if path.is_empty() { "index.html" } else { path };
    let file = Dist::get(path)?;
    let hash = file.metadata.sha256_hash();
    let tag = hash.iter().take(12).map(|b| format!("{b:02x}"));
    Some(Asset {
        bytes: file.data,
        kind: kind(path),
        tag: tag.collect(),
        lasting: path.starts_with("assets/"),
    })
}

/// Iterates over the paths of all files.
pub fn paths() -> impl Iterator<Item = Cow<'static, str>> {
    Dist::iter()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_page_is_there_with_all_that_it_names() {
        let page = asset("").unwrap();
        let text = String::from_utf8(page.bytes.into_owned()).unwrap();
        assert!(text.contains("<title>"), "{text}");
        for name in text.split('"').filter_map(|part| part.strip_prefix("./")) {
            assert!(asset(name).is_some(), "{name} is not in dist/");
        }
        assert!(asset("../Cargo.toml").is_none());
    }

    #[test]
    fn every_file_has_a_type() {
        for path in paths() {
            let found = asset(&path).unwrap();
            assert_ne!(found.kind, "application/octet-stream", "{path}");
        }
    }
}
