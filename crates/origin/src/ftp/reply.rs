//! FTP replies: lines with a code (RFC 959, section 4.2).

use super::gsi::Seal;
use crate::error::{Error, printable};
use crate::stream::{Chain, Codec, Fault, Verdict};
use bytes::{Bytes, BytesMut};

/// The position of a line in its reply.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Part {
    /// The only line of a reply.
    Only,
    /// The first of several lines.
    First,
    /// Neither the first nor the last line.
    Middle,
    /// The last of several lines.
    Last,
}

/// A line of a reply.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Line {
    /// The three-digit code of the reply.
    pub code: u16,
    /// The position of the line in its reply.
    pub part: Part,
    /// The text without the code.
    pub text: Bytes,
}

impl Line {
    /// Whether the line is the last one of its reply.
    fn closes(&self) -> bool {
        matches!(self.part, Part::Only | Part::Last)
    }
}

/// Splits input into lines.
#[derive(Debug, Default)]
pub struct Lines {
    /// The GSI session, if lines and commands travel inside tokens.
    pub(super) seal: Option<Box<Seal>>,
    open: Option<u16>,
    /// Whether this server ends lines with CR LF: then a lone LF belongs to a name.
    returns: Option<bool>,
}

impl Lines {
    pub(super) fn cut(&mut self, bytes: &mut BytesMut) -> Option<Bytes> {
        let mut from = 0;
        loop {
            let end = from + bytes.get(from..)?.iter().position(|b| *b == b'\n')?;
            let returns = end > 0 && bytes.get(end - 1) == Some(&b'\r');
            if !returns && *self.returns.get_or_insert(returns) {
                from = end + 1;
                continue;
            }
            self.returns.get_or_insert(returns);
            let line = bytes.split_to(end + 1).freeze();
            return Some(line.slice(..end - usize::from(returns)));
        }
    }

    /// Returns the next line, if it has arrived completely.
    pub fn line(&mut self, bytes: &mut BytesMut) -> Result<Option<Line>, Fault> {
        let Some(line) = self.cut(bytes) else {
            return Ok(None);
        };
        let code = code(&line);
        let rest = |from: usize| line.slice(from.min(line.len())..);
        if let Some(open) = self.open {
            let (part, text) = match code {
                Some((code, b' ' | 0)) if code == open => (Part::Last, rest(4)),
                Some((code, b'-')) if code == open => (Part::Middle, rest(4)),
                _ => (Part::Middle, line.clone()),
            };
            if part == Part::Last {
                self.open = None;
            }
            let code = open;
            return Ok(Some(Line { code, part, text }));
        }
        let Some((code, after)) = code else {
            let printable = printable(&line);
            return Err(Fault::Protocol(
                format!("`{printable}` where a reply's code was expected").into(),
            ));
        };
        let part = if after == b'-' {
            self.open = Some(code);
            Part::First
        } else {
            Part::Only
        };
        let text = rest(4);
        Ok(Some(Line { code, part, text }))
    }
}

/// Returns the three-digit code and the byte after it; zero at the end of the line.
fn code(line: &[u8]) -> Option<(u16, u8)> {
    let (digits, rest) = line.split_at_checked(3)?;
    if !digits.iter().all(u8::is_ascii_digit) || !(b'1'..=b'6').contains(digits.first()?) {
        return None;
    }
    let code = digits
        .iter()
        .fold(0, |all, d| all * 10 + u16::from(d - b'0'));
    match rest.first() {
        None => Some((code, 0)),
        Some(after @ (b' ' | b'-')) => Some((code, *after)),
        Some(_) => None,
    }
}

impl Codec for Lines {
    type Item = Line;

    fn decode(&mut self, bytes: &mut BytesMut) -> Result<Option<Line>, Fault> {
        let line = match self.seal.take() {
            None => self.line(bytes)?,
            Some(mut seal) => {
                let line = loop {
                    if let Some(line) = self.line(seal.opened())? {
                        break Some(line);
                    }
                    if !seal.open_next(bytes)? {
                        break None;
                    }
                };
                self.seal = Some(seal);
                line
            }
        };
        match line {
            // The server closes the connection, regardless of the command.
            Some(line) if line.code == 421 && line.closes() => {
                Err(Fault::Closing(printable(&line.text)))
            }
            line => Ok(line),
        }
    }

    fn ends(line: &Line) -> bool {
        line.closes() && line.code >= 200
    }

    fn encode(&mut self, command: &[u8], out: &mut BytesMut) -> Result<(), Fault> {
        match &mut self.seal {
            Some(seal) => seal.close(command, out)?,
            None => out.extend_from_slice(command),
        }
        Ok(())
    }
}

/// A reply of a few lines.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Reply {
    /// The three-digit code of the reply.
    pub code: u16,
    /// The lines without the code.
    pub lines: Vec<Bytes>,
}

/// Maximum number of lines and of bytes in a short reply.
const SHORT: (usize, usize) = (1000, 64 << 10);

