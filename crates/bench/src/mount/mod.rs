//! `esker bench mount`: a mounted namespace compared with a null FUSE file system, a tmpfs, and the underlying folder.
//!
//! The null file system shows the cost of the kernel and the protocol; the difference to a mount is Esker's cost.
//! Both are separate
//! processes with the same settings. [`load`] has the operations on each side.

mod args;
mod load;
mod side;

pub(crate) use args::MountBenchArgs;

use super::report::{Figure, FigureTarget, Report, Unit, median};
use super::scratch::Scratch;
use esker_terminal::context::Context;
use esker_terminal::exit::Outcome;
use load::Phase;
use serde_json::json;
use side::{Caching, Side, SideKind};

/// Targets: rates relative to the null file system's, and to the folder's.
const NAMES_LEAST: f64 = 0.8;
const CONTENTS_LEAST: f64 = 0.9;

struct MountRate {
    kind: SideKind,
    what: String,
    rate: f64,
}

pub(crate) fn run(args: &MountBenchArgs, context: &mut Context) -> anyhow::Result<Outcome> {
    let scratch = Scratch::make(&args.directory, args.keep)?;
    let mut report = Report::new("mount");
    let mut measured = Vec::new();
    let stopped = match rounds(args, context, &scratch, &mut measured) {
        Ok(()) => false,
        Err(error) if crate::timed::is_interruption(&error) => true,
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
    measured: &mut Vec<MountRate>,
) -> anyhow::Result<()> {
    for round in 0..args.rounds {
        for (kind, caching) in SideKind::ALL
            .into_iter()
            .flat_map(|kind| Caching::ALL.map(|caching| (kind, caching)))
            .filter(|(kind, caching)| kind.is_mounted() || *caching == Caching::Usual)
        {
            let side = match Side::make(kind, caching, args, scratch) {
                Ok(Some(side)) => side,
                Ok(None) => continue,
                Err(e) if round == 0 && kind != SideKind::Esker => {
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
                    let names = phase.names(kind, caching);
                    if let Some(name) = names.first() {
                        context.note(&format!("{}: {name}, {shape}", kind.name()));
                    }
                    let rate = load::names(phase, one, &side.path, args)?;
                    measured.extend(names.iter().map(|name| MountRate {
                        kind,
                        what: format!("{name}, {shape}"),
                        rate,
                    }));
                }
            }
            if kind.has_contents() && caching == Caching::Usual && args.large > 0 {
                for (what, rate) in load::contents(&side.path, args.large)? {
                    measured.push(MountRate { kind, what, rate });
                }
            }
        }
    }
    Ok(())
}

fn figures(measured: &[MountRate], report: &mut Report) {
    let mut seen: Vec<&str> = Vec::new();
    for MountRate { what, .. } in measured.iter().filter(|m| m.kind == SideKind::Esker) {
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
        let Some(esker) = of(SideKind::Esker) else {
            continue;
        };
        for kind in SideKind::ALL {
            let Some(raw) = of(kind).filter(|_| kind != SideKind::Esker) else {
                continue;
            };
            let names = of(SideKind::Null).is_some();
            let mut figure = Figure::new(what.clone(), Unit::CallsPerSecond, esker)
                .raw(raw)
                .note(format!("beside {}", kind.name()));
            if kind == SideKind::Null {
                figure = figure.target(FigureTarget::Ratio(NAMES_LEAST));
            } else if kind == SideKind::Folder && !names {
                figure = figure.target(FigureTarget::Ratio(CONTENTS_LEAST));
            }
            report.add(figure);
        }
    }
}
