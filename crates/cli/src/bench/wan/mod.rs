//! `esker bench wan`: real servers in a network namespace that is as far away as one likes.
//!
//! [`servers`] starts them, [`rates`] counts stats a second by connections and questions in flight, [`services`] measures what SMURF's
//! Figures 4 and 5 show: edge and cloud between client and origin.

mod rates;
mod servers;
mod services;

use super::cluster::plot::{Line, Picture};
use super::report::{Figure, Report, Target, Unit};
use super::scratch::Scratch;
use crate::args::FormatArgs;
use crate::context::Context;
use crate::exit::{Outcome, usage};
use crate::interrupt::Interrupt;
use anyhow::Context as _;
use clap::{Args, ValueEnum};
use esker_wan::Wan;
use rates::Load;
use serde_json::json;
use servers::{Files, Kind, Server};
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
    after_help = "The servers run on this machine in a network namespace of their own; what goes there and back is held for half the \
                  round trip. That takes root, /dev/net/tun and `ip`. Servers that are not installed are left out; --servers-dir is a \
                  folder of unpacked packages, as crates/origin/tests/fetch-ftp-servers.sh makes one. docs/site-cache.md has \
                  figures.\n\nExamples:\n  \
                  esker bench wan rates --servers sshd,globus\n  \
                  esker bench wan prefetch --services 5,85 --requests 10000 --plots figures/"
)]
pub(crate) struct WanBenchArgs {
    /// What is measured: stats a second by connections and questions in flight (rates), the time of single requests by way of edge
    /// and cloud, by the cloud's services (fetch: SMURF's Figure 4), and of many prefetches (prefetch: Figure 5)
    #[arg(value_enum, default_value = "rates")]
    what: What,
    /// Which servers; fetch and prefetch ask the first one that is there
    #[arg(
        long,
        value_name = "NAMES",
        value_delimiter = ',',
        default_value = "globus,sshd,vsftpd,proftpd"
    )]
    servers: Vec<String>,
    /// The folder of unpacked servers
    #[arg(long, value_name = "DIRECTORY", env = "ESKER_FTP_SERVERS_DIR")]
    servers_dir: Option<PathBuf>,
    /// Milliseconds there and back
    #[arg(long, value_name = "MS", default_value_t = 32, value_parser = clap::value_parser!(u32).range(1..=10_000))]
    round_trip: u32,
    /// Seconds for each rate
    #[arg(long, value_name = "S", default_value_t = 3, value_parser = clap::value_parser!(u32).range(1..=600))]
    seconds: u32,
    /// Services of the cloud, one connection each
    #[arg(
        long,
        value_name = "NUMBERS",
        value_delimiter = ',',
        default_value = "5,10,20,40,85"
    )]
    services: Vec<u16>,
    /// Requests that a service has in flight; the paper's has one
    #[arg(long, value_name = "N", default_value_t = 1, value_parser = clap::value_parser!(u16).range(1..=64))]
    window: u16,
    /// Requests, each for another file
    #[arg(long, value_name = "N", default_value_t = 10_000, value_parser = clap::value_parser!(u32).range(1000..=1_000_000))]
    requests: u32,
    /// Fetches that are asked for at once
    #[arg(long, value_name = "N", default_value_t = 64, value_parser = clap::value_parser!(u32).range(1..=10_000))]
    at_once: u32,
    /// Where the files are made; everybody must be let into it
    #[arg(long, value_name = "DIRECTORY", default_value_os_t = std::env::temp_dir())]
    directory: PathBuf,
    /// Draw what fetch and prefetch measured into this folder, as SVG
    #[arg(long, value_name = "DIRECTORY")]
    plots: Option<PathBuf>,
    /// Write the figures to a file, as JSON
    #[arg(long, value_name = "FILE")]
    json: Option<PathBuf>,
    #[command(flatten)]
    format: FormatArgs,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
enum What {
    Rates,
    Fetch,
    Prefetch,
}

