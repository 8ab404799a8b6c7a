//! Opening files: the result is a descriptor of the backing file, or of a copy in memory of small read-only content.

use crate::descriptors::{self, Descriptor};
use crate::prefix::{TargetPath, resolve};
use crate::real::real;
use crate::{errno, names};
use esker_fs::{Failure, Flags, Result};
use esker_model::namespace::Kind;
use std::ffi::{CStr, c_char, c_int, c_uint};
use std::os::fd::{AsRawFd, IntoRawFd, OwnedFd};
use std::sync::Arc;

fn flags_of(flags: c_int) -> Flags {
    let access = flags & libc::O_ACCMODE;
    let has = |flag| flags & flag != 0;
    Flags {
        read: access == libc::O_RDONLY || access == libc::O_RDWR,
        write: access == libc::O_WRONLY || access == libc::O_RDWR,
        create: has(libc::O_CREAT),
        exclusive: has(libc::O_EXCL),
        truncate: has(libc::O_TRUNC),
        append: has(libc::O_APPEND),
        no_follow: has(libc::O_NOFOLLOW),
    }
}

fn open_target(target_path: &TargetPath, flags: c_int, mode: c_uint) -> Result<c_int> {
    let fs = target_path.fs()?;
    let creates = flags & libc::O_CREAT != 0;
    if !creates || flags & libc::O_DIRECTORY != 0 {
        let follow = flags & libc::O_NOFOLLOW == 0;
        let stat = fs.stat(&target_path.path, follow);
        if stat.is_ok_and(|s| Kind::of_mode(s.mode) == Some(Kind::Directory)) {
            return open_directory(target_path, flags);
        }
        if flags & libc::O_DIRECTORY != 0 {
            return Err(Failure::new(libc::ENOTDIR, &target_path.path));
        }
    }
    let mode = mode & !names::umask_now() & 0o7777;
    let file = fs.open_file(&target_path.path, flags_of(flags), mode)?;
    let descriptor =
        file.descriptor(flags & (libc::O_APPEND | libc::O_CLOEXEC | libc::O_NONBLOCK))?;
    Ok(register(
        descriptor,
        Descriptor {
            target_path: target_path.clone(),
            file: Some(Arc::new(file)),
        },
    ))
}

fn register(descriptor: OwnedFd, of: Descriptor) -> c_int {
    descriptors::add(descriptor.as_raw_fd(), of);
    descriptor.into_raw_fd()
}

/// Opens a directory. The descriptor is only a placeholder: this library alone reads the directory.
fn open_directory(target_path: &TargetPath, flags: c_int) -> Result<c_int> {
    if flags & libc::O_ACCMODE != libc::O_RDONLY {
        return Err(Failure::new(libc::EISDIR, &target_path.path));
    }
    target_path.fs()?.access(&target_path.path, 4)?;
    let how = libc::O_RDONLY | flags & libc::O_CLOEXEC;
    let null = c"/dev/null".as_ptr();
    let descriptor = real!(open(null => *const c_char, how => c_int, 0 => c_uint) -> c_int);
    if descriptor < 0 {
        return Err(std::io::Error::last_os_error().into());
    }
    descriptors::add(
        descriptor,
        Descriptor {
            target_path: target_path.clone(),
            file: None,
        },
    );
    Ok(descriptor)
}

/// Opens a path and returns a descriptor, if it is below a prefix.
unsafe fn opened(
    directory: c_int,
    path: *const c_char,
    flags: c_int,
    mode: c_uint,
) -> Option<c_int> {
    let target_path = unsafe { resolve(directory, path) }?;
    Some(errno::answer(-1, || open_target(&target_path, flags, mode)))
}

/// Defines `open` and its variants: the mode is passed as the last of three or four numbers, even where C declares
/// `...`.
macro_rules! opens {
    ($($name:ident),*) => {$(
        #[unsafe(no_mangle)]
        pub unsafe extern "C" fn $name(path: *const c_char, flags: c_int, mode: c_uint) -> c_int {
            unsafe { opened(libc::AT_FDCWD, path, flags, mode) }.unwrap_or_else(|| {
                real!($name(path => *const c_char, flags => c_int, mode => c_uint) -> c_int)
            })
        }
    )*};
}
opens!(open, open64);

