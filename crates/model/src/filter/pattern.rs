//! Text patterns with wildcards: `LIKE`, `ILIKE`, `GLOB`, `STARTS WITH` and `ENDS WITH` (PDC's affix queries).

use super::error::is_unprintable;
use std::fmt::{self, Write as _};

/// A pattern with wildcards. It is formatted in the syntax of `LIKE`: `%` matches any text, `_` one character, and a
/// backslash escapes the next character.
#[derive(Clone, PartialEq)]
pub struct Pattern {
    /// Segments between the `%` signs, at least one; a pattern without `%` is one segment.
    segments: Vec<PatternSegment>,
    fold: bool,
    /// The literal text and its position, if the pattern is an exact text, a prefix, a suffix or an infix.
    literal: Option<(Affix, String)>,
}

/// A part of the pattern between two `%` signs.
#[derive(Debug, Clone, PartialEq)]
enum PatternSegment {
    Literal(String),
    /// Characters and `_` wildcards (`None`).
    Wild(Vec<Option<char>>),
}

#[derive(Debug, Clone, Copy, PartialEq)]
enum Affix {
    Exact,
    Prefix,
    Suffix,
    Infix,
}

/// Form of a [`Pattern`], for indexes that can look up text.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum PatternKind<'a> {
    /// Matches exactly this text.
    Exact(&'a str),
    /// Matches every text with this prefix; with the empty prefix, every text.
    Prefix(&'a str),
    /// Matches every text with this suffix.
    Suffix(&'a str),
    /// Matches every text that contains this text.
    Infix(&'a str),
    /// Has any other form.
    General,
}

#[derive(Debug, Clone, Copy, PartialEq)]
enum Piece {
    Any,
    One,
    Char(char),
}

impl Pattern {
    /// Parses a `LIKE` pattern. A backslash at the end is a literal backslash; `\n`, `\r`, `\t`, `\0` and `\u{…}` mean
    /// the same as in strings; before any other character a backslash makes it literal.
    pub fn like(text: &str) -> Self {
        Self::of(pieces(text, '%', '_'), false)
    }

    /// Parses a `GLOB` pattern: `*` matches any text, `?` one character.
    pub fn glob(text: &str) -> Self {
        Self::of(pieces(text, '*', '?'), false)
    }

    /// Creates the pattern of all texts with a prefix.
    pub fn prefix(text: &str) -> Self {
        Self::of(text.chars().map(Piece::Char).chain([Piece::Any]), false)
    }

    /// Creates the pattern of all texts with a suffix.
    pub fn suffix(text: &str) -> Self {
        let any = std::iter::once(Piece::Any);
        Self::of(any.chain(text.chars().map(Piece::Char)), false)
    }

    /// Returns the pattern without regard to case: characters are compared by their lower case, where that is one
    /// character.
    #[must_use]
    pub fn ignoring_case(self) -> Self {
        let pieces: Vec<Piece> = self.pieces().collect();
        Self::of(pieces, true)
    }

    /// Whether the pattern ignores case.
    pub fn ignores_case(&self) -> bool {
        self.fold
    }

    fn of(pieces: impl IntoIterator<Item = Piece>, fold: bool) -> Self {
        let mut segments: Vec<Vec<Option<char>>> = vec![Vec::new()];
        let mut after_any = false;
        for piece in pieces {
            match piece {
                // Two adjacent `%` are equivalent to one.
                Piece::Any if after_any => {}
                Piece::Any => segments.push(Vec::new()),
                Piece::One => push(&mut segments, None),
                Piece::Char(c) => push(&mut segments, Some(if fold { folded(c) } else { c })),
            }
            after_any = piece == Piece::Any;
        }
        let segments: Vec<PatternSegment> = segments.into_iter().map(PatternSegment::new).collect();
        let literal = if fold { None } else { affix(&segments) };
        Self {
            segments,
            fold,
            literal,
        }
    }

    fn pieces(&self) -> impl Iterator<Item = Piece> {
        self.segments.iter().enumerate().flat_map(|(i, segment)| {
            let any = (i > 0).then_some(Piece::Any);
            let rest: Vec<Piece> = match segment {
                PatternSegment::Literal(text) => text.chars().map(Piece::Char).collect(),
                PatternSegment::Wild(chars) => chars
                    .iter()
                    .map(|c| c.map_or(Piece::One, Piece::Char))
                    .collect(),
            };
            any.into_iter().chain(rest)
        })
    }

    /// Returns the form of the pattern; [`PatternKind::General`] if it ignores case.
    pub fn kind(&self) -> PatternKind<'_> {
        match &self.literal {
            None => PatternKind::General,
            Some((Affix::Exact, text)) => PatternKind::Exact(text),
            Some((Affix::Prefix, text)) => PatternKind::Prefix(text),
            Some((Affix::Suffix, text)) => PatternKind::Suffix(text),
            Some((Affix::Infix, text)) => PatternKind::Infix(text),
        }
    }

    /// Returns the longest text that every match contains; empty if no text is certain. An index on parts of texts can look
    /// it up.
    pub fn longest_literal(&self) -> &str {
        let literals = self.segments.iter().filter_map(|s| match s {
            PatternSegment::Literal(text) if !self.fold => Some(text.as_str()),
            _ => None,
        });
        literals.max_by_key(|text| text.len()).unwrap_or_default()
    }

    /// Whether the text matches. Takes time proportional to the length of the text times that of the longest segment
    /// with `_`, or to the length of the text alone if no segment has `_`.
    pub fn matches(&self, text: &str) -> bool {
        match self.kind() {
            PatternKind::Exact(x) => text == x,
            PatternKind::Prefix(x) => text.starts_with(x),
            PatternKind::Suffix(x) => text.ends_with(x),
            PatternKind::Infix(x) => text.contains(x),
            PatternKind::General if self.fold => {
                let folded: String = text.chars().map(folded).collect();
                self.matches_segments(&folded)
            }
            PatternKind::General => self.matches_segments(text),
        }
    }

    /// Matches the first segment at the start, the last one at the end, and each one between at its earliest position:
    /// if any placement exists, this one does.
    fn matches_segments(&self, text: &str) -> bool {
        let Some((first, rest)) = self.segments.split_first() else {
            return text.is_empty();
        };
        let Some(mut text) = first.strip_from_start(text) else {
            return false;
        };
        let Some((last, between)) = rest.split_last() else {
            return text.is_empty();
        };
        for segment in between {
            match segment.find_end(text).and_then(|end| text.get(end..)) {
                Some(behind) => text = behind,
                None => return false,
            }
        }
        last.ends(text)
    }
}

fn push(segments: &mut [Vec<Option<char>>], piece: Option<char>) {
    if let Some(last) = segments.last_mut() {
        last.push(piece);
    }
}

/// Returns the lower case of a character, if that is one character.
fn folded(c: char) -> char {
    let mut lower = c.to_lowercase();
    match (lower.next(), lower.next()) {
        (Some(one), None) => one,
        _ => c,
    }
}

impl PatternSegment {
    fn new(chars: Vec<Option<char>>) -> Self {
        chars
            .iter()
            .copied()
            .collect::<Option<String>>()
            .map_or(Self::Wild(chars), Self::Literal)
    }

    /// Returns the rest of a text that begins with this segment.
    fn strip_from_start<'a>(&self, text: &'a str) -> Option<&'a str> {
        match self {
            Self::Literal(literal) => text.strip_prefix(literal.as_str()),
            Self::Wild(wild) => {
                let mut chars = text.chars();
                wild.iter()
                    .all(|w| chars.next().is_some_and(|c| w.is_none_or(|w| w == c)))
                    .then_some(chars.as_str())
            }
        }
    }

    /// Whether a text ends with this segment.
    fn ends(&self, text: &str) -> bool {
        match self {
            Self::Literal(literal) => text.ends_with(literal.as_str()),
            Self::Wild(wild) => {
                let mut chars = text.chars().rev();
                wild.iter()
                    .rev()
                    .all(|w| chars.next().is_some_and(|c| w.is_none_or(|w| w == c)))
            }
        }
    }

    /// Returns the end of the first occurrence of this segment.
    fn find_end(&self, text: &str) -> Option<usize> {
        match self {
            Self::Literal(literal) => Some(text.find(literal.as_str())? + literal.len()),
            Self::Wild(_) => text
                .char_indices()
                .map(|(at, _)| at)
                .find_map(|at| self.strip_from_start(text.get(at..)?))
                .map(|behind| text.len() - behind.len()),
        }
    }
}

