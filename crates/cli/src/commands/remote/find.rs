//! `esker find SCHEME://HOST/PATH "…"`: remote files that match a filter.

use super::{attribute, failed, kind, open, parse_url, text};
use crate::args::{FindArgs, FindFormat, RowFormat};
use crate::commands::find::search;
use crate::commands::note_if_stopped;
use esker_model::filter::{Fields, Prepared};
use esker_model::{Cancel as _, Value};
use esker_site::TreeEvent;
use esker_site_cache::entry::Attributes;
use esker_terminal::context::Context;
use esker_terminal::exit::{Outcome, usage};
use esker_terminal::output::{Cell, Rows};
use std::borrow::Cow;
use std::ops::ControlFlow;

/// Attributes of every remote file; origins add names of their own.
const NAMES: [&str; 13] = [
    "path", "name", "type", "kind", "mode", "size", "mtime", "modified", "depth", "uid", "owner",
    "gid", "group",
];

/// Maximum depth of the traversed tree.
const DEPTH: usize = 1024;

struct RemoteFile<'a> {
    path: &'a [u8],
    of: &'a Attributes,
}

impl Fields for RemoteFile<'_> {
    fn field(&self, name: &str) -> Option<Cow<'_, Value>> {
        let word = |text: &str| match text.parse() {
            Ok(number) => Value::I64(number),
            Err(_) => Value::String(text.to_owned()),
        };
        let number = |n: u64| Value::I64(i64::try_from(n).unwrap_or(i64::MAX));
        Some(Cow::Owned(match name {
            "path" => Value::String(text(self.path)),
            "name" => {
                let last = self.path.rsplit(|b| *b == b'/').next().unwrap_or_default();
                Value::String(if last.is_empty() {
                    "/".to_owned()
                } else {
                    text(last)
                })
            }
            "type" | "kind" => Value::String(kind(self.of.kind).to_owned()),
            "mode" => number(u64::from(self.of.mode? & 0o7777)),
            "size" => number(self.of.size?),
            "mtime" | "modified" => Value::Timestamp(self.of.modified?),
            "depth" => {
                let names = self.path.split(|b| *b == b'/').filter(|n| !n.is_empty());
                number(names.count() as u64)
            }
            "owner" => word(attribute(self.of, "owner").or_else(|| attribute(self.of, "uid"))?),
            "group" => word(attribute(self.of, "group").or_else(|| attribute(self.of, "gid"))?),
            other => word(attribute(self.of, other)?),
        }))
    }
}

pub(crate) fn run(args: &FindArgs, context: &mut Context) -> anyhow::Result<Outcome> {
    for (given, option) in [
        (args.after.is_some(), "--after"),
        (args.explain, "--explain"),
        (args.profile, "--profile"),
        (args.as_of.is_some(), "--as-of"),
        (
            args.share.is_some() || args.collective,
            "--share and --collective",
        ),
        (args.output.is_some(), "--output"),
    ] {
        if given {
            return Err(usage(format!(
                "{option} is for databases, not for remote files"
            )));
        }
    }
    let format = match args.format {
        None | Some(FindFormat::Table) => RowFormat::Table,
        Some(FindFormat::Json) => RowFormat::Json,
        Some(FindFormat::Ndjson) => RowFormat::Ndjson,
        Some(FindFormat::Csv) => RowFormat::Csv,
        Some(FindFormat::Parquet) => {
            return Err(usage(
                "remote files cannot be written as Parquet: expected table, json, ndjson or csv",
            ));
        }
    };
    if args.of_files.is_some() {
        return Err(usage(
            "only one filter is allowed after the URL: the path is part of the URL",
        ));
    }
    let filter = search::parse(&args.filter)?;
    let unknown = |name: &&str| !NAMES.contains(name);
    let own: Vec<&str> = filter.names().into_iter().filter(unknown).collect();
    let prepared = Prepared::new(&filter);
    let (place, root) = parse_url(&args.target.target)?;
    let client = open(&args.remote)?;
    let interrupt = context.interrupt.clone();
    let columns: Vec<String> = match &args.select {
        Some(names) => names.clone(),
        None if format == RowFormat::Table => vec!["path".to_owned()],
        None => ["path", "type", "size", "owner", "group", "mode", "mtime"]
            .map(str::to_owned)
            .to_vec(),
    };
    let limit = args.limit.unwrap_or(u64::MAX);
    let mut found = 0_u64;
    let mut problems: Vec<String> = Vec::new();
    let mut problem_count = 0_u64;
    // Whether any file has the names that only some origins know.
    let mut met = own.is_empty();
    let mut rows = (!args.count).then(|| {
        let names = columns.iter().cloned().map(Cow::Owned).collect();
        Rows::named(&mut context.out, format, context.style, names)
    });
    let mut printed = Ok(());
    let walked = client.visit_tree(&place, &root, DEPTH, &interrupt, &mut |step| {
        if interrupt.cancelled() || found >= limit {
            return ControlFlow::Break(());
        }
        let file = match step {
            TreeEvent::Listed(_) => return ControlFlow::Continue(()),
            TreeEvent::Problem(path, refused) => {
                problem_count += 1;
                if problems.len() < 20 {
                    problems.push(format!("{}: {refused}", text(path)));
                }
                return ControlFlow::Continue(());
            }
            TreeEvent::Path(path, of) => RemoteFile { path, of },
        };
        met = met || own.iter().any(|n| file.field(n).is_some());
        if !prepared.matches(&file) {
            return ControlFlow::Continue(());
        }
        found += 1;
        if let Some(rows) = &mut rows {
            let cell = |name: &String| {
                file.field(name)
                    .map_or(Cell::Empty, |v| Cell::Value(v.into_owned()))
            };
            printed = rows.row(columns.iter().map(cell).collect());
        }
        match printed {
            Ok(()) => ControlFlow::Continue(()),
            Err(_) => ControlFlow::Break(()),
        }
    });
    printed?;
    walked.map_err(failed)?;
    if let Some(rows) = rows {
        rows.finish()?;
    } else {
        let mut rows = Rows::new(&mut context.out, format, context.style, &["files"]);
        rows.row(vec![Cell::Count(found)])?;
        rows.finish()?;
    }
    for problem in &problems {
        context.complain(problem);
    }
    if problem_count > problems.len() as u64 {
        let more = problem_count - problems.len() as u64;
        context.complain(&format!(
            "and {more} more directories that could not be read"
        ));
    }
    if !met && !args.lenient && !interrupt.cancelled() {
        context.note(&format!(
            "no file there has {} (all may have: {})",
            own.join(", "),
            NAMES.join(", ")
        ));
    }
    Ok(note_if_stopped(context).and(Outcome::partly_if(problem_count > 0)))
}
