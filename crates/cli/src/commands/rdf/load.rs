//! `esker rdf load`.

use super::remote::{self, DataLocation, locate};
use crate::args::{InferRules, RdfLoadArgs, RowFormat};
use esker::rdf::{LoadOptions, Rules};
use esker_rdf::dictionary::Key;
use esker_rdf::infer::Limits;
use esker_rdf::{Inference, Part};
use esker_terminal::context::Context;
use esker_terminal::exit::{Outcome, usage};
use esker_terminal::output::{Cell, report};
use esker_terminal::progress::Progress;
use esker_terminal::units;
use std::time::{Duration, Instant};

pub(crate) fn load(args: &RdfLoadArgs, context: &mut Context) -> anyhow::Result<Outcome> {
    if let Some(iri) = &args.graph {
        esker_rdf::check_iri(iri).map_err(|e| {
            usage(format!(
                "--graph: `{iri}` is not an IRI: {e}; expected one as in http://example.org/people"
            ))
        })?;
    }
    let mut files = Vec::new();
    for path in &args.files {
        files.extend(esker::rdf::files(path)?);
    }
    let began = Instant::now();
    let database = match locate(&args.target, true, context)? {
        DataLocation::Remote(_) if args.part.is_some() => {
            return Err(usage(
                "--part: a part is loaded into a folder that no server has open; its worker starts afterwards",
            ));
        }
        DataLocation::Remote(place) => return remote::load(args, files, &place, context),
        DataLocation::Local(database) => database,
    };
    let mut rdf = database.rdf_to_change()?;
    let interrupt = context.interrupt.clone();
    let bar = Progress::rows(context.globals.quiet, "loading");
    let mut tick = |read: u64| {
        bar.at(read);
        interrupt.stopped().is_none()
    };
    let infer = match args.infer {
        None => Rules::AsBefore,
        Some(InferRules::None) => Rules::Now(None),
        Some(InferRules::Rdfs) => Rules::Now(Some(Inference::Rdfs)),
        Some(InferRules::OwlRl) => Rules::Now(Some(Inference::OwlRl)),
    };
    let interrupt = context.interrupt.clone();
    let limits = Limits {
        memory: usize::try_from(context.globals.memory)
            .unwrap_or(usize::MAX)
            .max(4 << 30),
        stop: &move || {
            interrupt
                .stopped()
                .map(esker_terminal::interrupt::Stopped::name)
        },
    };
    let how = LoadOptions {
        graph: args.graph.as_deref(),
        lenient: args.lenient,
        infer,
        part: args.part,
    };
    let loaded = rdf.load(&files, how, limits, &mut tick);
    drop(bar);
    let loaded = match loaded {
        Err(esker::Error::Interrupted) => {
            anyhow::bail!("interrupted: nothing was loaded");
        }
        other => other?,
    };
    let data = rdf.data();
    let graph = args.graph.clone();
    let loaded = Loaded {
        files: files.len() as u64,
        read: loaded.read,
        new: loaded.new,
        skipped: loaded.skipped,
        skipped_count: loaded.skipped_count,
        inferred: data.inferred_len() as u64,
        rules: data.inference().map(|kind| kind.name().to_owned()),
        graph: graph.filter(|iri| data.dictionary.find(&Key::Iri(iri)).is_some()),
        part: rdf.part()?,
    };
    print_loaded(&loaded, began.elapsed(), args.format.format, context)
}

/// Result of a load, local or remote.
pub(super) struct Loaded {
    pub(super) files: u64,
    pub(super) read: u64,
    pub(super) new: u64,
    pub(super) skipped: Vec<String>,
    pub(super) skipped_count: u64,
    pub(super) inferred: u64,
    pub(super) rules: Option<String>,
    pub(super) graph: Option<String>,
    pub(super) part: Option<Part>,
}

pub(super) fn print_loaded(
    loaded: &Loaded,
    time: Duration,
    format: RowFormat,
    context: &mut Context,
) -> anyhow::Result<Outcome> {
    for line in &loaded.skipped {
        context.warn(&format!("skipped {line}"));
    }
    let more = loaded
        .skipped_count
        .saturating_sub(loaded.skipped.len() as u64);
    if more > 0 {
        context.warn(&format!("and {} more", units::count(more)));
    }
    let graph = match &loaded.graph {
        Some(iri) => format!(" in <{iri}>"),
        None => String::new(),
    };
    let also = match &loaded.rules {
        Some(rules) => format!(
            ", {} by {rules}",
            units::counted(loaded.inferred, "triple inferred", "triples inferred"),
        ),
        None => String::new(),
    };
    let of_part = match loaded.part {
        Some(part) => format!(" of part {part}"),
        None => String::new(),
    };
    let sentence = format!(
        "read {}{of_part} of {}, {} new{graph}{also}, in {}",
        units::counted(loaded.read, "quad", "quads"),
        units::counted(loaded.files, "file", "files"),
        units::count(loaded.new),
        units::elapsed(time),
    );
    report(
        context,
        format,
        &sentence,
        &["files", "read", "new", "skipped", "inferred"],
        vec![
            Cell::Count(loaded.files),
            Cell::Count(loaded.read),
            Cell::Count(loaded.new),
            Cell::Count(loaded.skipped_count),
            Cell::Count(loaded.inferred),
        ],
    )?;
    Ok(Outcome::partly_if(loaded.skipped_count > 0))
}
