//! `esker bench namespace`: files created, stat'ed, changed and listed, compared with file systems on the same calls in the same
//! run.
//!
//! [`args`] defines the options, [`disk`] calls a file system, [`files`] a database, [`grow`] fills one directory and records the
//! rate, [`plot`] draws it, [`mdtest`] repeats that program's operations, [`served`] measures through a server.

mod args;
mod disk;
mod files;
mod grow;
mod mdtest;
mod plot;
mod served;

pub(crate) use args::NamespaceBenchArgs;

use super::machine;
use super::random::Random;
use super::report::{Figure, FigureTarget, Report, Unit, median};
use super::scratch::Scratch;
use args::FileCase;
use disk::Disk;
use esker_terminal::context::Context;
use esker_terminal::exit::Outcome;
use files::Files;
use serde_json::json;
use std::sync::{Mutex, PoisonError};
use std::time::Instant;

/// The side that is not a file system.
const ESKER: &str = "esker";

/// The context of a case.
struct NamespaceBench<'a> {
    args: &'a NamespaceBenchArgs,
    context: &'a Context,
    scratch: &'a Scratch,
    report: &'a mut Report,
}

impl NamespaceBench<'_> {
    fn check_interrupt(&self) -> anyhow::Result<()> {
        match self.context.interrupt.stopped() {
            Some(_) => Err(esker_model::Error::Interrupted.into()),
            None => Ok(()),
        }
    }
}

/// A file system or Esker.
trait FileSide: Sync {
    /// Creates the files with these numbers, `batch` per call where supported.
    fn create(&self, numbers: std::ops::Range<u64>, batch: usize) -> anyhow::Result<()>;
    /// Reads one file's attributes.
    fn stat(&self, number: u64) -> anyhow::Result<()>;
    /// Changes one file's permissions.
    fn chmod(&self, number: u64) -> anyhow::Result<()>;
    /// Changes one file's times.
    fn utime(&self, number: u64) -> anyhow::Result<()>;
    /// Bytes read from and written to disk so far; `None` if unknown.
    fn traffic(&self) -> Option<(u64, u64)>;
    /// Lists the directory with all attributes; returns the number of entries.
    fn list(&self) -> anyhow::Result<u64>;
    /// Removes one file.
    fn unlink(&self, number: u64) -> anyhow::Result<()>;
    /// Writes all buffered data and drops caches.
    fn forget(&mut self) -> anyhow::Result<()>;
}

pub(crate) fn run(args: &NamespaceBenchArgs, context: &mut Context) -> anyhow::Result<Outcome> {
    let scratch = Scratch::make(&args.directory, args.keep)?;
    let mut report = Report::new("namespace");
    let mut bench = NamespaceBench {
        args,
        context,
        scratch: &scratch,
        report: &mut report,
    };
    let ran = if args.grow {
        grow::run(&mut bench)
    } else if args.mdtest_like {
        mdtest::run(&mut bench)
    } else if args.clients > 0 {
        served::run(&mut bench)
    } else {
        compare(&mut bench)
    };
    let stopped = match ran {
        Ok(()) => false,
        Err(error) if crate::timed::is_interruption(&error) => true,
        Err(error) => return Err(error),
    };
    let settings = json!({
        "files": args.files,
        "threads": args.threads,
        "clients": args.clients,
        "batch": args.batch,
        "bulk": args.bulk,
        "rounds": args.rounds,
        "forget": args.forget,
        "bytes": args.bytes,
        "memory_bytes": context.globals.memory,
        "durability": if context.durability() == esker::Durability::Sync { "sync" } else { "relaxed" },
    });
    let how = (args.format.format, args.json.as_deref());
    report.print(&settings, how, context)?;
    if stopped {
        context.warn("stopped before the end: the figures above are those that were complete");
    }
    Ok(Outcome::partly_if(stopped))
}

