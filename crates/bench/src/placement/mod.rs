//! `esker bench placement`: the costs of each placement on a graph, counted as in GraphMeta's section 6.4.2.
//!
//! Nothing is stored or timed. Suggested reading order: [`args`], [`edge_list`] and [`graph`] (the input), [`costs`] (the cost of
//! expanding each vertex under a placement), [`walk`] (scans and traversals), [`bands`] (the table), [`plot`] (the figures).

mod args;
mod bands;
mod costs;
mod edge_list;
mod graph;
#[cfg(test)]
mod oracle;
mod plot;
mod walk;

pub(crate) use args::PlacementBenchArgs;

use crate::source::GraphSource;
use args::TreeArg;
use bands::Bands;
use costs::{Cluster, Costs};
use esker_cluster::Kind;
use esker_model::Error;
use esker_terminal::args::RowFormat;
use esker_terminal::context::Context;
use esker_terminal::exit::{Outcome, usage};
use esker_terminal::progress::Progress;
use esker_terminal::units::{count, counted};
use graph::{PlacementGraph, Start};
use std::fs::File;
use std::io::{BufWriter, Write};
use std::path::Path;
use walk::Sample;

/// One start vertex under each placement.
pub(super) struct StartSamples {
    start: Start,
    /// Samples by placement, in the order of [`Figures::kinds`].
    samples: Vec<Sample>,
}

/// The results of all start vertices.
pub(super) struct Figures {
    kinds: Vec<Kind>,
    /// Start vertices by degree, ascending.
    measured: Vec<StartSamples>,
    /// Number of vertices of each degree.
    frequencies: Vec<(u32, u32)>,
    threshold: u64,
}

pub(crate) fn run(args: &PlacementBenchArgs, context: &mut Context) -> anyhow::Result<Outcome> {
    let kinds = distinct(&args.placements)?;
    let (source, seed) = seeded(&args.graph, args.seed);
    // Output files are created first, so that errors appear before the work.
    let json = args.json.as_deref().map(create).transpose()?;
    if let Some(folder) = &args.plot {
        std::fs::create_dir_all(folder)
            .map_err(|e| Error::io(format!("making the directory {}", folder.display()), e))?;
    }
    context.note(&format!("reading {}", source.name()));
    let edges = graph::edges(&source)?;
    if let Some(path) = &args.write_graph {
        graph::write(&edges, path)?;
    }
    let graph = PlacementGraph::new(&edges);
    drop(edges);
    context.note(&format!(
        "{} vertices, {} edges; {}{}, split threshold {}",
        count(graph.vertices() as u64),
        count(graph.edges() as u64),
        counted(args.servers.into(), "server", "servers"),
        args.vnodes.map_or(String::new(), |k| format!(
            ", {}",
            counted(k.into(), "virtual node", "virtual nodes")
        )),
        args.threshold
    ));
    let (figures, stopped) = measure(args, &kinds, &graph, seed, context)?;

    if let Some((path, out)) = json {
        write_json(&figures, out).map_err(writing(path))?;
        context.note(&format!("wrote {}", path.display()));
    }
    let bands = Bands::of(&figures);
    bands.print(args.format.format, context)?;
    if args.format.format == RowFormat::Table {
        bands.print_claims(&figures, context)?;
    }
    if let Some(folder) = &args.plot {
        for path in plot::draw(&figures, folder)? {
            context.note(&format!("wrote {}", path.display()));
        }
    }
    if stopped {
        context.warn("stopped before the end: vertices of some degrees are missing in the figures");
    }
    Ok(Outcome::partly_if(stopped))
}

/// Counts for all placements and start vertices. The flag says whether the work was interrupted.
fn measure(
    args: &PlacementBenchArgs,
    kinds: &[Kind],
    graph: &PlacementGraph,
    seed: u64,
    context: &Context,
) -> anyhow::Result<(Figures, bool)> {
    let cluster = Cluster::new(graph, args.servers, args.vnodes, args.home, seed)
        .map_err(|error| usage(format!("{error:#}")))?;
    let tree = args.tree.unwrap_or(match args.vnodes {
        None => TreeArg::Paper,
        Some(_) => TreeArg::Numbers,
    });
    let mut all = Vec::new();
    for kind in kinds {
        if context.interrupt.stopped().is_some() {
            return Err(Error::Interrupted.into());
        }
        let placement = cluster.placement(*kind, tree.order())?;
        all.push(Costs::new(graph, &cluster, &*placement, args.threshold));
    }
    let starts = graph.starts();
    let progress = Progress::files(context.globals.quiet, "traversals");
    progress.expect(starts.len() as u64);
    let samples = walk::samples(
        graph,
        &all,
        cluster.servers(),
        &starts,
        &context.interrupt,
        &progress,
    );
    let stopped = samples.iter().any(Option::is_none);
    let measured = starts.into_iter().zip(samples);
    let figures = Figures {
        kinds: all.iter().map(|costs| costs.kind).collect(),
        measured: measured
            .filter_map(|(start, samples)| {
                samples.map(|samples| StartSamples {
                    // From here on, vertices have the numbers of the list.
                    start: Start {
                        vertex: graph.numbers[start.vertex as usize],
                        ..start
                    },
                    samples,
                })
            })
            .collect(),
        frequencies: graph.frequencies(),
        threshold: args.threshold,
    };
    Ok((figures, stopped))
}

/// Returns the placements.
///
/// # Errors
/// Returns an error if a placement occurs twice.
fn distinct(kinds: &[Kind]) -> anyhow::Result<Vec<Kind>> {
    for (i, kind) in kinds.iter().enumerate() {
        if kinds.iter().take(i).any(|other| other == kind) {
            return Err(usage(format!("--placement names {kind} twice")));
        }
    }
    Ok(kinds.to_vec())
}

/// Returns the graph with its effective seed, and that seed.
fn seeded(source: &GraphSource, seed: Option<u64>) -> (GraphSource, u64) {
    let mut source = source.clone();
    match &mut source {
        GraphSource::Rmat { seed: own, .. } | GraphSource::Copurchase { seed: own } => {
            *own = seed.unwrap_or(*own);
            let seed = *own;
            (source, seed)
        }
        GraphSource::File(_) => (source, seed.unwrap_or(1)),
    }
}

fn create(path: &Path) -> anyhow::Result<(&Path, BufWriter<File>)> {
    let file = File::create(path).map_err(writing(path))?;
    Ok((path, BufWriter::new(file)))
}

fn writing(path: &Path) -> impl Fn(std::io::Error) -> Error {
    move |error| Error::io(format!("writing {}", path.display()), error)
}

/// Writes one JSON object per line: by placement, then by degree.
fn write_json(figures: &Figures, mut out: impl Write) -> std::io::Result<()> {
    for (i, kind) in figures.kinds.iter().enumerate() {
        for StartSamples { start, samples } in &figures.measured {
            let Some(sample) = samples.get(i) else {
                continue;
            };
            let object = serde_json::json!({
                "placement": kind.name(),
                "degree": start.degree,
                "vertex": start.vertex,
                "scan_statcomm": sample.scan.comm,
                "scan_statreads": sample.scan.reads,
                "travel_statcomm": sample.travel.comm,
                "travel_statreads": sample.travel.reads,
            });
            writeln!(out, "{object}")?;
        }
    }
    out.flush()
}
