//! The command `esker`, for tests of crates that cannot name its package.

use std::path::PathBuf;

/// Where the command is: what `ESKER_BIN` names, else what the same build has put beside the test that calls this. A build of the whole
/// workspace makes the command before any test runs.
pub fn esker() -> Option<PathBuf> {
    if let Some(named) = std::env::var_os("ESKER_BIN") {
        return Some(named.into());
    }
    let test = std::env::current_exe().ok()?;
    let beside = test.ancestors().nth(2)?.join("esker");
    beside.exists().then_some(beside)
}
