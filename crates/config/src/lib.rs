//! Configuration files in TOML with positions in errors: an unknown key or a value of the wrong kind is reported as `FILE:LINE:COLUMN:
//! problem; what was expected`.

pub mod etcd;

use esker_model::schema::nearest;
use esker_model::{Error, Result};
use std::ops::Range;
use std::path::Path;
use std::time::Duration;
pub use toml::Spanned;
use toml::de::DeTable;
pub use toml::de::DeValue;

/// Description of values that [`size`] accepts.
pub const SIZE: &str = "a size: a number of bytes, or text as in \"64MiB\"";
/// Description of values that [`time`] accepts.
pub const TIME: &str = "a time, as in \"10s\"";
/// Description of values that [`count`] accepts.
pub const COUNT: &str = "a whole number from 1";

/// One key of a configuration file, with its kind and its destination.
pub struct Key<D> {
    /// Path of the key, `section.name`.
    pub path: &'static str,
    /// Description of the expected value, for messages.
    pub expected: &'static str,
    /// Stores the value; `None` if it is not of the expected kind.
    pub set: fn(&mut D, &DeValue<'_>) -> Option<()>,
}

/// Destination of the values of a file.
pub trait KeySink {
    /// Returns the paths of all keys, in the order in which messages list them.
    fn paths() -> Vec<&'static str>;

    /// Stores the value of a known key. The error describes the expected value.
    fn take(&mut self, path: &str, value: &DeValue<'_>) -> Result<(), &'static str>;
}

/// Stores a value by a table of keys; `None` if the table has no such key.
pub fn take_by<D>(
    keys: &[Key<D>],
    draft: &mut D,
    path: &str,
    value: &DeValue<'_>,
) -> Option<Result<(), &'static str>> {
    let key = keys.iter().find(|k| k.path == path)?;
    Some((key.set)(draft, value).ok_or(key.expected))
}

/// Returns the value if it is non-empty text.
pub fn text<'v>(value: &'v DeValue<'_>) -> Option<&'v str> {
    value.as_str().filter(|t| !t.is_empty())
}

/// Returns the value if it is a list of non-empty texts.
pub fn texts(value: &DeValue<'_>) -> Option<Vec<String>> {
    let list = value.as_array()?.iter();
    list.map(|v| text(v.get_ref()).map(str::to_owned)).collect()
}

/// Returns the value if it is a non-negative integer.
pub fn integer(value: &DeValue<'_>) -> Option<u64> {
    let number = value.as_integer()?;
    u64::from_str_radix(number.as_str(), number.radix()).ok()
}

/// Returns the value if it is a positive integer.
pub fn count(value: &DeValue<'_>) -> Option<usize> {
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

/// Returns a size in bytes: a number, or text with a unit.
pub fn size(value: &DeValue<'_>) -> Option<usize> {
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

/// Returns a duration from text with a unit.
pub fn time(value: &DeValue<'_>) -> Option<Duration> {
    let (number, unit) = split(text(value)?)?;
    let factor = match unit {
        "ms" => 1,
        "s" => 1_000,
        "m" | "min" => 60_000,
        "h" => 3_600_000,
        "d" => 86_400_000,
        _ => return None,
    };
    number.checked_mul(factor).map(Duration::from_millis)
}

/// A file being read, for positions in messages.
pub struct Source<'a> {
    /// Path of the file, for messages.
    pub file: &'a Path,
    /// Text of the file.
    pub text: &'a str,
}

impl Source<'_> {
    /// Returns an error at a position in the file.
    pub fn error(&self, span: Range<usize>, message: &str) -> Error {
        let before = self.text.get(..span.start).unwrap_or_default();
        let line = before.matches('\n').count() + 1;
        let column = before.rsplit('\n').next().map_or(0, |l| l.chars().count()) + 1;
        Error::Invalid(format!(
            "{}:{line}:{column}: {message}",
            self.file.display()
        ))
    }

    /// Reads the complete file into `draft`.
    pub fn read(&self, draft: &mut impl KeySink) -> Result<()> {
        let table = DeTable::parse(self.text)
            .map_err(|e| self.error(e.span().unwrap_or_default(), e.message()))?;
        self.table("", table.get_ref(), draft)
    }

    /// Returns the text without some top-level keys and their values, for a caller that replaces them.
    pub fn without(&self, keys: &[&str]) -> Result<String> {
        let table = DeTable::parse(self.text)
            .map_err(|e| self.error(e.span().unwrap_or_default(), e.message()))?;
        let mut cuts: Vec<Range<usize>> = table
            .get_ref()
            .iter()
            .filter(|(name, _)| keys.contains(&name.get_ref().as_ref()))
            .map(|(name, value)| name.span().start..value.span().end)
            .collect();
        cuts.sort_by_key(|cut| cut.start);
        let mut out = String::with_capacity(self.text.len());
        let mut at = 0;
        for cut in cuts {
            out.push_str(self.text.get(at..cut.start).unwrap_or_default());
            at = cut.end;
        }
        out.push_str(self.text.get(at..).unwrap_or_default());
        Ok(out)
    }

    fn table<D: KeySink>(&self, prefix: &str, table: &DeTable<'_>, draft: &mut D) -> Result<()> {
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
            // The right name in the wrong section, or a misspelt section.
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn keys_are_cut_out_whole() {
        let text = "a = [\n 1, # one\n 2]\nb = 'x' # b\n[s]\na = 3\n";
        let source = Source {
            file: Path::new("x.toml"),
            text,
        };
        assert_eq!(
            source.without(&["a", "c"]).unwrap(),
            "\nb = 'x' # b\n[s]\na = 3\n"
        );
        assert_eq!(source.without(&[]).unwrap(), text);
        let bad = Source {
            text: "a = 1\nb = [",
            ..source
        };
        let told = bad.without(&["a"]).unwrap_err().to_string();
        assert!(told.starts_with("x.toml:2:"), "{told}");
    }
}
