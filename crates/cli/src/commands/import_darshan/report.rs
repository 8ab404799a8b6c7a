//! Totals of an import, and problems by log.

use super::log::{Imported, LogOutcome};
use crate::args::RowFormat;
use esker_model::Error;
use esker_terminal::context::Context;
use esker_terminal::interrupt::Stopped;
use esker_terminal::output::{Cell, Rows};
use esker_terminal::progress::Progress;
use esker_terminal::units::{count, counted, elapsed, size};
use serde_json::{Value as Json, json};
use std::io;
use std::path::Path;
use std::time::Duration;

/// Maximum number of problems in the JSON report; all are printed and counted.
const PROBLEMS_MAX: usize = 10_000;

/// Totals of all logs.
#[derive(Debug, Default)]
pub(super) struct ImportReport {
    imported: u64,
    known: u64,
    damaged: u64,
    refused: u64,
    unreadable: u64,
    rejected: u64,
    stopped: u64,
    partial: u64,
    objects_alone: u64,
    bytes: u64,
    records: u64,
    vertices_created: u64,
    edges_created: u64,
    files_read: u64,
    files_written: u64,
    files_untouched: u64,
    helpers_skipped: u64,
    pub(super) other_files: u64,
    processes: u64,
    problems: Vec<Json>,
    problems_total: u64,
    pub(super) elapsed: Duration,
    pub(super) interrupted: Option<Stopped>,
}

impl ImportReport {
    /// Adds the result of one log, and prints its problems. Returns an error that ends the import.
    pub(super) fn take(
        &mut self,
        path: &Path,
        outcome: LogOutcome,
        context: &Context,
        progress: &Progress,
    ) -> Option<Error> {
        match outcome {
            LogOutcome::Imported(log) => self.imported(path, &log, context, progress),
            LogOutcome::AlreadyImported => self.known += 1,
            LogOutcome::Unreadable(error) => self.unreadable(path, &error, context, progress),
            LogOutcome::Refused(error) => {
                self.refused += 1;
                self.problem(path, &error.to_string(), context, progress);
            }
            LogOutcome::Rejected(error) => {
                self.rejected += 1;
                self.problem(path, &error.to_string(), context, progress);
            }
            LogOutcome::Stopped => self.stopped += 1,
            LogOutcome::Fatal(error) => return Some(error),
        }
        None
    }

    fn imported(&mut self, path: &Path, log: &Imported, context: &Context, progress: &Progress) {
        self.imported += 1;
        self.damaged += u64::from(!log.damages.is_empty());
        self.partial += u64::from(log.partial);
        self.objects_alone += u64::from(log.objects_alone);
        self.bytes += log.bytes;
        self.records += log.records;
        self.vertices_created += log.vertices_created;
        self.edges_created += log.edges_created;
        self.files_read += log.counts.files_read;
        self.files_written += log.counts.files_written;
        self.files_untouched += log.counts.files_untouched;
        self.helpers_skipped += log.counts.helpers_skipped;
        self.processes += log.counts.processes;
        for damage in &log.damages {
            self.problem(path, &damage.to_string(), context, progress);
        }
    }

    pub(super) fn unreadable(
        &mut self,
        path: &Path,
        error: &io::Error,
        context: &Context,
        progress: &Progress,
    ) {
        self.unreadable += 1;
        self.problem(path, &format!("cannot be read: {error}"), context, progress);
    }

    /// Prints a line with the file and, if known, the position in bytes.
    fn problem(&mut self, path: &Path, what: &str, context: &Context, progress: &Progress) {
        let path = path.display().to_string();
        let line = Cell::from(format!("{path}: {what}")).table_text();
        progress.above(|| context.warn(&line));
        self.problems_total += 1;
        if self.problems.len() < PROBLEMS_MAX {
            self.problems
                .push(json!({"path": path, "byte": byte_of(what), "what": what}));
        }
    }

    pub(super) fn progress_text(&self) -> String {
        let bad = self.problems_total;
        let records = counted(self.records, "record", "records");
        if bad == 0 {
            records
        } else {
            format!("{records}, {}", counted(bad, "problem", "problems"))
        }
    }

    /// Whether any log had a problem.
    pub(super) fn failed(&self) -> bool {
        self.problems_total > 0
    }

    fn logs(&self) -> u64 {
        self.imported + self.known + self.refused + self.unreadable + self.rejected + self.stopped
    }

    pub(super) fn print(&self, format: RowFormat, context: &mut Context) -> anyhow::Result<()> {
        match format {
            RowFormat::Table => {
                if !context.globals.quiet {
                    for line in self.lines() {
                        writeln!(context.out, "{line}")?;
                    }
                }
            }
            RowFormat::Json => {
                writeln!(
                    context.out,
                    "{}",
                    serde_json::to_string_pretty(&self.as_json())?
                )?;
            }
            RowFormat::Ndjson => writeln!(context.out, "{}", self.as_json())?,
            RowFormat::Csv => {
                let columns = &["what", "count"];
                let mut rows = Rows::new(&mut context.out, format, context.style, columns);
                for (what, n) in self.sums() {
                    rows.row(vec![what.into(), Cell::Count(n)])?;
                }
                rows.finish()?;
            }
        }
        context.out.flush()?;
        Ok(())
    }

