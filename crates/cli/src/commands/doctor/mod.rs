//! `esker doctor`: whether this machine and this database are ready for what Esker does here, and what is open to others; a line for each part, with
//! what to do.
//!
//! Nothing is changed: databases are opened, not made, and what is written to try something is removed.

mod folder;
mod listeners;
mod machine;
mod rights;
mod target;

use super::run::spool;
use crate::args::DoctorArgs;
use crate::context::Context;
use crate::exit::Outcome;
use crate::output::{Cell, Rows};
use std::path::Path;

/// How a part is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum State {
    /// As it should be.
    Fine,
    /// It is not there, and only who uses it misses it.
    Absent,
    /// It is open to somebody, and that may be meant.
    Note,
    /// It is more open than it has to be.
    Warning,
    /// Something is to be done.
    Wrong,
}

impl State {
    fn name(self) -> &'static str {
        match self {
            Self::Fine => "ok",
            Self::Absent => "absent",
            Self::Note => "note",
            Self::Warning => "warning",
            Self::Wrong => "wrong",
        }
    }
}

/// What was found out about one part.
struct Finding {
    part: &'static str,
    state: State,
    found: String,
    /// What somebody could do, of what is open.
    why: Option<String>,
    remedy: Option<String>,
}

impl Finding {
    /// Something that is open to others: why that matters, and the command that closes it.
    fn open(
        part: &'static str,
        state: State,
        found: impl Into<String>,
        why: impl Into<String>,
        remedy: impl Into<String>,
    ) -> Self {
        Self {
            state,
            why: Some(why.into()),
            remedy: Some(remedy.into()),
            ..Self::fine(part, found)
        }
    }

    fn fine(part: &'static str, found: impl Into<String>) -> Self {
        Self {
            part,
            state: State::Fine,
            found: found.into(),
            why: None,
            remedy: None,
        }
    }

    fn absent(part: &'static str, found: impl Into<String>, remedy: impl Into<String>) -> Self {
        Self {
            state: State::Absent,
            remedy: Some(remedy.into()),
            ..Self::fine(part, found)
        }
    }

    fn wrong(part: &'static str, found: impl Into<String>, remedy: impl Into<String>) -> Self {
        Self {
            state: State::Wrong,
            ..Self::absent(part, found, remedy)
        }
    }
}

pub(crate) fn run(args: &DoctorArgs, context: &mut Context) -> anyhow::Result<Outcome> {
    let mut findings = vec![Finding::fine(
        "version",
        format!("esker {}", env!("CARGO_PKG_VERSION")),
    )];
    let target = args.target.as_deref().filter(|t| !t.is_empty());
    let storage = target.map(Path::new).filter(|f| folder::is_database(f));
    let owner = target::look(target, context, &mut findings);
    if let Some(storage) = storage {
        folder::look(storage, &mut findings);
        rights::of_user(&mut findings);
    }
    let is_reached = findings.iter().all(|f| f.state != State::Wrong);
    if let Some(target) = target
        && (is_reached || storage.is_some())
    {
        rights::look(target, &mut findings);
    }
    listeners::look(storage, owner, &mut findings);
    let spool = spool(&args.spool);
    machine::spool(&spool, &mut findings);
    folder::spool(spool.folder(), &mut findings);
    machine::slurm(&mut findings);
    machine::git(&mut findings);
    machine::fuse(&mut findings);
    machine::trace(&mut findings);
    let columns = &["part", "state", "found", "why", "remedy"];
    let format = args.format.format;
    let mut rows = Rows::new(&mut context.out, format, context.style, columns);
    let wrong = findings.iter().any(|f| f.state == State::Wrong);
    for finding in findings {
        rows.row(vec![
            finding.part.into(),
            finding.state.name().into(),
            finding.found.into(),
            finding.why.map_or(Cell::Empty, Cell::from),
            finding.remedy.map_or(Cell::Empty, Cell::from),
        ])?;
    }
    rows.finish()?;
    Ok(Outcome::partly_if(wrong))
}
