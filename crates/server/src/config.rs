//! Settings from a TOML file. A key that is not known, or that holds something else than it should, is refused with its
//! place in the file.

use crate::settings::{Settings, Tls};
use esker::rdf::Services;
use esker_model::schema::nearest;
use esker_model::{Error, Result};
use std::ops::Range;
use std::path::{Path, PathBuf};
use std::time::Duration;
use toml::de::{DeTable, DeValue};

/// One key: where it stands, what it holds, where that goes.
pub(crate) struct Key<D> {
    pub(crate) path: &'static str,
    pub(crate) expected: &'static str,
    pub(crate) set: fn(&mut D, &DeValue<'_>) -> Option<()>,
}

/// What a file fills in.
pub(crate) trait Filled {
    /// What each key is called, in the order in which people are told.
    fn paths() -> Vec<&'static str>;

    /// Takes the value of a key that is known. If it cannot: what was expected.
    fn take(&mut self, path: &str, value: &DeValue<'_>) -> Result<(), &'static str>;
}

/// Takes a value by a table of keys; `None` if no key is called so.
pub(crate) fn take_by<D>(
    keys: &[Key<D>],
    draft: &mut D,
    path: &str,
    value: &DeValue<'_>,
) -> Option<Result<(), &'static str>> {
    let key = keys.iter().find(|k| k.path == path)?;
    Some((key.set)(draft, value).ok_or(key.expected))
}

/// Settings, and the half of them that only a whole file makes.
pub(crate) struct Draft {
    pub(crate) settings: Settings,
    certificate: Option<PathBuf>,
    key: Option<PathBuf>,
}

impl Draft {
    pub(crate) fn new() -> Self {
        Self {
            settings: Settings::default(),
            certificate: None,
            key: None,
        }
    }
}

impl Filled for Draft {
    fn paths() -> Vec<&'static str> {
        KEYS.iter().map(|k| k.path).collect()
    }

