//! Who besides its owner reaches the folders of a database.
//!
//! ```text
//!                     new        --group    in a folder that a group may write (chmod 2770)
//!  lab.esker/         0700       0750       as it was made
//!    owner/           0700       0750       0700
//!    store/, archive/, rdf/ …
//!                     0700       0700       0770
//! ```
//!
//! What is stored is read by the process that has the database open and by nobody else: whoever could read `store/` would read past the permissions of
//! the namespace. Others ask that process, through the socket in `owner/`. Who may write into the folder itself can replace anything in it, so
//! there the folders inside are theirs, too.
//!
//! Folders that are there keep the mode that they have; `esker doctor` says which are too open.

use std::fs::{DirBuilder, File, Permissions};
use std::io;
use std::os::unix::fs::{DirBuilderExt as _, MetadataExt as _, PermissionsExt as _};
use std::path::Path;

/// The mode of a folder that its owner alone goes into.
pub(crate) const PRIVATE: u32 = 0o700;
/// The mode of a folder that the members of its group may look into.
pub(crate) const FOR_GROUP: u32 = 0o750;
const WRITTEN_BY_GROUP: u32 = 0o770;
const GROUP_WRITES: u32 = 0o020;
/// The mode of a file that says nothing secret: that others can read it must not depend on the umask.
const READABLE: u32 = 0o644;

/// Makes a folder that its owner alone goes into, whatever the umask is.
pub fn create_private(path: &Path) -> io::Result<()> {
    DirBuilder::new().mode(PRIVATE).create(path)
}

/// The same with the folders above it that are missing; it may be there.
pub fn create_private_all(path: &Path) -> io::Result<()> {
    DirBuilder::new().recursive(true).mode(PRIVATE).create(path)
}

/// Makes a folder of that mode, whatever the umask is. It keeps the set-group-id bit that the folder above gives it.
pub(crate) fn create(path: &Path, mode: u32) -> io::Result<()> {
    create_private(path)?;
    if mode == PRIVATE {
        return Ok(());
    }
    // By its descriptor: the folder above may be written by others.
    let folder = File::from(rustix::fs::open(
        path,
        rustix::fs::OFlags::DIRECTORY | rustix::fs::OFlags::NOFOLLOW | rustix::fs::OFlags::CLOEXEC,
        rustix::fs::Mode::empty(),
    )?);
    let inherited = folder.metadata()?.mode() & 0o2000;
    folder.set_permissions(Permissions::from_mode(inherited | mode))
}

/// Makes a folder inside a database's folder; it may be there.
pub(crate) fn create_inside(path: &Path) -> io::Result<()> {
    match create(path, inside(path)) {
        Err(e) if e.kind() == io::ErrorKind::AlreadyExists => Ok(()),
        made => made,
    }
}

/// Gives a folder inside a database's folder, which a store engine has just made for its owner, the mode of such a folder.
pub(crate) fn as_inside(path: &Path) -> io::Result<()> {
    match inside(path) {
        PRIVATE => Ok(()),
        mode => std::fs::set_permissions(path, Permissions::from_mode(of(path)? & 0o2000 | mode)),
    }
}

/// The mode of a folder inside a database's folder.
fn inside(path: &Path) -> u32 {
    let around = path.parent().map_or(0, |above| of(above).unwrap_or(0));
    if around & GROUP_WRITES == 0 {
        PRIVATE
    } else {
        WRITTEN_BY_GROUP
    }
}

/// The mode that a copy of a folder has: as that one, but nothing for all others.
pub(crate) fn of_copy(folder: &Path) -> u32 {
    PRIVATE | of(folder).unwrap_or(0) & WRITTEN_BY_GROUP
}

/// The mode bits of something.
pub(crate) fn of(path: &Path) -> io::Result<u32> {
    Ok(std::fs::metadata(path)?.mode() & 0o7777)
}

/// Lets all who reach a file read it, whatever the umask is.
pub(crate) fn readable(file: &File) -> io::Result<()> {
    file.set_permissions(Permissions::from_mode(READABLE))
}
