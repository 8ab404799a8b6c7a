//! `esker rdf checkpoint`, `dump`, `stats`, `drop`.

use crate::args::{DumpFormat, RdfDumpArgs, RdfPlainArgs, RdfStatsArgs, RowFormat};
use crate::context::Context;
use crate::exit::{Outcome, usage};
use crate::output::{Cell, Rows, report};
use crate::units;
use esker_rdf::dictionary::Key;
use esker_rdf::id::UNBOUND;
use esker_rdf::{Dataset, RdfFormat, dump as write};

pub(super) fn checkpoint(args: &RdfPlainArgs, context: &mut Context) -> anyhow::Result<Outcome> {
    let mut rdf = context.open(&args.target)?.rdf_to_change()?;
    let bytes = rdf.checkpoint()?;
    let quads = asserted(rdf.data());
    let sentence = format!(
        "{} in an image of {}",
        units::counted(quads, "quad", "quads"),
        units::size(bytes)
    );
    let cells = vec![Cell::Count(quads), Cell::Count(bytes)];
    report(
        context,
        args.format.format,
        &sentence,
        &["quads", "bytes"],
        cells,
    )?;
    Ok(Outcome::Done)
}

pub(super) fn drop_all(args: &RdfPlainArgs, context: &mut Context) -> anyhow::Result<Outcome> {
    let mut rdf = context.open(&args.target)?.rdf_to_change()?;
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
    let rdf = context.open(&args.target)?.rdf()?;
    let asserted;
    let data = if args.inferred {
        rdf.data()
    } else {
        asserted = rdf.data().asserted();
        &asserted
    };
    let graph = match args.graph.as_deref() {
        None => None,
        Some("default") => Some(UNBOUND),
        Some(iri) => Some(
            data.dictionary
                .find(&Key::Iri(iri))
                .filter(|id| data.graph(*id).is_some())
                .ok_or_else(|| usage(format!("no graph <{iri}>{}", names(data))))?,
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
            names(data)
        )));
    }
    write(data, graph, format, &mut context.out)?;
    Ok(Outcome::Done)
}

/// Quads without those that are inferred.
fn asserted(data: &Dataset) -> u64 {
    (data.len() - data.inferred_len()) as u64
}

fn names(data: &Dataset) -> String {
    let all: Vec<String> = data
        .names()
        .take(5)
        .filter_map(|g| data.dictionary.term(g))
        .map(|t| t.to_string())
        .collect();
    if all.is_empty() {
        "; there are no named graphs".into()
    } else {
        format!("; there are {}", all.join(", "))
    }
}

pub(super) fn stats(args: &RdfStatsArgs, context: &mut Context) -> anyhow::Result<Outcome> {
    let rdf = context.open(&args.target)?.rdf()?;
    let data = rdf.data();
    let (quads, terms) = (data.len() as u64, data.dictionary.len() as u64);
    let (columns, dictionary) = (
        (data.quad_bytes() + data.inferred_bytes()) as u64,
        data.dictionary.bytes() as u64,
    );
    let inferred = data.inferred_len() as u64;
    let each = |bytes: u64, n: u64| bytes as f64 / n.max(1) as f64;
    let mut list: Vec<(&'static str, u64, String)> = vec![
        ("quads", quads, units::count(quads)),
        (
            "named graphs",
            data.names().count() as u64,
            units::count(data.names().count() as u64),
        ),
        ("terms", terms, units::count(terms)),
        (
            "bytes of columns",
            columns,
            format!(
                "{} ({:.1} a quad)",
                units::size(columns),
                each(columns, quads)
            ),
        ),
        (
            "bytes of terms",
            dictionary,
            format!(
                "{} ({:.1} a term)",
                units::size(dictionary),
                each(dictionary, terms)
            ),
        ),
        (
            "bytes of log",
            rdf.log_bytes(),
            units::size(rdf.log_bytes()),
        ),
    ];
    if let Some(kind) = data.inference() {
        let asserted = quads - inferred;
        list.insert(1, ("asserted", asserted, units::count(asserted)));
        let text = format!("{} by {}", units::count(inferred), kind.name());
        list.insert(2, ("inferred", inferred, text));
    }
    let format = args.format.format;
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
