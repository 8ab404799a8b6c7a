//! One set of requests for every kind of origin, on a folder that the tests can read directly.

use esker_origin::{DirEntry, MetadataRequest, PathMetadata, Pool};
use esker_site_cache::entry::{Attributes, Kind};
use std::collections::BTreeMap;
use std::ffi::OsStr;
use std::fs::{self, File, Metadata, Permissions};
use std::os::unix::ffi::OsStrExt as _;
use std::os::unix::fs::{MetadataExt as _, PermissionsExt as _, symlink};
use std::path::{Path, PathBuf};
use std::time::{Duration, SystemTime};

/// Names that need escaping or exact byte handling.
pub(crate) const ODD: [&[u8]; 12] = [
    b"a b",
    b" leading",
    b"new\nline",
    b"tab\there",
    b"quote\"'",
    b"percent%41",
    b"semi;colon&amp;",
    b"question?hash#",
    b"[x]{y}*",
    b"\xc3\xa9t\xc3\xa9",
    b"-rf",
    b"...",
];
/// Names that are not UTF-8.
pub(crate) const NO_TEXT: [&[u8]; 2] = [b"latin\xe9", b"\xff\xfe"];

/// A folder with all kinds of files.
pub(crate) struct Tree {
    pub(crate) dir: tempfile::TempDir,
}

pub(crate) fn chmod(path: &Path, mode: u32) {
    fs::set_permissions(path, Permissions::from_mode(mode)).unwrap();
}

fn write(path: &Path, bytes: usize, seconds: u64) {
    let file = File::create(path).unwrap();
    file.set_len(bytes as u64).unwrap();
    let time = SystemTime::UNIX_EPOCH + Duration::new(seconds, 123_456_789);
    file.set_modified(time).unwrap();
}

impl Tree {
    pub(crate) fn new(names: &[&[u8]]) -> Self {
        let dir = tempfile::tempdir().unwrap();
        chmod(dir.path(), 0o755);
        let root = dir.path();
        write(&root.join("file"), 5, 1_000_000_000);
        write(&root.join("hollow"), 0, 1_600_000_000);
        for name in ["dir", "empty", "thousand", "odd", "secret"] {
            fs::create_dir(root.join(name)).unwrap();
        }
        write(&root.join("dir/inner"), 70_000, 1_700_000_000);
        for n in 0..1000 {
            let name = format!("thousand/n{n:04}");
            write(&root.join(name), n, 1_500_000_000 + n as u64);
        }
        for name in names {
            let path = root.join("odd").join(OsStr::from_bytes(name));
            write(&path, name.len(), 1_400_000_000);
        }
        write(&root.join("secret/inner"), 1, 1_700_000_000);
        chmod(&root.join("secret"), 0);
        chmod(&root.join("file"), 0o640);
        symlink("file", root.join("link")).unwrap();
        symlink("nowhere", root.join("dangling")).unwrap();
        symlink("dir", root.join("dirlink")).unwrap();
        Self { dir }
    }

    /// Without links and unreadable files, for origins without links and servers that can read everything.
    pub(crate) fn plain(names: &[&[u8]]) -> Self {
        let tree = Self::new(names);
        for name in ["link", "dangling", "dirlink"] {
            fs::remove_file(tree.root().join(name)).unwrap();
        }
        let secret = tree.root().join("secret");
        chmod(&secret, 0o755);
        fs::remove_dir_all(secret).unwrap();
        tree
    }

    pub(crate) fn root(&self) -> &Path {
        self.dir.path()
    }
}

impl Drop for Tree {
    fn drop(&mut self) {
        let secret = self.dir.path().join("secret");
        if secret.exists() {
            chmod(&secret, 0o755);
        }
    }
}

/// Attributes that an origin does not report.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Lacks {
    /// Links are followed, or not supported.
    Links,
    /// Permissions and owners are not reported.
    Modes,
    /// Times are in whole seconds.
    Nanoseconds,
    /// Times differ from those of the files.
    Times,
}

/// A folder and the origin that serves it.
#[derive(Clone)]
pub(crate) struct Site {
    pub(crate) pool: Pool,
    /// The folder's path in the file system and at the origin.
    pub(crate) root: PathBuf,
    pub(crate) prefix: Vec<u8>,
    pub(crate) lacks: &'static [Lacks],
}

fn kind_of(meta: &Metadata) -> Kind {
    match meta.file_type() {
        t if t.is_dir() => Kind::Directory,
        t if t.is_symlink() => Kind::Link,
        t if t.is_file() => Kind::File,
        _ => Kind::Other,
    }
}

impl Site {
    fn says(&self, what: Lacks) -> bool {
        !self.lacks.contains(&what)
    }

    pub(crate) fn path(&self, below: &[u8]) -> Vec<u8> {
        let mut path = self.prefix.clone();
        if !below.is_empty() {
            path.push(b'/');
            path.extend(below);
        }
        if path.is_empty() {
            path.push(b'/');
        }
        path
    }

    fn local_path(&self, below: &[u8]) -> PathBuf {
        self.root.join(OsStr::from_bytes(below))
    }

    pub(crate) async fn stat(&self, below: &[u8]) -> esker_origin::Result<PathMetadata> {
        self.pool
            .request(MetadataRequest::stat(&self.path(below)))
            .await
    }

    pub(crate) async fn list(&self, below: &[u8]) -> esker_origin::Result<PathMetadata> {
        self.pool
            .request(MetadataRequest::list(&self.path(below)))
            .await
    }

