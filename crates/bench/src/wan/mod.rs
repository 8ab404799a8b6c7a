//! `esker bench wan`: real servers in a network namespace at a simulated distance.
//!
//! [`servers`] starts them, [`rates`] measures stats per second by connections and requests in flight, [`services`]
//! repeats SMURF's
//! Figures 4 and 5: edge and cloud between client and origin.

mod rates;
mod servers;
mod services;

use super::cluster::plot::{Line, Picture};
use super::report::{Figure, FigureTarget, Report, Unit};
use super::scratch::Scratch;
use anyhow::Context as _;
use clap::{Args, ValueEnum};
use esker_terminal::args::FormatArgs;
use esker_terminal::context::Context;
use esker_terminal::exit::{Outcome, usage};
use esker_terminal::interrupt::Interrupt;
use esker_wan::Wan;
use rates::Concurrency;
use serde_json::json;
use servers::{ServedFiles, Server, ServerKind};
use services::Tiers;
use std::fs::{Permissions, set_permissions};
use std::os::unix::fs::PermissionsExt as _;
use std::path::PathBuf;
use std::pin::pin;
use std::sync::Arc;
use std::time::Duration;
use tokio::runtime::Runtime;

#[derive(Debug, Args)]
#[command(
    after_help = "The servers run on this machine in a network namespace of their own; packets in each direction are delayed by \
                  half the round-trip time. This needs root, /dev/net/tun and `ip`. Servers that are not installed are left out; --servers-dir is a \
                  folder of unpacked packages, as crates/origin/tests/fetch-ftp-servers.sh makes one. docs/papers/smurf.md has \
                  figures.\n\nExamples:\n  \
                  esker bench wan rates --servers sshd,globus\n  \
                  esker bench wan prefetch --services 5,85 --requests 10000 --plots figures/"
)]
pub(crate) struct WanBenchArgs {
    /// The measurement: stats per second by connections and requests in flight (rates), latency of single requests
    /// through edge and
    /// cloud by the cloud's services (fetch: SMURF's Figure 4), and time of many prefetches (prefetch: Figure 5)
    #[arg(value_enum, default_value = "rates")]
    what: Measurement,
    /// The servers to measure; fetch and prefetch use the first one that is installed
    #[arg(
        long,
        value_name = "NAMES",
        value_delimiter = ',',
        default_value = "globus,sshd,vsftpd,proftpd"
    )]
    servers: Vec<String>,
    /// Folder of unpacked servers
    #[arg(long, value_name = "DIRECTORY", env = "ESKER_FTP_SERVERS_DIR")]
    servers_dir: Option<PathBuf>,
    /// Round-trip time in milliseconds
    #[arg(long, value_name = "MS", default_value_t = 32, value_parser = clap::value_parser!(u32).range(1..=10_000))]
    round_trip: u32,
    /// Seconds of each rate measurement
    #[arg(long, value_name = "S", default_value_t = 3, value_parser = clap::value_parser!(u32).range(1..=600))]
    seconds: u32,
    /// Numbers of the cloud's services, with one connection each
    #[arg(
        long,
        value_name = "NUMBERS",
        value_delimiter = ',',
        default_value = "5,10,20,40,85"
    )]
    services: Vec<u16>,
    /// Requests in flight per service; 1 in the paper
    #[arg(long, value_name = "N", default_value_t = 1, value_parser = clap::value_parser!(u16).range(1..=64))]
    window: u16,
    /// Number of requests, each for another file
    #[arg(long, value_name = "N", default_value_t = 10_000, value_parser = clap::value_parser!(u32).range(1000..=1_000_000))]
    requests: u32,
    /// Concurrent fetches
    #[arg(long, value_name = "N", default_value_t = 64, value_parser = clap::value_parser!(u32).range(1..=10_000))]
    at_once: u32,
    /// Directory for the files, accessible to all users
    #[arg(long, value_name = "DIRECTORY", default_value_os_t = std::env::temp_dir())]
    directory: PathBuf,
    /// Draw the results of fetch and prefetch as SVG in this folder
    #[arg(long, value_name = "DIRECTORY")]
    plots: Option<PathBuf>,
    /// Write the figures as JSON to this file
    #[arg(long, value_name = "FILE")]
    json: Option<PathBuf>,
    #[command(flatten)]
    format: FormatArgs,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
enum Measurement {
    Rates,
    Fetch,
    Prefetch,
}

impl Measurement {
    fn name(self) -> &'static str {
        match self {
            Self::Rates => "wan rates",
            Self::Fetch => "wan fetch",
            Self::Prefetch => "wan prefetch",
        }
    }
}

