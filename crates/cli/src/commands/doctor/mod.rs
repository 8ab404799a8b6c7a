//! `esker doctor`: whether this machine and this database are ready for what Esker does here; a line for each part, with what to do.
//!
//! Nothing is changed: databases are opened, not made, and what is written to try something is removed.

mod machine;
mod target;

use super::run::spool;
use crate::args::DoctorArgs;
use crate::context::Context;
use crate::exit::Outcome;
use crate::output::{Cell, Rows};

/// How a part is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum State {
    /// As it should be.
    Fine,
    /// It is not there, and only who uses it misses it.
    Absent,
    /// Something is to be done.
    Wrong,
}

impl State {
    fn name(self) -> &'static str {
        match self {
            Self::Fine => "ok",
            Self::Absent => "absent",
            Self::Wrong => "wrong",
        }
    }
}

/// What was found out about one part.
struct Finding {
    part: &'static str,
    state: State,
    found: String,
    remedy: Option<String>,
}

impl Finding {
    fn fine(part: &'static str, found: impl Into<String>) -> Self {
        Self {
            part,
            state: State::Fine,
            found: found.into(),
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
    target::look(args.target.as_deref(), context, &mut findings);
    machine::spool(&spool(&args.spool), &mut findings);
    machine::slurm(&mut findings);
    machine::git(&mut findings);
    machine::fuse(&mut findings);
    machine::trace(&mut findings);
    let columns = &["part", "state", "found", "remedy"];
    let format = args.format.format;
    let mut rows = Rows::new(&mut context.out, format, context.style, columns);
    let wrong = findings.iter().any(|f| f.state == State::Wrong);
    for finding in findings {
        rows.row(vec![
            finding.part.into(),
            finding.state.name().into(),
            finding.found.into(),
            finding.remedy.map_or(Cell::Empty, Cell::from),
        ])?;
    }
    rows.finish()?;
    Ok(Outcome::partly_if(wrong))
}
