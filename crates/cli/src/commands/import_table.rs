//! `esker import vertices|edges`: reads tables record by record and applies them in batches.
//!
//! If the database refuses a record, the complete batch fails; its records are then applied one by one, so that only the bad ones are
//! skipped, each with its position.

use crate::args::{ImportTableArgs, RowFormat, TableKind};
use anyhow::Context as _;
use esker::Database;
use esker_import::table::{self, Format, ReadOptions, TableReader};
use esker_model::namespace::FileRefResolver;
use esker_model::{
    Batch, Cancel as _, Error, ErrorKind, GraphRead as _, GraphWrite as _, Mutation, Schema,
    Version,
};
use esker_terminal::context::Context;
use esker_terminal::exit::{Outcome, usage};
use esker_terminal::output::{Cell, Rows};
use esker_terminal::progress::Progress;
use esker_terminal::units::{counted, elapsed};
use serde_json::json;
use std::collections::VecDeque;
use std::fs::File;
use std::path::Path;
use std::sync::Arc;
use std::time::{Instant, UNIX_EPOCH};

/// Mutations per batch, not counting those of its last record.
const BATCH_MUTATIONS: usize = 8192;
/// Maximum number of bad records that are printed per file; all are counted.
const PROBLEMS_SHOWN: u64 = 100;

/// Totals of all files.
#[derive(Debug, Default)]
struct RecordTotals {
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
    // All paths are checked before the first file is imported, so that a mistyped path changes nothing.
    let mut inputs = Vec::with_capacity(args.files.len());
    for path in &args.files {
        inputs.push((path.as_path(), format_of(path, args)?, kind));
        if path != Path::new("-") && !path.is_file() {
            return Err(usage(format!("{}: there is no such file", path.display())));
        }
    }
    run_all(args, inputs, context)
}

/// Imports files of known formats and kinds in the given order.
pub(super) fn run_all(
    args: &ImportTableArgs,
    inputs: Vec<(&Path, Format, TableKind)>,
    context: &mut Context,
) -> anyhow::Result<Outcome> {
    let database = context.open_or_create(&args.target)?;
    let began = Instant::now();
    let progress = Progress::rows(context.globals.quiet, "records");
    let mut sums = RecordTotals::default();
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
    if let Some(format) = args.input_format {
        return Ok(format.format());
    }
    Format::of_file_name(&path.to_string_lossy()).ok_or_else(|| {
        usage(format!(
            "{}: the file extension does not name a format; give one with --input-format csv, tsv, ndjson, parquet or edges",
            path.display()
        ))
    })
}

/// Returns the time of a file's last change.
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
    sums: &mut RecordTotals,
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
        resolver: FileRefResolver::default(),
    };
    if args.bulk {
        import.bulk()?;
    } else {
        import.batches()?;
    }
    sums.bad += import.problems.finish();
    Ok(())
}

/// Bad records of one file.
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

    /// Prints the number of bad records that were not printed, and returns the number of all.
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
    sums: &'a mut RecordTotals,
    schema: Arc<Schema>,
    /// Resolves the paths of records to files.
    resolver: FileRefResolver,
}

impl FileImport<'_> {
    fn batches(&mut self) -> anyhow::Result<()> {
        // Mutations with the numbers of their records, for error messages.
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
        let (records, mut resolved): (Vec<u64>, Vec<Mutation>) = mutations.into_iter().unzip();
        self.resolver
            .resolve_mutations(self.database, &self.schema, &mut resolved)?;
        let mutations: Vec<(u64, Mutation)> = records.into_iter().zip(resolved).collect();
        let mutations = mutations.as_slice();
        let records = count_records(mutations);
        let batch = |of: &[(u64, Mutation)]| Batch {
            mutations: of.iter().map(|(_, m)| m.clone()).collect(),
            idempotency_key: None,
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
        let (resolver, database, schema) = (&mut self.resolver, self.database, &self.schema);
        let interrupt = problems.context.interrupt.clone();
        // The paths of many records are resolved at once.
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
                if let Err(e) = resolver.resolve_mutations(database, schema, &mut piece) {
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
            // An interrupted bulk load leaves nothing in the database.
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

/// Whether the record caused the error, so that other records may succeed.
fn is_about_input(error: &Error) -> bool {
    matches!(error.kind(), ErrorKind::Invalid | ErrorKind::Missing)
}

fn print(
    sums: &RecordTotals,
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
                    esker_terminal::units::count(sums.unchanged),
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
