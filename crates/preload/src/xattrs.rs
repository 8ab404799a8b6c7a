//! Extended attributes, by path and by descriptor.

use crate::descriptors;
use crate::errno;
use crate::prefix::resolve;
use crate::real::real;
use esker_fs::{Failure, Fs, Result};
use esker_model::namespace::{NamePath, XattrMode};
use std::ffi::{CStr, c_char, c_int, c_void};
use std::sync::Arc;

/// The target, the path or handle of a file in it, and whether symbolic links are followed.
type XattrTarget = (Arc<Fs>, NamePath, bool);

unsafe fn by_path(path: *const c_char, follow: bool) -> Option<Result<XattrTarget>> {
    let target_path = unsafe { resolve(libc::AT_FDCWD, path) }?;
    Some(
        target_path
            .fs()
            .map(|fs| (fs, target_path.path.clone(), follow)),
    )
}

fn by_descriptor(descriptor: c_int) -> Option<Result<XattrTarget>> {
    let of = descriptors::get(descriptor)?;
    let about = || Ok((of.target_path.fs()?, of.handle_or_path()?, false));
    Some(about())
}

unsafe fn name<'a>(name: *const c_char) -> &'a [u8] {
    unsafe { CStr::from_ptr(name) }.to_bytes()
}

unsafe fn fill(value: &[u8], to: *mut c_void, size: usize) -> Result<isize> {
    if size > 0 {
        if value.len() > size {
            return Err(Failure::new(libc::ERANGE, "a value"));
        }
        unsafe { std::ptr::copy_nonoverlapping(value.as_ptr(), to.cast(), value.len()) };
    }
    Ok(value.len().cast_signed())
}

unsafe fn get(
    about: Result<XattrTarget>,
    key: *const c_char,
    to: *mut c_void,
    size: usize,
) -> isize {
    errno::answer(-1, || {
        let (fs, path, follow) = about?;
        let value = fs.xattr(&path, follow, unsafe { name(key) })?;
        unsafe { fill(&value, to, size) }
    })
}

unsafe fn list(about: Result<XattrTarget>, to: *mut c_char, size: usize) -> isize {
    errno::answer(-1, || {
        let (fs, path, follow) = about?;
        unsafe { fill(&fs.xattr_names(&path, follow)?, to.cast(), size) }
    })
}

unsafe fn set(
    about: Result<XattrTarget>,
    key: *const c_char,
    value: *const c_void,
    size: usize,
    flags: c_int,
) -> c_int {
    errno::done(|| {
        let (fs, path, follow) = about?;
        let value: &[u8] = if size == 0 {
            &[]
        } else {
            unsafe { std::slice::from_raw_parts(value.cast(), size) }
        };
        let mode = match flags {
            libc::XATTR_CREATE => XattrMode::Create,
            libc::XATTR_REPLACE => XattrMode::Replace,
            _ => XattrMode::Any,
        };
        fs.set_xattr((&path, follow), (unsafe { name(key) }, Some(value)), mode)
    })
}

unsafe fn remove(about: Result<XattrTarget>, key: *const c_char) -> c_int {
    errno::done(|| {
        let (fs, path, follow) = about?;
        fs.set_xattr(
            (&path, follow),
            (unsafe { name(key) }, None),
            XattrMode::Any,
        )
    })
}

/// Defines the four functions for each way to name the file.
macro_rules! xattrs {
    ($of:ident: $kind:ty, $about:expr, $get:ident, $list:ident, $set:ident, $remove:ident) => {
        #[unsafe(no_mangle)]
        pub unsafe extern "C" fn $get($of: $kind, key: *const c_char, to: *mut c_void, size: usize) -> isize {
            match $about {
                Some(about) => unsafe { get(about, key, to, size) },
                None => real!($get(
                    $of => $kind, key => *const c_char, to => *mut c_void, size => usize
                ) -> isize),
            }
        }

        #[unsafe(no_mangle)]
        pub unsafe extern "C" fn $list($of: $kind, to: *mut c_char, size: usize) -> isize {
            match $about {
                Some(about) => unsafe { list(about, to, size) },
                None => real!($list($of => $kind, to => *mut c_char, size => usize) -> isize),
            }
        }

        #[unsafe(no_mangle)]
        pub unsafe extern "C" fn $set(
            $of: $kind,
            key: *const c_char,
            value: *const c_void,
            size: usize,
            flags: c_int,
        ) -> c_int {
            match $about {
                Some(about) => unsafe { set(about, key, value, size, flags) },
                None => real!($set(
                    $of => $kind, key => *const c_char, value => *const c_void, size => usize, flags => c_int
                ) -> c_int),
            }
        }

        #[unsafe(no_mangle)]
        pub unsafe extern "C" fn $remove($of: $kind, key: *const c_char) -> c_int {
            match $about {
                Some(about) => unsafe { remove(about, key) },
                None => real!($remove($of => $kind, key => *const c_char) -> c_int),
            }
        }
    };
}
xattrs!(path: *const c_char, unsafe { by_path(path, true) }, getxattr, listxattr, setxattr, removexattr);
xattrs!(path: *const c_char, unsafe { by_path(path, false) }, lgetxattr, llistxattr, lsetxattr, lremovexattr);
xattrs!(descriptor: c_int, by_descriptor(descriptor), fgetxattr, flistxattr, fsetxattr, fremovexattr);
