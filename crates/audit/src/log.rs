//! The log as its server writes it: lines in memory, then in the file of the newest segment, then on disk with a new head.
//!
//! A failed write loses nothing: the lines stay in memory, and the next [`Log::flush`] continues at the byte where this one stopped.

use crate::chain::{Head, LineHash};
use crate::record::{Entry, Line, ParsedLine};
use crate::{repair, segment};
use esker_model::{Error, Result};
use std::fs::{self, File};
use std::io::{self, Write as _};
use std::path::PathBuf;

/// Version of the format of segments.
const FORMAT: u64 = 1;
const MICROS_PER_DAY: i64 = 86_400_000_000;

/// Place and sizes of a log.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Options {
    /// Folder of the segments.
    pub folder: PathBuf,
    /// Bytes after which a segment is sealed.
    pub segment_bytes: u64,
    /// Age in microseconds after which a segment is sealed.
    pub segment_micros: i64,
    /// Age in microseconds after which a sealed segment is removed; `None` keeps all.
    pub keep_micros: Option<i64>,
    /// Description of the server for the records of its start and its end.
    pub server: String,
}

impl Options {
    /// Options with the default sizes: 64 MiB or a day.
    pub fn new(folder: PathBuf, server: String) -> Self {
        Self {
            folder,
            segment_bytes: 64 << 20,
            segment_micros: MICROS_PER_DAY,
            keep_micros: None,
            server,
        }
    }
}

/// The newest segment.
#[derive(Debug)]
struct Newest {
    file: File,
    number: u64,
    bytes: u64,
    /// Number and time of the first line; `None` before there is one.
    first: Option<(u64, i64)>,
    lines: u64,
    /// Whether the last line is its seal.
    sealed: bool,
}

/// A log that is open for writing.
#[derive(Debug)]
pub struct Log {
    options: Options,
    newest: Newest,
    /// Number and hash of the last line, in memory or in the file.
    head: Head,
    /// Lines that are not in the file yet, and how many of their bytes are.
    pending: Vec<u8>,
    /// Whether the file has bytes that are not on disk.
    dirty: bool,
    /// Keeps other servers away until the log is closed.
    _lock: File,
}

impl Log {
    /// Opens the log in a folder, or begins one. Records the start, and what a crash or somebody else has damaged.
    pub fn open(options: Options, now: i64) -> Result<Self> {
        let lock = segment::lock(&options.folder)?;
        let end = repair::find_end(&options.folder)?;
        let number = end.segment + u64::from(end.sealed);
        let file = segment::create(&options.folder, number)?;
        let newest = if end.sealed {
            Newest {
                file,
                number,
                bytes: 0,
                first: None,
                lines: 0,
                sealed: false,
            }
        } else {
            Newest {
                file,
                number,
                bytes: end.bytes,
                first: end.first,
                lines: end.lines,
                sealed: false,
            }
        };
        let mut log = Self {
            options,
            newest,
            head: end.head,
            pending: Vec::new(),
            dirty: false,
            _lock: lock,
        };
        if log.newest.lines == 0 {
            log.begin_segment(now);
        }
        for repair in &end.repairs {
            let mut line = Line::begin(log.head, now, "repaired");
            line.text("what", &repair.what);
            if let Some(text) = &repair.text {
                line.text("text", text);
            }
            log.push(&line.end(), now);
        }
        log.push_server_event(now, "start");
        log.sync()?;
        for number in [number, number.saturating_sub(1)] {
            repair::forget_torn(&log.options.folder, number);
        }
        log.remove_old(now)?;
        Ok(log)
    }

    /// Number and hash of the last line.
    pub fn head(&self) -> Head {
        self.head
    }

    /// Bytes of lines that are not in the file yet.
    pub fn pending_bytes(&self) -> usize {
        self.pending.len()
    }

    fn push_server_event(&mut self, now: i64, event: &str) {
        let mut line = Line::begin(self.head, now, event);
        line.text("server", &self.options.server);
        self.push(&line.end(), now);
    }

    /// Adds a line in memory.
    fn push(&mut self, line: &str, now: i64) {
        self.head = Head {
            seq: self.head.seq + 1,
            hash: LineHash::of(line.as_bytes()),
        };
        self.newest.first.get_or_insert((self.head.seq, now));
        self.newest.lines += 1;
        self.newest.bytes += line.len() as u64 + 1;
        self.pending.extend_from_slice(line.as_bytes());
        self.pending.push(b'\n');
    }

    fn begin_segment(&mut self, now: i64) {
        let mut line = Line::begin(self.head, now, "segment");
        line.number("segment", self.newest.number);
        line.number("format", FORMAT);
        self.push(&line.end(), now);
    }

    /// Adds a record. It is in the file after [`Self::flush`], and on disk after [`Self::sync`].
    pub fn append(&mut self, entry: &Entry) {
        self.push(&Line::of(self.head, entry), entry.time);
    }

