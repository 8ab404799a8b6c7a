//! Text with wildcards: `LIKE`, `ILIKE`, `GLOB`, `STARTS WITH` and `ENDS WITH` (PDC's affix queries).

use super::error::is_unprintable;
use std::fmt::{self, Write as _};

/// Text with wildcards. Its own form is that of `LIKE`: `%` stands for any text, `_` for one character, and a backslash
/// takes the meaning from what follows it.
#[derive(Clone, PartialEq)]
pub struct Pattern {
    /// What stands between the `%`s; at least one. No `%` at all is one segment.
    segments: Vec<Segment>,
    fold: bool,
    /// The only text that it can be, or what that begins with, ends with or holds; where it is of such a form.
    literal: Option<(Affix, String)>,
}

/// A piece of the text between two `%`.
#[derive(Debug, Clone, PartialEq)]
enum Segment {
    Literal(String),
    /// With `_`, which is `None`.
    Wild(Vec<Option<char>>),
}

#[derive(Debug, Clone, Copy, PartialEq)]
enum Affix {
    Exact,
    Prefix,
    Suffix,
    Infix,
}

/// What form a [`Pattern`] has, for those who can look text up.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum PatternKind<'a> {
    /// Exactly that text.
    Exact(&'a str),
    /// All that begins so; the empty text: all text.
    Prefix(&'a str),
    /// All that ends so.
    Suffix(&'a str),
    /// All that has it somewhere.
    Infix(&'a str),
    /// Anything else.
    General,
}

#[derive(Debug, Clone, Copy, PartialEq)]
enum Piece {
    Any,
    One,
    Char(char),
}

impl Pattern {
    /// As `LIKE` takes it. A backslash at the end stands for itself; `\n`, `\r`, `\t`, `\0` and `\u{…}` mean what they mean
    /// in strings; before anything else it makes that plain.
    pub fn like(text: &str) -> Self {
        Self::of(pieces(text, '%', '_'), false)
    }

    /// As `GLOB` takes it: `*` stands for any text, `?` for one character.
    pub fn glob(text: &str) -> Self {
        Self::of(pieces(text, '*', '?'), false)
    }

    /// All that begins with a text.
    pub fn prefix(text: &str) -> Self {
        Self::of(text.chars().map(Piece::Char).chain([Piece::Any]), false)
    }

    /// All that ends with a text.
    pub fn suffix(text: &str) -> Self {
        let any = std::iter::once(Piece::Any);
        Self::of(any.chain(text.chars().map(Piece::Char)), false)
    }

    /// The same without regard to case: characters are compared by their lower case, where that is one character.
    #[must_use]
    pub fn ignoring_case(self) -> Self {
        let pieces: Vec<Piece> = self.pieces().collect();
        Self::of(pieces, true)
    }

    /// Whether case does not matter.
    pub fn ignores_case(&self) -> bool {
        self.fold
    }

    fn of(pieces: impl IntoIterator<Item = Piece>, fold: bool) -> Self {
        let mut segments: Vec<Vec<Option<char>>> = vec![Vec::new()];
        let mut after_any = false;
        for piece in pieces {
            match piece {
                // Two `%` side by side are one.
                Piece::Any if after_any => {}
                Piece::Any => segments.push(Vec::new()),
                Piece::One => push(&mut segments, None),
                Piece::Char(c) => push(&mut segments, Some(if fold { folded(c) } else { c })),
            }
            after_any = piece == Piece::Any;
        }
        let segments: Vec<Segment> = segments.into_iter().map(Segment::new).collect();
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
                Segment::Literal(text) => text.chars().map(Piece::Char).collect(),
                Segment::Wild(chars) => chars
                    .iter()
                    .map(|c| c.map_or(Piece::One, Piece::Char))
                    .collect(),
            };
            any.into_iter().chain(rest)
        })
    }

    /// What form it has. Where case does not matter: [`PatternKind::General`].
    pub fn kind(&self) -> PatternKind<'_> {
        match &self.literal {
            None => PatternKind::General,
            Some((Affix::Exact, text)) => PatternKind::Exact(text),
            Some((Affix::Prefix, text)) => PatternKind::Prefix(text),
            Some((Affix::Suffix, text)) => PatternKind::Suffix(text),
            Some((Affix::Infix, text)) => PatternKind::Infix(text),
        }
    }

    /// The longest text that all that matches holds somewhere; empty if there is none. What an index of parts of texts can
    /// be asked for.
    pub fn longest_literal(&self) -> &str {
        let literals = self.segments.iter().filter_map(|s| match s {
            Segment::Literal(text) if !self.fold => Some(text.as_str()),
            _ => None,
        });
        literals.max_by_key(|text| text.len()).unwrap_or_default()
    }

    /// Whether a text has this form. Time grows with the length of the text times that of the longest piece with `_`, or
    /// with the length of the text alone where there is none.
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

    /// The first piece at the start, the last one at the end, those between as early as they come: if there is a way to
    /// place them, this is one.
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

/// Lower case, where that is one character.
fn folded(c: char) -> char {
    let mut lower = c.to_lowercase();
    match (lower.next(), lower.next()) {
        (Some(one), None) => one,
        _ => c,
    }
}

impl Segment {
    fn new(chars: Vec<Option<char>>) -> Self {
        chars
            .iter()
            .copied()
            .collect::<Option<String>>()
            .map_or(Self::Wild(chars), Self::Literal)
    }

    /// What comes behind it in a text that begins with it.
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

    /// Whether a text ends with it.
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

    /// Where it ends when it is first found.
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

fn affix(segments: &[Segment]) -> Option<(Affix, String)> {
    use Segment::Literal;
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

/// Reads a pattern with those wildcards.
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

/// The character that a backslash and what follows stand for.
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

/// As `LIKE` takes it, on one line.
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