impl Reply {
    /// Adds a line; returns true if it was the last one.
    ///
    /// # Errors
    /// Returns an error if the reply exceeds [`SHORT`].
    pub fn add(&mut self, line: Line) -> Result<bool, Fault> {
        let ends = Lines::ends(&line);
        self.code = line.code;
        if line.closes() && !ends {
            // A preliminary reply; the final one follows.
            self.lines.clear();
            return Ok(false);
        }
        self.lines.push(line.text);
        let bytes: usize = self.lines.iter().map(Bytes::len).sum();
        if self.lines.len() > SHORT.0 || bytes > SHORT.1 {
            return Err(Fault::Protocol("a reply of very many lines".into()));
        }
        Ok(ends)
    }

    /// Whether the code means success (2xx).
    pub fn is_well(&self) -> bool {
        (200..300).contains(&self.code)
    }

    /// Returns all lines, joined by spaces.
    pub fn text(&self) -> Vec<u8> {
        self.lines.join(&b' ')
    }

    /// Returns code and text for an error message.
    pub fn printable(&self) -> Box<str> {
        format!("{} {}", self.code, printable(&self.text())).into()
    }
}

/// Builds a command whose complete reply is returned.
pub fn command(text: &[u8], origin: &str) -> Chain<Lines, Reply> {
    let origin: Box<str> = origin.into();
    let mut reply = Reply::default();
    Chain::new(line(text), move |line| match reply.add(line) {
        Ok(true) => Verdict::Done(std::mem::take(&mut reply)),
        Ok(false) => Verdict::Next,
        Err(_) => Verdict::Break(too_long(&origin)),
    })
}

/// The error for a short reply that exceeds its limit.
pub fn too_long(origin: &str) -> Error {
    Error::Protocol {
        origin: origin.into(),
        why: "a reply of very many lines".into(),
    }
}

/// Encodes a command for the wire. A byte 255 is doubled, as Telnet requires.
pub fn line(text: &[u8]) -> Bytes {
    let mut out = Vec::with_capacity(text.len() + 2);
    for byte in text {
        out.push(*byte);
        if *byte == 255 {
            out.push(255);
        }
    }
    out.extend_from_slice(b"\r\n");
    out.into()
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn all(text: &[u8]) -> Result<Vec<(u16, Part, String)>, Fault> {
        let mut lines = Lines::default();
        let mut bytes = BytesMut::from(text);
        let mut all = Vec::new();
        while let Some(line) = lines.decode(&mut bytes)? {
            let text = String::from_utf8_lossy(&line.text).into_owned();
            all.push((line.code, line.part, text));
        }
        Ok(all)
    }

    #[test]
    fn replies_of_one_line_and_of_many() {
        use Part::{First, Last, Middle, Only};
        let read = all(b"220 hi\r\n250-a\r\n 250 b\r\n250-c\r\n200 d\r\n250 e\r\n213\r\n").unwrap();
        let expected = [
            (220, Only, "hi"),
            (250, First, "a"),
            (250, Middle, " 250 b"),
            (250, Middle, "c"),
            (250, Middle, "200 d"),
            (250, Last, "e"),
            (213, Only, ""),
        ];
        let expected = expected.map(|(code, part, text)| (code, part, text.to_owned()));
        assert_eq!(read, expected);
        // If a server ends lines with CR LF, a lone LF is part of a name.
        let read = all(b"250-a\r\n new\nline\r\n250 e\r\n").unwrap();
        assert_eq!(read[1].2, " new\nline");
        let read = all(b"250-a\n b\n250 e\n").unwrap();
        assert_eq!(read.len(), 3);
        assert!(matches!(all(b"hello\r\n"), Err(Fault::Protocol(_))));
        assert!(matches!(all(b"2500 x\r\n"), Err(Fault::Protocol(_))));
        assert!(matches!(all(b"421 bye\r\n"), Err(Fault::Closing(_))));
        assert_eq!(&line(b"MLST \xff")[..], b"MLST \xff\xff\r\n");
    }

    proptest! {
        /// Any bytes yield lines, a request for more input, or a fault, independent of how they are split.
        #[test]
        fn bytes_are_lines_or_faults(
            text in prop::collection::vec(prop_oneof![Just(b'\r'), Just(b'\n'), Just(b'-'), Just(b' '), Just(b'2'), any::<u8>()], 0..200),
            at in 0_usize..200,
        ) {
            let whole = all(&text);
            let at = at.min(text.len());
            let mut lines = Lines::default();
            let mut bytes = BytesMut::from(&text[..at]);
            let mut pieces = Vec::new();
            let mut fault = None;
            let mut rest = Some(&text[at..]);
            loop {
                match lines.decode(&mut bytes) {
                    Ok(Some(line)) => pieces.push((line.code, line.part, String::from_utf8_lossy(&line.text).into_owned())),
                    Ok(None) => match rest.take() {
                        Some(rest) => bytes.extend_from_slice(rest),
                        None => break,
                    },
                    Err(found) => {
                        fault = Some(found);
                        break;
                    }
                }
            }
            prop_assert_eq!(whole, fault.map_or(Ok(pieces), Err));
        }
    }
}
