//! Loads files and times queries, each several times in one process, in processor time, also on the view of a principal that may not see
//! everything:
//! `cargo run --release -p esker-rdf --example speed -- data.nt query.rq…` (each query is named after its file).

#![allow(
    clippy::unwrap_used,
    clippy::print_stdout,
    clippy::disallowed_methods,
    reason = "a program for measurements, on the outer side of the fence"
)]

use esker_rdf::parse::Loader;
use esker_rdf::{Dataset, DateTime, Format, Options, RdfFormat, query};
use std::fs::{self, File};
use std::path::Path;
use std::time::Instant;

/// Returns the processor time of this process in seconds; unlike wall-clock time it is independent of other programs.
fn cpu() -> f64 {
    let text = fs::read_to_string("/proc/self/stat").unwrap_or_default();
    let fields: Vec<&str> = text.rsplit(')').next().unwrap_or("").split(' ').collect();
    let ticks = |i: usize| {
        fields
            .get(i)
            .and_then(|n| n.parse::<f64>().ok())
            .unwrap_or(0.0)
    };
    // User and system time, in ticks of 10 ms.
    (ticks(12) + ticks(13)) / 100.0
}

fn main() {
    let (queries, data): (Vec<String>, Vec<String>) = std::env::args()
        .skip(1)
        .partition(|a| Path::new(a).extension().is_some_and(|e| e == "rq"));
    let started = cpu();
    let threads: usize = std::env::var("THREADS").map_or(1, |n| n.parse().unwrap());
    let clock = Instant::now();
    let mut loader = Loader::new(Dataset::default(), "f", false);
    loader.on_threads(if threads > 1 { threads } else { 0 });
    for file in &data {
        let ending = Path::new(file).extension().unwrap().to_str().unwrap();
        let format = RdfFormat::from_extension(ending).unwrap_or(RdfFormat::RdfXml);
        loader
            .read(
                file,
                &mut File::open(file).unwrap(),
                format,
                None,
                Some("http://example.org/"),
            )
            .unwrap();
    }
    let read = cpu() - started;
    let (dataset, loaded) = loader.finish();
    let time = cpu() - started;
    let wall = clock.elapsed().as_secs_f64();
    let quads = dataset.len();
    println!(
        "{} read, {quads} kept, {wall:.3} s by the clock, {:.3} s of processors ({:.3} s of it sorting), {:.0} quads/s; {} terms, {:.1} bytes of columns a quad, \
         {:.1} bytes a term, {:.1} bytes a quad in all",
        loaded.read,
        time,
        time - read,
        loaded.read as f64 / time,
        dataset.dictionary.len(),
        dataset.quad_bytes() as f64 / quads as f64,
        dataset.dictionary.bytes() as f64 / dataset.dictionary.len() as f64,
        (dataset.dictionary.bytes() + dataset.quad_bytes()) as f64 / quads as f64,
    );
    let mut options = Options::new(DateTime::now(), 1);
    options.threads = threads;
    let mut view = dataset.clone();
    view.make_view();
    for file in &queries {
        let text = fs::read_to_string(file).unwrap();
        let (rows, bytes, each, wall) = time_query(&dataset, &text, &options);
        let (_, _, as_view, _) = time_query(&view, &text, &options);
        println!(
            "{:<24} {rows:>9} rows {bytes:>11} bytes {each:>10.3} ms of processors {wall:>10.3} ms; as a view {as_view:>10.3} ms of processors, {:.2} times",
            Path::new(file).file_stem().unwrap().to_str().unwrap(),
            as_view / each,
        );
    }
}

/// Returns rows and bytes of the answer, and the milliseconds of processor and wall-clock time per run.
fn time_query(data: &Dataset, text: &str, options: &Options<'_>) -> (usize, usize, f64, f64) {
    let (mut rows, mut bytes, mut runs) = (0, 0, 0u32);
    let mut started = cpu();
    let mut clock = Instant::now();
    // The clock ticks every few milliseconds, so several runs are measured at once; the first one is cold and not counted.
    while runs < 2 || (cpu() - started < 1.0 && runs < 100_000) {
        if runs == 1 {
            started = cpu();
            clock = Instant::now();
        }
        runs += 1;
        let answer = query(data, text, None, None, false, options).unwrap();
        let mut out = Vec::new();
        answer.write(Format::Json, &mut out).unwrap();
        (rows, bytes) = (answer.len(), out.len());
    }
    let each = (cpu() - started) * 1000.0 / f64::from(runs - 1);
    let wall = clock.elapsed().as_secs_f64() * 1000.0 / f64::from(runs - 1);
    (rows, bytes, each, wall)
}
