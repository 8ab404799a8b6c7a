//! Limits on the nesting of a query's text. The parser is recursive, so brackets nested too deeply would overflow the stack; an expression
//! behind a `!` is parsed twice. Brackets in strings, comments and IRIs are not counted.
//!
//! The parser tries to read an IRI first and otherwise takes `<` as "less than". To make the reading unambiguous, characters in such IRIs
//! that could open a bracket, a string or a comment, or end an operand, are replaced by escapes. The parser also takes `true` and `false`
//! in small letters only, so others are replaced.

use std::borrow::Cow;
use std::fmt::Write as _;

/// Limit of nested brackets.
pub(crate) const NESTED_MAX: usize = 256;

/// Limit of nested negations: parsing time doubles with each.
pub(crate) const NEGATED_MAX: usize = 8;

/// Limit of brackets and operators: a chain of operators is parsed into a tree as deep as the chain is long.
pub(crate) const LINKS_MAX: usize = 20_000;

/// Cause of a refusal, with its byte position.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum NestingError {
    /// A bracket above [`NESTED_MAX`].
    Deep(usize),
    /// A bracket or operator above [`LINKS_MAX`].
    Long(usize),
    /// A negation above [`NEGATED_MAX`].
    Negated(usize),
    /// An invalid escape sequence.
    Escape(usize),
}

