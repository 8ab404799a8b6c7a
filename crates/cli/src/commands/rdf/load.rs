//! `esker rdf load`.

use crate::args::{InferRules, RdfLoadArgs};
use crate::context::Context;
use crate::exit::{Outcome, usage};
use crate::output::{Cell, report};
use crate::progress::Progress;
use crate::units;
use esker::rdf::Rules;
use esker_rdf::Inference;
use esker_rdf::dictionary::Key;
use esker_rdf::infer::Limits;
use std::time::Instant;

pub(crate) fn load(args: &RdfLoadArgs, context: &mut Context) -> anyhow::Result<Outcome> {
    if let Some(iri) = &args.graph {
        esker_rdf::check_iri(iri).map_err(|e| {
            usage(format!(
                "--graph: `{iri}` is no IRI: {e}; expected one as in http://example.org/people"
            ))
        })?;
    }
    let mut files = Vec::new();
    for path in &args.files {
        files.extend(esker::rdf::files(path)?);
    }
    let began = Instant::now();
    let database = context.open_or_create(&args.target)?;
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
        stop: &move || interrupt.stopped().map(crate::interrupt::Stopped::name),
    };
    let loaded = rdf.load(
        &files,
        args.graph.as_deref(),
        args.lenient,
        infer,
        limits,
        &mut tick,
    );
    drop(bar);
    let loaded = match loaded {
        Err(esker::Error::Interrupted) => {
            anyhow::bail!("interrupted: nothing was loaded");
        }
        other => other?,
    };
    for line in &loaded.skipped {
        context.warn(&format!("passed over {line}"));
    }
    let more = loaded.skipped_count - loaded.skipped.len() as u64;
    if more > 0 {
        context.warn(&format!("and {} more", units::count(more)));
    }
    let time = began.elapsed();
    let graph = match &args.graph {
        Some(iri) if rdf.data().dictionary.find(&Key::Iri(iri)).is_some() => format!(" in <{iri}>"),
        _ => String::new(),
    };
    let inferred = rdf.data().inferred_len() as u64;
    let also = match rdf.data().inference() {
        Some(kind) => format!(
            ", {} by {}",
            units::counted(inferred, "triple inferred", "triples inferred"),
            kind.name()
        ),
        None => String::new(),
    };
    let sentence = format!(
        "read {} of {}, {} new{graph}{also}, in {}",
        units::counted(loaded.read, "quad", "quads"),
        units::counted(files.len() as u64, "file", "files"),
        units::count(loaded.new),
        units::elapsed(time),
    );
    report(
        context,
        args.format.format,
        &sentence,
        &["files", "read", "new", "skipped", "inferred"],
        vec![
            Cell::Count(files.len() as u64),
            Cell::Count(loaded.read),
            Cell::Count(loaded.new),
            Cell::Count(loaded.skipped_count),
            Cell::Count(inferred),
        ],
    )?;
    Ok(Outcome::partly_if(loaded.skipped_count > 0))
}
