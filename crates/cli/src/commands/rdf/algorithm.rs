//! `esker rdf algorithm`.

use super::remote::{self, DataLocation, locate};
use crate::args::{Algorithm, RdfAlgorithmArgs};
use esker::rdf::on_large_stack;
use esker::rdf::{engine, error, now_and_seed};
use esker_rdf::algorithm::{self, Network, Rank};
use esker_rdf::dictionary::Key;
use esker_rdf::parse::Loader;
use esker_rdf::{
    Answer, Dataset, Literal, NamedNode, NamedOrBlankNode, Options, RdfFormat, Term, Triple, query,
};
use esker_terminal::context::Context;
use esker_terminal::exit::{Outcome, usage};
use esker_terminal::output::{Cell, Rows};
use esker_terminal::sparql::term_text;
use esker_terminal::units;
use std::fmt::Write as _;

/// CONSTRUCT of all triples of the default graph.
const ALL: &str = "CONSTRUCT { ?s ?p ?o } WHERE { ?s ?p ?o }";
/// Prefix of the predicates of results.
const PREDICATE_PREFIX: &str = "urn:esker:algorithm:";

/// Results of an algorithm.
struct Results {
    columns: Vec<&'static str>,
    rows: Vec<(Term, Vec<Cell>)>,
    /// The results as triples, if the user asked for them.
    triples: Vec<Triple>,
    /// A summary for the user.
    note: String,
}

/// A value for each vertex.
enum Values {
    Parts(Vec<f64>),
    Counts(Vec<u64>),
    /// Numbers of groups of vertices.
    Groups(Vec<u32>),
}

pub(super) fn run(args: &RdfAlgorithmArgs, context: &mut Context) -> anyhow::Result<Outcome> {
    check(args)?;
    let interrupt = context.interrupt.clone();
    let stop = move || {
        interrupt
            .stopped()
            .map(esker_terminal::interrupt::Stopped::name)
    };
    let (now, seed) = now_and_seed();
    let mut options = Options::new(now, seed);
    options.threads = std::thread::available_parallelism().map_or(1, std::num::NonZero::get);
    options.memory = usize::try_from(context.globals.memory)
        .unwrap_or(usize::MAX)
        .max(4 << 30);
    options.stop = &stop;
    let pattern = args.pattern.as_deref().unwrap_or(ALL);
    let compute = |data: &Dataset, pattern: &str| {
        on_large_stack(|| {
            let answer = query(data, pattern, None, None, false, &options).map_err(rdf_error)?;
            compute(args, &answer, &options)
        })
    };
    match locate(&args.target, false, context)? {
        DataLocation::Local(database) => {
            let database = database.on_behalf_of(args.principal.principal.as_ref());
            let mut rdf = if args.into.is_some() {
                database.rdf_to_change()?
            } else {
                database.rdf()?
            };
            let data = rdf.query_data(pattern, None, &stop)?;
            let results = compute(&data, pattern)?;
            drop(data);
            print(args, &results, context)?;
            if let Some(graph) = &args.into {
                let sync = context.durability() == esker::Durability::Sync;
                let done = rdf.replace_graph(graph, &results.triples, sync)?;
                report_written(graph, done.added, context);
            }
        }
        // The server returns the graph; the algorithm runs in this process.
        DataLocation::Remote(place) => {
            on_large_stack(|| {
                // Errors in the pattern are reported before anything is sent.
                let nothing = Dataset::default();
                let answer =
                    query(&nothing, pattern, None, None, false, &options).map_err(rdf_error)?;
                Network::of(&answer, false).map(drop).map_err(rdf_error)
            })?;
            let triples =
                remote::construct(pattern, args.principal.principal.as_ref(), &place, context)?;
            let mut loader = Loader::new(Dataset::default(), "", false);
            let name = args.target.target.as_str();
            loader
                .read(name, &mut &*triples, RdfFormat::NTriples, None, None)
                .map_err(error)?;
            let (data, _) = loader.finish();
            drop(triples);
            let results = compute(&data, ALL)?;
            print(args, &results, context)?;
            if let Some(graph) = &args.into {
                let mut lines = String::new();
                let mut count = 0;
                for triple in &results.triples {
                    // The server would store a blank node of ours as another one.
                    if triple.subject.is_named_node() {
                        let _ = writeln!(lines, "{triple} .");
                        count += 1;
                    }
                }
                if count < results.triples.len() {
                    let left = (results.triples.len() - count) as u64;
                    let left = units::counted(left, "blank node", "blank nodes");
                    context.warn(&format!(
                        "results of {left} are left out: a blank node cannot be named in a request to a server"
                    ));
                }
                remote::put_graph(graph, lines.as_bytes(), &place, context)?;
                report_written(graph, count, context);
            }
        }
    }
    Ok(Outcome::Done)
}

