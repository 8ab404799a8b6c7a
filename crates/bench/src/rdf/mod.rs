//! `esker bench rdf`: loading RDF and answering SPARQL queries, compared with other stores on the same files.
//!
//! Suggested reading order: [`args`], [`provenance`] and [`functions`] (generated data), [`peers`] (other stores), then [`run`];
//! [`updates`] measures a server, [`workers`] several processes.

mod args;
mod functions;
mod peers;
mod provenance;
mod updates;
mod workers;

pub(crate) use args::RdfBenchArgs;

use super::machine;
use super::report::{Figure, Report, Unit, median};
use super::scratch::Scratch;
use anyhow::Context as _;
use esker::rdf::on_large_stack;
use esker::rdf::{engine, error, now_and_seed};
use esker_rdf::parse::Loader;
use esker_rdf::{Dataset, Format, Options, query};
use esker_terminal::context::Context;
use esker_terminal::exit::{Outcome, usage};
use esker_terminal::units;
use peers::{Answer, RdfPeer};
use serde_json::json;
use std::fmt::Write as _;
use std::io::{BufWriter, Write as _};
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

/// Minimum time over which repetitions of a fast query are measured, because the processor clock has coarse steps.
const ENOUGH: Duration = Duration::from_millis(200);

/// A file and its format.
type Source = (PathBuf, engine::RdfFormat);

/// The measurements of a query.
struct QueryTimes {
    cpu_ms: f64,
    wall_ms: f64,
    rows: usize,
    bytes: usize,
}

