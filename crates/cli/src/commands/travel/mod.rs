//! `esker travel`: runs a chain, prints working sets or paths, and says whether they are complete.
//!
//! [`paths`] enumerates paths lazily from the graph of parent pointers, because a few vertices can be connected by more paths than fit in
//! memory.

mod graph;
mod paths;
mod profile;
mod sets;

use super::is_interrupted;
use crate::args::{GraphFormat, TravelArgs};
use crate::times::now_nanos;
use anyhow::Context as _;
use esker::Database;
use esker_model::namespace::resolve;
use esker_model::traversal::{Budget, Start, Stop, StopReason, TravelResult, Traversal};
use esker_model::{GraphRead as _, Schema, Version};
use esker_terminal::context::Context;
use esker_terminal::exit::{Outcome, Usage, usage};
use esker_terminal::step_chart;
use esker_terminal::units::counted;
use serde_json::{Value as Json, json};
use std::io::Read as _;
use std::path::Path;

pub(crate) fn run(args: &TravelArgs, context: &mut Context) -> anyhow::Result<Outcome> {
    let text = match (&args.chain, &args.file) {
        (Some(chain), _) => chain.clone(),
        (None, Some(file)) => read_chain(file)?,
        (None, None) => return Err(usage("expected a chain, or -f FILE")),
    };
    let traversal = Traversal::parse_at(&text, now_nanos()).map_err(|e| Usage(e.render(&text)))?;
    let database = context
        .open(&args.target)?
        .on_behalf_of(args.principal.principal.as_ref());
    let schema = database.schema()?;
    traversal.check_possible(&schema)?;
    if args.explain {
        let plan = esker::explain(&schema, &traversal)?;
        writeln!(context.out, "{}", plan.trim_end())?;
        return Ok(Outcome::Done);
    }
    let budget = Budget {
        steps: args.depth,
        edges: args.max_edges,
        bytes: args.max_memory,
        millis: context
            .globals
            .timeout
            .map(|t| u64::try_from(t.as_millis()).unwrap_or(u64::MAX)),
        strategy: args.engine,
    };
    let result = match database.travel(&traversal, &budget, &context.interrupt) {
        Err(error) if is_interrupted(&error) => {
            return Err(anyhow::anyhow!("interrupted before anything was found"));
        }
        result => result?,
    };
    let printing = PrintState {
        database: &database,
        schema: &schema,
        traversal: &traversal,
        result: &result,
        profile: args.profile,
    };
    match &result.paths {
        Some(_) => paths::print(&printing, args, context)?,
        None => sets::print(&printing, args.format, context)?,
    }
    if args.profile && args.format != GraphFormat::Json {
        // Results are on stdout, where programs read them, so the profile goes to stderr.
        context.out.flush()?;
        profile::print(&result, context)?;
    }
    if let Some(file) = &args.profile_svg {
        step_chart::draw(&result, &text, file, context)?;
    }
    context.out.flush()?;
    let started = warn_missing_start(&printing, context)?;
    Ok(started.and(print_summary(&result, context)))
}

/// State of the printers of sets and paths.
struct PrintState<'a> {
    database: &'a Database,
    schema: &'a Schema,
    traversal: &'a Traversal,
    result: &'a TravelResult,
    profile: bool,
}

impl PrintState<'_> {
    /// Returns the start of the chain as JSON: a name, a list of names, or `type=T`.
    fn target(&self) -> Json {
        let name = |n: &esker_model::VertexName| Json::from(n.to_string());
        match &self.traversal.start {
            Start::Type(name) => json!(format!("type={name}")),
            Start::Vertices(names) => match names.as_slice() {
                [one] => name(one),
                many => many.iter().map(name).collect(),
            },
        }
    }

    /// Returns the first keys of every JSON answer.
    fn head(&self) -> serde_json::Map<String, Json> {
        let stopped: Vec<Json> = self.result.stopped.iter().map(stop_json).collect();
        let mut head = serde_json::Map::new();
        head.insert("target".into(), self.target());
        head.insert("complete".into(), self.result.complete.into());
        head.insert("stopped".into(), stopped.into());
        head
    }
}

fn stop_json(stop: &Stop) -> Json {
    json!({
        "reason": stop.reason.name(),
        "step": stop.step,
        "vertices_left": stop.vertices_left,
    })
}

fn read_chain(file: &Path) -> anyhow::Result<String> {
    if file == Path::new("-") {
        let mut text = String::new();
        std::io::stdin()
            .read_to_string(&mut text)
            .context("reading the chain from standard input")?;
        return Ok(text);
    }
    std::fs::read_to_string(file)
        .map_err(|e| usage(format!("reading the chain from {}: {e}", file.display())))
}

/// Warns if a start vertex does not exist, because the result looks like that of one without edges.
fn warn_missing_start(printing: &PrintState<'_>, context: &Context) -> anyhow::Result<Outcome> {
    let Start::Vertices(names) = &printing.traversal.start else {
        return Ok(Outcome::Done);
    };
    let starts = resolve(
        printing.database,
        printing.database.principal(),
        printing.schema,
        names,
    )?;
    let ids: Vec<_> = starts.iter().map(|v| v.id).collect();
    let as_of = printing.traversal.as_of.unwrap_or(Version::MAX);
    let vertices = printing.database.read_vertices(&ids, as_of)?;
    let mut outcome = Outcome::Done;
    for (name, vertex) in names.iter().zip(vertices) {
        let when = match printing.traversal.as_of {
            Some(time) => format!(" as of {}", crate::times::format_version(time)),
            None => String::new(),
        };
        if vertex.is_none_or(|v| v.deleted) {
            context.complain(&format!("no vertex `{name}`{when} to start from"));
            outcome = Outcome::Partly;
        }
    }
    Ok(outcome)
}

/// Prints the summary on stderr. A stop by the chain or `--depth` is no failure; one by a budget is.
fn print_summary(result: &TravelResult, context: &Context) -> Outcome {
    let edges: u64 = result.profile.iter().map(|p| p.edges).sum();
    let steps = result.profile.len() as u64;
    let work = format!(
        "{}, {} looked at",
        counted(steps, "step", "steps"),
        counted(edges, "edge", "edges")
    );
    if result.complete {
        context.note(&format!("complete: {work}"));
        return Outcome::Done;
    }
    let stops: Vec<_> = result
        .stopped
        .iter()
        .map(|stop| {
            format!(
                "{} in step {}, {} not followed",
                stop.reason.name(),
                stop.step,
                counted(stop.vertices_left, "vertex", "vertices")
            )
        })
        .collect();
    let text = format!("not complete: {} ({work})", stops.join("; "));
    let asked_for = result.stopped.iter().all(|s| match s.reason {
        StopReason::Limit | StopReason::Depth => true,
        StopReason::Edges | StopReason::Bytes | StopReason::TimeOut | StopReason::Interrupted => {
            false
        }
    });
    if asked_for {
        context.note(&text);
        Outcome::Done
    } else {
        context.warn(&text);
        Outcome::Partly
    }
}
