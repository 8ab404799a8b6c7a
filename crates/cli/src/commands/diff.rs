//! `esker diff`: compares two runs.

use super::changes;
use super::run::deliver::open_with_runs;
use crate::args::{ChangesArgs, DefaultTarget, DiffArgs, RowFormat, Target};
use crate::times::parse_as_of;
use esker_record::{Change, diff_runs, find_run, is_run};
use esker_terminal::context::Context;
use esker_terminal::exit::{Outcome, usage};
use esker_terminal::output::{Cell, Rows};
use esker_terminal::units::counted;

pub(crate) fn run(args: &DiffArgs, context: &mut Context) -> anyhow::Result<Outcome> {
    let (target, [one, other]) = operands(args)?;
    let time = |text: &str| parse_as_of(text);
    match (time(one), time(other)) {
        (Ok(from), Ok(until)) => {
            context.note(
                "use `esker changes` to compare two times; a later release of `esker diff` accepts only runs",
            );
            let format = args.format;
            let args = ChangesArgs {
                target,
                from,
                until,
                format,
            };
            changes::run(&args, context)
        }
        _ if is_run(one) && is_run(other) => runs(args, &target, [one, other], context),
        // If one operand is a time, the other was meant to be one, too.
        (Ok(_), Err(e)) | (Err(e), Ok(_)) => Err(usage(e.to_string())),
        _ => {
            let wrong = if is_run(one) { other } else { one };
            Err(usage(format!(
                "`{wrong}` is not a run: expected two runs (4711, execution:ID, last)"
            )))
        }
    }
}

/// Returns the database and the two operands.
fn operands(args: &DiffArgs) -> anyhow::Result<(Target, [&str; 2])> {
    match args.words.as_slice() {
        [target, one, other] => {
            let target = target.clone();
            Ok((Target { target }, [one, other]))
        }
        [one, other] => {
            let default = DefaultTarget::find().ok_or_else(|| {
                usage(
                    "expected the database first: esker diff TARGET ONE OTHER; or set $ESKER_TARGET",
                )
            })?;
            let target = default.target;
            Ok((Target { target }, [one, other]))
        }
        _ => Err(usage("expected two runs")),
    }
}

/// Compares two runs.
fn runs(
    args: &DiffArgs,
    target: &Target,
    [one, other]: [&str; 2],
    context: &mut Context,
) -> anyhow::Result<Outcome> {
    let database = open_with_runs(context, target)?;
    let found = diff_runs(
        &database,
        find_run(&database, one)?,
        find_run(&database, other)?,
    )?;
    let format = args.format.format;
    if format == RowFormat::Table && !args.all {
        let (before, after) = (&found.before, &found.after);
        context.note(&format!("before: {before}; after: {after}"));
    }
    let columns = &["part", "name", "change", "before", "after"];
    let mut rows = Rows::new(&mut context.out, format, context.style, columns);
    for row in &found.rows {
        let is_told = row.change != Change::Same && !row.expected;
        if is_told || args.all {
            let text = |text: &Option<String>| text.clone().map_or(Cell::Empty, Cell::from);
            rows.row(vec![
                row.part.name().into(),
                row.name.as_str().into(),
                row.change.name().into(),
                text(&row.before),
                text(&row.after),
            ])?;
        }
    }
    rows.finish()?;
    if format == RowFormat::Table && !args.all {
        let differ = found.differing().count();
        let (same, expected) = (found.same(), found.expected());
        context.note(&format!(
            "{} differ, {same} are the same, {expected} differ between any two runs: --all shows them",
            counted(differ as u64, "thing", "things"),
        ));
    }
    Ok(Outcome::Done)
}
