//! Tests of write-behind: the final state is the same as without it.

use esker::model::namespace::{
    AppliedChange, Change, Content, Cookie, Entry, Errno, Inode, NamePath, Namespace, NewFile,
    Open, OpenLookup, Partition, SetAttributes, Space, SpaceBy, Usage,
};
use esker::model::object::Principal;
use esker::model::{Cancel, Error, Flow, Result};
use esker::{Database, OpenOptions, WriteBack, WriteBackOptions};
use esker_testkit::wait::wait_until;
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::time::Duration;

fn path(text: &str) -> NamePath {
    NamePath::parse(text.as_bytes()).unwrap()
}

fn open(folder: &Path, name: &str) -> Database {
    let options = OpenOptions::new().create(true);
    options.open(folder.join(name).to_str().unwrap()).unwrap()
}

fn change(files: &dyn Namespace, change: Change) -> Result<AppliedChange> {
    files.change(None, &[change])?.remove(0)
}

fn make(at: &str, mode: u32, uid: u32) -> Change {
    Change::Create(path(at), NewFile::new(mode, uid, uid))
}

fn size(size: u64) -> SetAttributes {
    SetAttributes {
        size: Some(size),
        ..SetAttributes::default()
    }
}

/// Options under which changes are sent only on request.
const PATIENT: WriteBackOptions = WriteBackOptions {
    most: 1_000,
    age: Duration::from_hours(1),
};

/// A namespace that counts calls and can be made unreachable.
#[derive(Clone)]
struct Counted(Arc<Calls>);

struct Calls {
    files: Database,
    changes: AtomicUsize,
    times: AtomicUsize,
    away: AtomicBool,
}

impl Counted {
    fn new(files: Database) -> Self {
        Self(Arc::new(Calls {
            files,
            changes: AtomicUsize::new(0),
            times: AtomicUsize::new(0),
            away: AtomicBool::new(false),
        }))
    }

    fn counted(&self) -> (usize, usize) {
        let of = |n: &AtomicUsize| n.load(Ordering::Acquire);
        (of(&self.0.times), of(&self.0.changes))
    }
}

impl Namespace for Counted {
    fn change(
        &self,
        principal: Option<&Principal>,
        changes: &[Change],
    ) -> Result<Vec<Result<AppliedChange>>> {
        if self.0.away.load(Ordering::Acquire) {
            return Err(Error::Unavailable("nobody is there".into()));
        }
        self.0.times.fetch_add(1, Ordering::AcqRel);
        self.0.changes.fetch_add(changes.len(), Ordering::AcqRel);
        self.0.files.change(principal, changes)
    }
    fn stat(&self, principal: Option<&Principal>, path: &NamePath, follow: bool) -> Result<Inode> {
        self.0.files.stat(principal, path, follow)
    }
    fn resolve_open(
        &self,
        principal: Option<&Principal>,
        path: &NamePath,
        how: Open,
    ) -> Result<OpenLookup> {
        self.0.files.resolve_open(principal, path, how)
    }
    fn list(
        &self,
        principal: Option<&Principal>,
        path: &NamePath,
        after: Option<Cookie>,
        sink: &mut dyn FnMut(Cookie, Entry) -> Flow,
    ) -> Result<()> {
        self.0.files.list(principal, path, after, sink)
    }
    fn walk(
        &self,
        principal: Option<&Principal>,
        path: &NamePath,
        cancel: &dyn Cancel,
        sink: &mut dyn FnMut(&NamePath, &Inode) -> Flow,
    ) -> Result<()> {
        self.0.files.walk(principal, path, cancel, sink)
    }
    fn usage(&self, principal: Option<&Principal>, path: &NamePath, below: bool) -> Result<Usage> {
        self.0.files.usage(principal, path, below)
    }
    fn usages(
        &self,
        principal: Option<&Principal>,
        path: &NamePath,
        cancel: &dyn Cancel,
        sink: &mut dyn FnMut(&NamePath, &Usage) -> Flow,
    ) -> Result<()> {
        self.0.files.usages(principal, path, cancel, sink)
    }
    fn space(&self, by: SpaceBy) -> Result<Vec<Space>> {
        self.0.files.space(by)
    }
    fn partitions(&self, path: &NamePath) -> Result<Vec<Partition>> {
        self.0.files.partitions(path)
    }
}

