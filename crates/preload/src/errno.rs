//! Answers as C has them.

use crate::inside;
use esker_fs::{Failure, Result};
use std::panic::{AssertUnwindSafe, catch_unwind};

pub fn set(errno: i32) {
    unsafe { *libc::__errno_location() = errno };
}

/// Makes a call of the target, and turns what fails into `errno` and `failed`. `errno` stays what it was where nothing fails.
pub fn answer<T>(failed: T, call: impl FnOnce() -> Result<T>) -> T {
    let before = unsafe { *libc::__errno_location() };
    let _inside = inside::enter();
    match catch_unwind(AssertUnwindSafe(call)) {
        Ok(Ok(value)) => {
            set(before);
            value
        }
        Ok(Err(Failure { errno, .. })) => {
            set(errno);
            failed
        }
        Err(_) => {
            set(libc::EIO);
            failed
        }
    }
}

/// The same of a call that answers nothing.
pub fn done(call: impl FnOnce() -> Result<()>) -> i32 {
    answer(-1, || call().map(|()| 0))
}
