//! `esker compact`: moves old versions to the archive and frees their space.

use crate::args::CompactArgs;
use crate::times;
use esker_terminal::context::Context;
use esker_terminal::exit::Outcome;
use esker_terminal::output::{Cell, report};
use esker_terminal::units::{count, counted};

pub(crate) fn run(args: &CompactArgs, context: &mut Context) -> anyhow::Result<Outcome> {
    let database = context.open(&args.target)?;
    let retain_after = args.retain.map(times::ago);
    let done = database.compact(retain_after, &context.interrupt)?;
    let dropped = match done.dropped {
        0 => String::new(),
        n => format!(
            ", forgot {}",
            counted(n, "past state of files", "past states of files")
        ),
    };
    let sentence = format!(
        "archived {}, kept {}{dropped}",
        counted(done.archived, "superseded version", "superseded versions"),
        count(done.kept)
    );
    let cells = [done.archived, done.kept, done.dropped].map(Cell::Count);
    report(
        context,
        args.format.format,
        &sentence,
        &["archived", "kept", "dropped"],
        cells.to_vec(),
    )?;
    Ok(super::note_if_stopped(context))
}
