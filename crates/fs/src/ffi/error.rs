//! Errors for C: `errno`, and a message for each thread.

use crate::{Failure, Result};
use std::cell::RefCell;
use std::ffi::{CString, c_char};
use std::panic::{AssertUnwindSafe, catch_unwind};

thread_local! {
    static LAST: RefCell<CString> = RefCell::default();
}

/// Makes a call; an error sets `errno` and returns `failed`.
pub(super) fn guard<T>(failed: T, call: impl FnOnce() -> Result<T>) -> T {
    let failure = match catch_unwind(AssertUnwindSafe(call)) {
        Ok(Ok(value)) => return value,
        Ok(Err(failure)) => failure,
        Err(_) => Failure::new(libc::EIO, "the library failed inside; this is a bug of it"),
    };
    set(&failure);
    failed
}

/// Makes a call without a result; returns 0, or -1 on an error.
pub(super) fn guard_done(call: impl FnOnce() -> Result<()>) -> i32 {
    guard(-1, || call().map(|()| 0))
}

fn set(failure: &Failure) {
    let text = CString::new(failure.text.replace('\0', "\\0")).unwrap_or_default();
    // A thread that is ending cannot store the message any more.
    let _ = LAST.try_with(|last| *last.borrow_mut() = text);
    // SAFETY: each thread has its `errno` as long as it runs.
    unsafe { *libc::__errno_location() = failure.errno };
}

#[unsafe(no_mangle)]
pub extern "C" fn esker_fs_last_error() -> *const c_char {
    let text = LAST.try_with(|last| last.borrow().as_ptr());
    text.unwrap_or(c"".as_ptr())
}

#[unsafe(no_mangle)]
pub extern "C" fn esker_fs_version() -> *const c_char {
    const VERSION: &str = concat!(env!("CARGO_PKG_VERSION"), "\0");
    VERSION.as_ptr().cast()
}
