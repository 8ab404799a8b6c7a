//! Calls on open files.

use super::error::{guard, guard_done};
use super::marshal::{self, Target, data, flags, output_buffer, path, reference};
use crate::File;
use std::ffi::{c_char, c_int, c_void};
use std::ptr;

#[unsafe(no_mangle)]
pub unsafe extern "C" fn esker_fs_open_file(
    fs: *const Target,
    name: *const c_char,
    how: c_int,
    mode: libc::mode_t,
) -> *mut File {
    guard(ptr::null_mut(), || {
        // SAFETY: the header requires valid arguments.
        let (fs, path) = unsafe { (reference(fs, "a target")?, path(name)?) };
        let file = fs.open_file(&path, flags(how), mode)?;
        Ok(Box::into_raw(Box::new(file)))
    })
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn esker_fs_close_file(file: *mut File) -> c_int {
    if file.is_null() {
        return 0;
    }
    guard_done(|| {
        // SAFETY: the pointer comes from `esker_fs_open_file`, and nobody uses it any more.
        let file = unsafe { Box::from_raw(file) };
        file.close()
    })
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn esker_fs_read(file: *const File, to: *mut c_void, size: usize) -> isize {
    guard(-1, || {
        // SAFETY: the header requires valid arguments.
        let (file, to) = unsafe { (reference(file, "a file")?, output_buffer(to, size)?) };
        Ok(file.read(to)?.cast_signed())
    })
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn esker_fs_write(
    file: *const File,
    from: *const c_void,
    size: usize,
) -> isize {
    guard(-1, || {
        // SAFETY: the header requires valid arguments.
        let (file, from) = unsafe { (reference(file, "a file")?, data(from, size)?) };
        Ok(file.write(from)?.cast_signed())
    })
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn esker_fs_pread(
    file: *const File,
    to: *mut c_void,
    size: usize,
    offset: u64,
) -> isize {
    guard(-1, || {
        // SAFETY: the header requires valid arguments.
        let (file, to) = unsafe { (reference(file, "a file")?, output_buffer(to, size)?) };
        Ok(file.read_at(to, offset)?.cast_signed())
    })
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn esker_fs_pwrite(
    file: *const File,
    from: *const c_void,
    size: usize,
    offset: u64,
) -> isize {
    guard(-1, || {
        // SAFETY: the header requires valid arguments.
        let (file, from) = unsafe { (reference(file, "a file")?, data(from, size)?) };
        Ok(file.write_at(from, offset)?.cast_signed())
    })
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn esker_fs_lseek(file: *const File, offset: i64, whence: c_int) -> i64 {
    guard(-1, || {
        // SAFETY: the header requires valid arguments.
        let file = unsafe { reference(file, "a file") }?;
        Ok(file.seek(offset, whence)?.cast_signed())
    })
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn esker_fs_ftruncate(file: *const File, size: u64) -> c_int {
    // SAFETY: the header requires valid arguments.
    guard_done(|| unsafe { reference(file, "a file") }?.truncate(size))
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn esker_fs_fstat(file: *const File, to: *mut libc::stat) -> c_int {
    guard_done(|| {
        // SAFETY: the header requires valid arguments.
        let (file, _) = unsafe { (reference(file, "a file")?, reference(to, "attributes")?) };
        let stat = marshal::stat(&file.stat()?);
        // SAFETY: the pointer is not null, and the caller guarantees space for the attributes.
        unsafe { to.write(stat) };
        Ok(())
    })
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn esker_fs_fsync(file: *const File) -> c_int {
    // SAFETY: the header requires valid arguments.
    guard_done(|| unsafe { reference(file, "a file") }?.sync())
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn esker_fs_flush_file(file: *const File) -> c_int {
    // SAFETY: the header requires valid arguments.
    guard_done(|| unsafe { reference(file, "a file") }?.flush())
}
