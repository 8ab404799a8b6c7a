//! The `esker` command, for tests of crates that cannot name its package.

use std::path::PathBuf;

/// Returns the path of the command: the value of `ESKER_BIN`, or the program that the same build has put beside the
/// calling test. A build of the whole workspace builds the command before any test runs.
pub fn esker() -> Option<PathBuf> {
    if let Some(named) = std::env::var_os("ESKER_BIN") {
        return Some(named.into());
    }
    let test = std::env::current_exe().ok()?;
    let sibling = test.ancestors().nth(2)?.join("esker");
    sibling.exists().then_some(sibling)
}
