//! Files created in one directory, as by mdtest: each is a vertex and an edge from the directory, in one batch.

use super::ClusterBench;
use super::args::MdtestArgs;
use super::plot::{Line, Picture};
use super::report::{number, rate, ratio};
use super::servers::{Servers, Spec};
use super::work::{self, InsertResult, Types, Work, middle};
use crate::source::{VERTEX_TYPE, vertex_id, vertex_key};
use esker::Database;
use esker_model::namespace::{Change, Kind, NamePath, Namespace as _, NewFile, XattrMode};
use esker_model::{Batch, Error, GraphWrite as _, VertexId};
use esker_terminal::output::Cell;
use esker_terminal::units::count;
use serde_json::json;

const COLUMNS: &[&str] = &[
    "placement",
    "servers",
    "clients",
    "files",
    "creates_per_s",
    "ratio",
    "cpu_us",
    "cpu_ratio",
    "busy",
    "others",
    "p50_us",
    "p99_us",
];

pub(super) fn run(bench: &mut ClusterBench<'_>, args: &MdtestArgs) -> anyhow::Result<()> {
    bench.report.columns = COLUMNS;
    bench.report.settings = json!({
        "clients_per_server": args.clients_per_server,
        "files_per_client": args.files,
        "threshold": if args.paths { args.directory_threshold } else { args.split.threshold },
        "by_path": args.paths,
        "tagging": args.tag,
        "batch": args.batch,
        "cache": !args.no_cache,
    });
    let mut cases: Vec<(u32, Vec<InsertResult>)> = args
        .counts
        .servers
        .iter()
        .map(|servers| (*servers, Vec::new()))
        .collect();
    let ran = rounds(bench, args, &mut cases);
    cases.retain(|(_, rounds)| !rounds.is_empty());
    if let Some((_, first)) = cases.first() {
        for (servers, rounds) in &cases {
            let now = |of: fn(&InsertResult) -> f64| middle(rounds, of);
            let clients = u64::from(servers * args.clients_per_server);
            bench.report.rows.push(vec![
                args.placement.name().into(),
                Cell::Count((*servers).into()),
                Cell::Count(clients),
                Cell::Count(clients * u64::from(args.files)),
                rate(now(InsertResult::rate)),
                ratio(now(InsertResult::rate), middle(first, InsertResult::rate)),
                number(now(InsertResult::cpu_micros), 1),
                ratio(
                    now(InsertResult::cpu_micros),
                    middle(first, InsertResult::cpu_micros),
                ),
                number(now(|d| d.busy), 2),
                number(now(|d| d.others), 2),
                number(now(|d| d.p50), 0),
                number(now(|d| d.p99), 0),
            ]);
        }
    }
    let points = cases
        .iter()
        .map(|(servers, rounds)| (f64::from(*servers), middle(rounds, InsertResult::rate)));
    Picture {
        title: if args.paths {
            "Files created in one directory that splits (GIGA+)"
        } else {
            "Figure 18. Files created in one directory"
        },
        across: "servers",
        up: "files a second, all clients together",
        lines: vec![Line {
            name: args.placement.name().to_owned(),
            points: points.collect(),
        }],
    }
    .write(
        bench,
        if args.paths {
            "directory-by-servers.svg"
        } else {
            "figure-18-mdtest.svg"
        },
    )?;
    ran
}

fn rounds(
    bench: &ClusterBench<'_>,
    args: &MdtestArgs,
    cases: &mut [(u32, Vec<InsertResult>)],
) -> anyhow::Result<()> {
    for round in 0..bench.shared.rounds {
        for (servers, rounds) in &mut *cases {
            bench.check_interrupt()?;
            bench.say(&format!(
                "round {} of {}: {} server(s), {} files of each of their clients",
                round + 1,
                bench.shared.rounds,
                servers,
                count(args.files.into()),
            ));
            rounds.push(run_once(bench, args, *servers)?);
        }
    }
    Ok(())
}

