//! Work that blocks its thread for a moment, from code that may run on a thread of an asynchronous runtime.

use tokio::runtime::{Handle, RuntimeFlavor};

/// Does work that may block. On a thread of a runtime with several threads, other tasks move to another thread.
pub fn run_blocking<T>(work: impl FnOnce() -> T) -> T {
    let runtime = Handle::try_current();
    if runtime.is_ok_and(|runtime| runtime.runtime_flavor() == RuntimeFlavor::MultiThread) {
        tokio::task::block_in_place(work)
    } else {
        work()
    }
}
