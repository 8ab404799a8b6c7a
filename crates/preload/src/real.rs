//! The C library's own functions, which this library overrides.

use std::ffi::CStr;
use std::sync::atomic::{AtomicUsize, Ordering};

/// Finds the next function of that name and caches its address.
pub fn next(cell: &AtomicUsize, name: &CStr) -> usize {
    let known = cell.load(Ordering::Relaxed);
    if known != 0 {
        return known;
    }
    let found = unsafe { libc::dlsym(libc::RTLD_NEXT, name.as_ptr()) } as usize;
    if found == 0 {
        // The program could not run without this library either.
        unsafe { libc::abort() };
    }
    cell.store(found, Ordering::Relaxed);
    found
}

/// Calls the C library's function: `real!(unlink(path: *const c_char) -> c_int)`.
macro_rules! real {
    ($name:ident($($argument:expr => $kind:ty),* $(,)?) -> $answer:ty) => {{
        static CELL: std::sync::atomic::AtomicUsize = std::sync::atomic::AtomicUsize::new(0);
        let name = concat!(stringify!($name), "\0");
        let name = unsafe { std::ffi::CStr::from_ptr(name.as_ptr().cast()) };
        let found = $crate::real::next(&CELL, name);
        let function: unsafe extern "C" fn($($kind),*) -> $answer = unsafe { std::mem::transmute(found) };
        #[allow(clippy::macro_metavars_in_unsafe, reason = "arguments are names")]
        unsafe { function($($argument),*) }
    }};
}
pub(crate) use real;
