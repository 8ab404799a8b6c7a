//! Private subtrees as bytes: a directory tree that one program has built in memory and that enters the namespace at
//! once.
//!
//! ```text
//!  [01][path]            the next entries are in this directory, which exists already
//!  [02][number]          the next entries are in a directory of this subtree: directories are numbered from 0 in order
//!  [80 | flags][name]([mode][uid][gid])([size][blocks][rdev])([which times][times])([content])([attributes])
//!  [03][change]          applied after everything before it exists: further names of files, and tags
//! ```
//!
//! An entry contains only what differs from the entry before it: times as differences, mode and owners if they
//! changed.

#![deny(clippy::indexing_slicing)]

use super::{Change, Content, FileError, Kind, Name, NamePath, NewFile, PATH_BYTES_MAX};
use crate::codec::{DecodeError, Reader, put_bytes, put_varint};
use crate::error::{Error, Result};
use crate::wire::Wire;
use std::fmt;
use std::sync::Arc;

/// Largest size of a subtree in bytes: about two million files with short names.
pub const SUBTREE_BYTES_MAX: usize = 60 << 20;

const EXISTING_DIRECTORY: u8 = 1;
const NEW_DIRECTORY: u8 = 2;
const CHANGE: u8 = 3;
const ENTRY: u8 = 0x80;

/// Flag: mode and owners equal those of the entry before.
const SAME_OWNER: u8 = 1;
const SIZED: u8 = 2;
const TIMED: u8 = 4;
const CONTENT: u8 = 8;
const XATTRS: u8 = 16;
const REFERRED: u8 = 32;

/// An encoded subtree. Clones share the bytes.
#[derive(Clone, PartialEq, Eq)]
pub struct Subtree {
    path: NamePath,
    bytes: Arc<Vec<u8>>,
}

impl fmt::Debug for Subtree {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Subtree")
            .field("path", &self.path)
            .field("bytes", &self.bytes.len())
            .finish()
    }
}

/// One item of an encoded subtree.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Item {
    /// The next entries are in this directory, which exists already.
    ExistingDirectory(NamePath),
    /// The next entries are in this directory of the subtree, by its number.
    NewDirectory(u64),
    /// An entry, and whether a later change refers to it.
    Entry(Name, NewFile, bool),
    /// A change to apply after the entries: a further name, or a tag.
    Change(Change),
}

impl Subtree {
    /// Wraps the output of [`Self::as_bytes`]. The receiver checks it while decoding.
    pub fn new(path: NamePath, bytes: Vec<u8>) -> Self {
        let bytes = Arc::new(bytes);
        Self { path, bytes }
    }

    /// Returns the path of the first entry.
    pub fn path(&self) -> &NamePath {
        &self.path
    }

    /// Returns the encoded bytes.
    pub fn as_bytes(&self) -> &[u8] {
        &self.bytes
    }

    /// Expands the subtree into one change for each file.
    pub fn changes(&self) -> Result<Vec<Change>> {
        let mut directories = Vec::new();
        let mut changes = Vec::new();
        let mut place = NamePath::root();
        for item in self.items() {
            match item.map_err(|e| Error::corrupt("a subtree", e))? {
                Item::ExistingDirectory(path) => place = path,
                Item::NewDirectory(number) => {
                    let number = usize::try_from(number).ok();
                    let made: Option<&NamePath> = number.and_then(|n| directories.get(n));
                    place = made.cloned().ok_or_else(|| {
                        Error::Invalid("a subtree refers to a directory before it makes it".into())
                    })?;
                }
                Item::Entry(name, make, _) => {
                    let path = path_in(&place, &name)?;
                    if Kind::of_mode(make.mode) == Some(Kind::Directory) {
                        directories.push(path.clone());
                    }
                    changes.push(Change::Create(path, make));
                }
                Item::Change(change) => changes.push(change),
            }
        }
        Ok(changes)
    }

