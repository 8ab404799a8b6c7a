//! `esker audit`: shows, verifies and exports the audit log of a server.

use crate::args::{
    AuditCommand, AuditExportArgs, AuditForm, AuditHeadArgs, AuditShowArgs, AuditVerifyArgs,
    RowFormat, SelectionArgs, Target,
};
use esker_audit::record::ParsedLine;
use esker_audit::{Reader, Selection, export, time, verify};
use esker_model::{Cancel as _, Error, Version};
use esker_terminal::context::Context;
use esker_terminal::exit::{Outcome, usage};
use esker_terminal::output::{Cell, Rows};
use std::io;
use std::path::{Path, PathBuf};
use std::time::Duration;

/// Time between two looks for new records.
const FOLLOW: Duration = Duration::from_millis(200);
const VERSION: &str = env!("CARGO_PKG_VERSION");

/// Runs one of the commands.
pub(crate) fn run(command: &AuditCommand, context: &mut Context) -> anyhow::Result<Outcome> {
    match command {
        AuditCommand::Show(args) => show(args, context),
        AuditCommand::Verify(args) => check(args, context),
        AuditCommand::Export(args) => export_all(args, context),
        AuditCommand::Head(args) => head(args, context),
    }
}

/// Folders in a folder whose names meet a condition.
fn folders_in(folder: &Path, is_log: impl Fn(&Path) -> bool) -> Vec<PathBuf> {
    let entries = std::fs::read_dir(folder).into_iter().flatten().flatten();
    let mut found: Vec<PathBuf> = entries.map(|e| e.path()).filter(|p| is_log(p)).collect();
    found.sort();
    found
}

/// Returns the folders of the logs of a target: one of a database, or those of a cluster's servers.
fn logs(target: &Target) -> anyhow::Result<Vec<PathBuf>> {
    let folder = PathBuf::from(&target.target);
    if esker::rpc::Address::is_address(&target.target) {
        return Err(Error::Target(
            "an audit log is read in its folder, on the server's machine: name the folder of the database".into(),
        )
        .into());
    }
    let is_log =
        |path: &Path| path.join("head.json").is_file() || path.join("00000001.jsonl").is_file();
    let own = folder.join(esker_audit::FOLDER);
    if is_log(&own) {
        return Ok(vec![own]);
    }
    if is_log(&folder) {
        return Ok(vec![folder]);
    }
    let mut found = folders_in(&folder, is_log);
    let servers = folders_in(&folder, |path| is_log(&path.join(esker_audit::FOLDER)));
    found.extend(
        servers
            .into_iter()
            .map(|path| path.join(esker_audit::FOLDER)),
    );
    if found.is_empty() {
        return Err(Error::Target(format!(
            "`{}` has no audit log: a server writes one below the folder of its database, or where `audit.folder` in its settings says",
            folder.display()
        ))
        .into());
    }
    Ok(found)
}

fn selection(args: &SelectionArgs) -> Selection {
    let millis = |version: Version| i64::try_from(version.millis()).unwrap_or(i64::MAX);
    Selection {
        since: args.since.map(|since| millis(since).saturating_mul(1_000)),
        until: args
            .until
            .filter(|until| *until != Version::MAX)
            .map(|until| millis(until).saturating_mul(1_000).saturating_add(999)),
        principal: args.principal.clone(),
        call: args.call.clone(),
        refused: args.refused,
    }
}

/// Passes the selected records of a log to a sink, from the position of a reader on. Damaged lines are counted.
fn each_record(
    reader: &mut Reader,
    selection: &Selection,
    context_stopped: &dyn Fn() -> bool,
    sink: &mut dyn FnMut(&[u8], &ParsedLine) -> io::Result<()>,
) -> anyhow::Result<u64> {
    let (mut damaged, mut printed) = (0, Ok(()));
    reader.lines(&mut |line| {
        match ParsedLine::parse(line) {
            Ok(parsed) if selection.matches(&parsed) => printed = sink(line, &parsed),
            Ok(_) => {}
            Err(_) => damaged += 1,
        }
        printed.is_ok() && !context_stopped()
    })?;
    printed?;
    Ok(damaged)
}

fn cells(line: &ParsedLine) -> Vec<Cell> {
    let list = |name: &str| {
        let values = line.fields.get(name).and_then(|v| v.as_array());
        let texts = values.into_iter().flatten().filter_map(|v| v.as_str());
        texts.collect::<Vec<_>>().join(", ")
    };
    let behalf = line.fields.get("as").and_then(|user| user.get("uid"));
    let call = match line.text("call") {
        "" => line.event(),
        call => call,
    };
    let what = match (line.text("query"), line.text("path")) {
        ("", "") => list("targets"),
        ("", path) => path.to_owned(),
        (query, _) => query.to_owned(),
    };
    let result = match line.text("result") {
        "" => line.text("what").to_owned(),
        "error" => format!("error {}", line.text("error")),
        "refused" => format!("refused: {}", line.text("why")),
        result => result.to_owned(),
    };
    vec![
        Cell::from(line.text("time").to_owned()),
        line.text("who").to_owned().into(),
        line.text("peer").to_owned().into(),
        call.to_owned().into(),
        what.into(),
        behalf.map(ToString::to_string).unwrap_or_default().into(),
        line.number("rows").map_or(Cell::Empty, Cell::Count),
        result.into(),
    ]
}

