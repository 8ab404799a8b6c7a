//! Reader of `sacct --parsable2`: a heading, and a line for each job and each of its steps. Any columns in any order; unknown columns are
//! kept by their names.

use super::document::in_zone;
use super::job::{SlurmJob, Step, keep, kept_text};
use crate::jobs::job_number;
use esker_model::{Properties, Value};
use jiff::tz::TimeZone;
use std::io::{BufRead, BufReader, Read};

/// Limit of a line's length in bytes.
const LINE_BYTES_MAX: usize = 8 << 20;
/// Limit of steps stored for one job.
const STEPS_MAX: usize = 100_000;

/// An error in a line or in the whole table.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{file}, line {line}: {what}")]
pub struct SacctError {
    /// Name of the file.
    pub file: String,
    /// Line number, from 1.
    pub line: u64,
    /// Description of the error.
    pub what: String,
    /// Whether the rest of the file cannot be read.
    pub fatal: bool,
}

/// Iterator over the jobs of a table, each with the steps that follow it.
pub struct Sacct<R> {
    input: BufReader<R>,
    file: String,
    zone: TimeZone,
    columns: Vec<String>,
    separator: char,
    /// Whether lines end with a separator, as with --parsable.
    trailing: bool,
    line: u64,
    /// The current job, to which steps may still be added.
    open: Option<SlurmJob>,
    ended: bool,
}

impl<R: Read> Sacct<R> {
    /// Reads the heading. `zone` is the time zone of times without an offset.
    pub fn new(input: R, file: &str, zone: TimeZone) -> Result<Self, SacctError> {
        let mut sacct = Self {
            input: BufReader::with_capacity(1 << 16, input),
            file: file.to_owned(),
            zone,
            columns: Vec::new(),
            separator: '|',
            trailing: false,
            line: 0,
            open: None,
            ended: false,
        };
        let heading = sacct.next_line()?.unwrap_or_default();
        sacct.trailing = heading.ends_with('|');
        let heading = heading.trim_end_matches('|');
        sacct.columns = heading
            .split('|')
            .map(|c| c.trim().to_lowercase())
            .collect();
        let known = |names: &[&str]| sacct.columns.iter().any(|c| names.contains(&c.as_str()));
        if !known(&["jobid", "jobidraw"]) {
            let what = format!(
                "expected the heading of `sacct --parsable2` with a column JobID or JobIDRaw, not `{}`; print it without --noheader",
                heading.chars().take(80).collect::<String>()
            );
            return Err(sacct.wrong(what, true));
        }
        Ok(sacct)
    }

    fn wrong(&self, what: String, fatal: bool) -> SacctError {
        SacctError {
            file: self.file.clone(),
            line: self.line,
            what,
            fatal,
        }
    }

    fn next_line(&mut self) -> Result<Option<String>, SacctError> {
        let mut bytes = Vec::new();
        self.line += 1;
        let most = LINE_BYTES_MAX as u64 + 1;
        let read = (&mut self.input).take(most).read_until(b'\n', &mut bytes);
        match read {
            Err(e) => return Err(self.wrong(format!("cannot be read: {e}"), true)),
            Ok(0) => return Ok(None),
            Ok(n) if n > LINE_BYTES_MAX => {
                let what = format!("the line is longer than {LINE_BYTES_MAX} bytes");
                return Err(self.wrong(what, true));
            }
            Ok(_) => {}
        }
        while matches!(bytes.last(), Some(b'\n' | b'\r')) {
            bytes.pop();
        }
        Ok(Some(String::from_utf8_lossy(&bytes).into_owned()))
    }

