//! Measures how fast logs are read on one core, and lists what they contain.
//!
//! `cargo run --release -p esker-import --example darshan_speed -- [--list] FILE|FOLDER…`
//!
//! `--list` prints a line for each file; without it the files are read repeatedly, for two seconds each way: records only, then everything
//! up to the batches that an import would apply.

#![expect(clippy::disallowed_methods, reason = "a benchmark reads the clock")]
#![expect(clippy::print_stdout, reason = "its output is what it is for")]

use std::path::PathBuf;
use std::time::{Duration, Instant};

use std::fmt::Write as _;

use esker_import::darshan::{
    GraphOptions, GraphTypes, Log, LogError, LogIdentity, ParseOptions, graph, parse, scan,
};
use esker_model::Schema;

fn main() -> std::io::Result<()> {
    let mut list = false;
    let mut pending = Vec::new();
    for argument in std::env::args_os().skip(1) {
        if argument == "--list" {
            list = true;
        } else {
            pending.push(PathBuf::from(argument));
        }
    }
    let mut files = Vec::new();
    while let Some(path) = pending.pop() {
        if path.is_dir() {
            for entry in std::fs::read_dir(&path)? {
                pending.push(entry?.path());
            }
        } else if path.to_string_lossy().contains(".darshan") {
            files.push((path.clone(), std::fs::read(&path)?));
        }
    }
    files.sort();
    let options = ParseOptions::default();
    if list {
        for (path, bytes) in &files {
            println!("{}: {}", path.display(), line(parse(bytes, &options)));
        }
        return Ok(());
    }
    let bytes: usize = files.iter().map(|(_, bytes)| bytes.len()).sum();
    println!("{} files, {bytes} bytes", files.len());
    measure("scan", &files, |bytes| {
        let mut records = 0;
        let log = scan(bytes, &options, |_, record| {
            records += 1;
            std::hint::black_box(record).rank < i64::MAX
        });
        log.ok().map(|_| records)
    });
    let types = GraphTypes::resolve(&Schema::default()).map_err(std::io::Error::other)?;
    measure("scan, merge, make batches", &files, |bytes| {
        let log = parse(bytes, &options).ok()?;
        let identity = LogIdentity::of(bytes);
        graph(
            &log,
            &identity,
            &types,
            &GraphOptions::default(),
            &mut |batch| {
                std::hint::black_box(batch);
            },
        );
        Some(log.records.len() as u64)
    });
    Ok(())
}

/// Runs `work`, which returns a number of records, on all files repeatedly.
fn measure(what: &str, files: &[(PathBuf, Vec<u8>)], work: impl Fn(&[u8]) -> Option<u64>) {
    let (begin, cpu) = (Instant::now(), cpu_seconds());
    let (mut logs, mut records, mut rounds) = (0_u64, 0_u64, 0_u64);
    while begin.elapsed() < Duration::from_secs(2) || rounds == 0 {
        for (_, bytes) in files {
            if let Some(n) = work(bytes) {
                logs += 1;
                records += n;
            }
        }
        rounds += 1;
    }
    let (clock, seconds) = match (cpu, cpu_seconds()) {
        (Some(before), Some(after)) => ("CPU", after - before),
        _ => ("wall", begin.elapsed().as_secs_f64()),
    };
    println!(
        "{what}: {rounds} rounds in {seconds:.2} {clock} s: {:.0} logs/s, {:.0} records/s, {:.2} µs a record",
        logs as f64 / seconds,
        records as f64 / seconds,
        seconds * 1e6 / records as f64,
    );
}

/// Returns the CPU time of this thread on Linux, which depends less on other programs than wall-clock time.
fn cpu_seconds() -> Option<f64> {
    let text = std::fs::read_to_string("/proc/self/schedstat").ok()?;
    let ns: u64 = text.split_whitespace().next()?.parse().ok()?;
    Some(ns as f64 / 1e9)
}

fn line(log: Result<Log, LogError>) -> String {
    let log = match log {
        Ok(log) => log,
        Err(error) => return format!("not read: {error}"),
    };
    let modules: Vec<String> = log
        .modules
        .iter()
        .map(|m| {
            let partial = if m.partial { " partial" } else { "" };
            let records = m
                .records
                .map_or_else(|| "skipped".to_owned(), |n| n.to_string());
            format!("{} v{} {records}{partial}", m.id, m.record_version)
        })
        .collect();
    let sum = |get: fn(&esker_import::darshan::ModuleRecord) -> i64| -> i64 {
        log.records.iter().map(|record| get(record).max(0)).sum()
    };
    let mut line = format!(
        "{} {:?} {:?} uid {} job {} n {} start {} names {} [{}] read {} written {}",
        log.version,
        log.order,
        log.compression,
        log.job.uid,
        log.job.job_id,
        log.job.processes,
        log.job.start.seconds,
        log.names.len(),
        modules.join(", "),
        sum(|record| record.bytes_read),
        sum(|record| record.bytes_written),
    );
    for damage in &log.damages {
        let _ = write!(line, "\n    {damage}");
    }
    line
}
