//! `esker sparql workers://…`: a query over workers.

use crate::{memory, secret};
use esker::rdf::{now_and_seed, on_large_stack};
use esker_rdf::Options;
use esker_rdf_workers::{Coordinator, Error, Settings};
use esker_terminal::context::Context;
use esker_terminal::exit::{Outcome, usage};
use esker_terminal::interrupt::Stopped;
use esker_terminal::sparql::{AnswerFormat, SparqlArgs, WORKERS, plan_lines, print, refused};
use esker_terminal::units;
use std::io::Write as _;
use std::time::Instant;

pub(crate) fn run(args: &SparqlArgs, context: &mut Context) -> anyhow::Result<Outcome> {
    let Some(addresses) = args.target.target.strip_prefix(WORKERS) else {
        return Err(usage(format!(
            "`{}` is not a target of workers; expected {WORKERS}HOST:PORT,HOST:PORT",
            args.target.target
        )));
    };
    let text = &args.text()?;
    let graphs = args.graphs();
    let graphs = graphs.as_ref();
    refuse_options(args)?;
    let addresses: Vec<String> = addresses
        .trim_end_matches('/')
        .split(',')
        .map(|a| a.trim().to_owned())
        .collect();
    let interrupt = context.interrupt.clone();
    let stop = move || interrupt.stopped().map(Stopped::name);
    let memory = memory(context);
    let settings = Settings {
        secret: secret::read(args.secret_file.as_deref())?,
        memory,
        ..Settings::default()
    };
    let query =
        on_large_stack(|| esker_rdf::syntax::query(text, None).map_err(|e| refused(text, e)))?;
    let began = Instant::now();
    let coordinator =
        Coordinator::connect(&addresses, settings).map_err(|e| worker_error(text, e))?;
    let connected = began.elapsed();
    let mut out = Vec::new();
    let style = context.style;
    let times = on_large_stack(|| -> anyhow::Result<_> {
        let started = Instant::now();
        let prepared = coordinator
            .prepare(&query, graphs, args.explain, &stop)
            .map_err(|e| worker_error(text, e))?;
        if args.explain {
            print_notes(&prepared.notes, args.format, &mut out)?;
            return Ok((started.elapsed(), started.elapsed(), 0, 0, Vec::new()));
        }
        let solved = started.elapsed();
        let rows: usize = prepared.input_bindings.iter().map(|g| g.rows.len()).sum();
        let (now, seed) = now_and_seed();
        let mut options = Options::new(now, seed);
        options.threads = esker::rdf::threads();
        options.memory = memory;
        options.stop = &stop;
        let clock = || u64::try_from(began.elapsed().as_nanos()).unwrap_or(u64::MAX);
        options.clock = Some(&clock);
        options.input_bindings = &prepared.input_bindings;
        let answer = esker_rdf::query_parsed(
            &prepared.data,
            text,
            &prepared.query,
            graphs,
            args.profile,
            &options,
        )
        .map_err(|e| refused(text, e))?;
        print(&answer, args.format, style, &mut out)?;
        let plan = answer
            .plan()
            .map_or_else(Vec::new, |plan| plan_lines(plan, args.format));
        Ok((solved, started.elapsed(), rows, answer.len(), plan))
    })?;
    context.out.write_all(&out)?;
    if args.profile && !args.explain {
        let (solved, all, given, rows, plan) = times;
        for line in plan {
            context.note(&line);
        }
        let quads: u64 = coordinator.workers().iter().map(|w| w.1.quads).sum();
        context.note(&format!(
            "{} with {}, asked in {connected:.2?}; they gave {} in {solved:.2?}; answered and written in {:.2?}; {}",
            units::counted(addresses.len() as u64, "worker", "workers"),
            units::counted(quads, "quad", "quads"),
            units::counted(given as u64, "row", "rows"),
            all.saturating_sub(solved),
            units::counted(rows as u64, "row", "rows"),
        ));
    }
    Ok(Outcome::Done)
}

/// Prints the plan of the workers' part.
fn print_notes(notes: &[String], format: AnswerFormat, out: &mut Vec<u8>) -> std::io::Result<()> {
    if format == AnswerFormat::Json {
        return writeln!(out, "{}", serde_json::json!({ "plan": notes }));
    }
    notes.iter().try_for_each(|line| writeln!(out, "{line}"))
}

/// Refuses options that need the data in one process.
fn refuse_options(args: &SparqlArgs) -> anyhow::Result<()> {
    if args.update {
        return Err(usage(
            "workers answer queries only: load what is new into the folders of the parts (`esker rdf load --part`), and start \
             the workers again",
        ));
    }
    if args.principal.principal.is_some() {
        return Err(usage(
            "--as: RDF data in parts has no owner and no metadata graph; ask without it",
        ));
    }
    Ok(())
}

/// Returns the error of a command for a worker's error.
fn worker_error(text: &str, e: Error) -> anyhow::Error {
    match e {
        Error::Query(e) => refused(text, e),
        Error::Parts(_) => usage(e.to_string()),
        e => anyhow::anyhow!("{e}"),
    }
}