fn affix(segments: &[PatternSegment]) -> Option<(Affix, String)> {
    use PatternSegment::Literal;
    match segments {
        [Literal(text)] => Some((Affix::Exact, text.clone())),
        [Literal(text), Literal(end)] if end.is_empty() => Some((Affix::Prefix, text.clone())),
        [Literal(start), Literal(text)] if start.is_empty() => Some((Affix::Suffix, text.clone())),
        [Literal(start), Literal(text), Literal(end)] if start.is_empty() && end.is_empty() => {
            Some((Affix::Infix, text.clone()))
        }
        _ => None,
    }
}

/// Splits a pattern with the given wildcards into pieces.
fn pieces(text: &str, any: char, one: char) -> Vec<Piece> {
    let mut out = Vec::new();
    let mut chars = text.chars();
    while let Some(c) = chars.next() {
        out.push(if c == any {
            Piece::Any
        } else if c == one {
            Piece::One
        } else if c == '\\' {
            Piece::Char(escaped(&mut chars))
        } else {
            Piece::Char(c)
        });
    }
    out
}

/// Reads the character that a backslash escapes.
fn escaped(chars: &mut std::str::Chars<'_>) -> char {
    match chars.next() {
        None => '\\',
        Some('n') => '\n',
        Some('r') => '\r',
        Some('t') => '\t',
        Some('0') => '\0',
        Some('u') => {
            let behind = chars.as_str().strip_prefix('{').and_then(|rest| {
                let (digits, behind) = rest.split_once('}')?;
                let code = u32::from_str_radix(digits, 16).ok()?;
                Some((char::from_u32(code)?, behind.chars()))
            });
            match behind {
                Some((c, behind)) => {
                    *chars = behind;
                    c
                }
                None => 'u',
            }
        }
        Some(c) => c,
    }
}

/// Formats on one line, in the syntax of `LIKE`.
impl fmt::Display for Pattern {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for piece in self.pieces() {
            match piece {
                Piece::Any => f.write_char('%')?,
                Piece::One => f.write_char('_')?,
                Piece::Char(c @ ('%' | '_' | '\\')) => write!(f, "\\{c}")?,
                Piece::Char('\n') => f.write_str("\\n")?,
                Piece::Char('\r') => f.write_str("\\r")?,
                Piece::Char('\t') => f.write_str("\\t")?,
                Piece::Char(c) if is_unprintable(c) => write!(f, "\\u{{{:x}}}", u32::from(c))?,
                Piece::Char(c) => f.write_char(c)?,
            }
        }
        Ok(())
    }
}

impl fmt::Debug for Pattern {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let fold = if self.fold { ", ignoring case" } else { "" };
        write!(f, "Pattern(\"{self}\"{fold})")
    }
}
