//! Permissions of a database's folders.
//!
//! ```text
//!                    new      --group  in a folder that a group may write (chmod 2770)
//!  lab.esker/        0700     0750     as created
//!    owner/          0700     0750     0700
//!    store/, archive/, rdf/ …
//!                    0700     0700     0770
//! ```
//!
//! Only the process that has the database open reads the stored files: direct access to `store/` would bypass the
//! permissions of the namespace. Other processes send requests to that process through the socket in `owner/`. Users who
//! may write to the folder itself can replace anything in it, so the folders inside are open to them as well.
//!
//! Existing folders keep their mode; `esker doctor` reports those that are too open.

use std::fs::{DirBuilder, File, Permissions};
use std::io;
use std::os::unix::fs::{DirBuilderExt as _, MetadataExt as _, PermissionsExt as _};
use std::path::Path;

/// Mode of a folder that only its owner may enter.
pub(crate) const PRIVATE: u32 = 0o700;
/// Mode of a folder that members of its group may read.
pub(crate) const FOR_GROUP: u32 = 0o750;
const WRITTEN_BY_GROUP: u32 = 0o770;
const GROUP_WRITES: u32 = 0o020;
/// Mode of a file without secrets, set explicitly so that it does not depend on the umask.
const READABLE: u32 = 0o644;

/// Creates a folder that only its owner may enter, whatever the umask is.
pub fn create_private(path: &Path) -> io::Result<()> {
    DirBuilder::new().mode(PRIVATE).create(path)
}

/// Creates a folder that only its owner may enter, and its missing parents; the folder may exist.
pub fn create_private_all(path: &Path) -> io::Result<()> {
    DirBuilder::new().recursive(true).mode(PRIVATE).create(path)
}

/// Creates a folder of the given mode, whatever the umask is. Keeps the set-group-id bit inherited from the parent folder.
pub(crate) fn create(path: &Path, mode: u32) -> io::Result<()> {
    create_private(path)?;
    if mode == PRIVATE {
        return Ok(());
    }
    // Set through the descriptor, because others may write to the parent folder.
    let folder = File::from(rustix::fs::open(
        path,
        rustix::fs::OFlags::DIRECTORY | rustix::fs::OFlags::NOFOLLOW | rustix::fs::OFlags::CLOEXEC,
        rustix::fs::Mode::empty(),
    )?);
    let inherited = folder.metadata()?.mode() & 0o2000;
    folder.set_permissions(Permissions::from_mode(inherited | mode))
}

/// Creates a folder inside a database's folder; the folder may exist.
pub(crate) fn create_inside(path: &Path) -> io::Result<()> {
    match create(path, inside(path)) {
        Err(e) if e.kind() == io::ErrorKind::AlreadyExists => Ok(()),
        made => made,
    }
}

/// Sets the mode of a folder inside a database's folder that a store engine has just created.
pub(crate) fn as_inside(path: &Path) -> io::Result<()> {
    match inside(path) {
        PRIVATE => Ok(()),
        mode => std::fs::set_permissions(path, Permissions::from_mode(of(path)? & 0o2000 | mode)),
    }
}

/// Mode of a folder inside a database's folder.
fn inside(path: &Path) -> u32 {
    let around = path.parent().map_or(0, |above| of(above).unwrap_or(0));
    if around & GROUP_WRITES == 0 {
        PRIVATE
    } else {
        WRITTEN_BY_GROUP
    }
}

/// Mode of a copy of a folder: that of the original, without the bits for all other users.
pub(crate) fn of_copy(folder: &Path) -> u32 {
    PRIVATE | of(folder).unwrap_or(0) & WRITTEN_BY_GROUP
}

/// Mode bits of a file or folder.
pub(crate) fn of(path: &Path) -> io::Result<u32> {
    Ok(std::fs::metadata(path)?.mode() & 0o7777)
}

/// Makes a file readable for all users who reach it, whatever the umask is.
pub(crate) fn readable(file: &File) -> io::Result<()> {
    file.set_permissions(Permissions::from_mode(READABLE))
}
