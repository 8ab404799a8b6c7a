//! Random changes by three people, done to Esker and to a real file system: the same succeed, the others fail for the same
//! reason, everybody sees the same.
//!
//! It needs user 0, to change roots (so that `..` and absolute symbolic links mean the same in both) and to act as others;
//! without, it says so and does nothing. `ESKER_NAMES_CASES` says how many histories, `ESKER_NAMES_SEED` the first one's seed.

use super::disk::{self, Seen, acting, seen};
use super::opened::Pairs;
use super::{change, errno, sound};
use crate::small::Small;
use esker_engine::{Engine, Settings};
use esker_model::NeverCancel;
use esker_model::namespace::{
    Change, Content, Errno, Inode, NamePath, Namespace, SetAttributes, XattrMode,
};
use esker_model::object::Asker;
use esker_testkit::names::{NAMES, people, some_change, some_path};
use esker_testkit::rng::Rng;
use std::collections::BTreeMap;
use std::ops::ControlFlow;
use std::process::Command;

const CHILD: &str = "ESKER_NAMES_ROOT";

#[test]
fn changes_do_what_a_file_system_does() {
    if let Ok(root) = std::env::var(CHILD) {
        return inside(&root);
    }
    if !rustix::process::geteuid().is_root() {
        println!("skipped: only user 0 can act as others");
        return;
    }
    let base = if std::path::Path::new("/dev/shm").is_dir() {
        "/dev/shm"
    } else {
        "/tmp"
    };
    let root = format!("{base}/esker-names-{}", std::process::id());
    std::fs::create_dir(&root).unwrap();
    // The change of root holds for a whole process.
    let done = Command::new(std::env::current_exe().unwrap())
        .args([
            "--exact",
            "names::like_a_file_system::changes_do_what_a_file_system_does",
            "--nocapture",
        ])
        .env(CHILD, &root)
        .output()
        .unwrap();
    std::fs::remove_dir_all(&root).unwrap();
    let text = String::from_utf8_lossy(&done.stdout);
    println!("{text}");
    assert!(
        done.status.success() && text.contains("1 passed"),
        "{text}\n{}",
        String::from_utf8_lossy(&done.stderr)
    );
}

/// What this machine's kernel does otherwise than Esker, if its settings are not those of most machines.
#[derive(Debug, Clone, Copy)]
struct Kernel {
    /// It keeps no extended attributes here (tmpfs before Linux 6.6).
    no_xattrs: bool,
    /// It does not follow symbolic links of others, or open files of theirs to make them, where the sticky bit is set
    /// (`fs.protected_symlinks`, `fs.protected_regular`).
    protects_symlinks: bool,
    /// It lets everybody give a file another name (`fs.protected_hardlinks`).
    all_may_link: bool,
}

impl Kernel {
    fn look(root: &str) -> Self {
        let set = |name: &str| {
            let text = std::fs::read_to_string(format!("/proc/sys/fs/{name}"));
            text.is_ok_and(|t| t.trim() != "0")
        };
        let flags = rustix::fs::XattrFlags::empty();
        Self {
            no_xattrs: rustix::fs::setxattr(root, "user.a", b"", flags).is_err(),
            protects_symlinks: set("protected_symlinks") || set("protected_regular"),
            all_may_link: !set("protected_hardlinks"),
        }
    }

    /// Whether a change means the same to it as to Esker.
    fn agrees(self, change: &Change, asker: &Asker) -> bool {
        let sticky = |mode: u32| mode & 0o1000 != 0;
        match change {
            Change::Xattr { .. } => !self.no_xattrs,
            Change::Link { .. } => asker.uid == 0 || !self.all_may_link,
            Change::Make(_, make) => !(self.protects_symlinks && sticky(make.mode)),
            Change::Set { set, .. } => !(self.protects_symlinks && set.mode.is_some_and(sticky)),
            _ => true,
        }
    }
}

fn inside(root: &str) {
    let kernel = Kernel::look(root);
    rustix::process::umask(rustix::fs::Mode::empty());
    rustix::process::chroot(root).unwrap();
    std::env::set_current_dir("/").unwrap();
    let number = |name: &str, or: u64| std::env::var(name).map_or(or, |n| n.parse().unwrap());
    let first = number("ESKER_NAMES_SEED", 1);
    for seed in first..first + number("ESKER_NAMES_CASES", 60) {
        let mut played = Vec::new();
        let done = std::panic::catch_unwind(std::panic::AssertUnwindSafe(|| {
            history(seed, kernel, &mut played);
        }));
        if let Err(why) = done {
            let last = played.len().saturating_sub(12);
            println!("seed {seed}, after:\n{}", played[last..].join("\n"));
            std::panic::resume_unwind(why);
        }
        for entry in std::fs::read_dir("/").unwrap() {
            let entry = entry.unwrap().path();
            if entry.is_dir() && !entry.is_symlink() {
                std::fs::remove_dir_all(&entry).unwrap();
            } else {
                std::fs::remove_file(&entry).unwrap();
            }
        }
    }
}

