//! The cost of a protection: the same load without and with it, alternating. The protection is encryption with key
//! authentication, the sandbox, or the audit log.

use super::child::Child;
use super::load::{OperationLoad, RoundResult};
use super::{NULLS, ServeCase, check_edge_count, parts, start_with};
use crate::comparison;
use crate::report::{Figure, FigureTarget, Unit, median};
use crate::timed::Bench;
use esker::Database;
use esker::rpc::{Address, Client};
use esker_access::authorized::Terms;
use esker_access::{HostKey, Role, grants};
use esker_model::{GraphRead as _, GraphWrite as _, Version};
use std::time::Instant;

/// Minimum rate with a protection relative to the rate without.
const RATIO_MIN: f64 = 0.9;
/// Minimum rate of changes with an audit log relative to the rate without.
const AUDITED_RATIO_MIN: f64 = 0.97;
/// Maximum time to connect, in milliseconds.
const CONNECT_MILLIS_MAX: f64 = 50.0;
/// Reads of one vertex, per round.
const READS: usize = 100_000;
/// Connections per round.
const CONNECTS: usize = 50;

/// Configurations of a server and its connections.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Setup {
    /// In its sandbox, over plain local connections: the default.
    Plain,
    /// In its sandbox, over encrypted connections with an SSH key.
    Encrypted,
    /// Without a sandbox, over plain local connections.
    Unrestricted,
    /// As `Plain`, without an audit log.
    Unaudited,
    /// As `Plain`, with an audit log of changes.
    WritesAudited,
    /// As `Plain`, with an audit log of all requests.
    AllAudited,
}

impl Setup {
    /// Arguments of the server.
    fn arguments(self, bench: &Bench<'_>) -> anyhow::Result<Vec<String>> {
        let level = match self {
            Self::Plain | Self::Encrypted => return Ok(Vec::new()),
            Self::Unrestricted => return Ok(vec!["--no-sandbox".into()]),
            Self::Unaudited => "off",
            Self::WritesAudited => "writes",
            Self::AllAudited => "all",
        };
        let folder = bench.scratch.cleared_path("settings")?;
        std::fs::create_dir_all(&folder)?;
        let file = folder.join("audit.toml");
        std::fs::write(&file, format!("[audit]\nlog = \"{level}\"\n"))?;
        Ok(vec!["--config".into(), file.display().to_string()])
    }
}

/// The protection to measure.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum Protection {
    /// Encryption with key authentication.
    Keys,
    /// The server's sandbox.
    Sandbox,
    /// An audit log of changes.
    AuditOfWrites,
    /// An audit log of all requests.
    AuditOfAll,
}

impl Protection {
    /// The configurations without and with the protection.
    fn ways(self) -> [Setup; 2] {
        match self {
            Self::Keys => [Setup::Plain, Setup::Encrypted],
            Self::Sandbox => [Setup::Unrestricted, Setup::Plain],
            Self::AuditOfWrites => [Setup::Unaudited, Setup::WritesAudited],
            Self::AuditOfAll => [Setup::Unaudited, Setup::AllAudited],
        }
    }

    /// Labels of figures with and without the protection.
    fn labels(self) -> [&'static str; 2] {
        match self {
            Self::Keys => ["encrypted", "plain"],
            Self::Sandbox => ["sandboxed", "no sandbox"],
            Self::AuditOfWrites => ["changes audited", "no audit"],
            Self::AuditOfAll => ["all audited", "no audit"],
        }
    }

    fn is_audit(self) -> bool {
        matches!(self, Self::AuditOfWrites | Self::AuditOfAll)
    }

    /// Minimum rate with the protection relative to the rate without.
    fn ratio_min(self) -> f64 {
        match self {
            Self::Keys | Self::Sandbox => RATIO_MIN,
            Self::AuditOfWrites | Self::AuditOfAll => AUDITED_RATIO_MIN,
        }
    }
}

/// A server with its two addresses.
struct ProtectedServer {
    server: Child,
    encrypted: String,
}

impl ProtectedServer {
    fn start(bench: &Bench<'_>, way: Setup) -> anyhow::Result<Self> {
        let server = start_with(bench, &way.arguments(bench)?)?;
        let target = server.target();
        // Keeps the files separate from the user's own keys.
        let scratch = bench.scratch.cleared_path("keys")?;
        std::fs::create_dir_all(&scratch)?;
        let key = scratch.join("id");
        let terms = Terms {
            role: Some(Role::Write),
            ..Terms::default()
        };
        let public = HostKey::open_or_create(&key)?.public().clone();
        grants::grant(&server.folder, &public, &terms)?;
        let encrypted = format!(
            "{target}?ssh=on&trust-new-host&key={}&known-hosts={}",
            key.display(),
            scratch.join("known_hosts").display()
        );
        Ok(Self { server, encrypted })
    }

