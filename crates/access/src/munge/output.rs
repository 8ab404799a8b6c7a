//! The output of `unmunge -N -k STATUS,UID,LENGTH`: lines of metadata, an empty line, the payload.

use super::{MungeFailure, MungeUser};

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

/// Parses `0`, or `Success (0)` of releases that print names in any case.
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

    proptest! {
        #[test]
        fn any_bytes_are_read(bytes in proptest::collection::vec(any::<u8>(), 0..200)) {
            let _ = read_output(&bytes);
        }
    }
}
