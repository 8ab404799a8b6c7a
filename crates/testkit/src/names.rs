//! Random changes of a namespace by three users.

use crate::rng::Rng;
use esker_model::namespace::{
    ACL_ACCESS, ACL_DEFAULT, Acl, Change, Content, Name, NamePath, NewFile, SetAttributes, Subtree,
    SubtreeBuilder, XattrMode,
};
use esker_model::object::Principal;

/// Returns the superuser and two other principals who share a group.
pub fn people() -> [Principal; 3] {
    let principal = |uid, gids: &[i64]| Principal {
        uid,
        gids: gids.to_vec(),
    };
    [
        principal(0, &[0]),
        principal(1001, &[1001, 2000]),
        principal(1002, &[1002, 2000]),
    ]
}

/// Names from which paths are made.
pub const NAMES: [&str; 4] = ["a", "b", "c", "d.x"];

/// Parses a path.
///
/// # Panics
/// If the text is not a valid path.
pub fn path(text: &str) -> NamePath {
    match NamePath::parse(text.as_bytes()) {
        Ok(path) => path,
        Err(e) => panic!("{e}"),
    }
}

/// Returns a random path of one to three of the names.
pub fn random_path(rng: &mut Rng, names: &[&str]) -> NamePath {
    let mut text = String::new();
    for _ in 0..=rng.number_below(3) {
        text.push('/');
        let name: &str = names
            .get(rng.number_below(names.len()))
            .copied()
            .unwrap_or("a");
        text.push_str(name);
    }
    path(&text)
}

/// Returns a random change by a principal.
pub fn random_change(rng: &mut Rng, principal: &Principal, names: &[&str]) -> Change {
    let uid = principal.uid as u32;
    let gid = principal.gids.first().map_or(0, |gid| *gid as u32);
    let mode = *rng.pick(&[
        0o777, 0o755, 0o700, 0o070, 0o007, 0o1777, 0o2775, 0o711, 0o4755, 0o666,
    ]);
    let at = random_path(rng, names);
    let set = |set: SetAttributes, rng: &mut Rng, at: NamePath| Change::Set {
        path: at,
        follow: rng.number_below(2) == 0,
        set,
    };
    match rng.number_below(25) {
        0..=4 => Change::Create(at, NewFile::new(0o4_0000 | mode & 0o1777, uid, gid)),
        5..=8 => Change::Create(at, NewFile::new(0o10_0000 | mode, uid, gid)),
        9 => Change::Create(at, NewFile::new(0o1_0000 | mode, uid, gid)),
        10 => {
            let target = *rng.pick(&[
                "a",
                "b/c",
                "../a",
                "..",
                "/a/b",
                "/",
                ".",
                "./c/../d.x",
                "a/..",
            ]);
            let make = NewFile {
                content: Content::Symlink(target.as_bytes().to_vec()),
                ..NewFile::new(0o12_0777, uid, gid)
            };
            Change::Create(at, make)
        }
        11..=12 => Change::Unlink(at),
        13 => Change::Rmdir(at),
        14..=16 => Change::Rename {
            from: at,
            to: random_path(rng, names),
            no_replace: rng.number_below(4) == 0,
        },
        24 => Change::Exchange {
            from: at,
            to: random_path(rng, names),
        },
        17..=18 => Change::Link {
            from: at,
            to: random_path(rng, names),
        },
        19 => {
            let mode = Some(mode);
            Change::Set {
                path: at,
                follow: true,
                set: SetAttributes {
                    mode,
                    ..SetAttributes::default()
                },
            }
        }
        20 => {
            let owner = *rng.pick(&[None, Some(0), Some(1001), Some(1002)]);
            let group = *rng.pick(&[None, Some(1001), Some(2000), Some(1002)]);
            let group = if owner.is_none() {
                Some(group.unwrap_or(2000))
            } else {
                group
            };
            let attributes = SetAttributes {
                uid: owner,
                gid: group,
                ..SetAttributes::default()
            };
            set(attributes, rng, at)
        }
        21 => {
            let size = Some(rng.number_below(3) as u64 * 700);
            Change::Set {
                path: at,
                follow: true,
                set: SetAttributes {
                    size,
                    ..SetAttributes::default()
                },
            }
        }
        22 => {
            let (atime, mtime) = (Some(-5), Some(rng.number_below(1 << 40) as i64 * 1_000));
            let attributes = SetAttributes {
                atime,
                mtime,
                ..SetAttributes::default()
            };
            set(attributes, rng, at)
        }
        23 if rng.number_below(2) == 0 => Change::Xattr {
            path: at,
            name: rng.pick(&[ACL_ACCESS, ACL_DEFAULT]).to_vec(),
            value: (rng.number_below(4) > 0).then(|| random_acl(rng)),
            mode: XattrMode::Any,
        },
        _ => Change::Xattr {
            path: at,
            name: rng.pick(&[b"user.a", b"user.b"]).to_vec(),
            value: (rng.number_below(3) > 0).then(|| vec![b'x'; rng.number_below(9)]),
            mode: XattrMode::Any,
        },
    }
}

