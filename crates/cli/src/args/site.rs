//! Arguments of `esker site`.

use super::{FormatArgs, LogFormat};
use clap::{Args, Subcommand};
use esker_site_cache::cache::Policy;
use esker_site_cache::predict::Choice;
use esker_site_cache::replay::{Rtt, Size, Tiers};
use esker_site_cache::trace::Format;
use std::ffi::OsString;
use std::path::PathBuf;
use tracing_subscriber::filter::LevelFilter;

#[derive(Debug, Args)]
pub(crate) struct SiteArgs {
    #[command(subcommand)]
    pub(crate) command: SiteCommand,
}

#[derive(Debug, Subcommand)]
pub(crate) enum SiteCommand {
    /// Play a trace against tiers of caches, in simulated time
    Replay(Box<SiteReplayArgs>),
    /// Record the metadata trace of a program
    Record(SiteRecordArgs),
    /// Make a trace like those of a large cluster
    Trace(SiteTraceArgs),
    /// Run a tier: a cache of far metadata that clients and other tiers ask
    Serve(SiteServeArgs),
    /// What a tier, and those above it, have done: hits, prefetches, queues, origins
    Status(SiteStatusArgs),
    /// Let a tier fetch a directory and what is below it, before anybody asks
    Warm(SiteWarmArgs),
    /// Let a tier, and those around it, forget what they know of a path
    Invalidate(SitePathArgs),
    /// What a tier keeps of a path, and why
    Explain(SitePathArgs),
}

#[derive(Debug, Args)]
#[command(
    after_help = "Traces are NDJSON ({\"t\": SECONDS, \"client\": …, \"op\": \"list|stat|open|create|delete|rename\", \"path\": …, \
    \"to\": …} a line), audit logs of HDFS, or what `strace -f -ttt -y` prints; the first line tells which.\n\n\
    Predictors: dls (as published), guarded (the default), learned, amp, nexus, farmer, lru (none).\n\n\
    Examples:\n  \
    esker site replay --trace t.ndjson --predictor dls,guarded,lru --cache 1%,10%\n  \
    esker site replay --trace monday.ndjson --train sunday.ndjson --predictor amp --tiers EC,EFC --json out.json"
)]
pub(crate) struct SiteReplayArgs {
    /// The trace; - is standard input
    #[arg(long, value_name = "FILE")]
    pub(crate) trace: PathBuf,
    /// A trace that predictors learn from before; nothing of it is cached
    #[arg(long, value_name = "FILE")]
    pub(crate) train: Option<PathBuf>,
    /// What traces are written in: ndjson, hdfs or strace
    #[arg(long, value_name = "FORMAT")]
    pub(crate) trace_format: Option<Format>,
    /// Pass over broken lines (and exit with 1)
    #[arg(long)]
    pub(crate) lenient: bool,
    /// Which predictors, one replay each
    #[arg(
        long,
        value_name = "NAME",
        value_delimiter = ',',
        default_value = "guarded"
    )]
    pub(crate) predictor: Vec<Choice>,
    /// Sizes of the edge's cache: bytes, or a part of what the attributes for all reads of the trace would take
    #[arg(long, value_name = "SIZE", value_delimiter = ',', default_value = "10%", value_parser = parse_cache)]
    pub(crate) cache: Vec<CacheSize>,
    /// The size of the fog node's cache
    #[arg(long, value_name = "SIZE", default_value = "30%", value_parser = parse_cache)]
    pub(crate) fog_cache: CacheSize,
    /// Which entries go when a cache is full: lru, sieve, s3-fifo or w-tinylfu
    #[arg(long, value_name = "NAME", default_value = "lru")]
    pub(crate) policy: Policy,
    /// EC (edge and cloud), EFC (edge, fog node and cloud), or both
    #[arg(long, value_name = "TIERS", value_delimiter = ',', default_value = "EC", value_parser = parse_tiers)]
    pub(crate) tiers: Vec<Tiers>,
    /// Round trips in ms: client to edge, edge to fog node, from there to the cloud, cloud to origin
    #[arg(long, value_name = "MS,MS,MS,MS", default_value = "1,4,17,20", value_parser = parse_rtt)]
    pub(crate) rtt: Rtt,
    /// Requests that the cloud has on their way to the origin at once
    #[arg(long, value_name = "N", default_value_t = 85, value_parser = clap::value_parser!(u32).range(1..=100_000))]
    pub(crate) services: u32,
    /// Edges; clients are dealt out among them
    #[arg(long, value_name = "N", default_value_t = 1, value_parser = clap::value_parser!(u32).range(1..=1000))]
    pub(crate) edges: u32,
    /// A client's next request waits for the answer to its last, instead of coming at the trace's time
    #[arg(long)]
    pub(crate) closed: bool,
    /// Misses under a directory that DLS and its kin wait for before they list it
    #[arg(long, value_name = "N")]
    pub(crate) threshold: Option<u32>,
    /// Write the figures to a file, an object a line; - is standard output
    #[arg(long, value_name = "FILE")]
    pub(crate) json: Option<PathBuf>,
    #[command(flatten)]
    pub(crate) format: FormatArgs,
}

