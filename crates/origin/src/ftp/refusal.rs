//! Classification of refusals: servers use 550 for absent and for forbidden paths, so the text has to be read.

use super::reply::Reply;

/// The reason for a refusal.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Refusal {
    /// The path does not exist.
    Absent,
    /// The principal lacks permission.
    Denied,
    /// The server does not support the command or its argument.
    Unsupported,
    /// The server is temporarily unable.
    Busy,
    /// The text does not tell the reason.
    Unclear,
}

const ABSENT: [&str; 12] = [
    "no such file",
    "no such directory",
    "no such object",
    "not found",
    "path_not_found",
    "does not exist",
    "doesn't exist",
    "doesn't exists",
    "cannot find the",
    "nonexistent",
    // A component of the path is a file, so the path does not exist.
    "not a directory",
    "not_a_directory",
];

const DENIED: [&str; 8] = [
    "permission denied",
    "permission_denied",
    "access denied",
    "access is denied",
    "not permitted",
    "not authorized",
    "forbidden",
    "prohibited",
];

/// Classifies the refusal of a command about `path`.
pub fn read(reply: &Reply, path: &[u8]) -> Refusal {
    let text = without(&reply.text(), path);
    let text = String::from_utf8_lossy(&text).to_ascii_lowercase();
    let has = |words: &[&str]| words.iter().any(|w| text.contains(w));
    match reply.code {
        500 | 502 | 504 => match (has(&ABSENT), has(&DENIED)) {
            (true, false) => Refusal::Absent,
            (false, true) => Refusal::Denied,
            _ => Refusal::Unsupported,
        },
        530 | 532..=537 => Refusal::Denied,
        _ => match (has(&ABSENT), has(&DENIED)) {
            (true, false) => Refusal::Absent,
            (false, true) => Refusal::Denied,
            // 4xx without a known text means a temporary failure.
            _ if (400..500).contains(&reply.code) => Refusal::Busy,
            _ => Refusal::Unclear,
        },
    }
}

/// Removes the path from the text, because its names may look like one of the patterns.
fn without(text: &[u8], path: &[u8]) -> Vec<u8> {
    let name = path.rsplit(|b| *b == b'/').next().unwrap_or_default();
    let mut out = text.to_vec();
    // Names shorter than four bytes occur inside words and cannot mislead.
    for part in [path, name] {
        if part.len() < 4 {
            continue;
        }
        let mut rest = &out[..];
        let mut kept = Vec::with_capacity(rest.len());
        while let Some(at) = rest.windows(part.len()).position(|w| w == part) {
            kept.extend_from_slice(&rest[..at]);
            rest = &rest[at + part.len()..];
        }
        kept.extend_from_slice(rest);
        // A reply that consists only of the path is kept.
        if kept.iter().any(u8::is_ascii_alphabetic) {
            out = kept;
        }
    }
    out
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read_text(code: u16, text: &str, path: &str) -> Refusal {
        let lines = vec![text.to_owned().into()];
        read(&Reply { code, lines }, path.as_bytes())
    }

    #[test]
    fn words_of_servers() {
        assert_eq!(
            read_text(550, "/x: No such file or directory", "/x"),
            Refusal::Absent
        );
        assert_eq!(
            read_text(450, "/x: No such file or directory", "/x"),
            Refusal::Absent
        );
        assert_eq!(
            read_text(550, "/x: Permission denied", "/x"),
            Refusal::Denied
        );
        assert_eq!(
            read_text(500, "Command failed. : PERMISSION_DENIED", "/x"),
            Refusal::Denied
        );
        assert_eq!(
            read_text(550, "'/nope' cannot be listed", "/nope"),
            Refusal::Unclear
        );
        assert_eq!(
            read_text(550, "No such file or access denied", "/nope"),
            Refusal::Unclear
        );
        assert_eq!(read_text(450, "try again", "/x"), Refusal::Busy);
        assert_eq!(
            read_text(500, "MLSC not understood", "/x"),
            Refusal::Unsupported
        );
        assert_eq!(
            read_text(530, "Please login with USER and PASS.", "/x"),
            Refusal::Denied
        );
        // A name that contradicts the reason.
        let path = "/no such file/not found";
        assert_eq!(
            read_text(550, "'/no such file/not found': Permission denied", path),
            Refusal::Denied
        );
        assert_eq!(
            read_text(550, "not found: Permission denied", path),
            Refusal::Denied
        );
        assert_eq!(
            read_text(550, "`/no such file/not found' cannot be listed", path),
            Refusal::Unclear
        );
    }
}
