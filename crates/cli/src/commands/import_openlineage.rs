//! `esker import openlineage`: imports events from files, as a server does when it receives them.
//!
//! Events are applied in batches. If the database refuses a batch, its events are applied one by one, so that only the bad ones are
//! skipped, each with its position.

use crate::args::{ImportOpenLineageArgs, RowFormat};
use anyhow::Context as _;
use esker::Database;
use esker_import::openlineage::{self, Event, Types};
use esker_model::{Cancel as _, Error, ErrorKind, GraphRead as _, GraphWrite as _, Result, Schema};
use esker_terminal::context::Context;
use esker_terminal::exit::{Outcome, usage};
use esker_terminal::output::{Cell, figures};
use esker_terminal::progress::Progress;
use esker_terminal::units::{counted, elapsed};
use flate2::bufread::MultiGzDecoder;
use std::fs::File;
use std::io::{BufRead, BufReader, Read};
use std::path::Path;
use std::sync::Arc;
use std::time::Instant;

/// Number of events per batch.
const EVENTS: usize = 512;
/// Maximum number of bad events that are printed; all are counted.
const PROBLEMS_SHOWN: u64 = 100;
/// Maximum length of a line, which has an event with its facets or a list of events, in bytes.
const LINE_BYTES_MAX: u64 = 256 << 20;

#[derive(Debug, Default)]
struct EventTotals {
    events: u64,
    bad: u64,
    vertices_created: u64,
    edges_created: u64,
}

struct EventImport<'a> {
    database: &'a Database,
    schema: Arc<Schema>,
    types: Types,
    context: &'a Context,
    progress: &'a Progress,
    sums: EventTotals,
    waiting: Vec<(String, Event)>,
}

pub(crate) fn run(args: &ImportOpenLineageArgs, context: &mut Context) -> anyhow::Result<Outcome> {
    for path in &args.files {
        if path != Path::new("-") && !path.is_file() {
            return Err(usage(format!("{}: there is no such file", path.display())));
        }
    }
    let database = context.open_or_create(&args.target)?;
    let schema = database.schema()?;
    let schema = match Types::resolve(&schema) {
        Ok(_) => schema,
        Err(_) => database.define(&Types::changes())?,
    };
    let types = Types::resolve(&schema).map_err(Error::from)?;
    let began = Instant::now();
    let progress = Progress::rows(context.globals.quiet, "events");
    let mut import = EventImport {
        database: &database,
        schema,
        types,
        context,
        progress: &progress,
        sums: EventTotals::default(),
        waiting: Vec::new(),
    };
    for path in &args.files {
        import.file(path)?;
        if context.interrupt.cancelled() {
            break;
        }
    }
    import.flush()?;
    let sums = import.sums;
    drop(progress);
    if sums.bad > PROBLEMS_SHOWN {
        let more = counted(sums.bad - PROBLEMS_SHOWN, "bad event", "bad events");
        context.warn(&format!("{more} more"));
    }
    print(&sums, args.format.format, context, began)?;
    let stopped = super::note_if_stopped(context);
    Ok(if sums.bad > 0 {
        Outcome::Partly
    } else {
        stopped
    })
}

/// Opens a file's content, decompressed if it is gzip.
fn unpacked<'a>(input: impl Read + 'a) -> std::io::Result<Box<dyn BufRead + 'a>> {
    let mut input = BufReader::with_capacity(1 << 16, input);
    Ok(if input.fill_buf()?.starts_with(&[0x1f, 0x8b]) {
        Box::new(BufReader::new(MultiGzDecoder::new(input)))
    } else {
        Box::new(input)
    })
}