/// Measures all cases, the sides alternating.
fn compare(bench: &mut NamespaceBench<'_>) -> anyhow::Result<()> {
    let mut rates: Vec<CaseRate> = Vec::new();
    for round in 0..bench.args.rounds {
        let mut disks = Vec::new();
        for kind in bench.args.compared() {
            match Disk::make(*kind, bench.scratch) {
                Ok(disk) => disks.push((kind.name().to_owned(), disk)),
                Err(e) if round == 0 => bench
                    .context
                    .warn(&format!("no figures of {}: {e:#}", kind.name())),
                Err(_) => {}
            }
        }
        for (name, disk) in &mut disks {
            measure(bench, name, disk, round, &mut rates)?;
        }
        drop(disks);
        let mut files = Files::make(bench)?;
        measure(bench, ESKER, &mut files, round, &mut rates)?;
        files.close()?;
    }
    for case in &bench.args.cases {
        let of = |side: &str| {
            let mine: Vec<f64> = rates
                .iter()
                .filter(|m| m.side == side && m.case == *case)
                .map(|m| m.rate)
                .collect();
            (!mine.is_empty()).then(|| median(mine))
        };
        let Some(esker) = of(ESKER) else { continue };
        // Batched creation, which file systems lack, is compared with their single creation.
        let theirs = if *case == FileCase::Create {
            FileCase::Single
        } else {
            *case
        };
        for kind in bench.args.compared() {
            let others: Vec<f64> = rates
                .iter()
                .filter(|m| m.side == kind.name() && m.case == theirs)
                .map(|m| m.rate)
                .collect();
            let mut figure = Figure::new(case.text(), Unit::FilesPerSecond, esker)
                .note(format!("beside {}", kind.name()));
            if !others.is_empty() {
                figure = figure.raw(median(others));
            }
            if let Some(target) = target(*case, *kind) {
                figure = figure.target(target);
            }
            bench.report.add(figure);
        }
        if bench.args.compared().is_empty() {
            bench
                .report
                .add(Figure::new(case.text(), Unit::FilesPerSecond, esker));
        }
        add_costs(bench, &rates, *case);
    }
    Ok(())
}

/// The measurement of one side in one round.
struct CaseRate {
    side: String,
    case: FileCase,
    rate: f64,
    /// Processor time per file in microseconds, of all threads, background threads included.
    cpu_micros: f64,
    /// Bytes read from and written to disk, per file.
    traffic: Option<(f64, f64)>,
}

/// Adds the costs besides time: processor time and disk traffic.
fn add_costs(bench: &mut NamespaceBench<'_>, measured: &[CaseRate], case: FileCase) {
    let of = |side: &str, value: &dyn Fn(&CaseRate) -> Option<f64>| {
        let theirs = if case == FileCase::Create && side != ESKER {
            FileCase::Single
        } else {
            case
        };
        let all = measured
            .iter()
            .filter(|m| m.side == side && m.case == theirs);
        let values: Vec<f64> = all.filter_map(value).collect();
        (!values.is_empty()).then(|| median(values))
    };
    let costs: [(&str, Unit, &dyn Fn(&CaseRate) -> Option<f64>); 3] = [
        ("processor", Unit::CpuMicrosPerFile, &|m| Some(m.cpu_micros)),
        ("read from disk", Unit::BytesPerFile, &|m| {
            m.traffic.map(|t| t.0)
        }),
        ("written to disk", Unit::BytesPerFile, &|m| {
            m.traffic.map(|t| t.1)
        }),
    ];
    for (what, unit, value) in costs {
        let Some(esker) = of(ESKER, value) else {
            continue;
        };
        let mut figure = Figure::new(format!("{}: {what}", case.text()), unit, esker);
        // tmpfs has no disk traffic.
        let ext4 = disk::FileSystemKind::Ext4.name();
        if unit == Unit::BytesPerFile
            && let Some(raw) = of(ext4, value)
        {
            figure = figure.raw(raw).note(format!("beside {ext4}"));
        }
        bench.report.add(figure);
    }
}

/// Targets from the issue: batched creation, single creation compared with ext4, stat compared with tmpfs.
fn target(case: FileCase, beside: disk::FileSystemKind) -> Option<FigureTarget> {
    match (case, beside) {
        (FileCase::Create, _) => Some(FigureTarget::AtLeast(300_000.0)),
        (FileCase::Single, disk::FileSystemKind::Ext4) => Some(FigureTarget::Ratio(4.0)),
        (FileCase::Stat, disk::FileSystemKind::Tmpfs) => Some(FigureTarget::Ratio(1.0)),
        _ => None,
    }
}