    /// Iterates over the decoded items.
    pub fn items(&self) -> Items<'_> {
        Items {
            reader: Reader::new(&self.bytes),
            last: Last::default(),
        }
    }
}

/// Values of the last entry, against which the next one is encoded.
#[derive(Debug, Clone, Copy, Default)]
struct Last {
    owner: (u32, u32, u32),
    time: i64,
}

/// Builder of a [`Subtree`].
#[derive(Debug, Default)]
pub struct SubtreeBuilder {
    bytes: Vec<u8>,
    changes: Vec<u8>,
    last: Last,
    directory: Option<NamePath>,
    path: Option<NamePath>,
    directories: u64,
    entries: u64,
}

impl SubtreeBuilder {
    /// Directs the next entries into an existing directory.
    pub fn in_existing_directory(&mut self, directory: &NamePath) {
        self.bytes.push(EXISTING_DIRECTORY);
        directory.put(&mut self.bytes);
        if self.path.is_none() {
            self.directory = Some(directory.clone());
        }
    }

    /// Directs the next entries into a directory of this subtree, by its number.
    pub fn in_new_directory(&mut self, number: u64) {
        self.bytes.push(NEW_DIRECTORY);
        put_varint(&mut self.bytes, number);
    }

    /// Adds an entry; `referred` if a later change refers to it. Returns the number of a directory.
    pub fn entry(&mut self, name: &Name, make: &NewFile, referred: bool) -> Option<u64> {
        if let Some(directory) = self.directory.take() {
            self.path = Some(directory.join(name));
        }
        let flag = |on: bool, bit: u8| if on { bit } else { 0 };
        let owner = (make.mode & !(make.umask & 0o777), make.uid, make.gid);
        let same = owner == self.last.owner;
        let sized = (make.size, make.blocks, make.rdev) != (0, 0, 0);
        let timed = make.times != [None; 4];
        let content = make.content != Content::None;
        let out = &mut self.bytes;
        out.push(
            ENTRY
                | flag(same, SAME_OWNER)
                | flag(sized, SIZED)
                | flag(timed, TIMED)
                | flag(content, CONTENT)
                | flag(!make.xattrs.is_empty(), XATTRS)
                | flag(referred, REFERRED),
        );
        put_bytes(out, name.as_bytes());
        if !same {
            for n in [owner.0, owner.1, owner.2] {
                put_varint(out, n.into());
            }
            self.last.owner = owner;
        }
        if sized {
            for n in [make.size, make.blocks, make.rdev] {
                put_varint(out, n);
            }
        }
        if timed {
            let bits = [1, 2, 4, 8].into_iter().zip(make.times);
            out.push(bits.fold(0, |mask, (bit, t)| mask | flag(t.is_some(), bit)));
            for time in make.times.into_iter().flatten() {
                put_varint(out, zigzag(time.wrapping_sub(self.last.time)));
                self.last.time = time;
            }
        }
        if content {
            make.content.put(out);
        }
        if !make.xattrs.is_empty() {
            put_varint(out, make.xattrs.len() as u64);
            for (name, value) in &make.xattrs {
                put_bytes(out, name);
                put_bytes(out, value);
            }
        }
        self.entries += 1;
        let number = self.directories;
        let directory = Kind::of_mode(make.mode) == Some(Kind::Directory);
        self.directories += u64::from(directory);
        directory.then_some(number)
    }

    /// Adds a change to apply after the entries: a further name of a file, or a tag.
    pub fn change(&mut self, change: &Change) {
        self.changes.push(CHANGE);
        change.put(&mut self.changes);
    }

    /// Returns the number of entries.
    pub fn entries(&self) -> u64 {
        self.entries
    }

    /// Returns the size of the encoded subtree in bytes.
    pub fn bytes(&self) -> usize {
        self.bytes.len() + self.changes.len()
    }