impl EventImport<'_> {
    fn file(&mut self, path: &Path) -> anyhow::Result<()> {
        let stdin = path == Path::new("-");
        let name = if stdin {
            "standard input".to_owned()
        } else {
            path.display().to_string()
        };
        let reading = || format!("reading {name}");
        let input: Box<dyn Read> = if stdin {
            Box::new(std::io::stdin())
        } else {
            Box::new(File::open(path).with_context(reading)?)
        };
        let mut input = unpacked(input).with_context(reading)?;
        let (mut line, mut number) = (Vec::new(), 0_u64);
        // Whether the file is one document over several lines: its first line is no complete document.
        let mut whole = false;
        while !self.context.interrupt.cancelled() {
            let before = line.len() as u64;
            let read = (&mut input)
                .take((LINE_BYTES_MAX + 1).saturating_sub(before))
                .read_until(b'\n', &mut line)
                .with_context(reading)?;
            if line.len() as u64 > LINE_BYTES_MAX {
                let text = format!(
                    "{name}: line {}: more than {LINE_BYTES_MAX} bytes",
                    number + 1
                );
                return Err(usage(text));
            }
            let last = read == 0;
            if whole && !last {
                continue;
            }
            if last && line.is_empty() {
                break;
            }
            number += 1;
            let text = String::from_utf8_lossy(&line);
            let text = text.trim();
            let place = if whole {
                name.clone()
            } else {
                format!("{name}: line {number}")
            };
            if text.is_empty() {
            } else if number == 1 && !whole && matches!(text, "[" | "{") {
                whole = true;
                continue;
            } else {
                self.text(text, &place)?;
            }
            line.clear();
            if last {
                break;
            }
        }
        Ok(())
    }

    fn text(&mut self, text: &str, place: &str) -> anyhow::Result<()> {
        let (is_list, events) = match openlineage::events(text) {
            Ok(found) => found,
            Err(e) => {
                self.bad(&format!("{place}: {e}"));
                return Ok(());
            }
        };
        for (i, event) in events.into_iter().enumerate() {
            let place = if is_list {
                format!("{place}, event {}", i + 1)
            } else {
                place.to_owned()
            };
            match event {
                Ok(event) => self.event(place, event)?,
                Err(e) => self.bad(&format!("{place}: {e}")),
            }
        }
        Ok(())
    }

    fn bad(&mut self, text: &str) {
        self.sums.bad += 1;
        if self.sums.bad <= PROBLEMS_SHOWN {
            let line = Cell::from(text).table_text();
            self.progress.above(|| self.context.warn(&line));
        }
    }

    fn event(&mut self, place: String, event: Event) -> anyhow::Result<()> {
        self.waiting.push((place, event));
        self.progress.advance(1);
        if self.waiting.len() >= EVENTS {
            self.flush()?;
        }
        Ok(())
    }

    fn flush(&mut self) -> anyhow::Result<()> {
        let waiting = std::mem::take(&mut self.waiting);
        if waiting.is_empty() || self.context.interrupt.cancelled() {
            return Ok(());
        }
        let events: Vec<Event> = waiting.iter().map(|(_, event)| event.clone()).collect();
        match self.apply(&events) {
            Ok(()) => {
                self.sums.events += events.len() as u64;
                return Ok(());
            }
            Err(e) if !is_about_input(&e) => return Err(e.into()),
            Err(_) => {}
        }
        for (place, event) in waiting {
            match self.apply(std::slice::from_ref(&event)) {
                Ok(()) => self.sums.events += 1,
                Err(e) if is_about_input(&e) => self.bad(&format!("{place}: {e}")),
                Err(e) => return Err(e.into()),
            }
        }
        Ok(())
    }

    fn apply(&mut self, events: &[Event]) -> Result<()> {
        let database = self.database;
        let batch = openlineage::batch(events, &self.types, &self.schema, database, database)?;
        if batch.is_empty() {
            return Ok(());
        }
        let commit = database.apply(batch)?;
        self.sums.vertices_created += commit.vertices_created;
        self.sums.edges_created += commit.edges_created;
        Ok(())
    }
}

/// Whether the event caused the error, so that other events may succeed.
fn is_about_input(error: &Error) -> bool {
    matches!(error.kind(), ErrorKind::Invalid | ErrorKind::Missing)
}

fn print(
    sums: &EventTotals,
    format: RowFormat,
    context: &mut Context,
    began: Instant,
) -> anyhow::Result<()> {
    if format == RowFormat::Table {
        if !context.globals.quiet {
            writeln!(
                context.out,
                "imported {} in {}; new: {}, {}; {} left out",
                counted(sums.events, "event", "events"),
                elapsed(began.elapsed()),
                counted(sums.vertices_created, "vertex", "vertices"),
                counted(sums.edges_created, "edge", "edges"),
                counted(sums.bad, "bad event", "bad events"),
            )?;
        }
        return Ok(());
    }
    figures(
        [
            ("events", sums.events),
            ("bad", sums.bad),
            ("vertices_created", sums.vertices_created),
            ("edges_created", sums.edges_created),
        ],
        format,
        context,
    )
}