fn of(inode: &Inode) -> Seen {
    let symlink = match &inode.content {
        Content::Symlink(target) => Some(target.clone()),
        _ => None,
    };
    Seen {
        mode: inode.mode,
        uid: inode.uid,
        gid: inode.gid,
        links: inode.links,
        size: (!inode.is_directory()).then_some(inode.size),
        target: symlink,
        xattrs: inode.xattrs.clone(),
    }
}

/// All that someone sees.
fn tree(engine: &Engine, asker: &Asker) -> BTreeMap<NamePath, Seen> {
    let mut all = BTreeMap::new();
    let walked = engine.walk(
        Some(asker),
        &NamePath::root(),
        &NeverCancel,
        &mut |path, inode| {
            if !path.is_root() {
                all.insert(path.clone(), of(inode));
            }
            ControlFlow::Continue(())
        },
    );
    if let Err(e) = walked {
        assert_eq!(errno::<()>(Err(e)), Errno::Access);
    }
    all
}

fn history(seed: u64, kernel: Kernel, played: &mut Vec<String>) {
    let mut rng = Rng::new(seed);
    // Rows wait in memory for all of a history, for a few changes, for none at all.
    let small = Small::with(Settings {
        staged_bytes: *rng.pick(&[1, 3_000, 32 << 20]),
        entries_bytes: *rng.pick(&[0, 1 << 14, 32 << 20]),
        ..Settings::default()
    });
    let engine = &small.engine;
    let people = people();
    // Where all may write, or nothing much happens.
    let open = SetAttributes {
        mode: Some(0o777),
        ..SetAttributes::default()
    };
    let open = Change::Set {
        path: NamePath::root(),
        follow: true,
        set: open,
    };
    let owner = SetAttributes {
        uid: Some(0),
        gid: Some(0),
        ..SetAttributes::default()
    };
    disk::change(&Change::Set {
        path: NamePath::root(),
        follow: true,
        set: owner,
    })
    .unwrap();
    disk::change(&open).unwrap();
    for name in [b"user.a".to_vec(), b"user.b".to_vec()] {
        let mode = XattrMode::Any;
        let _ = disk::change(&Change::Xattr {
            path: NamePath::root(),
            name,
            value: None,
            mode,
        });
    }
    change(engine, None, open).unwrap();
    let mut open = Pairs::default();
    for step in 0..200 {
        if rng.below(3) == 0 {
            small.clock.advance(1);
            played.push(open.step(&mut rng, engine, &people, kernel.no_xattrs));
            open.compare(engine);
            continue;
        }
        let asker = &people[rng.below(3)];
        let next = some_change(&mut rng, asker, &NAMES);
        if !kernel.agrees(&next, asker) {
            continue;
        }
        played.push(format!("{} {next:?}", asker.uid));
        let expected = acting(asker, || disk::change(&next));
        small.clock.advance(1);
        let got = change(engine, Some(asker), next.clone());
        match (&expected, &got) {
            (Ok(()), Ok(_)) => {}
            (Err(os), Err(esker_model::Error::File(e))) if disk::same(e.errno, *os) => {}
            _ => panic!("the file system says {expected:?}, Esker {got:?}"),
        }
        open.compare(engine);
        if let (
            Ok(()),
            Change::Set {
                path,
                follow: false,
                set,
            },
        ) = (&expected, &next)
            && let Some(mtime) = set.mtime
        {
            let inode = engine.stat(None, path, false).unwrap();
            assert_eq!((inode.mtime, inode.atime), (mtime, -5));
        }
        if step % 10 == 9 {
            for asker in &people {
                let mut expected = BTreeMap::new();
                acting(asker, || disk::tree(&NamePath::root(), &mut expected));
                assert_eq!(
                    tree(engine, asker),
                    expected,
                    "as user {} sees it",
                    asker.uid
                );
                let at = some_path(&mut rng, &NAMES);
                match (
                    acting(asker, || seen(&at)),
                    engine.stat(Some(asker), &at, false),
                ) {
                    (Ok(disk), Ok(inode)) => assert_eq!(of(&inode), disk, "{at}"),
                    (Err(os), Err(esker_model::Error::File(e))) if disk::same(e.errno, os) => {}
                    (disk, esker) => panic!("{at}: the file system says {disk:?}, Esker {esker:?}"),
                }
            }
        }
    }
    sound(engine);
}
