//! Access to rows of table `names`, from the store or an overlay.

use esker_model::namespace::record::{
    Dentry, DentryInode, LocationRecord, dentry_key, location_key,
};
use esker_model::namespace::{Content, Errno, Inode, Kind, Name, display, hash_of, root};
use esker_model::{Error, Result, Version, VertexId};
use esker_store::{Read, Table};

/// Rows of table `names` by key.
pub(crate) trait NameRows {
    /// Calls `sink` with the value; returns whether there is one.
    fn row(&self, key: &[u8], sink: &mut dyn FnMut(&[u8])) -> Result<bool>;

    /// Returns the error for rows that contradict each other. Rows of several engines may belong to different states: then
    /// the operation runs again.
    fn torn(&self, error: Error) -> Error {
        error
    }
}

/// Committed rows of a store or snapshot.
pub(crate) struct CommittedRows<'r, R: ?Sized>(pub(crate) &'r R);

impl<R: Read + ?Sized> NameRows for CommittedRows<'_, R> {
    fn row(&self, key: &[u8], sink: &mut dyn FnMut(&[u8])) -> Result<bool> {
        self.0.get_with(Table::Names, key, sink)
    }
}

/// A dentry, and the variable parts of its key.
#[derive(Debug, Clone)]
pub(crate) struct Found {
    pub(crate) hash: u64,
    pub(crate) n: u8,
    pub(crate) dentry: Dentry,
}

pub(crate) fn corrupt(e: esker_model::codec::DecodeError) -> Error {
    Error::corrupt("a row of table `names`", e)
}

/// Looks up a name; returns its entry, or the hash and number that a new entry would get.
pub(crate) fn find(
    rows: &(impl NameRows + ?Sized),
    directory: VertexId,
    name: &Name,
) -> Result<Result<Found, (u64, u8)>> {
    find_hashed(rows, directory, name, hash_of(name))
}

/// Looks up a name whose hash is known.
pub(crate) fn find_hashed(
    rows: &(impl NameRows + ?Sized),
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

/// Returns the location record of an inode, if there is one.
pub(crate) fn location_record(
    rows: &(impl NameRows + ?Sized),
    id: VertexId,
) -> Result<Option<LocationRecord>> {
    let mut place = None;
    rows.row(&location_key(id), &mut |row| {
        place = Some(LocationRecord::decode(id, row).map_err(corrupt));
    })?;
    place.transpose()
}

/// Returns the inode of an entry.
pub(crate) fn inode(rows: &(impl NameRows + ?Sized), dentry: Dentry) -> Result<Inode> {
    match dentry.inode {
        DentryInode::Inline(inode) => Ok(inode),
        DentryInode::Linked(_) => {
            let place = location_record(rows, dentry.id)?;
            place.and_then(|p| p.inode).ok_or_else(|| {
                rows.torn(Error::Store {
                    engine: "namespace",
                    message: format!(
                        "file `{}` has several names, but no row says what it is; run `esker check`",
                        dentry.name
                    ),
                })
            })
        }
    }
}

/// Returns the kind of file of an entry.
pub(crate) fn kind(dentry: &Dentry) -> Kind {
    match &dentry.inode {
        DentryInode::Inline(inode) => inode.kind(),
        DentryInode::Linked(kind) => *kind,
    }
}

/// Key of the root directory's row: an entry in no directory.
pub(crate) fn root_key() -> [u8; 26] {
    dentry_key(VertexId::default(), 0, 0)
}

/// Returns the inode of the root directory; the default one if it was never changed.
pub(crate) fn root_inode(rows: &(impl NameRows + ?Sized)) -> Result<Inode> {
    let mut found = None;
    rows.row(&root_key(), &mut |row| {
        found = Some(Dentry::decode(row).map_err(corrupt));
    })?;
    match found.transpose()? {
        Some(dentry) => inode(rows, dentry),
        None => Ok(unchanged_root()),
    }
}

/// Returns the inode of a root directory that was never changed.
pub(super) fn unchanged_root() -> Inode {
    Inode {
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
    }
}

/// Name in the root's row, since names cannot be empty.
pub(crate) fn root_name() -> Result<Name> {
    Ok(Name::new(b"root")?)
}
