//! `esker import prov`.

use super::bag;
use crate::args::{ImportProvArgs, ProvEncoding, RowFormat};
use anyhow::{Context as _, bail};
use esker::Database;
use esker_import::prov::{self, Document, Encoding};
use esker_model::{Cancel as _, ErrorKind, GraphRead as _, GraphWrite as _};
use esker_terminal::context::Context;
use esker_terminal::exit::{Outcome, usage};
use esker_terminal::output::{Cell, figures};
use esker_terminal::progress::Progress;
use esker_terminal::units::{counted, elapsed};
use std::fs::File;
use std::io::{Read, Write as _};
use std::path::Path;
use std::time::Instant;

/// Maximum size of a document in bytes, because it is in memory several times.
const BYTES_MAX: u64 = 512 << 20;

#[derive(Debug, Default)]
struct DocumentTotals {
    documents: u64,
    bad: u64,
    statements: u64,
    left_out: u64,
    vertices_created: u64,
    edges_created: u64,
}

pub(crate) fn run(args: &ImportProvArgs, context: &mut Context) -> anyhow::Result<Outcome> {
    for path in &args.files {
        if path != Path::new("-") && !path.exists() {
            return Err(usage(format!("{}: there is no such file", path.display())));
        }
    }
    let database = context.open_or_create(&args.target)?;
    let began = Instant::now();
    let mut sums = DocumentTotals::default();
    let progress = Progress::rows(context.globals.quiet, "documents");
    for path in &args.files {
        if context.interrupt.cancelled() {
            break;
        }
        let name = if path == Path::new("-") {
            "standard input".to_owned()
        } else {
            path.display().to_string()
        };
        match one(path, args, &database, &mut sums) {
            Ok(()) => sums.documents += 1,
            Err(error) if is_about_input(&error) => {
                sums.bad += 1;
                let line = Cell::from(format!("{name}: {error:#}").as_str()).table_text();
                progress.above(|| context.warn(&line));
            }
            Err(error) => return Err(error),
        }
        progress.advance(1);
    }
    drop(progress);
    if sums.left_out > 0 {
        let what = counted(sums.left_out, "triple says", "triples say");
        context.note(&format!(
            "{what} nothing about provenance, and are left out"
        ));
    }
    print(&sums, args.format.format, context, began)?;
    let stopped = super::super::note_if_stopped(context);
    Ok(if sums.bad > 0 {
        Outcome::Partly
    } else {
        stopped
    })
}

/// Whether the document caused the error, so that other documents may succeed.
fn is_about_input(error: &anyhow::Error) -> bool {
    match error.downcast_ref::<esker_model::Error>() {
        Some(error) => matches!(error.kind(), ErrorKind::Invalid | ErrorKind::Missing),
        None => true,
    }
}

fn one(
    path: &Path,
    args: &ImportProvArgs,
    database: &Database,
    sums: &mut DocumentTotals,
) -> anyhow::Result<()> {
    let document = read(path, args)?;
    let schema = database.schema()?;
    let schema = match prov::check_schema(&document, &schema) {
        Ok(()) => schema,
        Err(_) => database.define(&prov::changes(&document))?,
    };
    let batch = prov::batch(&document, &schema, database, database)?;
    sums.statements += document.all().count() as u64;
    sums.left_out += document.left_out;
    if !batch.is_empty() {
        let commit = database.apply(batch)?;
        sums.vertices_created += commit.vertices_created;
        sums.edges_created += commit.edges_created;
    }
    Ok(())
}

fn read(path: &Path, args: &ImportProvArgs) -> anyhow::Result<Document> {
    let wanted = args.encoding.map(ProvEncoding::encoding);
    let stdin = path == Path::new("-");
    let found;
    let mut path = path;
    if path.is_dir() {
        if !bag::is_bag(path) {
            bail!("is a folder, but not a bag: it has no bagit.txt; name the documents in it");
        }
        let ending = args.encoding.map(|encoding| match encoding {
            ProvEncoding::Provn => "provn",
            ProvEncoding::Json => "json",
            ProvEncoding::Xml => "xml",
            ProvEncoding::Turtle => "ttl",
            ProvEncoding::Ntriples => "nt",
            ProvEncoding::Jsonld => "jsonld",
        });
        found = bag::document(path, ending, args.verify)?;
        path = &found;
    }
    let mut bytes = Vec::new();
    let input: Box<dyn Read> = if stdin {
        Box::new(std::io::stdin())
    } else {
        Box::new(File::open(path).context("reading it")?)
    };
    input
        .take(BYTES_MAX + 1)
        .read_to_end(&mut bytes)
        .context("reading it")?;
    if bytes.len() as u64 > BYTES_MAX {
        bail!("has more than {BYTES_MAX} bytes");
    }
    let text = String::from_utf8(bytes).map_err(|e| {
        let at = e.utf8_error().valid_up_to();
        anyhow::anyhow!("byte {at}: this is not UTF-8")
    })?;
    let by_name = || Encoding::of_file_name(&path.to_string_lossy());
    let encoding = wanted
        .or_else(|| Encoding::of_text(&text, by_name()))
        .context("its encoding cannot be detected; give it with --encoding")?;
    Ok(prov::read(&text, encoding)?)
}

fn print(
    sums: &DocumentTotals,
    format: RowFormat,
    context: &mut Context,
    began: Instant,
) -> anyhow::Result<()> {
    if format == RowFormat::Table {
        if !context.globals.quiet {
            writeln!(
                context.out,
                "imported {} with {} in {}; new: {}, {}; {} left out",
                counted(sums.documents, "document", "documents"),
                counted(sums.statements, "statement", "statements"),
                elapsed(began.elapsed()),
                counted(sums.vertices_created, "vertex", "vertices"),
                counted(sums.edges_created, "edge", "edges"),
                counted(sums.bad, "bad document", "bad documents"),
            )?;
        }
        return Ok(());
    }
    figures(
        [
            ("documents", sums.documents),
            ("bad", sums.bad),
            ("statements", sums.statements),
            ("left_out", sums.left_out),
            ("vertices_created", sums.vertices_created),
            ("edges_created", sums.edges_created),
        ],
        format,
        context,
    )
}
