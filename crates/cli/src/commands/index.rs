//! `esker index`: manages the indexes of attributes and tags of objects.

use crate::args::{IndexChangeArgs, IndexCommand, IndexListArgs};
use esker_model::object::{ObjectRead as _, ObjectWrite as _};
use esker_terminal::context::Context;
use esker_terminal::exit::Outcome;
use esker_terminal::output::{self, Cell, Rows};

pub(crate) fn run(command: &IndexCommand, context: &mut Context) -> anyhow::Result<Outcome> {
    match command {
        IndexCommand::List(args) => list(args, context),
        IndexCommand::Add(args) => set(args, true, context),
        IndexCommand::Drop(args) => set(args, false, context),
    }
}

fn list(args: &IndexListArgs, context: &mut Context) -> anyhow::Result<Outcome> {
    let database = context.open(&args.target)?;
    let columns = &[
        "name",
        "indexed",
        "objects",
        "distinct",
        "column_bytes",
        "index_bytes",
    ];
    let tags = database.tags(None)?;
    let mut rows = Rows::new(&mut context.out, args.format.format, context.style, columns);
    for tag in tags {
        rows.row(vec![
            tag.name.into(),
            Cell::Bool(tag.indexed),
            Cell::Count(tag.objects),
            tag.distinct.map_or(Cell::Empty, Cell::Count),
            Cell::Count(tag.bytes.0),
            Cell::Count(tag.bytes.1),
        ])?;
    }
    rows.finish()?;
    Ok(Outcome::Done)
}

fn set(args: &IndexChangeArgs, on: bool, context: &mut Context) -> anyhow::Result<Outcome> {
    let database = context.open(&args.target)?;
    let changed = database.set_index(&args.name, on)?;
    let name = &args.name;
    let sentence = match (on, changed) {
        (true, true) => {
            format!("searches may use an index on `{name}`; the first that wants it builds it")
        }
        (true, false) => format!("searches may use an index on `{name}` already"),
        (false, true) => format!("searches use no index on `{name}` any more"),
        (false, false) => format!("searches use no index on `{name}` as it is"),
    };
    output::report(
        context,
        args.format.format,
        &sentence,
        &["name", "indexed", "changed"],
        vec![name.as_str().into(), Cell::Bool(on), Cell::Bool(changed)],
    )?;
    Ok(Outcome::Done)
}
