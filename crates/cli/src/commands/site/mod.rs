//! `esker site`: runs, measures and controls caches of remote metadata.

mod client;
mod record;
mod replay;
mod serve;
mod trace;

use crate::args::SiteCommand;
use esker_model::Error;
use esker_terminal::context::Context;
use esker_terminal::exit::Outcome;
use std::fs::File;
use std::io::{self, BufWriter, Write};
use std::path::Path;

pub(crate) fn run(command: &SiteCommand, context: &mut Context) -> anyhow::Result<Outcome> {
    match command {
        SiteCommand::Replay(args) => replay::run(args, context),
        SiteCommand::Record(args) => record::run(args, context),
        SiteCommand::Trace(args) => trace::run(args, context),
        SiteCommand::Serve(args) => serve::run(args, context),
        SiteCommand::Status(args) => client::status(args, context),
        SiteCommand::Warm(args) => client::warm(args, context),
        SiteCommand::Invalidate(args) => client::invalidate(args, context),
        SiteCommand::Explain(args) => client::explain(args, context),
    }
}

fn is_standard(path: &Path) -> bool {
    path == Path::new("-")
}

/// Creates an I/O error with the failed operation and the file.
fn file_error(doing: &str, path: &Path, error: io::Error) -> anyhow::Error {
    Error::io(format!("{doing} `{}`", path.display()), error).into()
}

/// Writes to a file or, for `-`, to standard output.
fn write_to(
    path: &Path,
    context: &mut Context,
    write: impl FnOnce(&mut dyn Write) -> io::Result<()>,
) -> anyhow::Result<()> {
    if is_standard(path) {
        write(&mut *context.out)?;
        return Ok(());
    }
    let all = || {
        let mut out = BufWriter::new(File::create(path)?);
        write(&mut out)?;
        out.flush()
    };
    all().map_err(|e| file_error("writing", path, e))
}
