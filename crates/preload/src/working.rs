//! The working directory, where that is of a target: the kernel knows nothing of it.

use crate::descriptors;
use crate::errno;
use crate::prefix::{Below, resolve};
use crate::real::real;
use esker_fs::{Failure, Result};
use esker_model::namespace::Kind;
use parking_lot::Mutex;
use std::ffi::{c_char, c_int};
use std::sync::atomic::{AtomicBool, Ordering};

static THERE: Mutex<Option<Below>> = Mutex::new(None);
static IS_THERE: AtomicBool = AtomicBool::new(false);

/// Where this process is, if it is below a prefix.
pub fn directory() -> Option<Below> {
    if !IS_THERE.load(Ordering::Acquire) {
        return None;
    }
    THERE.lock().clone()
}

fn go(to: Option<Below>) {
    IS_THERE.store(to.is_some(), Ordering::Release);
    *THERE.lock() = to;
}

fn enter(below: Below) -> Result<()> {
    let fs = below.fs()?;
    if Kind::of_mode(fs.stat(&below.path, true)?.mode) != Some(Kind::Directory) {
        return Err(Failure::new(libc::ENOTDIR, &below.path));
    }
    fs.access(&below.path, 1)?;
    go(Some(below));
    Ok(())
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn chdir(path: *const c_char) -> c_int {
    if let Some(below) = unsafe { resolve(libc::AT_FDCWD, path) } {
        return errno::done(|| enter(below));
    }
    let gone = real!(chdir(path => *const c_char) -> c_int);
    if gone == 0 {
        go(None);
    }
    gone
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn fchdir(descriptor: c_int) -> c_int {
    if let Some(of) = descriptors::get(descriptor) {
        return errno::done(|| enter(of.below));
    }
    let gone = real!(fchdir(descriptor => c_int) -> c_int);
    if gone == 0 {
        go(None);
    }
    gone
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn getcwd(to: *mut c_char, size: usize) -> *mut c_char {
    let there = if crate::inside::is() {
        None
    } else {
        directory()
    };
    let Some(below) = there else {
        return real!(getcwd(to => *mut c_char, size => usize) -> *mut c_char);
    };
    let mut whole = below.whole();
    whole.push(0);
    let mut to = to;
    if to.is_null() {
        // The caller frees it.
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
