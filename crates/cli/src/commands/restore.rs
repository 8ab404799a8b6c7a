//! `esker restore`: creates a database from a backup.

use crate::args::RestoreArgs;
use esker::Database;
use esker::rpc::Address;
use esker_server::Backup;
use esker_terminal::context::Context;
use esker_terminal::exit::{Outcome, usage};
use esker_terminal::output::report;
use esker_terminal::units::counted;

pub(crate) fn run(args: &RestoreArgs, context: &mut Context) -> anyhow::Result<Outcome> {
    if let Some(target) = args.target.to_str().filter(|t| Address::is_address(t)) {
        return Err(usage(format!(
            "`{target}` is a server; a backup is restored on the machine that will hold the \
             database: run `esker restore DIRECTORY FOLDER` there, and `esker serve FOLDER`"
        )));
    }
    match Backup::read(&args.directory)? {
        Some(backup) => {
            backup.restore(&args.directory, &args.target)?;
            context.note(&format!(
                "{} of a cluster as of {}: name this folder as `storage` in its file",
                counted(u64::from(backup.stores), "store", "stores"),
                backup.version
            ));
        }
        None => Database::restore(&args.directory, &args.target)?,
    }
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
