//! Arguments of `esker site`.

use super::{FormatArgs, LogFormat};
use clap::{Args, Subcommand};
use esker_site_cache::cache::Policy;
use esker_site_cache::predict::PredictorKind;
use esker_site_cache::replay::{Rtt, Size, Tiers};
use esker_site_cache::trace::Format;
use std::ffi::OsString;
use std::path::PathBuf;
use tracing_subscriber::filter::LevelFilter;

#[derive(Debug, Args)]
#[command(after_help = "Examples:\n  \
        esker site serve edge.toml\n  \
        esker site status")]
pub(crate) struct SiteArgs {
    #[command(subcommand)]
    pub(crate) command: SiteCommand,
}

#[derive(Debug, Subcommand)]
pub(crate) enum SiteCommand {
    /// Replay a trace against tiers of caches, in simulated time
    Replay(Box<SiteReplayArgs>),
    /// Record the metadata trace of a program
    Record(SiteRecordArgs),
    /// Generate a trace that resembles the logs of a large cluster
    Trace(SiteTraceArgs),
    /// Run a tier: a cache of remote metadata for clients and other tiers
    Serve(SiteServeArgs),
    /// Show the counters of a tier and of its upstream tiers: hits, prefetches, queues, origins
    Status(SiteStatusArgs),
    /// Fetch a directory and everything below it into a tier, before clients request it
    Warm(SiteWarmArgs),
    /// Drop a path from a tier and from the tiers around it
    #[command(after_help = "Examples:\n  \
            esker site invalidate sftp://data.example.org/campaign7/run7\n  \
            esker site invalidate sftp://data.example.org/campaign7 --via esker://edge:7500 --format json")]
    Invalidate(SitePathArgs),
    /// Show what a tier caches of a path, and why
    #[command(after_help = "Examples:\n  \
            esker site explain sftp://data.example.org/campaign7/run7\n  \
            esker site explain sftp://data.example.org/campaign7 --via esker://edge:7500 --format json")]
    Explain(SitePathArgs),
}

#[derive(Debug, Args)]
#[command(
    after_help = "Traces are NDJSON ({\"t\": SECONDS, \"client\": …, \"op\": \"list|stat|open|create|delete|rename\", \"path\": …, \
    \"to\": …} a line), audit logs of HDFS, or what `strace -f -ttt -y` prints; the first line shows which.\n\n\
    Predictors: dls (as published), guarded (the default), learned, amp, nexus, farmer, lru (none).\n\n\
    Examples:\n  \
    esker site replay --trace t.ndjson --predictor dls,guarded,lru --cache 1%,10%\n  \
    esker site replay --trace monday.ndjson --train sunday.ndjson --predictor amp --tiers EC,EFC --json out.json"
)]
pub(crate) struct SiteReplayArgs {
    /// The trace to replay; - is standard input
    #[arg(long, value_name = "FILE")]
    pub(crate) trace: PathBuf,
    /// Trace from which the predictors learn first; its answers are not cached
    #[arg(long, value_name = "FILE")]
    pub(crate) train: Option<PathBuf>,
    /// Format of the traces: ndjson, hdfs or strace
    #[arg(long, value_name = "FORMAT")]
    pub(crate) trace_format: Option<Format>,
    /// Skip malformed lines (and exit with 1)
    #[arg(long)]
    pub(crate) lenient: bool,
    /// Predictors to compare, one replay each
    #[arg(
        long,
        value_name = "NAME",
        value_delimiter = ',',
        default_value = "guarded"
    )]
    pub(crate) predictor: Vec<PredictorKind>,
    /// Sizes of the edge's cache: bytes, or a percentage of the size of the attributes for all reads of the trace
    #[arg(long, value_name = "SIZE", value_delimiter = ',', default_value = "10%", value_parser = parse_cache)]
    pub(crate) cache: Vec<CacheSize>,
    /// Size of the fog node's cache
    #[arg(long, value_name = "SIZE", default_value = "30%", value_parser = parse_cache)]
    pub(crate) fog_cache: CacheSize,
    /// Replacement policy of the caches: lru, sieve, s3-fifo or w-tinylfu
    #[arg(long, value_name = "NAME", default_value = "lru")]
    pub(crate) policy: Policy,
    /// Tiers: EC (edge and cloud), EFC (edge, fog node and cloud), or both
    #[arg(long, value_name = "TIERS", value_delimiter = ',', default_value = "EC", value_parser = parse_tiers)]
    pub(crate) tiers: Vec<Tiers>,
    /// Round-trip times in ms: client to edge, edge to fog node, next hop to the cloud, cloud to origin
    #[arg(long, value_name = "MS,MS,MS,MS", default_value = "1,4,17,20", value_parser = parse_rtt)]
    pub(crate) rtt: Rtt,
    /// Number of requests that the cloud has in flight to the origin
    #[arg(long, value_name = "N", default_value_t = 85, value_parser = clap::value_parser!(u32).range(1..=100_000))]
    pub(crate) services: u32,
    /// Number of edges; clients are distributed over them
    #[arg(long, value_name = "N", default_value_t = 1, value_parser = clap::value_parser!(u32).range(1..=1000))]
    pub(crate) edges: u32,
    /// Send a client's next request after the answer to its last, instead of at the trace's time
    #[arg(long)]
    pub(crate) closed: bool,
    /// Number of misses in a directory after which DLS and its variants list it
    #[arg(long, value_name = "N")]
    pub(crate) threshold: Option<u32>,
    /// Write the results to this file, one JSON object per line; - is standard output
    #[arg(long, value_name = "FILE")]
    pub(crate) json: Option<PathBuf>,
    #[command(flatten)]
    pub(crate) format: FormatArgs,
}

