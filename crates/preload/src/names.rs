//! Names: made, removed, moved.

use crate::prefix::{Below, resolve};
use crate::real::real;
use crate::{errno, inside};
use esker_fs::{Failure, Result};
use std::ffi::{CStr, c_char, c_int, c_uint};
use std::sync::atomic::{AtomicU32, Ordering};

/// No umask is known yet.
const UNKNOWN: u32 = u32::MAX;
static UMASK: AtomicU32 = AtomicU32::new(UNKNOWN);

/// What the process takes off the modes of what it makes.
pub fn umask_now() -> u32 {
    let known = UMASK.load(Ordering::Relaxed);
    if known != UNKNOWN {
        return known;
    }
    let _inside = inside::enter();
    let status = std::fs::read_to_string("/proc/self/status").unwrap_or_default();
    let line = status.lines().find_map(|l| l.strip_prefix("Umask:"));
    let found = line.and_then(|l| u32::from_str_radix(l.trim(), 8).ok());
    let found = found.unwrap_or(0o022);
    UMASK.store(found, Ordering::Relaxed);
    found
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn umask(mask: libc::mode_t) -> libc::mode_t {
    UMASK.store(mask & 0o777, Ordering::Relaxed);
    real!(umask(mask => libc::mode_t) -> libc::mode_t)
}

/// A call about one path, if it is below a prefix.
unsafe fn below(
    at: c_int,
    path: *const c_char,
    call: impl FnOnce(&Below) -> Result<()>,
) -> Option<c_int> {
    let below = unsafe { resolve(at, path) }?;
    Some(errno::done(|| call(&below)))
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn mkdirat(at: c_int, path: *const c_char, mode: libc::mode_t) -> c_int {
    let made = |b: &Below| b.fs()?.mkdir(&b.path, mode & !umask_now());
    unsafe { below(at, path, made) }.unwrap_or_else(
        || real!(mkdirat(at => c_int, path => *const c_char, mode => libc::mode_t) -> c_int),
    )
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn mkdir(path: *const c_char, mode: libc::mode_t) -> c_int {
    unsafe { mkdirat(libc::AT_FDCWD, path, mode) }
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn unlinkat(at: c_int, path: *const c_char, flags: c_int) -> c_int {
    let removed = |b: &Below| {
        if flags & libc::AT_REMOVEDIR != 0 {
            b.fs()?.rmdir(&b.path)
        } else {
            b.fs()?.unlink(&b.path)
        }
    };
    unsafe { below(at, path, removed) }.unwrap_or_else(
        || real!(unlinkat(at => c_int, path => *const c_char, flags => c_int) -> c_int),
    )
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn unlink(path: *const c_char) -> c_int {
    unsafe { unlinkat(libc::AT_FDCWD, path, 0) }
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn rmdir(path: *const c_char) -> c_int {
    unsafe { unlinkat(libc::AT_FDCWD, path, libc::AT_REMOVEDIR) }
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn remove(path: *const c_char) -> c_int {
    let removed = |b: &Below| {
        let fs = b.fs()?;
        match fs.unlink(&b.path) {
            Err(e) if e.errno == libc::EISDIR => fs.rmdir(&b.path),
            done => done,
        }
    };
    unsafe { below(libc::AT_FDCWD, path, removed) }
        .unwrap_or_else(|| real!(remove(path => *const c_char) -> c_int))
}

/// Two paths: both of one target, or neither of any.
unsafe fn both(
    from: (c_int, *const c_char),
    to: (c_int, *const c_char),
    call: impl FnOnce(&Below, &Below) -> Result<()>,
) -> Option<c_int> {
    let from = unsafe { resolve(from.0, from.1) };
    let to = unsafe { resolve(to.0, to.1) };
    match (from, to) {
        (None, None) => None,
        (Some(from), Some(to)) if from.is_beside(&to) => Some(errno::done(|| call(&from, &to))),
        // As from one file system to another: `mv` copies then.
        _ => Some(errno::done(|| {
            Err(Failure::new(libc::EXDEV, "two file systems"))
        })),
    }
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn renameat2(
    from_at: c_int,
    from: *const c_char,
    to_at: c_int,
    to: *const c_char,
    flags: c_uint,
) -> c_int {
    let moved = |from: &Below, to: &Below| {
        if flags & !libc::RENAME_NOREPLACE != 0 {
            return Err(Failure::new(libc::EINVAL, &from.path));
        }
        from.fs()?.rename(&from.path, &to.path, flags != 0)
    };
    unsafe { both((from_at, from), (to_at, to), moved) }.unwrap_or_else(|| {
        real!(renameat2(
            from_at => c_int, from => *const c_char, to_at => c_int, to => *const c_char, flags => c_uint
        ) -> c_int)
    })
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn renameat(
    from_at: c_int,
    from: *const c_char,
    to_at: c_int,
    to: *const c_char,
) -> c_int {
    unsafe { renameat2(from_at, from, to_at, to, 0) }
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn rename(from: *const c_char, to: *const c_char) -> c_int {
    unsafe { renameat2(libc::AT_FDCWD, from, libc::AT_FDCWD, to, 0) }
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn linkat(
    from_at: c_int,
    from: *const c_char,
    to_at: c_int,
    to: *const c_char,
    flags: c_int,
) -> c_int {
    let linked = |from: &Below, to: &Below| from.fs()?.link(&from.path, &to.path);
    unsafe { both((from_at, from), (to_at, to), linked) }.unwrap_or_else(|| {
        real!(linkat(
            from_at => c_int, from => *const c_char, to_at => c_int, to => *const c_char, flags => c_int
        ) -> c_int)
    })
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn link(from: *const c_char, to: *const c_char) -> c_int {
    unsafe { linkat(libc::AT_FDCWD, from, libc::AT_FDCWD, to, 0) }
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn symlinkat(target: *const c_char, at: c_int, path: *const c_char) -> c_int {
    let made = |b: &Below| {
        let target = unsafe { CStr::from_ptr(target) }.to_bytes();
        b.fs()?.symlink(target, &b.path)
    };
    unsafe { below(at, path, made) }.unwrap_or_else(
        || real!(symlinkat(target => *const c_char, at => c_int, path => *const c_char) -> c_int),
    )
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn symlink(target: *const c_char, path: *const c_char) -> c_int {
    unsafe { symlinkat(target, libc::AT_FDCWD, path) }
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn readlinkat(
    at: c_int,
    path: *const c_char,
    to: *mut c_char,
    size: usize,
) -> isize {
    let Some(below) = (unsafe { resolve(at, path) }) else {
        return real!(readlinkat(
            at => c_int, path => *const c_char, to => *mut c_char, size => usize
        ) -> isize);
    };
    errno::answer(-1, || {
        let target = below.fs()?.read_link(&below.path)?;
        let n = target.len().min(size);
        unsafe { std::ptr::copy_nonoverlapping(target.as_ptr().cast(), to, n) };
        Ok(n.cast_signed())
    })
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn readlink(path: *const c_char, to: *mut c_char, size: usize) -> isize {
    unsafe { readlinkat(libc::AT_FDCWD, path, to, size) }
}

/// As programs call it that were compiled with `_FORTIFY_SOURCE`.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn __readlink_chk(
    path: *const c_char,
    to: *mut c_char,
    size: usize,
    _room: usize,
) -> isize {
    unsafe { readlinkat(libc::AT_FDCWD, path, to, size) }
}
