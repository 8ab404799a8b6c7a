//! `esker find`: prints objects that match a filter (SoMeta's P-search), while they are found.

mod print;
pub(crate) mod search;
mod vertices;

use crate::args::{FindArgs, FindFormat, RowFormat};
use crate::commands::note_if_stopped;
use crate::commands::object::parse_id;
use crate::share;
use esker_import::table::Format;
use esker_model::object::{Find, FindReport, OBJECT_TYPE, ObjectRead as _, PlanStep};
use esker_model::{Flow, GraphRead as _};
use esker_terminal::context::Context;
use esker_terminal::exit::{Outcome, usage};
use esker_terminal::interrupt::Interrupt;
use esker_terminal::output::{self, Cell, Rows};
use esker_terminal::units::{count, elapsed};
use print::ResultPrinter;
use std::io::{self, Write};
use std::ops::ControlFlow;
use std::path::PathBuf;
use std::time::{Duration, Instant};

pub(crate) fn run(args: &FindArgs, context: &mut Context) -> anyhow::Result<Outcome> {
    if let Some(second) = &args.of_files {
        return Err(usage(format!(
            "`{second}`: only one filter is allowed, and the first argument is not a path; quote a filter that has blanks"
        )));
    }
    let find = Find {
        filter: search::parse(&args.filter)?,
        select: selected(args),
        limit: args.limit,
        count: args.count,
        explain: args.explain,
        principal: args.principal.principal.clone(),
        share: match args.share {
            None if args.collective => Some(share::of_launcher(|name| std::env::var(name).ok())?),
            share => share,
        },
        after: args.after.as_deref().map(parse_id).transpose()?,
    };
    let output = args
        .output
        .as_ref()
        .map(|file| with_rank(file, &find))
        .transpose()?;
    let format = format_of(args)?;
    if args.as_of.is_some() || !args.vertex_type.eq_ignore_ascii_case(OBJECT_TYPE) {
        return vertices::run(args, &find, format, output, context);
    }
    let database = context.open(&args.target)?;
    if !args.lenient {
        find.filter.check_kinds_of_objects(&*database.schema()?)?;
    }
    let interrupt = context.interrupt.clone();
    let began = Instant::now();
    if args.count || args.explain {
        let report = database.find(&find, &interrupt, &mut |_| ControlFlow::Continue(()))?;
        search::refuse_unknown(&report, &args.filter, args.lenient)?;
        if args.explain {
            print_plan(&report.plan, format, context)?;
        } else {
            print_count(&report, format, context)?;
        }
        return Ok(finish(args, &report, context));
    }
    let mut answer = Ok(());
    let mut printer = ResultPrinter::new(find.select.as_deref(), format, output, context)?;
    let report = database.find(&find, &interrupt, &mut |found| {
        continue_unless_failed(printer.object(&found), &mut answer)
    });
    answer?;
    let report = report?;
    let known = search::refuse_unknown(&report, &args.filter, args.lenient);
    if known.is_err() && (report.matches == 0 || args.output.is_some()) {
        return known.map(|()| Outcome::Done);
    }
    printer.finish(incomplete_reason(&report, &interrupt))?;
    known?;
    summary(&report, began.elapsed(), context);
    if args.profile {
        print_profile(&report.plan)?;
    }
    Ok(finish(args, &report, context))
}

/// Returns why an answer is incomplete, so that it is not written to a file.
fn incomplete_reason(report: &FindReport, interrupt: &Interrupt) -> Option<&'static str> {
    if interrupt.stopped().is_some() {
        Some("stopped before the end")
    } else if report.missing.is_empty() {
        None
    } else {
        Some("some servers did not answer")
    }
}

/// Stops a search whose answer cannot be written.
fn continue_unless_failed(written: anyhow::Result<()>, answer: &mut anyhow::Result<()>) -> Flow {
    match written {
        Ok(()) => ControlFlow::Continue(()),
        Err(error) => {
            *answer = Err(error);
            ControlFlow::Break(())
        }
    }
}

/// Returns the selected names without duplicates.
fn selected(args: &FindArgs) -> Option<Vec<String>> {
    let mut names: Vec<String> = Vec::new();
    for name in args.select.as_ref()? {
        if !name.is_empty() && !names.contains(name) {
            names.push(name.clone());
        }
    }
    Some(names)
}

