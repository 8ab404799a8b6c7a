//! Line parser for N-Triples and N-Quads. Lines without escapes are parsed here; the library parses the rest and reports errors.

use crate::dictionary::Key;

/// A quad in borrowed terms.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Line<'a> {
    pub(crate) s: Key<'a>,
    pub(crate) p: Key<'a>,
    pub(crate) o: Key<'a>,
    pub(crate) g: Option<Key<'a>>,
}

/// Result of parsing a line.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum Cut<'a> {
    /// A line with a quad.
    Quad(Line<'a>),
    /// An empty line or a comment.
    Empty,
    /// A line for the library.
    Other,
}

/// Parses a line without its line break.
pub(crate) fn cut(line: &str) -> Cut<'_> {
    let line = line.trim_end_matches('\r');
    let mut rest = line.trim_start_matches([' ', '\t']);
    if rest.is_empty() || rest.starts_with('#') {
        return Cut::Empty;
    }
    quad(&mut rest).map_or(Cut::Other, Cut::Quad)
}

fn quad<'a>(rest: &mut &'a str) -> Option<Line<'a>> {
    let s = node(rest)?;
    let p = iri(rest)?;
    let o = if rest.starts_with('"') {
        literal(rest)?
    } else {
        node(rest)?
    };
    let g = if rest.starts_with('.') {
        None
    } else {
        Some(node(rest)?)
    };
    let end = rest.strip_prefix('.')?;
    (end.trim_start_matches([' ', '\t']).is_empty()).then_some(Line { s, p, o, g })
}

fn node<'a>(rest: &mut &'a str) -> Option<Key<'a>> {
    if rest.starts_with("_:") {
        let body = rest.get(2..)?;
        let end = body
            .bytes()
            .position(|b| !(b.is_ascii_alphanumeric() || b == b'_' || b == b'-'))
            .unwrap_or(body.len());
        // A dot may belong to the label or end the statement: left to the library.
        if end == 0
            || body.as_bytes().first() == Some(&b'-')
            || !matches!(body.as_bytes().get(end), Some(b' ' | b'\t'))
        {
            return None;
        }
        let (label, after) = body.split_at_checked(end)?;
        skip(rest, after);
        return Some(Key::Blank(label));
    }
    iri(rest)
}

fn iri<'a>(rest: &mut &'a str) -> Option<Key<'a>> {
    let (text, after) = iri_text(rest)?;
    skip(rest, after);
    Some(Key::Iri(text))
}

/// Returns an IRI with a scheme, and the rest. Everything that the library might refuse or change is left to it: bytes beyond ASCII,
/// escapes, user names and non-numeric ports in an authority, a second `#`.
fn iri_text(rest: &str) -> Option<(&str, &str)> {
    let body = rest.strip_prefix('<')?;
    let (mut scheme, mut fragment) = (None, false);
    for (i, b) in body.bytes().enumerate() {
        match CLASS[b as usize] {
            PLAIN => {}
            COLON => {
                if scheme.is_none() {
                    let mut name = body.get(..i)?.bytes();
                    let is_scheme = name.next()?.is_ascii_alphabetic()
                        && name.all(|b| b.is_ascii_alphanumeric() || b"+-.".contains(&b));
                    scheme = Some(i).filter(|_| is_scheme);
                    scheme?;
                }
            }
            HASH if !fragment => fragment = true,
            END => {
                let (iri, after) = (body.get(..i)?, body.get(i + 1..)?);
                return is_plain(iri.get(scheme? + 1..)?).then_some((iri, after));
            }
            _ => return None,
        }
    }
    None
}

/// Returns whether the part after an IRI's scheme has no authority, or one of a host and an optional port.
fn is_plain(rest: &str) -> bool {
    let Some(rest) = rest.strip_prefix("//") else {
        return true;
    };
    let authority = rest.split(['/', '?', '#']).next().unwrap_or_default();
    let (host, port) = authority.split_once(':').unwrap_or((authority, ""));
    !host.contains('@') && port.bytes().all(|b| b.is_ascii_digit())
}

const BAD: u8 = 0;
const PLAIN: u8 = 1;
const COLON: u8 = 2;
const END: u8 = 3;
const HASH: u8 = 4;