/// Returns the text to parse in place of `text`, mostly `text` itself.
pub(crate) fn bounded(text: &str) -> Result<Cow<'_, str>, NestingError> {
    let bytes = text.as_bytes();
    let opening = |b: &&u8| matches!(b, b'{' | b'(' | b'[' | b'<');
    let negating = |b: &&u8| **b == b'!';
    if bytes.len() <= LINKS_MAX
        && bytes.iter().filter(opening).count() <= NESTED_MAX
        && bytes.iter().filter(negating).count() <= NEGATED_MAX
        && !(0..bytes.len()).any(|i| boolean(bytes, i).is_some() || is_relation(text, i))
    {
        return Ok(text.into());
    }
    let mut out = String::new();
    let mut copied = 0;
    // Number of negations in front of each open bracket.
    let mut open: Vec<usize> = Vec::new();
    let (mut negated, mut pending) = (0, 0);
    let (mut links, mut round) = (0, 0usize);
    let (mut before, mut data) = (b' ', false);
    let mut i = 0;
    while let Some(&b) = bytes.get(i) {
        links += usize::from(match b {
            b'{' => !data,
            // A parenthesis after a keyword; rows of values are not counted.
            b'(' => before.is_ascii_alphabetic(),
            b'/' | b'|' => true,
            // Signs of numbers and names in data are outside parentheses.
            b'+' | b'-' | b'*' | b'&' => round > 0,
            b'a' | b'A' => round > 0 && is_as(bytes, i),
            _ => false,
        });
        match b {
            b'{' if open.is_empty() => data = ends_with_data(&bytes[..i]),
            // The count restarts with each operation of an update.
            b';' if open.is_empty() => links = 0,
            _ => {}
        }
        if !b.is_ascii_whitespace() {
            before = b;
        }
        if links > LINKS_MAX {
            return Err(NestingError::Long(i));
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
                    return Err(NestingError::Deep(i));
                }
            }
            b'}' | b')' | b']' => {
                negated -= open.pop().unwrap_or(0) + std::mem::take(&mut pending);
            }
            b'!' if bytes.get(i + 1) != Some(&b'=') => {
                pending += 1;
                negated += 1;
                if negated > NEGATED_MAX {
                    return Err(NestingError::Negated(i));
                }
            }
            // The operand of a negation has ended.
            b'&' | b'|' | b',' | b';' | b'=' => negated -= std::mem::take(&mut pending),
            b'"' | b'\'' => match string(bytes, i)? {
                Some(end) => {
                    i = end;
                    continue;
                }
                // The parser stops at an unterminated string.
                None => break,
            },
            b'#' => {
                i += bytes[i..]
                    .iter()
                    .take_while(|b| !matches!(b, b'\n' | b'\r'))
                    .count();
                continue;
            }
            b't' | b'T' | b'f' | b'F' => {
                if let Some(plain) = boolean(bytes, i) {
                    out.push_str(&text[copied..i]);
                    out.push_str(plain);
                    i += plain.len();
                    copied = i;
                    continue;
                }
            }
            // An escape in a name: the next character is literal.
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
                // Start of a triple term.
                if bytes.get(i + 1) == Some(&b'<') && iri(bytes, i + 1).is_none() {
                    open.push(std::mem::take(&mut pending));
                    if open.len() > NESTED_MAX {
                        return Err(NestingError::Deep(i));
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

/// Returns `true` or `false` if that keyword is at a position in other letters. It is no part of a name: letters of every alphabet, and the
/// marks that names contain, are neither before it nor behind it.
fn boolean(bytes: &[u8], at: usize) -> Option<&'static str> {
    let keyword = match bytes[at] {
        b't' | b'T' => "true",
        b'f' | b'F' => "false",
        _ => return None,
    };
    let end = at + keyword.len();
    let word = bytes.get(at..end)?;
    let name = |b: &u8| b.is_ascii_alphanumeric() || matches!(b, b'_' | b'-' | b':') || *b >= 0x80;
    let before = at.checked_sub(1).map(|i| bytes[i]);
    let outside = !before.is_some_and(|b| name(&b) || matches!(b, b'?' | b'$' | b'@' | b'.'))
        && !bytes.get(end).is_some_and(name);
    (outside && word != keyword.as_bytes() && word.eq_ignore_ascii_case(keyword.as_bytes()))
        .then_some(keyword)
}

/// Returns whether an IRI begins at a position that the parser could also read as two comparisons, as in `?a<?b&&?c>?d`. The longest
/// token counts (section 19.8 of SPARQL 1.1).
fn is_relation(text: &str, at: usize) -> bool {
    text.as_bytes()[at] == b'<'
        && iri(text.as_bytes(), at).is_some_and(|end| {
            let iri = &text[at..end];
            iri.contains([',', '&', ')']) && could_be_less_than(iri).is_some()
        })
}

/// Returns whether the word AS is at a position.
fn is_as(bytes: &[u8], at: usize) -> bool {
    let word = |b: Option<&u8>| {
        b.is_some_and(|b| b.is_ascii_alphanumeric() || matches!(b, b'_' | b':' | b'?' | b'$'))
    };
    let begins = at == 0 || !word(bytes.get(at - 1));
    begins
        && matches!(bytes.get(at + 1), Some(b's' | b'S'))
        && !word(bytes.get(at + 2).filter(|b| !matches!(b, b'?' | b'$')))
}

/// Returns whether INSERT DATA or DELETE DATA is in front of a bracket.
fn ends_with_data(before: &[u8]) -> bool {
    let before = before.trim_ascii_end();
    before.len() >= 4 && before[before.len() - 4..].eq_ignore_ascii_case(b"data")
}

/// Returns the end of a string that begins at `from`; `None` if it is unterminated.
fn string(bytes: &[u8], from: usize) -> Result<Option<usize>, NestingError> {
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
        // Unterminated: the parser takes the first two quotes as an empty string.
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

/// Returns the end of an escape sequence in a string.
fn escape(bytes: &[u8], from: usize) -> Result<usize, NestingError> {
    let digits = match bytes.get(from + 1) {
        Some(b't' | b'b' | b'n' | b'r' | b'f' | b'"' | b'\'' | b'\\') => return Ok(from + 2),
        Some(b'u') => 4,
        Some(b'U') => 8,
        _ => return Err(NestingError::Escape(from)),
    };
    let end = from + 2 + digits;
    bytes
        .get(from + 2..end)
        .filter(|d| d.iter().all(u8::is_ascii_hexdigit))
        .and_then(|d| std::str::from_utf8(d).ok())
        .and_then(|d| u32::from_str_radix(d, 16).ok())
        .and_then(char::from_u32)
        .map(|_| end)
        .ok_or(NestingError::Escape(from))
}

/// Returns the end of an IRI that begins at `from`.
fn iri(bytes: &[u8], from: usize) -> Option<usize> {
    let rest = bytes.get(from + 1..)?;
    let end = rest.iter().position(|b| {
        matches!(b, b'<' | b'>' | b'"' | b'{' | b'}' | b'|' | b'^' | b'`') || *b <= b' '
    })?;
    (rest[end] == b'>').then_some(from + end + 2)
}

/// Returns the IRI with escapes if its raw form could also be read as "less than" followed by a string, a comment, brackets, or the end of
/// the comparison.
fn could_be_less_than(iri: &str) -> Option<String> {
    let odd = |c: char| matches!(c, '#' | '\'' | '(' | ')' | '[' | ']' | ',' | '&');
    let first = iri.find(odd)?;
    // No operand of a comparison contains two slashes.
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
        matches!(bounded(text), Err(NestingError::Deep(_)))
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
        assert_eq!(
            bounded(&nested(NEGATED_MAX + 1)),
            Err(NestingError::Negated(32))
        );
        assert!(matches!(
            bounded(&"!".repeat(100)),
            Err(NestingError::Negated(_))
        ));
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
    fn booleans_are_keywords_in_any_letters() {
        let text = "SELECT (TRUE AS ?x) (!False AS ?y) { ?TRUE :TRUE TRUE, <TRUE> ; p:a.TRUE 'TRUE'@TRUE, TRUE . # TRUE\n\
                    FILTER(True&&?a-TRUE) BIND(TRUE: AS ?z) _:TRUE :éTRUE TRUE. }";
        let expected = "SELECT (true AS ?x) (!false AS ?y) { ?TRUE :TRUE true, <TRUE> ; p:a.TRUE 'TRUE'@TRUE, true . # TRUE\n\
                        FILTER(true&&?a-TRUE) BIND(TRUE: AS ?z) _:TRUE :éTRUE true. }";
        assert_eq!(bounded(text), Ok(Cow::Owned(expected.to_owned())));
        let text = "SELECT (true AS ?x) { ?false :TRUE false }";
        assert_eq!(bounded(text), Ok(Cow::Borrowed(text)));
    }

    #[test]
    fn the_longest_token_is_read() {
        let text = "FILTER (?x<?a&&?b>?y)";
        let expected = "FILTER (?x<?a\\u0026\\u0026?b>?y)";
        assert_eq!(bounded(text), Ok(Cow::Owned(expected.to_owned())));
        for text in [
            "FILTER (?x<?a && ?b>?y)",
            "{ <http://e/?a&b,c> <#a> <p:b> }",
            "FILTER(?a<<http://e/a>)",
        ] {
            assert_eq!(bounded(text), Ok(Cow::Borrowed(text)));
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
        // A long string with an invalid escape would be read as a short one.
        let text = format!("{} '''a' # \\uD800\n ((( '''", "()".repeat(300));
        assert_eq!(bounded(&text), Err(NestingError::Escape(609)));
    }
}
