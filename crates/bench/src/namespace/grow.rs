//! One growing directory: the rate of each ten seconds (TableFS's figure of 100 million files).

use super::files::Files;
use super::{FileSide as _, NamespaceBench};
use crate::machine;
use crate::report::{Figure, Unit};
use esker_terminal::units::{count, size};
use std::time::{Duration, Instant};

const WINDOW: Duration = Duration::from_secs(10);

pub(super) fn run(bench: &mut NamespaceBench<'_>) -> anyhow::Result<()> {
    let total = u64::from(bench.args.files);
    let files = Files::make(bench)?;
    let batch = bench.args.batch as usize;
    let (began, mut window, mut in_window, mut done) =
        (Instant::now(), Instant::now(), 0_u64, 0_u64);
    let mut cpu = machine::process_seconds();
    let mut rates = Vec::new();
    let mut points = Vec::new();
    while done < total {
        bench.check_interrupt()?;
        let next = (done + batch as u64).min(total);
        files.create(done..next, batch)?;
        in_window += next - done;
        done = next;
        if window.elapsed() >= WINDOW || done == total {
            let rate = in_window as f64 / window.elapsed().as_secs_f64();
            // Processor time per file is independent of other load on the machine, unlike the rate.
            let micros = (machine::process_seconds() - cpu) * 1e6 / in_window as f64;
            let text = format!(
                "{} files: {}/s, {micros:.2} us of processor each, {} resident",
                count(done),
                count(rate as u64),
                size(machine::memory().now)
            );
            bench.context.note(&text);
            if window.elapsed() >= WINDOW / 2 {
                rates.push(rate);
                points.push((done as f64, rate));
                let case = format!("create, up to {} files", count(done));
                bench
                    .report
                    .add(Figure::new(case, Unit::FilesPerSecond, rate).note("of ten seconds"));
            }
            (window, in_window, cpu) = (Instant::now(), 0, machine::process_seconds());
        }
    }
    if let Some(file) = &bench.args.plot {
        super::plot::draw(&points, file)?;
    }
    let rate = total as f64 / began.elapsed().as_secs_f64();
    let first = rates.first().copied().unwrap_or(rate);
    let last = rates.last().copied().unwrap_or(rate);
    let figure = Figure::new("create, the last ten seconds", Unit::FilesPerSecond, last);
    bench
        .report
        .add(figure.raw(first).note("raw: the first ten"));
    bench.report.add(Figure::new(
        "create, all of them",
        Unit::FilesPerSecond,
        rate,
    ));
    let peak = machine::memory().peak as f64;
    bench
        .report
        .add(Figure::new("memory at most", Unit::Bytes, peak));
    files.close()
}