macro_rules! opens_at {
    ($($name:ident),*) => {$(
        #[unsafe(no_mangle)]
        pub unsafe extern "C" fn $name(at: c_int, path: *const c_char, flags: c_int, mode: c_uint) -> c_int {
            unsafe { opened(at, path, flags, mode) }.unwrap_or_else(|| {
                real!($name(at => c_int, path => *const c_char, flags => c_int, mode => c_uint) -> c_int)
            })
        }
    )*};
}
opens_at!(openat, openat64);

/// Defines the variants for programs compiled with `_FORTIFY_SOURCE`.
macro_rules! opens_fortified {
    ($($name:ident),*) => {$(
        #[unsafe(no_mangle)]
        pub unsafe extern "C" fn $name(path: *const c_char, flags: c_int) -> c_int {
            unsafe { opened(libc::AT_FDCWD, path, flags, 0) }
                .unwrap_or_else(|| real!($name(path => *const c_char, flags => c_int) -> c_int))
        }
    )*};
}
opens_fortified!(__open_2, __open64_2);

macro_rules! opens_at_fortified {
    ($($name:ident),*) => {$(
        #[unsafe(no_mangle)]
        pub unsafe extern "C" fn $name(at: c_int, path: *const c_char, flags: c_int) -> c_int {
            unsafe { opened(at, path, flags, 0) }.unwrap_or_else(|| {
                real!($name(at => c_int, path => *const c_char, flags => c_int) -> c_int)
            })
        }
    )*};
}
opens_at_fortified!(__openat_2, __openat64_2);

macro_rules! creates {
    ($($name:ident),*) => {$(
        #[unsafe(no_mangle)]
        pub unsafe extern "C" fn $name(path: *const c_char, mode: c_uint) -> c_int {
            let flags = libc::O_CREAT | libc::O_WRONLY | libc::O_TRUNC;
            unsafe { opened(libc::AT_FDCWD, path, flags, mode) }
                .unwrap_or_else(|| real!($name(path => *const c_char, mode => c_uint) -> c_int))
        }
    )*};
}
creates!(creat, creat64);

/// Converts the mode of `fopen` to flags of `open`.
fn flags_of_stream(mode: &[u8]) -> Option<c_int> {
    let has = |letter| mode.contains(&letter);
    let access = if has(b'+') {
        libc::O_RDWR
    } else {
        libc::O_WRONLY
    };
    let mut flags = match mode.first()? {
        b'r' if has(b'+') => libc::O_RDWR,
        b'r' => libc::O_RDONLY,
        b'w' => access | libc::O_CREAT | libc::O_TRUNC,
        b'a' => access | libc::O_CREAT | libc::O_APPEND,
        _ => return None,
    };
    if has(b'x') {
        flags |= libc::O_EXCL;
    }
    if has(b'e') {
        flags |= libc::O_CLOEXEC;
    }
    Some(flags)
}

/// Opens a stream. The C library opens streams by internal calls, so they are made from a descriptor here, and closed
/// through [`fclose`].
unsafe fn stream(path: *const c_char, mode: *const c_char) -> Option<*mut libc::FILE> {
    let target_path = unsafe { resolve(libc::AT_FDCWD, path) }?;
    let flags = flags_of_stream(unsafe { CStr::from_ptr(mode) }.to_bytes());
    let Some(flags) = flags else {
        errno::set(libc::EINVAL);
        return Some(std::ptr::null_mut());
    };
    let descriptor = errno::answer(-1, || open_target(&target_path, flags, 0o666));
    if descriptor < 0 {
        return Some(std::ptr::null_mut());
    }
    Some(unsafe { libc::fdopen(descriptor, mode) })
}

macro_rules! streams {
    ($($name:ident),*) => {$(
        #[unsafe(no_mangle)]
        pub unsafe extern "C" fn $name(path: *const c_char, mode: *const c_char) -> *mut libc::FILE {
            unsafe { stream(path, mode) }.unwrap_or_else(|| {
                real!($name(path => *const c_char, mode => *const c_char) -> *mut libc::FILE)
            })
        }
    )*};
}
streams!(fopen, fopen64);

/// Closes a stream. The C library closes a stream's descriptor by an internal call, too.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn fclose(stream: *mut libc::FILE) -> c_int {
    let descriptor = if stream.is_null() {
        -1
    } else {
        unsafe { libc::fileno(stream) }
    };
    let of = descriptors::take(descriptor);
    let closed = real!(fclose(stream => *mut libc::FILE) -> c_int);
    let told = of.map_or(0, |of| errno::done(|| descriptors::finish(of)));
    if closed != 0 { closed } else { told }
}
