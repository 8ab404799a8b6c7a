//! Rows of table `names`, whoever is asked for them.

use crate::txn::Overlay;
use esker_model::namespace::record::{
    Dentry, DentryInode, Whereabouts, dentry_key, whereabouts_key,
};
use esker_model::namespace::{Content, Errno, Inode, Kind, Name, display, hash_of, root};
use esker_model::{Error, Result, Version, VertexId};
use esker_store::{Read, Table};

/// A row by its key.
pub(crate) trait Rows {
    /// Calls `sink` with the value; whether there is one.
    fn row(&self, key: &[u8], sink: &mut dyn FnMut(&[u8])) -> Result<bool>;
}

impl Rows for Overlay<'_> {
    fn row(&self, key: &[u8], sink: &mut dyn FnMut(&[u8])) -> Result<bool> {
        self.get_with(Table::Names, key, sink)
    }
}

/// What is committed.
pub(crate) struct Committed<'r, R: ?Sized>(pub(crate) &'r R);

impl<R: Read + ?Sized> Rows for Committed<'_, R> {
    fn row(&self, key: &[u8], sink: &mut dyn FnMut(&[u8])) -> Result<bool> {
        self.0.get_with(Table::Names, key, sink)
    }
}

/// A dentry, and the key where it lies.
#[derive(Debug, Clone)]
pub(crate) struct Found {
    pub(crate) hash: u64,
    pub(crate) n: u8,
    pub(crate) dentry: Dentry,
}

pub(crate) fn corrupt(e: esker_model::codec::DecodeError) -> Error {
    Error::corrupt("a row of table `names`", e)
}

/// The entry of that name, or where one would lie.
pub(crate) fn find(
    rows: &(impl Rows + ?Sized),
    directory: VertexId,
    name: &Name,
) -> Result<Result<Found, (u64, u8)>> {
    find_hashed(rows, directory, name, hash_of(name))
}

/// The same for a name whose hash is known.
pub(crate) fn find_hashed(
    rows: &(impl Rows + ?Sized),
    directory: VertexId,
    name: &Name,
    hash: u64,
) -> Result<Result<Found, (u64, u8)>> {
    for n in 0..=u8::MAX {
        let mut dentry = None;
        let there = rows.row(&dentry_key(directory, hash, n), &mut |row| {
            let same = Dentry::name_of(row).is_ok_and(|other| other != name.as_bytes());
            dentry = (!same).then(|| Dentry::decode(row).map_err(corrupt));
        })?;
        match dentry.transpose()? {
            Some(dentry) => return Ok(Ok(Found { hash, n, dentry })),
            None if there => {}
            None => return Ok(Err((hash, n))),
        }
    }
    Err(Errno::NoSpace
        .at(format!(
            "256 names of one directory have the hash of `{}`",
            display(name.as_bytes())
        ))
        .into())
}

/// Where an inode is, if there is a row that says so.
pub(crate) fn whereabouts(
    rows: &(impl Rows + ?Sized),
    id: VertexId,
) -> Result<Option<Whereabouts>> {
    let mut place = None;
    rows.row(&whereabouts_key(id), &mut |row| {
        place = Some(Whereabouts::decode(id, row).map_err(corrupt));
    })?;
    place.transpose()
}

/// The attributes of what an entry names.
pub(crate) fn inode(rows: &(impl Rows + ?Sized), dentry: Dentry) -> Result<Inode> {
    match dentry.inode {
        DentryInode::Here(inode) => Ok(inode),
        DentryInode::Elsewhere(_) => {
            let place = whereabouts(rows, dentry.id)?;
            place.and_then(|p| p.inode).ok_or_else(|| Error::Store {
                engine: "namespace",
                message: format!(
                    "file `{}` has several names, but no row says what it is; run `esker check`",
                    dentry.name
                ),
            })
        }
    }
}

/// The kind of what an entry names.
pub(crate) fn kind(dentry: &Dentry) -> Kind {
    match &dentry.inode {
        DentryInode::Here(inode) => inode.kind(),
        DentryInode::Elsewhere(kind) => *kind,
    }
}

/// The root directory's own row: an entry of nothing.
pub(crate) fn root_key() -> [u8; 26] {
    dentry_key(VertexId::default(), 0, 0)
}

/// The root directory; as everybody would have it where nobody has said anything.
pub(crate) fn root_inode(rows: &(impl Rows + ?Sized)) -> Result<Inode> {
    let mut found = None;
    rows.row(&root_key(), &mut |row| {
        found = Some(Dentry::decode(row).map_err(corrupt));
    })?;
    match found.transpose()? {
        Some(dentry) => inode(rows, dentry),
        None => Ok(Inode {
            id: root(),
            version: Version::ZERO,
            mode: Kind::Directory.bits() | 0o755,
            uid: 0,
            gid: 0,
            links: 2,
            size: 0,
            blocks: 0,
            rdev: 0,
            atime: 0,
            mtime: 0,
            ctime: 0,
            btime: 0,
            content: Content::None,
            xattrs: Vec::new(),
            tracked: false,
        }),
    }
}

/// The name that the root's row has: names cannot be empty.
pub(crate) fn root_name() -> Result<Name> {
    Ok(Name::new(b"root")?)
}