    /// Returns the subtree. Refused if it is empty or larger than [`SUBTREE_BYTES_MAX`].
    pub fn finish(self) -> Result<Subtree> {
        let bytes = self.bytes();
        if bytes > SUBTREE_BYTES_MAX {
            return Err(too_large(bytes as u64, SUBTREE_BYTES_MAX as u64));
        }
        let Some(path) = self.path else {
            return Err(Error::Invalid(
                "a subtree without entries: expected at least one entry of an existing directory"
                    .into(),
            ));
        };
        let mut bytes = self.bytes;
        bytes.extend(self.changes);
        Ok(Subtree::new(path, bytes))
    }
}

/// Builds the error for a subtree that exceeds the size limit.
pub fn too_large(got: u64, limit: u64) -> Error {
    Error::Limit {
        what: "a private subtree, in bytes (merge it sooner, or make several),".into(),
        got,
        limit,
    }
}

fn zigzag(value: i64) -> u64 {
    ((value << 1) ^ (value >> 63)).cast_unsigned()
}

fn unzigzag(value: u64) -> i64 {
    (value >> 1).cast_signed() ^ -((value & 1).cast_signed())
}

/// Iterator over the items of a subtree. Ends after the first error.
#[derive(Debug)]
pub struct Items<'a> {
    reader: Reader<'a>,
    last: Last,
}

impl Items<'_> {
    fn item(&mut self) -> std::result::Result<Item, DecodeError> {
        let r = &mut self.reader;
        let tag = r.u8("a part of a subtree")?;
        Ok(match tag {
            EXISTING_DIRECTORY => Item::ExistingDirectory(Wire::take(r)?),
            NEW_DIRECTORY => Item::NewDirectory(r.varint("a directory's number")?),
            CHANGE => Item::Change(Wire::take(r)?),
            tag if tag & ENTRY != 0 && tag & 0x40 == 0 => return self.entry(tag),
            _ => return Err(r.error("a part of a subtree (01 to 03, 80 to bf)")),
        })
    }

    fn entry(&mut self, flags: u8) -> std::result::Result<Item, DecodeError> {
        let r = &mut self.reader;
        let name = Name::take(r)?;
        if flags & SAME_OWNER == 0 {
            let mut number =
                || u32::try_from(r.varint("a number")?).map_err(|_| r.error("a number of 32 bits"));
            self.last.owner = (number()?, number()?, number()?);
        }
        let (mode, uid, gid) = self.last.owner;
        let mut make = NewFile::new(mode, uid, gid);
        if flags & SIZED != 0 {
            make.size = r.varint("a size")?;
            make.blocks = r.varint("a count of blocks")?;
            make.rdev = r.varint("a device")?;
        }
        if flags & TIMED != 0 {
            let which = r.u8("which times")?;
            for (bit, time) in [1, 2, 4, 8].into_iter().zip(&mut make.times) {
                if which & bit != 0 {
                    let distance = unzigzag(r.varint("a time")?);
                    self.last.time = self.last.time.wrapping_add(distance);
                    *time = Some(self.last.time);
                }
            }
        }
        if flags & CONTENT != 0 {
            make.content = Wire::take(r)?;
        }
        if flags & XATTRS != 0 {
            for _ in 0..r.count(2, "a count of attributes")? {
                let name = r.bytes("an attribute's name")?.to_vec();
                let value = r.bytes("an attribute's value")?.to_vec();
                make.xattrs.push((name, value));
            }
        }
        Ok(Item::Entry(name, make, flags & REFERRED != 0))
    }
}

impl Iterator for Items<'_> {
    type Item = std::result::Result<Item, DecodeError>;

    fn next(&mut self) -> Option<Self::Item> {
        if self.reader.remaining() == 0 {
            return None;
        }
        let item = self.item();
        if item.is_err() {
            self.reader.take_rest();
        }
        Some(item)
    }
}

