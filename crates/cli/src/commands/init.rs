//! `esker init`: an empty database.

use crate::args::{EngineArg, InitArgs};
use crate::context::Context;
use crate::exit::Outcome;
use crate::output::report;
use esker::{Database, StoreEngine};

pub(crate) fn run(args: &InitArgs, context: &mut Context) -> anyhow::Result<Outcome> {
    let engine = match args.engine {
        EngineArg::Fjall => StoreEngine::Fjall,
        EngineArg::Rocksdb => StoreEngine::RocksDb,
    };
    let target = &args.target.target;
    Database::init(target, &context.open_options().engine(engine))?.close()?;
    let sentence = format!("created {target} ({})", engine.name());
    let cells = vec![target.as_str().into(), engine.name().into()];
    report(
        context,
        args.format.format,
        &sentence,
        &["created", "engine"],
        cells,
    )?;
    Ok(Outcome::Done)
}
