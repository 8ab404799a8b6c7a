//! `esker find T /path "…"`: files below a directory that match a filter.

use super::path;
use crate::args::{FindArgs, FindFormat, RowFormat};
use crate::commands::find::search;
use crate::commands::note_if_stopped;
use esker_model::filter::{Fields as _, Prepared};
use esker_model::namespace::{FIELD_NAMES, NamePath, TaggedFile, check_kinds, walk_tagged};
use esker_model::{Cancel as _, Error};
use esker_terminal::context::Context;
use esker_terminal::exit::{Outcome, usage};
use esker_terminal::output::{Cell, Rows};
use std::borrow::Cow;
use std::ops::ControlFlow;

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
                "files cannot be written as Parquet yet: expected table, json, ndjson or csv",
            ));
        }
    };
    let root = path(std::ffi::OsStr::new(&args.filter))?;
    let text = args.of_files.as_deref().unwrap_or("");
    let filter = search::parse(text)?;
    if !args.lenient {
        check_kinds(&filter)?;
    }
    // A name that is no attribute of files is a tag.
    let tags: Vec<&str> = filter
        .names()
        .into_iter()
        .filter(|n| !FIELD_NAMES.contains(n))
        .collect();
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
    let with_tags = !tags.is_empty() || columns.iter().any(|n| !FIELD_NAMES.contains(&&**n));
    let mut known: Vec<bool> = vec![false; tags.len()];
    let mut found = 0_u64;
    let limit = args.limit.unwrap_or(u64::MAX);
    let mut printed = Ok(());
    let seen = database.on_behalf_of(args.principal.principal.as_ref());
    let mut walk = |each: &mut dyn FnMut(&TaggedFile<'_>) -> std::io::Result<()>| {
        walk_tagged(
            (&database, &seen),
            args.principal.principal.as_ref(),
            &root,
            with_tags,
            &interrupt,
            &mut |file| {
                for (known, name) in known.iter_mut().zip(&tags) {
                    *known = *known || file.field(name).is_some();
                }
                if interrupt.cancelled() || found >= limit {
                    return ControlFlow::Break(());
                }
                if !prepared.matches(&file) {
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
        ignore_interrupt(walk(&mut |_| Ok(())))?;
        if found < limit && !args.lenient {
            refuse_unknown_names(&tags, &known, &root)?;
        }
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
    ignore_interrupt(walked)?;
    rows.finish()?;
    if found < limit && !args.lenient {
        refuse_unknown_names(&tags, &known, &root)?;
    }
    Ok(note_if_stopped(context))
}

/// Refuses a filter with a name that no file has, because that is a typing mistake more often than not.
fn refuse_unknown_names(tags: &[&str], known: &[bool], root: &NamePath) -> anyhow::Result<()> {
    let unknown = tags.iter().zip(known).find(|(_, known)| !**known);
    let Some((unknown, _)) = unknown else {
        return Ok(());
    };
    let nearest = esker_model::schema::nearest(unknown, FIELD_NAMES.iter().copied());
    let hint = nearest.map_or_else(String::new, |n| format!(", did you mean `{n}`?"));
    Err(usage(format!(
        "unknown attribute `{unknown}` of files{hint} (they have: {}; and no file below {root} has a tag of that name)",
        FIELD_NAMES.join(", ")
    )))
}

/// Ignores an interrupt, so that the matches so far are printed.
fn ignore_interrupt(walked: esker_model::Result<()>) -> esker_model::Result<()> {
    match walked {
        Err(Error::Interrupted) => Ok(()),
        walked => walked,
    }
}
