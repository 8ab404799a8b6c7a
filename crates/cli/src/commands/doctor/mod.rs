//! `esker doctor`: checks whether this machine and a database are ready for use and what they leave open to other users; prints a line
//! per check, with a remedy.
//!
//! Nothing is changed: databases are opened and never created, and test files are removed.

mod folder;
mod listeners;
mod machine;
mod rights;
mod target;

use super::run::spool;
use crate::args::DoctorArgs;
use esker_terminal::context::Context;
use esker_terminal::exit::Outcome;
use esker_terminal::output::{Cell, Rows};
use std::path::Path;

/// Result of a check.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum State {
    /// Everything is in order.
    Fine,
    /// The part is missing, which matters only to those who use it.
    Absent,
    /// The part is open to other users, which may be intended.
    Note,
    /// The part is more open than necessary.
    Warning,
    /// The part needs a repair.
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

/// Finding about one part.
struct Finding {
    part: &'static str,
    state: State,
    found: String,
    /// The attack that an open part allows.
    why: Option<String>,
    remedy: Option<String>,
}

impl Finding {
    /// Creates a finding about something open to others, with its danger and the command that closes it.
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
    let owner = target::check(target, context, &mut findings);
    if let Some(storage) = storage {
        folder::check(storage, &mut findings);
        rights::check_user_folder(&mut findings);
    }
    let is_reached = findings.iter().all(|f| f.state != State::Wrong);
    if let Some(target) = target
        && (is_reached || storage.is_some())
    {
        rights::check(target, &mut findings);
    }
    listeners::check(storage, owner, &mut findings);
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
