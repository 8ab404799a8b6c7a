//! CSV and NDJSON, one record at a time.

use super::columns::Column;
use super::edge_list::EdgeList;
use super::record::{Cell, Row};
use super::{RECORD_BYTES_MAX, ReadOptions, RecordError, RowSource, Rows, file_error};
use serde_json::Value as Json;
use std::collections::HashMap;
use std::io::{BufRead, BufReader, Read};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

/// Limit of property names cached as columns: a malicious table must not exhaust the memory.
const COLUMNS_MAX: usize = 4_096;

/// Source that fails if one record is too large.
struct Bounded<R> {
    input: R,
    /// Bytes since the start of the record, shared with the record reader.
    taken: Arc<AtomicU64>,
}

impl<R: Read> Read for Bounded<R> {
    fn read(&mut self, buffer: &mut [u8]) -> std::io::Result<usize> {
        let n = self.input.read(buffer)?;
        let taken = self.taken.fetch_add(n as u64, Ordering::Relaxed) + n as u64;
        if taken > RECORD_BYTES_MAX {
            let message =
                format!("a record is longer than {RECORD_BYTES_MAX} bytes; is a quote left open?");
            return Err(std::io::Error::other(message));
        }
        Ok(n)
    }
}

/// A separated-values table with a heading.
pub(super) struct SeparatedValues<R> {
    reader: csv::Reader<Bounded<R>>,
    record: csv::ByteRecord,
    taken: Arc<AtomicU64>,
    columns: Vec<Arc<Column>>,
    file: String,
}

impl<R: Read> SeparatedValues<R> {
    pub(super) fn new(input: R, delimiter: u8, options: &ReadOptions) -> Result<Self, RecordError> {
        let taken = Arc::new(AtomicU64::new(0));
        let bounded = Bounded {
            input,
            taken: Arc::clone(&taken),
        };
        let mut reader = csv::ReaderBuilder::new()
            .delimiter(delimiter)
            .flexible(true)
            .buffer_capacity(1 << 16)
            .from_reader(bounded);
        let headings = reader
            .headers()
            .map_err(|e| file_error(options, &format!("no heading: {e}")))?;
        let columns = Column::of_heading(headings.iter(), options)?;
        Ok(Self {
            reader,
            record: csv::ByteRecord::new(),
            taken,
            columns: columns.into_iter().map(Arc::new).collect(),
            file: options.file.clone(),
        })
    }
}

impl<R: Read + Send> RowSource for SeparatedValues<R> {
    fn headings(&self) -> Vec<String> {
        self.columns
            .iter()
            .filter_map(|c| c.named())
            .map(str::to_owned)
            .collect()
    }

    fn next_row(&mut self) -> Option<Result<Row, RecordError>> {
        self.taken.store(0, Ordering::Relaxed);
        let (line, byte) = (self.reader.position().line(), self.reader.position().byte());
        let error = |line, byte, message: String, fatal| RecordError {
            file: self.file.clone(),
            line,
            byte: Some(byte),
            message,
            fatal,
        };
        match self.reader.read_byte_record(&mut self.record) {
            Ok(false) => return None,
            Ok(true) => {}
            Err(e) => return Some(Err(error(line, byte, e.to_string(), true))),
        }
        let (line, byte) = self
            .record
            .position()
            .map_or((line, byte), |p| (p.line(), p.byte()));
        if self.record.len() != self.columns.len() {
            let (got, expected) = (self.record.len(), self.columns.len());
            let message = format!("{got} cells where the heading has {expected}");
            return Some(Err(error(line, byte, message, false)));
        }
        let mut cells = Vec::with_capacity(self.columns.len());
        for (i, (column, cell)) in self.columns.iter().zip(&self.record).enumerate() {
            if cell.is_empty() {
                continue;
            }
            let Ok(text) = std::str::from_utf8(cell) else {
                let message = format!("cell {} is not UTF-8", i + 1);
                return Some(Err(error(line, byte, message, false)));
            };
            cells.push((Arc::clone(column), Cell::Text(text.to_owned())));
        }
        Some(Ok(Row {
            line,
            byte: Some(byte),
            cells,
        }))
    }
}

/// Opens tab-separated values with a heading, or an edge list without one, as in SNAP's files.
pub(super) fn tsv(
    mut input: BufReader<impl Read + Send + 'static>,
    options: &ReadOptions,
) -> Result<Box<dyn RowSource>, RecordError> {
    let start = input
        .fill_buf()
        .map_err(|e| file_error(options, &e.to_string()))?;
    let first = start
        .split(|b| *b == b'\n')
        .find(|line| !line.starts_with(b"#") && !line.starts_with(b"%"))
        .unwrap_or_default();
    let headings = String::from_utf8_lossy(first);
    let has_heading = headings
        .split('\t')
        .any(|h| matches!(Column::of(h, options.rows), Column::Source | Column::Id));
    Ok(if has_heading || options.rows != Rows::Edges {
        Box::new(SeparatedValues::new(input, b'\t', options)?)
    } else {
        Box::new(EdgeList::new(input, options)?)
    })
}

