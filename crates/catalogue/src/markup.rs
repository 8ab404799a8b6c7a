//! Writes XML and HTML.

use quick_xml::escape::{escape, partial_escape};
use std::borrow::Cow;

/// A document being written. Text and values of attributes are escaped; characters that XML forbids become U+FFFD.
#[derive(Debug)]
pub(crate) struct Markup {
    out: String,
    open: Vec<&'static str>,
}

/// Elements of HTML that have no content and no end.
const VOID: [&str; 4] = ["meta", "link", "br", "hr"];

/// Replaces characters that XML 1.0 forbids.
fn allowed(text: &str) -> Cow<'_, str> {
    let forbidden = |c: char| {
        (c < ' ' && !matches!(c, '\t' | '\n' | '\r')) || matches!(c, '\u{FFFE}' | '\u{FFFF}')
    };
    if text.contains(forbidden) {
        Cow::Owned(text.replace(forbidden, "\u{FFFD}"))
    } else {
        Cow::Borrowed(text)
    }
}

impl Markup {
    /// Begins a document of XML.
    pub(crate) fn xml() -> Self {
        Self {
            out: "<?xml version=\"1.0\" encoding=\"UTF-8\"?>\n".into(),
            open: Vec::new(),
        }
    }

    /// Begins a document of HTML.
    pub(crate) fn html() -> Self {
        Self {
            out: "<!DOCTYPE html>\n".into(),
            open: Vec::new(),
        }
    }

    /// Begins a part of a document, without a declaration.
    pub(crate) fn part() -> Self {
        Self {
            out: String::new(),
            open: Vec::new(),
        }
    }

    fn begin(&mut self, name: &str, attributes: &[(&str, &str)]) {
        self.out.push('<');
        self.out.push_str(name);
        for (attribute, value) in attributes {
            self.out.push(' ');
            self.out.push_str(attribute);
            self.out.push_str("=\"");
            self.out.push_str(&escape(&*allowed(value)));
            self.out.push('"');
        }
    }

    /// Opens an element with attributes.
    pub(crate) fn open(&mut self, name: &'static str, attributes: &[(&str, &str)]) {
        self.begin(name, attributes);
        self.out.push('>');
        if VOID.contains(&name) {
            self.out.push('\n');
        } else {
            self.open.push(name);
        }
    }

    /// Closes the innermost open element.
    pub(crate) fn close(&mut self) {
        if let Some(name) = self.open.pop() {
            self.out.push_str("</");
            self.out.push_str(name);
            self.out.push_str(">\n");
        }
    }

    /// Writes text inside the open element.
    pub(crate) fn text(&mut self, text: &str) {
        self.out.push_str(&partial_escape(&*allowed(text)));
    }

    /// Writes an element with text.
    pub(crate) fn leaf(&mut self, name: &'static str, attributes: &[(&str, &str)], text: &str) {
        self.open(name, attributes);
        self.text(text);
        self.close();
    }

    /// Writes an element with text, if there is one.
    pub(crate) fn some(&mut self, name: &'static str, text: Option<&str>) {
        if let Some(text) = text {
            self.leaf(name, &[], text);
        }
    }

    /// Writes a document of JSON as data inside HTML; no character of it can end the element.
    pub(crate) fn data(&mut self, media_type: &str, json: &str) {
        self.open("script", &[("type", media_type)]);
        let safe = json
            .replace('<', "\\u003c")
            .replace('>', "\\u003e")
            .replace('&', "\\u0026");
        self.out.push_str(&safe);
        self.close();
    }

    /// Adds another document's elements; its declaration is left out.
    pub(crate) fn embed(&mut self, xml: &str) {
        let rest = match xml.split_once("?>") {
            Some((declaration, rest)) if declaration.starts_with("<?xml") => rest,
            _ => xml,
        };
        self.out.push_str(rest.trim_start());
    }

    /// Closes all elements and returns the document.
    pub(crate) fn done(mut self) -> String {
        while !self.open.is_empty() {
            self.close();
        }
        self.out
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn text_cannot_become_markup() {
        let mut page = Markup::html();
        page.open("p", &[("title", "\"<&\u{1}")]);
        page.text("a < b & c > d");
        page.open("br", &[]);
        page.data("application/ld+json", "{\"a\":\"</script>&\"}");
        assert_eq!(
            page.done(),
            "<!DOCTYPE html>\n<p title=\"&quot;&lt;&amp;\u{FFFD}\">a &lt; b &amp; c &gt; d<br>\n<script \
             type=\"application/ld+json\">{\"a\":\"\\u003c/script\\u003e\\u0026\"}</script>\n</p>\n"
        );
    }
}