impl What {
    fn name(self) -> &'static str {
        match self {
            Self::Rates => "wan rates",
            Self::Fetch => "wan fetch",
            Self::Prefetch => "wan prefetch",
        }
    }
}

/// One connection that waits, one that does not, and many.
const LOADS: [Load; 3] = [
    Load {
        connections: 1,
        in_flight: 1,
    },
    Load {
        connections: 1,
        in_flight: 64,
    },
    Load {
        connections: 16,
        in_flight: 64,
    },
];

struct Bench<'a> {
    args: &'a WanBenchArgs,
    wan: &'a Wan,
    files: &'a Files,
    runtime: &'a Runtime,
    interrupt: &'a Interrupt,
}

impl Bench<'_> {
    fn round_trip(&self) -> Duration {
        Duration::from_millis(self.args.round_trip.into())
    }

    /// Waits for something, unless the user wants no more of it.
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
    let kinds = wanted(args, context)?;
    let wan = Wan::open(Duration::ZERO)?;
    let scratch = Scratch::make(&args.directory, false)?;
    let folder = scratch.fresh("files")?;
    if let Some(above) = folder.parent() {
        // Servers give up their rights before they look into it.
        set_permissions(above, Permissions::from_mode(0o755))?;
    }
    if let Some(plots) = &args.plots {
        std::fs::create_dir_all(plots).with_context(|| format!("making {}", plots.display()))?;
    }
    context.note(&format!("making {} files", args.requests));
    let files = Files::make(folder, args.requests)?;
    let runtime = tokio::runtime::Builder::new_multi_thread()
        .enable_all()
        .build()?;
    let interrupt = context.interrupt.clone();
    let bench = Bench {
        args,
        wan: &wan,
        files: &files,
        runtime: &runtime,
        interrupt: &interrupt,
    };
    let mut report = Report::new(args.what.name());
    let mut ran = Ok(());
    for kind in kinds {
        let own = scratch.fresh("server")?;
        let unpacked = args.servers_dir.as_deref();
        wan.set_round_trip(Duration::ZERO);
        let server = Server::start(kind, &wan, &files, &own, unpacked)?;
        context.note(&format!("{}: {}", args.what.name(), kind.name()));
        ran = match args.what {
            What::Rates => rates(&bench, &server, &mut report),
            What::Fetch => fetch(&bench, server, &mut report, context),
            What::Prefetch => prefetch(&bench, server, &mut report, context),
        };
        if ran.is_err() || args.what != What::Rates {
            break;
        }
    }
    let stopped = match ran {
        Ok(()) => false,
        Err(error) if super::is_interruption(&error) => true,
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

/// Those that were named and are there.
fn wanted(args: &WanBenchArgs, context: &mut Context) -> anyhow::Result<Vec<Kind>> {
    let mut kinds = Vec::new();
    for name in &args.servers {
        let names = || Kind::ALL.map(Kind::name).join(", ");
        let kind = Kind::ALL.into_iter().find(|k| k.name() == name);
        let kind = kind.ok_or_else(|| {
            usage(format!(
                "`{name}` is no server that this knows: there are {}",
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

fn rates(bench: &Bench<'_>, server: &Server, report: &mut Report) -> anyhow::Result<()> {
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
        // The first waits for each answer: there is nothing to be reached.
        figure = match (load.connections, load.in_flight) {
            (1, 1) => figure,
            (1, _) => figure.target(Target::AtLeast(0.95 * limit.min(near.each_second))),
            _ => figure.target(Target::AtLeast(0.9 * limit.min(near.each_second))),
        };
        let mut note = format!(
            "{:.2} of {limit:.0}; raw: without delay",
            far.each_second / limit
        );
        if far.connections < load.connections {
            note = format!("{note}; {} connections", far.connections);
        }
        if far.again + near.again > 0 {
            note = format!("{note}; {} asked again", far.again + near.again);
        }
        report.add(figure.note(note));
    }
    Ok(())
}

fn fetch(
    bench: &Bench<'_>,
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
    bench: &Bench<'_>,
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
        let load = Load {
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