/// One connection with one request in flight, one with many, and many connections.
const LOADS: [Concurrency; 3] = [
    Concurrency {
        connections: 1,
        in_flight: 1,
    },
    Concurrency {
        connections: 1,
        in_flight: 64,
    },
    Concurrency {
        connections: 16,
        in_flight: 64,
    },
];

struct WanBench<'a> {
    args: &'a WanBenchArgs,
    wan: &'a Wan,
    files: &'a ServedFiles,
    runtime: &'a Runtime,
    interrupt: &'a Interrupt,
}

impl WanBench<'_> {
    fn round_trip(&self) -> Duration {
        Duration::from_millis(self.args.round_trip.into())
    }

    /// Runs a future unless the user interrupts.
    fn wait<T>(&self, task: impl Future<Output = anyhow::Result<T>>) -> anyhow::Result<T> {
        self.runtime.block_on(async {
            let mut task = pin!(task);
            loop {
                let turn = tokio::time::timeout(Duration::from_millis(100), &mut task).await;
                if let Ok(done) = turn {
                    return done;
                }
                if self.interrupt.stopped().is_some() {
                    return Err(esker_model::Error::Interrupted.into());
                }
            }
        })
    }
}

pub(super) fn run(args: &WanBenchArgs, context: &mut Context) -> anyhow::Result<Outcome> {
    let kinds = installed_servers(args, context)?;
    let wan = Wan::open(Duration::ZERO)?;
    let scratch = Scratch::make(&args.directory, false)?;
    let folder = scratch.cleared_path("files")?;
    if let Some(above) = folder.parent() {
        // Servers drop their privileges before they read the folder.
        set_permissions(above, Permissions::from_mode(0o755))?;
    }
    if let Some(plots) = &args.plots {
        std::fs::create_dir_all(plots).with_context(|| format!("making {}", plots.display()))?;
    }
    context.note(&format!("making {} files", args.requests));
    let files = ServedFiles::make(folder, args.requests)?;
    let runtime = tokio::runtime::Builder::new_multi_thread()
        .enable_all()
        .build()?;
    let interrupt = context.interrupt.clone();
    let bench = WanBench {
        args,
        wan: &wan,
        files: &files,
        runtime: &runtime,
        interrupt: &interrupt,
    };
    let mut report = Report::new(args.what.name());
    let mut ran = Ok(());
    for kind in kinds {
        let own = scratch.cleared_path("server")?;
        let unpacked = args.servers_dir.as_deref();
        wan.set_round_trip(Duration::ZERO);
        let server = Server::start(kind, &wan, &files, &own, unpacked)?;
        context.note(&format!("{}: {}", args.what.name(), kind.name()));
        ran = match args.what {
            Measurement::Rates => rates(&bench, &server, &mut report),
            Measurement::Fetch => fetch(&bench, server, &mut report, context),
            Measurement::Prefetch => prefetch(&bench, server, &mut report, context),
        };
        if ran.is_err() || args.what != Measurement::Rates {
            break;
        }
    }
    let stopped = match ran {
        Ok(()) => false,
        Err(error) if crate::timed::is_interruption(&error) => true,
        Err(error) => return Err(error),
    };
    let settings = json!({
        "round_trip_ms": args.round_trip,
        "requests": args.requests,
        "window": args.window,
        "at_once": args.at_once,
        "seconds": args.seconds,
    });
    let how = (args.format.format, args.json.as_deref());
    report.print(&settings, how, context)?;
    if stopped {
        context.warn("stopped before the end: the figures above are those that were complete");
    }
    Ok(Outcome::partly_if(stopped))
}

/// Returns the named servers that are installed.
fn installed_servers(
    args: &WanBenchArgs,
    context: &mut Context,
) -> anyhow::Result<Vec<ServerKind>> {
    let mut kinds = Vec::new();
    for name in &args.servers {
        let names = || ServerKind::ALL.map(ServerKind::name).join(", ");
        let kind = ServerKind::ALL.into_iter().find(|k| k.name() == name);
        let kind = kind.ok_or_else(|| {
            usage(format!(
                "`{name}` is not a server that this knows: there are {}",
                names()
            ))
        })?;
        if kind.is_there(args.servers_dir.as_deref()) {
            kinds.push(kind);
        } else {
            context.warn(&format!("{name} is not installed and left out"));
        }
    }
    if kinds.is_empty() {
        return Err(usage(
            "none of these servers is there; see --servers-dir".to_owned(),
        ));
    }
    Ok(kinds)
}

