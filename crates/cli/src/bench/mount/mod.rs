//! `esker bench mount`: a mounted namespace beside a file system of FUSE that answers at once, a tmpfs, and the folder underneath.
//!
//! What the null file system takes is the kernel's and the protocol's; what a mount takes more is Esker's. Both are processes of
//! their own, with the same settings. [`load`] is what programs do to each side.

mod args;
mod load;
mod side;

pub(crate) use args::MountBenchArgs;

use super::report::{Figure, Report, Target, Unit, median};
use super::scratch::Scratch;
use crate::context::Context;
use crate::exit::Outcome;
use load::Phase;
use serde_json::json;
use side::{Kind, Side};

/// What is wished for: of the null file system's rate, and of the folder's.
const NAMES_LEAST: f64 = 0.8;
const CONTENTS_LEAST: f64 = 0.9;

struct Measured {
    kind: Kind,
    what: String,
    rate: f64,
}

pub(crate) fn run(args: &MountBenchArgs, context: &mut Context) -> anyhow::Result<Outcome> {
    let scratch = Scratch::make(&args.directory, args.keep)?;
    let mut report = Report::new("mount");
    let mut measured = Vec::new();
    let stopped = match rounds(args, context, &scratch, &mut measured) {
        Ok(()) => false,
        Err(error) if super::is_interruption(&error) => true,
        Err(error) => return Err(error),
    };
    figures(&measured, &mut report);
    let settings = json!({
        "files": args.files,
        "ranks": args.ranks,
        "threads": args.threads,
        "rounds": args.rounds,
        "large_bytes": args.large,
        "target": args.target,
    });
    report.print(
        &settings,
        (args.format.format, args.json.as_deref()),
        context,
    )?;
    Ok(Outcome::partly_if(stopped))
}

fn rounds(
    args: &MountBenchArgs,
    context: &Context,
    scratch: &Scratch,
    measured: &mut Vec<Measured>,
) -> anyhow::Result<()> {
    for round in 0..args.rounds {
        for kind in Kind::ALL {
            let side = match Side::make(kind, args, scratch) {
                Ok(Some(side)) => side,
                Ok(None) => continue,
                Err(e) if round == 0 && kind != Kind::Esker => {
                    context.warn(&format!("no figures of {}: {e:#}", kind.name()));
                    continue;
                }
                Err(e) => return Err(e),
            };
            for one in [true, false] {
                for phase in Phase::ALL {
                    if context.interrupt.stopped().is_some() {
                        return Err(esker_model::Error::Interrupted.into());
                    }
                    let shape = if one {
                        "one directory"
                    } else {
                        "unique directories"
                    };
                    let what = format!("{}, {shape}", phase.name());
                    context.note(&format!("{}: {what}", kind.name()));
                    let rate = load::names(phase, one, &side.path, args)?;
                    measured.push(Measured { kind, what, rate });
                }
            }
            if kind.has_contents() && args.large > 0 {
                for (what, rate) in load::contents(&side.path, args.large)? {
                    measured.push(Measured { kind, what, rate });
                }
            }
        }
    }
    Ok(())
}

fn figures(measured: &[Measured], report: &mut Report) {
    let mut seen: Vec<&str> = Vec::new();
    for Measured { what, .. } in measured.iter().filter(|m| m.kind == Kind::Esker) {
        if seen.contains(&what.as_str()) {
            continue;
        }
        seen.push(what);
        let of = |kind| {
            let mine = measured
                .iter()
                .filter(|m| m.kind == kind && m.what == *what);
            let rates: Vec<f64> = mine.map(|m| m.rate).collect();
            (!rates.is_empty()).then(|| median(rates))
        };
        let Some(esker) = of(Kind::Esker) else {
            continue;
        };
        for kind in Kind::ALL {
            let Some(raw) = of(kind).filter(|_| kind != Kind::Esker) else {
                continue;
            };
            let names = of(Kind::Null).is_some();
            let mut figure = Figure::new(what.clone(), Unit::CallsPerSecond, esker)
                .raw(raw)
                .note(format!("beside {}", kind.name()));
            if kind == Kind::Null {
                figure = figure.target(Target::Ratio(NAMES_LEAST));
            } else if kind == Kind::Folder && !names {
                figure = figure.target(Target::Ratio(CONTENTS_LEAST));
            }
            report.add(figure);
        }
    }
}
