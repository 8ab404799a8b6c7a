//! `esker object import`: tables of objects, read and typed on one thread while others write batches.
//!
//! A batch is applied whole, with a marker made from its records: what was imported by a run that was stopped is
//! known, and left alone. What happens to a batch that is refused is told in [`write`].

mod write;

use super::create::own_uid;
use crate::args::{ObjectImportArgs, RowFormat};
use crate::commands::note_if_stopped;
use crate::context::Context;
use crate::exit::{Outcome, usage};
use crate::interrupt::Interrupt;
use crate::output::{self, Cell};
use crate::progress::Progress;
use crate::units::{count, counted, elapsed};
use anyhow::Context as _;
use esker::Database;
use esker_import::table::{Format, IdColumns, ObjectReader, ObjectRecord, ObjectTable};
use esker_model::{Cancel as _, GraphRead as _, Schema};
use std::fs::File;
use std::path::Path;
use std::sync::mpsc::{self, Sender, SyncSender};
use std::sync::{Arc, Mutex};
use std::thread;
use std::time::{Instant, SystemTime, UNIX_EPOCH};
use write::Writer;

/// Bytes of a batch, beyond which it takes no further record.
const BATCH_BYTES: usize = 4 << 20;
/// Bad records that are named one by one, in each file; all are counted.
const PROBLEMS_SHOWN: u64 = 100;

/// A record and what it is known by.
struct Row {
    record: ObjectRecord,
    digest: [u8; 16],
}

/// What the reader and the writers say.
enum Event {
    /// A record that cannot be imported.
    Bad(String),
    /// What became of records.
    Done(Sums),
}

/// What became of records.
#[derive(Debug, Clone, Copy, Default)]
struct Sums {
    created: u64,
    updated: u64,
    skipped: u64,
    /// Bad records.
    bad: u64,
    /// In batches that an earlier run imported.
    before: u64,
}

impl Sums {
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
    // All files are looked at before the first is imported: a typing mistake leaves nothing half done.
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
    let mut sums = Sums::default();
    for (path, format) in inputs {
        let reader = open(path, format, &table, &schema)?;
        let import = Import {
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
    let format = match args.input {
        Some(format) => Some(format.format()),
        None => Format::of_file_name(&path.to_string_lossy()),
    };
    format.filter(|f| *f != Format::EdgeList).ok_or_else(|| {
        usage(format!(
            "{}: this is no table of objects by its ending; say its format with --input csv, tsv, ndjson or parquet",
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

/// What makes the same records another import: what becomes of duplicates, and `--again`.
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

/// One file's import.
struct Import<'a> {
    args: &'a ObjectImportArgs,
    database: &'a Database,
    schema: &'a Arc<Schema>,
    interrupt: &'a Interrupt,
    salt: Vec<u8>,
}

impl Import<'_> {
    fn jobs(&self) -> usize {
        let remote = self.args.target.target.starts_with("esker://");
        match self.args.jobs {
            Some(jobs) => jobs as usize,
            // Round trips overlap; in this process the engine takes one batch at a time anyway.
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
    ) -> anyhow::Result<Sums> {
        let (events, heard) = mpsc::channel();
        let (batches, waiting) = mpsc::sync_channel::<Vec<Row>>(self.jobs() + 1);
        let waiting = Arc::new(Mutex::new(waiting));
        thread::scope(|scope| {
            let told = events.clone();
            scope.spawn(move || self.read(reader, &batches, &told));
            let writers: Vec<_> = (0..self.jobs())
                .map(|_| {
                    let writer = Writer {
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
            // Without these the reader would wait for writers that failed, and this thread for all of them.
            drop((events, waiting));
            let mut sums = Sums::default();
            let mut shown = 0;
            for event in heard {
                match event {
                    Event::Done(more) => {
                        sums.add(more);
                        progress.advance(more.records());
                    }
                    Event::Bad(text) => {
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

    /// Reads records into batches, whose bounds depend on nothing but the records.
    fn read(&self, reader: ObjectReader, batches: &SyncSender<Vec<Row>>, told: &Sender<Event>) {
        let full = self.args.batch as usize;
        let mut rows = Vec::new();
        let mut bytes = 0;
        for record in reader {
            let record = match record {
                Ok(record) => record,
                Err(error) => {
                    // Nobody listens any more only where all has failed.
                    let _ = told.send(Event::Bad(error.to_string()));
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
    sums: &Sums,
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
