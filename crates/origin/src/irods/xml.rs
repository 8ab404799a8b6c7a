//! The XML subset of iRODS: elements without attributes, text as bytes, five entities.
//!
//! A standard XML parser fails: file names appear unescaped, with control characters and in any encoding.

/// An element with its text or children.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub(crate) struct Element<'a> {
    pub(crate) name: &'a [u8],
    /// Text as on the wire; [`Element::text`] resolves entities.
    raw: &'a [u8],
    pub(crate) children: Vec<Element<'a>>,
}

/// Maximum nesting of elements; a reply has four levels.
const DEPTH_MAX: usize = 16;
/// Maximum number of elements in a message; a page of rows has a few thousand.
const ELEMENTS_MAX: usize = 1 << 20;

/// Description of an invalid message.
pub(crate) type MessageError = &'static str;

impl Element<'_> {
    /// Returns the first child with this name.
    pub(crate) fn get(&self, name: &str) -> Option<&Self> {
        self.children.iter().find(|c| c.name == name.as_bytes())
    }

    /// Returns all children with this name.
    pub(crate) fn all<'s>(&'s self, name: &'s str) -> impl Iterator<Item = &'s Self> {
        self.children
            .iter()
            .filter(move |c| c.name == name.as_bytes())
    }

    /// Returns the text with entities resolved. Servers before 4.2.9 write `&apos;` for a backtick.
    pub(crate) fn text(&self, old: bool) -> Vec<u8> {
        let entities: [(&[u8], u8); 5] = [
            (b"&amp;", b'&'),
            (b"&lt;", b'<'),
            (b"&gt;", b'>'),
            (b"&quot;", b'"'),
            (b"&apos;", if old { b'`' } else { b'\'' }),
        ];
        let mut out = Vec::with_capacity(self.raw.len());
        let mut rest = self.raw;
        while let Some((first, more)) = rest.split_first() {
            let found = entities.iter().find(|(name, _)| rest.starts_with(name));
            if let Some((name, byte)) = found {
                out.push(*byte);
                rest = &rest[name.len()..];
            } else {
                out.push(*first);
                rest = more;
            }
        }
        out
    }

    /// Returns the number in a child element.
    pub(crate) fn number<N: std::str::FromStr>(&self, name: &str) -> Option<N> {
        str::from_utf8(self.get(name)?.raw)
            .ok()?
            .trim()
            .parse()
            .ok()
    }

    /// Returns the text of a child element.
    pub(crate) fn string(&self, name: &str, old: bool) -> Option<Vec<u8>> {
        self.get(name).map(|e| e.text(old))
    }
}

/// Escapes text for a message.
pub(crate) fn escape(text: &[u8], out: &mut Vec<u8>) {
    for byte in text {
        match byte {
            b'&' => out.extend(b"&amp;"),
            b'<' => out.extend(b"&lt;"),
            b'>' => out.extend(b"&gt;"),
            b'"' => out.extend(b"&quot;"),
            // An apostrophe is not escaped: old servers would take it for a backtick.
            other => out.push(*other),
        }
    }
}

/// Parses the root element of a message.
pub(crate) fn parse(bytes: &[u8]) -> Result<Element<'_>, MessageError> {
    let cut = "a message that ends in the middle";
    let mut open: Vec<(Element<'_>, usize)> = Vec::new();
    let mut count = 0;
    let mut at = 0;
    loop {
        let begin = bytes.get(at..).ok_or(cut)?;
        let skip = begin.iter().position(|b| *b == b'<').ok_or(cut)?;
        if open.is_empty() && !begin[..skip].iter().all(u8::is_ascii_whitespace) {
            return Err("a message that does not begin with an element");
        }
        let tag = at + skip + 1;
        let rest = bytes.get(tag..).ok_or(cut)?;
        let length = rest.iter().position(|b| *b == b'>').ok_or(cut)?;
        let name = &rest[..length];
        at = tag + length + 1;
        if let Some(name) = name.strip_prefix(b"/") {
            let (mut element, from) = open.pop().ok_or("a message that ends before it begins")?;
            if element.name != name {
                return Err("elements that end in another order than they began");
            }
            if element.children.is_empty() {
                element.raw = &bytes[from..tag - 1];
            }
            match open.last_mut() {
                Some((parent, _)) => parent.children.push(element),
                None => return Ok(element),
            }
        } else {
            count += 1;
            if open.len() >= DEPTH_MAX || count > ELEMENTS_MAX {
                return Err("a message of too many elements");
            }
            let element = Element {
                name,
                ..Element::default()
            };
            open.push((element, at));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn messages_are_read() {
        let root =
            parse(b"<A_PI>\n<n>-7</n>\n<s>x&amp;&apos;\xff\n</s>\n<s></s>\n</A_PI>\n").unwrap();
        assert_eq!(root.number("n"), Some(-7));
        let texts: Vec<Vec<u8>> = root.all("s").map(|s| s.text(false)).collect();
        assert_eq!(texts, [b"x&'\xff\n".to_vec(), Vec::new()]);
        assert_eq!(root.string("s", true).unwrap(), b"x&`\xff\n");
        for bad in [
            &b""[..],
            b"x<a></a>",
            b"<a>",
            b"<a></b>",
            b"</a>",
            b"<a",
            b"<a><b></a></b>",
        ] {
            assert!(parse(bad).is_err());
        }
        assert!(parse(&b"<a>".repeat(100)).is_err());
    }

    proptest! {
        #[test]
        fn any_bytes_are_read_or_refused(bytes in proptest::collection::vec(any::<u8>(), 0..200), tags in "[<>/ab]{0,60}") {
            let _ = parse(&bytes);
            let _ = parse(tags.as_bytes());
        }

        #[test]
        fn text_comes_back(text in proptest::collection::vec(any::<u8>(), 0..60)) {
            let mut message = b"<a>".to_vec();
            escape(&text, &mut message);
            message.extend(b"</a>");
            prop_assert_eq!(parse(&message).unwrap().text(false), text);
        }
    }
}
