//! Common parts of XML readers and writers: a bounded source, references, escapes.

use std::io::{self, BufRead, Read};

/// Limit of a tag or text, in bytes.
const PIECE_MAX: u64 = 64 << 20;

/// Source that counts bytes and lines.
#[derive(Debug)]
pub(crate) struct Counted<R> {
    from: R,
    /// Number of bytes read.
    pub(crate) bytes: u64,
    /// Current line, from 1.
    pub(crate) line: u64,
    line_begin: u64,
    piece: u64,
}

impl<R> Counted<R> {
    pub(crate) fn new(from: R) -> Self {
        Self {
            from,
            bytes: 0,
            line: 1,
            line_begin: 0,
            piece: 0,
        }
    }

    /// Marks the start of a tag or text.
    pub(crate) fn begin(&mut self) {
        self.piece = self.bytes;
    }

    /// Returns the column of the next byte, in bytes, from 1.
    pub(crate) fn column(&self) -> u64 {
        self.bytes - self.line_begin + 1
    }
}

impl<R: BufRead> Read for Counted<R> {
    fn read(&mut self, to: &mut [u8]) -> io::Result<usize> {
        let mut have = self.fill_buf()?;
        let n = have.read(to)?;
        self.consume(n);
        Ok(n)
    }
}

impl<R: BufRead> BufRead for Counted<R> {
    fn fill_buf(&mut self) -> io::Result<&[u8]> {
        if self.bytes - self.piece > PIECE_MAX {
            return Err(io::Error::other(format!(
                "a tag or a text is longer than {PIECE_MAX} bytes"
            )));
        }
        self.from.fill_buf()
    }

    fn consume(&mut self, n: usize) {
        // `fill_buf` has already returned the consumed bytes and returns them again without reading.
        if let Ok(have) = self.from.fill_buf() {
            let used = have.get(..n).unwrap_or(have);
            for (at, byte) in used.iter().enumerate() {
                if *byte == b'\n' {
                    self.line += 1;
                    self.line_begin = self.bytes + at as u64 + 1;
                }
            }
        }
        self.from.consume(n);
        self.bytes += n as u64;
    }
}

/// Returns the character of a reference (without `&` and `;`) in a document that declares no entities.
pub(crate) fn reference(name: &str) -> Result<char, String> {
    character_reference(name)?.ok_or_else(|| format!("the entity `{name}` is not known"))
}

/// Returns the character of a numeric or predefined reference; `None` for other entities.
pub(crate) fn character_reference(name: &str) -> Result<Option<char>, String> {
    let c = match name {
        "amp" => '&',
        "lt" => '<',
        "gt" => '>',
        "quot" => '"',
        "apos" => '\'',
        _ => {
            let Some(number) = name.strip_prefix('#') else {
                return Ok(None);
            };
            let number = match number.strip_prefix('x') {
                Some(digits) => u32::from_str_radix(digits, 16),
                None => number.parse(),
            };
            let c = number.ok().and_then(char::from_u32);
            c.filter(|c| *c != '\0')
                .ok_or_else(|| format!("`&{name};` is not a character"))?
        }
    };
    Ok(Some(c))
}

/// Returns an attribute's value in a document that declares no entities.
pub(crate) fn attribute(raw: &str) -> Result<String, String> {
    attribute_with(raw, |name, to| {
        to.push(reference(name)?);
        Ok(())
    })
}

/// Returns an attribute's normalized value: references resolved, each line break or tab as a space.
pub(crate) fn attribute_with(
    raw: &str,
    mut resolve: impl FnMut(&str, &mut String) -> Result<(), String>,
) -> Result<String, String> {
    let mut value = String::with_capacity(raw.len());
    let mut rest = raw;
    loop {
        let (before, reference) = match rest.split_once('&') {
            Some((before, reference)) => (before, Some(reference)),
            None => (rest, None),
        };
        let mut chars = before.chars().peekable();
        while let Some(c) = chars.next() {
            match c {
                '\r' => {
                    chars.next_if_eq(&'\n');
                    value.push(' ');
                }
                '\n' | '\t' => value.push(' '),
                c => value.push(c),
            }
        }
        let Some(reference) = reference else {
            return Ok(value);
        };
        let (name, behind) = reference
            .split_once(';')
            .ok_or("a `&` begins no reference")?;
        resolve(name, &mut value)?;
        rest = behind;
    }
}

/// Appends a text or an attribute's value with XML escapes. The error is a character that XML cannot represent.
pub(crate) fn escape(text: &str, attribute: bool, out: &mut String) -> Result<(), char> {
    for c in text.chars() {
        match c {
            '&' => out.push_str("&amp;"),
            '<' => out.push_str("&lt;"),
            '>' => out.push_str("&gt;"),
            '"' if attribute => out.push_str("&quot;"),
            '\t' if attribute => out.push_str("&#x9;"),
            '\n' if attribute => out.push_str("&#xA;"),
            '\r' => out.push_str("&#xD;"),
            c if is_lacking(c) => return Err(c),
            c => out.push(c),
        }
    }
    Ok(())
}

/// Returns whether XML cannot represent a character, not even by number.
pub(crate) fn is_lacking(c: char) -> bool {
    matches!(c, '\0'..'\t' | '\u{B}' | '\u{C}' | '\u{E}'..' ' | '\u{FFFE}' | '\u{FFFF}')
}
