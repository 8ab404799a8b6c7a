//! `esker restore`: a database from a backup.

use crate::args::RestoreArgs;
use crate::context::Context;
use crate::exit::Outcome;
use crate::output::report;
use esker::Database;

pub(crate) fn run(args: &RestoreArgs, context: &mut Context) -> anyhow::Result<Outcome> {
    Database::restore(&args.directory, &args.target)?;
    let (target, from) = (
        args.target.display().to_string(),
        args.directory.display().to_string(),
    );
    let sentence = format!("restored {target} from {from}");
    let cells = vec![target.into(), from.into()];
    report(
        context,
        args.format.format,
        &sentence,
        &["restored", "from"],
        cells,
    )?;
    Ok(Outcome::Done)
}
