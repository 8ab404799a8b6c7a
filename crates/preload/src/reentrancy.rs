//! Protection against reentrancy: calls that this library makes itself go to the C library.

use std::cell::Cell;

thread_local! {
    static DEPTH: Cell<u32> = const { Cell::new(0) };
}

/// While this exists, the thread's calls go to the C library.
#[derive(Debug)]
pub struct Guard(());

pub fn enter() -> Guard {
    let _ = DEPTH.try_with(|depth| depth.set(depth.get() + 1));
    Guard(())
}

impl Drop for Guard {
    fn drop(&mut self) {
        let _ = DEPTH.try_with(|depth| depth.set(depth.get().saturating_sub(1)));
    }
}

/// Whether this thread is inside the library. A thread that is ending counts as inside.
pub fn is_inside() -> bool {
    DEPTH.try_with(|depth| depth.get() > 0).unwrap_or(true)
}
