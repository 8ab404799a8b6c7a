//! `esker object import`: imports tables of objects; one thread reads and types records while others write batches.
//!
//! A batch is applied completely, with an idempotency key made from its records: batches of an earlier, interrupted run are recognised
//! and skipped. [`write`] handles batches that the database refuses.

mod write;

use super::create::own_uid;
use crate::args::{ObjectImportArgs, RowFormat};
use crate::commands::note_if_stopped;
use anyhow::Context as _;
use esker::Database;
use esker_import::table::{Format, IdColumns, ObjectReader, ObjectRecord, ObjectTable};
use esker_model::{Cancel as _, GraphRead as _, Schema};
use esker_terminal::context::Context;
use esker_terminal::exit::{Outcome, usage};
use esker_terminal::interrupt::Interrupt;
use esker_terminal::output::{self, Cell};
use esker_terminal::progress::Progress;
use esker_terminal::units::{count, counted, elapsed};
use std::fs::File;
use std::path::Path;
use std::sync::mpsc::{self, Sender, SyncSender};
use std::sync::{Arc, Mutex};
use std::thread;
use std::time::{Instant, SystemTime, UNIX_EPOCH};
use write::BatchWriter;

/// Size of a batch after which it is written, in bytes.
const BATCH_BYTES: usize = 4 << 20;
/// Maximum number of bad records that are printed per file; all are counted.
const PROBLEMS_SHOWN: u64 = 100;

/// A record and the digest that identifies it.
struct Row {
    record: ObjectRecord,
    digest: [u8; 16],
}

/// Messages of the reader and the writers.
enum ImportEvent {
    /// A record that cannot be imported.
    Bad(String),
    /// Counts of processed records.
    Done(ObjectTotals),
}

/// Counts of records by result.
#[derive(Debug, Clone, Copy, Default)]
struct ObjectTotals {
    created: u64,
    updated: u64,
    skipped: u64,
    /// Records that cannot be imported.
    bad: u64,
    /// Records in batches that an earlier run imported.
    before: u64,
}

impl ObjectTotals {
    fn add(&mut self, other: Self) {
        self.created += other.created;
        self.updated += other.updated;
        self.skipped += other.skipped;
        self.bad += other.bad;
        self.before += other.before;
    }

    fn records(self) -> u64 {
        self.created + self.updated + self.skipped + self.bad + self.before
    }
}

pub(super) fn run(args: &ObjectImportArgs, context: &mut Context) -> anyhow::Result<Outcome> {
    let owner = args.owner.unwrap_or_else(own_uid);
    let tags = args.tags.as_ref().map(|tags| {
        let named = tags.iter().filter(|t| !t.is_empty());
        named.cloned().collect()
    });
    let table = ObjectTable {
        id: IdColumns::parse(&args.id, owner).map_err(|e| usage(format!("--id: {e}")))?,
        location: args.location.clone(),
        tags,
    };
    // All paths are checked before the first file is imported, so that a mistyped path changes nothing.
    let mut inputs = Vec::with_capacity(args.files.len());
    for path in &args.files {
        if path != Path::new("-") && !path.is_file() {
            return Err(usage(format!("{}: there is no such file", path.display())));
        }
        inputs.push((path, format_of(path, args)?));
    }
    let database = context.open_or_create(&args.target)?;
    let schema = database.schema()?;
    let began = Instant::now();
    let progress = Progress::rows(context.globals.quiet, "objects");
    let mut sums = ObjectTotals::default();
    for (path, format) in inputs {
        let reader = open(path, format, &table, &schema)?;
        let import = ObjectImport {
            args,
            database: &database,
            schema: &schema,
            interrupt: &context.interrupt,
            salt: salt(args, began),
        };
        sums.add(import.file(reader, &name_of(path), &progress, context)?);
        if context.interrupt.cancelled() {
            break;
        }
    }
    drop(progress);
    print(&sums, args.format.format, context, began)?;
    let stopped = note_if_stopped(context);
    Ok(Outcome::partly_if(sums.bad > 0).and(stopped))
}

fn format_of(path: &Path, args: &ObjectImportArgs) -> anyhow::Result<Format> {
    let format = match args.input_format {
        Some(format) => Some(format.format()),
        None => Format::of_file_name(&path.to_string_lossy()),
    };
    format.filter(|f| *f != Format::EdgeList).ok_or_else(|| {
        usage(format!(
            "{}: its file extension is not one of a table; give its format with --input-format csv, tsv, ndjson or parquet",
            path.display()
        ))
    })
}

fn name_of(path: &Path) -> String {
    if path == Path::new("-") {
        "standard input".to_owned()
    } else {
        path.display().to_string()
    }
}

fn open(
    path: &Path,
    format: Format,
    table: &ObjectTable,
    schema: &Arc<Schema>,
) -> anyhow::Result<ObjectReader> {
    let (name, table, schema) = (name_of(path), table.clone(), Arc::clone(schema));
    let reader = if path == Path::new("-") {
        ObjectReader::text(std::io::stdin(), format, &name, table, schema)
    } else {
        let file = File::open(path).with_context(|| format!("reading {name}"))?;
        match format {
            Format::Parquet => ObjectReader::parquet(file, &name, table, schema),
            Format::Csv | Format::Tsv | Format::Ndjson | Format::EdgeList => {
                ObjectReader::text(file, format, &name, table, schema)
            }
        }
    };
    reader.map_err(|e| usage(e.to_string()))
}