#[derive(Debug, Args)]
#[command(
    after_help = "The program runs under strace, which must be installed (Debian: apt install strace); it is several times slower \
    by that.\n\n\
    Example:\n  \
    esker site record --out build.ndjson -- make -j2"
)]
pub(crate) struct SiteRecordArgs {
    /// Where the trace goes
    #[arg(long, short, value_name = "FILE", default_value = "trace.ndjson")]
    pub(crate) out: PathBuf,
    /// The program with its arguments
    #[arg(value_name = "CMD", required = true, last = true)]
    pub(crate) command: Vec<OsString>,
}

#[derive(Debug, Args)]
#[command(
    after_help = "What the paper says of the Yahoo! logs: most directories listed once or rarely, siblings under hot parents in random \
    order, noisy neighbours between; most jobs come back the next day. All follows from the seed.\n\n\
    Example:\n  \
    esker site trace --day 0 --out sunday.ndjson; esker site trace --day 1 --out monday.ndjson"
)]
pub(crate) struct SiteTraceArgs {
    /// Like which logs
    #[arg(long, value_name = "NAME", default_value = "yahoo", value_parser = ["yahoo"])]
    pub(crate) like: String,
    /// Requests that read
    #[arg(long, value_name = "N", default_value_t = 1_000_000, value_parser = clap::value_parser!(u64).range(1..=100_000_000))]
    pub(crate) operations: u64,
    /// The seed
    #[arg(long, default_value_t = 1)]
    pub(crate) seed: u64,
    /// Which day, from 0
    #[arg(long, value_name = "N", default_value_t = 0)]
    pub(crate) day: u32,
    /// Where the trace goes; - is standard output
    #[arg(long, short, value_name = "FILE", default_value = "-")]
    pub(crate) out: PathBuf,
}

#[derive(Debug, Args)]
#[command(after_help = "What can stand in the file, with its defaults:\n\n  \
    name = \"site\"                     listen = \"127.0.0.1:7500\"  (or \"unix:/PATH\")\n  \
    parents = [\"esker://fog:7500\"]    the tiers above; with none, it asks origins itself\n  \
    services = 85                     a member of the cloud: no cache, so many connections with one request each\n  \
    [cache]    memory = \"256MiB\"  policy = \"lru\"  predictor = \"guarded\"  ttl = \"10s\"  ttl_most = \"10m\"\n  \
    [origins]  allow = []  connections = 4  in_flight = 64  patience = \"30s\"\n\n\
    A tier asks origins with the credentials of whoever runs it: `allow` says which. On this machine only processes of that user and of \
    root are answered; whoever asks from elsewhere (esker://HOST:PORT) proves a key of SSH that [access] folder gives rights to \
    (~/.esker/site).\n\n\
    Examples:\n  \
    esker site serve edge.toml\n  \
    esker site serve --allow sftp://data.example.org --listen 127.0.0.1:0 --port-file edge.port")]
