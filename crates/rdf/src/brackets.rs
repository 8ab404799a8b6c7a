//! How deep the brackets of a query stand, as the parser reads them: it calls itself for each, so that too many
//! would end the process; and what stands behind a `!` it reads twice. Brackets in strings, comments and IRIs are none.
//!
//! The parser tries an IRI first and else takes `<` as "less than". So that nothing is read in two ways, what could
//! open a bracket, a string or a comment is written as an escape within IRIs that could be taken so.

use std::borrow::Cow;
use std::fmt::Write as _;

/// Brackets within brackets that are parsed.
pub(crate) const NESTED_MAX: usize = 256;

/// Negations within negations that are parsed: the time doubles with each.
pub(crate) const NEGATED_MAX: usize = 8;

/// Brackets and signs of operations: a chain of operations is as deep as it is long once it is parsed.
pub(crate) const LINKS_MAX: usize = 20_000;

/// Why a text is not parsed, and where.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum Unfit {
    /// A bracket too many stands there.
    Deep(usize),
    /// One bracket or sign too many stands there.
    Long(usize),
    /// A negation too many stands there.
    Negated(usize),
    /// An escape that is none stands there.
    Escape(usize),
}

/// The text to parse in place of `text`, mostly itself.
pub(crate) fn bounded(text: &str) -> Result<Cow<'_, str>, Unfit> {
    let bytes = text.as_bytes();
    let opening = |b: &&u8| matches!(b, b'{' | b'(' | b'[' | b'<');
    let negating = |b: &&u8| **b == b'!';
    if bytes.len() <= LINKS_MAX
        && bytes.iter().filter(opening).count() <= NESTED_MAX
        && bytes.iter().filter(negating).count() <= NEGATED_MAX
    {
        return Ok(text.into());
    }
    let mut out = String::new();
    let mut copied = 0;
    // For each open bracket, the negations that it stands behind.
    let mut open: Vec<usize> = Vec::new();
    let (mut negated, mut pending) = (0, 0);
    let (mut links, mut round) = (0, 0usize);
    let (mut before, mut data) = (b' ', false);
    let mut i = 0;
    while let Some(&b) = bytes.get(i) {
        links += usize::from(match b {
            b'{' => !data,
            // Not a row of values.
            b'(' => before.is_ascii_alphabetic(),
            b'/' | b'|' => true,
            // Signs of numbers and names in data stand in no round brackets.
            b'+' | b'-' | b'*' | b'&' => round > 0,
            b'a' | b'A' => round > 0 && is_as(bytes, i),
            _ => false,
        });
        match b {
            b'{' if open.is_empty() => data = ends_with_data(&bytes[..i]),
            // Each operation of an update begins anew.
            b';' if open.is_empty() => links = 0,
            _ => {}
        }
        if !b.is_ascii_whitespace() {
            before = b;
        }
        if links > LINKS_MAX {
            return Err(Unfit::Long(i));
        }
        match b {
            b'(' => round += 1,
            b')' => round = round.saturating_sub(1),
            _ => {}
        }
        match b {
            b'{' | b'(' | b'[' => {
                open.push(std::mem::take(&mut pending));
                if open.len() > NESTED_MAX {
                    return Err(Unfit::Deep(i));
                }
            }
            b'}' | b')' | b']' => {
                negated -= open.pop().unwrap_or(0) + std::mem::take(&mut pending);
            }
            b'!' if bytes.get(i + 1) != Some(&b'=') => {
                pending += 1;
                negated += 1;
                if negated > NEGATED_MAX {
                    return Err(Unfit::Negated(i));
                }
            }
            // What was negated has ended.
            b'&' | b'|' | b',' | b';' | b'=' => negated -= std::mem::take(&mut pending),
            b'"' | b'\'' => match string(bytes, i)? {
                Some(end) => {
                    i = end;
                    continue;
                }
                // Nothing can be read past this.
                None => break,
            },
            b'#' => {
                i += bytes[i..]
                    .iter()
                    .take_while(|b| !matches!(b, b'\n' | b'\r'))
                    .count();
                continue;
            }
            // In a name: the next character stands for itself.
            b'\\' => i += 1,
            b'<' => {
                if let Some(end) = iri(bytes, i) {
                    if let Some(plain) = could_be_less_than(&text[i..end]) {
                        out.push_str(&text[copied..i]);
                        out.push_str(&plain);
                        copied = end;
                    }
                    i = end;
                    continue;
                }
                // A triple term.
                if bytes.get(i + 1) == Some(&b'<') && iri(bytes, i + 1).is_none() {
                    open.push(std::mem::take(&mut pending));
                    if open.len() > NESTED_MAX {
                        return Err(Unfit::Deep(i));
                    }
                    i += 1;
                }
            }
            b'>' if bytes.get(i + 1) == Some(&b'>') => {
                negated -= open.pop().unwrap_or(0) + std::mem::take(&mut pending);
                i += 1;
            }
            _ => {}
        }
        i += 1;
    }
    if copied == 0 {
        return Ok(text.into());
    }
    out.push_str(&text[copied..]);
    Ok(out.into())
}

