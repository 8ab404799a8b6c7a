//! Encoding of namespace changes as servers send them to each other.

#![deny(clippy::indexing_slicing)]

use super::{Change, Content, Name, NamePath, NewFile, SetAttributes, Subtree, XattrMode};
use crate::codec::{DecodeError, Reader, put_bytes, put_u64, put_varint};

/// Appends an encoded change.
pub fn put_change(out: &mut Vec<u8>, change: &Change) {
    match change {
        Change::Create(path, make) => {
            out.push(0);
            put_path(out, path);
            put_new_file(out, make);
        }
        Change::Unlink(path) => {
            out.push(1);
            put_path(out, path);
        }
        Change::Rmdir(path) => {
            out.push(2);
            put_path(out, path);
        }
        Change::Rename {
            from,
            to,
            no_replace,
        } => {
            out.push(3);
            put_path(out, from);
            put_path(out, to);
            out.push(u8::from(*no_replace));
        }
        Change::Link { from, to } => {
            out.push(4);
            put_path(out, from);
            put_path(out, to);
        }
        Change::Set { path, follow, set } => {
            out.push(5);
            put_path(out, path);
            out.push(u8::from(*follow));
            put_set(out, set);
        }
        Change::Xattr {
            path,
            name,
            value,
            mode,
        } => {
            out.push(6);
            put_path(out, path);
            put_bytes(out, name);
            put_option(out, value.as_ref(), |out, value| put_bytes(out, value));
            out.push(match mode {
                XattrMode::Any => 0,
                XattrMode::Create => 1,
                XattrMode::Replace => 2,
            });
        }
        Change::Write { path, at, data } => {
            out.push(8);
            put_path(out, path);
            put_number(out, *at);
            put_bytes(out, data);
        }
        Change::Merge(subtree) => {
            out.push(7);
            put_path(out, subtree.path());
            put_bytes(out, subtree.as_bytes());
        }
    }
}

/// Decodes the output of [`put_change`].
pub fn take_change(r: &mut Reader<'_>) -> Result<Change, DecodeError> {
    let kind = r.u8("a kind of change")?;
    let path = take_path(r)?;
    Ok(match kind {
        0 => Change::Create(path, take_new_file(r)?),
        1 => Change::Unlink(path),
        2 => Change::Rmdir(path),
        3 => Change::Rename {
            from: path,
            to: take_path(r)?,
            no_replace: take_bool(r)?,
        },
        4 => Change::Link {
            from: path,
            to: take_path(r)?,
        },
        5 => Change::Set {
            path,
            follow: take_bool(r)?,
            set: take_set(r)?,
        },
        6 => Change::Xattr {
            path,
            name: r.bytes("an attribute's name")?.to_vec(),
            value: take_option(r, |r| Ok(r.bytes("an attribute's value")?.to_vec()))?,
            mode: match r.u8("how an attribute is set")? {
                0 => XattrMode::Any,
                1 => XattrMode::Create,
                2 => XattrMode::Replace,
                _ => return Err(r.error("how an attribute is set (0 to 2)")),
            },
        },
        7 => Change::Merge(Subtree::new(path, r.bytes("a subtree")?.to_vec())),
        8 => Change::Write {
            path,
            at: take_number(r)?,
            data: r.bytes("data")?.to_vec(),
        },
        _ => return Err(r.error("a kind of change (0 to 8)")),
    })
}

/// Appends an encoded path.
pub fn put_path(out: &mut Vec<u8>, path: &NamePath) {
    put_bytes(out, path.as_bytes());
}

/// Decodes a path or the path form of an open file.
pub fn take_path(r: &mut Reader<'_>) -> Result<NamePath, DecodeError> {
    NamePath::from_wire(r.bytes("a path")?).map_err(|_| r.error("a path from the root"))
}

/// Appends an encoded name.
pub fn put_name(out: &mut Vec<u8>, name: &Name) {
    put_bytes(out, name.as_bytes());
}

/// Decodes and checks a name.
pub fn take_name(r: &mut Reader<'_>) -> Result<Name, DecodeError> {
    Name::new(r.bytes("a name")?).map_err(|_| r.error("a name of 1 to 255 bytes"))
}

fn put_option<T>(out: &mut Vec<u8>, value: Option<T>, put: impl FnOnce(&mut Vec<u8>, T)) {
    out.push(u8::from(value.is_some()));
    if let Some(value) = value {
        put(out, value);
    }
}

