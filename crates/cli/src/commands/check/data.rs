//! `esker check --data`: compares the data folders, which have large contents, with the namespace.

use crate::args::{CheckArgs, RowFormat};
use esker::Database;
use esker_model::Error;
use esker_model::namespace::NamePath;
use esker_mount::data::Folders;
use esker_mount::orphans::{Report, Search, check};
use esker_terminal::context::Context;
use esker_terminal::exit::Outcome;
use esker_terminal::output::{Cell, Rows};
use esker_terminal::units::{counted, size};
use serde_json::json;
use std::path::PathBuf;
use std::time::Duration;

/// Minimum age of a content to report; younger ones may belong to a write in progress.
const MINIMUM_AGE: Duration = Duration::from_mins(10);

pub(super) fn run(
    args: &CheckArgs,
    database: &Database,
    context: &mut Context,
) -> anyhow::Result<Outcome> {
    let missing = args.data.iter().find(|path| !path.is_dir());
    if let Some(path) = missing {
        anyhow::bail!("{}: expected a data folder of a mount", path.display());
    }
    let folders = Folders::open(&args.data).map_err(|e| Error::io("check", e))?;
    let search = Search {
        repair: args.repair,
        older: MINIMUM_AGE,
    };
    let report = check(database, &folders, search, &context.interrupt)?;
    print(&report, args, context)?;
    let open = report.orphans.len() as u64 > report.removed
        || !report.missing.is_empty()
        || !report.mismatched.is_empty()
        || !(args.repair || report.unpublished.is_empty());
    Ok(Outcome::partly_if(open))
}

fn print(report: &Report, args: &CheckArgs, context: &mut Context) -> anyhow::Result<()> {
    let orphans = report.orphans.iter().map(|path| path.display().to_string());
    let unpublished = report.unpublished.iter();
    let unpublished = unpublished.map(|path| path.display().to_string());
    let mismatch = report.mismatched.iter();
    let missing = report.missing.iter();
    if args.format.format == RowFormat::Json {
        let pair = |(path, object): &(NamePath, PathBuf)| json!({"path": path.to_string(), "object": object.display().to_string()});
        let json = json!({
            "files": report.files,
            "objects": report.objects,
            "orphans": orphans.collect::<Vec<_>>(),
            "orphan_bytes": report.orphan_bytes,
            "removed": report.removed,
            "missing": missing.map(pair).collect::<Vec<_>>(),
            "unpublished": unpublished.collect::<Vec<_>>(),
            "mismatched": mismatch.map(pair).collect::<Vec<_>>(),
        });
        writeln!(context.out, "{}", serde_json::to_string_pretty(&json)?)?;
        return Ok(());
    }
    let columns = &["problem", "detail", "repaired"];
    let mut rows = Rows::new(&mut context.out, args.format.format, context.style, columns);
    for orphan in orphans {
        rows.row(vec![
            "no file leads to".into(),
            orphan.into(),
            Cell::Bool(args.repair),
        ])?;
    }
    for object in unpublished {
        rows.row(vec![
            "size is not published".into(),
            object.into(),
            Cell::Bool(args.repair),
        ])?;
    }
    for (path, object) in missing {
        rows.row(vec![
            "content is missing".into(),
            format!("{path}: {}", object.display()).into(),
            Cell::Bool(false),
        ])?;
    }
    for (path, object) in mismatch {
        rows.row(vec![
            "content is not its own".into(),
            format!("{path}: {}", object.display()).into(),
            Cell::Bool(false),
        ])?;
    }
    rows.finish()?;
    context.note(&format!(
        "looked at {} and {}; {} take {}",
        counted(report.files, "file", "files"),
        counted(report.objects, "object", "objects"),
        counted(report.orphans.len() as u64, "orphan", "orphans"),
        size(report.orphan_bytes),
    ));
    Ok(())
}