fn measure(
    bench: &NamespaceBench<'_>,
    name: &str,
    side: &mut dyn FileSide,
    round: u32,
    rates: &mut Vec<CaseRate>,
) -> anyhow::Result<()> {
    let files = u64::from(bench.args.files);
    let threads = u64::from(bench.args.threads);
    let mut made = 0;
    for case in [
        FileCase::Single,
        FileCase::Create,
        FileCase::Stat,
        FileCase::Chmod,
        FileCase::Utime,
        FileCase::List,
        FileCase::Unlink,
    ] {
        bench.check_interrupt()?;
        let is_esker = name == ESKER;
        // Files must exist before the other cases.
        let first = if is_esker {
            FileCase::Create
        } else {
            FileCase::Single
        };
        let wanted = case == first || bench.args.cases.contains(&case);
        if !wanted || case == FileCase::Create && !is_esker {
            continue;
        }
        bench
            .context
            .note(&format!("{name}: {}, round {}", case.text(), round + 1));
        let before = side.traffic().filter(|_| bench.args.disk);
        if let (FileCase::Stat | FileCase::Chmod | FileCase::Utime, Some(_)) =
            (case, bench.args.forget)
        {
            side.forget()?;
        }
        let mut forgetting = Forgetting::default();
        let (began, cpu) = (Instant::now(), machine::process_seconds());
        let done = match case {
            FileCase::Single | FileCase::Create => {
                let batch = if case == FileCase::Create {
                    bench.args.batch as usize
                } else {
                    1
                };
                let first = made;
                in_parallel(threads, |t| {
                    let share = files / threads;
                    let from = first + t * share;
                    side.create(from..from + share, batch)
                })?;
                made += files / threads * threads;
                files / threads * threads
            }
            FileCase::List => side.list()?,
            FileCase::Stat | FileCase::Chmod | FileCase::Utime => {
                let each = bench.args.random.map_or(files, u64::from) / threads;
                // A single portion, unless caches are to be dropped in between.
                let portion = bench.args.forget.map_or(each, |n| u64::from(n) / threads);
                let mut randoms: Vec<Random> = (1..=threads).map(Random::new).collect();
                let mut left = each;
                while left > 0 {
                    bench.check_interrupt()?;
                    let now = left.min(portion.max(1));
                    left -= now;
                    randoms = at_random(&*side, case, made, now, randoms)?;
                    if left > 0 {
                        forgetting.forget(side)?;
                    }
                }
                each * threads
            }
            FileCase::Unlink => {
                let each = files / threads;
                in_parallel(threads, |t| {
                    (t * each..(t + 1) * each).try_for_each(|n| side.unlink(n))
                })?;
                each * threads
            }
        };
        let seconds = began.elapsed().as_secs_f64() - forgetting.seconds;
        let cpu = machine::process_seconds() - cpu - forgetting.cpu;
        let after = before.and_then(|_| side.traffic());
        let traffic = before.zip(after).map(|(before, after)| {
            let each = |before: u64, after: u64| after.saturating_sub(before) as f64 / done as f64;
            (each(before.0, after.0), each(before.1, after.1))
        });
        rates.push(CaseRate {
            side: name.to_owned(),
            case,
            rate: done as f64 / seconds,
            cpu_micros: cpu * 1e6 / done as f64,
            traffic,
        });
    }
    Ok(())
}

/// The cost of dropping caches.
#[derive(Default)]
struct Forgetting {
    seconds: f64,
    cpu: f64,
}

impl Forgetting {
    fn forget(&mut self, side: &mut dyn FileSide) -> anyhow::Result<()> {
        let (began, cpu) = (Instant::now(), machine::process_seconds());
        side.forget()?;
        self.seconds += began.elapsed().as_secs_f64();
        self.cpu += machine::process_seconds() - cpu;
        Ok(())
    }
}

/// Each thread applies the case to `each` random files of the first `made`; returns the generators for continuation.
fn at_random(
    side: &dyn FileSide,
    case: FileCase,
    made: u64,
    each: u64,
    randoms: Vec<Random>,
) -> anyhow::Result<Vec<Random>> {
    let randoms: Vec<Mutex<Random>> = randoms.into_iter().map(Mutex::new).collect();
    in_parallel(randoms.len() as u64, |t| {
        let Some(random) = randoms.get(t as usize) else {
            return Ok(());
        };
        let mut random = random.lock().unwrap_or_else(PoisonError::into_inner);
        (0..each).try_for_each(|_| {
            let number = random.next_below(made);
            match case {
                FileCase::Stat => side.stat(number),
                FileCase::Chmod => side.chmod(number),
                _ => side.utime(number),
            }
        })
    })?;
    let back = |random: Mutex<Random>| random.into_inner().unwrap_or_else(PoisonError::into_inner);
    Ok(randoms.into_iter().map(back).collect())
}

fn all<T>(done: Vec<esker_model::Result<T>>) -> esker_model::Result<()> {
    done.into_iter().try_for_each(|d| d.map(drop))
}

fn in_parallel(
    threads: u64,
    call: impl Fn(u64) -> anyhow::Result<()> + Sync,
) -> anyhow::Result<()> {
    std::thread::scope(|scope| {
        let running: Vec<_> = (0..threads)
            .map(|t| {
                scope.spawn({
                    let call = &call;
                    move || call(t)
                })
            })
            .collect();
        running
            .into_iter()
            .try_for_each(|thread| match thread.join() {
                Ok(done) => done,
                Err(panic) => std::panic::resume_unwind(panic),
            })
    })
}
