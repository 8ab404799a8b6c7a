//! Results in the form of C.

use crate::reentrancy;
use esker_fs::{Failure, Result};
use std::panic::{AssertUnwindSafe, catch_unwind};

pub fn set(errno: i32) {
    unsafe { *libc::__errno_location() = errno };
}

/// Makes a call of the target; an error sets `errno` and returns `failed`. `errno` is unchanged on success.
pub fn answer<T>(failed: T, call: impl FnOnce() -> Result<T>) -> T {
    let before = unsafe { *libc::__errno_location() };
    let _inside = reentrancy::enter();
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

/// Makes a call without a result; returns 0, or -1 on an error.
pub fn done(call: impl FnOnce() -> Result<()>) -> i32 {
    answer(-1, || call().map(|()| 0))
}