pub(crate) struct SiteServeArgs {
    /// The tier's file; without one, a tier with the defaults
    #[arg(value_name = "FILE")]
    pub(crate) file: Option<PathBuf>,
    /// Where it listens, whatever the file says: HOST:PORT (port 0 is any free one) or unix:PATH
    #[arg(long, value_name = "ADDRESS")]
    pub(crate) listen: Option<String>,
    /// The origins that it asks, with your credentials, whatever the file says: their beginnings; * is all but this machine's folders
    #[arg(long, value_name = "ORIGIN", value_delimiter = ',')]
    pub(crate) allow: Option<Vec<String>>,
    /// The tiers above, whatever the file says
    #[arg(long, value_name = "URL", value_delimiter = ',')]
    pub(crate) parents: Option<Vec<String>>,
    /// Write the address to that file once it listens
    #[arg(long, value_name = "FILE")]
    pub(crate) port_file: Option<PathBuf>,
    /// What is logged: error, warn, info, debug or trace
    #[arg(long, value_name = "LEVEL", default_value = "info")]
    pub(crate) log: LevelFilter,
    /// How it is logged
    #[arg(long, value_enum, default_value_t = LogFormat::Text)]
    pub(crate) log_format: LogFormat,
}

/// Which tier.
#[derive(Debug, Args)]
pub(crate) struct ViaArg {
    /// The tier's address: http://127.0.0.1:PORT, unix:PATH or esker://HOST:PORT
    #[arg(
        long,
        value_name = "URL",
        env = "ESKER_VIA",
        default_value = "http://127.0.0.1:7500"
    )]
    pub(crate) via: String,
}

#[derive(Debug, Args)]
#[command(after_help = "Example:\n  esker site status --via esker://edge:7500")]
pub(crate) struct SiteStatusArgs {
    #[command(flatten)]
    pub(crate) via: ViaArg,
    #[command(flatten)]
    pub(crate) format: FormatArgs,
}

#[derive(Debug, Args)]
#[command(after_help = "Example:\n  esker site warm sftp://data.example.org/campaign7 --depth 3")]
pub(crate) struct SiteWarmArgs {
    /// The directory
    #[arg(value_name = "URL")]
    pub(crate) url: String,
    /// How many names down
    #[arg(long, value_name = "N", default_value_t = 1024)]
    pub(crate) depth: usize,
    #[command(flatten)]
    pub(crate) via: ViaArg,
}

#[derive(Debug, Args)]
pub(crate) struct SitePathArgs {
    /// The path
    #[arg(value_name = "URL")]
    pub(crate) url: String,
    #[command(flatten)]
    pub(crate) via: ViaArg,
    #[command(flatten)]
    pub(crate) format: FormatArgs,
}

/// A size as it was written, and what it means.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct CacheSize {
    pub(crate) text: String,
    pub(crate) size: Size,
}

fn parse_cache(text: &str) -> Result<CacheSize, String> {
    let size = match text.strip_suffix('%') {
        Some(number) => {
            let percent: f64 = number
                .trim()
                .parse()
                .map_err(|_| format!("`{text}` is no part: expected a number, as in 10%"))?;
            if !(0.0..=1e6).contains(&percent) || percent == 0.0 {
                return Err(format!("`{text}` is no part: expected more than 0%"));
            }
            Size::Percent(percent)
        }
        None => Size::Bytes(crate::units::parse_size(text)?),
    };
    let text = text.to_owned();
    Ok(CacheSize { text, size })
}

fn parse_tiers(text: &str) -> Result<Tiers, String> {
    match text {
        "EC" | "ec" => Ok(Tiers::EdgeCloud),
        "EFC" | "efc" => Ok(Tiers::EdgeFogCloud),
        _ => Err(format!("`{text}` are no tiers: expected EC or EFC")),
    }
}

fn parse_rtt(text: &str) -> Result<Rtt, String> {
    let bad = || format!("`{text}`: expected four round trips in ms, as in 1,4,17,20");
    let mut each = Vec::new();
    for part in text.split(',') {
        let ms: f64 = part.trim().parse().map_err(|_| bad())?;
        if !(0.0..=60_000.0).contains(&ms) {
            return Err(bad());
        }
        each.push((ms * 1000.0).round() as u64);
    }
    let [client, fog, cloud, origin] = each[..] else {
        return Err(bad());
    };
    Ok(Rtt {
        client,
        fog,
        cloud,
        origin,
    })
}
