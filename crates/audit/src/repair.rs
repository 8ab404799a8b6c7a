//! The state in which a server finds a log at its start. A line that a crash cut short is moved away, and a record says so.

use crate::chain::{Head, LineHash};
use crate::record::{ParsedLine, cut};
use crate::segment;
use esker_model::Result;
use std::fs::{self, OpenOptions};
use std::path::Path;

/// Bytes of a cut line that its record has.
const TORN_TEXT_MAX: usize = 1 << 10;

/// The end of a log, and what is wrong with it.
#[derive(Debug)]
pub(crate) struct FoundEnd {
    /// Head from which the chain continues.
    pub(crate) head: Head,
    /// Number of the last segment; 0 without any.
    pub(crate) segment: u64,
    /// Whether the last segment is sealed, so that another one has to follow.
    pub(crate) sealed: bool,
    /// Bytes of the last segment.
    pub(crate) bytes: u64,
    /// Number of its lines.
    pub(crate) lines: u64,
    /// Number and time of its first line, if it has one.
    pub(crate) first: Option<(u64, i64)>,
    /// Facts for records: what was found, in words, and the cut text.
    pub(crate) repairs: Vec<Repair>,
}

/// A fault at the end of a log, which its next record reports.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Repair {
    pub(crate) what: String,
    pub(crate) text: Option<String>,
}

impl Repair {
    fn new(what: impl Into<String>) -> Self {
        Self {
            what: what.into(),
            text: None,
        }
    }
}

/// Reads the end of the log in a folder, and cuts off an incomplete line.
pub(crate) fn find_end(folder: &Path) -> Result<FoundEnd> {
    let numbers = segment::list(folder)?;
    let noted = segment::read(&folder.join(segment::HEAD))?;
    let noted = noted.map(|bytes| Head::from_json(&String::from_utf8_lossy(&bytes)));
    let mut end = FoundEnd {
        head: Head::START,
        segment: numbers.last().copied().unwrap_or(0),
        sealed: true,
        bytes: 0,
        lines: 0,
        first: None,
        repairs: Vec::new(),
    };
    // A crash may have left the newest segment empty.
    for number in numbers.iter().rev() {
        let bytes = cut_torn(folder, *number, &mut end.repairs)?;
        let last = read_end(&bytes, &mut end, *number);
        if *number == end.segment {
            end.sealed = last.as_ref().is_some_and(|l| l.event() == "seal");
        }
        if last.is_some() || !bytes.is_empty() {
            break;
        }
    }
    match noted {
        Some(Some(noted)) if noted.seq > end.head.seq => {
            let what = format!(
                "records {} to {} were cut off the end of the log",
                end.head.seq + 1,
                noted.seq
            );
            end.repairs.push(Repair::new(what));
            // The gap in the numbers stays visible.
            end.head.seq = noted.seq;
        }
        Some(Some(noted)) if noted.seq == end.head.seq && noted.hash != end.head.hash => {
            let what = format!("record {} was changed after it was written", noted.seq);
            end.repairs.push(Repair::new(what));
        }
        Some(None) => end.repairs.push(Repair::new("head.json is unreadable")),
        None if end.segment > 0 && end.head != Head::START => {
            end.repairs.push(Repair::new("head.json is missing"));
        }
        Some(Some(_)) | None => {}
    }
    Ok(end)
}

/// Reads the last line of a segment into `end`.
fn read_end(bytes: &[u8], end: &mut FoundEnd, number: u64) -> Option<ParsedLine> {
    let lines = bytes.split(|b| *b == b'\n').filter(|line| !line.is_empty());
    let line = lines.clone().next_back()?;
    let parsed = ParsedLine::parse(line);
    end.head = Head {
        seq: parsed.as_ref().map_or(0, |line| line.seq),
        hash: LineHash::of(line),
    };
    if number == end.segment {
        end.bytes = bytes.len() as u64;
        end.lines = lines.clone().count() as u64;
        let first = lines.clone().next().map(ParsedLine::parse);
        end.first = first.and_then(|line| line.ok().map(|line| (line.seq, line.time)));
    }
    match parsed {
        Ok(line) => Some(line),
        Err(why) => {
            let what = format!("the last line of segment {number} is unreadable: {why}");
            end.repairs.push(Repair::new(what));
            None
        }
    }
}

/// Cuts an incomplete last line off a segment, and returns the rest. The bytes are kept in a file until a record has them.
fn cut_torn(folder: &Path, number: u64, repairs: &mut Vec<Repair>) -> Result<Vec<u8>> {
    let path = segment::path(folder, number);
    let mut bytes = segment::read(&path)?.unwrap_or_default();
    let whole = bytes
        .iter()
        .rposition(|b| *b == b'\n')
        .map_or(0, |at| at + 1);
    let kept = segment::torn_path(folder, number);
    let torn = bytes.split_off(whole);
    if !torn.is_empty() {
        fs::write(&kept, &torn).map_err(|e| segment::failed("writing", &kept, e))?;
        segment::sync_folder(folder)?;
        let cut = OpenOptions::new().write(true).open(&path).and_then(|file| {
            file.set_len(whole as u64)?;
            file.sync_all()
        });
        cut.map_err(|e| segment::failed("repairing", &path, e))?;
    }
    if let Some(torn) = segment::read(&kept)? {
        let text = String::from_utf8_lossy(&torn);
        repairs.push(Repair {
            what: format!(
                "a crash had cut the last line of segment {number} short: {} bytes, SHA-256 {}",
                torn.len(),
                LineHash::of(&torn)
            ),
            text: Some(cut(&text, TORN_TEXT_MAX).to_owned()),
        });
    }
    Ok(bytes)
}

/// Removes the cut bytes of all segments once a durable record has them.
pub(crate) fn forget_torn(folder: &Path, number: u64) {
    // If it fails, the next start records the same bytes again.
    let _ = fs::remove_file(segment::torn_path(folder, number));
}
