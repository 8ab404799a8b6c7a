//! Random changes of a namespace, by three people.

use crate::rng::Rng;
use esker_model::namespace::{
    Change, Content, Make, Name, NamePath, SetAttributes, Subtree, SubtreeBuilder, XattrMode,
};
use esker_model::object::Asker;

/// The superuser, and two others who share a group.
pub fn people() -> [Asker; 3] {
    let asker = |uid, gids: &[i64]| Asker {
        uid,
        gids: gids.to_vec(),
    };
    [
        asker(0, &[0]),
        asker(1001, &[1001, 2000]),
        asker(1002, &[1002, 2000]),
    ]
}

/// Names that paths are made of.
pub const NAMES: [&str; 4] = ["a", "b", "c", "d.x"];

/// # Panics
/// If it is none.
pub fn path(text: &str) -> NamePath {
    match NamePath::parse(text.as_bytes()) {
        Ok(path) => path,
        Err(e) => panic!("{e}"),
    }
}

/// A path of one to three of the names.
pub fn some_path(rng: &mut Rng, names: &[&str]) -> NamePath {
    let mut text = String::new();
    for _ in 0..=rng.below(3) {
        text.push('/');
        let name: &str = names.get(rng.below(names.len())).copied().unwrap_or("a");
        text.push_str(name);
    }
    path(&text)
}

/// Something that somebody does.
pub fn some_change(rng: &mut Rng, asker: &Asker, names: &[&str]) -> Change {
    let uid = asker.uid as u32;
    let gid = asker.gids.first().map_or(0, |gid| *gid as u32);
    let mode = *rng.pick(&[
        0o777, 0o755, 0o700, 0o070, 0o007, 0o1777, 0o2775, 0o711, 0o4755, 0o666,
    ]);
    let at = some_path(rng, names);
    let set = |set: SetAttributes, rng: &mut Rng, at: NamePath| Change::Set {
        path: at,
        follow: rng.below(2) == 0,
        set,
    };
    match rng.below(24) {
        0..=4 => Change::Make(at, Make::new(0o4_0000 | mode & 0o1777, uid, gid)),
        5..=8 => Change::Make(at, Make::new(0o10_0000 | mode, uid, gid)),
        9 => Change::Make(at, Make::new(0o1_0000 | mode, uid, gid)),
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
            let make = Make {
                content: Content::Symlink(target.as_bytes().to_vec()),
                ..Make::new(0o12_0777, uid, gid)
            };
            Change::Make(at, make)
        }
        11..=12 => Change::Unlink(at),
        13 => Change::Rmdir(at),
        14..=16 => Change::Rename {
            from: at,
            to: some_path(rng, names),
            no_replace: rng.below(4) == 0,
        },
        17..=18 => Change::Link {
            from: at,
            to: some_path(rng, names),
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
            let size = Some(rng.below(3) as u64 * 700);
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
            let (atime, mtime) = (Some(-5), Some(rng.below(1 << 40) as i64 * 1_000));
            let attributes = SetAttributes {
                atime,
                mtime,
                ..SetAttributes::default()
            };
            set(attributes, rng, at)
        }
        _ => Change::Xattr {
            path: at,
            name: rng.pick(&[b"user.a", b"user.b"]).to_vec(),
            value: (rng.below(3) > 0).then(|| vec![b'x'; rng.below(9)]),
            mode: XattrMode::Any,
        },
    }
}

/// A subtree of somebody: a directory at a path, with some in it that have files, links and tags.
///
/// # Panics
/// If the path is the root.
pub fn some_subtree(rng: &mut Rng, asker: &Asker, at: &NamePath) -> Subtree {
    let uid = asker.uid as u32;
    let gid = asker.gids.first().map_or(0, |gid| *gid as u32);
    let name = |text: &str| match Name::new(text.as_bytes()) {
        Ok(name) => name,
        Err(e) => panic!("{e}"),
    };
    let Some((_, top)) = at.split() else {
        panic!("the root is there already")
    };
    let mut builder = SubtreeBuilder::default();
    builder.existing(&at.parent());
    let directory = |rng: &mut Rng| {
        let mode = *rng.pick(&[0o777, 0o755, 0o700, 0o1777, 0o555]);
        Make::new(0o4_0000 | mode, uid, gid)
    };
    let make = directory(rng);
    builder.entry(&top, &make, false);
    let mut directories = vec![at.clone()];
    let mut number = 0;
    while let Some(here) = directories.get(number).cloned() {
        builder.made(number as u64);
        number += 1;
        for n in 0..rng.below(9) {
            let make = Make {
                size: rng.below(4_000) as u64,
                ..Make::new(0o10_0644, uid, gid)
            };
            builder.entry(&name(&format!("f{n}.h5")), &make, n == 0);
            let first = here.join(&name("f0.h5"));
            let more = if n == 0 { rng.below(3) } else { 2 };
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
            for n in 0..rng.below(3) {
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
