//! Socket addresses for paths that are too long for one.

use std::fs::File;
use std::io::{Error, ErrorKind, Result};
use std::os::fd::AsRawFd;
use std::path::{Path, PathBuf};

/// Longest path that fits into a socket address on any Unix (Linux: 107, BSD and macOS: 103).
const ADDRESS_BYTES_MAX: usize = 100;

/// The path of a socket, and an address for it that fits.
///
/// A path may have 4,096 bytes, the address of a Unix socket 108. A longer path is addressed through an open descriptor
/// of its folder: `/proc/self/fd/7/0000000000000001.sock`.
pub(crate) struct SocketPath {
    path: PathBuf,
    address: PathBuf,
    _folder: Option<File>,
}

impl SocketPath {
    pub(crate) fn new(path: &Path) -> Result<Self> {
        if path.as_os_str().len() <= ADDRESS_BYTES_MAX {
            return Ok(Self {
                path: path.to_path_buf(),
                address: path.to_path_buf(),
                _folder: None,
            });
        }
        let (Some(folder), Some(name)) = (path.parent(), path.file_name()) else {
            return Err(Error::new(
                ErrorKind::InvalidInput,
                "a socket needs a folder and a name",
            ));
        };
        let folder = File::open(folder)?;
        let address = PathBuf::from(format!("/proc/self/fd/{}", folder.as_raw_fd())).join(name);
        Ok(Self {
            path: path.to_path_buf(),
            address,
            _folder: Some(folder),
        })
    }

    /// Path of the socket in the file system.
    pub(crate) fn path(&self) -> &Path {
        &self.path
    }

    /// Address for `bind` or `connect`.
    pub(crate) fn address(&self) -> &Path {
        &self.address
    }
}
