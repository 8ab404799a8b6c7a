//! A folder with all kinds of files, and their attributes by lstat(2).

use esker_site_cache::entry::{Attributes, Kind};
use std::ffi::OsStr;
use std::fs::{self, File, Metadata, Permissions};
use std::os::unix::ffi::OsStrExt as _;
use std::os::unix::fs::{MetadataExt as _, PermissionsExt as _, symlink};
use std::path::{Path, PathBuf};
use std::time::{Duration, SystemTime};

/// Names that need escaping or exact byte handling.
pub(super) const ODD: [&[u8]; 13] = [
    b"a b",
    b" leading",
    b"quote\"'",
    b"percent%41",
    b"semi; colon&amp;",
    b"question?hash#",
    b"[x]{y}*",
    b"x,y",
    b"arrow -> head",
    b"\xc3\xa9t\xc3\xa9",
    b"latin\xe9",
    b"-rf",
    b"...",
];

pub(super) struct Tree {
    dir: tempfile::TempDir,
}

pub(super) fn chmod(path: &Path, mode: u32) {
    fs::set_permissions(path, Permissions::from_mode(mode)).unwrap();
}

/// Sets an old time at midnight, as formats without seconds print no hours for it either, or a recent one at a full minute.
fn write(path: &Path, bytes: usize, seconds: u64) {
    let file = File::create(path).unwrap();
    file.set_len(bytes as u64).unwrap();
    let time = SystemTime::UNIX_EPOCH + Duration::from_secs(seconds);
    file.set_modified(time).unwrap();
}

fn recent_minute() -> u64 {
    let now = SystemTime::now()
        .duration_since(SystemTime::UNIX_EPOCH)
        .unwrap();
    (now.as_secs() - 5_000_000) / 60 * 60
}

const DAY: u64 = 86_400;

impl Tree {
    pub(super) fn new() -> Self {
        let dir = tempfile::tempdir().unwrap();
        chmod(dir.path(), 0o755);
        let root = dir.path();
        write(&root.join("file"), 5, 11_574 * DAY);
        write(&root.join("recent"), 7, recent_minute());
        write(&root.join("hollow"), 0, 18_518 * DAY);
        write(&root.join("large"), 5 << 30, 18_518 * DAY);
        for name in ["dir", "empty", "thousand", "odd", "secret", "broken"] {
            fs::create_dir(root.join(name)).unwrap();
        }
        write(&root.join("dir/inner"), 70_000, 19_675 * DAY);
        fs::create_dir(root.join("dir/deep")).unwrap();
        write(&root.join(".hidden"), 1, 19_675 * DAY);
        for n in 0..1000_u64 {
            let name = format!("thousand/n{n:04}");
            write(&root.join(name), n as usize, (15_000 + n) * DAY);
        }
        for name in ODD {
            let path = root.join("odd").join(OsStr::from_bytes(name));
            write(&path, name.len(), 16_203 * DAY);
        }
        write(&root.join("broken/plain"), 1, 16_203 * DAY);
        write(&root.join("broken/new\nline"), 1, 16_203 * DAY);
        write(&root.join("secret/inner"), 1, 19_675 * DAY);
        chmod(&root.join("secret"), 0o700);
        chmod(&root.join("file"), 0o644);
        chmod(&root.join("hollow"), 0o4755);
        symlink("file", root.join("link")).unwrap();
        symlink("nowhere", root.join("dangling")).unwrap();
        symlink("dir", root.join("dirlink")).unwrap();
        symlink("inner", root.join("dir/two")).unwrap();
        Self { dir }
    }

    pub(super) fn root(&self) -> &Path {
        self.dir.path()
    }

    pub(super) fn at(&self, below: &[u8]) -> PathBuf {
        self.root().join(OsStr::from_bytes(below))
    }
}

pub(super) fn kind_of(meta: &Metadata) -> Kind {
    match meta.file_type() {
        t if t.is_dir() => Kind::Directory,
        t if t.is_symlink() => Kind::Link,
        t if t.is_file() => Kind::File,
        _ => Kind::Other,
    }
}

/// Precision of the times of a response.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Times {
    Seconds,
    /// Times from `ls -l` lines: minutes, or days for old files.
    Lines,
}

/// Asserts that the attributes equal those of lstat(2).
pub(super) fn same(path: &Path, attributes: &Attributes, times: Times) {
    let meta = fs::symlink_metadata(path).unwrap();
    let kind = kind_of(&meta);
    assert_eq!(attributes.kind, kind, "{} {attributes:?}", path.display());
    if kind == Kind::File {
        assert_eq!(attributes.size, Some(meta.len()), "{}", path.display());
    }
    if let Some(mode) = attributes.mode {
        assert_eq!(mode, meta.mode() & 0o7777, "{}", path.display());
    }
    let modified = attributes.modified.map(|m| m / 1_000_000_000);
    match (kind, times) {
        (Kind::File, _) | (Kind::Directory, Times::Seconds) => {
            assert_eq!(modified, Some(meta.mtime()), "{}", path.display());
        }
        // Created just now, not at a full minute.
        (Kind::Directory, Times::Lines) => {
            if let Some(modified) = modified {
                assert_eq!(modified, meta.mtime() / 60 * 60, "{}", path.display());
            }
        }
        _ => {}
    }
    if kind == Kind::Link {
        let target = fs::read_link(path).unwrap();
        let more = attributes.more.iter().flat_map(|m| m.iter());
        for (_, said) in more.filter(|(key, _)| &**key == "target") {
            // Some servers report the resolved target, some the link's text.
            assert!(said.ends_with(target.to_str().unwrap()), "{said}");
        }
    }
}
