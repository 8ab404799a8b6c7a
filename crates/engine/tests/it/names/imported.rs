//! Files that existed elsewhere before: lists of `NFSv4`, and what such files do not inherit.

use super::{change, directory, errno, file, path, small, sound, stat};
use esker_engine::Engine;
use esker_model::Result;
use esker_model::namespace::{
    ACL_DEFAULT, Acl, Change, Errno, NFS4_ACL, Name, Namespace as _, NewFile, Nfs4Acl, Nfs4Entry,
    Nfs4Who, SetAttributes, SubtreeBuilder, XattrMode,
};
use esker_model::object::Principal;

const READ: u32 = 0x81;
const SEARCH: u32 = 0x20;

fn user(uid: i64, gids: &[i64]) -> Principal {
    Principal {
        uid,
        gids: gids.to_vec(),
    }
}

/// A list that denies one user something and allows everybody else to read and search.
fn denying(uid: u32, mask: u32) -> Vec<u8> {
    let entry = |denies, mask, who| Nfs4Entry {
        denies,
        flags: 0,
        mask,
        who,
    };
    Nfs4Acl {
        flags: 0,
        entries: vec![
            entry(true, mask, Nfs4Who::User(uid)),
            entry(false, READ | SEARCH, Nfs4Who::Everyone),
        ],
    }
    .encode()
}

fn with_list(make: NewFile, uid: u32, mask: u32) -> NewFile {
    let note = (b"user.note".to_vec(), b"1".to_vec());
    NewFile {
        xattrs: vec![(NFS4_ACL.to_vec(), denying(uid, mask)), note],
        ..make
    }
}

fn create(engine: &Engine, at: &str, make: NewFile) {
    change(engine, None, Change::Create(path(at), make)).unwrap();
}

fn chmod(engine: &Engine, mode: u32, ctime: Option<i64>) {
    let set = SetAttributes {
        mode: Some(mode),
        ctime,
        ..SetAttributes::default()
    };
    let set = Change::Set {
        path: path("/t/f"),
        follow: false,
        set,
    };
    change(engine, None, set).unwrap();
}

#[test]
fn a_list_of_nfs4_decides_instead_of_the_mode() {
    let small = small();
    let engine = &small.engine;
    create(engine, "/t", directory(0o755));
    create(engine, "/t/f", with_list(file(0o644), 8, READ));
    create(engine, "/closed", with_list(directory(0o755), 8, SEARCH));
    create(engine, "/closed/f", file(0o644));
    let (ada, bob) = (user(7, &[7]), user(8, &[8]));
    let note = |principal: &Principal| {
        let inode = engine.stat(Some(principal), &path("/t/f"), false).unwrap();
        inode.xattrs.iter().any(|(name, _)| name == b"user.note")
    };
    assert!(note(&ada) && !note(&bob));
    assert_eq!(stat(engine, "/t/f").unwrap().judged_mode() & 0o777, 0);
    let of = |principal| engine.stat(Some(principal), &path("/closed/f"), false);
    assert!(of(&ada).is_ok());
    assert_eq!(errno(of(&bob)), Errno::Access);
    // An import sets the mode, and keeps the list.
    chmod(engine, 0o640, Some(5));
    assert!(note(&ada) && !note(&bob));
    let set = |principal: Option<&Principal>, value: &[u8]| {
        let list = Change::Xattr {
            path: path("/t/f"),
            name: NFS4_ACL.to_vec(),
            value: Some(value.to_vec()),
            mode: XattrMode::Any,
        };
        change(engine, principal, list)
    };
    assert_eq!(
        errno(set(Some(&bob), &denying(9, READ))),
        Errno::NotPermitted
    );
    assert_eq!(errno(set(None, b"damaged")), Errno::Invalid);
    set(None, &denying(7, READ)).unwrap();
    assert!(!note(&ada) && note(&bob));
    // After `chmod` the mode alone decides.
    chmod(engine, 0o604, None);
    assert!(note(&ada) && note(&bob) && !stat(engine, "/t/f").unwrap().has_acl());
    sound(engine);
}

/// A scan of a set-group-id directory gave its files the group of the directory, and its default list.
#[test]
fn a_file_that_existed_before_inherits_neither_group_nor_lists() {
    let small = small();
    let engine = &small.engine;
    let default = Acl {
        owner: 7,
        users: vec![(8, 7)],
        group: 7,
        groups: Vec::new(),
        mask: Some(7),
        other: 7,
    };
    let parent = NewFile {
        gid: 20,
        xattrs: vec![(ACL_DEFAULT.to_vec(), default.encode())],
        ..NewFile::new(0o4_2777, 7, 20)
    };
    create(engine, "/t", parent);
    let old = |mode, gid| NewFile {
        times: [None, None, Some(5), None],
        ..NewFile::new(mode, 7, gid)
    };
    create(engine, "/t/f", old(0o10_0640, 9));
    create(engine, "/t/d", old(0o4_0750, 9));
    let merge = |principal: Option<&Principal>, top: &str, gid| -> Result<()> {
        let name = |text: &str| Name::new(text.as_bytes()).unwrap();
        let mut builder = SubtreeBuilder::default();
        builder.in_existing_directory(&path("/t"));
        builder.entry(&name(top), &NewFile::new(0o4_2750, 7, 20), false);
        builder.in_new_directory(0);
        builder.entry(&name("f"), &old(0o10_0640, gid), false);
        builder.entry(&name("d"), &old(0o4_0750, gid), false);
        let tree = Change::Merge(builder.finish().unwrap());
        change(engine, principal, tree).map(drop)
    };
    merge(None, "m", 9).unwrap();
    for (at, mode) in [
        ("/t/f", 0o10_0640),
        ("/t/d", 0o4_0750),
        ("/t/m/f", 0o10_0640),
        ("/t/m/d", 0o4_0750),
    ] {
        let inode = stat(engine, at).unwrap();
        assert_eq!((inode.mode, inode.gid), (mode, 9), "{at}");
        assert!(!inode.has_acl(), "{at}");
    }
    // The group of the directory may be given to a file, and no other group of which the user is no member.
    let ada = user(7, &[7]);
    assert_eq!(errno(merge(Some(&ada), "forged", 9)), Errno::NotPermitted);
    merge(Some(&ada), "own", 7).unwrap();
    merge(Some(&ada), "inherited", 20).unwrap();
    let forged = Change::Create(path("/t/forged"), old(0o10_0640, 9));
    assert_eq!(
        errno(change(engine, Some(&ada), forged)),
        Errno::NotPermitted
    );
    // A new file inherits both.
    create(engine, "/t/new", NewFile::new(0o10_0666, 7, 9));
    let new = stat(engine, "/t/new").unwrap();
    assert_eq!((new.gid, new.has_acl()), (20, true));
    sound(engine);
}
