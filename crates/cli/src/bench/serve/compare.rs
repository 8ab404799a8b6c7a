//! What a protection costs: the same load without it and with it, in turn. Either encryption and the proof of a key, or the sandbox.

use super::child::Child;
use super::load::{Load, Measured};
use super::{Case, NULLS, parts, start_with, whole};
use crate::bench::Bench;
use crate::bench::report::{Figure, Target, Unit, median};
use crate::bench::sides;
use esker::Database;
use esker::rpc::{Address, Client};
use esker_access::authorized::Terms;
use esker_access::{HostKey, Role, grants};
use std::time::Instant;

/// The least rate with a protection, as a part of the rate without.
const RATIO_MIN: f64 = 0.9;
/// And made within so many milliseconds.
const CONNECT_MILLIS_MAX: f64 = 50.0;
/// Connections that are made in a round.
const CONNECTS: usize = 50;

/// How a server runs and is reached.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Way {
    /// In its sandbox, over plain connections of this machine: the default.
    Plain,
    /// In its sandbox, over encrypted connections with a key of SSH.
    Encrypted,
    /// Without a sandbox, over plain connections.
    Unrestricted,
}

/// The protection whose cost is measured.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum Protection {
    /// Encryption, and the proof of a key.
    Keys,
    /// The server's sandbox.
    Sandbox,
}

impl Protection {
    /// Without it, and with it.
    fn ways(self) -> [Way; 2] {
        match self {
            Self::Keys => [Way::Plain, Way::Encrypted],
            Self::Sandbox => [Way::Unrestricted, Way::Plain],
        }
    }

    /// The word for figures with it, and that for those without.
    fn words(self) -> [&'static str; 2] {
        match self {
            Self::Keys => ["encrypted", "plain"],
            Self::Sandbox => ["sandboxed", "no sandbox"],
        }
    }
}

/// A server, and its two addresses.
struct Served {
    server: Child,
    encrypted: String,
}

impl Served {
    fn start(bench: &Bench<'_>, way: Way) -> anyhow::Result<Self> {
        let server = start_with(bench, way != Way::Unrestricted)?;
        let target = server.target();
        // Nothing of this is written beside the user's own keys.
        let scratch = bench.scratch.fresh("keys")?;
        std::fs::create_dir_all(&scratch)?;
        let key = scratch.join("id");
        let terms = Terms {
            role: Some(Role::Write),
            ..Terms::default()
        };
        let public = HostKey::at(&key)?.public().clone();
        grants::grant(&server.folder, &public, &terms)?;
        let encrypted = format!(
            "{target}?ssh=on&trust-new-host&key={}&known-hosts={}",
            key.display(),
            scratch.join("known_hosts").display()
        );
        Ok(Self { server, encrypted })
    }

    fn target(&self, way: Way) -> String {
        match way {
            Way::Plain | Way::Unrestricted => self.server.target(),
            Way::Encrypted => self.encrypted.clone(),
        }
    }
}

