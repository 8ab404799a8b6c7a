//! Costs of objects at rest: memory of a server (Table IV), disk space, a checkpoint (Figure 15), a restart (Figure 14).

use super::shape::{Names, ObjectShape, Tags};
use super::{ObjectsBench, create, stores};
use crate::machine;
use crate::report::{Figure, FigureTarget, Unit, median};
use crate::serve::child::Child;
use anyhow::Context as _;
use esker_model::object::{ObjectKey, ObjectRead as _};
use esker_model::{GraphWrite as _, NeverCancel};
use esker_terminal::units::{count, size};
use std::os::unix::fs::MetadataExt as _;
use std::path::Path;
use std::time::Instant;

/// Table IV: numbers of objects, and megabytes of the paper's servers in each workload.
const TABLE: [(u32, [u32; 3]); 4] = [
    (50_000, [35, 36, 37]),
    (100_000, [63, 69, 72]),
    (500_000, [337, 345, 356]),
    (1_000_000, [643, 685, 713]),
];

pub(super) fn run(bench: &mut ObjectsBench<'_>) -> anyhow::Result<()> {
    for names in bench.args.workloads.clone() {
        bench.check_interrupt()?;
        bench.say(&format!("memory and disk, {}", names.text()));
        let path = bench.scratch.cleared_path("kept")?;
        grown(bench, names, &path)?;
        kept(bench, names, &path)?;
    }
    Ok(())
}

/// Measures a server with a growing number of objects, then one restarted on them.
fn grown(bench: &mut ObjectsBench<'_>, names: Names, path: &Path) -> anyhow::Result<()> {
    let objects = bench.args.objects;
    let shape = ObjectShape {
        names,
        tags: Tags::Few,
    };
    let server = Child::start(bench.context, path)?;
    let clients = create::connect(bench, &server)?;
    let empty = server.memory().now;
    let mut there = 0;
    let stops = TABLE.iter().map(|(n, _)| *n).filter(|n| *n < objects);
    for stop in stops.chain([objects]) {
        bench.check_interrupt()?;
        create::insert(bench, &server, &clients, shape, there..stop)?;
        there = stop;
        let memory = server.memory().now;
        let paper = TABLE.iter().find(|(n, _)| *n == stop);
        let paper = paper.map(|(_, megabytes)| megabytes[names as usize]);
        let case = format!(
            "memory of a server, {} objects, {}",
            count(u64::from(stop)),
            names.text()
        );
        let mut figure = Figure::new(case, Unit::Bytes, memory as f64).note(format!(
            "{} of it before the first; {} an object",
            size(empty),
            memory.saturating_sub(empty) / u64::from(stop)
        ));
        if let Some(megabytes) = paper {
            figure = figure.raw(f64::from(megabytes) * 1e6);
            figure.note += "; raw: SoMeta";
        }
        bench.report.add(figure);
    }
    drop(clients);
    server.stop()?;
    let key = [ObjectKey::from(names.identity(objects - 1))];
    let (mut started, mut memory) = (Vec::new(), 0);
    for _ in 0..bench.args.rounds {
        bench.check_interrupt()?;
        let began = Instant::now();
        let server = Child::start(bench.context, path)?;
        let database = bench.context.open_options().open(&server.target())?;
        let found = database.read_objects(&key, None)?;
        started.push(began.elapsed().as_secs_f64());
        anyhow::ensure!(
            found.iter().flatten().count() == 1,
            "the server started without its last object"
        );
        memory = server.memory().now;
        drop(database);
        server.stop()?;
    }
    let case = format!("restart of a server, {}", names.text());
    let figure =
        Figure::new(case, Unit::Seconds, median(started)).target(FigureTarget::AtMost(0.5));
    bench.report.add(figure.note(format!(
        "from starting the program to an answer; memory then: {}; SoMeta: under 0.5 s",
        size(memory)
    )));
    Ok(())
}

/// Opens, checkpoints and compacts the folder that the server left.
fn kept(bench: &mut ObjectsBench<'_>, names: Names, path: &Path) -> anyhow::Result<()> {
    let objects = bench.args.objects;
    let disk = bytes_of(path)?;
    let (mut opened, mut opened_cpu) = (Vec::new(), Vec::new());
    let (mut saved, mut saved_cpu, mut bytes) = (Vec::new(), Vec::new(), 0);
    let shape = ObjectShape {
        names,
        tags: Tags::Few,
    };
    for round in 0..bench.args.rounds {
        bench.check_interrupt()?;
        // After a log was read, the next checkpoint is complete.
        let database = stores::reopen(bench, path)?;
        let more = (objects + round) as usize;
        database.apply(shape.batch(more..more + 1))?;
        database.close()?;
        let (began, cpu) = (Instant::now(), machine::process_seconds());
        let database = stores::reopen(bench, path)?;
        opened.push(began.elapsed().as_secs_f64());
        opened_cpu.push(machine::process_seconds() - cpu);
        let (engine, _) = database.engine()?;
        let (began, cpu) = (Instant::now(), machine::process_seconds());
        bytes = engine.checkpoint_objects()?;
        database.persist()?;
        saved.push(began.elapsed().as_secs_f64());
        saved_cpu.push(machine::process_seconds() - cpu);
        drop(engine);
        database.close()?;
    }
    let database = stores::reopen(bench, path)?;
    database.compact(None, &NeverCancel)?;
    database.close()?;
    let compact = bytes_of(path)?;
    let name = names.text();
    let figure = Figure::new(format!("opening, {name}"), Unit::Seconds, median(opened));
    let note = format!("CPU {:.2} s", median(opened_cpu));
    bench
        .report
        .add(figure.target(FigureTarget::AtMost(0.5)).note(note));
    let figure = Figure::new(
        format!("a checkpoint of all, {name}"),
        Unit::Seconds,
        median(saved),
    );
    let note = format!(
        "{}, on disk; CPU {:.2} s; SoMeta: under 0.4 s",
        size(bytes),
        median(saved_cpu)
    );
    bench
        .report
        .add(figure.target(FigureTarget::AtMost(0.4)).note(note));
    let figure = Figure::new(
        format!("disk, {name}"),
        Unit::BytesPerObject,
        disk as f64 / f64::from(objects),
    );
    bench.report.add(figure.note(format!(
        "as the server left it, logs that are yet to be dropped included; compacted: {}",
        compact / u64::from(objects)
    )));
    Ok(())
}

/// Disk space of the files in a folder, in bytes.
fn bytes_of(folder: &Path) -> anyhow::Result<u64> {
    let reading = || format!("reading the folder {}", folder.display());
    let mut bytes = 0;
    for entry in std::fs::read_dir(folder).with_context(reading)? {
        let entry = entry.with_context(reading)?;
        let metadata = entry.metadata().with_context(reading)?;
        bytes += if metadata.is_dir() {
            bytes_of(&entry.path())?
        } else {
            metadata.blocks() * 512
        };
    }
    Ok(bytes)
}
