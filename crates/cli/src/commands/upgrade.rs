//! `esker upgrade`: upgrades a database of an earlier build to this one's format, or says whether it needs to be.

use crate::args::UpgradeArgs;
use esker::{Database, Formats};
use esker_terminal::context::Context;
use esker_terminal::exit::{Outcome, usage};
use esker_terminal::output::{Cell, report};

pub(crate) fn run(args: &UpgradeArgs, context: &mut Context) -> anyhow::Result<Outcome> {
    let target = &args.target.target;
    let (found, now) = (
        Database::formats(target, &context.open_options())?,
        Formats::NOW,
    );
    if found.rows > now.rows {
        return Err(usage(format!(
            "`{target}` was written by a newer Esker (format {}; this build reads up to {}): install that one",
            found.rows, now.rows
        )));
    }
    let due = found.rows < now.rows;
    let (from, to) = (found.rows, now.rows);
    let sentence = if !due {
        format!("{target}: format {from}, which is this build's: nothing to do")
    } else if args.check {
        format!("{target}: format {from}; `esker upgrade {target}` makes it {to}, this build's")
    } else {
        // Opening upgrades the database, or says why it cannot be upgraded.
        context.open(&args.target)?;
        format!("{target}: format {from} is now {to}")
    };
    report(
        context,
        args.format.format,
        &sentence,
        &["target", "format", "newest", "upgraded"],
        vec![
            target.as_str().into(),
            Cell::Count(u64::from(from)),
            Cell::Count(u64::from(to)),
            Cell::Bool(due && !args.check),
        ],
    )?;
    Ok(Outcome::partly_if(due && args.check))
}
