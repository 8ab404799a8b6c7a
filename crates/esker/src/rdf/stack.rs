//! Threads for queries: their parser and their plans recurse for nested brackets.

use esker_model::Error;

/// Stack size of a thread that parses or runs queries, in bytes.
pub const STACK: usize = 256 << 20;

/// Runs a function on a thread whose stack is large enough for any query.
///
/// # Errors
///
/// The function's, and that of starting a thread.
pub fn on_large_stack<T: Send, E: From<Error> + Send>(
    work: impl FnOnce() -> Result<T, E> + Send,
) -> Result<T, E> {
    std::thread::scope(|scope| {
        let thread = std::thread::Builder::new()
            .name("sparql".into())
            .stack_size(STACK)
            .spawn_scoped(scope, work)
            .map_err(|e| Error::io("starting a thread for the query", e))?;
        match thread.join() {
            Ok(result) => result,
            Err(panic) => std::panic::resume_unwind(panic),
        }
    })
}