    fn lines(&self) -> Vec<String> {
        let seconds = self.elapsed.as_secs_f64().max(1e-6);
        #[expect(
            clippy::cast_possible_truncation,
            clippy::cast_sign_loss,
            reason = "a rate for people; saturates"
        )]
        let per_second = |n: u64| count((n as f64 / seconds) as u64);
        let mut lines = vec![
            format!(
                "imported {} of {}: {} of {}, in {} ({} logs/s)",
                count(self.imported),
                counted(self.logs(), "log", "logs"),
                counted(self.records, "file record", "file records"),
                size(self.bytes),
                elapsed(self.elapsed),
                per_second(self.imported),
            ),
            format!(
                "new: {}, {}; {} read, {} written",
                counted(self.vertices_created, "vertex", "vertices"),
                counted(self.edges_created, "edge", "edges"),
                counted(self.files_read, "file", "files"),
                count(self.files_written),
            ),
        ];
        let mut left_out = Vec::new();
        if self.helpers_skipped > 0 {
            let helpers = counted(self.helpers_skipped, "helper file", "helper files");
            left_out.push(format!("{helpers} (--keep-helpers keeps them)"));
        }
        if self.files_untouched > 0 {
            let files = counted(self.files_untouched, "file", "files");
            left_out.push(format!("{files} neither read nor written"));
        }
        if self.other_files > 0 {
            let files = counted(self.other_files, "file", "files");
            left_out.push(format!(
                "{files} of the folders not named *.darshan or *.darshan.gz"
            ));
        }
        if !left_out.is_empty() {
            lines.push(format!("left out: {}", left_out.join(", ")));
        }
        let mut say = |n: u64, one: &str, many: &str| {
            if n > 0 {
                lines.push(counted(n, one, many));
            }
        };
        say(
            self.known,
            "log skipped: it was imported before (--again imports it once more)",
            "logs skipped: they were imported before (--again imports them once more)",
        );
        say(
            self.partial,
            "log partial: Darshan had no memory for all files of its job",
            "logs partial: Darshan had no memory for all files of their jobs",
        );
        say(
            self.objects_alone,
            "log with objects of DAOS, which have no names and are not imported",
            "logs with objects of DAOS, which have no names and are not imported",
        );
        say(
            self.damaged,
            "log damaged: the readable part of it is imported",
            "logs damaged: the readable parts of them are imported",
        );
        say(
            self.refused,
            "file skipped: not a Darshan log",
            "files skipped: not Darshan logs",
        );
        say(
            self.unreadable,
            "file skipped: it cannot be read",
            "files skipped: they cannot be read",
        );
        say(
            self.rejected,
            "log skipped: the database refused it",
            "logs skipped: the database refused them",
        );
        if let Some(why) = self.interrupted {
            lines.push(format!(
                "stopped before the end ({}): the same command continues where it stopped",
                why.name()
            ));
        }
        lines
    }

    fn sums(&self) -> [(&'static str, u64); 18] {
        [
            ("logs", self.logs()),
            ("imported", self.imported),
            ("known", self.known),
            ("damaged", self.damaged),
            ("refused", self.refused),
            ("unreadable", self.unreadable),
            ("rejected", self.rejected),
            ("partial", self.partial),
            ("objects_alone", self.objects_alone),
            ("records", self.records),
            ("bytes", self.bytes),
            ("vertices_created", self.vertices_created),
            ("edges_created", self.edges_created),
            ("files_read", self.files_read),
            ("files_written", self.files_written),
            ("files_untouched", self.files_untouched),
            ("helpers_skipped", self.helpers_skipped),
            ("other_files", self.other_files),
        ]
    }

    fn as_json(&self) -> Json {
        let mut object = serde_json::Map::new();
        object.insert("complete".into(), self.interrupted.is_none().into());
        for (what, n) in self.sums() {
            object.insert(what.into(), n.into());
        }
        object.insert("processes".into(), self.processes.into());
        object.insert("seconds".into(), self.elapsed.as_secs_f64().into());
        object.insert("problems_total".into(), self.problems_total.into());
        object.insert("problems".into(), self.problems.clone().into());
        object.into()
    }
}

/// Returns the position at the beginning of an importer's message (`byte 1208, job region: …`).
fn byte_of(what: &str) -> Option<u64> {
    let rest = what.strip_prefix("byte ")?;
    let end = rest.find(|c: char| !c.is_ascii_digit())?;
    rest.get(..end)?.parse().ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_byte_is_taken_from_the_message() {
        assert_eq!(
            byte_of("byte 1208, job region: the file ends early"),
            Some(1208)
        );
        assert_eq!(byte_of("cannot be read: Permission denied"), None);
    }
}
