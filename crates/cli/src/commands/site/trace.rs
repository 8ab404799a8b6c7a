//! `esker site trace`.

use super::write_to;
use crate::args::SiteTraceArgs;
use esker_site_cache::trace::{Traces, yahoo};
use esker_terminal::context::Context;
use esker_terminal::exit::{Outcome, usage};

pub(super) fn run(args: &SiteTraceArgs, context: &mut Context) -> anyhow::Result<Outcome> {
    let settings = yahoo::GeneratorSettings {
        seed: args.seed,
        day: args.day,
        ..yahoo::GeneratorSettings::of(args.operations)
    };
    let mut traces = Traces::new();
    let events = yahoo::make(&mut traces, settings).map_err(|e| usage(e.to_string()))?;
    write_to(&args.out, context, |out| {
        let mut line = String::new();
        for event in &events {
            line.clear();
            traces.write(event, &mut line);
            out.write_all(line.as_bytes())?;
        }
        Ok(())
    })?;
    Ok(Outcome::Done)
}
