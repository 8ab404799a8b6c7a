//! `esker import vertices|edges`: tables read record by record, applied in batches.
//!
//! A record that the database refuses takes its whole batch down; the batch is then applied record by record, so that
//! only the bad ones are left out, each with its place.

use crate::args::{ImportTableArgs, RowFormat, TableKind};
use crate::context::Context;
use crate::exit::{Outcome, usage};
use crate::output::{Cell, Rows};
use crate::progress::Progress;
use crate::units::{counted, elapsed};
use anyhow::Context as _;
use esker::Database;
use esker_import::table::{self, Format, ReadOptions, TableReader};
use esker_model::namespace::Settled;
use esker_model::{
    Batch, Cancel as _, Error, ErrorKind, GraphRead as _, GraphWrite as _, Mutation, Schema,
    Version,
};
use serde_json::json;
use std::collections::VecDeque;
use std::fs::File;
use std::path::Path;
use std::sync::Arc;
use std::time::{Instant, UNIX_EPOCH};

/// Mutations in a batch, not counting those of its last record.
const BATCH_MUTATIONS: usize = 8192;
/// Bad records that are named one by one, in each file; all are counted.
const PROBLEMS_SHOWN: u64 = 100;

/// Sums over all files.
#[derive(Debug, Default)]
struct Sums {
    records: u64,
    bad: u64,
    vertices_created: u64,
    edges_created: u64,
    unchanged: u64,
}

pub(crate) fn run(
    args: &ImportTableArgs,
    kind: TableKind,
    context: &mut Context,
) -> anyhow::Result<Outcome> {
    // All files are looked at before the first is imported: a typing mistake leaves nothing half done.
    let mut inputs = Vec::with_capacity(args.files.len());
    for path in &args.files {
        inputs.push((path.as_path(), format_of(path, args)?, kind));
        if path != Path::new("-") && !path.is_file() {
            return Err(usage(format!("{}: there is no such file", path.display())));
        }
    }
    run_all(args, inputs, context)
}

/// The same of files of which it is known what they are, in their order.
pub(super) fn run_all(
    args: &ImportTableArgs,
    inputs: Vec<(&Path, Format, TableKind)>,
    context: &mut Context,
) -> anyhow::Result<Outcome> {
    let database = context.open_or_create(&args.target)?;
    let began = Instant::now();
    let progress = Progress::rows(context.globals.quiet, "records");
    let mut sums = Sums::default();
    for (path, format, kind) in inputs {
        import_file(
            path, format, args, kind, &database, context, &progress, &mut sums,
        )?;
        if context.interrupt.cancelled() {
            break;
        }
    }
    drop(progress);
    print(&sums, args.format.format, context, began)?;
    let stopped = super::note_if_stopped(context);
    Ok(if sums.bad > 0 {
        Outcome::Partly
    } else {
        stopped
    })
}

fn format_of(path: &Path, args: &ImportTableArgs) -> anyhow::Result<Format> {
    if let Some(format) = args.input {
        return Ok(format.format());
    }
    Format::of_file_name(&path.to_string_lossy()).ok_or_else(|| {
        usage(format!(
            "{}: the ending does not tell the format; say it with --input csv, tsv, ndjson, parquet or edges",
            path.display()
        ))
    })
}

/// The time that a file was last changed.
fn changed(file: &File) -> Option<Version> {
    let time = file.metadata().ok()?.modified().ok()?;
    let millis = time.duration_since(UNIX_EPOCH).ok()?.as_millis();
    Some(Version::new(u64::try_from(millis).ok()?, 0))
}

