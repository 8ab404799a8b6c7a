//! `esker namespace explain`: how a directory is kept.

use super::path;
use crate::args::NamespaceExplainArgs;
use crate::context::Context;
use crate::exit::Outcome;
use crate::output::{Cell, Rows};
use esker_model::Error;
use esker_model::namespace::{Errno, Kind, Namespace as _, id_at};

pub(crate) fn explain(
    args: &NamespaceExplainArgs,
    context: &mut Context,
) -> anyhow::Result<Outcome> {
    let database = context.open(&args.target)?;
    let path = path(&args.path)?;
    let inode = database.stat(None, &path, true)?;
    if !inode.is_directory() {
        return Err(Error::from(Errno::NotDirectory.at(&path)).into());
    }
    let own = database.usage(None, &path, false)?;
    let all = database.usage(None, &path, true)?;
    let by_path = inode.id == id_at(Kind::Directory, path.as_bytes());
    let mut rows = Rows::new(
        &mut context.out,
        args.format.format,
        context.style,
        &["what", "value"],
    );
    let mut row = |what: &str, value: Cell| rows.row(vec![what.into(), value]);
    row("vertex", inode.id.to_string().into())?;
    row(
        "its id comes from",
        if by_path {
            "its path"
        } else {
            "where it was made: it was moved, or another one was here before"
        }
        .into(),
    )?;
    row("entries: files", Cell::Count(own.files))?;
    row("entries: directories", Cell::Count(own.directories))?;
    row("all below: files", Cell::Count(all.files))?;
    row("all below: directories", Cell::Count(all.directories - 1))?;
    row("all below: bytes", Cell::Count(all.bytes))?;
    row("partitions", Cell::Count(1))?;
    row(
        "server",
        "this process: the database is not a cluster".into(),
    )?;
    rows.finish()?;
    Ok(Outcome::Done)
}
