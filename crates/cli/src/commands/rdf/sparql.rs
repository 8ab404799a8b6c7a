//! `esker sparql`: runs queries and updates.

use super::on_large_stack;
use super::remote::{self, DataLocation, locate};
use super::workers;
use crate::args::{AnswerFormat, SparqlArgs};
use crate::context::Context;
use crate::exit::{Outcome, usage};
use crate::output::{Cell, Rows};
use crate::{args::RowFormat, units};
use esker::rdf::{Services, engine, error, now_and_seed};
use esker_rdf::{Answer, Dataset, Format, Found, Graphs, Options, RdfFormat, query};
use std::io::{Read as _, Write};
use std::time::Instant;

pub(crate) fn sparql(args: &SparqlArgs, context: &mut Context) -> anyhow::Result<Outcome> {
    let text = text(args)?;
    let graphs = (!args.default_graph.is_empty() || !args.named_graph.is_empty()).then(|| Graphs {
        default: args.default_graph.clone(),
        named: args.named_graph.clone(),
    });
    if let Some(addresses) = args.target.target.strip_prefix(workers::SCHEME) {
        return workers::sparql(args, &text, graphs.as_ref(), addresses, context);
    }
    let began = Instant::now();
    let database = match locate(&args.target, false, context)? {
        DataLocation::Remote(place) => return remote::sparql(args, &text, &place, context),
        DataLocation::Local(database) => database,
    };
    let database = database.on_behalf_of(args.principal.principal.as_ref());
    let mut rdf = if args.update {
        database.rdf_to_change()?
    } else {
        database.rdf()?
    };
    let opened = began.elapsed();
    if let Some(part) = rdf.part()?
        && !args.update
    {
        context.warn(&format!(
            "`{}` contains only part {part} of RDF data; workers answer for all parts (`esker rdf worker`)",
            args.target.target
        ));
    }
    let interrupt = context.interrupt.clone();
    let stop = move || interrupt.stopped().map(crate::interrupt::Stopped::name);
    let (now, seed) = now_and_seed();
    let mut options = Options::new(now, seed);
    options.threads = std::thread::available_parallelism().map_or(1, std::num::NonZero::get);
    // The data is already in memory; this limits what a query may use in addition.
    options.memory = usize::try_from(context.globals.memory)
        .unwrap_or(usize::MAX)
        .max(4 << 30);
    options.stop = &stop;
    options.explain_only = args.explain;
    let services = Services::new(args.allow_service.clone())?;
    let remote = |endpoint: &str, query: &str| {
        services.query_endpoint(endpoint, query, &|| stop().is_some())
    };
    if !services.is_empty() {
        options.remote = Some(&remote);
    }
    if args.update {
        let sync = context.durability() == esker::Durability::Sync;
        let done = on_large_stack(|| Ok(rdf.update(&text, graphs.as_ref(), &options, sync)?))?;
        context.note(&format!(
            "{} added, {} removed",
            units::counted(done.added as u64, "quad", "quads"),
            units::count(done.removed as u64)
        ));
        if args.profile {
            context.note(&format!(
                "opened in {opened:.2?}, all in {:.2?}",
                began.elapsed()
            ));
        }
        return Ok(Outcome::Done);
    }
    let mut out = Vec::new();
    let style = context.style;
    let times = on_large_stack(|| {
        let started = Instant::now();
        let data = match rdf.query_data(&text, graphs.as_ref(), &stop) {
            Err(esker::Error::Interrupted) => {
                let why = stop().unwrap_or("interrupted");
                return Err(anyhow::anyhow!("{}", engine::Error::Stopped(why)));
            }
            data => data?,
        };
        let made = started.elapsed();
        let started = Instant::now();
        let answer = evaluate(&data, &text, graphs.as_ref(), args.profile, &options)?;
        let answered = started.elapsed();
        if args.explain {
            for line in answer.notes() {
                writeln!(out, "{line}")?;
            }
        } else {
            print(&answer, args.format, style, &mut out)?;
        }
        let steps = if args.explain {
            Vec::new()
        } else {
            answer.notes()
        };
        Ok((made, answered, started.elapsed(), answer.len(), steps))
    })?;
    context.out.write_all(&out)?;
    if args.profile {
        let (made, answered, written, rows, steps) = times;
        for line in steps {
            context.note(&line);
        }
        context.note(&format!(
            "opened in {opened:.2?}; snapshot with metadata in {made:.2?}; answered in {answered:.2?}; written in {:.2?}; {}",
            written.saturating_sub(answered),
            units::counted(rows as u64, "row", "rows"),
        ));
    }
    Ok(Outcome::Done)
}

