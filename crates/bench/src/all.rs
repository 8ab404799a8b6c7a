//! `esker bench all`: the other workloads one after the other, each in a process of its own, and one table of their figures.

use crate::scratch::Scratch;
use anyhow::Context as _;
use clap::Args;
use esker_terminal::args::{FormatArgs, RowFormat};
use esker_terminal::context::Context;
use esker_terminal::exit::Outcome;
use esker_terminal::output::{Cell, Rows};
use serde_json::{Value as Json, json};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

#[derive(Debug, Args)]
#[command(
    after_help = "RATIO is Esker's speed as a part of the other side's, as in the workload's own table; of a cluster's single inserts, \
                  the processor time of one server as a part of several servers'. A workload that fails is named at the end, and the \
                  exit code is 1.\n\nExamples:\n  \
                  esker bench all --quick /dev/shm\n  \
                  esker bench all --quick --only ingest,serve --json before.json"
)]
pub(crate) struct AllBenchArgs {
    /// Directory for the scratch folders, on the file system to be measured
    #[arg(value_name = "DIRECTORY", default_value = ".")]
    directory: PathBuf,
    /// Measure less data, in some 10 minutes on two cores
    #[arg(long)]
    quick: bool,
    /// Only these workloads
    #[arg(long, value_name = "NAME", value_delimiter = ',', value_parser = names())]
    only: Vec<String>,
    /// Write all figures as JSON to this file, too
    #[arg(long, value_name = "FILE")]
    json: Option<PathBuf>,
    #[command(flatten)]
    format: FormatArgs,
}

/// A workload with its options.
struct Run {
    name: &'static str,
    /// Options that `--quick` adds.
    quick: &'static [&'static str],
    options: &'static [&'static str],
}

const RUNS: [Run; 14] = [
    Run {
        name: "ingest",
        quick: &["--edges", "400000"],
        options: &["ingest"],
    },
    Run {
        name: "hot-vertex",
        quick: &["--edges", "50000"],
        options: &["hot-vertex", "--threads", "1"],
    },
    Run {
        name: "hot-vertex-threads",
        quick: &["--edges", "50000"],
        options: &["hot-vertex", "--threads", "4"],
    },
    Run {
        name: "read",
        quick: &["--edges", "200000", "--rounds", "1"],
        options: &["read"],
    },
    Run {
        name: "scan",
        quick: &["--edges", "200000", "--rounds", "1"],
        options: &["scan"],
    },
    Run {
        name: "travel",
        quick: &["--edges", "200000", "--rounds", "1"],
        options: &["travel"],
    },
    Run {
        name: "versions",
        quick: &["--edges", "5000", "--rounds", "1"],
        options: &["versions"],
    },
    Run {
        name: "serve",
        quick: &["--edges", "200000", "--singles", "50000", "--rounds", "1"],
        options: &["serve"],
    },
    Run {
        name: "cluster",
        quick: &["--single-edges", "20000", "--rounds", "1"],
        options: &[
            "cluster",
            "insert",
            "--servers",
            "1,4,16",
            "--singles",
            "--graph",
            "rmat:14:100000",
        ],
    },
    Run {
        name: "namespace",
        quick: &["--files", "100000"],
        options: &["namespace"],
    },
    Run {
        name: "mount",
        quick: &["--files", "8000", "--large", "64MiB"],
        options: &["mount"],
    },
    Run {
        name: "tree",
        quick: &["--files", "200000"],
        options: &["tree"],
    },
    Run {
        name: "objects",
        quick: &["--objects", "100000"],
        options: &["boss"],
    },
    Run {
        name: "rdf",
        quick: &["--runs", "2"],
        options: &["rdf"],
    },
];

fn names() -> clap::builder::PossibleValuesParser {
    RUNS.map(|run| run.name).into()
}

const COLUMNS: &[&str] = &["workload", "case", "unit", "esker", "raw", "ratio"];

