//! The namespace: what a file system does, and what only Esker keeps.

mod again;
mod arrive;
mod disk;
mod graph;
mod kept;
mod like_a_file_system;
mod open;
mod opened;
mod promises;
mod rights;
mod sight;
mod subtree;

use crate::small::Small;
use esker_engine::{CheckOptions, Engine};
use esker_model::NeverCancel;
use esker_model::namespace::{Change, Done, Errno, Inode, Make, NamePath, Namespace};
use esker_model::object::Asker;
use esker_model::{Error, Result};

pub(super) fn path(text: &str) -> NamePath {
    NamePath::parse(text.as_bytes()).unwrap()
}

pub(super) fn file(mode: u32) -> Make {
    Make::new(0o10_0000 | mode, 0, 0)
}

pub(super) fn directory(mode: u32) -> Make {
    Make::new(0o4_0000 | mode, 0, 0)
}

/// One change.
pub(super) fn change(engine: &Engine, asker: Option<&Asker>, change: Change) -> Result<Done> {
    engine.change(asker, &[change])?.remove(0)
}

pub(super) fn mkdir(engine: &Engine, at: &str) -> Done {
    change(engine, None, Change::Make(path(at), directory(0o755))).unwrap()
}

pub(super) fn touch(engine: &Engine, at: &str) -> Done {
    change(engine, None, Change::Make(path(at), file(0o644))).unwrap()
}

pub(super) fn rename(engine: &Engine, from: &str, to: &str) -> Result<Done> {
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

/// All is well by `check`.
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
