//! Secrets in scripts, command lines and environments: found by how they are written, and blotted out where they stand.
//!
//! What is kept of a run is read by others, for years. So whatever looks like a secret is replaced by [`MARK`], which says that there was
//! something; the rest of the line stays, so that a script can still be read. This is a net with meshes: it knows names that say what they hold,
//! options, headers, passwords in URLs, private keys, and the beginnings of well-known kinds of tokens.

use regex::{Captures, Regex};
use std::borrow::Cow;
use std::sync::LazyLock;

/// What stands where a secret stood.
pub const MARK: &str = "[redacted]";

/// Parts of names that say that a secret is behind them.
const NAMES: &str = r"(?:pass(?:word|wd|phrase)|secret|token|api_?key|access_?key|private_?key|credential|auth_?key|signing_?key)";

fn made(pattern: &str) -> Regex {
    #[expect(
        clippy::expect_used,
        reason = "patterns are constants, and a test makes them all"
    )]
    Regex::new(pattern).expect("a pattern")
}

/// Patterns whose group `s` is a secret.
static PATTERNS: LazyLock<Vec<Regex>> = LazyLock::new(|| {
    let value = r#"(?:"(?P<s>[^"\n]+)"|'(?P<s1>[^'\n]+)'|(?P<s2>[^\s"';&|]+))"#;
    [
        // A private key, whole.
        r"(?s)-----BEGIN [A-Z ]*PRIVATE KEY-----(?P<s>.*?)(?:-----END|\z)".to_owned(),
        // NAME=value, export NAME="value", {"name": "value"}, name: value.
        format!(r#"(?i)\b[a-z0-9_.-]*{NAMES}[a-z0-9_.-]*["']?\s*[=:]\s*{value}"#),
        // --password value, --token=value; -p value is told apart by nothing.
        format!(r"(?i)--?[a-z0-9-]*{NAMES}[a-z0-9-]*(?:\s+|=){value}"),
        // Authorization: Bearer value.
        r"(?i)\b(?:bearer|basic)\s+(?P<s>[a-z0-9+/_.=~-]{8,})".to_owned(),
        // scheme://user:value@host.
        r"(?i)\b[a-z][a-z0-9+.-]*://[^\s/:@]*:(?P<s>[^\s/@]+)@".to_owned(),
        // Tokens that say themselves what they are.
        r"\b(?P<s>(?:gh[pousr]_[A-Za-z0-9]{20,}|github_pat_[A-Za-z0-9_]{20,}|glpat-[A-Za-z0-9_-]{16,}|xox[abprs]-[A-Za-z0-9-]{10,}|hf_[A-Za-z0-9]{20,}|sk-[A-Za-z0-9_-]{20,}|AKIA[0-9A-Z]{16}|eyJ[A-Za-z0-9_-]{8,}\.[A-Za-z0-9_-]{8,}\.[A-Za-z0-9_-]{4,}))".to_owned(),
    ]
    .iter()
    .map(|pattern| made(pattern))
    .collect()
});

static NAME: LazyLock<Regex> = LazyLock::new(|| made(&format!("(?i){NAMES}")));

/// Whether a variable or parameter of that name holds a secret.
pub fn is_secret_name(name: &str) -> bool {
    NAME.is_match(name)
}

/// A text without its secrets.
pub fn redacted(text: &str) -> Cow<'_, str> {
    let mut out = Cow::Borrowed(text);
    for pattern in PATTERNS.iter() {
        let replaced = pattern.replace_all(&out, |found: &Captures<'_>| blotted(found));
        if let Cow::Owned(replaced) = replaced {
            out = Cow::Owned(replaced);
        }
    }
    out
}

/// All that a pattern found, with the mark where the secret was.
fn blotted(found: &Captures<'_>) -> String {
    let all = found.get_match();
    let secret = ["s", "s1", "s2"].iter().find_map(|name| found.name(name));
    let Some(secret) = secret else {
        return all.as_str().to_owned();
    };
    // `$TOKEN` and `$(cat file)` name where a secret is; they are none.
    if secret.as_str().starts_with('$') || secret.as_str() == MARK {
        return all.as_str().to_owned();
    }
    let (from, until) = (secret.start() - all.start(), secret.end() - all.start());
    let before = all.as_str().get(..from).unwrap_or_default();
    let after = all.as_str().get(until..).unwrap_or_default();
    format!("{before}{MARK}{after}")
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn secrets_are_blotted_out_where_they_stand() {
        for (text, wanted) in [
            (
                "export DB_PASSWORD=hunter2",
                "export DB_PASSWORD=[redacted]",
            ),
            (
                "WANDB_API_KEY='abc def' ./run",
                "WANDB_API_KEY='[redacted]' ./run",
            ),
            (
                "curl -H \"Authorization: Bearer abcdefgh12345678\" x",
                "curl -H \"Authorization: Bearer [redacted]\" x",
            ),
            (
                "mysql --password=s3cret -u me",
                "mysql --password=[redacted] -u me",
            ),
            (
                "tool --auth-token t0k3n in.nc",
                "tool --auth-token [redacted] in.nc",
            ),
            (
                "git clone https://me:pw123@host/x.git",
                "git clone https://me:[redacted]@host/x.git",
            ),
            ("echo ghp_0123456789abcdefghijABCD", "echo [redacted]"),
            (
                "{\"client_secret\": \"xyz\", \"k\": 3}",
                "{\"client_secret\": \"[redacted]\", \"k\": 3}",
            ),
            ("AKIAIOSFODNN7EXAMPLE", "[redacted]"),
            (
                "-----BEGIN RSA PRIVATE KEY-----\nMIIE\nabc\n-----END RSA PRIVATE KEY-----\nls",
                "-----BEGIN RSA PRIVATE KEY-----[redacted]-----END RSA PRIVATE KEY-----\nls",
            ),
        ] {
            assert_eq!(redacted(text), wanted, "{text}");
        }
    }

    #[test]
    fn what_is_no_secret_stays() {
        for text in [
            "#!/bin/bash\n#SBATCH -N4\nsrun ./wrf.exe --tokens-per-step 3 namelist.input",
            "export TOKEN=$MY_TOKEN",
            "PASSWORD=\"$(cat ~/.pw)\"",
            "OMP_NUM_THREADS=8 ./a.out < in > out",
            "http://host:8080/path",
        ] {
            if text.contains("tokens-per-step") {
                // An option that only sounds like it loses its value: better that than the other way round.
                assert!(redacted(text).contains("#SBATCH -N4"));
                continue;
            }
            assert_eq!(redacted(text), text);
        }
        assert!(is_secret_name("AWS_SECRET_ACCESS_KEY") && !is_secret_name("PATH"));
    }

    proptest! {
        /// What was redacted has nothing left to redact.
        #[test]
        fn once_is_enough(text in "[a-zA-Z_=: \"'$@/.-]{0,80}(password=[a-z]{1,8})?[ -~]{0,40}") {
            let once = redacted(&text).into_owned();
            prop_assert_eq!(redacted(&once), once.as_str());
        }
    }
}
