//! Whether a thread is in this library already: what it calls then is the C library's.

use std::cell::Cell;

thread_local! {
    static DEPTH: Cell<u32> = const { Cell::new(0) };
}

/// Until it is dropped, this thread's calls go through.
#[derive(Debug)]
pub struct Inside(());

pub fn enter() -> Inside {
    let _ = DEPTH.try_with(|depth| depth.set(depth.get() + 1));
    Inside(())
}

impl Drop for Inside {
    fn drop(&mut self) {
        let _ = DEPTH.try_with(|depth| depth.set(depth.get().saturating_sub(1)));
    }
}

/// Whether this thread is. A thread that is ending is taken to be.
pub fn is() -> bool {
    DEPTH.try_with(|depth| depth.get() > 0).unwrap_or(true)
}
