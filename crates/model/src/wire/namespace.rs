//! Encodings of the namespace's types.

use super::Wire;
use crate::codec::{DecodeError, Reader, put_bytes};
use crate::namespace::record::{put_inode, take_inode};
use crate::namespace::{
    AppliedChange, Change, Changes, Content, Cookie, Entry, Inode, Kind, Name, NamePath, NewFile,
    Open, OpenLookup, Partition, SetAttributes, Space, SpaceBy, Subtree, Usage, XattrMode,
};
use crate::{wire_enum, wire_struct};

impl Wire for Name {
    fn put(&self, out: &mut Vec<u8>) {
        put_bytes(out, self.as_bytes());
    }
    fn take(r: &mut Reader<'_>) -> Result<Self, DecodeError> {
        Self::new(r.bytes("a name")?).map_err(|_| r.error("a name of 1 to 255 bytes"))
    }
}

impl Wire for NamePath {
    fn put(&self, out: &mut Vec<u8>) {
        put_bytes(out, self.as_bytes());
    }
    fn take(r: &mut Reader<'_>) -> Result<Self, DecodeError> {
        // `owner::identity` checks whether the sender may use an open file.
        Self::from_wire(r.bytes("a path")?).map_err(|_| r.error("a path from the root"))
    }
}

impl Wire for Inode {
    fn put(&self, out: &mut Vec<u8>) {
        put_inode(self, out);
    }
    fn take(r: &mut Reader<'_>) -> Result<Self, DecodeError> {
        take_inode(r)
    }
}

impl Wire for Box<Inode> {
    fn put(&self, out: &mut Vec<u8>) {
        put_inode(self, out);
    }
    fn take(r: &mut Reader<'_>) -> Result<Self, DecodeError> {
        take_inode(r).map(Self::new)
    }
}

wire_struct!(Cookie { hash, n });
wire_struct!(Entry { name, inode });
wire_enum!(Content {
    0 None,
    1 Symlink(target),
    2 Inline(data),
    3 Object(path),
});
wire_struct!(NewFile {
    mode,
    umask,
    uid,
    gid,
    size,
    blocks,
    rdev,
    times,
    content,
    xattrs
});
wire_struct!(SetAttributes {
    mode,
    uid,
    gid,
    size,
    blocks,
    atime,
    mtime,
    ctime,
    content
});
/// The path of the subtree's root, then its bytes.
impl Wire for Subtree {
    fn put(&self, out: &mut Vec<u8>) {
        self.path().put(out);
        put_bytes(out, self.as_bytes());
    }
    fn take(r: &mut Reader<'_>) -> Result<Self, DecodeError> {
        let path = Wire::take(r)?;
        Ok(Self::new(path, r.bytes("a subtree")?.to_vec()))
    }
}

wire_enum!(XattrMode {
    0 Any,
    1 Create,
    2 Replace,
});
wire_enum!(Change {
    0 Create(path, make),
    1 Unlink(path),
    2 Rmdir(path),
    3 Rename { from, to, no_replace },
    4 Link { from, to },
    5 Set { path, follow, set },
    6 Xattr { path, name, value, mode },
    7 Merge(subtree),
    8 Write { path, at, data },
    9 Exchange { from, to },
});
wire_enum!(OpenLookup {
    0 Found(path, inode),
    1 Missing { directory, path },
});

impl Wire for Open {
    fn put(&self, out: &mut Vec<u8>) {
        out.push(self.bits());
    }
    fn take(r: &mut Reader<'_>) -> Result<Self, DecodeError> {
        Self::of_bits(r.u8("how a file is opened")?)
            .ok_or_else(|| r.error("how a file is opened (below 128)"))
    }
}

wire_struct!(Changes {
    principal,
    changes,
    idempotency_key,
    is_retry
});
wire_struct!(AppliedChange { id, version });

/// Encoded as the type bits of a mode.
impl Wire for Kind {
    fn put(&self, out: &mut Vec<u8>) {
        self.bits().put(out);
    }
    fn take(r: &mut Reader<'_>) -> Result<Self, DecodeError> {
        Self::of_mode(u32::take(r)?).ok_or_else(|| r.error("the type bits of a mode"))
    }
}

wire_enum!(SpaceBy {
    0 User,
    1 Group,
    2 Kind,
    3 Ending,
    4 Day,
});
wire_struct!(Usage {
    files,
    directories,
    bytes,
    blocks
});
wire_struct!(Space { key, usage });
wire_struct!(Partition {
    index,
    depth,
    server,
    entries
});

#[cfg(test)]
mod tests {
    use super::*;
    use crate::namespace::Errno;
    use crate::wire::{decode, encode};
    use crate::{Result, Version, VertexId};
    use std::fmt::Debug;

    fn comes_back<T: Wire + PartialEq + Debug>(value: &T) {
        let mut bytes = Vec::new();
        value.put(&mut bytes);
        assert_eq!(&decode::<T>(&bytes).unwrap(), value);
        // Any truncated encoding is refused, and nothing panics.
        for end in 0..bytes.len() {
            assert!(
                decode::<T>(bytes.get(..end).unwrap()).is_err(),
                "{value:?} cut at {end}"
            );
        }
    }

    #[test]
    fn changes_and_answers_come_back() {
        let path = |text: &str| NamePath::parse(text.as_bytes()).unwrap();
        let make = NewFile {
            size: 3,
            times: [None, Some(-1), None, Some(i64::MAX)],
            content: Content::Symlink(b"x".to_vec()),
            xattrs: vec![(b"user.a".to_vec(), vec![0, 255])],
            ..NewFile::new(0o12_0777, 7, 8)
        };
        let set = SetAttributes {
            mode: Some(0o644),
            ctime: Some(5),
            content: Some(Content::Inline(vec![1])),
            ..SetAttributes::default()
        };
        for change in [
            Change::Create(path("/a/b"), make),
            Change::Unlink(path("/a")),
            Change::Rmdir(path("/a")),
            Change::Rename {
                from: path("/a"),
                to: path("/b"),
                no_replace: true,
            },
            Change::Exchange {
                from: path("/a/b"),
                to: path("/c"),
            },
            Change::Link {
                from: path("/a"),
                to: path("/b"),
            },
            Change::Set {
                path: path("/"),
                follow: true,
                set,
            },
            Change::Xattr {
                path: path("/a"),
                name: b"user.a".to_vec(),
                value: None,
                mode: XattrMode::Create,
            },
            Change::Merge(Subtree::new(path("/a/b"), vec![1, 2, 3])),
            Change::Write {
                path: path("/a"),
                at: Some(7),
                data: vec![0, 255],
            },
        ] {
            comes_back(&change);
        }
        comes_back(&Open::BOTH);
        comes_back(&OpenLookup::Missing {
            directory: VertexId([3; 16]),
            path: path("/a"),
        });
        comes_back(&Cookie { hash: 7, n: 1 });
        let outcomes: [Result<AppliedChange>; 2] = [
            Ok(AppliedChange {
                id: VertexId([1; 16]),
                version: Version(2),
            }),
            Err(Errno::Loop.at("/x").into()),
        ];
        for outcome in outcomes {
            let bytes = encode(&outcome);
            let back: Result<AppliedChange> = decode(&bytes).unwrap();
            assert_eq!(encode(&back), bytes);
        }
    }
}
