//! Reading and changing attributes, by path and by descriptor.

use crate::descriptors::{self, Descriptor};
use crate::errno;
use crate::prefix::{TargetPath, is_empty, resolve};
use crate::real::real;
use esker_fs::{Failure, Fs, Result, c_stat, c_statvfs, c_time};
use esker_model::namespace::{NamePath, SetAttributes};
use std::ffi::{c_char, c_int, c_long, c_uint};
use std::sync::Arc;

/// Target of a call that names an open directory and a path in it, or the open file itself.
enum CallTarget {
    Path(TargetPath, bool),
    Open(Descriptor),
}

unsafe fn about(at: c_int, path: *const c_char, flags: c_int) -> Option<CallTarget> {
    if unsafe { is_empty(path) } {
        return descriptors::get(at).map(CallTarget::Open);
    }
    let follow = flags & libc::AT_SYMLINK_NOFOLLOW == 0;
    Some(CallTarget::Path(unsafe { resolve(at, path) }?, follow))
}

impl CallTarget {
    fn stat(&self) -> Result<libc::stat> {
        let stat = match self {
            Self::Path(target_path, follow) => {
                target_path.fs()?.stat(&target_path.path, *follow)?
            }
            Self::Open(Descriptor {
                file: Some(file), ..
            }) => file.stat()?,
            Self::Open(Descriptor { target_path, .. }) => {
                target_path.fs()?.stat(&target_path.path, true)?
            }
        };
        Ok(c_stat(&stat))
    }

    /// Returns the target, the path or handle in it, and whether symbolic links are followed.
    fn locate(&self) -> Result<(Arc<Fs>, NamePath, bool)> {
        match self {
            Self::Path(target_path, follow) => {
                Ok((target_path.fs()?, target_path.path.clone(), *follow))
            }
            Self::Open(of) => Ok((of.target_path.fs()?, of.handle_or_path()?, true)),
        }
    }

    fn set(&self, set: SetAttributes) -> Result<()> {
        if let Self::Open(Descriptor {
            file: Some(file), ..
        }) = self
        {
            return file.set(set);
        }
        let (fs, path, follow) = self.locate()?;
        fs.set(&path, follow, set)
    }
}

unsafe fn put_stat(about: &CallTarget, to: *mut libc::stat) -> c_int {
    errno::done(|| {
        unsafe { to.write(about.stat()?) };
        Ok(())
    })
}

macro_rules! stats {
    ($($name:ident: $flags:expr),*) => {$(
        #[unsafe(no_mangle)]
        pub unsafe extern "C" fn $name(path: *const c_char, to: *mut libc::stat) -> c_int {
            match unsafe { resolve(libc::AT_FDCWD, path) } {
                Some(target_path) => unsafe { put_stat(&CallTarget::Path(target_path, $flags), to) },
                None => real!($name(path => *const c_char, to => *mut libc::stat) -> c_int),
            }
        }
    )*};
}
stats!(stat: true, stat64: true, lstat: false, lstat64: false);

macro_rules! fstats {
    ($($name:ident),*) => {$(
        #[unsafe(no_mangle)]
        pub unsafe extern "C" fn $name(descriptor: c_int, to: *mut libc::stat) -> c_int {
            match descriptors::get(descriptor) {
                Some(of) => unsafe { put_stat(&CallTarget::Open(of), to) },
                None => real!($name(descriptor => c_int, to => *mut libc::stat) -> c_int),
            }
        }
    )*};
}
fstats!(fstat, fstat64);

macro_rules! fstatats {
    ($($name:ident),*) => {$(
        #[unsafe(no_mangle)]
        pub unsafe extern "C" fn $name(at: c_int, path: *const c_char, to: *mut libc::stat, flags: c_int) -> c_int {
            match unsafe { about(at, path, flags) } {
                Some(about) => unsafe { put_stat(&about, to) },
                None => real!($name(
                    at => c_int, path => *const c_char, to => *mut libc::stat, flags => c_int
                ) -> c_int),
            }
        }
    )*};
}
fstatats!(fstatat, fstatat64);

