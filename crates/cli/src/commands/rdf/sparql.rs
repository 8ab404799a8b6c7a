//! `esker sparql`: runs queries and updates.

use super::remote::{self, DataLocation, locate};
use crate::args::SparqlArgs;
use crate::commands::program::run_program;
use esker::rdf::on_large_stack;
use esker::rdf::{Rdf, Services, engine, now_and_seed};
use esker_rdf::{Options, query};
use esker_terminal::context::Context;
use esker_terminal::exit::Outcome;
use esker_terminal::sparql::{WORKERS, plan_lines, print, refused};
use esker_terminal::units;
use std::io::Write as _;
use std::time::{Duration, Instant};

pub(crate) fn sparql(args: &SparqlArgs, context: &mut Context) -> anyhow::Result<Outcome> {
    let text = args.text()?;
    if args.target.target.starts_with(WORKERS) {
        return run_program("esker-workers", None, context);
    }
    let began = Instant::now();
    let database = match locate(&args.target, false, context)? {
        DataLocation::Remote(place) => return remote::sparql(args, &text, &place, context),
        DataLocation::Local(database) => database,
    };
    let database = database.on_behalf_of(args.principal.principal.as_ref());
    let mut rdf = if args.update {
        database.rdf_to_change()?
    } else {
        database.rdf()?
    };
    let opened = began.elapsed();
    if let Some(part) = rdf.part()?
        && !args.update
    {
        context.warn(&format!(
            "`{}` contains only part {part} of RDF data; workers answer for all parts (`esker rdf worker`)",
            args.target.target
        ));
    }
    let interrupt = context.interrupt.clone();
    let stop = move || {
        interrupt
            .stopped()
            .map(esker_terminal::interrupt::Stopped::name)
    };
    let (now, seed) = now_and_seed();
    let mut options = Options::new(now, seed);
    options.threads = std::thread::available_parallelism().map_or(1, std::num::NonZero::get);
    // The data is already in memory; this limits what a query may use in addition.
    options.memory = usize::try_from(context.globals.memory)
        .unwrap_or(usize::MAX)
        .max(4 << 30);
    options.stop = &stop;
    options.explain_only = args.explain;
    let clock = || u64::try_from(began.elapsed().as_nanos()).unwrap_or(u64::MAX);
    options.clock = Some(&clock);
    let services = Services::new(args.allow_service.clone())?;
    let remote = |endpoint: &str, query: &str| {
        services.query_endpoint(endpoint, query, &|| stop().is_some())
    };
    if !services.is_empty() {
        options.remote = Some(&remote);
    }
    if args.update {
        rdf.allow_loads(Services::new(args.allow_load.clone())?);
        let sync = context.durability() == esker::Durability::Sync;
        let done = on_large_stack(|| rdf.update(&text, args.graphs().as_ref(), &options, sync))?;
        context.note(&format!(
            "{} added, {} removed",
            units::counted(done.added as u64, "quad", "quads"),
            units::count(done.removed as u64)
        ));
        if args.profile {
            context.note(&format!(
                "opened in {opened:.2?}, all in {:.2?}",
                began.elapsed()
            ));
        }
        return Ok(Outcome::Done);
    }
    answer(args, &text, &mut rdf, &options, opened, context)
}

/// Prints the answer of a query, or its plan.
fn answer(
    args: &SparqlArgs,
    text: &str,
    rdf: &mut Rdf,
    options: &Options<'_>,
    opened: Duration,
    context: &mut Context,
) -> anyhow::Result<Outcome> {
    let graphs = args.graphs();
    let mut out = Vec::new();
    let style = context.style;
    let times = on_large_stack(|| {
        let started = Instant::now();
        let data = match rdf.query_data(text, graphs.as_ref(), options.stop) {
            Err(esker::Error::Interrupted) => {
                let why = (options.stop)().unwrap_or("interrupted");
                return Err(anyhow::anyhow!("{}", engine::Error::Stopped(why)));
            }
            data => data?,
        };
        let made = started.elapsed();
        let started = Instant::now();
        let answer = query(&data, text, None, graphs.as_ref(), args.profile, options)
            .map_err(|e| refused(text, e))?;
        let answered = started.elapsed();
        let mut plan = answer
            .plan()
            .map_or_else(Vec::new, |plan| plan_lines(plan, args.format));
        if args.explain {
            for line in plan.drain(..) {
                writeln!(out, "{line}")?;
            }
        } else {
            print(&answer, args.format, style, &mut out)?;
        }
        Ok((made, answered, started.elapsed(), answer.len(), plan))
    })?;
    context.out.write_all(&out)?;
    if args.profile {
        let (made, answered, written, rows, plan) = times;
        for line in plan {
            context.note(&line);
        }
        context.note(&format!(
            "opened in {opened:.2?}; snapshot with metadata in {made:.2?}; answered in {answered:.2?}; written in {:.2?}; {}",
            written.saturating_sub(answered),
            units::counted(rows as u64, "row", "rows"),
        ));
    }
    Ok(Outcome::Done)
}