#[test]
fn what_is_said_again_and_again_is_sent_once() {
    let dir = tempfile::tempdir().unwrap();
    let files = Counted::new(open(dir.path(), "a"));
    let back = WriteBack::new(files.clone(), None, PATIENT).unwrap();
    for name in ["/a", "/b"] {
        change(&files, make(name, 0o10_0644, 0)).unwrap();
    }
    let before = files.counted();
    for n in 0..500 {
        for name in ["/a", "/b"] {
            back.set(&path(name), false, size(10_000 + n)).unwrap();
        }
    }
    // A new file is independent of the buffered changes.
    assert!(back.change(&[make("/d", 0o4_0755, 0)]).unwrap()[0].is_ok());
    assert_eq!(back.buffered(), 2);
    assert_eq!(files.counted(), (before.0 + 1, before.1 + 1));
    // Reads through the buffer see the changes.
    let seen = back.files().unwrap().stat(None, &path("/a"), false);
    assert_eq!(seen.unwrap().size, 10_499);
    assert_eq!(files.counted(), (before.0 + 2, before.1 + 3));

    // All other changes see them as well.
    back.set(&path("/a"), false, size(7)).unwrap();
    let rename = Change::Rename {
        from: path("/a"),
        to: path("/c"),
        no_replace: false,
    };
    assert!(back.change(&[rename]).unwrap()[0].is_ok());
    assert_eq!(files.stat(None, &path("/c"), false).unwrap().size, 7);
    back.set(
        &path("/d"),
        false,
        SetAttributes {
            mtime: Some(5),
            ..SetAttributes::default()
        },
    )
    .unwrap();
    assert!(back.change(&[make("/d/x", 0o10_0644, 0)]).unwrap()[0].is_ok());
    assert_eq!(
        back.buffered(),
        0,
        "a new file gives its directory another time"
    );
    assert!(back.close().unwrap().is_empty());
}

#[test]
fn errors_come_out_at_the_end_and_nothing_is_lost_while_nobody_answers() {
    let dir = tempfile::tempdir().unwrap();
    let files = Counted::new(open(dir.path(), "a"));
    change(&files, make("/a", 0o10_0644, 0)).unwrap();
    change(&files, make("/d", 0o4_0755, 0)).unwrap();
    let few = WriteBackOptions { most: 3, ..PATIENT };
    let back = WriteBack::new(files.clone(), None, few).unwrap();
    back.set(&path("/gone"), false, size(1)).unwrap();
    back.set(&path("/a"), false, size(2)).unwrap();
    back.set(&path("/d"), false, size(3)).unwrap();
    files.0.away.store(true, Ordering::Release);
    assert!(back.sync().is_err());
    assert_eq!(back.buffered(), 3);
    assert!(
        back.set(&path("/b"), false, size(4)).is_err(),
        "there is no room"
    );
    files.0.away.store(false, Ordering::Release);
    back.set(&path("/a"), false, size(5)).unwrap();
    let failed = back.sync().unwrap();
    let failed: Vec<(String, Errno)> = failed
        .into_iter()
        .map(|failed| match failed.error {
            Error::File(e) => (failed.path.to_string(), e.errno),
            e => panic!("{e}"),
        })
        .collect();
    assert_eq!(
        failed,
        [
            ("/gone".into(), Errno::NotFound),
            ("/d".into(), Errno::IsDirectory)
        ]
    );
    assert_eq!(files.stat(None, &path("/a"), false).unwrap().size, 5);
    assert!(back.sync().unwrap().is_empty());
    // Owners are changed at once.
    back.set(
        &path("/a"),
        false,
        SetAttributes {
            uid: Some(7),
            ..SetAttributes::default()
        },
    )
    .unwrap();
    assert_eq!(files.stat(None, &path("/a"), false).unwrap().uid, 7);
    back.set(&path("/a"), false, size(6)).unwrap();
    drop(back);
    assert_eq!(files.stat(None, &path("/a"), false).unwrap().size, 6);
}