    fn take(&mut self, path: &str, value: &DeValue<'_>) -> Result<(), &'static str> {
        take_by(&KEYS, self, path, value).unwrap_or(Ok(()))
    }
}

/// The longest promise that files stay as they are: whoever changes one waits for it.
pub const LEASE_MAX: Duration = Duration::from_mins(1);

pub(crate) const SIZE: &str = "a size: a number of bytes, or text as in \"64MiB\"";
pub(crate) const TIME: &str = "a time, as in \"10s\"";
pub(crate) const COUNT: &str = "a whole number from 1";

pub(crate) const KEYS: [Key<Draft>; 21] = [
    Key {
        path: "listen",
        expected: "\"HOST:PORT\"",
        set: |d, v| text(v).map(|t| t.clone_into(&mut d.settings.listen)),
    },
    Key {
        path: "drain",
        expected: TIME,
        set: |d, v| time(v).map(|t| d.settings.drain = t),
    },
    Key {
        path: "lease",
        expected: "a time up to \"60s\": changes wait for it",
        set: |d, v| {
            d.settings.lease = time(v).filter(|t| *t <= LEASE_MAX)?;
            Some(())
        },
    },
    Key {
        path: "backups",
        expected: "the absolute path of a folder",
        set: |d, v| {
            let folder = text(v).map(PathBuf::from).filter(|p| p.is_absolute())?;
            d.settings.backups = Some(folder);
            Some(())
        },
    },
    Key {
        path: "limits.request",
        expected: SIZE,
        set: |d, v| size(v).map(|n| d.settings.limits.request_bytes = n),
    },
    Key {
        path: "limits.frontier",
        expected: COUNT,
        set: |d, v| count(v).map(|n| d.settings.limits.frontier = n),
    },
    Key {
        path: "limits.memory",
        expected: SIZE,
        set: |d, v| size(v).map(|n| d.settings.limits.memory_bytes = n),
    },
    Key {
        path: "limits.waiting",
        expected: COUNT,
        set: |d, v| count(v).map(|n| d.settings.limits.waiting = n),
    },
    Key {
        path: "limits.connections",
        expected: COUNT,
        set: |d, v| count(v).map(|n| d.settings.limits.connections = n),
    },
    Key {
        path: "limits.time",
        expected: TIME,
        set: |d, v| time(v).map(|t| d.settings.limits.time = Some(t)),
    },
    Key {
        path: "tls.certificate",
        expected: "the path of a file",
        set: |d, v| text(v).map(|t| d.certificate = Some(t.into())),
    },
    Key {
        path: "tls.key",
        expected: "the path of a file",
        set: |d, v| text(v).map(|t| d.key = Some(t.into())),
    },
    Key {
        path: "threads.network",
        expected: COUNT,
        set: |d, v| count(v).map(|n| d.settings.threads = n),
    },
    Key {
        path: "threads.readers",
        expected: COUNT,
        set: |d, v| count(v).map(|n| d.settings.readers = n),
    },
    Key {
        path: "threads.scanners",
        expected: COUNT,
        set: |d, v| count(v).map(|n| d.settings.scanners = n),
    },
    Key {
        path: "sparql.threads",
        expected: COUNT,
        set: |d, v| count(v).map(|n| d.settings.sparql.threads = n),
    },
    Key {
        path: "sparql.each",
        expected: COUNT,
        set: |d, v| count(v).map(|n| d.settings.sparql.each = n),
    },
    Key {
        path: "sparql.memory",
        expected: SIZE,
        set: |d, v| size(v).map(|n| d.settings.sparql.memory_bytes = n),
    },
    Key {
        path: "sparql.upload",
        expected: SIZE,
        set: |d, v| size(v).map(|n| d.settings.sparql.upload_bytes = n),
    },
    Key {
        path: "sparql.origins",
        expected: "a list of origins, as in [\"https://lab.example.org\"], or [\"*\"]",
        set: |d, v| texts(v).map(|list| d.settings.sparql.origins = list),
    },
    Key {
        path: "sparql.services",
        expected: "a list of beginnings of endpoints' IRIs, as in [\"http://lab.example.org/sparql\"]",
        set: |d, v| {
            d.settings.sparql.services = Services::new(texts(v)?).ok()?;
            Some(())
        },
    },
];

pub(crate) fn text<'v>(value: &'v DeValue<'_>) -> Option<&'v str> {
    value.as_str().filter(|t| !t.is_empty())
}

/// A list of texts.
pub(crate) fn texts(value: &DeValue<'_>) -> Option<Vec<String>> {
    let list = value.as_array()?.iter();
    list.map(|v| text(v.get_ref()).map(str::to_owned)).collect()
}

pub(crate) fn integer(value: &DeValue<'_>) -> Option<u64> {
    let number = value.as_integer()?;
    u64::from_str_radix(number.as_str(), number.radix()).ok()
}

pub(crate) fn count(value: &DeValue<'_>) -> Option<usize> {
    integer(value)
        .and_then(|n| usize::try_from(n).ok())
        .filter(|n| *n > 0)
}

fn split(text: &str) -> Option<(u64, &str)> {
    let end = text
        .find(|c: char| !c.is_ascii_digit())
        .unwrap_or(text.len());
    let (number, unit) = text.split_at_checked(end)?;
    Some((number.parse().ok()?, unit.trim()))
}

pub(crate) fn size(value: &DeValue<'_>) -> Option<usize> {
    let bytes = if let Some(bytes) = integer(value) {
        bytes
    } else {
        let (number, unit) = split(text(value)?)?;
        let factor = match unit {
            "" | "B" => 1,
            "KiB" | "K" => 1 << 10,
            "MiB" | "M" => 1 << 20,
            "GiB" | "G" => 1 << 30,
            _ => return None,
        };
        number.checked_mul(factor)?
    };
    usize::try_from(bytes).ok().filter(|n| *n > 0)
}

pub(crate) fn time(value: &DeValue<'_>) -> Option<Duration> {
    let (number, unit) = split(text(value)?)?;
    let factor = match unit {
        "ms" => 1,
        "s" => 1_000,
        "m" | "min" => 60_000,
        "h" => 3_600_000,
        _ => return None,
    };
    number.checked_mul(factor).map(Duration::from_millis)
}

/// A file being read, for the places in messages.
pub(crate) struct Source<'a> {
    pub(crate) file: &'a Path,
    pub(crate) text: &'a str,
}

impl Source<'_> {
    pub(crate) fn error(&self, span: Range<usize>, message: &str) -> Error {
        let before = self.text.get(..span.start).unwrap_or_default();
        let line = before.matches('\n').count() + 1;
        let column = before.rsplit('\n').next().map_or(0, |l| l.chars().count()) + 1;
        Error::Invalid(format!(
            "{}:{line}:{column}: {message}",
            self.file.display()
        ))
    }

    /// Reads the whole file.
    pub(crate) fn read(&self, draft: &mut impl Filled) -> Result<()> {
        let table = DeTable::parse(self.text)
            .map_err(|e| self.error(e.span().unwrap_or_default(), e.message()))?;
        self.table("", table.get_ref(), draft)
    }

    fn table<D: Filled>(&self, prefix: &str, table: &DeTable<'_>, draft: &mut D) -> Result<()> {
        let paths = D::paths();
        for (name, value) in table {
            let path = format!("{prefix}{}", name.get_ref());
            let below = format!("{path}.");
            let is_section = paths.iter().any(|p| p.starts_with(&below));
            let known = paths.contains(&path.as_str());
            match value.get_ref() {
                DeValue::Table(inner) if is_section => self.table(&below, inner, draft)?,
                _ if is_section && !known => {
                    return Err(self.error(
                        value.span(),
                        &format!("`{path}` is a section: write [{path}]"),
                    ));
                }
                value_of if known => draft.take(&path, value_of).map_err(|expected| {
                    self.error(value.span(), &format!("`{path}` holds {expected}"))
                })?,
                _ => return Err(self.unknown(name.span(), &path, &paths)),
            }
        }
        Ok(())
    }

    fn unknown(&self, span: Range<usize>, path: &str, paths: &[&'static str]) -> Error {
        let near = nearest(path, paths.iter().copied()).or_else(|| {
            // The right name in the wrong section, or a section that is misspelt.
            let last = |p: &str| p.rsplit('.').next().unwrap_or_default().to_owned();
            let same = paths.iter().find(|p| last(p) == last(path));
            same.map(|p| (*p).to_owned())
        });
        let advice = near.map_or_else(
            || format!("the keys are {}", paths.join(", ")),
            |near| format!("did you mean `{near}`?"),
        );
        self.error(span, &format!("unknown key `{path}`; {advice}"))
    }
}

