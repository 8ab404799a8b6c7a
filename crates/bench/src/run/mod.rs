//! `esker bench run`: overhead of recording a command (bare, `esker run`, `esker run --trace`, alternating), and the
//! rate of delivering a
//! spool.

mod args;
mod tree;

pub(crate) use args::RunBenchArgs;

use super::report::{Figure, FigureTarget, Report, Unit, median};
use super::scratch::Scratch;
use anyhow::Context as _;
use esker::OpenOptions;
use esker_record::{Delivery, Ended, Run, Spool, SpoolFile, deliver_all, new_id, now};
use esker_terminal::context::Context;
use esker_terminal::exit::Outcome;
use esker_terminal::interrupt::Interrupt;
use serde_json::json;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::Instant;

/// Maximum overhead of `esker run` for a command, in milliseconds.
const START_MOST: f64 = 20.0;
/// Minimum time of the bare build relative to the traced one: 1 / 1.5.
const BUILD_LEAST: f64 = 0.67;
/// Number of tasks started concurrently.
const CONCURRENT_TASKS: usize = 16;

/// The ways to run a command.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum RunMode {
    Bare,
    Run,
    Trace,
}

impl RunMode {
    const ALL: [Self; 3] = [Self::Bare, Self::Run, Self::Trace];
}

struct Lab<'a> {
    scratch: &'a Scratch,
    interrupt: Interrupt,
    program: PathBuf,
    spool: PathBuf,
}

impl Lab<'_> {
    fn check_interrupt(&self) -> anyhow::Result<()> {
        match self.interrupt.stopped() {
            Some(_) => Err(esker_model::Error::Interrupted.into()),
            None => Ok(()),
        }
    }

    /// Builds the command; the run stays in the spool, because delivery is measured separately.
    fn command(&self, how: RunMode, words: &[&str], folder: &Path) -> Command {
        let mut command = match how {
            RunMode::Bare => Command::new(words.first().copied().unwrap_or_default()),
            RunMode::Run | RunMode::Trace => {
                let mut command = Command::new(&self.program);
                command.args(["run", "--leave", "--spool"]).arg(&self.spool);
                if how == RunMode::Trace {
                    command.arg("--trace");
                }
                command.arg("--").args(words.first());
                command
            }
        };
        command
            .args(words.get(1..).unwrap_or_default())
            .current_dir(folder)
            .stdin(Stdio::null())
            .stdout(Stdio::null());
        command
    }

    /// Runs the command and returns its time in seconds.
    fn time(&self, how: RunMode, words: &[&str], folder: &Path) -> anyhow::Result<f64> {
        self.check_interrupt()?;
        let mut command = self.command(how, words, folder);
        let began = Instant::now();
        let status = command
            .status()
            .with_context(|| format!("starting `{}`", words.join(" ")))?;
        let took = began.elapsed().as_secs_f64();
        anyhow::ensure!(
            status.success(),
            "`{}` ended with {status}",
            words.join(" ")
        );
        Ok(took)
    }
}

pub(crate) fn run(args: &RunBenchArgs, context: &mut Context) -> anyhow::Result<Outcome> {
    let directory = std::path::absolute(&args.directory)?;
    let scratch = Scratch::make(&directory, args.keep)?;
    let mut report = Report::new("run");
    let lab = Lab {
        scratch: &scratch,
        interrupt: context.interrupt.clone(),
        program: esker_terminal::program::installed("esker")?,
        spool: scratch.cleared_path("spool")?,
    };
    let measured = measure(args, context, &lab, &mut report);
    let stopped = match measured {
        Ok(()) => false,
        Err(error) if crate::timed::is_interruption(&error) => true,
        Err(error) => return Err(error),
    };
    let settings = json!({
        "tree": args.tree,
        "command": args.command,
        "starts": args.starts,
        "files": args.files,
        "tasks": args.tasks,
        "rounds": args.rounds,
    });
    let how = (args.format.format, args.json.as_deref());
    report.print(&settings, how, context)?;
    Ok(Outcome::partly_if(stopped))
}