fn take_option<T>(
    r: &mut Reader<'_>,
    take: impl FnOnce(&mut Reader<'_>) -> Result<T, DecodeError>,
) -> Result<Option<T>, DecodeError> {
    take_bool(r)?.then(|| take(r)).transpose()
}

fn take_bool(r: &mut Reader<'_>) -> Result<bool, DecodeError> {
    match r.u8("yes or no")? {
        0 => Ok(false),
        1 => Ok(true),
        _ => Err(r.error("yes or no (1 or 0)")),
    }
}

fn put_time(out: &mut Vec<u8>, time: Option<i64>) {
    put_option(out, time, |out, t| put_u64(out, t.cast_unsigned()));
}

fn take_time(r: &mut Reader<'_>) -> Result<Option<i64>, DecodeError> {
    take_option(r, |r| Ok(r.u64("a time")?.cast_signed()))
}

fn put_number(out: &mut Vec<u8>, n: Option<u64>) {
    put_option(out, n, put_varint);
}

fn take_number(r: &mut Reader<'_>) -> Result<Option<u64>, DecodeError> {
    take_option(r, |r| r.varint("a number"))
}

fn take_short(r: &mut Reader<'_>) -> Result<Option<u32>, DecodeError> {
    let n = take_number(r)?.map(u32::try_from).transpose();
    n.map_err(|_| r.error("a number of 32 bits"))
}

fn take_u32(r: &mut Reader<'_>) -> Result<u32, DecodeError> {
    u32::try_from(r.varint("a number")?).map_err(|_| r.error("a number of 32 bits"))
}

pub(super) fn put_content(out: &mut Vec<u8>, content: &Content) {
    let (kind, bytes): (u8, &[u8]) = match content {
        Content::None => (0, &[]),
        Content::Symlink(target) => (1, target),
        Content::Inline(data) => (2, data),
        Content::Object(path) => (3, path),
    };
    out.push(kind);
    put_bytes(out, bytes);
}

pub(super) fn take_content(r: &mut Reader<'_>) -> Result<Content, DecodeError> {
    let kind = r.u8("a kind of content")?;
    let bytes = r.bytes("content")?.to_vec();
    Ok(match kind {
        0 => Content::None,
        1 => Content::Symlink(bytes),
        2 => Content::Inline(bytes),
        3 => Content::Object(bytes),
        _ => return Err(r.error("a kind of content (0 to 3)")),
    })
}

fn put_new_file(out: &mut Vec<u8>, make: &NewFile) {
    for n in [make.mode, make.uid, make.gid] {
        put_varint(out, n.into());
    }
    for n in [make.size, make.blocks, make.rdev] {
        put_varint(out, n);
    }
    for time in make.times {
        put_time(out, time);
    }
    put_content(out, &make.content);
    put_varint(out, make.xattrs.len() as u64);
    for (name, value) in &make.xattrs {
        put_bytes(out, name);
        put_bytes(out, value);
    }
}

fn take_new_file(r: &mut Reader<'_>) -> Result<NewFile, DecodeError> {
    let mut make = NewFile::new(take_u32(r)?, take_u32(r)?, take_u32(r)?);
    make.size = r.varint("a size")?;
    make.blocks = r.varint("a count of blocks")?;
    make.rdev = r.varint("a device")?;
    for time in &mut make.times {
        *time = take_time(r)?;
    }
    make.content = take_content(r)?;
    for _ in 0..r.count(2, "a count of attributes")? {
        let name = r.bytes("an attribute's name")?.to_vec();
        make.xattrs
            .push((name, r.bytes("an attribute's value")?.to_vec()));
    }
    Ok(make)
}

fn put_set(out: &mut Vec<u8>, set: &SetAttributes) {
    for n in [set.mode, set.uid, set.gid] {
        put_number(out, n.map(u64::from));
    }
    put_number(out, set.size);
    put_number(out, set.blocks);
    for time in [set.atime, set.mtime, set.ctime] {
        put_time(out, time);
    }
    put_option(out, set.content.as_ref(), put_content);
}

fn take_set(r: &mut Reader<'_>) -> Result<SetAttributes, DecodeError> {
    Ok(SetAttributes {
        mode: take_short(r)?,
        uid: take_short(r)?,
        gid: take_short(r)?,
        size: take_number(r)?,
        blocks: take_number(r)?,
        atime: take_time(r)?,
        mtime: take_time(r)?,
        ctime: take_time(r)?,
        content: take_option(r, take_content)?,
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::id::VertexId;
    use crate::namespace::Handle;
    use proptest::prelude::*;

    fn paths() -> impl Strategy<Value = NamePath> {
        prop::collection::vec("[a-z\u{1}\u{7f}]{1,5}", 0..4)
            .prop_map(|parts| NamePath::parse(format!("/{}", parts.join("/")).as_bytes()).unwrap())
    }

    fn handles() -> impl Strategy<Value = NamePath> {
        let ids = || any::<[u8; 16]>().prop_map(VertexId);
        (ids(), ids(), any::<[bool; 2]>(), any::<[u8; 16]>()).prop_map(
            |(id, directory, [read, write], seal)| {
                let name = Name::new(b"n").unwrap();
                let handle = Handle {
                    id,
                    directory,
                    name,
                    born: 0,
                    read,
                    write,
                    seal,
                };
                handle.path()
            },
        )
    }

    fn contents() -> impl Strategy<Value = Content> {
        let bytes = || prop::collection::vec(any::<u8>(), 0..9);
        prop_oneof![
            Just(Content::None),
            bytes().prop_map(Content::Symlink),
            bytes().prop_map(Content::Inline),
            bytes().prop_map(Content::Object),
        ]
    }

    fn makes() -> impl Strategy<Value = NewFile> {
        let n = (any::<[u32; 3]>(), any::<[u64; 3]>());
        (n, any::<[Option<i64>; 4]>(), contents(), any::<bool>()).prop_map(
            |(([mode, uid, gid], [size, blocks, rdev]), times, content, tagged)| NewFile {
                size,
                blocks,
                rdev,
                times,
                content,
                xattrs: if tagged {
                    vec![(b"user.a".to_vec(), vec![0, 255])]
                } else {
                    Vec::new()
                },
                ..NewFile::new(mode, uid, gid)
            },
        )
    }

    prop_compose! {
        fn sets()(ids in any::<[Option<u32>; 3]>(), sizes in any::<[Option<u64>; 2]>(), times in any::<[Option<i64>; 3]>(),
            content in prop::option::of(contents())) -> SetAttributes {
            let ([mode, uid, gid], [size, blocks], [atime, mtime, ctime]) = (ids, sizes, times);
            SetAttributes { mode, uid, gid, size, blocks, atime, mtime, ctime, content }
        }
    }

    fn changes() -> impl Strategy<Value = Change> {
        let mode = prop_oneof![
            Just(XattrMode::Any),
            Just(XattrMode::Create),
            Just(XattrMode::Replace)
        ];
        let bytes = || prop::collection::vec(any::<u8>(), 0..9);
        prop_oneof![
            (paths(), makes()).prop_map(|(p, m)| Change::Create(p, m)),
            paths().prop_map(Change::Unlink),
            paths().prop_map(Change::Rmdir),
            (paths(), paths(), any::<bool>()).prop_map(|(from, to, no_replace)| Change::Rename {
                from,
                to,
                no_replace
            }),
            (paths(), paths()).prop_map(|(from, to)| Change::Link { from, to }),
            (paths(), any::<bool>(), sets()).prop_map(|(path, follow, set)| Change::Set {
                path,
                follow,
                set
            }),
            (paths(), bytes()).prop_map(|(p, b)| Change::Merge(Subtree::new(p, b))),
            (handles(), prop::option::of(any::<u64>()), bytes())
                .prop_map(|(path, at, data)| Change::Write { path, at, data }),
            (paths(), bytes(), prop::option::of(bytes()), mode).prop_map(
                |(path, name, value, mode)| Change::Xattr {
                    path,
                    name,
                    value,
                    mode
                }
            ),
        ]
    }

    proptest! {
        #[test]
        fn changes_come_back(change in changes()) {
            let mut out = Vec::new();
            put_change(&mut out, &change);
            for end in 0..out.len() {
                prop_assert!(take_change(&mut Reader::new(out.get(..end).unwrap())).is_err());
            }
            let mut r = Reader::new(&out);
            prop_assert_eq!(take_change(&mut r).unwrap(), change);
            prop_assert!(r.finish().is_ok());
        }

        #[test]
        fn nothing_that_is_damaged_panics(bytes in prop::collection::vec(any::<u8>(), 0..60)) {
            let _ = take_change(&mut Reader::new(&bytes));
        }
    }
}
