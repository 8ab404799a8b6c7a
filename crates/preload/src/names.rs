//! Creating, removing and moving names.

use crate::prefix::{TargetPath, resolve};
use crate::real::real;
use crate::{errno, reentrancy};
use esker_fs::{Failure, Result};
use std::ffi::{CStr, c_char, c_int, c_uint};
use std::sync::atomic::{AtomicU32, Ordering};

/// Value before the umask is known.
const UNKNOWN: u32 = u32::MAX;
static UMASK: AtomicU32 = AtomicU32::new(UNKNOWN);

/// Returns the umask of the process.
pub fn umask_now() -> u32 {
    let known = UMASK.load(Ordering::Relaxed);
    if known != UNKNOWN {
        return known;
    }
    let _inside = reentrancy::enter();
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

/// Makes a call about one path, if it is below a prefix.
unsafe fn call_on_path(
    at: c_int,
    path: *const c_char,
    call: impl FnOnce(&TargetPath) -> Result<()>,
) -> Option<c_int> {
    let target_path = unsafe { resolve(at, path) }?;
    Some(errno::done(|| call(&target_path)))
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn mkdirat(at: c_int, path: *const c_char, mode: libc::mode_t) -> c_int {
    let made = |b: &TargetPath| b.fs()?.mkdir(&b.path, mode & !umask_now());
    unsafe { call_on_path(at, path, made) }.unwrap_or_else(
        || real!(mkdirat(at => c_int, path => *const c_char, mode => libc::mode_t) -> c_int),
    )
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn mkdir(path: *const c_char, mode: libc::mode_t) -> c_int {
    unsafe { mkdirat(libc::AT_FDCWD, path, mode) }
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn unlinkat(at: c_int, path: *const c_char, flags: c_int) -> c_int {
    let removed = |b: &TargetPath| {
        if flags & libc::AT_REMOVEDIR != 0 {
            b.fs()?.rmdir(&b.path)
        } else {
            b.fs()?.unlink(&b.path)
        }
    };
    unsafe { call_on_path(at, path, removed) }.unwrap_or_else(
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
    let removed = |b: &TargetPath| {
        let fs = b.fs()?;
        match fs.unlink(&b.path) {
            Err(e) if e.errno == libc::EISDIR => fs.rmdir(&b.path),
            done => done,
        }
    };
    unsafe { call_on_path(libc::AT_FDCWD, path, removed) }
        .unwrap_or_else(|| real!(remove(path => *const c_char) -> c_int))
}

/// Makes a call about two paths in one target; `None` if neither is in a target.
unsafe fn call_on_two_paths(
    from: (c_int, *const c_char),
    to: (c_int, *const c_char),
    call: impl FnOnce(&TargetPath, &TargetPath) -> Result<()>,
) -> Option<c_int> {
    let from = unsafe { resolve(from.0, from.1) };
    let to = unsafe { resolve(to.0, to.1) };
    match (from, to) {
        (None, None) => None,
        (Some(from), Some(to)) if from.is_same_target(&to) => {
            Some(errno::done(|| call(&from, &to)))
        }
        // Two targets are like two file systems, between which `mv` copies.
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
    let moved = |from: &TargetPath, to: &TargetPath| match flags {
        0 | libc::RENAME_NOREPLACE => from.fs()?.rename(&from.path, &to.path, flags != 0),
        libc::RENAME_EXCHANGE => from.fs()?.exchange(&from.path, &to.path),
        _ => Err(Failure::new(libc::EINVAL, &from.path)),
    };
    unsafe { call_on_two_paths((from_at, from), (to_at, to), moved) }.unwrap_or_else(|| {
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
    let linked = |from: &TargetPath, to: &TargetPath| from.fs()?.link(&from.path, &to.path);
    unsafe { call_on_two_paths((from_at, from), (to_at, to), linked) }.unwrap_or_else(|| {
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
    let made = |b: &TargetPath| {
        let target = unsafe { CStr::from_ptr(target) }.to_bytes();
        b.fs()?.symlink(target, &b.path)
    };
    unsafe { call_on_path(at, path, made) }.unwrap_or_else(
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
    let Some(target_path) = (unsafe { resolve(at, path) }) else {
        return real!(readlinkat(
            at => c_int, path => *const c_char, to => *mut c_char, size => usize
        ) -> isize);
    };
    errno::answer(-1, || {
        let target = target_path.fs()?.read_link(&target_path.path)?;
        let n = target.len().min(size);
        unsafe { std::ptr::copy_nonoverlapping(target.as_ptr().cast(), to, n) };
        Ok(n.cast_signed())
    })
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn readlink(path: *const c_char, to: *mut c_char, size: usize) -> isize {
    unsafe { readlinkat(libc::AT_FDCWD, path, to, size) }
}

/// Variant for programs compiled with `_FORTIFY_SOURCE`.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn __readlink_chk(
    path: *const c_char,
    to: *mut c_char,
    size: usize,
    _room: usize,
) -> isize {
    unsafe { readlinkat(libc::AT_FDCWD, path, to, size) }
}