/// Whether the word AS stands there.
fn is_as(bytes: &[u8], at: usize) -> bool {
    let word = |b: Option<&u8>| {
        b.is_some_and(|b| b.is_ascii_alphanumeric() || matches!(b, b'_' | b':' | b'?' | b'$'))
    };
    let begins = at == 0 || !word(bytes.get(at - 1));
    begins
        && matches!(bytes.get(at + 1), Some(b's' | b'S'))
        && !word(bytes.get(at + 2).filter(|b| !matches!(b, b'?' | b'$')))
}

/// Whether what stands before a bracket is INSERT DATA or DELETE DATA.
fn ends_with_data(before: &[u8]) -> bool {
    let before = before.trim_ascii_end();
    before.len() >= 4 && before[before.len() - 4..].eq_ignore_ascii_case(b"data")
}

/// Where a string that begins at `from` ends; none if it does not.
fn string(bytes: &[u8], from: usize) -> Result<Option<usize>, Unfit> {
    let quote = bytes[from];
    let long = [quote; 3];
    if bytes[from..].starts_with(&long) {
        let mut i = from + 3;
        while let Some(&b) = bytes.get(i) {
            if b == b'\\' {
                i = escape(bytes, i)?;
            } else if bytes[i..].starts_with(&long) {
                return Ok(Some(i + 3));
            } else {
                i += 1;
            }
        }
        // It never ends: the parser takes the first two for an empty one.
        return Ok(Some(from + 2));
    }
    let mut i = from + 1;
    loop {
        match bytes.get(i) {
            None | Some(b'\n' | b'\r') => return Ok(None),
            Some(b'\\') => i = escape(bytes, i)?,
            Some(b) if *b == quote => return Ok(Some(i + 1)),
            Some(_) => i += 1,
        }
    }
}

/// Where an escape of a string ends.
fn escape(bytes: &[u8], from: usize) -> Result<usize, Unfit> {
    let digits = match bytes.get(from + 1) {
        Some(b't' | b'b' | b'n' | b'r' | b'f' | b'"' | b'\'' | b'\\') => return Ok(from + 2),
        Some(b'u') => 4,
        Some(b'U') => 8,
        _ => return Err(Unfit::Escape(from)),
    };
    let end = from + 2 + digits;
    bytes
        .get(from + 2..end)
        .filter(|d| d.iter().all(u8::is_ascii_hexdigit))
        .and_then(|d| std::str::from_utf8(d).ok())
        .and_then(|d| u32::from_str_radix(d, 16).ok())
        .and_then(char::from_u32)
        .map(|_| end)
        .ok_or(Unfit::Escape(from))
}

/// Where an IRI that begins at `from` ends.
fn iri(bytes: &[u8], from: usize) -> Option<usize> {
    let rest = bytes.get(from + 1..)?;
    let end = rest.iter().position(|b| {
        matches!(b, b'<' | b'>' | b'"' | b'{' | b'}' | b'|' | b'^' | b'`') || *b <= b' '
    })?;
    (rest[end] == b'>').then_some(from + end + 2)
}

