//! Folders of other users.
//!
//! Who opens a database first owns its store: that process reads and writes files in the folder by its own rights, and answers other
//! processes. In a folder that belongs to somebody else, and that others may write in, these could have it do to files what
//! they may not do themselves (symbolic links in the place of files, say). So it is opened only if that is asked for.

use esker_model::{Error, Result};
use std::os::unix::fs::MetadataExt as _;
use std::path::Path;

/// The environment's variable that names such folders, separated by `:`; `*` stands for all.
pub const SAFE_FOLDERS: &str = "ESKER_SAFE_FOLDERS";

/// Bits of a mode by which a folder's group or anybody may write in it.
const WRITABLE: u32 = 0o022;

/// Refuses to own a folder that belongs to another user and that others may write in.
pub(crate) fn check(folder: &Path) -> Result<()> {
    let Ok(meta) = std::fs::metadata(folder) else {
        // What is not there belongs to nobody else, and what cannot be looked at is told by whoever opens it.
        return Ok(());
    };
    let own = rustix::process::geteuid().as_raw();
    let (owner, mode) = (meta.uid(), meta.mode() & 0o7777);
    if owner == own || owner == 0 || mode & WRITABLE == 0 || is_listed(folder) {
        return Ok(());
    }
    let shown = std::path::absolute(folder).unwrap_or_else(|_| folder.to_path_buf());
    Err(Error::Target(format!(
        "`{}` belongs to user {owner}, and others may write in it (mode {mode:04o}): whoever may write there could have this process, which \
         runs as user {own}, read and write other files. Have its owner take that away (chmod go-w), or open it after its owner has; \
         if you trust everybody who may write there: {SAFE_FOLDERS}={}",
        folder.display(),
        shown.display()
    )))
}

/// Whether the environment names the folder as one to trust.
fn is_listed(folder: &Path) -> bool {
    let Some(listed) = std::env::var_os(SAFE_FOLDERS) else {
        return false;
    };
    let real = |path: &Path| std::fs::canonicalize(path).ok();
    let folder = real(folder);
    std::env::split_paths(&listed)
        .any(|path| path == Path::new("*") || folder.is_some() && real(&path) == folder)
}
