//! `esker cluster status`: prints the state of every server of a cluster.

use crate::args::ClusterStatusArgs;
use esker::rpc::proto::ClusterReply;
use esker::rpc::{Address, Client};
use esker_launch::query_server;
use esker_model::Version;
use esker_terminal::context::Context;
use esker_terminal::exit::{Outcome, usage};
use esker_terminal::output::{Cell, Rows};
use esker_terminal::units::size;
use std::path::Path;

pub(super) fn run(args: &ClusterStatusArgs, context: &mut Context) -> anyhow::Result<Outcome> {
    let target = &args.target.target;
    if !Address::is_address(target) {
        if Path::new(target).is_file() {
            return super::membership::status::run(target, args, context);
        }
        return Err(usage(format!(
            "`{target}` is not a cluster's file; `cluster status` asks a server (esker://HOST:PORT), or etcd about the cluster of a FILE"
        )));
    }
    let first = Address::parse(target)?;
    let cluster = Client::connect(&first)?.cluster()?;
    if cluster.servers.is_empty() {
        return Err(usage(format!(
            "{first} is a single server, not part of a cluster"
        )));
    }
    let mut columns = vec![
        "server",
        "address",
        "state",
        "newest",
        "vertices",
        "edges",
        "split",
        "vnodes",
        "bytes",
        "calls_per_s",
        "writes_per_s",
        "asked",
        "unanswered",
    ];
    let windows = cluster.window.is_some();
    if windows {
        columns.extend(["unsaved", "for", "checkpoints", "last in"]);
    }
    let mut rows = Rows::new(
        &mut context.out,
        args.format.format,
        context.style,
        &columns,
    );
    let mut problems = Vec::new();
    for (id, place) in cluster.servers.iter().enumerate() {
        let mut cells = vec![Cell::Count(id as u64), format!("esker://{place}").into()];
        match query_server(place, id as u32, &first) {
            Ok(reply) => {
                let state = if reply.serving { "serving" } else { "joining" };
                if !reply.serving {
                    problems.push(format!("server {id} waits for others"));
                }
                cells.push(state.into());
                cells.extend(figures(&reply));
                if let Some(window) = reply.window.filter(|_| windows) {
                    if !window.problem.is_empty() {
                        problems.push(format!("server {id}: {}", window.problem));
                    }
                    cells.extend([
                        Cell::Count(window.written.saturating_sub(window.persisted)),
                        format!("{} ms", window.age_ms).into(),
                        Cell::Count(window.segments + window.bases),
                        window.folder.into(),
                    ]);
                }
            }
            Err(e) => {
                problems.push(format!("server {id}: {e}"));
                cells.push("down".into());
                let rest = columns.len() - cells.len();
                cells.extend(std::iter::repeat_n(Cell::Empty, rest));
            }
        }
        rows.row(cells)?;
    }
    rows.finish()?;
    context.out.flush()?;
    context.note(&format!(
        "cluster `{}`: {} with threshold {}, {} vnodes",
        cluster.name, cluster.placement, cluster.threshold, cluster.vnodes
    ));
    for problem in &problems {
        context.warn(problem);
    }
    Ok(Outcome::partly_if(!problems.is_empty()))
}

/// Formats a rate per second from a count and milliseconds.
fn rate(count: u64, millis: u32) -> Cell {
    let rate = if millis == 0 {
        0.0
    } else {
        (count as f64 * 1e4 / f64::from(millis)).round() / 10.0
    };
    Cell::Json(rate.into(), format!("{rate:.1}"))
}

/// Returns the cells of a server's contents and pending work.
pub(super) fn figures(reply: &ClusterReply) -> Vec<Cell> {
    let counts = reply.counts.clone().unwrap_or_default();
    let sum = |counts: &[esker::rpc::proto::Count]| counts.iter().map(|c| c.count).sum();
    vec![
        Cell::Version(Version(reply.newest)),
        Cell::Count(sum(&counts.vertices)),
        Cell::Count(sum(&counts.edges)),
        Cell::Count(reply.split_vertices),
        Cell::Count(reply.vnodes_here.into()),
        Cell::Json(reply.bytes.into(), size(reply.bytes)),
        rate(reply.recent_calls, reply.recent_ms),
        rate(reply.recent_writes, reply.recent_ms),
        Cell::Count(reply.calls.iter().sum()),
        Cell::Count(reply.calls_failed.iter().sum()),
    ]
}
