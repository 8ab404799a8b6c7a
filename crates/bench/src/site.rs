//! `esker bench site`: the latency of a site-cache hit, the hit rate of a tier, and the rate of trace replay.

mod tier;

use super::machine;
use super::report::{Figure, FigureTarget, Report, Unit, median};
use super::scratch::Scratch;
use clap::Args;
use esker_site_cache::entry::{Answer, Attributes, Kind, Request};
use esker_site_cache::path::Paths;
use esker_site_cache::predict::PredictorKind;
use esker_site_cache::queue::Class;
use esker_site_cache::replay::{ReplaySettings, SimulatedOrigin, Size, run as play};
use esker_site_cache::tier::{Fetched, Output, Reply, Requester, Tier, TierRequest, TierSettings};
use esker_site_cache::trace::{Traces, yahoo};
use esker_terminal::args::FormatArgs;
use esker_terminal::context::Context;
use esker_terminal::exit::{Outcome, usage};
use serde_json::json;
use std::path::PathBuf;
use std::time::{Duration, Instant};

#[derive(Debug, Args)]
#[command(after_help = "Examples:\n  \
                  esker bench site --operations 1000000\n  \
                  esker bench site --operations 100000 --rounds 1 --json site.json")]
pub(crate) struct SiteBenchArgs {
    /// Reads of the Yahoo!-like trace, and number of hits
    #[arg(long, value_name = "N", default_value_t = 1_000_000, value_parser = clap::value_parser!(u32).range(1000..=10_000_000))]
    operations: u32,
    /// Number of measurements
    #[arg(long, value_name = "N", default_value_t = 3, value_parser = clap::value_parser!(u32).range(1..=100))]
    rounds: u32,
    /// Directory for the scratch folder with the files that a tier serves
    #[arg(long, value_name = "DIRECTORY", default_value = ".")]
    directory: PathBuf,
    /// Write the figures as JSON to this file
    #[arg(long, value_name = "FILE")]
    json: Option<PathBuf>,
    #[command(flatten)]
    format: FormatArgs,
}

/// Paths that are requested repeatedly.
const PATHS: u32 = 100_000;

pub(super) fn run(args: &SiteBenchArgs, context: &mut Context) -> anyhow::Result<Outcome> {
    let mut report = Report::new("site");
    context.note("hits");
    let hits = (0..args.rounds).map(|_| hit(args.operations));
    let hits: Vec<f64> = hits.collect::<anyhow::Result<_>>()?;
    report.add(
        Figure::new("a hit in the library", Unit::Micros, median(hits))
            .target(FigureTarget::AtMost(5.0))
            .note("path by name, one of 100,000 in the cache"),
    );
    context.note("a tier");
    tiers(args, &mut report)?;
    context.note("a trace like Yahoo!'s");
    let mut traces = Traces::new();
    let made = yahoo::GeneratorSettings::of(u64::from(args.operations));
    let events = yahoo::make(&mut traces, made).map_err(|e| usage(e.to_string()))?;
    let origin = SimulatedOrigin::before(&events, &traces);
    let bytes = Size::Percent(10.0).bytes(&events, &traces);
    let interrupt = context.interrupt.clone();
    let stop = || interrupt.stopped().is_some();
    for predictor in [
        PredictorKind::Lru,
        PredictorKind::Guarded,
        PredictorKind::Learned,
    ] {
        let settings = ReplaySettings {
            predictor,
            edge_bytes: bytes,
            ..ReplaySettings::default()
        };
        let mut rates = Vec::new();
        for _ in 0..args.rounds {
            let before = machine::process_seconds();
            let played = play(&settings, &events, &[], &mut traces, &origin, &stop);
            if played.stopped {
                context.warn("stopped before the end");
                return Ok(Outcome::Partly);
            }
            rates.push(events.len() as f64 / (machine::process_seconds() - before));
        }
        report.add(
            Figure::new(
                format!("replay, {predictor}, cache 10%"),
                Unit::CallsPerSecond,
                median(rates),
            )
            .target(FigureTarget::AtLeast(1e6))
            .note("operations a second of processor time"),
        );
    }
    let settings = json!({ "operations": args.operations, "rounds": args.rounds });
    report.print(
        &settings,
        (args.format.format, args.json.as_deref()),
        context,
    )?;
    Ok(Outcome::Done)
}

