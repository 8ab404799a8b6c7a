//! Queries on worker processes and in one process, with a comparison of the results.

use super::{RdfBenchArgs, Source, load, name_of};
use crate::machine;
use crate::report::{Figure, Report, Unit, median};
use crate::scratch::Scratch;
use crate::serve::child::Child;
use anyhow::Context as _;
use esker::rdf::on_large_stack;
use esker::rdf::{engine, error, now_and_seed};
use esker_rdf::{Dataset, Format, Options, query, query_parsed};
use esker_rdf_workers::{Coordinator, Settings};
use esker_terminal::context::Context;
use esker_terminal::exit::Outcome;
use esker_terminal::units;
use serde_json::json;
use std::path::{Path, PathBuf};
use std::process::Stdio;
use std::time::Instant;

/// The scratch folder, data files and query files.
type Inputs<'a> = (&'a Scratch, &'a [Source], &'a [PathBuf]);

pub(super) fn run(
    args: &RdfBenchArgs,
    count: u16,
    (scratch, data, queries): Inputs<'_>,
    context: &mut Context,
) -> anyhow::Result<Outcome> {
    let threads = args.threads.map_or_else(machine::cores, usize::from);
    let mut report = Report::new("rdf over workers");
    context.note("loading all of it");
    let whole = load(data, threads, &mut report, &[])?;
    let workers = start(scratch, data, count, threads, context)?;
    let addresses: Vec<String> = workers.iter().map(|w| w.address().to_owned()).collect();
    let coordinator = Coordinator::connect(&addresses, Settings::default())?;
    let sizes: Vec<String> = coordinator
        .workers()
        .iter()
        .map(|w| units::count(w.1.quads))
        .collect();
    let mut differ = Vec::new();
    let mut stopped = false;
    for path in queries {
        if context.interrupt.stopped().is_some() {
            stopped = true;
            break;
        }
        let name = name_of(path);
        let text =
            std::fs::read_to_string(path).with_context(|| format!("reading {}", path.display()))?;
        context.note(&format!("asking {name}"));
        let both = on_large_stack(|| -> anyhow::Result<_> {
            let query_local = timed(args.runs, || query_local(&whole, &text, threads))?;
            let query_workers = timed(args.runs, || query_workers(&coordinator, &text, threads))?;
            Ok((query_local, query_workers))
        });
        let ((here_ms, mut expected), (there_ms, mut found)) =
            both.with_context(|| format!("query {}", path.display()))?;
        expected.sort_unstable();
        found.sort_unstable();
        if expected != found {
            differ.push(format!(
                "{name}: the workers give {} rows, one process {}, and they are not the same",
                found.len(),
                expected.len()
            ));
        }
        let rows = found.len().saturating_sub(1) as u64;
        report.add(
            Figure::new(name, Unit::Millis, there_ms)
                .raw(here_ms)
                .note(units::counted(rows, "row", "rows")),
        );
    }
    for worker in workers {
        worker.stop()?;
    }
    let settings = json!({
        "data": data.iter().map(|d| d.0.display().to_string()).collect::<Vec<_>>(),
        "runs": args.runs,
        "threads": threads,
        "workers": count,
        "quads of each": sizes,
    });
    report.print(
        &settings,
        (args.format.format, args.json.as_deref()),
        context,
    )?;
    for line in &differ {
        context.warn(line);
    }
    if stopped {
        context.warn("stopped before the end: the figures above are those that were complete");
    }
    Ok(Outcome::partly_if(stopped || !differ.is_empty()))
}

/// Loads each part into a folder and starts its worker.
fn start(
    scratch: &Scratch,
    data: &[Source],
    count: u16,
    threads: usize,
    context: &Context,
) -> anyhow::Result<Vec<Child>> {
    let mut workers = Vec::new();
    let files: Vec<&Path> = data.iter().map(|d| d.0.as_path()).collect();
    for part in 1..=count {
        context.note(&format!("loading part {part} of {count}"));
        let folder = scratch.cleared_path(&format!("part{part}"))?;
        let output = Child::command()?
            .args(["rdf", "load", "--quiet", "--part"])
            .arg(format!("{part}/{count}"))
            .arg(&folder)
            .args(&files)
            .stdin(Stdio::null())
            .output()
            .context("starting a load")?;
        anyhow::ensure!(
            output.status.success(),
            "loading part {part}: {}",
            String::from_utf8_lossy(&output.stderr)
        );
        workers.push(Child::worker(&folder, threads)?);
    }
    Ok(workers)
}

/// Returns the median time of several runs in milliseconds, after one for warming up, and the lines of the last run.
fn timed(
    runs: u32,
    once: impl Fn() -> anyhow::Result<Vec<u8>>,
) -> anyhow::Result<(f64, Vec<String>)> {
    once()?;
    let mut took = Vec::new();
    let mut out = Vec::new();
    for _ in 0..runs {
        let began = Instant::now();
        out = once()?;
        took.push(began.elapsed().as_secs_f64() * 1000.0);
    }
    let lines = String::from_utf8(out)?.lines().map(str::to_owned).collect();
    Ok((median(took), lines))
}

fn options(threads: usize) -> Options<'static> {
    let (now, seed) = now_and_seed();
    let mut options = Options::new(now, seed);
    options.threads = threads;
    options
}

fn written(answer: &engine::Answer<'_>) -> anyhow::Result<Vec<u8>> {
    let mut out = Vec::new();
    answer.write(Format::Tsv, &mut out)?;
    Ok(out)
}

fn query_local(data: &Dataset, text: &str, threads: usize) -> anyhow::Result<Vec<u8>> {
    let options = options(threads);
    written(&query(data, text, None, None, false, &options).map_err(error)?)
}

fn query_workers(coordinator: &Coordinator, text: &str, threads: usize) -> anyhow::Result<Vec<u8>> {
    let parsed = engine::syntax::query(text, None).map_err(error)?;
    let prepared = coordinator.prepare(&parsed, None, false, &|| None)?;
    let mut options = options(threads);
    options.input_bindings = &prepared.input_bindings;
    let answer = query_parsed(&prepared.data, text, &prepared.query, None, false, &options);
    written(&answer.map_err(error)?)
}