    fn target(&self, way: Setup) -> String {
        match way {
            Setup::Encrypted => self.encrypted.clone(),
            _ => self.server.target(),
        }
    }
}

/// Measures connections, calls that do nothing, and each of the cases.
pub(super) fn run(
    bench: &mut Bench<'_>,
    protection: Protection,
    cases: &[ServeCase<'_>],
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
    if protection.is_audit()
        && let Some(case) = cases.first()
    {
        // A call that does nothing has no record.
        let name = format!("reads of one vertex, {connections} connections");
        let both = both(bench, protection, &name, |bench, way| {
            reads(bench, way, case, connections)
        })?;
        report(bench, protection, &name, Unit::CallsPerSecond, READS, &both);
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

/// Runs rounds of both configurations, alternating.
fn both<T>(
    bench: &mut Bench<'_>,
    protection: Protection,
    what: &str,
    mut measure: impl FnMut(&Bench<'_>, Setup) -> anyhow::Result<T>,
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
            bench.check_interrupt()?;
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
    [without, with]: &[Vec<RoundResult>; 2],
) {
    let [protected, bare] = protection.labels();
    let count = operations as f64;
    let middle =
        |of: &[RoundResult], what: fn(&RoundResult) -> f64| median(of.iter().map(what).collect());
    let rate = |of: &[RoundResult]| count / middle(of, |m| m.wall);
    let micros = |of: &[RoundResult]| middle(of, |m| m.client_cpu + m.server_cpu) * 1e6 / count;
    let note = format!(
        "raw: {bare}; p50 {:.0} us against {:.0}; CPU us each {:.2} against {:.2}",
        middle(with, |m| m.p50),
        middle(without, |m| m.p50),
        micros(with),
        micros(without),
    );
    let figure = Figure::new(format!("{case}, {protected}"), unit, rate(with));
    let least = protection.ratio_min() * rate(without);
    let figure = figure
        .raw(rate(without))
        .target(FigureTarget::AtLeast(least));
    bench.report.add(figure.note(note));
}

/// Measures the time until a server has greeted.
fn connects(bench: &mut Bench<'_>) -> anyhow::Result<()> {
    let served = ProtectedServer::start(bench, Setup::Plain)?;
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
    let most = FigureTarget::AtMost(CONNECT_MILLIS_MAX);
    bench.report.add(figure.raw(plain).target(most).note(note));
    served.server.stop()
}

fn nulls(
    bench: &Bench<'_>,
    way: Setup,
    window: usize,
    calls: usize,
) -> anyhow::Result<RoundResult> {
    let served = ProtectedServer::start(bench, way)?;
    let client = Client::connect(&Address::parse(&served.target(way))?)?;
    let load = OperationLoad {
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

/// Reads single vertices, one in flight on each connection.
fn reads(
    bench: &Bench<'_>,
    way: Setup,
    case: &ServeCase<'_>,
    connections: usize,
) -> anyhow::Result<RoundResult> {
    let served = ProtectedServer::start(bench, way)?;
    let target = format!("{}?cache=off", served.target(way));
    let open = || bench.context.open_options().open(&target);
    let databases: Vec<Database> = (0..connections).map(|_| open()).collect::<Result<_, _>>()?;
    let first = databases
        .first()
        .ok_or_else(|| anyhow::anyhow!("there is no connection"))?;
    let shape = comparison::define(bench, first)?;
    first.apply(shape.batch(case.graph, 0..case.edges.min(1_000)))?;
    let id = shape.vertex(case.graph, 0).id;
    let load = OperationLoad {
        parts: vec![vec![(); READS / connections]; connections],
        window: 1,
    };
    let measured = load.run(
        &|thread, ()| databases[thread].read_vertices(&[id], Version::MAX),
        &|found| {
            std::hint::black_box(found);
            Ok(())
        },
        || served.server.cpu_seconds(),
    )?;
    drop(databases);
    served.server.stop()?;
    Ok(measured)
}

fn inserts(
    bench: &Bench<'_>,
    way: Setup,
    case: &ServeCase<'_>,
    connections: usize,
) -> anyhow::Result<RoundResult> {
    let served = ProtectedServer::start(bench, way)?;
    let target = served.target(way);
    let open = || bench.context.open_options().open(&target);
    let databases: Vec<Database> = (0..connections).map(|_| open()).collect::<Result<_, _>>()?;
    let first = databases
        .first()
        .ok_or_else(|| anyhow::anyhow!("there is no connection"))?;
    let shape = comparison::define(bench, first)?;
    let load = OperationLoad {
        parts: parts(case, connections),
        window: case.window,
    };
    let measured = load.run(
        &|thread, edges| databases[thread].submit(shape.batch(case.graph, edges)),
        &|submitted| submitted.wait().map(drop),
        || served.server.cpu_seconds(),
    )?;
    check_edge_count(first, &shape, case)?;
    drop(databases);
    served.server.stop()?;
    Ok(measured)
}
