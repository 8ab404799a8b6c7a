//! Files through a server in its own process, by clients with a connection each, compared with calls that do nothing.

use super::args::FileCase;
use super::{NamespaceBench, all};
use crate::report::{Figure, FigureTarget, Unit, median};
use crate::serve::child::Child;
use crate::serve::load::{OperationLoad, RoundResult};
use esker::PrivateSubtree;
use esker::rpc::{Address, Client};
use esker_model::namespace::{Change, Kind, Name, NamePath, Namespace as _, NewFile};
use esker_model::{Error, Result};
use std::ops::Range;

/// Targets in files per second: four clients with one request in flight each, and batches.
const SINGLE: f64 = 50_000.0;
const BATCHED: f64 = 300_000.0;

/// A directory on a server.
struct Served {
    server: Child,
    clients: Vec<Client>,
    directory: NamePath,
}

impl Served {
    fn start(bench: &NamespaceBench<'_>) -> anyhow::Result<Self> {
        let server = Child::start(bench.context, &bench.scratch.cleared_path("served")?)?;
        let address = Address::parse(&server.target())?;
        let clients = (0..bench.args.clients)
            .map(|_| Client::connect(&address))
            .collect::<Result<Vec<_>>>()?;
        let directory = NamePath::parse(b"/files").map_err(Error::from)?;
        let make = NewFile::new(Kind::Directory.bits() | 0o755, 0, 0);
        let make = Change::Create(directory.clone(), make);
        if let Some(client) = clients.first() {
            all(client.change(None, &[make])?)?;
        }
        Ok(Self {
            server,
            clients,
            directory,
        })
    }

    fn path(&self, number: u64) -> Result<NamePath> {
        let name = Name::new(format!("file.{number:08}").as_bytes())?;
        Ok(self.directory.join(&name))
    }

    /// Applies `call` to ranges of files; each client works through its own part.
    fn run(
        &self,
        first: u64,
        files: u64,
        batch: u64,
        call: &(dyn Fn(&Client, Range<u64>) -> Result<()> + Sync),
    ) -> anyhow::Result<RoundResult> {
        let share = files / self.clients.len() as u64;
        let part = |client: u64| {
            let from = first + client * share;
            (from..from + share)
                .step_by(batch as usize)
                .map(|n| n..(n + batch).min(from + share))
                .collect::<Vec<_>>()
        };
        let load = OperationLoad {
            parts: (0..self.clients.len() as u64).map(part).collect(),
            window: 1,
        };
        let begin = |client: usize, range| match self.clients.get(client) {
            Some(client) => call(client, range),
            None => Ok(()),
        };
        load.run(&begin, &|()| Ok(()), || self.server.cpu_seconds())
    }

    fn make(&self, client: &Client, files: Range<u64>) -> Result<()> {
        let make = NewFile::new(Kind::File.bits() | 0o644, 1000, 1000);
        let changes = files
            .map(|n| Ok(Change::Create(self.path(n)?, make.clone())))
            .collect::<Result<Vec<_>>>()?;
        all(client.change(None, &changes)?)
    }

    /// Creates files in a private subtree and merges it.
    fn merge(&self, client: &Client, files: Range<u64>, batch: u64) -> Result<()> {
        let name = Name::new(format!("bulk.{:08}", files.start).as_bytes())?;
        let directory = self.directory.join(&name);
        let mut private = PrivateSubtree::new(client.clone(), None, &directory)?;
        let make = NewFile::new(Kind::File.bits() | 0o644, 1000, 1000);
        for from in files.clone().step_by(batch as usize) {
            let changes = (from..(from + batch).min(files.end))
                .map(|n| {
                    let name = Name::new(format!("file.{n:08}").as_bytes())?;
                    Ok(Change::Create(directory.join(&name), make.clone()))
                })
                .collect::<Result<Vec<_>>>()?;
            all(private.change(None, &changes)?)?;
        }
        private.merge().map(drop)
    }
}

/// Measures all cases in several rounds.
pub(super) fn run(bench: &mut NamespaceBench<'_>) -> anyhow::Result<()> {
    let (files, batch) = (u64::from(bench.args.files), u64::from(bench.args.batch));
    let singles = files.min(200_000);
    let bulk = u64::from(bench.args.bulk);
    let (mut nulls, mut single, mut batched, mut stats) = (vec![], vec![], vec![], vec![]);
    let mut merged = vec![];
    for round in 0..bench.args.rounds {
        bench.context.note(&format!("served, round {}", round + 1));
        let served = Served::start(bench)?;
        bench.check_interrupt()?;
        nulls.push(served.run(0, singles, 1, &|client, _| client.ping())?);
        bench.check_interrupt()?;
        single.push(served.run(0, singles, 1, &|c, files| served.make(c, files))?);
        bench.check_interrupt()?;
        batched.push(served.run(singles, files, batch, &|c, files| served.make(c, files))?);
        if bulk > 0 {
            bench.check_interrupt()?;
            merged.push(served.run(0, files, bulk, &|c, files| served.merge(c, files, batch))?);
        }
        bench.check_interrupt()?;
        // A pseudo-random order that no cache has seen.
        let anywhere = |n: u64| n.wrapping_mul(0x9e37_79b9_7f4a_7c15) % singles.max(1);
        let known = singles / served.clients.len() as u64 * served.clients.len() as u64;
        stats.push(served.run(0, singles, 1, &|client, files| {
            let path = served.path(anywhere(files.start) % known.max(1))?;
            client.stat(None, &path, false).map(drop)
        })?);
        let Served {
            server, clients, ..
        } = served;
        drop(clients);
        server.stop()?;
    }
    let rate = |rounds: &[RoundResult], count: u64| {
        count as f64 / median(rounds.iter().map(|m| m.wall).collect())
    };
    let null = rate(&nulls, singles);
    let clients = bench.args.clients;
    let mut print = |case: String,
                     rounds: &[RoundResult],
                     count: u64,
                     unit,
                     target: Option<f64>| {
        let middle = |of: fn(&RoundResult) -> f64| median(rounds.iter().map(of).collect());
        let mut figure = Figure::new(case, unit, rate(rounds, count)).raw(null);
        if let Some(target) = target {
            figure = figure.target(FigureTarget::AtLeast(target));
        }
        let each = |seconds: f64| seconds * 1e6 / count as f64;
        bench.report.add(figure.note(format!(
            "beside calls that do nothing; p50 {:.0} us, p99 {:.0} us; CPU us each: client {:.2}, server {:.2}",
            middle(|m| m.p50),
            middle(|m| m.p99),
            each(middle(|m| m.client_cpu)),
            each(middle(|m| m.server_cpu)),
        )));
    };
    let of = |text: &str| format!("{text}, {clients} clients");
    print(
        of("a call that does nothing"),
        &nulls,
        singles,
        Unit::CallsPerSecond,
        None,
    );
    let unit = Unit::FilesPerSecond;
    print(
        of(FileCase::Single.text()),
        &single,
        singles,
        unit,
        Some(SINGLE),
    );
    let text = format!("create, {batch} at once");
    print(of(&text), &batched, files, unit, Some(BATCHED));
    if bulk > 0 {
        let text = format!("create, in private subtrees of {bulk}");
        print(of(&text), &merged, files, unit, Some(BATCHED));
    }
    print(of(FileCase::Stat.text()), &stats, singles, unit, None);
    Ok(())
}