#[derive(Debug, Args)]
#[command(
    after_help = "The program runs under strace, which must be installed (Debian: apt install strace); that makes it several times \
    slower.\n\n\
    Examples:\n  \
    esker site record -- ls -lR /project\n  \
    esker site record --out build.ndjson -- make -j2"
)]
pub(crate) struct SiteRecordArgs {
    /// File of the trace
    #[arg(long, short, value_name = "FILE", default_value = "trace.ndjson")]
    pub(crate) out: PathBuf,
    /// The program with its arguments
    #[arg(value_name = "CMD", required = true, last = true)]
    pub(crate) command: Vec<OsString>,
}

#[derive(Debug, Args)]
#[command(
    after_help = "The trace has the properties that the paper reports of the Yahoo! logs: most directories listed once or rarely, siblings under hot parents in random \
    order, noisy neighbours between; most jobs come back the next day. The seed determines the trace.\n\n\
    Examples:\n  \
    esker site trace --operations 10000 --seed 7 > small.ndjson\n  \
    esker site trace --day 0 --out sunday.ndjson; esker site trace --day 1 --out monday.ndjson"
)]
pub(crate) struct SiteTraceArgs {
    /// Logs that the trace resembles
    #[arg(long, value_name = "NAME", default_value = "yahoo", value_parser = ["yahoo"])]
    pub(crate) like: String,
    /// Number of read requests
    #[arg(long, value_name = "N", default_value_t = 1_000_000, value_parser = clap::value_parser!(u64).range(1..=100_000_000))]
    pub(crate) operations: u64,
    /// Seed of the random numbers
    #[arg(long, default_value_t = 1)]
    pub(crate) seed: u64,
    /// Day of the trace, from 0
    #[arg(long, value_name = "N", default_value_t = 0)]
    pub(crate) day: u32,
    /// File of the trace; - is standard output
    #[arg(long, short, value_name = "FILE", default_value = "-")]
    pub(crate) out: PathBuf,
}

#[derive(Debug, Args)]
#[command(after_help = "Keys of the file, with their defaults:\n\n  \
    name = \"site\"                     listen = \"127.0.0.1:7500\"  (or \"unix:/PATH\")\n  \
    parents = [\"esker://fog:7500\"]    upstream tiers; without any, it asks origins itself\n  \
    services = 85                     a member of the cloud: no cache, this many connections with one request each\n  \
    [cache]    memory = \"256MiB\"  policy = \"lru\"  predictor = \"guarded\"  ttl = \"10s\"  ttl_most = \"10m\"\n  \
    [origins]  allow = []  connections = 4  in_flight = 64  patience = \"30s\"\n\n\
    A tier asks the origins in `allow` with the credentials of the user who runs it. On this machine it answers only processes of that \
    user and of root; clients of other machines (esker://HOST:PORT) authenticate by an SSH key that the folder of [access] gives \
    rights to (~/.esker/site).\n\n\
    Examples:\n  \
    esker site serve edge.toml\n  \
    esker site serve --allow sftp://data.example.org --listen 127.0.0.1:0 --port-file edge.port")]
