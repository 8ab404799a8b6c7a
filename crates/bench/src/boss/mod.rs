//! `esker bench boss`: SoMeta's case from a real application, the metadata of a sky survey (section III-F, Figures 12 and 13),
//! in full size, compared with other databases on the same objects and queries.
//!
//! [`data`] generates the objects, [`run`](mod@run) runs the queries, [`peers`] reads the results of `scripts/boss_peers.py`.

mod data;
mod peers;
mod run;

use super::report::Report;
use super::scratch::Scratch;
use super::serve::child::Child;
use anyhow::Context as _;
use clap::Args;
use data::OBJECTS;
use esker::Database;
use esker_terminal::args::FormatArgs;
use esker_terminal::context::Context;
use esker_terminal::exit::Outcome;
use peers::Peers;
use run::BossCase;
use serde_json::json;
use std::path::PathBuf;

#[derive(Debug, Args)]
#[command(
    after_help = "RAW is the best of the other databases, embedded ones beside Esker in this process and servers beside its \
                  server; RATIO is Esker's speed as a part of its. `make bench-boss` does all of it.\n\nExamples:\n  \
                  esker bench boss\n  \
                  esker bench boss --write-data boss.csv && scripts/boss_peers.py boss.csv > peers.json\n  \
                  esker bench boss --server --peers peers.json"
)]
pub(crate) struct BossBenchArgs {
    /// Directory for the scratch folder, on the file system to be measured
    #[arg(value_name = "DIRECTORY", default_value = ".")]
    directory: PathBuf,
    /// Only write the objects to a CSV file, for other databases
    #[arg(long, value_name = "FILE")]
    write_data: Option<PathBuf>,
    /// Measure through a server, too
    #[arg(long)]
    server: bool,
    /// Results of other databases: a file with the output of `scripts/boss_peers.py`
    #[arg(long, value_name = "FILE")]
    peers: Option<PathBuf>,
    /// Use only this number of the 276,575 objects
    #[arg(long, value_name = "N", default_value_t = OBJECTS as u32, value_parser = clap::value_parser!(u32).range(1000..=OBJECTS as i64))]
    objects: u32,
    /// Objects per batch
    #[arg(long, value_name = "N", default_value_t = 10_000, value_parser = clap::value_parser!(u32).range(1..=100_000))]
    batch: u32,
    /// Number of single objects that are looked up and tagged
    #[arg(long, value_name = "N", default_value_t = 20_000, value_parser = clap::value_parser!(u32).range(1..=200_000))]
    lookups: u32,
    /// Number of runs of each query; medians are printed
    #[arg(long, value_name = "N", default_value_t = 3, value_parser = clap::value_parser!(u32).range(1..=100))]
    rounds: u32,
    /// Write the report as JSON to this file, too
    #[arg(long, value_name = "FILE")]
    json: Option<PathBuf>,
    /// Keep the scratch folder
    #[arg(long)]
    keep: bool,
    #[command(flatten)]
    format: FormatArgs,
}

pub(crate) fn run(args: &BossBenchArgs, context: &mut Context) -> anyhow::Result<Outcome> {
    let mut spectra = data::spectra();
    spectra.truncate(args.objects as usize);
    if let Some(path) = &args.write_data {
        std::fs::write(path, data::table(&spectra))
            .with_context(|| format!("writing {}", path.display()))?;
        return Ok(Outcome::Done);
    }
    let peers = args.peers.as_deref().map(Peers::read).transpose()?;
    let peers = peers.unwrap_or_default();
    let scratch = Scratch::make(&args.directory, args.keep)?;
    let mut report = Report::new("boss");
    let mut measure = |database: &Database, served: bool| {
        BossCase {
            args,
            context,
            report: &mut report,
            peers: &peers,
            spectra: &spectra,
            database,
            served,
        }
        .run()
    };
    let ran = (|| {
        let path = scratch.cleared_path("boss")?;
        let database = Database::init(&path.to_string_lossy(), &context.open_options())?;
        measure(&database, false)?;
        database.close()?;
        if args.server {
            let server = Child::start(context, &scratch.cleared_path("served")?)?;
            let database = context.open_options().open(&server.target())?;
            measure(&database, true)?;
            drop(database);
            server.stop()?;
        }
        anyhow::Ok(())
    })();
    let stopped = match ran {
        Ok(()) => false,
        Err(error) if crate::timed::is_interruption(&error) => true,
        Err(error) => return Err(error),
    };
    let settings = json!({
        "objects": spectra.len(),
        "batch": args.batch,
        "lookups": args.lookups,
        "rounds": args.rounds,
        "memory_bytes": context.globals.memory,
    });
    let how = (args.format.format, args.json.as_deref());
    report.print(&settings, how, context)?;
    if stopped {
        context.warn("stopped before the end: the figures above are those that were complete");
    }
    Ok(Outcome::partly_if(stopped))
}