fn compute(
    args: &RdfAlgorithmArgs,
    answer: &Answer<'_>,
    options: &Options<'_>,
) -> anyhow::Result<Results> {
    let network = Network::of(answer, args.undirected).map_err(rdf_error)?;
    let known = format!(
        "{}, {}",
        units::counted(network.len() as u64, "vertex", "vertices"),
        units::counted(network.edges() as u64, "edge", "edges")
    );
    let mut results = match args.algorithm {
        Algorithm::StPaths => paths(args, answer, &network, options)?,
        _ => vertices(args, answer, &network, options)?,
    };
    results.note = format!("{known}{}", results.note);
    Ok(results)
}

fn report_written(graph: &str, count: usize, context: &mut Context) {
    context.note(&format!(
        "<{graph}> holds {} now",
        units::counted(count as u64, "triple", "triples")
    ));
}

fn print(args: &RdfAlgorithmArgs, results: &Results, context: &mut Context) -> anyhow::Result<()> {
    context.note(&results.note);
    if args.into.is_some() {
        return Ok(());
    }
    let (out, style) = (&mut context.out, context.style);
    let mut rows = Rows::new(out, args.format.format, style, &results.columns);
    for (vertex, cells) in &results.rows {
        let mut row = cells.clone();
        // Rows of paths begin with number and step, and have values after the vertex.
        let at = if results.columns.first() == Some(&"vertex") {
            0
        } else {
            row.len()
        };
        row.insert(at, Cell::Text(term_text(vertex)));
        rows.row(row)?;
    }
    rows.finish()?;
    Ok(())
}

fn check(args: &RdfAlgorithmArgs) -> anyhow::Result<()> {
    for (name, iri) in [
        ("--into", &args.into),
        ("--from", &args.from),
        ("--to", &args.to),
    ] {
        if let Some(iri) = iri {
            engine::check_iri(iri).map_err(|e| {
                usage(format!(
                    "{name}: `{iri}` is not an IRI: {e}; expected one as in http://example.org/x"
                ))
            })?;
        }
    }
    if let Some(iri) = &args.into {
        esker::rdf::meta::check_target(iri)?;
    }
    if !(0.0..1.0).contains(&args.damping) {
        return Err(usage(format!(
            "--damping {}: expected a number from 0 to below 1",
            args.damping
        )));
    }
    if args.tolerance.is_nan() || args.tolerance <= 0.0 {
        return Err(usage(format!(
            "--tolerance {}: expected a number above 0",
            args.tolerance
        )));
    }
    if args.samples == Some(0) {
        return Err(usage("--samples 0: expected a number above 0"));
    }
    let paths = args.algorithm == Algorithm::StPaths;
    if paths && args.into.is_some() {
        return Err(usage(
            "--into writes a value of each vertex; st-paths gives none",
        ));
    }
    if paths && (args.from.is_none() || args.to.is_none()) {
        return Err(usage(
            "st-paths needs --from and --to: the IRIs of two vertices",
        ));
    }
    Ok(())
}

fn rdf_error(e: engine::Error) -> anyhow::Error {
    match e {
        e @ engine::Error::Stopped(_) => anyhow::anyhow!("{e}"),
        e => error(e).into(),
    }
}

