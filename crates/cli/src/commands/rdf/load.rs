//! `esker rdf load`.

use crate::args::RdfLoadArgs;
use crate::context::Context;
use crate::exit::{Outcome, usage};
use crate::output::{Cell, report};
use crate::progress::Progress;
use crate::units;
use esker_rdf::dictionary::Key;
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
    let loaded = rdf.load(&files, args.graph.as_deref(), args.lenient, &mut tick);
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
    let sentence = format!(
        "read {} of {}, {} new{graph}, in {}",
        units::counted(loaded.read, "quad", "quads"),
        units::counted(files.len() as u64, "file", "files"),
        units::count(loaded.new),
        units::elapsed(time),
    );
    report(
        context,
        args.format.format,
        &sentence,
        &["files", "read", "new", "skipped"],
        vec![
            Cell::Count(files.len() as u64),
            Cell::Count(loaded.read),
            Cell::Count(loaded.new),
            Cell::Count(loaded.skipped_count),
        ],
    )?;
    Ok(Outcome::partly_if(loaded.skipped_count > 0))
}