pub(crate) fn run(args: &AllBenchArgs, context: &mut Context) -> anyhow::Result<Outcome> {
    let scratch = Scratch::make(&args.directory, false)?;
    let runs = RUNS
        .iter()
        .filter(|run| args.only.is_empty() || args.only.iter().any(|only| only == run.name));
    let (mut figures, mut failed) = (Vec::new(), Vec::new());
    for run in runs {
        if context.interrupt.stopped().is_some() {
            failed.push("the rest was not measured: interrupted".to_owned());
            break;
        }
        context.note(&format!("esker bench {}", run.options.join(" ")));
        let report = scratch.cleared_path(&format!("{}.json", run.name))?;
        match measure(run, args, &report, context) {
            Ok(results) => figures.extend(results),
            Err(error) => failed.push(format!("{}: {error:#}", run.name)),
        }
    }
    print(&figures, args, context)?;
    for why in &failed {
        context.warn(why);
    }
    Ok(Outcome::partly_if(!failed.is_empty()))
}

/// Runs a workload in a process of its own; returns its figures.
fn measure(
    run: &Run,
    args: &AllBenchArgs,
    report: &Path,
    context: &Context,
) -> anyhow::Result<Vec<Json>> {
    let mut command = Command::new(std::env::current_exe()?);
    command.args(run.options);
    if args.quick {
        command.args(run.quick);
    }
    let memory = context.globals.memory.to_string();
    command.arg(&args.directory);
    command.args(["--memory", &memory, "--json"]).arg(report);
    // The terminal's Ctrl-C reaches the process as well; its progress goes to the terminal.
    let output = command.stdout(Stdio::null()).status();
    let status = output.context("starting a workload")?;
    let text = std::fs::read_to_string(report)
        .with_context(|| format!("it printed no figures ({status})"))?;
    let report: Json = serde_json::from_str(&text)?;
    let results = report.get("results").and_then(Json::as_array);
    let results = results.into_iter().flatten();
    Ok(results.map(|figure| common(run.name, figure)).collect())
}

/// A figure with the columns that all workloads have.
fn common(name: &str, figure: &Json) -> Json {
    let text = |key: &str| figure.get(key).map(text_of).unwrap_or_default();
    if figure.get("case").is_some() {
        let mut figure = figure.clone();
        if let Some(fields) = figure.as_object_mut() {
            fields.insert("workload".into(), name.into());
        }
        return figure;
    }
    // A cluster's: the processor time of an insert, compared with that of one server.
    let number = |key: &str| figure.get(key).and_then(Json::as_f64);
    let ratio = number("cpu_ratio").map(|ratio| 1.0 / ratio);
    json!({
        "workload": name,
        "case": format!("{} servers, {} clients, batches of {}", text("servers"), text("clients"), text("batch")),
        "unit": "CPU us/edge",
        "esker": number("cpu_us"),
        "raw": Json::Null,
        "ratio": ratio,
    })
}

fn text_of(value: &Json) -> String {
    match value {
        Json::String(text) => text.clone(),
        Json::Null => String::new(),
        Json::Number(number) => match number.as_f64() {
            Some(n) if n.fract() == 0.0 || n.abs() >= 1_000.0 => {
                esker_terminal::units::count(n.round() as u64)
            }
            Some(n) => format!("{n:.3}"),
            None => number.to_string(),
        },
        other => other.to_string(),
    }
}

fn print(figures: &[Json], args: &AllBenchArgs, context: &mut Context) -> anyhow::Result<()> {
    let report = json!({
        "machine": { "cores": crate::machine::cores(), "memory_bytes": crate::machine::total_memory() },
        "settings": { "quick": args.quick, "memory_bytes": context.globals.memory },
        "results": figures,
    });
    let text = serde_json::to_string_pretty(&report)? + "\n";
    if let Some(path) = &args.json {
        std::fs::write(path, &text).with_context(|| format!("writing {}", path.display()))?;
    }
    if args.format.format == RowFormat::Json {
        write!(context.out, "{text}")?;
        return Ok(());
    }
    let mut rows = Rows::new(&mut context.out, args.format.format, context.style, COLUMNS);
    for figure in figures {
        let cell = |name: &&str| match figure.get(*name) {
            None | Some(Json::Null) => Cell::Empty,
            Some(value) if *name == "ratio" => {
                let ratio = value.as_f64().unwrap_or_default();
                Cell::Json(value.clone(), format!("{ratio:.2}"))
            }
            Some(value) => Cell::Json(value.clone(), text_of(value)),
        };
        rows.row(COLUMNS.iter().map(cell).collect())?;
    }
    rows.finish()?;
    Ok(())
}
