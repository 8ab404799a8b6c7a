//! The pages: what `web/` was built into, as it lies in `dist/`, compiled into the program.

use rust_embed::RustEmbed;
use std::borrow::Cow;

#[derive(RustEmbed)]
#[folder = "dist/"]
struct Dist;

/// A file of the pages.
#[derive(Debug, Clone)]
pub struct Asset {
    /// Its bytes.
    pub bytes: Cow<'static, [u8]>,
    /// Its media type.
    pub kind: &'static str,
    /// Changes with its bytes.
    pub tag: String,
    /// Whether its name changes with its bytes, so that it may be kept for ever.
    pub lasting: bool,
}

/// The media types of what there is.
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

/// The file at a path below the root; the page itself is at the empty one.
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

/// The paths of all files.
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
