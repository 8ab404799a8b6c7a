//! `esker check`: reads everything and compares what must agree.

mod data;

use crate::args::{CheckArgs, RowFormat};
use esker::{CheckOptions, CheckReport};
use esker_terminal::context::Context;
use esker_terminal::exit::Outcome;
use esker_terminal::output::{Cell, Rows};
use esker_terminal::progress::Progress;
use esker_terminal::units::counted;
use serde_json::json;

pub(crate) fn run(args: &CheckArgs, context: &mut Context) -> anyhow::Result<Outcome> {
    let database = context.open(&args.target)?;
    if !args.data.is_empty() {
        return data::run(args, &database, context);
    }
    let options = CheckOptions {
        repair: args.repair,
        part: false,
    };
    let progress = Progress::rows(context.globals.quiet, "rows checked");
    let report = database.check(&options, &context.interrupt, &mut |rows| progress.at(rows))?;
    drop(progress);
    print(&report, args.format.format, context)?;
    let open = report.problems_total > 0 && !report.problems.iter().all(|p| p.repaired);
    Ok(Outcome::partly_if(open || !report.complete))
}

fn print(report: &CheckReport, format: RowFormat, context: &mut Context) -> anyhow::Result<()> {
    if format == RowFormat::Json {
        let problems: Vec<_> = report
            .problems
            .iter()
            .map(|p| json!({"what": p.what, "detail": p.detail, "repaired": p.repaired}))
            .collect();
        let json = json!({
            "complete": report.complete,
            "rows": report.rows,
            "vertices": report.vertices,
            "edges": report.edges,
            "history": report.history,
            "problems_total": report.problems_total,
            "problems": problems,
        });
        writeln!(context.out, "{}", serde_json::to_string_pretty(&json)?)?;
        return Ok(());
    }
    let columns = &["problem", "detail", "repaired"];
    let mut rows = Rows::new(&mut context.out, format, context.style, columns);
    for problem in &report.problems {
        rows.row(vec![
            problem.what.as_str().into(),
            problem.detail.as_str().into(),
            Cell::Bool(problem.repaired),
        ])?;
    }
    rows.finish()?;
    let unlisted = report.problems_total - report.problems.len() as u64;
    if unlisted > 0 {
        context.warn(&format!(
            "{} more not listed",
            counted(unlisted, "problem", "problems")
        ));
    }
    let read = format!(
        "read {}: {}, {}, {}",
        counted(report.rows, "row", "rows"),
        counted(report.vertices, "vertex", "vertices"),
        counted(report.edges, "edge", "edges"),
        counted(report.history, "superseded version", "superseded versions"),
    );
    let verdict = match (report.complete, report.problems_total) {
        (true, 0) => "all is well".to_owned(),
        (false, 0) => "nothing wrong so far, but it was stopped before the end".to_owned(),
        (true, n) => counted(n, "problem", "problems"),
        (false, n) => format!(
            "{}, and it was stopped before the end",
            counted(n, "problem", "problems")
        ),
    };
    context.note(&format!("{read}; {verdict}"));
    Ok(())
}