fn measure(
    args: &RunBenchArgs,
    context: &Context,
    lab: &Lab<'_>,
    report: &mut Report,
) -> anyhow::Result<()> {
    starts(args, context, lab, report)?;
    opens(args, context, lab, report)?;
    build(args, context, lab, report)?;
    tasks(args, context, lab, report)?;
    delivery(args, context, lab, report)
}

/// Measures the overhead for a command that does nothing.
fn starts(
    args: &RunBenchArgs,
    context: &Context,
    lab: &Lab<'_>,
    report: &mut Report,
) -> anyhow::Result<()> {
    context.note("starting `true`");
    let folder = lab.scratch.cleared_path("starts")?;
    std::fs::create_dir_all(&folder)?;
    let mut times: [Vec<f64>; 3] = Default::default();
    for _ in 0..args.starts {
        for (how, times) in RunMode::ALL.into_iter().zip(&mut times) {
            times.push(lab.time(how, &["true"], &folder)? * 1e3);
        }
    }
    let [bare, run, trace] = times.map(median);
    for (case, took) in [("run", run), ("run --trace", trace)] {
        let figure = Figure::new(
            format!("{case}: added to `true`"),
            Unit::Millis,
            took - bare,
        );
        let figure = figure.note(format!("`true` alone: {bare:.2} ms"));
        report.add(if case == "run" {
            figure.target(FigureTarget::AtMost(START_MOST))
        } else {
            figure
        });
    }
    Ok(())
}

/// Measures the overhead of tracing one opened file.
fn opens(
    args: &RunBenchArgs,
    context: &Context,
    lab: &Lab<'_>,
    report: &mut Report,
) -> anyhow::Result<()> {
    context.note("opening files");
    let folder = lab.scratch.cleared_path("files")?;
    std::fs::create_dir_all(&folder)?;
    let names: Vec<String> = (0..args.files).map(|n| format!("f{n}")).collect();
    for name in &names {
        std::fs::write(folder.join(name), b"x")?;
    }
    let mut words = vec!["cat"];
    words.extend(names.iter().map(String::as_str));
    let mut times: [Vec<f64>; 3] = Default::default();
    for _ in 0..args.rounds.max(3) {
        for (how, times) in RunMode::ALL.into_iter().zip(&mut times) {
            times.push(lab.time(how, &words, &folder)?);
        }
    }
    let [bare, run, trace] = times.map(median);
    let each = |seconds: f64| seconds * 1e6 / f64::from(args.files);
    report.add(
        Figure::new(
            "run --trace: a file opened",
            Unit::Micros,
            each(trace - run),
        )
        .note(format!(
            "beside {:.1} us that `cat` takes for it",
            each(bare)
        )),
    );
    Ok(())
}

/// Measures a real build.
fn build(
    args: &RunBenchArgs,
    context: &Context,
    lab: &Lab<'_>,
    report: &mut Report,
) -> anyhow::Result<()> {
    let source = match &args.tree {
        Some(tree) => std::path::absolute(tree)?,
        None => tree::make(&lab.scratch.cleared_path("source")?)?,
    };
    let mut words: Vec<&str> = args.command.iter().map(String::as_str).collect();
    if words.is_empty() {
        words = vec!["make", "-j2"];
    }
    let mut times: [Vec<f64>; 3] = Default::default();
    for round in 0..args.rounds {
        context.note(&format!("building, round {}", round + 1));
        for (how, times) in RunMode::ALL.into_iter().zip(&mut times) {
            let folder = lab.scratch.cleared_path("build")?;
            tree::copy(&source, &folder)?;
            times.push(lab.time(how, &words, &folder)?);
        }
    }
    let [bare, run, trace] = times.map(median);
    let what = words.join(" ");
    report.add(Figure::new(format!("run: {what}"), Unit::Seconds, run).raw(bare));
    let opens = opens_of_last(lab)?;
    report.add(
        Figure::new(format!("run --trace: {what}"), Unit::Seconds, trace)
            .raw(bare)
            .target(FigureTarget::Ratio(BUILD_LEAST))
            .note(format!(
                "{} files opened",
                esker_terminal::units::count(opens)
            )),
    );
    Ok(())
}