fn show(args: &AuditShowArgs, context: &mut Context) -> anyhow::Result<Outcome> {
    let format = args.format.format;
    if args.follow && format != RowFormat::Ndjson {
        return Err(usage(
            "--follow prints records as they come: add --format ndjson",
        ));
    }
    let selection = selection(&args.selection);
    let mut readers: Vec<Reader> = logs(&args.target)?
        .iter()
        .map(|folder| Reader::new(folder))
        .collect();
    let interrupt = context.interrupt.clone();
    let stopped = || interrupt.cancelled();
    let columns = [
        "time", "who", "peer", "call", "what", "as", "rows", "result",
    ];
    let mut damaged = 0;
    if format == RowFormat::Ndjson || format == RowFormat::Json {
        let is_document = format == RowFormat::Json;
        let mut first = true;
        loop {
            for reader in &mut readers {
                let out = &mut context.out;
                damaged += each_record(reader, &selection, &stopped, &mut |line, _| {
                    if is_document {
                        out.write_all(if first { b"[\n" } else { b",\n" })?;
                    }
                    first = false;
                    out.write_all(line)?;
                    if is_document {
                        Ok(())
                    } else {
                        out.write_all(b"\n")
                    }
                })?;
            }
            context.out.flush()?;
            if !args.follow || stopped() {
                break;
            }
            std::thread::sleep(FOLLOW);
        }
        if is_document {
            context
                .out
                .write_all(if first { b"[]\n" } else { b"\n]\n" })?;
        }
    } else {
        let mut rows = Rows::new(&mut context.out, format, context.style, &columns);
        for reader in &mut readers {
            damaged += each_record(reader, &selection, &stopped, &mut |_, line| {
                rows.row(cells(line))
            })?;
        }
        rows.finish()?;
    }
    Ok(report_damaged(damaged, context))
}

/// Warns of lines that are no records.
fn report_damaged(damaged: u64, context: &mut Context) -> Outcome {
    if damaged > 0 {
        context.warn(&format!(
            "{damaged} lines are damaged: `esker audit verify` says which"
        ));
    }
    Outcome::partly_if(damaged > 0)
}

fn export_all(args: &AuditExportArgs, context: &mut Context) -> anyhow::Result<Outcome> {
    let selection = selection(&args.selection);
    let host = std::fs::read_to_string("/proc/sys/kernel/hostname").unwrap_or_default();
    let interrupt = context.interrupt.clone();
    let stopped = || interrupt.cancelled();
    let mut damaged = 0;
    for folder in logs(&args.target)? {
        let out = &mut context.out;
        damaged += each_record(
            &mut Reader::new(&folder),
            &selection,
            &stopped,
            &mut |line, parsed| match args.format {
                AuditForm::Json => {
                    out.write_all(line)?;
                    out.write_all(b"\n")
                }
                AuditForm::Syslog => {
                    writeln!(out, "{}", export::syslog(parsed, host.trim(), VERSION))
                }
                AuditForm::Ocsf => writeln!(out, "{}", export::ocsf(parsed, VERSION)),
            },
        )?;
    }
    Ok(report_damaged(damaged, context).and(super::note_if_stopped(context)))
}

fn check(args: &AuditVerifyArgs, context: &mut Context) -> anyhow::Result<Outcome> {
    let folders = logs(&args.target)?;
    if folders.len() > 1 && !args.heads.is_empty() {
        return Err(usage(
            "--head is of one log, and this target has several: name the folder of one",
        ));
    }
    let mut outcome = Outcome::Done;
    for folder in folders {
        let report = verify(&folder, &args.heads)?;
        let place = folder.display();
        for problem in &report.problems {
            match (&*problem.file, problem.line) {
                ("", _) => writeln!(context.out, "{place}: {}", problem.what)?,
                (file, 0) => writeln!(context.out, "{place}/{file}: {}", problem.what)?,
                (file, line) => writeln!(context.out, "{place}/{file}:{line}: {}", problem.what)?,
            }
        }
        for note in &report.notes {
            context.note(&format!("{place}/{note}"));
        }
        if report.removed_to > 0 {
            context.note(&format!(
                "{place}: records 1 to {} were removed because of their age",
                report.removed_to
            ));
        }
        let (first, last) = report.times.unwrap_or_default();
        let verdict = if report.is_intact() {
            "intact".to_owned()
        } else {
            format!("{} problems", report.problems_total)
        };
        writeln!(
            context.out,
            "{place}: {verdict}; {} segments, {} records, {} to {}",
            report.segments,
            report.records,
            time::format(first),
            time::format(last)
        )?;
        if let Some(head) = report.head {
            writeln!(context.out, "head {head}")?;
        }
        outcome = outcome.and(Outcome::partly_if(!report.is_intact()));
    }
    Ok(outcome)
}

fn head(args: &AuditHeadArgs, context: &mut Context) -> anyhow::Result<Outcome> {
    let folders = logs(&args.target)?;
    for folder in &folders {
        let report = verify(folder, &[])?;
        let Some(head) = report.head else {
            return Err(Error::Target(format!("`{}` has no record", folder.display())).into());
        };
        if folders.len() > 1 {
            write!(context.out, "{} ", folder.display())?;
        }
        writeln!(context.out, "{head}")?;
        if !report.is_intact() {
            context.warn("the log is damaged: `esker audit verify` says where");
            return Ok(Outcome::Partly);
        }
    }
    Ok(Outcome::Done)
}