fn rates(bench: &WanBench<'_>, server: &Server, report: &mut Report) -> anyhow::Result<()> {
    let files = bench.files.count();
    let time = Duration::from_secs(bench.args.seconds.into());
    for load in LOADS {
        bench.wan.set_round_trip(Duration::ZERO);
        let near = bench.wait(rates::rate(server, files, load, time))?;
        bench.wan.set_round_trip(bench.round_trip());
        let far = bench.wait(rates::rate(server, files, load, time))?;
        let limit = load.limit(bench.round_trip());
        let case = format!(
            "{}, {} x {}",
            server.kind.name(),
            load.connections,
            load.in_flight
        );
        let mut figure =
            Figure::new(case, Unit::CallsPerSecond, far.each_second).raw(near.each_second);
        // A sequential client has no target.
        figure = match (load.connections, load.in_flight) {
            (1, 1) => figure,
            (1, _) => figure.target(FigureTarget::AtLeast(0.95 * limit.min(near.each_second))),
            _ => figure.target(FigureTarget::AtLeast(0.9 * limit.min(near.each_second))),
        };
        let mut note = format!(
            "{:.2} of {limit:.0}; raw: without delay",
            far.each_second / limit
        );
        if far.connections < load.connections {
            note = format!("{note}; {} connections", far.connections);
        }
        if far.retries + near.retries > 0 {
            note = format!("{note}; {} asked again", far.retries + near.retries);
        }
        report.add(figure.note(note));
    }
    Ok(())
}

fn fetch(
    bench: &WanBench<'_>,
    server: Server,
    report: &mut Report,
    context: &Context,
) -> anyhow::Result<()> {
    const PARTS: [(&str, usize); 5] = [
        ("10 %", 10),
        ("median", 50),
        ("90 %", 90),
        ("99 %", 99),
        ("longest", 100),
    ];
    let server = Arc::new(server);
    let mut lines = PARTS.map(|(name, _)| Line {
        name: name.to_owned(),
        points: Vec::new(),
    });
    bench.wan.set_round_trip(bench.round_trip());
    for services in &bench.args.services {
        let many = usize::from(*services);
        let times = bench.wait(async {
            let tiers = Tiers::start(&server, many, bench.args.window.into()).await?;
            tiers.warm(&server, many).await?;
            let times = tiers
                .fetch(&server, bench.args.requests, bench.args.at_once)
                .await?;
            tiers.stop().await;
            Ok(times)
        })?;
        for ((name, part), line) in PARTS.into_iter().zip(&mut lines) {
            let at = (times.len() - 1) * part / 100;
            let millis = times[at].as_secs_f64() * 1e3;
            line.points.push((many as f64, millis));
            report.add(Figure::new(
                format!("{services} services, {name}"),
                Unit::Millis,
                millis,
            ));
        }
    }
    if let Some(folder) = &bench.args.plots {
        let title = format!(
            "Fetches, {} at once, {} ms away",
            bench.args.at_once, bench.args.round_trip
        );
        let picture = Picture {
            title: &title,
            across: "services of the cloud",
            up: "ms",
            lines: lines.into(),
        };
        said(picture.save(folder, "smurf-fig4.svg")?, context);
    }
    Ok(())
}

fn prefetch(
    bench: &WanBench<'_>,
    server: Server,
    report: &mut Report,
    context: &Context,
) -> anyhow::Result<()> {
    let server = Arc::new(server);
    let requests = bench.args.requests;
    let mut points = Vec::new();
    bench.wan.set_round_trip(bench.round_trip());
    for services in &bench.args.services {
        let many = usize::from(*services);
        let window = usize::from(bench.args.window);
        let took = bench.wait(async {
            let tiers = Tiers::start(&server, many, window).await?;
            tiers.warm(&server, many).await?;
            let took = tiers.prefetch(&server, requests).await?;
            tiers.stop().await;
            Ok(took)
        })?;
        let load = Concurrency {
            connections: many,
            in_flight: window,
        };
        let limit = load.limit(bench.round_trip());
        let seconds = took.as_secs_f64();
        points.push((many as f64, seconds));
        let rate = f64::from(requests) / seconds;
        report.add(
            Figure::new(format!("{services} services"), Unit::Seconds, seconds)
                .note(format!("{rate:.0}/s, {:.2} of the limit", rate / limit)),
        );
    }
    if let Some(folder) = &bench.args.plots {
        let title = format!("{requests} prefetches, {} ms away", bench.args.round_trip);
        let name = format!("{} in flight", bench.args.window);
        let picture = Picture {
            title: &title,
            across: "services of the cloud",
            up: "seconds",
            lines: vec![Line { name, points }],
        };
        let file = format!("smurf-fig5-{requests}-{}.svg", bench.args.window);
        said(picture.save(folder, &file)?, context);
    }
    Ok(())
}

fn said(file: Option<PathBuf>, context: &Context) {
    if let Some(file) = file {
        context.note(&format!("wrote {}", file.display()));
    }
}
