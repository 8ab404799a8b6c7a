//! `esker cluster status FILE`: prints the assignment in etcd of a cluster whose servers move, and each server's figures.

use super::super::status::figures;
use super::read;
use crate::args::ClusterStatusArgs;
use esker::rpc::Address;
use esker_launch::query_server;
use esker_server::member::MembershipClient;
use esker_terminal::context::Context;
use esker_terminal::exit::Outcome;
use esker_terminal::output::{Cell, Rows};
use esker_terminal::units::counted;
use std::path::Path;

pub(in super::super) fn run(
    target: &str,
    args: &ClusterStatusArgs,
    context: &mut Context,
) -> anyhow::Result<Outcome> {
    let config = read(Path::new(target))?;
    let client = MembershipClient::connect(&config)?;
    let (members, stores, moving) = client.status()?;
    let mut problems = Vec::new();
    if args.members {
        let columns = ["server", "state", "stores", "pid", "host", "version"];
        let mut rows = Rows::new(
            &mut context.out,
            args.format.format,
            context.style,
            &columns,
        );
        for m in &members {
            let state = match (m.leaving, m.drained) {
                (true, _) => "leaving",
                (false, true) => "drained",
                (false, false) => "serving",
            };
            rows.row(vec![
                format!("esker://{}", m.member).into(),
                state.into(),
                Cell::Count(m.stores.len() as u64),
                Cell::Count(m.pid.into()),
                m.host.clone().into(),
                m.version.clone().into(),
            ])?;
        }
        rows.finish()?;
    } else {
        let columns = [
            "store",
            "server",
            "epoch",
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
        let mut rows = Rows::new(
            &mut context.out,
            args.format.format,
            context.style,
            &columns,
        );
        for s in &stores {
            let mut cells = vec![Cell::Count(s.store.into())];
            let reply = s.member.as_ref().map(|member| {
                let like = Address::parse(&format!("esker://{member}"))?;
                query_server(member, s.store, &like)
            });
            cells.push(
                s.member
                    .as_ref()
                    .map_or(Cell::Empty, |m| format!("esker://{m}").into()),
            );
            cells.push(Cell::Count(s.epoch));
            match reply {
                Some(Ok(reply)) => {
                    cells.push(if reply.serving { "serving" } else { "joining" }.into());
                    if !reply.serving {
                        problems.push(format!("store {} waits for others", s.store));
                    }
                    cells.extend(figures(&reply));
                }
                other => {
                    cells.push("down".into());
                    let why = other.and_then(Result::err);
                    let why = why.map_or_else(|| "no server has it".to_owned(), |e| e.to_string());
                    problems.push(format!("store {}: {why}", s.store));
                    cells.extend(std::iter::repeat_n(
                        Cell::Empty,
                        columns.len() - cells.len(),
                    ));
                }
            }
            rows.row(cells)?;
        }
        rows.finish()?;
    }
    context.out.flush()?;
    context.note(&format!(
        "cluster `{}`: {}, {}, {moving} to move for balance",
        config.name,
        counted(members.len() as u64, "server", "servers"),
        counted(stores.len() as u64, "store", "stores"),
    ));
    for problem in &problems {
        context.warn(problem);
    }
    Ok(Outcome::partly_if(!problems.is_empty()))
}