    /// Asserts that the attributes equal those of lstat(2).
    pub(crate) fn same(&self, below: &[u8], attributes: &Attributes) {
        let printable = String::from_utf8_lossy(below);
        let meta = fs::symlink_metadata(self.local_path(below)).unwrap();
        let kind = kind_of(&meta);
        assert_eq!(attributes.kind, kind, "{printable}");
        if kind == Kind::File {
            assert_eq!(attributes.size, Some(meta.len()), "{printable}");
        }
        if matches!(kind, Kind::File | Kind::Directory) && self.says(Lacks::Times) {
            let mut wanted = meta.mtime() * 1_000_000_000;
            if self.says(Lacks::Nanoseconds) {
                wanted += meta.mtime_nsec();
            }
            assert_eq!(attributes.modified, Some(wanted), "{printable}");
        }
        if self.says(Lacks::Modes) {
            assert_eq!(attributes.mode, Some(meta.mode() & 0o7777), "{printable}");
            let more = attributes.more.as_ref().unwrap();
            let owner = [
                ("uid".into(), meta.uid().to_string().into()),
                ("gid".into(), meta.gid().to_string().into()),
            ];
            assert_eq!(more[..2], owner, "{printable}");
        }
    }

    /// Asserts that the listing has exactly the names of the folder.
    pub(crate) async fn lists(&self, below: &[u8]) {
        let found = self.list(below).await.unwrap();
        let PathMetadata::Listing {
            attributes,
            children,
            complete,
        } = found
        else {
            panic!("{found:?}")
        };
        assert_eq!(attributes.kind, Kind::Directory);
        assert!(complete);
        let children: BTreeMap<&[u8], &DirEntry> =
            children.iter().map(|c| (&c.name[..], c)).collect();
        let mut there: Vec<Vec<u8>> = fs::read_dir(self.local_path(below))
            .unwrap()
            .map(|e| e.unwrap().file_name().as_bytes().to_vec())
            .collect();
        there.sort();
        assert_eq!(
            children.keys().map(|k| k.to_vec()).collect::<Vec<_>>(),
            there
        );
        for (name, child) in children {
            let path = [below, if below.is_empty() { b"" } else { b"/" }, name].concat();
            self.same(&path, &child.attributes);
        }
    }

    /// The requests that every origin must answer.
    pub(crate) async fn all(&self, questions: usize) {
        for path in [&b""[..], b"file", b"hollow", b"dir", b"empty", b"dir/inner"] {
            let found = self.stat(path).await.unwrap();
            let PathMetadata::Present(attributes) = found else {
                panic!("{}: {found:?}", String::from_utf8_lossy(path))
            };
            self.same(path, &attributes);
        }
        for path in [
            &b"nothing"[..],
            b"nothing/at/all",
            b"dir/nothing",
            b"file/below",
        ] {
            let printable = String::from_utf8_lossy(path);
            assert_eq!(
                self.stat(path).await.unwrap(),
                PathMetadata::Absent,
                "{printable}"
            );
            assert_eq!(
                self.list(path).await.unwrap(),
                PathMetadata::Absent,
                "{printable}"
            );
        }
        // A listing of a path that is not a directory returns its attributes.
        let found = self.list(b"file").await.unwrap();
        assert!(
            matches!(&found, PathMetadata::Present(a) if a.size == Some(5)),
            "{found:?}"
        );
        for path in [&b""[..], b"dir", b"empty", b"thousand", b"odd"] {
            self.lists(path).await;
        }
        for entry in fs::read_dir(self.root.join("odd")).unwrap() {
            let path = [b"odd/", entry.unwrap().file_name().as_bytes()].concat();
            let found = self.stat(&path).await.unwrap();
            let printable = String::from_utf8_lossy(&path);
            let PathMetadata::Present(attributes) = found else {
                panic!("{printable}: {found:?}")
            };
            self.same(&path, &attributes);
        }
        if self.says(Lacks::Links) {
            self.sees_links().await;
        }
        self.many(questions).await;
    }

    async fn sees_links(&self) {
        for (path, target) in [
            ("link", "file"),
            ("dangling", "nowhere"),
            ("dirlink", "dir"),
        ] {
            let found = self.stat(path.as_bytes()).await.unwrap();
            let PathMetadata::Present(attributes) = &found else {
                panic!("{path}: {found:?}")
            };
            self.same(path.as_bytes(), attributes);
            let more = attributes.more.as_ref().unwrap();
            assert_eq!(more.last(), Some(&("target".into(), target.into())));
            // A link is not followed, whatever its target is.
            let listed = self.list(path.as_bytes()).await.unwrap();
            assert!(
                matches!(&listed, PathMetadata::Present(a) if a.kind == Kind::Link),
                "{listed:?}"
            );
        }
    }

    /// Concurrent requests in random order: each gets its own response.
    pub(crate) async fn many(&self, count: usize) {
        let mut random = 88_172_645_463_325_252_u64;
        let mut asked = Vec::new();
        for _ in 0..count {
            random ^= random << 13;
            random ^= random >> 7;
            random ^= random << 17;
            let below = match random % 20 {
                0 => "dir".into(),
                1 => "dir/inner".into(),
                2 => format!("thousand/nothing{}", random % 89),
                _ => format!("thousand/n{:04}", random / 64 % 1000),
            };
            let site = self.clone();
            asked.push(tokio::spawn(async move {
                let found = site.stat(below.as_bytes()).await.unwrap();
                match (site.local_path(below.as_bytes()).exists(), found) {
                    (true, PathMetadata::Present(attributes)) => {
                        site.same(below.as_bytes(), &attributes);
                    }
                    (false, PathMetadata::Absent) => {}
                    (_, found) => panic!("{below}: {found:?}"),
                }
            }));
        }
        for task in asked {
            task.await.unwrap();
        }
    }
}
