//! `esker find T /path "…"`: files below a directory by what holds of them.

use super::path;
use crate::args::{FindArgs, FindFormat, RowFormat};
use crate::commands::find::search;
use crate::commands::note_if_stopped;
use crate::context::Context;
use crate::exit::{Outcome, usage};
use crate::output::{Cell, Rows};
use esker_model::filter::{Fields, Prepared};
use esker_model::namespace::{Content, Inode, NamePath, Namespace as _, display};
use esker_model::{Cancel as _, Error, Value};
use std::borrow::Cow;
use std::ops::ControlFlow;

/// Names that a filter of files may have.
const NAMES: [&str; 20] = [
    "path",
    "name",
    "type",
    "kind",
    "mode",
    "links",
    "uid",
    "owner",
    "gid",
    "size",
    "blocks",
    "allocated",
    "atime",
    "mtime",
    "modified",
    "ctime",
    "btime",
    "created",
    "depth",
    "target",
];

/// A file, as filters see it.
struct File<'a> {
    path: &'a NamePath,
    inode: &'a Inode,
}

impl Fields for File<'_> {
    fn field(&self, name: &str) -> Option<Cow<'_, Value>> {
        let text = |bytes: &[u8]| Value::String(display(bytes).to_string());
        let number = |n: u64| Value::I64(n.cast_signed());
        let inode = self.inode;
        Some(Cow::Owned(match name {
            "path" => text(self.path.as_bytes()),
            "name" => Value::String(
                self.path
                    .split()
                    .map_or_else(|| "/".to_owned(), |(_, n)| n.to_string()),
            ),
            "type" | "kind" => Value::String(inode.kind().name().to_owned()),
            "mode" => number(u64::from(inode.mode & 0o7777)),
            "links" => number(u64::from(inode.links)),
            "uid" | "owner" => number(u64::from(inode.uid)),
            "gid" => number(u64::from(inode.gid)),
            "size" => number(inode.size),
            "blocks" => number(inode.blocks),
            "allocated" => number(inode.blocks.saturating_mul(512)),
            "atime" => Value::Timestamp(inode.atime),
            "mtime" | "modified" => Value::Timestamp(inode.mtime),
            "ctime" => Value::Timestamp(inode.ctime),
            "btime" | "created" => Value::Timestamp(inode.btime),
            "depth" => number(self.path.names().count() as u64),
            "target" => match &inode.content {
                Content::Symlink(target) => text(target),
                _ => return None,
            },
            _ => return None,
        }))
    }
}

pub(crate) fn run(args: &FindArgs, context: &mut Context) -> anyhow::Result<Outcome> {
    for (given, option) in [
        (args.after.is_some(), "--after"),
        (args.explain, "--explain"),
        (args.profile, "--profile"),
        (
            args.share.is_some() || args.collective,
            "--share and --collective",
        ),
        (args.output.is_some(), "--output"),
    ] {
        if given {
            return Err(usage(format!(
                "{option} is for objects, not for files below a path"
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
                "files are not written as Parquet yet: expected table, json, ndjson or csv",
            ));
        }
    };
    let root = path(std::ffi::OsStr::new(&args.filter))?;
    let text = args.of_files.as_deref().unwrap_or("");
    let filter = search::parse(text)?;
    if let Some(unknown) = filter.names().into_iter().find(|n| !NAMES.contains(n)) {
        let nearest = esker_model::schema::nearest(unknown, NAMES.iter().copied());
        let hint = nearest.map_or_else(String::new, |n| format!(", did you mean `{n}`?"));
        return Err(usage(format!(
            "unknown attribute `{unknown}` of files{hint} (they have: {})",
            NAMES.join(", ")
        )));
    }
    let prepared = Prepared::new(&filter);
    let database = context.open(&args.target)?;
    let interrupt = context.interrupt.clone();
    let columns: Vec<String> = match &args.select {
        Some(names) => names.clone(),
        None if format == RowFormat::Table => vec!["path".to_owned()],
        None => ["path", "type", "size", "uid", "gid", "mode", "mtime"]
            .map(str::to_owned)
            .to_vec(),
    };
    let mut found = 0_u64;
    let limit = args.limit.unwrap_or(u64::MAX);
    let mut printed = Ok(());
    let mut walk = |each: &mut dyn FnMut(&File<'_>) -> std::io::Result<()>| {
        database.walk(
            args.asker.asker.as_ref(),
            &root,
            &interrupt,
            &mut |path, inode| {
                let file = File { path, inode };
                if interrupt.cancelled() || found >= limit {
                    return ControlFlow::Break(());
                }
                if !prepared.holds(&file) {
                    return ControlFlow::Continue(());
                }
                found += 1;
                printed = each(&file);
                if printed.is_ok() {
                    ControlFlow::Continue(())
                } else {
                    ControlFlow::Break(())
                }
            },
        )
    };
    if args.count {
        stopped(walk(&mut |_| Ok(())))?;
        let mut rows = Rows::new(&mut context.out, format, context.style, &["files"]);
        rows.row(vec![Cell::Count(found)])?;
        rows.finish()?;
        return Ok(note_if_stopped(context));
    }
    let mut rows = Rows::named(
        &mut context.out,
        format,
        context.style,
        columns.iter().cloned().map(Cow::Owned).collect(),
    );
    let walked = walk(&mut |file| {
        let cell = |name: &String| {
            file.field(name)
                .map_or(Cell::Empty, |v| Cell::Value(v.into_owned()))
        };
        rows.row(columns.iter().map(cell).collect())
    });
    printed?;
    stopped(walked)?;
    rows.finish()?;
    Ok(note_if_stopped(context))
}

/// Being stopped is no error: what was found is shown.
fn stopped(walked: esker_model::Result<()>) -> esker_model::Result<()> {
    match walked {
        Err(Error::Interrupted) => Ok(()),
        walked => walked,
    }
}
