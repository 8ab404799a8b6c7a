//! Verification of a log: each line against the one before, each segment against its seal, the end against `head.json`.

use crate::chain::{Head, LineHash};
use crate::record::ParsedLine;
use crate::segment;
use esker_model::Result;
use std::path::Path;

/// Problems that are reported; further ones are counted.
const PROBLEMS_MAX: usize = 100;

/// A place where the log is not as it was written.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Problem {
    /// Name of the file.
    pub file: String,
    /// Number of the line in it, from 1; 0 for the file as a whole.
    pub line: u64,
    /// Description of the damage.
    pub what: String,
}

/// Result of a verification.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Report {
    /// Number of segments read.
    pub segments: u64,
    /// Number of lines, with those that the log writes about itself.
    pub records: u64,
    /// Times of the first and of the last line, in microseconds since 1970.
    pub times: Option<(i64, i64)>,
    /// Number and hash of the last line.
    pub head: Option<Head>,
    /// Number of the last record that was removed because of its age; 0 if none was.
    pub removed_to: u64,
    /// Repairs, lost records and an unfinished last line, which are no damage.
    pub notes: Vec<String>,
    /// Problems, the first ones.
    pub problems: Vec<Problem>,
    /// Number of all problems.
    pub problems_total: u64,
}

impl Report {
    /// Whether the log is as it was written.
    pub fn is_intact(&self) -> bool {
        self.problems_total == 0
    }

    fn problem(&mut self, file: &str, line: u64, what: impl Into<String>) {
        self.problems_total += 1;
        if self.problems.len() < PROBLEMS_MAX {
            self.problems.push(Problem {
                file: file.to_owned(),
                line,
                what: what.into(),
            });
        }
    }
}

/// Progress of a verification.
struct Verification {
    report: Report,
    /// The line that was read last.
    last: Head,
    /// The line before the first segment that is present.
    before: Option<Head>,
    /// Removal that the latest record of one names.
    removed: Option<Head>,
    /// Heads that have to be in the log, each with its source.
    expected: Vec<(String, Head)>,
}

/// Verifies the log in a folder. `kept` are heads that somebody kept elsewhere, which must be in its chain.
pub fn verify(folder: &Path, kept: &[Head]) -> Result<Report> {
    let mut expected: Vec<_> = kept
        .iter()
        .map(|head| ("the head that was kept".to_owned(), *head))
        .collect();
    let mut report = Report::default();
    match segment::read(&folder.join(segment::HEAD))? {
        None => report.problem(
            segment::HEAD,
            0,
            "the file is missing: a cut end of the log would not be noticed",
        ),
        Some(bytes) => match Head::from_json(&String::from_utf8_lossy(&bytes)) {
            Some(head) => expected.push((segment::HEAD.to_owned(), head)),
            None => report.problem(segment::HEAD, 1, "the file is not as a server writes it"),
        },
    }
    let mut verification = Verification {
        report,
        last: Head::START,
        before: None,
        removed: None,
        expected,
    };
    let numbers = segment::list(folder)?;
    let mut after = None;
    for number in &numbers {
        if let Some(after) = after
            && *number != after + 1
        {
            let first = segment_name(after + 1);
            let what = format!("segments {} to {} are missing", after + 1, number - 1);
            verification.report.problem(&first, 0, what);
        }
        after = Some(*number);
        let is_newest = numbers.last() == Some(number);
        verification.segment(folder, *number, is_newest)?;
    }
    Ok(verification.end())
}

fn segment_name(number: u64) -> String {
    let path = segment::path(Path::new(""), number);
    path.display().to_string()
}

impl Verification {
    fn segment(&mut self, folder: &Path, number: u64, is_newest: bool) -> Result<()> {
        let name = segment_name(number);
        let bytes = segment::read(&segment::path(folder, number))?.unwrap_or_default();
        self.report.segments += 1;
        let mut lines = bytes.split(|b| *b == b'\n');
        let rest = lines.next_back().unwrap_or_default();
        let (mut count, mut first, mut sealed) = (0, 0, false);
        for line in lines {
            count += 1;
            if sealed {
                self.report
                    .problem(&name, count, "the line follows the seal of its segment");
            }
            let Some(parsed) = self.line(&name, count, line) else {
                continue;
            };
            if count == 1 {
                first = parsed.seq;
                if parsed.event() != "segment" || parsed.number("segment") != Some(number) {
                    let what = format!("the first line does not say that this is segment {number}");
                    self.report.problem(&name, 1, what);
                }
            }
            if parsed.event() == "seal" {
                sealed = true;
                let said = ["records", "first", "last"].map(|key| parsed.number(key));
                if said != [Some(count), Some(first), Some(parsed.seq)] {
                    let what = "the seal does not fit the lines of its segment";
                    self.report.problem(&name, count, what);
                }
            }
        }
        if !rest.is_empty() {
            if is_newest {
                let note = format!(
                    "{name}: the last line is unfinished: the server writes it now, or a crash cut it short ({} bytes)",
                    rest.len()
                );
                self.report.notes.push(note);
            } else {
                self.report.problem(&name, count + 1, "the line has no end");
            }
        }
        if !sealed && !is_newest {
            self.report
                .problem(&name, count, "the segment has no seal: its end is missing");
        }
        Ok(())
    }

