//! The working directory, if it is in a target, which the kernel does not know.

use crate::descriptors;
use crate::errno;
use crate::prefix::{TargetPath, resolve};
use crate::real::real;
use esker_fs::{Failure, Result};
use esker_model::namespace::Kind;
use parking_lot::Mutex;
use std::ffi::{c_char, c_int};
use std::sync::atomic::{AtomicBool, Ordering};

static CURRENT: Mutex<Option<TargetPath>> = Mutex::new(None);
static IS_IN_TARGET: AtomicBool = AtomicBool::new(false);

/// Returns the working directory, if it is below a prefix.
pub fn directory() -> Option<TargetPath> {
    if !IS_IN_TARGET.load(Ordering::Acquire) {
        return None;
    }
    CURRENT.lock().clone()
}

fn set_current(to: Option<TargetPath>) {
    IS_IN_TARGET.store(to.is_some(), Ordering::Release);
    *CURRENT.lock() = to;
}

fn enter(target_path: TargetPath) -> Result<()> {
    let fs = target_path.fs()?;
    if Kind::of_mode(fs.stat(&target_path.path, true)?.mode) != Some(Kind::Directory) {
        return Err(Failure::new(libc::ENOTDIR, &target_path.path));
    }
    fs.access(&target_path.path, 1)?;
    set_current(Some(target_path));
    Ok(())
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn chdir(path: *const c_char) -> c_int {
    if let Some(target_path) = unsafe { resolve(libc::AT_FDCWD, path) } {
        return errno::done(|| enter(target_path));
    }
    let gone = real!(chdir(path => *const c_char) -> c_int);
    if gone == 0 {
        set_current(None);
    }
    gone
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn fchdir(descriptor: c_int) -> c_int {
    if let Some(of) = descriptors::get(descriptor) {
        return errno::done(|| enter(of.target_path));
    }
    let gone = real!(fchdir(descriptor => c_int) -> c_int);
    if gone == 0 {
        set_current(None);
    }
    gone
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn getcwd(to: *mut c_char, size: usize) -> *mut c_char {
    let there = if crate::reentrancy::is_inside() {
        None
    } else {
        directory()
    };
    let Some(target_path) = there else {
        return real!(getcwd(to => *mut c_char, size => usize) -> *mut c_char);
    };
    let mut whole = target_path.full_path();
    whole.push(0);
    let mut to = to;
    if to.is_null() {
        // The caller frees the buffer.
        to = unsafe { libc::malloc(size.max(whole.len())) }.cast();
    } else if size < whole.len() {
        errno::set(libc::ERANGE);
        return std::ptr::null_mut();
    }
    if !to.is_null() {
        unsafe { std::ptr::copy_nonoverlapping(whole.as_ptr().cast(), to, whole.len()) };
    }
    to
}