/// Class of each byte within an IRI.
const CLASS: [u8; 256] = {
    let mut class = [BAD; 256];
    let mut b = 0x21;
    while b < 0x7f {
        class[b] = match b as u8 {
            b'>' => END,
            b':' => COLON,
            b'#' => HASH,
            // Bytes that never occur in an IRI, and those whose position the library checks.
            b'<' | b'"' | b'{' | b'}' | b'|' | b'^' | b'`' | b'\\' | b'%' | b'[' | b']' => BAD,
            _ => PLAIN,
        };
        b += 1;
    }
    class
};

fn literal<'a>(rest: &mut &'a str) -> Option<Key<'a>> {
    let body = rest.get(1..)?;
    let end = body.bytes().position(|b| b == b'"' || b == b'\\')?;
    if body.as_bytes().get(end) == Some(&b'\\') {
        return None;
    }
    let (value, after) = (body.get(..end)?, body.get(end + 1..)?);
    if let Some(typed) = after.strip_prefix("^^") {
        let (datatype, after) = iri_text(typed)?;
        // A language-tagged string without a language tag: the library reports the error.
        if datatype.ends_with("angString") {
            return None;
        }
        skip(rest, after);
        return Some(Key::typed(value, datatype));
    }
    if let Some(tagged) = after.strip_prefix('@') {
        let end = tagged
            .bytes()
            .position(|b| !(b.is_ascii_lowercase() || b == b'-'))
            .unwrap_or(tagged.len());
        // The library converts capitals to lower case.
        if !(1..=8).contains(&end)
            || tagged.starts_with('-')
            || !matches!(tagged.as_bytes().get(end), Some(b' ' | b'\t' | b'.'))
        {
            return None;
        }
        let (lang, after) = tagged.split_at_checked(end)?;
        if lang.contains('-') {
            return None;
        }
        skip(rest, after);
        return Some(Key::Lang(value, lang));
    }
    skip(rest, after);
    Some(Key::Plain(value))
}

fn skip<'a>(rest: &mut &'a str, after: &'a str) {
    *rest = after.trim_start_matches([' ', '\t']);
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn plain_lines_are_cut_as_the_library_does() {
        for text in [
            "<http://a/b> <http://a/p> <http://a/c> .",
            "<http://a/b>\t<http://a/p>  \"x y\"  .  ",
            "_:b1 <http://a/p> \"x\"@en .",
            "<http://a/b> <http://a/p> \"1\"^^<http://www.w3.org/2001/XMLSchema#integer> .",
            "<http://a/b> <http://a/p> \"1\"^^<http://www.w3.org/2001/XMLSchema#string> .",
            "<http://a/b> <http://a/p> \"ä€\" <http://a/g> .",
            "<http://a:80/b?c:d> <urn:x:y@z> <tag:a,2026:b#c/d?e> .",
        ] {
            let Cut::Quad(line) = cut(text) else {
                panic!("{text}");
            };
            let quad = oxttl::NQuadsParser::new()
                .for_slice(text.as_bytes())
                .next()
                .unwrap()
                .unwrap();
            assert_eq!(line.s.to_term().unwrap(), quad.subject.into());
            assert_eq!(line.p.to_term().unwrap(), quad.predicate.into());
            assert_eq!(line.o.to_term().unwrap(), quad.object);
            assert_eq!(line.g.is_none(), quad.graph_name.is_default_graph());
        }
    }

    #[test]
    fn everything_else_goes_to_the_library() {
        for text in [
            "<b> <http://a/p> <http://a/c> .",
            "<a/b:c> <http://a/p> <http://a/c> .",
            "<http://a/b> <http://_:e/x> <http://a/c> .",
            "<http://a/b> <http://u@a/p> <http://a/c> .",
            "<http://a/b> <http://a/p#x#y> <http://a/c> .",
            "<http://a/b> <http://a/p> \"x\\n\" .",
            "<http://a/b> <http://a/p> \"x\"@en-GB .",
            "<http://a/b> <http://a/p> \"x\"^^<http://www.w3.org/1999/02/22-rdf-syntax-ns#langString> .",
            "<http://a/b> <http://a/p> \"x\" . # comment",
            "<http://a/b> <http://a/p> <http://a/c>",
            "<http://a/ b> <http://a/p> <http://a/c> .",
            "_:a. <http://a/p> <http://a/c> .",
            "\"x\" <http://a/p> <http://a/c> .",
            "<http://a/é> <http://a/p> <http://a/c> .",
        ] {
            assert_eq!(cut(text), Cut::Other, "{text}");
        }
        assert_eq!(cut("  # comment"), Cut::Empty);
        assert_eq!(cut(" \r"), Cut::Empty);
    }
}
