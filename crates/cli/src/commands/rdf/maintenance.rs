//! `esker rdf checkpoint`, `dump`, `stats`, `drop`.

use super::remote::{self, DataLocation, locate};
use crate::args::{DumpFormat, RdfDumpArgs, RdfPlainArgs, RdfStatsArgs, RowFormat};
use esker::rdf::meta::RequestedGraphs;
use esker_rdf::dictionary::Key;
use esker_rdf::id::UNBOUND;
use esker_rdf::{Dataset, RdfFormat, dump as write};
use esker_terminal::context::Context;
use esker_terminal::exit::{Outcome, usage};
use esker_terminal::output::{Cell, Rows, report};
use esker_terminal::units;

pub(super) fn checkpoint(args: &RdfPlainArgs, context: &mut Context) -> anyhow::Result<Outcome> {
    let database = match locate(&args.target, false, context)? {
        DataLocation::Remote(place) => return remote::checkpoint(args, &place, context),
        DataLocation::Local(database) => database,
    };
    let mut rdf = database.rdf_to_change()?;
    let bytes = rdf.checkpoint()?;
    print_checkpoint(asserted(rdf.data()), bytes, args.format.format, context)
}

pub(super) fn print_checkpoint(
    quads: u64,
    bytes: u64,
    format: RowFormat,
    context: &mut Context,
) -> anyhow::Result<Outcome> {
    let sentence = format!(
        "{} in an image of {}",
        units::counted(quads, "quad", "quads"),
        units::size(bytes)
    );
    let cells = vec![Cell::Count(quads), Cell::Count(bytes)];
    report(context, format, &sentence, &["quads", "bytes"], cells)?;
    Ok(Outcome::Done)
}

pub(super) fn drop_all(args: &RdfPlainArgs, context: &mut Context) -> anyhow::Result<Outcome> {
    let database = match locate(&args.target, false, context)? {
        DataLocation::Remote(place) => return remote::drop_all(args, &place, context),
        DataLocation::Local(database) => database,
    };
    let mut rdf = database.rdf_to_change()?;
    let quads = asserted(rdf.data());
    rdf.drop_all()?;
    let sentence = format!("dropped {}", units::counted(quads, "quad", "quads"));
    report(
        context,
        args.format.format,
        &sentence,
        &["dropped"],
        vec![Cell::Count(quads)],
    )?;
    Ok(Outcome::Done)
}

pub(super) fn dump(args: &RdfDumpArgs, context: &mut Context) -> anyhow::Result<Outcome> {
    let database = match locate(&args.target, false, context)? {
        DataLocation::Remote(place) => return remote::dump(args, &place, context),
        DataLocation::Local(database) => database,
    };
    let database = database.on_behalf_of(args.principal.principal.as_ref());
    let mut rdf = database.rdf()?;
    let wanted = match args.graph.as_deref() {
        Some(iri) => RequestedGraphs::of_graph(iri)?,
        None => RequestedGraphs::default(),
    };
    let interrupt = context.interrupt.clone();
    let stop = || {
        interrupt
            .stopped()
            .map(esker_terminal::interrupt::Stopped::name)
    };
    let all = rdf.with_meta(&wanted, &stop)?;
    let asserted;
    let data = if args.inferred {
        &all
    } else {
        asserted = all.asserted();
        &asserted
    };
    let graph = match args.graph.as_deref() {
        None => None,
        Some("default") => Some(UNBOUND),
        Some(iri) => Some(
            data.dictionary
                .find(&Key::Iri(iri))
                .filter(|id| data.graph(*id).is_some())
                .ok_or_else(|| usage(format!("no graph <{iri}>{}", data.show_names())))?,
        ),
    };
    let (format, one) = match args.format {
        DumpFormat::Nq => (RdfFormat::NQuads, false),
        DumpFormat::Trig => (RdfFormat::TriG, false),
        DumpFormat::Nt => (RdfFormat::NTriples, true),
        DumpFormat::Ttl => (RdfFormat::Turtle, true),
    };
    if one && graph.is_none() && data.names().next().is_some() {
        return Err(usage(format!(
            "that format holds one graph, and there are several: choose one with --graph (`default` is the default graph), or \
             write --format nq or trig{}",
            data.show_names()
        )));
    }
    write(data, graph, format, &mut context.out)?;
    Ok(Outcome::Done)
}

/// Returns the number of asserted quads.
fn asserted(data: &Dataset) -> u64 {
    (data.len() - data.inferred_len()) as u64
}

pub(super) fn stats(args: &RdfStatsArgs, context: &mut Context) -> anyhow::Result<Outcome> {
    let database = match locate(&args.target, false, context)? {
        DataLocation::Remote(place) => return remote::stats(args, &place, context),
        DataLocation::Local(database) => database,
    };
    let rdf = database.rdf()?;
    let data = rdf.data();
    let stats = RdfStats {
        quads: data.len() as u64,
        inferred: data.inferred_len() as u64,
        rules: data.inference().map(|kind| kind.name().to_owned()),
        graphs: data.names().count() as u64,
        terms: data.dictionary.len() as u64,
        columns: (data.quad_bytes() + data.inferred_bytes()) as u64,
        dictionary: data.dictionary.bytes() as u64,
        log: rdf.log_bytes(),
        meta: None,
    };
    print_stats(&stats, args.format.format, context)
}

/// Counts and sizes of local or remote data.
pub(super) struct RdfStats {
    pub(super) quads: u64,
    pub(super) inferred: u64,
    pub(super) rules: Option<String>,
    pub(super) graphs: u64,
    pub(super) terms: u64,
    pub(super) columns: u64,
    pub(super) dictionary: u64,
    pub(super) log: u64,
    /// Triples of the metadata graph, if a server has it in memory.
    pub(super) meta: Option<u64>,
}

pub(super) fn print_stats(
    stats: &RdfStats,
    format: RowFormat,
    context: &mut Context,
) -> anyhow::Result<Outcome> {
    let each = |bytes: u64, n: u64| bytes as f64 / n.max(1) as f64;
    let sized = |bytes: u64, n: u64, of: &str| {
        format!("{} ({:.1} a {of})", units::size(bytes), each(bytes, n))
    };
    let mut list: Vec<(&'static str, u64, String)> = vec![
        ("quads", stats.quads, units::count(stats.quads)),
        ("named graphs", stats.graphs, units::count(stats.graphs)),
        ("terms", stats.terms, units::count(stats.terms)),
        (
            "bytes of columns",
            stats.columns,
            sized(stats.columns, stats.quads, "quad"),
        ),
        (
            "bytes of terms",
            stats.dictionary,
            sized(stats.dictionary, stats.terms, "term"),
        ),
        ("bytes of log", stats.log, units::size(stats.log)),
    ];
    if let Some(rules) = &stats.rules {
        let asserted = stats.quads.saturating_sub(stats.inferred);
        list.insert(1, ("asserted", asserted, units::count(asserted)));
        let text = format!("{} by {rules}", units::count(stats.inferred));
        list.insert(2, ("inferred", stats.inferred, text));
    }
    if let Some(quads) = stats.meta {
        let text = format!(
            "{} (made of the database, not among the quads)",
            units::count(quads)
        );
        list.push(("metadata graph", quads, text));
    }
    let mut rows = Rows::new(&mut context.out, format, context.style, &["what", "value"]);
    for (name, number, text) in list {
        let value = if format == RowFormat::Table {
            Cell::Text(text)
        } else {
            Cell::Count(number)
        };
        rows.row(vec![name.into(), value])?;
    }
    rows.finish()?;
    Ok(Outcome::Done)
}