#[expect(
    clippy::too_many_arguments,
    reason = "one call, in the order of what happens"
)]
fn import_file(
    path: &Path,
    format: Format,
    args: &ImportTableArgs,
    kind: TableKind,
    database: &Database,
    context: &Context,
    progress: &Progress,
    sums: &mut Sums,
) -> anyhow::Result<()> {
    let rows = match kind {
        TableKind::Vertices => table::Rows::Vertices,
        TableKind::Edges => table::Rows::Edges,
    };
    let stdin = path == Path::new("-");
    let name = if stdin {
        "standard input".to_owned()
    } else {
        path.display().to_string()
    };
    let mut options = ReadOptions::new(name.clone(), rows);
    options.vertex_type.clone_from(&args.vertex_type);
    options.edge_type.clone_from(&args.edge_type);
    options.strict = args.strict;
    options.whole_only = args.whole_only;
    options.version = args.at;
    let schema = database.schema()?;
    let reader = if stdin {
        TableReader::text(std::io::stdin(), format, &options, schema.clone())
    } else {
        let file = File::open(path).with_context(|| format!("reading {name}"))?;
        options.version = args.at.or_else(|| changed(&file));
        match format {
            Format::Parquet => TableReader::parquet(file, &options, schema.clone()),
            Format::Csv | Format::Tsv | Format::Ndjson | Format::EdgeList => {
                TableReader::text(file, format, &options, schema.clone())
            }
        }
    };
    let reader = reader.map_err(|e| usage(e.to_string()))?;
    let problems = Problems {
        context,
        progress,
        shown: 0,
        count: 0,
    };
    let mut import = FileImport {
        name,
        database,
        reader,
        problems,
        sums,
        schema,
        settled: Settled::default(),
    };
    if args.bulk {
        import.bulk()?;
    } else {
        import.batches()?;
    }
    sums.bad += import.problems.finish();
    Ok(())
}

/// What is wrong with records of one file.
struct Problems<'a> {
    context: &'a Context,
    progress: &'a Progress,
    shown: u64,
    count: u64,
}

impl Problems<'_> {
    fn tell(&mut self, text: &str) {
        self.count += 1;
        if self.shown < PROBLEMS_SHOWN {
            self.shown += 1;
            let line = Cell::from(text).table_text();
            self.progress.above(|| self.context.warn(&line));
        }
    }

    /// Counts what was not shown. Gives how many there were.
    fn finish(&self) -> u64 {
        if self.count > self.shown {
            let more = counted(self.count - self.shown, "bad record", "bad records");
            self.context.warn(&format!("{more} more"));
        }
        self.count
    }
}

struct FileImport<'a> {
    name: String,
    database: &'a Database,
    reader: TableReader,
    problems: Problems<'a>,
    sums: &'a mut Sums,
    schema: Arc<Schema>,
    /// Which files the paths are of.
    settled: Settled,
}