    /// Records how many requests have no record because the queue was full.
    pub fn record_lost(&mut self, count: u64, now: i64) {
        let mut line = Line::begin(self.head, now, "lost");
        line.number("records", count);
        self.push(&line.end(), now);
    }

    /// Writes all lines to the file, and seals the segment if it is large or old enough.
    pub fn flush(&mut self, now: i64) -> Result<()> {
        self.write_pending()?;
        let age = self.newest.first.map_or(0, |(_, time)| now - time);
        // A segment without records is not replaced.
        let old = age >= self.options.segment_micros && self.newest.lines > 1;
        if self.newest.sealed || self.newest.bytes >= self.options.segment_bytes || old {
            self.seal(now)?;
        }
        Ok(())
    }

    fn write_pending(&mut self) -> Result<()> {
        while !self.pending.is_empty() {
            match self.newest.file.write(&self.pending) {
                Ok(0) => return Err(self.write_failed(io::ErrorKind::WriteZero.into())),
                Ok(written) => {
                    self.dirty = true;
                    self.pending.drain(..written);
                }
                Err(e) if e.kind() == io::ErrorKind::Interrupted => {}
                Err(e) => return Err(self.write_failed(e)),
            }
        }
        Ok(())
    }

    fn write_failed(&self, e: io::Error) -> Error {
        let path = segment::path(&self.options.folder, self.newest.number);
        segment::failed("writing", &path, e)
    }

    /// Seals the newest segment and begins the next one.
    fn seal(&mut self, now: i64) -> Result<()> {
        if !self.newest.sealed {
            let mut line = Line::begin(self.head, now, "seal");
            let first = self.newest.first.map_or(0, |(seq, _)| seq);
            line.number("records", self.newest.lines + 1);
            line.number("first", first);
            line.number("last", self.head.seq + 1);
            self.push(&line.end(), now);
            self.newest.sealed = true;
        }
        self.sync()?;
        let folder = &self.options.folder;
        let number = self.newest.number;
        segment::protect(&self.newest.file, &segment::path(folder, number))?;
        self.newest = Newest {
            file: segment::create(folder, number + 1)?,
            number: number + 1,
            bytes: 0,
            first: None,
            lines: 0,
            sealed: false,
        };
        self.begin_segment(now);
        self.sync()?;
        self.remove_old(now)
    }

    /// Makes all lines durable, and then the head that names the last of them.
    pub fn sync(&mut self) -> Result<()> {
        self.write_pending()?;
        if !self.dirty {
            return Ok(());
        }
        let synced = self.newest.file.sync_data();
        synced.map_err(|e| self.write_failed(e))?;
        segment::write_head(&self.options.folder, &self.head.to_json())?;
        self.dirty = false;
        Ok(())
    }

    /// Removes sealed segments that are too old, after a record of it.
    fn remove_old(&mut self, now: i64) -> Result<()> {
        let Some(keep) = self.options.keep_micros else {
            return Ok(());
        };
        let mut old: Vec<u64> = Vec::new();
        let mut last = None;
        for number in segment::list(&self.options.folder)? {
            if number == self.newest.number {
                break;
            }
            let end = last_line(&segment::path(&self.options.folder, number))?;
            match end {
                Some((head, time)) if now.saturating_sub(time) > keep => last = Some(head),
                // Only the beginning of the log is removed.
                _ => break,
            }
            old.push(number);
        }
        let (Some(head), Some(first), Some(until)) = (last, old.first(), old.last()) else {
            return Ok(());
        };
        let mut line = Line::begin(self.head, now, "removed");
        line.number("first_segment", *first);
        line.number("last_segment", *until);
        line.number("last_seq", head.seq);
        line.text("last_hash", &head.hash.to_string());
        line.number("keep_seconds", keep.unsigned_abs() / 1_000_000);
        self.push(&line.end(), now);
        self.sync()?;
        for number in old {
            let path = segment::path(&self.options.folder, number);
            fs::remove_file(&path).map_err(|e| segment::failed("removing", &path, e))?;
        }
        segment::sync_folder(&self.options.folder)
    }

    /// Records the end of the server and makes the log durable.
    pub fn close(mut self, now: i64) -> Result<()> {
        self.push_server_event(now, "stop");
        self.sync()
    }
}

/// Number, hash and time of the last line of a sealed segment; `None` if it is not sealed.
fn last_line(path: &std::path::Path) -> Result<Option<(Head, i64)>> {
    let bytes = segment::read(path)?.unwrap_or_default();
    let mut lines = bytes.split(|b| *b == b'\n').filter(|line| !line.is_empty());
    let Some(line) = lines.next_back() else {
        return Ok(None);
    };
    let parsed = ParsedLine::parse(line).ok().filter(|l| l.event() == "seal");
    Ok(parsed.map(|parsed| {
        let head = Head {
            seq: parsed.seq,
            hash: LineHash::of(line),
        };
        (head, parsed.time)
    }))
}
