//! The cost of a directory split, by how its entries move to the other server: as a sorted table in a shared folder,
//! or in a message.

use super::ClusterBench;
use super::args::SplitsArgs;
use super::report::{number, ratio};
use super::servers::{Servers, Spec};
use super::work::{self, Work};
use crate::report::median;
use esker_cluster::Kind as Placement;
use esker_cluster::placement::THRESHOLD_DEFAULT;
use esker_model::Error;
use esker_model::namespace::{Change, Kind, NamePath, Namespace as _, NewFile};
use esker_terminal::output::Cell;
use serde_json::json;

const COLUMNS: &[&str] = &[
    "way",
    "directory_threshold",
    "splits",
    "rows",
    "ms",
    "ratio",
    "message_bytes",
    "bytes_ratio",
    "file_bytes",
    "cpu_ms",
];

/// Files per call.
const FILES_PER_CALL: usize = 1_000;

/// The measurements of one way; each value is for one split.
#[derive(Default)]
struct SplitMeasurements {
    splits: u64,
    rows: Vec<f64>,
    ms: Vec<f64>,
    message_bytes: Vec<f64>,
    file_bytes: Vec<f64>,
    /// Processor time of all servers for the whole workload.
    cpu_ms: Vec<f64>,
}

pub(super) fn run(bench: &mut ClusterBench<'_>, args: &SplitsArgs) -> anyhow::Result<()> {
    bench.report.columns = COLUMNS;
    bench.report.settings = json!({ "servers": args.servers, "files": args.files });
    let mut cases: Vec<(u64, [SplitMeasurements; 2])> = args
        .directory_threshold
        .iter()
        .map(|threshold| (*threshold, Default::default()))
        .collect();
    let ran = rounds(bench, args, &mut cases);
    for (threshold, ways) in &cases {
        let [message, table] = ways;
        for (name, way) in [("message", message), ("table", table)] {
            if way.ms.is_empty() || message.ms.is_empty() {
                continue;
            }
            let middle = |of: fn(&SplitMeasurements) -> &Vec<f64>, way: &SplitMeasurements| {
                median(of(way).clone())
            };
            let bytes = middle(|w| &w.message_bytes, way);
            bench.report.rows.push(vec![
                name.into(),
                Cell::Count(*threshold),
                Cell::Count(way.splits),
                number(middle(|w| &w.rows, way), 0),
                number(middle(|w| &w.ms, way), 2),
                ratio(middle(|w| &w.ms, way), middle(|w| &w.ms, message)),
                number(bytes, 0),
                ratio(bytes, middle(|w| &w.message_bytes, message)),
                number(middle(|w| &w.file_bytes, way), 0),
                number(middle(|w| &w.cpu_ms, way), 0),
            ]);
        }
    }
    ran
}

fn rounds(
    bench: &ClusterBench<'_>,
    args: &SplitsArgs,
    cases: &mut [(u64, [SplitMeasurements; 2])],
) -> anyhow::Result<()> {
    for round in 0..bench.shared.rounds {
        for (threshold, ways) in &mut *cases {
            for (table, way) in [false, true].into_iter().zip(ways) {
                bench.check_interrupt()?;
                bench.say(&format!(
                    "round {} of {}: partitions of {threshold} entries, {}",
                    round + 1,
                    bench.shared.rounds,
                    if table { "as tables" } else { "in messages" }
                ));
                run_once(bench, args, *threshold, table, way)?;
            }
        }
    }
    Ok(())
}

fn run_once(
    bench: &ClusterBench<'_>,
    args: &SplitsArgs,
    threshold: u64,
    table: bool,
    way: &mut SplitMeasurements,
) -> anyhow::Result<()> {
    let spec = Spec {
        servers: args.servers,
        placement: Placement::Dido,
        threshold: THRESHOLD_DEFAULT,
        directory_threshold: threshold,
        shared: table,
        memory: super::MEMORY,
    };
    let mut servers = Servers::start(bench, &spec)?;
    let clients = work::connect(bench, &servers, 1)?;
    let Some(client) = clients.first() else {
        anyhow::bail!("there is no client");
    };
    let directory = NamePath::parse(b"/files").map_err(Error::from)?;
    let make = |kind: Kind, mode| NewFile::new(kind.bits() | mode, 0, 0);
    let begin = Change::Create(directory.clone(), make(Kind::Directory, 0o755));
    for made in client.change(None, &[begin])? {
        made?;
    }
    let files = args.files as usize;
    let changes = |_, call: usize| -> Vec<Change> {
        (call * FILES_PER_CALL..files.min((call + 1) * FILES_PER_CALL))
            .filter_map(|number| NamePath::parse(format!("/files/out.{number}.h5").as_bytes()).ok())
            .map(|at| Change::Create(at, make(Kind::File, 0o644)))
            .collect()
    };
    let work = Work {
        batches: &|_| files.div_ceil(FILES_PER_CALL),
        make: &changes,
        count: files as u64,
    };
    let cpu = servers.cpu_seconds();
    work::insert(bench, &mut servers, &clients, &work)?;
    way.cpu_ms.push((servers.cpu_seconds() - cpu) * 1e3);
    let held = client.usage(None, &directory, false)?.files;
    anyhow::ensure!(
        held == files as u64,
        "the directory counts {held} files after {files} different ones were made"
    );
    let by = if table { "table" } else { "message" };
    let figure = |what: &str| servers.figure(&format!("esker_given_{what}_total{{by=\"{by}\"}}"));
    let splits = figure("partitions")?;
    anyhow::ensure!(
        splits >= 1.0,
        "no partition went to another server {}: more --files, or a smaller --directory-threshold",
        if table { "as a table" } else { "in a message" }
    );
    way.splits += splits as u64;
    way.rows.push(figure("rows")? / splits);
    way.ms.push(figure("seconds")? * 1e3 / splits);
    way.message_bytes.push(figure("message_bytes")? / splits);
    way.file_bytes.push(figure("file_bytes")? / splits);
    drop(clients);
    servers.stop()
}