#[unsafe(no_mangle)]
pub unsafe extern "C" fn statx(
    at: c_int,
    path: *const c_char,
    flags: c_int,
    mask: c_uint,
    to: *mut libc::statx,
) -> c_int {
    let Some(about) = (unsafe { about(at, path, flags) }) else {
        return real!(statx(
            at => c_int, path => *const c_char, flags => c_int, mask => c_uint, to => *mut libc::statx
        ) -> c_int);
    };
    errno::done(|| {
        let of = about.stat()?;
        let time = |sec, nsec: c_long| {
            // SAFETY: the structure has numbers only, for which zero is valid.
            let mut time: libc::statx_timestamp = unsafe { std::mem::zeroed() };
            time.tv_sec = sec;
            time.tv_nsec = nsec as u32;
            time
        };
        // SAFETY: the structure has numbers only, for which zero is valid.
        let mut x: libc::statx = unsafe { std::mem::zeroed() };
        x.stx_mask = libc::STATX_BASIC_STATS;
        x.stx_blksize = of.st_blksize as u32;
        x.stx_nlink = of.st_nlink as u32;
        x.stx_uid = of.st_uid;
        x.stx_gid = of.st_gid;
        x.stx_mode = of.st_mode as u16;
        x.stx_ino = of.st_ino;
        x.stx_size = of.st_size.cast_unsigned();
        x.stx_blocks = of.st_blocks.cast_unsigned();
        x.stx_atime = time(of.st_atime, of.st_atime_nsec);
        x.stx_mtime = time(of.st_mtime, of.st_mtime_nsec);
        x.stx_ctime = time(of.st_ctime, of.st_ctime_nsec);
        unsafe { to.write(x) };
        Ok(())
    })
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn faccessat(
    at: c_int,
    path: *const c_char,
    mode: c_int,
    flags: c_int,
) -> c_int {
    match unsafe { resolve(at, path) } {
        Some(target_path) => errno::done(|| {
            target_path
                .fs()?
                .access(&target_path.path, mode.cast_unsigned() & 7)
        }),
        None => real!(faccessat(
            at => c_int, path => *const c_char, mode => c_int, flags => c_int
        ) -> c_int),
    }
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn access(path: *const c_char, mode: c_int) -> c_int {
    match unsafe { resolve(libc::AT_FDCWD, path) } {
        Some(_) => unsafe { faccessat(libc::AT_FDCWD, path, mode, 0) },
        None => real!(access(path => *const c_char, mode => c_int) -> c_int),
    }
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn euidaccess(path: *const c_char, mode: c_int) -> c_int {
    match unsafe { resolve(libc::AT_FDCWD, path) } {
        Some(_) => unsafe { faccessat(libc::AT_FDCWD, path, mode, 0) },
        None => real!(euidaccess(path => *const c_char, mode => c_int) -> c_int),
    }
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn eaccess(path: *const c_char, mode: c_int) -> c_int {
    unsafe { euidaccess(path, mode) }
}

fn with_mode(mode: libc::mode_t) -> SetAttributes {
    SetAttributes {
        mode: Some(mode & 0o7777),
        ..SetAttributes::default()
    }
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn fchmodat(
    at: c_int,
    path: *const c_char,
    mode: libc::mode_t,
    flags: c_int,
) -> c_int {
    match unsafe { about(at, path, flags) } {
        Some(about) => errno::done(|| about.set(with_mode(mode))),
        None => real!(fchmodat(
            at => c_int, path => *const c_char, mode => libc::mode_t, flags => c_int
        ) -> c_int),
    }
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn chmod(path: *const c_char, mode: libc::mode_t) -> c_int {
    match unsafe { resolve(libc::AT_FDCWD, path) } {
        Some(target_path) => {
            errno::done(|| CallTarget::Path(target_path, true).set(with_mode(mode)))
        }
        None => real!(chmod(path => *const c_char, mode => libc::mode_t) -> c_int),
    }
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn fchmod(descriptor: c_int, mode: libc::mode_t) -> c_int {
    match descriptors::get(descriptor) {
        Some(of) => errno::done(|| CallTarget::Open(of).set(with_mode(mode))),
        None => real!(fchmod(descriptor => c_int, mode => libc::mode_t) -> c_int),
    }
}

fn with_owner(uid: libc::uid_t, gid: libc::gid_t) -> SetAttributes {
    let some = |id| (id != u32::MAX).then_some(id);
    SetAttributes {
        uid: some(uid),
        gid: some(gid),
        ..SetAttributes::default()
    }
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn fchownat(
    at: c_int,
    path: *const c_char,
    uid: libc::uid_t,
    gid: libc::gid_t,
    flags: c_int,
) -> c_int {
    match unsafe { about(at, path, flags) } {
        Some(about) => errno::done(|| about.set(with_owner(uid, gid))),
        None => real!(fchownat(
            at => c_int, path => *const c_char, uid => libc::uid_t, gid => libc::gid_t, flags => c_int
        ) -> c_int),
    }
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn chown(path: *const c_char, uid: libc::uid_t, gid: libc::gid_t) -> c_int {
    unsafe { fchownat(libc::AT_FDCWD, path, uid, gid, 0) }
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn lchown(path: *const c_char, uid: libc::uid_t, gid: libc::gid_t) -> c_int {
    unsafe { fchownat(libc::AT_FDCWD, path, uid, gid, libc::AT_SYMLINK_NOFOLLOW) }
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn fchown(descriptor: c_int, uid: libc::uid_t, gid: libc::gid_t) -> c_int {
    match descriptors::get(descriptor) {
        Some(of) => errno::done(|| CallTarget::Open(of).set(with_owner(uid, gid))),
        None => real!(fchown(
            descriptor => c_int, uid => libc::uid_t, gid => libc::gid_t
        ) -> c_int),
    }
}

/// Reads two times; null means now.
unsafe fn with_times(times: *const libc::timespec) -> SetAttributes {
    let (atime, mtime) = if times.is_null() {
        let now = libc::timespec {
            tv_sec: 0,
            tv_nsec: libc::UTIME_NOW,
        };
        (c_time(now), c_time(now))
    } else {
        unsafe { (c_time(*times), c_time(*times.add(1))) }
    };
    SetAttributes {
        atime,
        mtime,
        ..SetAttributes::default()
    }
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn utimensat(
    at: c_int,
    path: *const c_char,
    times: *const libc::timespec,
    flags: c_int,
) -> c_int {
    match unsafe { about(at, path, flags) } {
        Some(about) => errno::done(|| about.set(unsafe { with_times(times) })),
        None => real!(utimensat(
            at => c_int, path => *const c_char, times => *const libc::timespec, flags => c_int
        ) -> c_int),
    }
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn futimens(descriptor: c_int, times: *const libc::timespec) -> c_int {
    match descriptors::get(descriptor) {
        Some(of) => errno::done(|| CallTarget::Open(of).set(unsafe { with_times(times) })),
        None => real!(futimens(
            descriptor => c_int, times => *const libc::timespec
        ) -> c_int),
    }
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn utimes(path: *const c_char, times: *const libc::timeval) -> c_int {
    let Some(target_path) = (unsafe { resolve(libc::AT_FDCWD, path) }) else {
        return real!(utimes(path => *const c_char, times => *const libc::timeval) -> c_int);
    };
    let nanos = |t: libc::timeval| libc::timespec {
        tv_sec: t.tv_sec,
        tv_nsec: t.tv_usec * 1_000,
    };
    let set = if times.is_null() {
        unsafe { with_times(std::ptr::null()) }
    } else {
        let both = unsafe { [nanos(*times), nanos(*times.add(1))] };
        unsafe { with_times(both.as_ptr()) }
    };
    errno::done(|| CallTarget::Path(target_path, true).set(set))
}

macro_rules! truncates {
    ($($name:ident),*) => {$(
        #[unsafe(no_mangle)]
        pub unsafe extern "C" fn $name(path: *const c_char, size: i64) -> c_int {
            match unsafe { resolve(libc::AT_FDCWD, path) } {
                Some(target_path) => errno::done(|| {
                    let size = u64::try_from(size);
                    let size = size.map_err(|_| Failure::new(libc::EINVAL, &target_path.path))?;
                    target_path.fs()?.truncate(&target_path.path, size)
                }),
                None => real!($name(path => *const c_char, size => i64) -> c_int),
            }
        }
    )*};
}
truncates!(truncate, truncate64);

fn put_statfs(target_path: &TargetPath, to: *mut libc::statvfs) -> c_int {
    errno::done(|| {
        let room = c_statvfs(&target_path.fs()?.statfs()?);
        unsafe { to.write(room) };
        Ok(())
    })
}

macro_rules! statvfss {
    ($($name:ident),*) => {$(
        #[unsafe(no_mangle)]
        pub unsafe extern "C" fn $name(path: *const c_char, to: *mut libc::statvfs) -> c_int {
            match unsafe { resolve(libc::AT_FDCWD, path) } {
                Some(target_path) => put_statfs(&target_path, to),
                None => real!($name(path => *const c_char, to => *mut libc::statvfs) -> c_int),
            }
        }
    )*};
}
statvfss!(statvfs, statvfs64);

macro_rules! statfss {
    ($($name:ident),*) => {$(
        #[unsafe(no_mangle)]
        pub unsafe extern "C" fn $name(path: *const c_char, to: *mut libc::statfs) -> c_int {
            let Some(target_path) = (unsafe { resolve(libc::AT_FDCWD, path) }) else {
                return real!($name(path => *const c_char, to => *mut libc::statfs) -> c_int);
            };
            errno::done(|| {
                let room = c_statvfs(&target_path.fs()?.statfs()?);
                // SAFETY: the structure has numbers only, for which zero is valid.
                let mut of: libc::statfs = unsafe { std::mem::zeroed() };
                of.f_bsize = room.f_bsize.cast_signed();
                of.f_frsize = room.f_bsize.cast_signed();
                of.f_blocks = room.f_blocks;
                of.f_bfree = room.f_bfree;
                of.f_bavail = room.f_bavail;
                of.f_files = room.f_files;
                of.f_ffree = room.f_ffree;
                of.f_namelen = 255;
                unsafe { to.write(of) };
                Ok(())
            })
        }
    )*};
}
statfss!(statfs, statfs64);