/// Measures hits of a tier that serves on this machine.
fn tiers(args: &SiteBenchArgs, report: &mut Report) -> anyhow::Result<()> {
    const TIME: Duration = Duration::from_secs(2);
    const LINKS: [(usize, usize); 3] = [(1, 1), (1, 256), (4, 256)];
    let directory = std::path::absolute(&args.directory)?;
    let scratch = Scratch::make(&directory, false)?;
    let folder = scratch.cleared_path("files")?;
    let runtime = tokio::runtime::Builder::new_multi_thread()
        .enable_all()
        .build()?;
    let warm = runtime.block_on(tier::WarmTier::start(&folder))?;
    for (links, in_flight) in LINKS {
        let rates = (0..args.rounds).map(|_| runtime.block_on(warm.links(links, in_flight, TIME)));
        let rates: Vec<f64> = rates.collect::<anyhow::Result<_>>()?;
        let case = format!("a tier, {links} links, {in_flight} in flight");
        let mut figure = Figure::new(case, Unit::CallsPerSecond, median(rates));
        if in_flight > 1 {
            figure = figure.target(FigureTarget::AtLeast(1e5));
        }
        report.add(figure.note("client and tier on the same processors"));
    }
    let rates = (0..args.rounds).map(|_| runtime.block_on(warm.http(64, TIME)));
    let rates: Vec<f64> = rates.collect::<anyhow::Result<_>>()?;
    report.add(
        Figure::new(
            "a tier, HTTP, 64 connections",
            Unit::CallsPerSecond,
            median(rates),
        )
        .note("connections are kept, one request at a time on each"),
    );
    runtime.block_on(warm.stop());
    Ok(())
}

/// Returns the microseconds of a hit, with the path looked up by name.
fn hit(operations: u32) -> anyhow::Result<f64> {
    let mut paths = Paths::new();
    let root = paths.origin("sftp://far");
    let mut tier = Tier::new(TierSettings {
        capacity: 1 << 30,
        predictor: PredictorKind::Guarded.make(None),
        ..TierSettings::default()
    });
    let names: Vec<String> = (0..PATHS)
        .map(|i| format!("/data/run{:03}/part-{i:06}.h5", i % 317))
        .collect();
    let mut out = Vec::new();
    let ask = |request| TierRequest {
        requester: Requester::Client(0),
        ticket: 0,
        request,
        class: Class::Fetch,
        max_age: None,
        stale_if_error: false,
    };
    for name in &names {
        let path = paths.intern(root, name.as_bytes())?;
        tier.request(0, ask(Request::stat(path)), &paths, &mut out);
        while let Some(output) = out.pop() {
            if let Output::Send { sent, .. } = output {
                let answer = Answer::present(Attributes::of(Kind::File), 0);
                tier.handle_response(0, sent.run, Fetched::Answer(answer), &paths, &mut out);
            }
        }
    }
    let began = Instant::now();
    let mut missed = 0_u32;
    for i in 0..operations {
        let name = &names[(i.wrapping_mul(2_654_435_761) % PATHS) as usize];
        let path = paths.intern(root, name.as_bytes())?;
        let reply = tier.request(1, ask(Request::stat(path)), &paths, &mut out);
        missed += u32::from(!matches!(reply, Reply::Answer(_)));
    }
    let micros = began.elapsed().as_secs_f64() * 1e6 / f64::from(operations);
    anyhow::ensure!(missed == 0, "{missed} of the reads were no hits");
    Ok(micros)
}