pub(crate) struct SiteServeArgs {
    /// The tier's configuration file [default: a tier with the default settings]
    #[arg(value_name = "FILE")]
    pub(crate) file: Option<PathBuf>,
    /// Address to listen on, overriding the file: HOST:PORT (port 0 is any free one) or unix:PATH
    #[arg(long, value_name = "ADDRESS")]
    pub(crate) listen: Option<String>,
    /// Prefixes of the origins that it may ask with your credentials, overriding the file; * allows all but this machine's folders
    #[arg(long, value_name = "ORIGIN", value_delimiter = ',')]
    pub(crate) allow: Option<Vec<String>>,
    /// Upstream tiers, overriding the file
    #[arg(long, value_name = "URL", value_delimiter = ',')]
    pub(crate) parents: Option<Vec<String>>,
    /// Write the address to this file once the tier accepts requests
    #[arg(long, value_name = "FILE")]
    pub(crate) port_file: Option<PathBuf>,
    /// Lowest level to log: error, warn, info, debug or trace
    #[arg(long, value_name = "LEVEL", default_value = "info")]
    pub(crate) log: LevelFilter,
    /// Format of log lines
    #[arg(long, value_enum, default_value_t = LogFormat::Text)]
    pub(crate) log_format: LogFormat,
}

/// Address of a tier.
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
#[command(after_help = "Examples:\n  \
        esker site status\n  \
        esker site status --via esker://edge:7500 --format json")]
pub(crate) struct SiteStatusArgs {
    #[command(flatten)]
    pub(crate) via: ViaArg,
    #[command(flatten)]
    pub(crate) format: FormatArgs,
}

#[derive(Debug, Args)]
#[command(after_help = "Examples:\n  \
        esker site warm sftp://data.example.org/campaign7 --depth 3\n  \
        esker site warm sftp://data.example.org/campaign7 --via esker://edge:7500")]
pub(crate) struct SiteWarmArgs {
    /// The directory to fetch
    #[arg(value_name = "URL")]
    pub(crate) url: String,
    /// Maximum number of directory levels below it
    #[arg(long, value_name = "N", default_value_t = 1024)]
    pub(crate) depth: usize,
    #[command(flatten)]
    pub(crate) via: ViaArg,
}

#[derive(Debug, Args)]
pub(crate) struct SitePathArgs {
    /// The path, as a URL of its origin
    #[arg(value_name = "URL")]
    pub(crate) url: String,
    #[command(flatten)]
    pub(crate) via: ViaArg,
    #[command(flatten)]
    pub(crate) format: FormatArgs,
}

/// A cache size with the text that the user wrote.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct CacheSize {
    pub(crate) text: String,
    pub(crate) size: Size,
}

fn parse_cache(text: &str) -> Result<CacheSize, String> {
    let size = match text.strip_suffix('%') {
        Some(number) => {
            let percent: f64 = number.trim().parse().map_err(|_| {
                format!("`{text}` is not a percentage: expected a number, as in 10%")
            })?;
            if !(0.0..=1e6).contains(&percent) || percent == 0.0 {
                return Err(format!(
                    "`{text}` is not a percentage: expected more than 0%"
                ));
            }
            Size::Percent(percent)
        }
        None => Size::Bytes(esker_terminal::units::parse_size(text)?),
    };
    let text = text.to_owned();
    Ok(CacheSize { text, size })
}

fn parse_tiers(text: &str) -> Result<Tiers, String> {
    match text {
        "EC" | "ec" => Ok(Tiers::EdgeCloud),
        "EFC" | "efc" => Ok(Tiers::EdgeFogCloud),
        _ => Err(format!("`{text}` are not tiers: expected EC or EFC")),
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
