//! `esker site replay`.

use super::{file_error, is_standard, write_to};
use crate::args::{CacheSize, SiteReplayArgs};
use esker_site_cache::predict::PredictorKind;
use esker_site_cache::replay::{Pace, ReplaySettings, Report, SimulatedOrigin, Tiers, run as play};
use esker_site_cache::trace::{Trace, Traces};
use esker_terminal::context::Context;
use esker_terminal::exit::{Outcome, usage};
use esker_terminal::output::{Cell, Rows};
use esker_terminal::units::counted;
use serde_json::{Value as Json, json};
use std::fs::File;
use std::io::{self, BufRead, BufReader};
use std::path::Path;

/// Result of one replay.
struct ReplayResult<'a> {
    predictor: PredictorKind,
    cache: &'a CacheSize,
    tiers: Tiers,
    report: Report,
}

pub(super) fn run(args: &SiteReplayArgs, context: &mut Context) -> anyhow::Result<Outcome> {
    let mut traces = Traces::new();
    let mut skipped = false;
    let mut read = |path: &Path| -> anyhow::Result<Trace> {
        let trace = read_trace(path, args, &mut traces)?;
        if let Some(first) = &trace.first_skipped {
            skipped = true;
            context.warn(&format!(
                "{}: {} skipped; {first}",
                path.display(),
                counted(trace.skipped, "malformed line", "malformed lines"),
            ));
        }
        Ok(trace)
    };
    let training = match &args.train {
        Some(path) => read(path)?.events,
        None => Vec::new(),
    };
    let events = read(&args.trace)?.events;
    if !events.iter().any(|e| e.op.reads()) {
        return Err(usage(format!(
            "{}: no line of it reads anything (list, stat, open)",
            args.trace.display()
        )));
    }
    let origin = SimulatedOrigin::before(&events, &traces);
    let interrupt = context.interrupt.clone();
    let stop = || interrupt.stopped().is_some();
    let mut played = Vec::new();
    'all: for tiers in &args.tiers {
        for cache in &args.cache {
            for predictor in &args.predictor {
                let settings = ReplaySettings {
                    predictor: *predictor,
                    threshold: args.threshold,
                    policy: args.policy,
                    edge_bytes: cache.size.bytes(&events, &traces),
                    fog_bytes: args.fog_cache.size.bytes(&events, &traces),
                    tiers: *tiers,
                    edges: args.edges,
                    rtt: args.rtt,
                    services: args.services as usize,
                    pace: if args.closed {
                        Pace::Closed
                    } else {
                        Pace::Open
                    },
                };
                context.note(&format!(
                    "{predictor}, cache {} ({}), {}",
                    cache.text,
                    esker_terminal::units::size(settings.edge_bytes),
                    tiers.name()
                ));
                let report = play(&settings, &events, &training, &mut traces, &origin, &stop);
                if report.stopped {
                    break 'all;
                }
                played.push(ReplayResult {
                    predictor: *predictor,
                    cache,
                    tiers: *tiers,
                    report,
                });
            }
        }
    }
    if let Some(path) = &args.json {
        write_to(path, context, |out| {
            for line in &played {
                writeln!(out, "{}", line.json())?;
            }
            Ok(())
        })?;
    }
    // Table and JSON cannot both be on standard output.
    if !args.json.as_deref().is_some_and(is_standard) {
        print(&played, args, context)?;
    }
    let stopped = stop();
    if stopped {
        context.warn("stopped before the end: the figures are those that were complete");
    }
    Ok(Outcome::partly_if(skipped || stopped))
}

fn read_trace(path: &Path, args: &SiteReplayArgs, traces: &mut Traces) -> anyhow::Result<Trace> {
    let mut read = || {
        let from: Box<dyn BufRead> = if is_standard(path) {
            Box::new(BufReader::new(io::stdin()))
        } else {
            Box::new(BufReader::with_capacity(1 << 16, File::open(path)?))
        };
        traces.read(from, args.trace_format, args.lenient, None)
    };
    let name = path.display();
    let trace = read().map_err(|e| file_error("reading", path, e))?;
    trace.map_err(|error| usage(format!("{name}: {error}; --lenient skips malformed lines")))
}

fn print(
    played: &[ReplayResult],
    args: &SiteReplayArgs,
    context: &mut Context,
) -> anyhow::Result<()> {
    let columns = &[
        "predictor",
        "cache",
        "tiers",
        "reads",
        "hit_rate",
        "mean_latency_ms",
        "fetched",
        "prefetched",
        "prefetched_used",
        "by_listing",
        "absent",
        "failed",
        "at_origin",
        "seconds",
    ];
    let mut rows = Rows::new(&mut context.out, args.format.format, context.style, columns);
    let float = |value: f64, digits: usize| {
        let text = format!("{value:.digits$}");
        Cell::Json(text.parse::<f64>().map_or(Json::Null, Json::from), text)
    };
    for line in played {
        let report = &line.report;
        rows.row(vec![
            line.predictor.name().into(),
            line.cache.text.as_str().into(),
            line.tiers.name().into(),
            Cell::Count(report.reads),
            float(report.hit_rate(), 4),
            float(report.mean_latency_ms, 3),
            Cell::Count(report.fetched),
            Cell::Count(report.prefetched),
            Cell::Count(report.prefetched_used),
            Cell::Count(report.by_listing),
            Cell::Count(report.absent),
            Cell::Count(report.failed),
            Cell::Count(report.at_origin),
            float(report.seconds, 1),
        ])?;
    }
    rows.finish()?;
    if let Some(failed) = played.iter().map(|p| p.report.failed).find(|f| *f > 0) {
        context.warn(&format!(
            "{} got no answer, because too many requests waited: use more --services",
            counted(failed, "read", "reads")
        ));
    }
    Ok(())
}

impl ReplayResult<'_> {
    fn json(&self) -> Json {
        json!({
            "predictor": self.predictor.name(),
            "cache": self.cache.text,
            "tiers": self.tiers.name(),
            "hit_rate": self.report.hit_rate(),
            "mean_latency_ms": self.report.mean_latency_ms,
            "fetched": self.report.fetched,
            "prefetched": self.report.prefetched,
            "prefetched_used": self.report.prefetched_used,
        })
    }
}