    /// Splits a line into the cells of the columns.
    fn cells<'l>(&self, line: &'l str) -> Result<Vec<&'l str>, SacctError> {
        let line = match line.strip_suffix(self.separator) {
            Some(rest) if self.trailing => rest,
            _ => line,
        };
        let cells: Vec<&str> = line.split(self.separator).collect();
        if cells.len() != self.columns.len() {
            let what = format!(
                "{} cells, and the heading has {}; does a job's name hold `{}`? Print with --json",
                cells.len(),
                self.columns.len(),
                self.separator
            );
            return Err(self.wrong(what, false));
        }
        Ok(cells)
    }

    fn cell<'c>(&self, cells: &[&'c str], names: &[&str]) -> Option<&'c str> {
        let at = names
            .iter()
            .find_map(|name| self.columns.iter().position(|c| c == name))?;
        let cell = cells.get(at)?.trim();
        (!matches!(cell, "" | "Unknown" | "None")).then_some(cell)
    }

    fn time(&self, cells: &[&str], name: &str) -> Result<Option<i64>, SacctError> {
        let Some(text) = self.cell(cells, &[name]) else {
            return Ok(None);
        };
        in_zone(text, &self.zone).map_err(|()| {
            let what =
                format!("column {name}: expected a time such as 2026-03-01T12:00:00, not `{text}`");
            self.wrong(what, false)
        })
    }

    /// Stores the columns that have no attribute in the schema.
    fn other_columns(&self, cells: &[&str], out: &mut Properties) -> Result<(), SacctError> {
        for (column, cell) in self.columns.iter().zip(cells) {
            let cell = cell.trim();
            if matches!(cell, "" | "Unknown")
                || matches!(
                    column.as_str(),
                    "jobidraw" | "uid" | "jobname" | "start" | "end" | "nodelist"
                )
            {
                continue;
            }
            let value = match column.as_str() {
                "submit" | "eligible" => self.time(cells, column)?.map(Value::Timestamp),
                // `CANCELLED by 1000` contains the user who cancelled; the state is CANCELLED.
                "state" => {
                    let (state, by) = cell.split_once(" by ").unwrap_or((cell, ""));
                    keep(out, "cancelled_by", by.parse().ok().map(Value::I64));
                    Some(Value::String(state.trim_end_matches('+').to_owned()))
                }
                // Canonical integers become numbers; `00:10:00`, `4Gn` and `0:0` stay text. Ids of array tasks are names.
                "jobid" => Some(Value::String(cell.to_owned())),
                _ => Some(match cell.parse::<i64>() {
                    Ok(n) if n.to_string() == cell => Value::I64(n),
                    _ => Value::String(kept_text(cell)),
                }),
            };
            keep(out, attribute_of(column), value);
        }
        Ok(())
    }

    fn job(&self, cells: &[&str], id: &str, shown: &str) -> Result<SlurmJob, SacctError> {
        let of_array = shown.split_once(['_', '+']).map(|(array, _)| array);
        let part_of = of_array.filter(|of| *of != id).and_then(job_number);
        let mut job = SlurmJob {
            id: id.to_owned(),
            part_of: part_of.map(str::to_owned),
            uid: self.cell(cells, &["uid"]).and_then(|c| c.parse().ok()),
            user: self.cell(cells, &["user"]).map(str::to_owned),
            name: self.cell(cells, &["jobname"]).map(kept_text),
            submit: self.time(cells, "submit")?,
            start: self.time(cells, "start")?,
            end: self.time(cells, "end")?,
            nodes: self
                .cell(cells, &["nodelist"])
                .filter(|c| *c != "None assigned")
                .map(str::to_owned),
            tasks: self.cell(cells, &["ntasks"]).and_then(|c| c.parse().ok()),
            command: self.cell(cells, &["submitline"]).map(kept_text),
            ..SlurmJob::default()
        };
        self.other_columns(cells, &mut job.fields)?;
        Ok(job)
    }

    fn step(&self, cells: &[&str], id: &str) -> Result<Step, SacctError> {
        let mut step = Step {
            id: id.to_owned(),
            name: self.cell(cells, &["jobname"]).map(kept_text),
            start: self.time(cells, "start")?,
            end: self.time(cells, "end")?,
            ..Step::default()
        };
        self.other_columns(cells, &mut step.fields)?;
        Ok(step)
    }

    /// Processes a line. Returns the previous job if it is complete.
    fn take(&mut self, line: &str) -> Result<Option<SlurmJob>, SacctError> {
        let cells = self.cells(line)?;
        let shown = self
            .cell(&cells, &["jobid", "jobidraw"])
            .unwrap_or_default();
        let raw = self
            .cell(&cells, &["jobidraw", "jobid"])
            .unwrap_or_default();
        if let Some((number, _)) = raw.split_once('.') {
            let step = self.step(&cells, raw)?;
            let Some(job) = self.open.as_mut().filter(|job| job.id == number) else {
                let what = format!("step {raw} does not follow its job {number}");
                return Err(self.wrong(what, false));
            };
            if job.steps.len() < STEPS_MAX {
                job.steps.push(step);
            }
            return Ok(None);
        }
        let Some(id) = job_number(raw) else {
            // `70_[3-9]` are tasks that have not begun: they become jobs once they have numbers.
            if raw.contains('[') {
                return Ok(None);
            }
            let what = if raw.contains(['_', '+']) {
                format!(
                    "`{raw}` is a task's place in its array, not its number: print the column JobIDRaw, too"
                )
            } else {
                format!("expected a job's number in column JobIDRaw or JobID, not `{raw}`")
            };
            return Err(self.wrong(what, false));
        };
        let job = self.job(&cells, id, shown)?;
        Ok(self.open.replace(job))
    }
}

/// Returns the plug-in's name for a column.
fn attribute_of(column: &str) -> &str {
    match column {
        "jobid" => "job_id",
        "user" => "username",
        "exitcode" => "exit_code",
        "derivedexitcode" => "derived_ec",
        "workdir" => "work_dir",
        "ncpus" | "alloccpus" => "total_cpus",
        "nnodes" | "allocnodes" => "total_nodes",
        "alloctres" => "tres_alloc",
        "reqtres" => "tres_req",
        other => other,
    }
}

impl<R: Read> Iterator for Sacct<R> {
    type Item = Result<SlurmJob, SacctError>;

    fn next(&mut self) -> Option<Self::Item> {
        while !self.ended {
            let line = match self.next_line() {
                Ok(Some(line)) => line,
                Ok(None) => {
                    self.ended = true;
                    break;
                }
                Err(e) => {
                    self.ended = true;
                    return Some(Err(e));
                }
            };
            if line.trim().is_empty() {
                continue;
            }
            match self.take(&line) {
                Ok(None) => {}
                Ok(Some(job)) => return Some(Ok(job)),
                Err(e) => return Some(Err(e)),
            }
        }
        self.open.take().map(Ok)
    }
}
