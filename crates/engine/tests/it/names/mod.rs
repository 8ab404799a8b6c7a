//! The namespace: behaviour of a file system, and what Esker adds.

mod dedup;
mod disk;
mod graph;
mod imported;
mod ingest;
mod kept;
mod leases;
mod like_a_file_system;
mod open;
mod opened;
mod past;
mod rights;
mod shares;
mod subtree;
mod visibility;

use crate::small::Small;
use esker_engine::{CheckOptions, Engine};
use esker_model::NeverCancel;
use esker_model::namespace::{AppliedChange, Change, Errno, Inode, NamePath, Namespace, NewFile};
use esker_model::object::Principal;
use esker_model::{Error, Result};

pub(super) fn path(text: &str) -> NamePath {
    NamePath::parse(text.as_bytes()).unwrap()
}

pub(super) fn file(mode: u32) -> NewFile {
    NewFile::new(0o10_0000 | mode, 0, 0)
}

pub(super) fn directory(mode: u32) -> NewFile {
    NewFile::new(0o4_0000 | mode, 0, 0)
}

/// Applies one change and returns its outcome.
pub(super) fn change(
    engine: &Engine,
    principal: Option<&Principal>,
    change: Change,
) -> Result<AppliedChange> {
    engine.change(principal, &[change])?.remove(0)
}

pub(super) fn mkdir(engine: &Engine, at: &str) -> AppliedChange {
    change(engine, None, Change::Create(path(at), directory(0o755))).unwrap()
}

pub(super) fn touch(engine: &Engine, at: &str) -> AppliedChange {
    change(engine, None, Change::Create(path(at), file(0o644))).unwrap()
}

pub(super) fn rename(engine: &Engine, from: &str, to: &str) -> Result<AppliedChange> {
    let (from, to) = (path(from), path(to));
    change(
        engine,
        None,
        Change::Rename {
            from,
            to,
            no_replace: false,
        },
    )
}

pub(super) fn stat(engine: &Engine, at: &str) -> Result<Inode> {
    engine.stat(None, &path(at), false)
}

pub(super) fn errno<T: std::fmt::Debug>(result: Result<T>) -> Errno {
    match result {
        Err(Error::File(e)) => e.errno,
        other => panic!("{other:?}"),
    }
}

/// Asserts that `check` finds no problem.
pub(super) fn sound(engine: &Engine) {
    let report = engine
        .check(&CheckOptions::default(), &NeverCancel, &mut |_| {})
        .unwrap();
    assert!(
        report.complete && report.problems.is_empty(),
        "{:#?}",
        report.problems
    );
}

pub(super) fn small() -> Small {
    Small::new()
}