fn run_once(
    bench: &ClusterBench<'_>,
    args: &MdtestArgs,
    servers: u32,
) -> anyhow::Result<InsertResult> {
    let spec = Spec {
        servers,
        placement: args.placement,
        threshold: args.split.threshold,
        directory_threshold: args.directory_threshold,
        shared: false,
        memory: super::MEMORY,
    };
    let count = servers * args.clients_per_server;
    let mut servers = Servers::start(bench, &spec)?;
    let options = if args.no_cache { "?cache=off" } else { "" };
    let clients = work::connect_with(bench, &servers, count, options)?;
    let Some(first) = clients.first() else {
        anyhow::bail!("there are no clients");
    };
    if args.paths {
        let done = by_path(bench, args, &mut servers, &clients)?;
        drop(clients);
        servers.stop()?;
        return Ok(done);
    }
    let types = Types::define(bench, first)?;
    let mut directory = Batch::new();
    directory.push(types.vertex(vertex_key(0), 0));
    first.apply(directory)?;
    let make = |client: usize, number: usize| {
        let key = format!("file.{client}.{number}");
        let mut batch = Batch::new();
        let file = VertexId::of(VERTEX_TYPE, &key);
        batch.push(types.vertex(key, number as u32));
        batch.push(types.edge(vertex_id(0), file));
        batch
    };
    let files = u64::from(count) * u64::from(args.files);
    let work = Work {
        batches: &|_| args.files as usize,
        make: &make,
        count: files,
    };
    let done = work::insert(bench, &mut servers, &clients, &work)?;
    work::check_edge_count(first, &types, files)?;
    drop(clients);
    servers.stop()?;
    Ok(done)
}

/// Creates files of a directory by path; the directory splits over the servers as it grows.
fn by_path(
    bench: &ClusterBench<'_>,
    args: &MdtestArgs,
    servers: &mut Servers,
    clients: &[Database],
) -> anyhow::Result<InsertResult> {
    let Some(first) = clients.first() else {
        anyhow::bail!("there are no clients");
    };
    let directory = NamePath::parse(b"/files").map_err(Error::from)?;
    let make = |kind: Kind, mode| NewFile::new(kind.bits() | mode, 0, 0);
    let begin = Change::Create(directory.clone(), make(Kind::Directory, 0o755));
    for made in first.change(None, &[begin])? {
        made?;
    }
    // Names made of digits are always valid.
    let path = |client: usize, number: usize| {
        NamePath::parse(format!("/files/file.{client}.{number}").as_bytes())
    };
    let (files, batch) = (args.files as usize, args.batch as usize);
    let calls = files.div_ceil(batch);
    let changes = |client: usize, call: usize| -> Vec<Change> {
        (call * batch..files.min((call + 1) * batch))
            .filter_map(|number| path(client, number).ok())
            .map(|at| Change::Create(at, make(Kind::File, 0o644)))
            .collect()
    };
    let count = clients.len() as u64 * files as u64;
    let work = Work {
        batches: &|_| calls,
        make: &changes,
        count,
    };
    let mut done = work::insert(bench, servers, clients, &work)?;
    if args.tag {
        // A tag belongs to the vertex, a name to the dentry: if both are on one server, one server handles the change.
        let tags = |client: usize, call: usize| -> Vec<Change> {
            let paths = call * batch..files.min((call + 1) * batch);
            let paths = paths.filter_map(|number| path(client, number).ok());
            paths.map(tag).collect()
        };
        let work = Work {
            make: &tags,
            ..work
        };
        done = work::insert(bench, servers, clients, &work)?;
    }
    let held = first.usage(None, &directory, false)?.files;
    anyhow::ensure!(
        held == count,
        "the directory counts {held} files after {count} different ones were made"
    );
    Ok(done)
}

fn tag(path: NamePath) -> Change {
    Change::Xattr {
        path,
        name: b"user.esker.run".to_vec(),
        value: Some(b"7".to_vec()),
        mode: XattrMode::Any,
    }
}
