//! `esker site record`: runs a program under strace, and writes its file-system calls as a trace.

use super::{file_error, write_to};
use crate::args::SiteRecordArgs;
use esker_site_cache::trace::{Format, Traces};
use esker_terminal::context::Context;
use esker_terminal::exit::{Outcome, usage};
use esker_terminal::units::{count, counted};
use std::fs::{self, File};
use std::io::{self, BufReader};
use std::os::unix::ffi::OsStrExt as _;
use std::os::unix::process::ExitStatusExt as _;
use std::path::{Path, PathBuf};
use std::process::{Command, ExitStatus};

/// System calls to trace: those with paths, and those that determine the working directory of a process.
const CALLS: &str = "trace=%file,getdents64,getdents,clone,clone3,fork,vfork";

pub(super) fn run(args: &SiteRecordArgs, context: &mut Context) -> anyhow::Result<Outcome> {
    if super::is_standard(&args.out) {
        return Err(usage(
            "--out: standard output belongs to the program; give a file for the trace",
        ));
    }
    let raw = raw_path(&args.out);
    let recorded = record(args, &raw, context);
    let removed = fs::remove_file(&raw);
    let outcome = recorded?;
    removed.map_err(|e| file_error("removing", &raw, e))?;
    Ok(outcome)
}

/// Returns the file for strace's output, beside the trace.
fn raw_path(out: &Path) -> PathBuf {
    let mut name = out.as_os_str().to_owned();
    name.push(".strace");
    name.into()
}

fn record(args: &SiteRecordArgs, raw: &Path, context: &mut Context) -> anyhow::Result<Outcome> {
    // An unwritable file is reported before the program runs.
    File::create(raw).map_err(|e| file_error("writing", raw, e))?;
    let status = under_strace(args, raw)?;
    let here = Path::new(".");
    let directory = std::env::current_dir().map_err(|e| file_error("looking for", here, e))?;
    let mut traces = Traces::new();
    let from = File::open(raw).map_err(|e| file_error("reading", raw, e))?;
    let from = BufReader::with_capacity(1 << 16, from);
    let directory = Some(directory.as_os_str().as_bytes());
    let trace = traces
        .read(from, Some(Format::Strace), true, directory)
        .map_err(|e| file_error("reading", raw, e))?
        .map_err(|e| usage(e.to_string()))?;
    let first = trace.events.first().map_or(0, |e| e.t);
    write_to(&args.out, context, |out| {
        let mut line = String::new();
        for event in &trace.events {
            let mut event = *event;
            event.t -= first;
            line.clear();
            traces.write(&event, &mut line);
            out.write_all(line.as_bytes())?;
        }
        Ok(())
    })?;
    context.note(&format!(
        "{} of {} on {} in {}",
        counted(trace.events.len() as u64, "request", "requests"),
        counted(traces.clients() as u64, "process", "processes"),
        counted(traces.paths.len() as u64, "path", "paths"),
        args.out.display()
    ));
    if let Some(first) = &trace.first_skipped {
        context.warn(&format!(
            "{} of strace not understood; {first}",
            count(trace.skipped)
        ));
    }
    if !status.success() {
        let how = match (status.code(), status.signal()) {
            (Some(code), _) => format!("ended with {code}"),
            (None, Some(signal)) => format!("was ended by signal {signal}"),
            (None, None) => "did not end well".to_owned(),
        };
        context.warn(&format!("the program {how}"));
    }
    Ok(Outcome::partly_if(trace.skipped > 0 || !status.success()))
}

fn under_strace(args: &SiteRecordArgs, raw: &Path) -> anyhow::Result<ExitStatus> {
    let status = Command::new("strace")
        .args([
            "-f",
            "-ttt",
            "-y",
            "-qq",
            "-e",
            CALLS,
            "-e",
            "signal=none",
            "-o",
        ])
        .arg(raw)
        .arg("--")
        .args(&args.command)
        .status();
    match status {
        Ok(status) => Ok(status),
        Err(error) if error.kind() == io::ErrorKind::NotFound => Err(usage(
            "strace is not installed; on Debian: apt install strace. What `strace -f -ttt -y -o FILE CMD` writes elsewhere \
             can be replayed as it is",
        )),
        Err(error) => Err(file_error("starting", Path::new("strace"), error)),
    }
}