impl FileImport<'_> {
    fn batches(&mut self) -> anyhow::Result<()> {
        // The number of a record with each of its mutations: what a refusal names.
        let mut waiting: Vec<(u64, Mutation)> = Vec::new();
        let mut last = 0;
        while let Some(next) = self.reader.next() {
            match next {
                Err(error) => self.problems.tell(&error.to_string()),
                Ok(mutation) => {
                    let record = self.reader.records();
                    if record != last && waiting.len() >= BATCH_MUTATIONS {
                        self.apply(std::mem::take(&mut waiting))?;
                        if self.problems.context.interrupt.cancelled() {
                            return Ok(());
                        }
                    }
                    last = record;
                    waiting.push((record, mutation));
                }
            }
        }
        self.apply(waiting)
    }

    fn apply(&mut self, mutations: Vec<(u64, Mutation)>) -> anyhow::Result<()> {
        if mutations.is_empty() {
            return Ok(());
        }
        let (records, mut settled): (Vec<u64>, Vec<Mutation>) = mutations.into_iter().unzip();
        self.settled
            .settle(self.database, &self.schema, &mut settled)?;
        let mutations: Vec<(u64, Mutation)> = records.into_iter().zip(settled).collect();
        let mutations = mutations.as_slice();
        let records = count_records(mutations);
        let batch = |of: &[(u64, Mutation)]| Batch {
            mutations: of.iter().map(|(_, m)| m.clone()).collect(),
            once: None,
        };
        match self.commit(batch(mutations)) {
            Ok(()) => self.sums.records += records,
            Err(error) if is_about_input(&error) => {
                for record in mutations.chunk_by(|a, b| a.0 == b.0) {
                    match self.commit(batch(record)) {
                        Ok(()) => self.sums.records += 1,
                        Err(error) if is_about_input(&error) => {
                            let number = record.first().map_or(0, |r| r.0);
                            let text = format!("{}, record {number}: {error}", self.name);
                            self.problems.tell(&text);
                        }
                        Err(error) => return Err(error.into()),
                    }
                }
            }
            Err(error) => return Err(error.into()),
        }
        self.problems.progress.advance(records);
        Ok(())
    }

    fn commit(&mut self, batch: Batch) -> Result<(), Error> {
        let commit = self.database.apply(batch)?;
        self.sums.vertices_created += commit.vertices_created;
        self.sums.edges_created += commit.edges_created;
        self.sums.unchanged += commit.unchanged;
        Ok(())
    }

    fn bulk(&mut self) -> anyhow::Result<()> {
        let progress = self.problems.progress;
        let (reader, problems) = (&mut self.reader, &mut self.problems);
        let (settled, database, schema) = (&mut self.settled, self.database, &self.schema);
        let interrupt = problems.context.interrupt.clone();
        // Which files the paths are of is asked for many at once.
        let mut ready = VecDeque::new();
        let mut good = std::iter::from_fn(|| {
            if interrupt.cancelled() {
                return Some(Err(Error::Interrupted));
            }
            if ready.is_empty() {
                let mut piece = Vec::with_capacity(BATCH_MUTATIONS);
                while piece.len() < BATCH_MUTATIONS
                    && let Some(next) = reader.next()
                {
                    match next {
                        Ok(mutation) => piece.push(mutation),
                        Err(error) => problems.tell(&error.to_string()),
                    }
                }
                if let Err(e) = settled.settle(database, schema, &mut piece) {
                    return Some(Err(e));
                }
                ready.extend(piece);
            }
            ready.pop_front().map(Ok)
        });
        let report = self
            .database
            .bulk_load(&mut good, &mut |done| progress.at(done));
        let report = match report {
            // Nothing of it is in the database then.
            Err(Error::Interrupted) => return Ok(()),
            report => report?,
        };
        self.sums.records += self.reader.records();
        self.sums.vertices_created += report.vertices_created;
        self.sums.edges_created += report.edges_created;
        Ok(())
    }
}

fn count_records(mutations: &[(u64, Mutation)]) -> u64 {
    mutations.chunk_by(|a, b| a.0 == b.0).count() as u64
}

/// Whether the record is to blame, and the next one may be better.
fn is_about_input(error: &Error) -> bool {
    matches!(error.kind(), ErrorKind::Invalid | ErrorKind::Missing)
}

fn print(
    sums: &Sums,
    format: RowFormat,
    context: &mut Context,
    began: Instant,
) -> anyhow::Result<()> {
    match format {
        RowFormat::Table => {
            if !context.globals.quiet {
                writeln!(
                    context.out,
                    "imported {} in {}; new: {}, {}; {} as it was; {} left out",
                    counted(sums.records, "record", "records"),
                    elapsed(began.elapsed()),
                    counted(sums.vertices_created, "vertex", "vertices"),
                    counted(sums.edges_created, "edge", "edges"),
                    crate::units::count(sums.unchanged),
                    counted(sums.bad, "bad record", "bad records"),
                )?;
            }
        }
        RowFormat::Json | RowFormat::Ndjson | RowFormat::Csv => {
            let columns = &[
                "records",
                "bad",
                "vertices_created",
                "edges_created",
                "unchanged",
            ];
            let figures = [
                sums.records,
                sums.bad,
                sums.vertices_created,
                sums.edges_created,
                sums.unchanged,
            ];
            if format == RowFormat::Json {
                let pairs = columns
                    .iter()
                    .zip(figures)
                    .map(|(n, v)| ((*n).to_owned(), json!(v)));
                let object: serde_json::Map<_, _> = pairs.collect();
                writeln!(context.out, "{}", serde_json::Value::Object(object))?;
            } else {
                let mut rows = Rows::new(&mut context.out, format, context.style, columns);
                rows.row(figures.map(Cell::Count).into())?;
                rows.finish()?;
            }
        }
    }
    Ok(())
}
