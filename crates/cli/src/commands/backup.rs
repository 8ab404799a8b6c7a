//! `esker backup`: copies a database, which may be in use.

use crate::args::BackupArgs;
use esker_terminal::context::Context;
use esker_terminal::exit::Outcome;
use esker_terminal::output::{Cell, report};
use esker_terminal::units::size;

pub(crate) fn run(args: &BackupArgs, context: &mut Context) -> anyhow::Result<Outcome> {
    let database = context.open(&args.target)?;
    let done = database.backup(&args.directory)?;
    let directory = args.directory.display().to_string();
    let newest = done
        .newest
        .map_or_else(|| "empty".to_owned(), |v| format!("as of {v}"));
    let sentence = format!("backed up to {directory}: {}, {newest}", size(done.bytes));
    let cells = vec![
        directory.into(),
        Cell::Count(done.bytes),
        done.newest.map_or(Cell::Empty, Cell::Version),
    ];
    report(
        context,
        args.format.format,
        &sentence,
        &["backup", "bytes", "as_of"],
        cells,
    )?;
    Ok(Outcome::Done)
}