/// The IRI with escapes, if without them it could be read as "less than" and what a string, a comment or brackets follow.
fn could_be_less_than(iri: &str) -> Option<String> {
    let odd = |c: char| matches!(c, '#' | '\'' | '(' | ')' | '[' | ']');
    let first = iri.find(odd)?;
    // Nothing to compare with has two slashes.
    if iri[..first].contains("//") {
        return None;
    }
    let mut out = String::with_capacity(iri.len() + 8);
    for c in iri.chars() {
        if odd(c) {
            let _ = write!(out, "\\u{:04X}", c as u32);
        } else {
            out.push(c);
        }
    }
    Some(out)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn deep(text: &str) -> bool {
        matches!(bounded(text), Err(Unfit::Deep(_)))
    }

    #[test]
    fn brackets_that_are_none_do_not_count() {
        for text in [
            "\"(\" ".repeat(400),
            "'''(''('\n''' ".repeat(400),
            "# ((\n".repeat(400),
            "<http://e/(> ".repeat(400),
            "p:a\\( ".repeat(400),
            "\"\\\"(\" ".repeat(400),
            "{ ?s ?p <http://e/#x> } ".repeat(400),
        ] {
            assert_eq!(bounded(&text), Ok(Cow::Borrowed(&*text)), "{text}");
        }
    }

    #[test]
    fn closing_brackets_that_are_none_do_not_count_either() {
        for text in [
            "( # )\n",
            "( ')' ",
            "( \"\"\" ) \"\"\"",
            "( <http://e/)> ",
            "( <p:)> ",
            "( p:a\\) ",
            "( <#)> \n",
            "( <p:'> ')' ",
            "( ''')''' ",
            "( <p:b#> )\n( ",
        ] {
            let text = text.repeat(400);
            assert!(deep(&text), "{text}");
        }
    }

    #[test]
    fn chains_have_an_end() {
        let long = |link: &str| bounded(&link.repeat(LINKS_MAX + 1)).is_err();
        for link in ["<p:p>/", "a|", "{} ", "FILTER(1)"] {
            assert!(long(link), "{link}");
        }
        for link in [
            "-1.5 ",
            "a:b-c ",
            "'/' ",
            "<http://e/> ",
            "# /\n",
            "(1 <p:as>) ",
            "INSERT DATA { GRAPH <a:g> {} } ; ",
        ] {
            assert!(!long(link), "{link}");
        }
        let many = |text: &str| text.repeat(LINKS_MAX + 1);
        assert!(bounded(&format!("({}1)", many("1 - "))).is_err());
        assert!(bounded(&format!("SELECT {}", many("(1 AS ?x)"))).is_err());
        let data = format!(
            "INSERT DATA {{ {} }}",
            many("GRAPH <a:g> { <a:b> <a:c> -1 }")
        );
        assert!(bounded(&data).is_ok());
    }

    #[test]
    fn what_is_read_twice_stands_in_few_negations() {
        let nested = |n: usize| format!("{}true{}", "! ( ".repeat(n), ")".repeat(n));
        assert!(bounded(&nested(NEGATED_MAX)).is_ok());
        assert_eq!(bounded(&nested(NEGATED_MAX + 1)), Err(Unfit::Negated(32)));
        assert!(matches!(bounded(&"!".repeat(100)), Err(Unfit::Negated(_))));
        for text in [
            "!?a && ",
            "(!bound(?a)) ",
            "?a != ?b, ",
            "!(?a) = ",
            "'!!' ",
            "<a:!> ",
        ] {
            assert!(bounded(&text.repeat(100)).is_ok(), "{text}");
        }
    }

    #[test]
    fn nothing_can_be_read_in_two_ways() {
        let text = format!("{} <#a> <p:b('c)> <http://e/#a>", "()".repeat(300));
        let expected = format!(
            "{} <\\u0023a> <p:b\\u0028\\u0027c\\u0029> <http://e/#a>",
            "()".repeat(300)
        );
        assert_eq!(bounded(&text), Ok(Cow::Owned(expected)));
        let text = "<<".repeat(300);
        assert!(deep(&text));
        // A long string with a wrong escape would be read as a short one.
        let text = format!("{} '''a' # \\uD800\n ((( '''", "()".repeat(300));
        assert_eq!(bounded(&text), Err(Unfit::Escape(609)));
    }
}