impl Settings {
    /// Reads settings from a TOML file; what it does not mention keeps its default.
    pub fn from_file(file: &Path) -> Result<Self> {
        let text = std::fs::read_to_string(file)
            .map_err(|e| Error::io(format!("reading `{}`", file.display()), e))?;
        Self::from_toml(file, &text)
    }

    /// The same, from text that was in that file.
    pub fn from_toml(file: &Path, text: &str) -> Result<Self> {
        let source = Source { file, text };
        let mut draft = Draft::new();
        source.read(&mut draft)?;
        draft.settings.tls = match (draft.certificate, draft.key) {
            (Some(certificate), Some(key)) => Some(Tls { certificate, key }),
            (None, None) => None,
            (certificate, _) => {
                let missing = if certificate.is_none() {
                    "certificate"
                } else {
                    "key"
                };
                return Err(source.error(
                    0..0,
                    &format!("TLS needs both files: `tls.{missing}` is missing"),
                ));
            }
        };
        Ok(draft.settings)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(text: &str) -> Result<Settings> {
        Settings::from_toml(Path::new("server.toml"), text)
    }

    fn message(text: &str) -> String {
        read(text).unwrap_err().to_string()
    }

    #[test]
    fn what_is_given_replaces_the_default() {
        let settings = read(
            "listen = \"0.0.0.0:7\"\ndrain = \"1500ms\"\nlease = \"0s\"\n[limits]\nrequest = \"1MiB\"\nfrontier = 7\n\
             [threads]\nreaders = 3\n[sparql]\neach = 5\norigins = [\"*\"]\nservices = [\"http://lab\"]\n[tls]\ncertificate = \"a\"\nkey = \"b\"\n",
        )
        .unwrap();
        assert_eq!(settings.listen, "0.0.0.0:7");
        assert_eq!(settings.drain, Duration::from_millis(1_500));
        assert_eq!(settings.lease, Duration::ZERO);
        assert_eq!(settings.limits.request_bytes, 1 << 20);
        assert_eq!(settings.limits.frontier, 7);
        assert_eq!(settings.readers, 3);
        assert_eq!(settings.sparql.each, 5);
        assert_eq!(settings.sparql.origins, ["*"]);
        assert!(!settings.sparql.services.is_empty());
        assert_eq!(settings.tls.unwrap().key, Path::new("b"));
        assert_eq!(read("").unwrap(), Settings::default());
    }

    #[test]
    fn mistakes_are_named_with_their_place() {
        assert_eq!(
            message("listen = \"x:1\"\n\n  lisen = 1\n"),
            "server.toml:3:3: unknown key `lisen`; did you mean `listen`?"
        );
        assert_eq!(
            message("[limits]\nfronteer = 3\n"),
            "server.toml:2:1: unknown key `limits.fronteer`; did you mean `limits.frontier`?"
        );
        assert_eq!(
            message("request = 3\n"),
            "server.toml:1:1: unknown key `request`; did you mean `limits.request`?"
        );
        assert_eq!(
            message("[limits]\nrequest = \"big\"\n"),
            "server.toml:2:11: `limits.request` holds a size: a number of bytes, or text as in \"64MiB\""
        );
        assert_eq!(
            message("limits = 3\n"),
            "server.toml:1:10: `limits` is a section: write [limits]"
        );
        assert_eq!(
            message("[tls]\nkey = \"a\"\n"),
            "server.toml:1:1: TLS needs both files: `tls.certificate` is missing"
        );
        assert!(message("listen = \n").starts_with("server.toml:1:"));
        assert!(message("completely = 1\n").contains("the keys are listen, drain"));
        assert!(message("[sparql]\nservices = [\"ftp://x\"]\n").contains("a list of beginnings"));
        assert!(message("[limits]\nfrontier = 0\n").contains("a whole number from 1"));
    }
}
