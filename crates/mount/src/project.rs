//! Project ids of files of other file systems, by which XFS and ext4 count quotas.
#![allow(unsafe_code, reason = "neither nix nor rustix reads project ids")]

use crate::inode_flags::GET_ATTRIBUTES;
use std::io;
use std::os::fd::{AsFd, AsRawFd as _};

/// Position of the project id in the kernel's `struct fsxattr`, which has seven words of 32 bits.
const PROJECT_WORD: usize = 3;

/// Returns the project id of an open file; 0 if it belongs to no project.
///
/// # Errors
/// `ENOTTY` or `EOPNOTSUPP` if the file system has no project ids.
pub fn project_id(file: impl AsFd) -> io::Result<u32> {
    let mut attributes = [0_u32; 7];
    let descriptor = file.as_fd().as_raw_fd();
    // SAFETY: the command writes `struct fsxattr`, which has 28 bytes, as the array has.
    let done = unsafe { libc::ioctl(descriptor, GET_ATTRIBUTES.into(), attributes.as_mut_ptr()) };
    if done != 0 {
        return Err(io::Error::last_os_error());
    }
    Ok(attributes[PROJECT_WORD])
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_new_file_belongs_to_no_project() {
        let file = tempfile::tempfile().unwrap();
        // Other file systems have none.
        if let Ok(project) = project_id(&file) {
            assert_eq!(project, 0);
        }
        let (reader, _writer) = io::pipe().unwrap();
        assert!(project_id(reader).is_err());
    }
}
