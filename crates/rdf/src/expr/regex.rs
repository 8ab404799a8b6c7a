//! Regular expressions and replacement strings of REGEX and REPLACE, as `XQuery` 1.0 and `XPath` 2.0 Functions and Operators (F&O) define them
//! in section 7.6, for the `regex` crate. What F&O has no meaning for and the crate has one, as `(?i)` and `\b`, means that. `\w` is the
//! crate's, which has `_`. Back-references and Unicode blocks are errors.

use std::str::Chars;

/// Limit of nested character classes.
const DEPTH_MAX: usize = 100;
/// Limit of a translated regular expression, in bytes. `\c` stands for 250 bytes.
const TRANSLATED_BYTES_MAX: usize = 64 << 10;

/// Characters of `\s`, `\i` and `\c`, as members of a class: white space and the names of XML.
const SPACE: &str = r" \t\n\r";
const NAME_START: &str = r":A-Z_a-z\u{C0}-\u{D6}\u{D8}-\u{F6}\u{F8}-\u{2FF}\u{370}-\u{37D}\u{37F}-\u{1FFF}\u{200C}-\u{200D}\u{2070}-\u{218F}\u{2C00}-\u{2FEF}\u{3001}-\u{D7FF}\u{F900}-\u{FDCF}\u{FDF0}-\u{FFFD}\u{10000}-\u{EFFFF}";
const NAME_MORE: &str = r"\-.0-9\u{B7}\u{300}-\u{36F}\u{203F}-\u{2040}";

/// A compiled regular expression.
#[derive(Debug)]
pub(crate) struct CompiledPattern {
    pub(crate) regex: regex::Regex,
    /// Whether the expression matches the empty text.
    pub(crate) matches_empty: bool,
}

impl CompiledPattern {
    /// Compiles a regular expression with its flags. `None` if either is invalid.
    pub(crate) fn compile(pattern: &str, flags: &str) -> Option<Self> {
        let regex = regex(pattern, flags)?;
        let matches_empty = regex.is_match("");
        Some(Self {
            regex,
            matches_empty,
        })
    }
}

fn regex(pattern: &str, flags: &str) -> Option<regex::Regex> {
    let pattern = if flags.contains('q') {
        regex::escape(pattern)
    } else {
        translated(pattern, flags.contains('x'))?
    };
    let mut builder = regex::RegexBuilder::new(&pattern);
    builder.size_limit(1_000_000);
    for flag in flags.chars() {
        match flag {
            's' => builder.dot_matches_new_line(true),
            'm' => builder.multi_line(true),
            'i' => builder.case_insensitive(true),
            'x' | 'q' => &mut builder,
            _ => return None,
        };
    }
    builder.build().ok()
}

/// Returns the crate's notation of a regular expression. White space outside of classes may be without meaning (flag `x`).
fn translated(pattern: &str, skips_space: bool) -> Option<String> {
    let mut out = String::with_capacity(pattern.len());
    let mut chars = pattern.chars();
    while let Some(c) = chars.next() {
        match c {
            '\\' => escaped(chars.next()?, &mut out),
            '[' => out.push_str(&class(&mut chars, 0)?),
            ' ' | '\t' | '\n' | '\r' if skips_space => {}
            c => out.push(c),
        }
    }
    (out.len() <= TRANSLATED_BYTES_MAX).then_some(out)
}

/// Translates the character behind a backslash.
fn escaped(c: char, to: &mut String) {
    let not = if c.is_ascii_uppercase() { "^" } else { "" };
    match c {
        's' | 'S' => to.extend(["[", not, SPACE, "]"]),
        'i' | 'I' => to.extend(["[", not, NAME_START, "]"]),
        'c' | 'C' => to.extend(["[", not, NAME_START, NAME_MORE, "]"]),
        c => to.extend(['\\', c]),
    }
}

/// Translates a character class from behind its `[`. It may end with a class that is subtracted, as in `[a-z-[aeiou]]`; `&` and `~` are
/// characters and no operators.
fn class(chars: &mut Chars<'_>, depth: usize) -> Option<String> {
    if depth > DEPTH_MAX {
        return None;
    }
    let mut out = String::from("[");
    if chars.as_str().starts_with('^') {
        out.extend(chars.next());
    }
    if chars.as_str().starts_with(']') {
        out.push('\\');
        out.extend(chars.next());
    }
    loop {
        match chars.next()? {
            ']' => {
                out.push(']');
                return Some(out);
            }
            '-' if chars.as_str().starts_with('[') => {
                chars.next();
                let subtracted = class(chars, depth + 1)?;
                // The negation of `[^a-[b]]` is that of `[^a]` alone.
                return (chars.next()? == ']').then(|| format!("[{out}]--{subtracted}]"));
            }
            '[' => out.push_str(&class(chars, depth + 1)?),
            '\\' => escaped(chars.next()?, &mut out),
            c @ ('&' | '~') => out.extend(['\\', c]),
            c => out.push(c),
        }
    }
}

/// A fragment of a replacement string.
pub(super) enum Fragment<'a> {
    Text(&'a str),
    /// The text that a group of the regular expression matched; group 0 is the whole.
    Group(usize),
}

impl<'a> Fragment<'a> {
    /// Returns what the fragment stands for in a match: nothing for a group that matched nothing.
    pub(super) fn of(self, groups: &regex::Captures<'a>) -> &'a str {
        match self {
            Self::Text(text) => text,
            Self::Group(n) => groups.get(n).map_or("", |m| m.as_str()),
        }
    }
}

/// Returns the fragments of a replacement string (`fn:replace`, F&O 7.6.3) for a regular expression of `groups` groups. The last one is `None`
/// if the string is an error: a `$` without a number, or a `\` in front of another character than `$` and `\`.
pub(super) fn fragments(text: &str, groups: usize) -> impl Iterator<Item = Option<Fragment<'_>>> {
    let mut rest = text;
    std::iter::from_fn(move || {
        if rest.is_empty() {
            return None;
        }
        let first = first_fragment(rest, groups);
        rest = first.as_ref().map_or("", |(_, rest)| rest);
        Some(first.map(|(fragment, _)| fragment))
    })
}

/// Splits the first fragment off.
fn first_fragment(text: &str, groups: usize) -> Option<(Fragment<'_>, &str)> {
    let (plain, special) = text.split_at(text.find(['\\', '$']).unwrap_or(text.len()));
    if !plain.is_empty() {
        return Some((Fragment::Text(plain), special));
    }
    if let Some(escaped) = special.strip_prefix('\\') {
        let (one, rest) = escaped.split_at_checked(1)?;
        return matches!(one, "\\" | "$").then_some((Fragment::Text(one), rest));
    }
    let digits = special.strip_prefix('$')?;
    let (mut number, mut len) = (0, 0);
    for digit in digits.bytes().take_while(u8::is_ascii_digit) {
        let longer = number * 10 + usize::from(digit - b'0');
        // Further digits are part of the number as long as there is such a group.
        if len > 0 && longer > groups {
            break;
        }
        (number, len) = (longer, len + 1);
    }
    (len > 0).then_some((Fragment::Group(number), &digits[len..]))
}
