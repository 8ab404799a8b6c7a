//! Fields of files for filters.

use super::acl::value_of;
use super::tags::text_of;
use super::{Content, INODE_FLAGS, Inode, Kind, NamePath, PROJECT_ID, display};
use crate::caret::excerpt;
use crate::error::{Error, Result};
use crate::filter::{Comparison, Expr, Fields, Test};
use crate::schema::nearest;
use crate::value::{Value, ValueKind};
use std::borrow::Cow;

/// Field names that filters of files may use.
pub const FIELD_NAMES: [&str; 22] = [
    "path",
    "name",
    "type",
    "kind",
    "mode",
    "links",
    "uid",
    "owner",
    "gid",
    "size",
    "blocks",
    "allocated",
    "atime",
    "mtime",
    "modified",
    "ctime",
    "btime",
    "created",
    "depth",
    "target",
    "project",
    "flags",
];

/// Returns the kind of values that a field has; `None` for other names, which are tags.
fn kind_of(field: &str) -> Option<ValueKind> {
    Some(match field {
        "path" | "name" | "target" | "flags" => ValueKind::String,
        "mode" | "links" | "uid" | "owner" | "gid" | "size" | "blocks" | "allocated" | "depth"
        | "project" => ValueKind::I64,
        "atime" | "mtime" | "modified" | "ctime" | "btime" | "created" => ValueKind::Timestamp,
        _ => return None,
    })
}

/// Checks that a filter of files compares fields with values that they can have, and their `type` with kinds that exist: any other value
/// matches no file, or every file.
///
/// # Errors
///
/// [`Error::Invalid`] with the value, the most similar kind and all kinds.
pub fn check_kinds(filter: &Expr) -> Result<()> {
    filter.check_kinds(&kind_of)?;
    let mut wrong = None;
    filter.each_term(&mut |term| {
        if matches!(&*term.name, "type" | "kind") && wrong.is_none() {
            let value = unknown_kind(&term.test);
            wrong = value.map(|value| (term.name.as_str(), value));
        }
    });
    let Some((name, value)) = wrong else {
        return Ok(());
    };
    let (value, near) = match value {
        Value::String(text) => (format!("'{}'", excerpt(text)), nearest(text, Kind::names())),
        other => (String::from_utf8_lossy(&text_of(other)).into_owned(), None),
    };
    let hint = near.map_or_else(String::new, |near| format!(", did you mean '{near}'?"));
    let kinds: Vec<_> = Kind::names().collect();
    Err(Error::Invalid(format!(
        "no file has `{name}` = {value}{hint} (expected one of: {})",
        kinds.join(", ")
    )))
}

/// Returns a value of the test that is not the name of a kind.
fn unknown_kind(test: &Test) -> Option<&Value> {
    let is_known = |value: &Value| match value {
        Value::String(text) => Kind::names().any(|name| name == text),
        _ => false,
    };
    match test {
        Test::Compare(Comparison::Eq | Comparison::Ne, value) => {
            Some(value).filter(|v| !is_known(v))
        }
        Test::In(values) => values.iter().find(|v| !is_known(v)),
        Test::Not(inner) => unknown_kind(inner),
        _ => None,
    }
}

/// A file at a path, as filters see it.
#[derive(Debug, Clone, Copy)]
pub struct FileFields<'a> {
    /// Path of the file.
    pub path: &'a NamePath,
    /// Attributes of the file.
    pub inode: &'a Inode,
}

impl Fields for FileFields<'_> {
    fn field(&self, name: &str) -> Option<Cow<'_, Value>> {
        let text = |bytes: &[u8]| Value::String(display(bytes).to_string());
        let number = |n: u64| Value::I64(n.cast_signed());
        let inode = self.inode;
        Some(Cow::Owned(match name {
            "path" => text(self.path.as_bytes()),
            "name" => Value::String(
                self.path
                    .split()
                    .map_or_else(|| "/".to_owned(), |(_, n)| n.to_string()),
            ),
            "type" | "kind" => Value::String(inode.kind().name().to_owned()),
            "mode" => number(u64::from(inode.mode & 0o7777)),
            "links" => number(u64::from(inode.links)),
            "uid" | "owner" => number(u64::from(inode.uid)),
            "gid" => number(u64::from(inode.gid)),
            "size" => number(inode.size),
            "blocks" => number(inode.blocks),
            "allocated" => number(inode.blocks.saturating_mul(512)),
            "atime" => Value::Timestamp(inode.atime),
            "mtime" | "modified" => Value::Timestamp(inode.mtime),
            "ctime" => Value::Timestamp(inode.ctime),
            "btime" | "created" => Value::Timestamp(inode.btime),
            "depth" => number(self.path.names().count() as u64),
            "target" => match &inode.content {
                Content::Symlink(target) => text(target),
                _ => return None,
            },
            "project" => {
                let digits = std::str::from_utf8(value_of(&inode.xattrs, PROJECT_ID)?).ok()?;
                Value::I64(digits.parse().ok()?)
            }
            "flags" => text(value_of(&inode.xattrs, INODE_FLAGS)?),
            _ => return None,
        }))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn kinds_that_no_file_has_are_refused() {
        let check = |text: &str| check_kinds(&Expr::parse(text, None).unwrap());
        for text in [
            "",
            "type = 'file'",
            "type IN ('file', 'fifo') AND kind != 'directory'",
            "size > 3 OR NOT type LIKE 'F%'",
            "colour = 'File'",
            "mtime > '2026-03-01' AND name != 'a' AND size IN (1, 2.5)",
        ] {
            check(text).unwrap();
        }
        for (text, message) in [
            (
                "size > 3 AND type = 'File'",
                "no file has `type` = 'File', did you mean 'file'?",
            ),
            (
                "NOT kind != 'dir'",
                "no file has `kind` = 'dir' (expected one of: file, directory, ",
            ),
            (
                "type NOT IN ('file', 'symlnk')",
                "no file has `type` = 'symlnk', did you mean 'symlink'?",
            ),
            ("type = 3", "no file has `type` = 3 (expected one of"),
            ("size > 'big'", "`size` holds numbers; 'big' matches none"),
            (
                "NOT mtime < 'yesterday'",
                "`mtime` holds times; 'yesterday' matches none",
            ),
            ("name IN ('a', 3)", "`name` holds text; 3 matches none"),
            ("uid LIKE '10%'", "`uid` holds numbers; LIKE matches none"),
        ] {
            let error = check(text).unwrap_err().to_string();
            assert!(error.starts_with(message), "{text}: {error}");
        }
    }
}
