//! The namespace's commands: files by path.

mod change;
mod explain;
mod find;
mod list;
mod make;
mod tree;
mod usage;

pub(crate) use change::{chmod, chown, mv, rm};
pub(crate) use explain::explain;
pub(crate) use find::run as find;
pub(crate) use list::{ls, mode_text, stat};
pub(crate) use make::{ln, mkdir, touch};
pub(crate) use tree::run as scan;
pub(crate) use usage::{df, du, top};

use crate::context::Context;
use crate::exit::{Outcome, usage as bad_usage};
use esker::Database;
use esker_model::Error;
use esker_model::namespace::{Change, Done, NamePath, Namespace as _};
use esker_model::object::Asker;
use std::ffi::OsStr;
use std::os::unix::ffi::OsStrExt as _;

/// Changes that are sent at once.
const BATCH: usize = 4_096;

/// A path as it is typed.
fn path(text: &OsStr) -> anyhow::Result<NamePath> {
    NamePath::parse(text.as_bytes()).map_err(|e| bad_usage(e.to_string()))
}

/// Who owns what is made on someone's behalf.
fn owner(asker: Option<&Asker>) -> (u32, u32) {
    match asker {
        Some(asker) => {
            let number = |n: i64| u32::try_from(n).unwrap_or(u32::MAX);
            let gid = asker
                .gids
                .first()
                .map_or_else(|| number(asker.uid), |g| number(*g));
            (number(asker.uid), gid)
        }
        None => (
            rustix::process::geteuid().as_raw(),
            rustix::process::getegid().as_raw(),
        ),
    }
}

/// Applies one change.
fn apply(database: &Database, asker: Option<&Asker>, change: Change) -> esker_model::Result<Done> {
    let mut done = database.change(asker, &[change])?;
    match done.pop() {
        Some(done) => done,
        None => Err(Error::Unavailable(
            "the change was lost on its way; repeat".into(),
        )),
    }
}

/// Runs something for each path; what fails is told, and the others are done.
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
