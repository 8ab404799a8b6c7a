//! The hash chain: each line has the hash of the line before it.

use serde_json::{Value, json};
use sha2::{Digest as _, Sha256};
use std::fmt;

/// SHA-256 of a line, without its line feed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct LineHash([u8; 32]);

impl LineHash {
    /// The hash in `prev` of the first line of a log.
    pub const START: Self = Self([0; 32]);

    /// Computes the hash of a line.
    pub fn of(line: &[u8]) -> Self {
        Self(Sha256::digest(line).into())
    }

    /// Parses 64 lower-case hexadecimal digits.
    pub fn parse(text: &str) -> Option<Self> {
        let digits = text.as_bytes();
        if digits.len() != 64 {
            return None;
        }
        let mut hash = [0; 32];
        for (byte, pair) in hash.iter_mut().zip(digits.chunks_exact(2)) {
            let [high, low] = pair else { return None };
            *byte = digit(*high)? << 4 | digit(*low)?;
        }
        Some(Self(hash))
    }
}

fn digit(byte: u8) -> Option<u8> {
    match byte {
        b'0'..=b'9' => Some(byte - b'0'),
        b'a'..=b'f' => Some(byte - b'a' + 10),
        _ => None,
    }
}

impl fmt::Display for LineHash {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.iter().try_for_each(|byte| write!(f, "{byte:02x}"))
    }
}

/// Number and hash of a line. That of the last line is the head of the log.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Head {
    /// Number of the line, from 1.
    pub seq: u64,
    /// Hash of the line.
    pub hash: LineHash,
}

impl Head {
    /// The head of an empty log.
    pub const START: Self = Self {
        seq: 0,
        hash: LineHash::START,
    };

    /// Text of the file `head.json`.
    pub fn to_json(self) -> String {
        format!(
            "{}\n",
            json!({"seq": self.seq, "hash": self.hash.to_string()})
        )
    }

    /// Parses the text of `head.json`; any deviation from the written form is an error.
    pub fn from_json(text: &str) -> Option<Self> {
        let json: Value = serde_json::from_str(text).ok()?;
        let head = Self {
            seq: json.get("seq")?.as_u64()?,
            hash: LineHash::parse(json.get("hash")?.as_str()?)?,
        };
        (head.to_json() == text).then_some(head)
    }
}

impl fmt::Display for Head {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}:{}", self.seq, self.hash)
    }
}

impl std::str::FromStr for Head {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let head = text.trim().split_once(':').and_then(|(seq, hash)| {
            Some(Self {
                seq: seq.parse().ok()?,
                hash: LineHash::parse(hash)?,
            })
        });
        head.ok_or_else(|| {
            format!("`{text}` is not the head of a log: expected SEQ:HASH, as `esker audit head` prints it")
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn hashes_are_those_of_sha_256() {
        let empty = "e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855";
        assert_eq!(LineHash::of(b"").to_string(), empty);
        assert_eq!(LineHash::parse(empty), Some(LineHash::of(b"")));
        for wrong in ["", "e3", &empty.to_uppercase(), &format!("{empty}0")] {
            assert_eq!(LineHash::parse(wrong), None, "{wrong}");
        }
    }

    #[test]
    fn a_head_is_read_as_it_was_written() {
        let head = Head {
            seq: 7,
            hash: LineHash::of(b"x"),
        };
        assert_eq!(Head::from_json(&head.to_json()), Some(head));
        assert_eq!(head.to_string().parse(), Ok(head));
        for at in 0..head.to_json().len() {
            let mut bytes = head.to_json().into_bytes();
            bytes[at] ^= 1;
            let changed = String::from_utf8(bytes).unwrap();
            assert_ne!(Head::from_json(&changed), Some(head), "{changed}");
        }
        assert!("7".parse::<Head>().is_err());
    }
}