pub(crate) fn run(args: &RdfBenchArgs, context: &mut Context) -> anyhow::Result<Outcome> {
    if let Some(updates) = args.updates {
        return updates::run(args, updates, context);
    }
    let scratch = Scratch::make(&args.directory, args.keep)?;
    let (data, queries) = inputs(args, &scratch)?;
    let threads = args.threads.map_or_else(machine::cores, usize::from);
    let mut report = Report::new("rdf");
    if let Some(count) = args.workers {
        return workers::run(args, count, (&scratch, &data, &queries), context);
    }
    let peers = run_peers(args, &data, &queries, context)?;
    context.note("loading");
    let dataset = load(&data, threads, &mut report, &peers)?;
    let interrupt = context.interrupt.clone();
    let mut differ = Vec::new();
    let mut means: Vec<(f64, f64)> = Vec::new();
    let mut stopped = false;
    for path in &queries {
        if interrupt.stopped().is_some() {
            stopped = true;
            break;
        }
        let name = name_of(path);
        let text =
            std::fs::read_to_string(path).with_context(|| format!("reading {}", path.display()))?;
        context.note(&format!("asking {name}"));
        let deadline =
            Instant::now() + Duration::from_secs(u64::from(args.query_timeout)) * (args.runs + 1);
        let until = &interrupt;
        let stop = move || match until.stopped() {
            Some(why) => Some(why.name()),
            None => (Instant::now() > deadline).then_some("it took longer than --query-timeout"),
        };
        let took = on_large_stack(|| measure(&dataset, &text, args.runs, threads, &stop))
            .with_context(|| format!("query {}", path.display()))?;
        add(&name, &took, &peers, &mut report, &mut differ, &mut means);
    }
    if means.len() > 1 {
        let mean = |pick: fn(&(f64, f64)) -> f64| {
            let sum: f64 = means.iter().map(|m| pick(m).max(1e-6).ln()).sum();
            (sum / means.len() as f64).exp()
        };
        report.add(
            Figure::new("geometric mean", Unit::CpuMillis, mean(|m| m.0))
                .raw(mean(|m| m.1))
                .note(format!(
                    "of the {} queries that a peer answered",
                    means.len()
                )),
        );
    }
    let settings = json!({
        "data": data.iter().map(|d| d.0.display().to_string()).collect::<Vec<_>>(),
        "runs": args.runs,
        "threads": threads,
        "peers": args.peers.iter().map(|p| &p.0).collect::<Vec<_>>(),
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

/// Returns the data files and the query files, given or generated.
fn inputs(args: &RdfBenchArgs, scratch: &Scratch) -> anyhow::Result<(Vec<Source>, Vec<PathBuf>)> {
    if args.data.is_empty() {
        let folder = scratch.cleared_path("rdf")?;
        std::fs::create_dir(&folder)?;
        let data = folder.join("generated.nt");
        let mut out = BufWriter::new(std::fs::File::create(&data)?);
        if let Some(rows) = args.functions {
            functions::write(rows, &mut out)?;
            out.flush()?;
            let queries = functions::write_queries(&folder)?;
            return Ok((vec![(data, engine::RdfFormat::NTriples)], queries));
        }
        provenance::write(args.runs_of, &mut out)?;
        out.flush()?;
        let mut queries = Vec::new();
        for (name, text) in provenance::QUERIES {
            let path = folder.join(format!("{name}.rq"));
            std::fs::write(&path, text)?;
            queries.push(path);
        }
        return Ok((vec![(data, engine::RdfFormat::NTriples)], queries));
    }
    let mut data = Vec::new();
    for path in &args.data {
        data.extend(esker::rdf::files(path)?);
    }
    let mut queries = Vec::new();
    for path in &args.query {
        if path.is_dir() {
            let mut inside: Vec<PathBuf> = std::fs::read_dir(path)
                .and_then(|list| list.map(|e| e.map(|e| e.path())).collect())
                .with_context(|| format!("reading {}", path.display()))?;
            inside.retain(|p| p.extension().is_some_and(|e| e == "rq"));
            inside.sort();
            if inside.is_empty() {
                return Err(usage(format!(
                    "--query: no file in {} ends in .rq",
                    path.display()
                )));
            }
            queries.extend(inside);
        } else {
            queries.push(path.clone());
        }
    }
    Ok((data, queries))
}

fn name_of(path: &Path) -> String {
    path.file_stem()
        .map_or_else(String::new, |s| s.to_string_lossy().into_owned())
}

fn run_peers(
    args: &RdfBenchArgs,
    data: &[Source],
    queries: &[PathBuf],
    context: &Context,
) -> anyhow::Result<Vec<RdfPeer>> {
    let data: Vec<PathBuf> = data.iter().map(|d| d.0.clone()).collect();
    let mut peers = Vec::new();
    for peer in &args.peers {
        context.note(&format!("peer {}", peer.0));
        let check_interrupt = || match context.interrupt.stopped() {
            Some(_) => Err(esker_model::Error::Interrupted.into()),
            None => Ok(()),
        };
        peers.push(peers::run(
            peer,
            &data,
            queries,
            (args.runs, args.query_timeout),
            check_interrupt,
        )?);
    }
    Ok(peers)
}

fn load(
    data: &[Source],
    threads: usize,
    report: &mut Report,
    peers: &[RdfPeer],
) -> anyhow::Result<Dataset> {
    let (began, cpu) = (Instant::now(), machine::process_seconds());
    let mut loader = Loader::new(Dataset::default(), "b", false);
    loader.on_threads(if threads > 1 { threads } else { 0 });
    for (path, format) in data {
        let mut from = esker::rdf::open(path)?;
        let base = format!("file://{}", path.display());
        loader
            .read(
                &path.display().to_string(),
                &mut from,
                *format,
                None,
                Some(&base),
            )
            .map_err(error)?;
    }
    let (dataset, loaded) = loader.finish();
    let (wall, cpu) = (
        began.elapsed().as_secs_f64(),
        machine::process_seconds() - cpu,
    );
    let quads = dataset.len().max(1) as f64;
    let best = peers.iter().filter_map(|p| p.load).reduce(f64::min);
    let mut figure = Figure::new("load", Unit::CpuSeconds, cpu).note(format!(
        "{} read, {} kept; {:.0}/s by the clock{}",
        units::count(loaded.read),
        units::count(dataset.len() as u64),
        loaded.read as f64 / wall,
        peer_results(peers, |p| p.load.map(|s| format!("{s:.2} s")))
    ));
    if let Some(best) = best {
        figure = figure.raw(best);
    }
    report.add(figure);
    let bytes = (dataset.quad_bytes() + dataset.dictionary.bytes()) as f64;
    report.add(
        Figure::new("memory", Unit::BytesPerQuad, bytes / quads).note(format!(
            "{:.1} of columns, {:.1} of terms",
            dataset.quad_bytes() as f64 / quads,
            dataset.dictionary.bytes() as f64 / quads
        )),
    );
    Ok(dataset)
}

/// Returns the peers' results, for display.
fn peer_results(peers: &[RdfPeer], say: impl Fn(&RdfPeer) -> Option<String>) -> String {
    peers.iter().fold(String::new(), |mut text, peer| {
        if let Some(said) = say(peer) {
            let _ = write!(text, "; {} {said}", peer.name);
        }
        text
    })
}

fn measure(
    dataset: &Dataset,
    text: &str,
    runs: u32,
    threads: usize,
    stop: &(dyn Fn() -> Option<&'static str> + Sync),
) -> anyhow::Result<QueryTimes> {
    let (now, seed) = now_and_seed();
    let mut options = Options::new(now, seed);
    options.threads = threads;
    options.stop = stop;
    let mut out = Vec::new();
    let mut rows = 0;
    let mut once = || -> engine::Result<()> {
        let answer = query(dataset, text, None, None, false, &options)?;
        out.clear();
        answer
            .write(Format::Json, &mut out)
            .map_err(|e| engine::Error::Unsupported(e.to_string()))?;
        rows = answer.len();
        Ok(())
    };
    once().map_err(error)?;
    let (mut cpu, mut wall) = (Vec::new(), Vec::new());
    for _ in 0..runs {
        let (began, before) = (Instant::now(), machine::process_seconds());
        let mut times = 0;
        while times == 0 || began.elapsed() < ENOUGH {
            once().map_err(error)?;
            times += 1;
        }
        let each = |seconds: f64| seconds * 1000.0 / f64::from(times);
        wall.push(each(began.elapsed().as_secs_f64()));
        cpu.push(each(machine::process_seconds() - before));
    }
    Ok(QueryTimes {
        cpu_ms: median(cpu),
        wall_ms: median(wall),
        rows,
        bytes: out.len(),
    })
}

/// Adds one query's figure with the peers'; differing row counts are reported.
fn add(
    name: &str,
    took: &QueryTimes,
    peers: &[RdfPeer],
    report: &mut Report,
    differ: &mut Vec<String>,
    means: &mut Vec<(f64, f64)>,
) {
    let mut best: Option<f64> = None;
    for peer in peers {
        if let Some(Answer::Took(ms, rows)) = peer.answers.get(name) {
            best = Some(best.map_or(*ms, |b| b.min(*ms)));
            if let Some(rows) = rows.filter(|r| *r != took.rows as u64) {
                differ.push(format!(
                    "{name}: {} counts {rows} rows, Esker {}",
                    peer.name, took.rows
                ));
            }
        }
    }
    let note = format!(
        "{}, {}; {:.3} ms by the clock{}",
        units::counted(took.rows as u64, "row", "rows"),
        units::size(took.bytes as u64),
        took.wall_ms,
        peer_results(peers, |p| p.answers.get(name).map(|a| match a {
            Answer::Took(ms, _) => format!("{ms:.2} ms"),
            Answer::Failed(why) => why.clone(),
        }))
    );
    let mut figure = Figure::new(name, Unit::CpuMillis, took.cpu_ms).note(note);
    if let Some(best) = best {
        figure = figure.raw(best);
        means.push((took.cpu_ms, best));
    }
    report.add(figure);
}
