//! Redaction of secrets in scripts, command lines and environments.
//!
//! Recorded runs are read by other users, for years. So anything that looks like a secret is replaced by [`MARK`]; the rest of the line
//! stays, so that a script remains readable. Detection is heuristic and incomplete: it recognizes telling names, options, headers, signed
//! addresses, private keys, prefixes of well-known kinds of tokens (the tables in [`rules`]), and strings that look random. [`Redactor`]
//! accepts user-defined patterns.

mod rules;
#[cfg(test)]
mod tests;

use regex::{Captures, Regex, RegexBuilder};
use std::borrow::Cow;
use std::sync::LazyLock;

/// Replacement of a secret.
pub const MARK: &str = "[redacted]";
/// Limit of a compiled user-defined pattern, in bytes.
const PATTERN_BYTES_MAX: usize = 1 << 20;

fn compiled(pattern: &str) -> Regex {
    #[expect(
        clippy::expect_used,
        reason = "patterns are constants, and a test makes them all"
    )]
    Regex::new(pattern).expect("a pattern")
}

/// Returns the pattern of names that denote a secret.
fn names() -> String {
    let word = rules::NAME_WORDS.join("|");
    format!(
        "(?:[a-z0-9_.-]*(?:{})[a-z0-9_.-]*|(?:[a-z0-9_.-]*[_.-])?(?:{word})(?:[_.-][a-z0-9_.-]*)?|{})",
        rules::PARTS.join("|"),
        rules::NAMES.join("|"),
    )
}

/// Rule by which a match is judged.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Judge {
    /// Every match is a secret.
    Always,
    /// A match is a secret unless the name before it is in [`rules::NO_SECRETS`].
    ByName,
    /// A match is a secret if it looks random.
    IfRandom,
}

/// Patterns whose groups `s`, `s1`, `s2` are secrets; the shell substitutes nothing in `s1`.
static PATTERNS: LazyLock<Vec<(Regex, Judge)>> = LazyLock::new(|| {
    let value = r#"(?:"(?P<s>[^"\n]+)"|'(?P<s1>[^'\n]+)'|(?P<s2>[^\s"';&|]+))"#;
    let names = names();
    let mut all: Vec<(String, Judge)> = Vec::new();
    let surrounded = rules::SURROUNDED.iter();
    all.extend(surrounded.map(|p| ((*p).to_owned(), Judge::Always)));
    // Forms: NAME=value, export NAME="value", {"name": "value"}, name: value.
    all.push((
        format!(r#"(?i)(?:^|[^a-z0-9_.-])(?P<n>{names})["']?\s*[=:]\s*{value}"#),
        Judge::ByName,
    ));
    // Forms: --password value, --token=value.
    all.push((
        format!(r"(?i)(?:^|[^a-z0-9_.-])--?(?P<n>{names})(?:\s+|=){value}"),
        Judge::ByName,
    ));
    for row in rules::OPTIONS {
        let programs: Vec<String> = row.programs.iter().map(|p| regex::escape(p)).collect();
        let separate = if row.separate { r"[\s=]*" } else { "" };
        all.push((
            format!(
                r"(?:^|[\s;&|(/`])(?:{})[ \t](?:[^\n;&|]*?[ \t])?{}{separate}{value}",
                programs.join("|"),
                row.option
            ),
            Judge::Always,
        ));
    }
    let random = rules::BEFORE_RANDOM.iter();
    all.extend(random.map(|p| ((*p).to_owned(), Judge::IfRandom)));
    let tokens = rules::TOKENS.join("|");
    all.push((format!(r"\b(?P<s>{tokens})"), Judge::Always));
    all.iter().map(|(p, judge)| (compiled(p), *judge)).collect()
});

static NAME: LazyLock<Regex> = LazyLock::new(|| compiled(&format!("(?i)^-{{0,2}}{}$", names())));
static NO_SECRET: LazyLock<Regex> =
    LazyLock::new(|| compiled(&format!("(?i)^(?:{})$", rules::NO_SECRETS.join("|"))));
/// A text that consists only of shell substitutions.
static REFERENCE: LazyLock<Regex> =
    LazyLock::new(|| compiled(r"^(?:\$[A-Za-z_][A-Za-z0-9_]*|\$\{[^}]*\}|\$\(.*)+$"));
static PIECE: LazyLock<Regex> = LazyLock::new(|| {
    let least = rules::RANDOM_LETTERS_MIN;
    compiled(&format!("[A-Za-z0-9]{{{least},}}"))
});

/// Returns whether a variable or parameter with this name contains a secret.
pub fn is_secret_name(name: &str) -> bool {
    NAME.is_match(name) && !NO_SECRET.is_match(name)
}

/// Returns a text without its secrets. Shell substitutions (`$TOKEN`, `$(cat file)`) only refer to a secret, and stay.
pub fn redacted(text: &str) -> Cow<'_, str> {
    redact(text, true)
}

fn redact(text: &str, shell: bool) -> Cow<'_, str> {
    let mut out = Cow::Borrowed(text);
    for (pattern, judge) in PATTERNS.iter() {
        let replaced = pattern.replace_all(&out, |found: &Captures<'_>| {
            redact_match(found, *judge, shell)
        });
        if let Cow::Owned(replaced) = replaced {
            out = Cow::Owned(replaced);
        }
    }
    let replaced = PIECE.replace_all(&out, |found: &Captures<'_>| {
        let piece = found.get_match().as_str();
        if is_random(piece) { MARK } else { piece }.to_owned()
    });
    if let Cow::Owned(replaced) = replaced {
        out = Cow::Owned(replaced);
    }
    out
}

