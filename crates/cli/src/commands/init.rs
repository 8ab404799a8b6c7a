//! `esker init`: creates an empty database.

use crate::args::InitArgs;
use esker::{Database, StoreEngine};
use esker_terminal::context::Context;
use esker_terminal::exit::Outcome;
use esker_terminal::output::report;

pub(crate) fn run(args: &InitArgs, context: &mut Context) -> anyhow::Result<Outcome> {
    let engine = StoreEngine::from(args.engine);
    let target = &args.target.target;
    let options = context.open_options().engine(engine).group(args.group);
    Database::init(target, &options)?.close()?;
    let sentence = format!("created {target} ({})", engine.name());
    let cells = vec![target.as_str().into(), engine.name().into()];
    report(
        context,
        args.format.format,
        &sentence,
        &["created", "engine"],
        cells,
    )?;
    context.hint(&format!(
        "next: esker run --target {target} -- COMMAND records a run; esker import --help lists what can be imported"
    ));
    Ok(Outcome::Done)
}
