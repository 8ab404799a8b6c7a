//! Starting the program, traced or not, and waiting for it.

use super::warn;
use crate::args::{Globals, RunArgs};
use esker_record::{Run, Spool, Use, now};
use esker_trace::{Observed, ObservedFile, Options, Outcome};
use std::collections::BTreeMap;
use std::io;
use std::path::PathBuf;
use std::process::{Command, ExitStatus};
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::{Duration, SystemTime, UNIX_EPOCH};

/// Time and status of the program's end.
type Status = (i64, io::Result<ExitStatus>);

/// Runs the program until it ends.
pub(super) fn run_to_end(
    args: &RunArgs,
    globals: &Globals,
    run: &Run,
    spool: &Spool,
    child: &Arc<AtomicU32>,
) -> (Status, Option<Observed>) {
    let command = || {
        let (program, words) = args
            .command
            .split_first()
            .map_or(("", &[][..]), |(p, w)| (p.as_str(), w));
        let mut command = Command::new(program);
        command.args(words).env(esker_record::OWN_ID, &run.id);
        command
    };
    if args.trace {
        let options = options(args, run, spool);
        let started = |pid| child.store(pid, Ordering::Release);
        match esker_trace::run(command(), &options, &started) {
            Outcome::Ran(status, at, observed) => {
                return ((nanos(at), Ok(status)), Some(observed));
            }
            Outcome::NotStarted(e) => return ((now(), Err(e)), None),
            Outcome::Refused(why) => warn(
                globals,
                &format!(
                    "the files that this run opens are not recorded: {why}; containers may need --cap-add SYS_PTRACE, \
                     machines a kernel.yama.ptrace_scope below 2"
                ),
            ),
        }
    }
    let status = command().spawn().and_then(|mut started| {
        child.store(started.id(), Ordering::Release);
        started.wait()
    });
    ((now(), status), None)
}

fn nanos(at: SystemTime) -> i64 {
    let since = at.duration_since(UNIX_EPOCH).unwrap_or_default();
    i64::try_from(since.as_nanos()).unwrap_or(i64::MAX)
}

fn options(args: &RunArgs, run: &Run, spool: &Spool) -> Options {
    let mut ignore = args.trace_ignore.clone();
    if !args.trace_system {
        ignore.extend(esker_trace::SYSTEM.iter().map(PathBuf::from));
    }
    // Files of the recording itself are not part of the run.
    ignore.push(spool.folder().to_owned());
    if !run.target.is_empty() && !run.target.contains("://") {
        ignore.push(PathBuf::from(&run.target));
    }
    Options {
        ignore,
        start: UNIX_EPOCH + Duration::from_nanos(run.start.try_into().unwrap_or(0)),
    }
}

fn used(seen: &ObservedFile) -> Use {
    Use {
        path: seen.path.to_string_lossy().into_owned(),
        size: Some(seen.size),
        mtime: Some(seen.mtime),
        tags: BTreeMap::new(),
        observed: true,
    }
}

/// Adds the traced files to those that the user declared; a declaration takes precedence.
pub(super) fn add_observed(run: &mut Run, observed: &Observed) {
    let missing = |known: &[Use], found: Vec<Use>| -> Vec<Use> {
        let is_new = |one: &Use| !known.iter().any(|k| k.path == one.path);
        found.into_iter().filter(is_new).collect()
    };
    let inputs = observed.inputs.iter().map(used).collect();
    let inputs = missing(&run.inputs, inputs);
    run.inputs.extend(inputs);
    let outputs = observed.outputs.iter().map(|p| Use {
        observed: true,
        ..Use::of(p)
    });
    let outputs = outputs.collect();
    let outputs = missing(&run.outputs, outputs);
    run.outputs.extend(outputs);
    let programs = observed.programs.iter().map(used).collect();
    let programs = missing(&run.programs, programs);
    run.programs.extend(programs);
    let opens = observed.opens.to_string();
    run.tags.insert("trace_opens".into(), opens);
    if observed.left_out > 0 {
        let left_out = observed.left_out.to_string();
        run.tags.insert("trace_left_out".into(), left_out);
    }
}