/// Returns the value of a random access control list for the users and groups of [`people`]; one in ten is malformed.
pub fn random_acl(rng: &mut Rng) -> Vec<u8> {
    let permissions = |rng: &mut Rng| rng.number_below(8) as u8;
    let mut named = |ids: &[u32]| -> Vec<(u32, u8)> {
        let chosen: Vec<u32> = ids.iter().copied().filter(|_| rng.percent(40)).collect();
        chosen
            .into_iter()
            .map(|id| (id, permissions(rng)))
            .collect()
    };
    let (users, groups) = (named(&[0, 1001, 1002]), named(&[1001, 1002, 2000]));
    let needs_mask = !users.is_empty() || !groups.is_empty();
    let acl = Acl {
        owner: permissions(rng),
        users,
        group: permissions(rng),
        groups,
        mask: (needs_mask || rng.percent(20)).then(|| permissions(rng)),
        other: permissions(rng),
    };
    let mut value = acl.encode();
    if rng.percent(10) {
        // An entry is missing, or cut.
        value.truncate(value.len() - *rng.pick(&[3, 8, 16]));
    }
    value
}

/// Returns a random subtree of a principal: a directory at a path, with subdirectories, files, links and tags.
///
/// # Panics
/// If the path is the root.
pub fn random_subtree(rng: &mut Rng, principal: &Principal, at: &NamePath) -> Subtree {
    let uid = principal.uid as u32;
    let gid = principal.gids.first().map_or(0, |gid| *gid as u32);
    let name = |text: &str| match Name::new(text.as_bytes()) {
        Ok(name) => name,
        Err(e) => panic!("{e}"),
    };
    let Some((_, top)) = at.split() else {
        panic!("the root is there already")
    };
    let mut builder = SubtreeBuilder::default();
    builder.in_existing_directory(&at.parent());
    let directory = |rng: &mut Rng| {
        let mode = *rng.pick(&[0o777, 0o755, 0o700, 0o1777, 0o555]);
        NewFile::new(0o4_0000 | mode, uid, gid)
    };
    let make = directory(rng);
    builder.entry(&top, &make, false);
    let mut directories = vec![at.clone()];
    let mut number = 0;
    while let Some(here) = directories.get(number).cloned() {
        builder.in_new_directory(number as u64);
        number += 1;
        for n in 0..rng.number_below(9) {
            let make = NewFile {
                size: rng.number_below(4_000) as u64,
                ..NewFile::new(0o10_0644, uid, gid)
            };
            builder.entry(&name(&format!("f{n}.h5")), &make, n == 0);
            let first = here.join(&name("f0.h5"));
            let more = if n == 0 { rng.number_below(3) } else { 2 };
            if more == 0 {
                let to = here.join(&name("link"));
                builder.change(&Change::Link { from: first, to });
            } else if more == 1 {
                builder.change(&Change::Xattr {
                    path: first,
                    name: b"user.esker.n".to_vec(),
                    value: Some(b"7".to_vec()),
                    mode: XattrMode::Any,
                });
            }
        }
        if number < 5 {
            for n in 0..rng.number_below(3) {
                let text = format!("d{n}");
                let make = directory(rng);
                builder.entry(&name(&text), &make, false);
                directories.push(here.join(&name(&text)));
            }
        }
    }
    match builder.finish() {
        Ok(subtree) => subtree,
        Err(e) => panic!("{e}"),
    }
}