/// Returns the part of the idempotency keys that depends on options: the treatment of duplicates, and `--again`.
fn salt(args: &ObjectImportArgs, began: Instant) -> Vec<u8> {
    let mut salt = format!("{:?}", args.on_duplicate).into_bytes();
    if args.again {
        let now = SystemTime::now()
            .duration_since(UNIX_EPOCH)
            .unwrap_or_default();
        let nonce = format!("{}/{now:?}/{began:?}", std::process::id());
        salt.extend_from_slice(nonce.as_bytes());
    }
    salt
}

/// Import of one file.
struct ObjectImport<'a> {
    args: &'a ObjectImportArgs,
    database: &'a Database,
    schema: &'a Arc<Schema>,
    interrupt: &'a Interrupt,
    salt: Vec<u8>,
}

impl ObjectImport<'_> {
    fn jobs(&self) -> usize {
        let remote = self.args.target.target.starts_with("esker://");
        match self.args.jobs {
            Some(jobs) => jobs as usize,
            // Remote batches overlap their round trips; in this process the engine applies one batch at a time.
            None if remote => 4,
            None => 1,
        }
    }

    fn file(
        &self,
        reader: ObjectReader,
        name: &str,
        progress: &Progress,
        context: &Context,
    ) -> anyhow::Result<ObjectTotals> {
        let (events, heard) = mpsc::channel();
        let (batches, waiting) = mpsc::sync_channel::<Vec<Row>>(self.jobs() + 1);
        let waiting = Arc::new(Mutex::new(waiting));
        thread::scope(|scope| {
            let told = events.clone();
            scope.spawn(move || self.read(reader, &batches, &told));
            let writers: Vec<_> = (0..self.jobs())
                .map(|_| {
                    let writer = BatchWriter {
                        database: self.database,
                        schema: self.schema,
                        on_duplicate: self.args.on_duplicate,
                        salt: &self.salt,
                        file: name,
                        events: events.clone(),
                        duplicates: std::cell::Cell::default(),
                    };
                    let (waiting, interrupt) = (Arc::clone(&waiting), self.interrupt);
                    scope.spawn(move || writer.run(&waiting, interrupt))
                })
                .collect();
            // The channels must close when their last users end: else the reader would wait for failed writers, and this thread for all.
            drop((events, waiting));
            let mut sums = ObjectTotals::default();
            let mut shown = 0;
            for event in heard {
                match event {
                    ImportEvent::Done(more) => {
                        sums.add(more);
                        progress.advance(more.records());
                    }
                    ImportEvent::Bad(text) => {
                        sums.bad += 1;
                        if shown < PROBLEMS_SHOWN {
                            shown += 1;
                            let line = Cell::from(text).table_text();
                            progress.above(|| context.warn(&line));
                        }
                    }
                }
            }
            if sums.bad > shown {
                let more = counted(sums.bad - shown, "bad record", "bad records");
                context.warn(&format!("{name}: {more} more"));
            }
            for writer in writers {
                match writer.join() {
                    Ok(written) => written?,
                    Err(panic) => std::panic::resume_unwind(panic),
                }
            }
            Ok(sums)
        })
    }

    /// Reads records into batches, whose bounds depend only on the records.
    fn read(
        &self,
        reader: ObjectReader,
        batches: &SyncSender<Vec<Row>>,
        told: &Sender<ImportEvent>,
    ) {
        let full = self.args.batch as usize;
        let mut rows = Vec::new();
        let mut bytes = 0;
        for record in reader {
            let record = match record {
                Ok(record) => record,
                Err(error) => {
                    // The receiver is gone only after a failure.
                    let _ = told.send(ImportEvent::Bad(error.to_string()));
                    continue;
                }
            };
            let (digest, size) = record.digest();
            rows.push(Row { record, digest });
            bytes += size;
            if rows.len() >= full || bytes >= BATCH_BYTES {
                bytes = 0;
                let gone = batches.send(std::mem::take(&mut rows)).is_err();
                if gone || self.interrupt.cancelled() {
                    return;
                }
            }
        }
        if !rows.is_empty() {
            let _ = batches.send(rows);
        }
    }
}

fn print(
    sums: &ObjectTotals,
    format: RowFormat,
    context: &mut Context,
    began: Instant,
) -> anyhow::Result<()> {
    let before = match sums.before {
        0 => String::new(),
        n => format!("; {} were imported before", count(n)),
    };
    let sentence = format!(
        "imported {} in {}: {} created, {} updated, {} skipped{before}; {} left out",
        counted(sums.created + sums.updated, "object", "objects"),
        elapsed(began.elapsed()),
        count(sums.created),
        count(sums.updated),
        count(sums.skipped),
        counted(sums.bad, "bad record", "bad records"),
    );
    let figures = [
        sums.records(),
        sums.created,
        sums.updated,
        sums.skipped,
        sums.before,
        sums.bad,
    ];
    output::report(
        context,
        format,
        &sentence,
        &["records", "created", "updated", "skipped", "before", "bad"],
        figures.map(Cell::Count).into(),
    )?;
    Ok(())
}
