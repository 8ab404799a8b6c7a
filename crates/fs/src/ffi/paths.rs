//! Calls on paths.

use super::error::{guard, guard_done};
use super::marshal::{self, Target, bytes, data, fill, output_buffer, path, reference};
use crate::fs::nanos;
use crate::{Failure, Result};
use esker_model::namespace::{NamePath, SetAttributes, XattrMode};
use std::ffi::{c_char, c_int, c_uint, c_void};
use std::time::{SystemTime, UNIX_EPOCH};

/// Value of the kernel's flag.
const RENAME_NOREPLACE: c_uint = 1;
const RENAME_EXCHANGE: c_uint = 2;

/// Makes a call about one path that has no result.
unsafe fn done(
    fs: *const Target,
    name: *const c_char,
    call: impl FnOnce(&Target, &NamePath) -> Result<()>,
) -> c_int {
    guard_done(|| {
        // SAFETY: the header requires valid arguments.
        let (fs, path) = unsafe { (reference(fs, "a target")?, path(name)?) };
        call(fs, &path)
    })
}

unsafe fn stat(fs: *const Target, name: *const c_char, to: *mut libc::stat, follow: bool) -> c_int {
    // SAFETY: the header requires valid arguments.
    unsafe {
        done(fs, name, |fs, path| {
            reference(to, "attributes")?;
            let stat = marshal::stat(&fs.stat(path, follow)?);
            to.write(stat);
            Ok(())
        })
    }
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn esker_fs_stat(
    fs: *const Target,
    name: *const c_char,
    to: *mut libc::stat,
) -> c_int {
    // SAFETY: the header requires valid arguments.
    unsafe { stat(fs, name, to, true) }
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn esker_fs_lstat(
    fs: *const Target,
    name: *const c_char,
    to: *mut libc::stat,
) -> c_int {
    // SAFETY: the header requires valid arguments.
    unsafe { stat(fs, name, to, false) }
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn esker_fs_access(
    fs: *const Target,
    name: *const c_char,
    mode: c_int,
) -> c_int {
    let bits = mode.cast_unsigned() & 7;
    // SAFETY: the header requires valid arguments.
    unsafe { done(fs, name, |fs, path| fs.access(path, bits)) }
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn esker_fs_mkdir(
    fs: *const Target,
    name: *const c_char,
    mode: libc::mode_t,
) -> c_int {
    // SAFETY: the header requires valid arguments.
    unsafe { done(fs, name, |fs, path| fs.mkdir(path, mode)) }
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn esker_fs_rmdir(fs: *const Target, name: *const c_char) -> c_int {
    // SAFETY: the header requires valid arguments.
    unsafe { done(fs, name, |fs, path| fs.rmdir(path)) }
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn esker_fs_unlink(fs: *const Target, name: *const c_char) -> c_int {
    // SAFETY: the header requires valid arguments.
    unsafe { done(fs, name, |fs, path| fs.unlink(path)) }
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn esker_fs_rename(
    fs: *const Target,
    from: *const c_char,
    to: *const c_char,
    how: c_uint,
) -> c_int {
    // SAFETY: the header requires valid arguments.
    unsafe {
        done(fs, from, |fs, from| {
            let to = path(to)?;
            match how {
                0 | RENAME_NOREPLACE => fs.rename(from, &to, how == RENAME_NOREPLACE),
                RENAME_EXCHANGE => fs.exchange(from, &to),
                _ => Err(Failure::new(libc::EINVAL, from)),
            }
        })
    }
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn esker_fs_link(
    fs: *const Target,
    from: *const c_char,
    to: *const c_char,
) -> c_int {
    // SAFETY: the header requires valid arguments.
    unsafe { done(fs, from, |fs, from| fs.link(from, &path(to)?)) }
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn esker_fs_symlink(
    fs: *const Target,
    target: *const c_char,
    name: *const c_char,
) -> c_int {
    // SAFETY: the header requires valid arguments.
    unsafe {
        done(fs, name, |fs, path| {
            fs.symlink(bytes(target, "what a link says")?, path)
        })
    }
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn esker_fs_readlink(
    fs: *const Target,
    name: *const c_char,
    to: *mut c_char,
    size: usize,
) -> isize {
    guard(-1, || {
        // SAFETY: the header requires valid arguments.
        let (fs, path, to) = unsafe {
            (
                reference(fs, "a target")?,
                path(name)?,
                output_buffer(to.cast(), size)?,
            )
        };
        let target = fs.read_link(&path)?;
        let n = target.len().min(to.len());
        if let (Some(to), Some(from)) = (to.get_mut(..n), target.get(..n)) {
            to.copy_from_slice(from);
        }
        Ok(n.cast_signed())
    })
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn esker_fs_chmod(
    fs: *const Target,
    name: *const c_char,
    mode: libc::mode_t,
) -> c_int {
    let set = SetAttributes {
        mode: Some(mode & 0o7777),
        ..SetAttributes::default()
    };
    // SAFETY: the header requires valid arguments.
    unsafe { done(fs, name, |fs, path| fs.set(path, true, set)) }
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn esker_fs_chown(
    fs: *const Target,
    name: *const c_char,
    uid: libc::uid_t,
    gid: libc::gid_t,
    how: c_int,
) -> c_int {
    let some = |id| (id != u32::MAX).then_some(id);
    let set = SetAttributes {
        uid: some(uid),
        gid: some(gid),
        ..SetAttributes::default()
    };
    let follow = how & libc::AT_SYMLINK_NOFOLLOW == 0;
    // SAFETY: the header requires valid arguments.
    unsafe { done(fs, name, |fs, path| fs.set(path, follow, set)) }
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn esker_fs_utimens(
    fs: *const Target,
    name: *const c_char,
    times: *const libc::timespec,
    how: c_int,
) -> c_int {
    let follow = how & libc::AT_SYMLINK_NOFOLLOW == 0;
    // SAFETY: the header requires valid arguments.
    unsafe {
        done(fs, name, |fs, path| {
            let (atime, mtime) = if times.is_null() {
                (Some(now()), Some(now()))
            } else {
                (time(*times), time(*times.add(1)))
            };
            let set = SetAttributes {
                atime,
                mtime,
                ..SetAttributes::default()
            };
            fs.set(path, follow, set)
        })
    }
}

fn now() -> i64 {
    let since = SystemTime::now().duration_since(UNIX_EPOCH);
    since.map_or(0, |d| i64::try_from(d.as_nanos()).unwrap_or(i64::MAX))
}

/// Converts a time to set into nanoseconds since 1970; `None` leaves the time as it is.
pub fn time(of: libc::timespec) -> Option<i64> {
    match of.tv_nsec {
        libc::UTIME_OMIT => None,
        libc::UTIME_NOW => Some(now()),
        nsec => Some(nanos(of.tv_sec, nsec)),
    }
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn esker_fs_truncate(
    fs: *const Target,
    name: *const c_char,
    size: u64,
) -> c_int {
    // SAFETY: the header requires valid arguments.
    unsafe { done(fs, name, |fs, path| fs.truncate(path, size)) }
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn esker_fs_statvfs(fs: *const Target, to: *mut libc::statvfs) -> c_int {
    guard_done(|| {
        // SAFETY: the header requires valid arguments.
        let (fs, _) = unsafe { (reference(fs, "a target")?, reference(to, "attributes")?) };
        let room = marshal::statvfs(&fs.statfs()?);
        // SAFETY: the pointer is not null, and the caller guarantees space for the statistics.
        unsafe { to.write(room) };
        Ok(())
    })
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn esker_fs_create_many(
    fs: *const Target,
    names: *const *const c_char,
    count: usize,
    mode: libc::mode_t,
    errors: *mut c_int,
) -> isize {
    guard(-1, || {
        // SAFETY: the header requires valid arguments.
        let fs = unsafe { reference(fs, "a target") }?;
        // SAFETY: the header requires this number of pointers.
        let bytes = unsafe { data(names.cast(), count * size_of::<*const c_char>()) }?;
        debug_assert_eq!(bytes.len(), count * size_of::<*const c_char>());
        let mut paths = Vec::with_capacity(count);
        for i in 0..count {
            // SAFETY: the pointer is one of them.
            paths.push(unsafe { path(*names.add(i)) }?);
        }
        let mut made = 0;
        for (i, answer) in fs.create_many(&paths, mode)?.into_iter().enumerate() {
            let errno = answer.map_or_else(|e| e.errno, |()| 0);
            made += isize::from(errno == 0);
            if !errors.is_null() {
                // SAFETY: the header requires space for one number for each path.
                unsafe { errors.add(i).write(errno) };
            }
        }
        Ok(made)
    })
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn esker_fs_getxattr(
    fs: *const Target,
    name: *const c_char,
    attribute: *const c_char,
    to: *mut c_void,
    size: usize,
    how: c_int,
) -> isize {
    guard(-1, || {
        // SAFETY: the header requires valid arguments.
        let (fs, path, to) = unsafe {
            (
                reference(fs, "a target")?,
                path(name)?,
                output_buffer(to, size)?,
            )
        };
        // SAFETY: the header requires valid arguments.
        let attribute = unsafe { bytes(attribute, "an attribute") }?;
        let follow = how & libc::AT_SYMLINK_NOFOLLOW == 0;
        fill(&fs.xattr(&path, follow, attribute)?, to, &path)
    })
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn esker_fs_listxattr(
    fs: *const Target,
    name: *const c_char,
    to: *mut c_char,
    size: usize,
    how: c_int,
) -> isize {
    guard(-1, || {
        // SAFETY: the header requires valid arguments.
        let (fs, path, to) = unsafe {
            (
                reference(fs, "a target")?,
                path(name)?,
                output_buffer(to.cast(), size)?,
            )
        };
        let follow = how & libc::AT_SYMLINK_NOFOLLOW == 0;
        fill(&fs.xattr_names(&path, follow)?, to, &path)
    })
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn esker_fs_setxattr(
    fs: *const Target,
    name: *const c_char,
    attribute: *const c_char,
    value: *const c_void,
    size: usize,
    how: c_int,
) -> c_int {
    let mode = match how & (libc::XATTR_CREATE | libc::XATTR_REPLACE) {
        libc::XATTR_CREATE => XattrMode::Create,
        libc::XATTR_REPLACE => XattrMode::Replace,
        _ => XattrMode::Any,
    };
    let follow = how & libc::AT_SYMLINK_NOFOLLOW == 0;
    // SAFETY: the header requires valid arguments.
    unsafe {
        done(fs, name, |fs, path| {
            let (attribute, value) = (bytes(attribute, "an attribute")?, data(value, size)?);
            fs.set_xattr((path, follow), (attribute, Some(value)), mode)
        })
    }
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn esker_fs_removexattr(
    fs: *const Target,
    name: *const c_char,
    attribute: *const c_char,
    how: c_int,
) -> c_int {
    let follow = how & libc::AT_SYMLINK_NOFOLLOW == 0;
    // SAFETY: the header requires valid arguments.
    unsafe {
        done(fs, name, |fs, path| {
            let attribute = (bytes(attribute, "an attribute")?, None);
            fs.set_xattr((path, follow), attribute, XattrMode::Any)
        })
    }
}