/// Returns the path of an entry of a directory; an error if it is too long.
pub fn path_in(directory: &NamePath, name: &Name) -> std::result::Result<NamePath, FileError> {
    let path = directory.join(name);
    if path.as_bytes().len() > PATH_BYTES_MAX {
        // Parsing gives the error with the length.
        NamePath::parse(path.as_bytes())?;
    }
    Ok(path)
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn name(text: &str) -> Name {
        Name::new(text.as_bytes()).unwrap()
    }

    fn makes() -> impl Strategy<Value = NewFile> {
        let content = prop_oneof![
            Just(Content::None),
            Just(Content::Inline(b"abc".to_vec())),
            Just(Content::Symlink(b"x".to_vec())),
        ];
        let owner = (0_u32..3, 0_u32..2).prop_map(|(n, o)| (0o10_0644 | n << 14, o));
        let sizes = prop::option::of(any::<[u64; 3]>());
        (
            owner,
            sizes,
            any::<[Option<i64>; 4]>(),
            content,
            any::<bool>(),
        )
            .prop_map(|((mode, uid), sizes, times, content, tagged)| {
                let [size, blocks, rdev] = sizes.unwrap_or_default();
                NewFile {
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
                    ..NewFile::new(mode, uid, 7)
                }
            })
    }

    fn items() -> impl Strategy<Value = Vec<Item>> {
        let path = || NamePath::parse(b"/a/b").unwrap();
        let item = prop_oneof![
            Just(Item::ExistingDirectory(path())),
            any::<u64>().prop_map(Item::NewDirectory),
            ("[a-z]{1,9}", makes(), any::<bool>()).prop_map(|(n, make, referred)| Item::Entry(
                name(&n),
                make,
                referred
            )),
        ];
        prop::collection::vec(item, 1..12)
    }

    proptest! {
        #[test]
        fn subtrees_come_back(mut items in items(), end in any::<prop::sample::Index>()) {
            let first = Item::ExistingDirectory(NamePath::parse(b"/r").unwrap());
            items.insert(0, first);
            items.insert(1, Item::Entry(name("x"), NewFile::new(0o4_0755, 1, 1), false));
            let change = Change::Unlink(NamePath::parse(b"/z").unwrap());
            let mut builder = SubtreeBuilder::default();
            builder.change(&change);
            for item in &items {
                match item {
                    Item::ExistingDirectory(path) => builder.in_existing_directory(path),
                    Item::NewDirectory(number) => builder.in_new_directory(*number),
                    Item::Entry(name, make, referred) => drop(builder.entry(name, make, *referred)),
                    Item::Change(_) => {}
                }
            }
            items.push(Item::Change(change));
            let subtree = builder.finish().unwrap();
            prop_assert_eq!(subtree.path(), &NamePath::parse(b"/r/x").unwrap());
            let back: std::result::Result<Vec<_>, _> = subtree.items().collect();
            prop_assert_eq!(back.unwrap(), items.clone());
            // A truncated subtree must not panic, and its items must be a prefix of the original ones.
            let bytes = subtree.as_bytes();
            let cut = bytes.get(..end.index(bytes.len())).unwrap().to_vec();
            let cut = Subtree::new(subtree.path().clone(), cut);
            let part: Vec<_> = cut.items().map_while(std::result::Result::ok).collect();
            prop_assert_eq!(&part[..], items.get(..part.len()).unwrap());
        }

        #[test]
        fn nothing_that_is_damaged_panics(bytes in prop::collection::vec(any::<u8>(), 0..80)) {
            let subtree = Subtree::new(NamePath::root(), bytes);
            let _ = subtree.items().count();
        }
    }

    #[test]
    fn directories_are_numbered_as_they_come_and_nothing_is_refused() {
        let mut builder = SubtreeBuilder::default();
        builder.in_existing_directory(&NamePath::root());
        let make = |mode| NewFile::new(mode, 1, 1);
        assert_eq!(builder.entry(&name("a"), &make(0o4_0755), false), Some(0));
        assert_eq!(builder.entry(&name("b"), &make(0o10_0644), false), None);
        assert_eq!(builder.entry(&name("c"), &make(0o4_0755), false), Some(1));
        assert_eq!(builder.entries(), 3);
        assert!(SubtreeBuilder::default().finish().is_err());
    }
}