/// All of it: connections, calls that do nothing, and each of the cases.
pub(super) fn run(
    bench: &mut Bench<'_>,
    protection: Protection,
    cases: &[Case<'_>],
    connections: usize,
) -> anyhow::Result<()> {
    if protection == Protection::Keys {
        connects(bench)?;
    }
    for (window, calls) in [(1, NULLS / 4), (64, NULLS)] {
        let case = format!("a call that does nothing, {window} in flight");
        let both = both(bench, protection, &case, |bench, way| {
            nulls(bench, way, window, calls)
        })?;
        report(bench, protection, &case, Unit::CallsPerSecond, calls, &both);
    }
    for case in cases {
        let both = both(bench, protection, &case.name, |bench, way| {
            inserts(bench, way, case, connections)
        })?;
        let unit = Unit::EdgesPerSecond;
        report(bench, protection, &case.name, unit, case.edges, &both);
    }
    Ok(())
}

/// Rounds of both ways, in turn.
fn both<T>(
    bench: &mut Bench<'_>,
    protection: Protection,
    what: &str,
    mut measure: impl FnMut(&Bench<'_>, Way) -> anyhow::Result<T>,
) -> anyhow::Result<[Vec<T>; 2]> {
    let mut all = [Vec::new(), Vec::new()];
    for round in 0..bench.args.rounds {
        bench.say(&format!(
            "{what}: round {} of {}",
            round + 1,
            bench.args.rounds
        ));
        let [without, with] = protection.ways();
        let mut ways = [(0, without), (1, with)];
        if round % 2 == 1 {
            ways.reverse();
        }
        for (at, way) in ways {
            bench.go_on()?;
            let measured = measure(bench, way)?;
            if let Some(of) = all.get_mut(at) {
                of.push(measured);
            }
        }
    }
    Ok(all)
}

fn report(
    bench: &mut Bench<'_>,
    protection: Protection,
    case: &str,
    unit: Unit,
    operations: usize,
    [without, with]: &[Vec<Measured>; 2],
) {
    let [protected, bare] = protection.words();
    let count = operations as f64;
    let middle =
        |of: &[Measured], what: fn(&Measured) -> f64| median(of.iter().map(what).collect());
    let rate = |of: &[Measured]| count / middle(of, |m| m.wall);
    let micros = |of: &[Measured]| middle(of, |m| m.client_cpu + m.server_cpu) * 1e6 / count;
    let note = format!(
        "raw: {bare}; p50 {:.0} us against {:.0}; CPU us each {:.2} against {:.2}",
        middle(with, |m| m.p50),
        middle(without, |m| m.p50),
        micros(with),
        micros(without),
    );
    let figure = Figure::new(format!("{case}, {protected}"), unit, rate(with));
    let least = RATIO_MIN * rate(without);
    let figure = figure.raw(rate(without)).target(Target::AtLeast(least));
    bench.report.add(figure.note(note));
}

/// How long it takes until a server has greeted.
fn connects(bench: &mut Bench<'_>) -> anyhow::Result<()> {
    let served = Served::start(bench, Way::Plain)?;
    let millis = both(bench, Protection::Keys, "connections", |_, way| {
        let address = Address::parse(&served.target(way))?;
        let mut times = Vec::new();
        for _ in 0..CONNECTS {
            let began = Instant::now();
            drop(Client::connect(&address)?);
            times.push(began.elapsed().as_secs_f64() * 1e3);
        }
        Ok(median(times))
    })?;
    let [plain, encrypted] = millis.map(median);
    let figure = Figure::new("a connection, its key proved", Unit::Millis, encrypted);
    let note = "raw: plain; until the server has greeted";
    let most = Target::AtMost(CONNECT_MILLIS_MAX);
    bench.report.add(figure.raw(plain).target(most).note(note));
    served.server.stop()
}

fn nulls(bench: &Bench<'_>, way: Way, window: usize, calls: usize) -> anyhow::Result<Measured> {
    let served = Served::start(bench, way)?;
    let client = Client::connect(&Address::parse(&served.target(way))?)?;
    let load = Load {
        parts: vec![vec![(); calls]],
        window,
    };
    let measured = load.run(&|_, ()| client.submit_ping(), &|ping| ping.wait(), || {
        served.server.cpu_seconds()
    })?;
    drop(client);
    served.server.stop()?;
    Ok(measured)
}

fn inserts(
    bench: &Bench<'_>,
    way: Way,
    case: &Case<'_>,
    connections: usize,
) -> anyhow::Result<Measured> {
    let served = Served::start(bench, way)?;
    let target = served.target(way);
    let open = || bench.context.open_options().open(&target);
    let databases: Vec<Database> = (0..connections).map(|_| open()).collect::<Result<_, _>>()?;
    let first = databases
        .first()
        .ok_or_else(|| anyhow::anyhow!("there is no connection"))?;
    let shape = sides::define(bench, first)?;
    let load = Load {
        parts: parts(case, connections),
        window: case.window,
    };
    let measured = load.run(
        &|thread, edges| databases[thread].submit(shape.batch(case.graph, edges)),
        &|submitted| submitted.wait().map(drop),
        || served.server.cpu_seconds(),
    )?;
    whole(first, &shape, case)?;
    drop(databases);
    served.server.stop()?;
    Ok(measured)
}
