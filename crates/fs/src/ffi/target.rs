//! Calls that open, flush and close targets.

use super::error::{guard, guard_done};
use super::marshal::{Target, bytes, folders, reference};
use crate::{Failure, Fs, Options, Result, WriteBehind};
use std::ffi::{c_char, c_int, c_uint};
use std::ptr;
use std::time::Duration;

/// `esker_fs_options` of the header.
#[repr(C)]
#[derive(Debug, Clone, Copy)]
pub struct COptions {
    size: usize,
    data: *const c_char,
    inline_bytes: usize,
    durable: c_int,
    write_behind: c_int,
    write_behind_most: c_uint,
    write_behind_millis: c_uint,
}

/// Reads the options; null gives the defaults. The size must be that of this library's header.
unsafe fn options(given: *const COptions) -> Result<Options> {
    let mut options = Options::default();
    if given.is_null() {
        return Ok(options);
    }
    // SAFETY: the pointer is not null, and in every version of the header the structure begins with its size.
    let size = unsafe { (*given).size };
    if size != size_of::<COptions>() {
        return Err(Failure::new(
            libc::EINVAL,
            format_args!(
                "options of {size} bytes, where {} were expected: begin them as ESKER_FS_OPTIONS_INIT, and compile with the \
                 header of this library",
                size_of::<COptions>()
            ),
        ));
    }
    // SAFETY: the structure has the expected size.
    let given = unsafe { *given };
    if !given.data.is_null() {
        // SAFETY: the header requires a C string.
        options.data = folders(unsafe { bytes(given.data, "data folders") }?);
    }
    if given.inline_bytes > 0 {
        options.inline_bytes = given.inline_bytes;
    }
    options.durable = given.durable != 0;
    if given.write_behind != 0 {
        let mut behind = WriteBehind::default();
        if given.write_behind_most > 0 {
            behind.most = given.write_behind_most as usize;
        }
        if given.write_behind_millis > 0 {
            behind.age = Duration::from_millis(given.write_behind_millis.into());
        }
        options.write_behind = Some(behind);
    }
    Ok(options)
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn esker_fs_open(
    target: *const c_char,
    given: *const COptions,
) -> *mut Target {
    guard(ptr::null_mut(), || {
        // SAFETY: the header requires a C string.
        let target = unsafe { bytes(target, "a target") }?;
        let target = std::str::from_utf8(target)
            .map_err(|_| Failure::new(libc::EINVAL, "a target that is not UTF-8"))?;
        // SAFETY: the header requires valid arguments.
        let options = unsafe { options(given) }?;
        Ok(Box::into_raw(Box::new(Fs::open(target, &options)?)))
    })
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn esker_fs_close(fs: *mut Target) -> c_int {
    if fs.is_null() {
        return 0;
    }
    guard_done(|| {
        // SAFETY: the pointer comes from `esker_fs_open`, and nobody uses it any more.
        let fs = unsafe { Box::from_raw(fs) };
        fs.close()
    })
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn esker_fs_flush(fs: *const Target) -> c_int {
    // SAFETY: the header requires valid arguments.
    guard_done(|| unsafe { reference(fs, "a target") }?.flush())
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn esker_fs_sync(fs: *const Target) -> c_int {
    // SAFETY: the header requires valid arguments.
    guard_done(|| unsafe { reference(fs, "a target") }?.sync())
}
