//! The output of `unmunge -k STATUS,UID,LENGTH`: lines of metadata, an empty line, the payload.

use std::fmt;

/// Maximum size of a credential, in bytes.
pub const CREDENTIAL_BYTES_MAX: usize = 4 << 10;

/// A user that Munge vouches for, and what the client said.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct MungeUser {
    /// User id on the client's machine; all machines of a cluster have the same ids.
    pub uid: u32,
    /// Payload of the credential.
    pub payload: Vec<u8>,
}

/// Reason why a credential is not accepted.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum MungeFailure {
    /// `unmunge` refused the credential with this status.
    Status(u32),
    /// The credential cannot be decoded now.
    Unavailable(String),
}

impl fmt::Display for MungeFailure {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Unavailable(why) => f.write_str(why),
            Self::Status(6) => f.write_str(
                "munged does not run on the server, or at another socket (`munge_socket` in [access])",
            ),
            Self::Status(7) => f.write_str("munged on the server did not answer in time"),
            Self::Status(15) => f.write_str(
                "the Munge credential has expired: it is valid for 300 s, so the clocks of the two machines differ by more (set both by NTP)",
            ),
            Self::Status(16) => f.write_str(
                "the Munge credential is from the future: the clocks of the two machines differ by more than 300 s (set both by NTP)",
            ),
            Self::Status(17) => {
                f.write_str("the Munge credential was used before: each one is valid once")
            }
            Self::Status(18) => f.write_str("the server's user may not decode the Munge credential"),
            Self::Status(status) => write!(
                f,
                "the Munge credential cannot be decoded (status {status}): do the two machines have the same /etc/munge/munge.key?"
            ),
        }
    }
}

/// Whether a text has the form of a credential: one line of limited length.
pub(super) fn is_credential(text: &str) -> bool {
    let inner = text
        .strip_prefix("MUNGE:")
        .and_then(|rest| rest.strip_suffix(':'));
    let base64 = |b: u8| b.is_ascii_alphanumeric() || matches!(b, b'+' | b'/' | b'=');
    text.len() <= CREDENTIAL_BYTES_MAX && inner.is_some_and(|inner| inner.bytes().all(base64))
}

/// Reads the output; `None` if there is no status.
pub(super) fn read_output(out: &[u8]) -> Option<Result<MungeUser, MungeFailure>> {
    let end = out.windows(2).position(|pair| pair == b"\n\n");
    let (head, payload) = match end {
        Some(at) => (out.get(..at)?, out.get(at + 2..)?),
        None => (out, &[][..]),
    };
    let head = std::str::from_utf8(head).ok()?;
    let value = |key: &str| {
        let mut lines = head.lines().filter_map(|line| line.split_once(':'));
        lines.find(|(name, _)| name.trim() == key).map(|(_, v)| v)
    };
    let status = number(value("STATUS")?)?;
    if status != 0 {
        return Some(Err(MungeFailure::Status(status)));
    }
    let (uid, length) = (number(value("UID")?)?, number(value("LENGTH")?)?);
    let length = usize::try_from(length).ok()?;
    let payload = payload.get(..length)?.to_vec();
    Some(Ok(MungeUser { uid, payload }))
}

/// Parses `Success (0)`, or `0` as a release may print without names.
fn number(text: &str) -> Option<u32> {
    let text = text.trim();
    let inner = text
        .rsplit_once('(')
        .and_then(|(_, rest)| rest.strip_suffix(')'));
    inner.unwrap_or(text).trim().parse().ok()
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn outputs_have_a_user_or_a_status() {
        let good = b"STATUS:           0\nUID:              1001\nLENGTH:           5\n\na\n\nbc";
        let user = MungeUser {
            uid: 1001,
            payload: b"a\n\nbc".to_vec(),
        };
        assert_eq!(read_output(good), Some(Ok(user.clone())));
        let named = b"STATUS:  Success (0)\nUID: ada (evil) (1001)\nLENGTH: 5\n\na\n\nbc";
        assert_eq!(read_output(named), Some(Ok(user)));
        let expired = b"STATUS:  Expired credential (15)\nUID: 0\nLENGTH: 0\n\n";
        assert_eq!(read_output(expired), Some(Err(MungeFailure::Status(15))));
        let words = MungeFailure::Status(15).to_string();
        assert!(
            words.contains("clocks") && words.contains("300 s"),
            "{words}"
        );
        for (status, word) in [
            (6, "munged does not run"),
            (11, "munge.key"),
            (16, "clocks"),
            (17, "used before"),
        ] {
            let words = MungeFailure::Status(status).to_string();
            assert!(words.contains(word), "{words}");
        }
        for bad in [
            &b""[..],
            b"UID: 7\nLENGTH: 0\n\n",
            b"STATUS: 0\nUID: 7\n\n",
            b"STATUS: 0\nUID: 7\nLENGTH: 9\n\nshort",
            b"STATUS: 0\nUID: -1\nLENGTH: 0\n\n",
        ] {
            assert_eq!(read_output(bad), None, "{bad:?}");
        }
    }

    #[test]
    fn credentials_are_one_line_of_limited_length() {
        assert!(is_credential("MUNGE:AwQFAAD+/w==:"));
        for text in ["", "MUNGE:", "MUNGE:a b:", "MUNGE:a\nb:", "x MUNGE:a:"] {
            assert!(!is_credential(text), "{text:?}");
        }
        let long = format!("MUNGE:{}:", "a".repeat(CREDENTIAL_BYTES_MAX));
        assert!(!is_credential(&long));
    }

    proptest! {
        #[test]
        fn any_bytes_are_read(bytes in proptest::collection::vec(any::<u8>(), 0..200)) {
            let _ = read_output(&bytes);
        }
    }
}