    /// Verifies a line, and continues from it even if it does not fit.
    fn line(&mut self, name: &str, number: u64, line: &[u8]) -> Option<ParsedLine> {
        let parsed = match ParsedLine::parse(line) {
            Ok(parsed) => parsed,
            Err(why) => {
                self.report.problem(name, number, why);
                self.last = Head {
                    seq: self.last.seq + 1,
                    hash: LineHash::of(line),
                };
                return None;
            }
        };
        self.report.records += 1;
        if self.before.is_none() {
            let before = Head {
                seq: parsed.seq.saturating_sub(1),
                hash: parsed.prev,
            };
            self.before = Some(before);
            self.last = before;
        }
        if parsed.seq != self.last.seq + 1 {
            let what = if parsed.seq > self.last.seq + 1 {
                format!(
                    "records {} to {} are missing before this line",
                    self.last.seq + 1,
                    parsed.seq - 1
                )
            } else {
                format!(
                    "expected record {}, found record {}",
                    self.last.seq + 1,
                    parsed.seq
                )
            };
            self.report.problem(name, number, what);
        } else if parsed.prev != self.last.hash {
            let what = format!(
                "`prev` is not the hash of the line before: record {} or this line was changed",
                self.last.seq
            );
            self.report.problem(name, number, what);
        }
        self.last = Head {
            seq: parsed.seq,
            hash: LineHash::of(line),
        };
        self.note(name, number, &parsed);
        Some(parsed)
    }

    /// Notes what the log says about itself, and heads that are found.
    fn note(&mut self, name: &str, number: u64, parsed: &ParsedLine) {
        let (from, _) = self.report.times.unwrap_or((parsed.time, 0));
        self.report.times = Some((from, parsed.time));
        match parsed.event() {
            "repaired" => {
                let note = format!("{name}:{number}: {}", parsed.text("what"));
                self.report.notes.push(note);
            }
            "lost" => {
                let lost = parsed.number("records").unwrap_or(0);
                let note =
                    format!("{name}:{number}: {lost} requests have no record: the queue was full");
                self.report.notes.push(note);
            }
            "removed" => {
                let hash = LineHash::parse(parsed.text("last_hash"));
                self.removed = parsed
                    .number("last_seq")
                    .zip(hash)
                    .map(|(seq, hash)| Head { seq, hash });
            }
            _ => {}
        }
        let last = self.last;
        let report = &mut self.report;
        self.expected.retain(|(source, head)| {
            if head.seq != last.seq {
                return true;
            }
            if head.hash != last.hash {
                let what = format!("record {} is not the one that {source} names", head.seq);
                report.problem(name, number, what);
            }
            false
        });
    }

    fn end(mut self) -> Report {
        let before = self.before.unwrap_or(Head::START);
        if before.seq > 0 {
            if self.removed == Some(before) {
                self.report.removed_to = before.seq;
            } else {
                let what = format!(
                    "the log begins with record {}, and no record says that the ones before were removed because of their age",
                    before.seq + 1
                );
                self.report.problem("", 0, what);
            }
        } else if before.hash != LineHash::START {
            self.report
                .problem("", 0, "the first record names a line before it");
        }
        for (source, head) in std::mem::take(&mut self.expected) {
            if self.removed == Some(head) {
                continue;
            }
            let what = if head.seq <= self.report.removed_to {
                format!(
                    "record {} of {source} was removed because of its age and cannot be checked",
                    head.seq
                )
            } else {
                format!("record {} of {source} is missing", head.seq)
            };
            self.report.problem("", 0, what);
        }
        if self.report.segments == 0 {
            self.report.problem("", 0, "there is no segment");
        }
        self.report.head = (self.report.records > 0).then_some(self.last);
        self.report
    }
}