/// Returns a match with its secret replaced by the mark.
fn redact_match(found: &Captures<'_>, judge: Judge, shell: bool) -> String {
    let all = found.get_match();
    let secret = ["s", "s1", "s2"].iter().find_map(|name| found.name(name));
    let kept = |secret: &str| {
        let replaced = shell && found.name("s1").is_none() && REFERENCE.is_match(secret);
        let spared = match judge {
            Judge::Always => false,
            Judge::ByName => found
                .name("n")
                .is_some_and(|n| NO_SECRET.is_match(n.as_str())),
            Judge::IfRandom => !secret.bytes().any(|b| b.is_ascii_digit()),
        };
        replaced || spared || secret.starts_with(MARK)
    };
    let Some(secret) = secret.filter(|secret| !kept(secret.as_str())) else {
        return all.as_str().to_owned();
    };
    let (from, until) = (secret.start() - all.start(), secret.end() - all.start());
    let before = all.as_str().get(..from).unwrap_or_default();
    let after = all.as_str().get(until..).unwrap_or_default();
    format!("{before}{MARK}{after}")
}

/// Returns whether letters and digits are as mixed as in random text. Hexadecimal hashes, and names made of words, are not.
fn is_random(piece: &str) -> bool {
    #[derive(PartialEq)]
    enum Class {
        Digit,
        Capital,
        Small,
    }
    let class = |b: u8| match b {
        b'0'..=b'9' => Class::Digit,
        b'A'..=b'Z' => Class::Capital,
        _ => Class::Small,
    };
    let classes: Vec<Class> = piece.bytes().map(class).collect();
    let has_two = |wanted: Class| classes.iter().filter(|c| **c == wanted).nth(1).is_some();
    let changes = classes
        .windows(2)
        .filter(|pair| pair.first() != pair.last());
    has_two(Class::Digit)
        && has_two(Class::Capital)
        && has_two(Class::Small)
        && changes.count() * 100 >= rules::RANDOM_CHANGES_MIN * (classes.len() - 1)
}

/// Redacts secrets, and matches of user-defined patterns.
#[derive(Debug, Clone, Default)]
pub struct Redactor {
    own: Vec<Regex>,
}

impl Redactor {
    /// Creates a redactor with further patterns. If a pattern has a group `s`, that group is the secret, else the whole match.
    ///
    /// # Errors
    /// Returns a message about an invalid pattern.
    pub fn new<'p>(patterns: impl IntoIterator<Item = &'p str>) -> Result<Self, String> {
        let own = patterns.into_iter().map(|pattern| {
            RegexBuilder::new(pattern)
                .size_limit(PATTERN_BYTES_MAX)
                .build()
                .map_err(|e| format!("`{pattern}` is not a regular expression: {e}"))
        });
        let own = own.collect::<Result<_, String>>()?;
        Ok(Self { own })
    }

    /// Returns a value as passed to a program, after shell substitution, without its secrets.
    pub fn value(&self, text: &str) -> String {
        self.with_own(redact(text, false)).into_owned()
    }

    /// Returns the value of a variable or setting without its secrets; only the mark if the name denotes a secret.
    pub fn named(&self, name: &str, value: &str) -> String {
        if is_secret_name(name) {
            MARK.to_owned()
        } else {
            self.value(value)
        }
    }

    /// Returns the words of a command line, without the values of secret options.
    pub fn command_words(&self, command: &[String]) -> Vec<String> {
        let mut out = Vec::with_capacity(command.len());
        let mut secret_next = false;
        let mut options: Vec<&rules::ProgramOption> = Vec::new();
        for word in command {
            let is_option = word.starts_with('-') && !word.contains('=');
            if std::mem::take(&mut secret_next) && !is_option {
                out.push(MARK.to_owned());
                continue;
            }
            let name = word.rsplit('/').next().unwrap_or_default();
            options.extend(
                rules::OPTIONS
                    .iter()
                    .filter(|row| row.programs.contains(&name)),
            );
            let given = options.iter().find_map(|row| {
                let value = word.strip_prefix(row.option)?;
                (row.separate || !value.is_empty()).then_some((row.option, value))
            });
            match given {
                Some((_, "")) => secret_next = true,
                // `--user` is not `-u`.
                Some((option, value)) if option.len() == 2 || value.starts_with('=') => {
                    let between = if value.starts_with('=') { "=" } else { "" };
                    out.push(format!("{option}{between}{MARK}"));
                    continue;
                }
                _ => secret_next = is_option && is_secret_name(word),
            }
            out.push(self.value(word));
        }
        out
    }

    fn with_own<'t>(&self, text: Cow<'t, str>) -> Cow<'t, str> {
        let mut out = text;
        for pattern in &self.own {
            let replaced = pattern.replace_all(&out, |found: &Captures<'_>| {
                if found.name("s").is_some() {
                    redact_match(found, Judge::Always, false)
                } else {
                    MARK.to_owned()
                }
            });
            if let Cow::Owned(replaced) = replaced {
                out = Cow::Owned(replaced);
            }
        }
        out
    }
}