#[test]
fn what_has_been_held_for_a_while_is_sent() {
    let dir = tempfile::tempdir().unwrap();
    let files = open(dir.path(), "a");
    change(&files, make("/a", 0o10_0644, 0)).unwrap();
    let soon = WriteBackOptions {
        age: Duration::from_millis(5),
        ..PATIENT
    };
    let back = files.write_back(None, soon).unwrap();
    for n in 1..4 {
        back.set(&path("/a"), false, size(n)).unwrap();
        wait_until("it is not sent", || {
            files.stat(None, &path("/a"), false).unwrap().size == n
        });
    }
    drop(back);
    files.close().unwrap();
}

/// Random changes of sizes, times and modes for a principal, with and without the buffer, have the same final state.
#[test]
fn it_is_as_if_nothing_had_been_held_back() {
    let dir = tempfile::tempdir().unwrap();
    let (plain, held) = (open(dir.path(), "plain"), open(dir.path(), "held"));
    let names = ["/a", "/b", "/d", "/p", "/none"];
    for files in [&plain, &held] {
        for (at, mode, uid) in [
            ("/a", 0o10_0644, 1),
            ("/b", 0o10_0666, 2),
            ("/d", 0o4_0755, 1),
            ("/p", 0o1_0600, 1),
        ] {
            change(files, make(at, mode, uid)).unwrap();
        }
        let content = SetAttributes {
            content: Some(Content::Inline(b"twelve bytes".to_vec())),
            ..SetAttributes::default()
        };
        for at in ["/a", "/b"] {
            let set = content.clone();
            let follow = false;
            let path = path(at);
            change(files, Change::Set { path, follow, set }).unwrap();
        }
    }
    let mut random = 1_u64;
    let mut next = |bound: u64| {
        random = random
            .wrapping_mul(6_364_136_223_846_793_005)
            .wrapping_add(1);
        (random >> 33) % bound
    };
    let principal = Principal {
        uid: 1,
        gids: vec![1],
    };
    for round in 0..200 {
        let principal = (round % 3 > 0).then(|| principal.clone());
        let back = held.write_back(principal.clone(), PATIENT).unwrap();
        let mut refused = 0;
        for _ in 0..next(40) {
            let mut set = SetAttributes::default();
            for _ in 0..=next(2) {
                match next(6) {
                    0 | 1 => set.size = Some(next(20)),
                    2 => set.blocks = Some(next(9)),
                    3 => set.mtime = Some(next(100) as i64),
                    4 => set.atime = Some(next(100) as i64),
                    _ => set.mode = Some([0o644, 0o4755, 0o200, 0o2666][next(4) as usize]),
                }
            }
            let at = path(names[next(names.len() as u64) as usize]);
            back.set(&at, false, set.clone()).unwrap();
            let (path, follow) = (at, false);
            let made = plain.change(principal.as_ref(), &[Change::Set { path, follow, set }]);
            refused += usize::from(made.unwrap()[0].is_err());
        }
        let failed = back.close().unwrap();
        assert_eq!(failed.is_empty(), refused == 0);
        for at in names {
            let seen = |files: &Database| {
                let inode = files.stat(None, &path(at), false).ok()?;
                // Times other than these are those of the execution.
                let time = |t: i64| (t < 100).then_some(t);
                let times = [inode.atime, inode.mtime].map(time);
                Some((inode.mode, inode.size, inode.blocks, times, inode.content))
            };
            assert_eq!(seen(&held), seen(&plain), "{at} after round {round}");
        }
    }
}
