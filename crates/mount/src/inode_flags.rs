//! Flags of files (`chattr`, `lsattr`) and project ids, which programs read by `ioctl`: no file has any.

use crate::files::Answer;
use fuser::Errno;

/// `FS_IOC_GETFLAGS`.
const GET_FLAGS: u32 = 0x8008_6601;
/// `FS_IOC_SETFLAGS`.
const SET_FLAGS: u32 = 0x4008_6602;
/// Number of the request `FS_IOC_FSGETXATTR`.
pub(crate) const GET_ATTRIBUTES: u32 = 0x801c_581f;
/// `FS_IOC_FSSETXATTR`.
const SET_ATTRIBUTES: u32 = 0x401c_5820;
/// Size of the kernel's `struct fsxattr`, in bytes.
const ATTRIBUTES_BYTES: usize = 28;

/// Answers an `ioctl` call; returns the bytes for the caller. Flags and project ids can be set to zero alone, as they
/// are: others are `EOPNOTSUPP`. Unknown commands are `ENOTTY`.
pub(crate) fn control(command: u32, argument: &[u8]) -> Answer<Vec<u8>> {
    match command {
        GET_FLAGS => Ok(vec![0; size_of::<u32>()]),
        GET_ATTRIBUTES => Ok(vec![0; ATTRIBUTES_BYTES]),
        SET_FLAGS | SET_ATTRIBUTES if argument.iter().all(|byte| *byte == 0) => Ok(Vec::new()),
        SET_FLAGS | SET_ATTRIBUTES => Err(Errno::EOPNOTSUPP),
        _ => Err(Errno::ENOTTY),
    }
}