/// Line reader with a limit on the line's length.
pub(super) struct LineReader<R> {
    input: R,
    line: u64,
    byte: u64,
    text: Vec<u8>,
}

/// Error of a line.
pub(super) enum LineError {
    TooLong,
    Io(std::io::Error),
}

impl<R: BufRead> LineReader<R> {
    pub(super) fn new(input: R) -> Self {
        Self {
            input,
            line: 0,
            byte: 0,
            text: Vec::new(),
        }
    }

    /// Returns the next line without its end, with its number and start.
    #[expect(
        clippy::type_complexity,
        reason = "read in two places, twenty lines from here"
    )]
    pub(super) fn next_line(&mut self) -> Option<(u64, u64, Result<&[u8], LineError>)> {
        self.text.clear();
        self.line += 1;
        let begins = self.byte;
        let mut limited = (&mut self.input).take(RECORD_BYTES_MAX);
        match limited.read_until(b'\n', &mut self.text) {
            Ok(0) => return None,
            Ok(n) => self.byte += n as u64,
            Err(e) => return Some((self.line, begins, Err(LineError::Io(e)))),
        }
        if self.text.len() as u64 >= RECORD_BYTES_MAX && !self.text.ends_with(b"\n") {
            let skipped = self.skip_line();
            let error = skipped.map_or_else(LineError::Io, |()| LineError::TooLong);
            return Some((self.line, begins, Err(error)));
        }
        let line = self.text.strip_suffix(b"\n").unwrap_or(&self.text);
        Some((
            self.line,
            begins,
            Ok(line.strip_suffix(b"\r").unwrap_or(line)),
        ))
    }

    fn skip_line(&mut self) -> std::io::Result<()> {
        loop {
            let buffer = self.input.fill_buf()?;
            let (n, ended) = match buffer.iter().position(|b| *b == b'\n') {
                Some(i) => (i + 1, true),
                None => (buffer.len(), buffer.is_empty()),
            };
            self.input.consume(n);
            self.byte += n as u64;
            if ended {
                return Ok(());
            }
        }
    }
}

/// Converts a line's error to a record error.
pub(super) fn line_error(file: &str, line: u64, byte: u64, error: &LineError) -> RecordError {
    let (message, fatal) = match error {
        LineError::TooLong => (
            format!("the line is longer than {RECORD_BYTES_MAX} bytes"),
            false,
        ),
        LineError::Io(e) => (e.to_string(), true),
    };
    RecordError {
        file: file.to_owned(),
        line,
        byte: Some(byte),
        message,
        fatal,
    }
}

/// Rows of an NDJSON file.
pub(super) struct NdjsonRows<R> {
    input: LineReader<R>,
    columns: HashMap<String, Arc<Column>>,
    rows: Rows,
    file: String,
}

impl<R: BufRead> NdjsonRows<R> {
    pub(super) fn new(input: R, options: &ReadOptions) -> Self {
        Self {
            input: LineReader::new(input),
            columns: HashMap::new(),
            rows: options.rows,
            file: options.file.clone(),
        }
    }
}

impl<R: BufRead + Send> RowSource for NdjsonRows<R> {
    fn next_row(&mut self) -> Option<Result<Row, RecordError>> {
        loop {
            let (line, byte, text) = self.input.next_line()?;
            let text = match text {
                Ok(text) => text,
                Err(e) => return Some(Err(line_error(&self.file, line, byte, &e))),
            };
            let text = text
                .strip_prefix(b"\xef\xbb\xbf")
                .filter(|_| line == 1)
                .unwrap_or(text);
            if text.iter().all(u8::is_ascii_whitespace) {
                continue;
            }
            let error = |message: String| RecordError {
                file: self.file.clone(),
                line,
                byte: Some(byte),
                message,
                fatal: false,
            };
            let object = match serde_json::from_slice(text) {
                Ok(Json::Object(object)) => object,
                Ok(_) => return Some(Err(error("expected an object in JSON".into()))),
                Err(e) => {
                    return Some(Err(error(format!(
                        "invalid JSON at column {}: {e}",
                        e.column()
                    ))));
                }
            };
            let mut cells = Vec::with_capacity(object.len());
            for (name, value) in object {
                let column = if let Some(column) = self.columns.get(&name) {
                    Arc::clone(column)
                } else {
                    let column = Arc::new(Column::of(&name, self.rows));
                    if self.columns.len() < COLUMNS_MAX {
                        self.columns.insert(name, Arc::clone(&column));
                    }
                    column
                };
                cells.push((column, Cell::Json(value)));
            }
            return Some(Ok(Row {
                line,
                byte: Some(byte),
                cells,
            }));
        }
    }
}
