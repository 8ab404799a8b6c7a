//! Random changes by three users on Esker and on a real file system: the same ones succeed, the others fail with the same
//! error, and all users see the same.
//!
//! Needs user 0, to change roots (so that `..` and absolute symbolic links mean the same in both) and to act as others;
//! without, the test prints so and does nothing. `ESKER_NAMES_CASES` sets the number of histories, `ESKER_NAMES_SEED` the first seed.

use super::disk::{self, FileAttributes, acting, attributes};
use super::opened::Pairs;
use super::{change, errno, sound};
use crate::small::Small;
use esker_engine::{Engine, Settings};
use esker_model::NeverCancel;
use esker_model::namespace::{
    ACL_ACCESS, ACL_DEFAULT, Change, Content, Errno, Inode, NamePath, Namespace, SetAttributes,
    XattrMode,
};
use esker_model::object::Principal;
use esker_testkit::names::{NAMES, people, random_change, random_path};
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
    // A change of root applies to the entire process.
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

/// Differences of this machine's kernel from Esker, if its settings are not those of most machines.
#[derive(Debug, Clone, Copy)]
struct Kernel {
    /// No extended attributes (tmpfs before Linux 6.6).
    no_xattrs: bool,
    /// Symbolic links of other users are not followed, nor are their files opened for creation, in directories with the sticky bit
    /// (`fs.protected_symlinks`, `fs.protected_regular`).
    protects_symlinks: bool,
    /// Every user may give a file another name (`fs.protected_hardlinks` is off).
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

    /// Whether a change has the same effect in the kernel as in Esker.
    fn agrees(self, change: &Change, principal: &Principal) -> bool {
        let sticky = |mode: u32| mode & 0o1000 != 0;
        match change {
            Change::Xattr { .. } => !self.no_xattrs,
            Change::Link { .. } => principal.uid == 0 || !self.all_may_link,
            Change::Create(_, make) => !(self.protects_symlinks && sticky(make.mode)),
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

fn of(inode: &Inode) -> FileAttributes {
    let symlink = match &inode.content {
        Content::Symlink(target) => Some(target.clone()),
        _ => None,
    };
    FileAttributes {
        mode: inode.mode,
        uid: inode.uid,
        gid: inode.gid,
        links: inode.links,
        size: (!inode.is_directory()).then_some(inode.size),
        target: symlink,
        xattrs: inode.xattrs.clone(),
    }
}

/// Everything that a principal sees.
fn tree(engine: &Engine, principal: &Principal) -> BTreeMap<NamePath, FileAttributes> {
    let mut all = BTreeMap::new();
    let walked = engine.walk(
        Some(principal),
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
    // The memtable holds all of a history, a few changes, or nothing at all.
    let small = Small::with(Settings {
        memtable_bytes: *rng.pick(&[1, 3_000, 32 << 20]),
        row_cache_bytes: *rng.pick(&[0, 1 << 14, 32 << 20]),
        ..Settings::default()
    });
    let engine = &small.engine;
    let people = people();
    // A root that all users may write, so that most changes succeed.
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
    for name in [ACL_ACCESS, ACL_DEFAULT, b"user.a", b"user.b"] {
        let name = name.to_vec();
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
        if rng.number_below(3) == 0 {
            small.clock.advance(1);
            played.push(open.step(&mut rng, engine, &people, kernel.no_xattrs));
            open.compare(engine);
            continue;
        }
        let principal = &people[rng.number_below(3)];
        let next = random_change(&mut rng, principal, &NAMES);
        if !kernel.agrees(&next, principal) {
            continue;
        }
        played.push(format!("{} {next:?}", principal.uid));
        let expected = acting(principal, || disk::change(&next));
        small.clock.advance(1);
        let got = change(engine, Some(principal), next.clone());
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
            for principal in &people {
                let mut expected = BTreeMap::new();
                acting(principal, || disk::tree(&NamePath::root(), &mut expected));
                assert_eq!(
                    tree(engine, principal),
                    expected,
                    "as user {} sees it",
                    principal.uid
                );
                let at = random_path(&mut rng, &NAMES);
                match (
                    acting(principal, || attributes(&at)),
                    engine.stat(Some(principal), &at, false),
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