fn text(args: &SparqlArgs) -> anyhow::Result<String> {
    let Some(path) = &args.file else {
        return Ok(args.query.clone().unwrap_or_default());
    };
    let mut bytes = Vec::new();
    let name = path.display().to_string();
    let read = if name == "-" {
        std::io::stdin().read_to_end(&mut bytes)
    } else {
        std::fs::File::open(path).and_then(|mut f| f.read_to_end(&mut bytes))
    };
    read.map_err(|e| usage(format!("reading `{name}`: {e}")))?;
    String::from_utf8(bytes).map_err(|e| {
        usage(format!(
            "`{name}` is not UTF-8 at byte {}",
            e.utf8_error().valid_up_to()
        ))
    })
}

fn evaluate<'a>(
    data: &'a Dataset,
    text: &str,
    graphs: Option<&Graphs>,
    explain: bool,
    options: &'a Options<'a>,
) -> anyhow::Result<Answer<'a>> {
    match query(data, text, None, graphs, explain, options) {
        Ok(answer) => Ok(answer),
        Err(e) => Err(refused(text, e)),
    }
}

/// Returns the error of a command for a failed query.
pub(crate) fn refused(text: &str, e: engine::Error) -> anyhow::Error {
    match e {
        // An update in place of a query is a common mistake.
        engine::Error::Syntax(_) if engine::syntax::update(text, None).is_ok() => {
            usage("this is an update, not a query: use --update")
        }
        engine::Error::Stopped(_) => anyhow::anyhow!("{e}"),
        e => error(e).into(),
    }
}

pub(super) fn print(
    answer: &Answer<'_>,
    format: AnswerFormat,
    style: crate::output::Style,
    out: &mut Vec<u8>,
) -> anyhow::Result<()> {
    let graph = match format {
        AnswerFormat::Table | AnswerFormat::Ttl => RdfFormat::Turtle,
        AnswerFormat::Rdf | AnswerFormat::Xml => RdfFormat::RdfXml,
        AnswerFormat::Jsonld | AnswerFormat::Json => RdfFormat::JsonLd {
            profile: engine::JsonLdProfileSet::default(),
        },
        AnswerFormat::Nt | AnswerFormat::Csv | AnswerFormat::Tsv => RdfFormat::NTriples,
    };
    let rows = match format {
        AnswerFormat::Json => Some(Format::Json),
        AnswerFormat::Xml => Some(Format::Xml),
        AnswerFormat::Csv => Some(Format::Csv),
        AnswerFormat::Tsv => Some(Format::Tsv),
        _ => None,
    };
    match (&answer.found, rows) {
        (Found::Triples(_), _) => answer.write_graph(graph, out)?,
        (Found::Boolean(b), None) => writeln!(out, "{b}")?,
        (_, Some(format)) => {
            answer.write(format, out)?;
            if !out.ends_with(b"\n") {
                out.push(b'\n');
            }
        }
        (Found::Solutions(names, table), None) => {
            if format != AnswerFormat::Table {
                return Err(usage(
                    "that format is for graphs, which CONSTRUCT and DESCRIBE give; expected table, json, xml, csv or tsv",
                ));
            }
            let columns = names.iter().map(|n| n.clone().into()).collect();
            let mut rows = Rows::named(out, RowFormat::Table, style, columns);
            for r in 0..table.len() {
                let cells = table
                    .columns()
                    .iter()
                    .map(|c| {
                        answer
                            .term(c[r])
                            .map_or(Cell::Empty, |t| Cell::Text(term_text(&t)))
                    })
                    .collect();
                rows.row(cells)?;
            }
            rows.finish()?;
        }
    }
    Ok(())
}

/// Formats a term for users: numbers and booleans without their types.
pub(super) fn term_text(term: &engine::Term) -> String {
    if let engine::Term::Literal(l) = term {
        let datatype = l.datatype();
        let local = datatype
            .as_str()
            .strip_prefix(engine::id::XSD)
            .unwrap_or_default();
        if matches!(
            local,
            "integer"
                | "decimal"
                | "double"
                | "float"
                | "boolean"
                | "dateTime"
                | "date"
                | "int"
                | "long"
        ) {
            return l.value().to_owned();
        }
    }
    term.to_string()
}
