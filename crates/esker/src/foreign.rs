//! Protection against folders that belong to other users.
//!
//! The first process that opens a database owns its store: it reads and writes files in the folder with its own rights
//! and serves other processes. In a folder that other users can write to, they could make it do to files what they may
//! not do themselves (for example by replacing files with symbolic links). Such a folder is opened only on request.

use esker_model::{Error, Result};
use std::os::unix::fs::MetadataExt as _;
use std::path::Path;

/// Environment variable that lists trusted folders, separated by `:`; `*` means all.
pub const SAFE_FOLDERS: &str = "ESKER_SAFE_FOLDERS";

/// Mode bits that let a folder's group or all users write to it.
const WRITABLE: u32 = 0o022;

/// Refuses to own a folder that belongs to another user and that others may write to.
pub(crate) fn check(folder: &Path) -> Result<()> {
    let Ok(meta) = std::fs::metadata(folder) else {
        // An absent folder belongs to nobody else, and opening an unreadable one reports its own error.
        return Ok(());
    };
    let own = rustix::process::geteuid().as_raw();
    let (owner, mode) = (meta.uid(), meta.mode() & 0o7777);
    if owner == own || owner == 0 || mode & WRITABLE == 0 || is_listed(folder) {
        return Ok(());
    }
    let shown = std::path::absolute(folder).unwrap_or_else(|_| folder.to_path_buf());
    Err(Error::Target(format!(
        "`{}` belongs to user {owner}, and others may write in it (mode {mode:04o}): anyone who \
         can write there could make this process, which runs as user {own}, read and write other \
         files. Have its owner remove that permission (chmod go-w), or open it after its owner has \
         opened it; if you trust everyone who can write there: {SAFE_FOLDERS}={}",
        folder.display(),
        shown.display()
    )))
}

/// Whether the environment lists the folder as trusted.
fn is_listed(folder: &Path) -> bool {
    let Some(listed) = std::env::var_os(SAFE_FOLDERS) else {
        return false;
    };
    let real = |path: &Path| std::fs::canonicalize(path).ok();
    let folder = real(folder);
    std::env::split_paths(&listed)
        .any(|path| path == Path::new("*") || folder.is_some() && real(&path) == folder)
}