/// Returns the number of files opened by the last recorded run.
fn opens_of_last(lab: &Lab<'_>) -> anyhow::Result<u64> {
    let found = Spool::new(&lab.spool).read()?;
    let last = found.into_iter().rev().find_map(|f| match f {
        SpoolFile::Run(waiting) => waiting.run.tags.get("trace_opens")?.parse().ok(),
        _ => None,
    });
    Ok(last.unwrap_or(0))
}

/// Measures many concurrent runs, like the tasks of a job array.
fn tasks(
    args: &RunBenchArgs,
    context: &Context,
    lab: &Lab<'_>,
    report: &mut Report,
) -> anyhow::Result<()> {
    context.note("recording at once");
    let folder = lab.scratch.cleared_path("tasks")?;
    std::fs::create_dir_all(&folder)?;
    let before = Spool::new(&lab.spool).read()?.len();
    let began = Instant::now();
    let tasks = args.tasks as usize;
    std::thread::scope(|scope| -> anyhow::Result<()> {
        let all: Vec<_> = (0..CONCURRENT_TASKS)
            .map(|part| {
                let folder = &folder;
                scope.spawn(move || -> anyhow::Result<()> {
                    for _ in (part..tasks).step_by(CONCURRENT_TASKS) {
                        lab.time(RunMode::Run, &["true"], folder)?;
                    }
                    Ok(())
                })
            })
            .collect();
        for one in all {
            one.join()
                .map_err(|_| anyhow::anyhow!("a thread failed"))??;
        }
        Ok(())
    })?;
    let took = began.elapsed().as_secs_f64();
    let there = Spool::new(&lab.spool).read()?.len() - before;
    anyhow::ensure!(there == tasks, "{there} of {tasks} runs are in the spool");
    report.add(Figure::new(
        format!("run --leave: {CONCURRENT_TASKS} at once"),
        Unit::CallsPerSecond,
        tasks as f64 / took,
    ));
    Ok(())
}

/// Measures the delivery of a spool to a database.
fn delivery(
    args: &RunBenchArgs,
    context: &Context,
    lab: &Lab<'_>,
    report: &mut Report,
) -> anyhow::Result<()> {
    context.note("delivering");
    let spool = Spool::new(lab.scratch.cleared_path("full")?);
    let start = now();
    for n in 0..args.tasks {
        let at = start + i64::from(n) * 1_000_000;
        let mut run = Run {
            id: new_id(at, "bench", n, 0),
            name: "true".into(),
            command: vec!["true".into(), n.to_string()],
            cwd: "/scratch".into(),
            host: "bench".into(),
            pid: n,
            start: at,
            ..Run::default()
        };
        let environment = (0..20).map(|v| (format!("OMP_{v}"), n.to_string()));
        run.environment = environment.collect();
        let entry = spool.begin(&run)?;
        run.ended = Some(Ended {
            at: at + 1_000_000,
            exit: Some(0),
            ..Ended::default()
        });
        entry.end(&run)?;
    }
    let path = lab.scratch.cleared_path("database")?;
    let options = OpenOptions::new().memory_bytes(context.globals.memory);
    let database = options.create(true).open(&path.to_string_lossy())?;
    let began = Instant::now();
    let runs: Vec<_> = spool
        .ended()?
        .into_iter()
        .filter_map(|found| match found {
            SpoolFile::Run(waiting) => Some(waiting),
            _ => None,
        })
        .collect();
    let mut delivery = Delivery::default();
    deliver_all(&database, &runs, None, &mut delivery)?;
    let delivered = delivery.runs;
    let took = began.elapsed().as_secs_f64();
    database.close()?;
    anyhow::ensure!(
        delivered == u64::from(args.tasks),
        "{delivered} of {} runs were delivered",
        args.tasks
    );
    report.add(Figure::new(
        "runs from a spool into a database",
        Unit::CallsPerSecond,
        delivered as f64 / took,
    ));
    Ok(())
}