fn vertices(
    args: &RdfAlgorithmArgs,
    answer: &Answer<'_>,
    network: &Network,
    options: &Options<'_>,
) -> anyhow::Result<Results> {
    let stop = options.stop;
    let (name, values, note) = match args.algorithm {
        Algorithm::Pagerank => {
            let how = Rank {
                damping: args.damping,
                tolerance: args.tolerance,
                rounds: args.iterations,
            };
            let (ranks, rounds) = algorithm::pagerank(network, how, stop).map_err(rdf_error)?;
            let rounds = units::counted(rounds as u64, "round", "rounds");
            ("pagerank", Values::Parts(ranks), format!("; {rounds}"))
        }
        Algorithm::Components => {
            let found = if args.strong {
                algorithm::strong(network, stop)
            } else {
                algorithm::weak(network, stop)
            }
            .map_err(rdf_error)?;
            let count = found.iter().max().map_or(0, |m| u64::from(*m) + 1);
            let note = format!("; {}", units::counted(count, "component", "components"));
            ("component", Values::Groups(found), note)
        }
        Algorithm::Communities => {
            let found = algorithm::communities(network, stop).map_err(rdf_error)?;
            let note = format!(
                "; {}, modularity {:.4}",
                units::counted(found.count as u64, "community", "communities"),
                found.modularity
            );
            ("community", Values::Groups(found.of), note)
        }
        Algorithm::Betweenness => {
            let (samples, seed) = (args.samples, args.seed);
            let found = algorithm::betweenness(network, samples, seed, options.threads, stop)
                .map_err(rdf_error)?;
            ("betweenness", Values::Parts(found), String::new())
        }
        Algorithm::Triangles | Algorithm::StPaths => {
            let counts = algorithm::triangles(network, stop).map_err(rdf_error)?;
            let all = units::counted(counts.iter().sum::<u64>() / 3, "triangle", "triangles");
            ("triangles", Values::Counts(counts), format!("; {all}"))
        }
    };
    let mut order: Vec<usize> = (0..network.len()).collect();
    let mut sizes = Vec::new();
    match &values {
        Values::Parts(list) => order.sort_by(|a, b| list[*b].total_cmp(&list[*a])),
        Values::Counts(list) => order.sort_by_key(|v| std::cmp::Reverse(list[*v])),
        Values::Groups(list) => {
            order.sort_by_key(|v| list[*v]);
            sizes = vec![0u64; network.len()];
            for group in list {
                sizes[*group as usize] += 1;
            }
        }
    }
    order.truncate(args.top.unwrap_or(usize::MAX));
    let mut results = Results {
        columns: vec!["vertex", name],
        rows: Vec::new(),
        triples: Vec::new(),
        note,
    };
    if !sizes.is_empty() {
        results.columns.push("size");
    }
    let predicate = NamedNode::new(format!("{PREDICATE_PREFIX}{name}"))?;
    for v in order {
        let Some(term) = network.vertices().get(v).and_then(|id| answer.term(*id)) else {
            continue;
        };
        let (cells, literal) = match &values {
            Values::Parts(list) => (vec![Cell::Value(list[v].into())], Literal::from(list[v])),
            Values::Counts(list) => (
                vec![Cell::Count(list[v])],
                Literal::from(i64::try_from(list[v]).unwrap_or(i64::MAX)),
            ),
            Values::Groups(list) => {
                let group = u64::from(list[v]);
                let size = sizes[list[v] as usize];
                (
                    vec![Cell::Count(group), Cell::Count(size)],
                    Literal::from(i64::from(list[v])),
                )
            }
        };
        if args.into.is_some() {
            let subject: NamedOrBlankNode = match term {
                Term::NamedNode(n) => n.into(),
                Term::BlankNode(b) => b.into(),
                Term::Literal(_) | Term::Triple(_) => continue,
            };
            results
                .triples
                .push(Triple::new(subject, predicate.clone(), literal));
        } else {
            results.rows.push((term, cells));
        }
    }
    Ok(results)
}

fn paths(
    args: &RdfAlgorithmArgs,
    answer: &Answer<'_>,
    network: &Network,
    options: &Options<'_>,
) -> anyhow::Result<Results> {
    let place = |iri: &Option<String>| -> anyhow::Result<usize> {
        let iri = iri.as_deref().unwrap_or_default();
        answer
            .find(&Key::Iri(iri))
            .and_then(|id| network.number_of(id))
            .ok_or_else(|| {
                usage(format!(
                    "<{iri}> is not a vertex of the graph, which has {}; a vertex is the subject \
                     or object of a triple that the pattern gives",
                    units::counted(network.len() as u64, "vertex", "vertices")
                ))
            })
    };
    let (from, to) = (place(&args.from)?, place(&args.to)?);
    let limit = args.top.unwrap_or(args.limit);
    let found = algorithm::shortest(network, from, to, limit, options.stop).map_err(rdf_error)?;
    let mut rows = Vec::new();
    for (n, path) in found.list.iter().enumerate() {
        for (step, v) in path.iter().enumerate() {
            let id = network.vertices().get(*v as usize);
            if let Some(term) = id.and_then(|id| answer.term(*id)) {
                let cells = vec![Cell::Count(n as u64 + 1), Cell::Count(step as u64)];
                rows.push((term, cells));
            }
        }
    }
    let mut note = match found.list.first() {
        Some(path) => format!(
            "; {} of {}",
            units::counted(found.count, "shortest path", "shortest paths"),
            units::counted(path.len() as u64 - 1, "edge", "edges")
        ),
        None => "; no path".into(),
    };
    if found.count > found.list.len() as u64 && !found.list.is_empty() {
        let printed = units::count(found.list.len() as u64);
        let _ = write!(note, ", of which the first {printed} are shown");
    }
    Ok(Results {
        columns: vec!["path", "step", "vertex"],
        rows,
        triples: Vec::new(),
        note,
    })
}