/// Returns the file to write; `%r` is replaced by the rank of the share.
fn with_rank(file: &std::path::Path, find: &Find) -> anyhow::Result<PathBuf> {
    let Some(text) = file.to_str().filter(|t| t.contains("%r")) else {
        return Ok(file.to_path_buf());
    };
    match find.share {
        Some(share) => Ok(PathBuf::from(text.replace("%r", &share.rank.to_string()))),
        None => Err(usage(format!(
            "`%r` in `{text}` is the rank of a share: give --share or --collective"
        ))),
    }
}

fn format_of(args: &FindArgs) -> anyhow::Result<FindFormat> {
    let Some(file) = &args.output else {
        return Ok(args.format.unwrap_or(FindFormat::Table));
    };
    let by_name = match Format::of_file_name(&file.to_string_lossy()) {
        _ if args.format.is_some() => args.format,
        Some(Format::Csv) => Some(FindFormat::Csv),
        Some(Format::Ndjson) if file.extension().is_some_and(|e| e == "json") => {
            Some(FindFormat::Json)
        }
        Some(Format::Ndjson) => Some(FindFormat::Ndjson),
        Some(Format::Parquet) => Some(FindFormat::Parquet),
        _ => None,
    };
    by_name.ok_or_else(|| {
        usage(format!(
            "{}: the file extension does not name a format; give one with --format table, json, ndjson, csv or parquet",
            file.display()
        ))
    })
}

/// Returns the format of a count or a plan, which is not a table of objects.
fn rows_of(format: FindFormat) -> anyhow::Result<RowFormat> {
    Ok(match format {
        FindFormat::Table => RowFormat::Table,
        FindFormat::Json => RowFormat::Json,
        FindFormat::Ndjson => RowFormat::Ndjson,
        FindFormat::Csv => RowFormat::Csv,
        FindFormat::Parquet => {
            return Err(usage(
                "--count and --explain print table, json, ndjson or csv",
            ));
        }
    })
}

/// Prints the number alone, so that a script can use it.
fn print_count(
    report: &FindReport,
    format: FindFormat,
    context: &mut Context,
) -> anyhow::Result<()> {
    let format = rows_of(format)?;
    if format == RowFormat::Table {
        writeln!(context.out, "{}", report.matches)?;
        return Ok(());
    }
    let cells = vec![Cell::Count(report.matches), Cell::Bool(report.complete)];
    output::report(context, format, "", &["matches", "complete"], cells)?;
    Ok(())
}

const PLAN: [&str; 4] = ["server", "term", "access", "estimate"];
const PROFILE: [&str; 6] = ["server", "term", "access", "estimate", "left", "micros"];

fn print_plan(plan: &[PlanStep], format: FindFormat, context: &mut Context) -> anyhow::Result<()> {
    let format = rows_of(format)?;
    let mut rows = Rows::new(&mut context.out, format, context.style, &PLAN);
    for step in plan {
        let mut cells = plan_cells(step);
        cells.truncate(PLAN.len());
        rows.row(cells)?;
    }
    rows.finish()?;
    Ok(())
}

fn plan_cells(step: &PlanStep) -> Vec<Cell> {
    let figure = |n: Option<u64>| n.map_or(Cell::Empty, Cell::Count);
    vec![
        Cell::Count(u64::from(step.server)),
        step.term.as_str().into(),
        step.access.as_str().into(),
        Cell::Count(step.estimate),
        figure(step.left),
        figure(step.micros),
    ]
}

/// Prints the plan with its figures on stderr, after the answer.
fn print_profile(plan: &[PlanStep]) -> anyhow::Result<()> {
    let mut err = io::stderr();
    let style = output::Style::new(esker_terminal::args::Color::Never, false);
    let mut rows = Rows::new(&mut err, RowFormat::Table, style, &PROFILE);
    for step in plan {
        rows.row(plan_cells(step))?;
    }
    rows.finish()?;
    Ok(err.flush()?)
}

fn summary(report: &FindReport, time: Duration, context: &Context) {
    let objects = if report.matches == 1 {
        "object"
    } else {
        "objects"
    };
    context.note(&format!(
        "{} {objects} in {}",
        count(report.matches),
        elapsed(time)
    ));
}

fn finish(args: &FindArgs, report: &FindReport, context: &Context) -> Outcome {
    let limited = args.limit.is_some_and(|limit| report.matches >= limit);
    if limited && !report.complete {
        context.note("there are more: --limit stopped it");
    }
    search::warn_missing_servers(report, context).and(note_if_stopped(context))
}
