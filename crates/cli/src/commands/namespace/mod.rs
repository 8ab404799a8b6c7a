//! Commands of the namespace, which name files by path.

mod change;
mod create;
mod explain;
mod find;
mod list;
mod tree;
mod usage;

pub(crate) use change::{chmod, chown, mv, rm};
pub(crate) use create::{ln, mkdir, touch};
pub(crate) use explain::explain;
pub(crate) use find::run as find;
pub(crate) use list::{ls, mode_text, stat};
pub(crate) use tree::run as import_tree;
pub(crate) use usage::{df, du, top};

use esker::Database;
use esker_model::Error;
use esker_model::namespace::{AppliedChange, Change, NamePath, Namespace as _};
use esker_model::object::Principal;
use esker_terminal::context::Context;
use esker_terminal::exit::{Outcome, usage as bad_usage};
use std::ffi::OsStr;
use std::os::unix::ffi::OsStrExt as _;

/// Number of changes per request.
const BATCH: usize = 4_096;

/// Parses a path of the command line.
fn path(text: &OsStr) -> anyhow::Result<NamePath> {
    NamePath::parse(text.as_bytes()).map_err(|e| bad_usage(e.to_string()))
}

/// Returns owner and group of new files: those of the principal, else of this process.
fn owner(principal: Option<&Principal>) -> (u32, u32) {
    match principal {
        Some(principal) => {
            let number = |n: i64| u32::try_from(n).unwrap_or(u32::MAX);
            let gid = principal
                .gids
                .first()
                .map_or_else(|| number(principal.uid), |g| number(*g));
            (number(principal.uid), gid)
        }
        None => (
            rustix::process::geteuid().as_raw(),
            rustix::process::getegid().as_raw(),
        ),
    }
}

/// Applies one change.
fn apply(
    database: &Database,
    principal: Option<&Principal>,
    change: Change,
) -> esker_model::Result<AppliedChange> {
    let mut done = database.change(principal, &[change])?;
    match done.pop() {
        Some(done) => done,
        None => Err(Error::Undecided(
            "the change was lost on the way to the server; repeat it".into(),
        )),
    }
}

/// Calls a function for each path; failures are printed, and the other paths continue.
fn each<T>(
    paths: &[T],
    context: &Context,
    mut call: impl FnMut(&T) -> anyhow::Result<()>,
) -> anyhow::Result<Outcome> {
    let [path] = paths else {
        let mut outcome = Outcome::Done;
        for path in paths {
            match call(path) {
                Err(e)
                    if e.downcast_ref::<Error>()
                        .is_some_and(|e| matches!(e, Error::File(_))) =>
                {
                    context.complain(&e.to_string());
                    outcome = Outcome::Partly;
                }
                done => done?,
            }
        }
        return Ok(outcome);
    };
    call(path)?;
    Ok(Outcome::Done)
}
