//! `esker df`, `esker du`, `esker top --by dir|project|user|group|type|kind|age`: space of files, from maintained sums.

use super::path;
use crate::args::{DfArgs, DuArgs, RowFormat, TopArgs, TopBy};
use esker::Database;
use esker_model::namespace::{Errno, NamePath, Namespace as _, Space, SpaceBy, Usage};
use esker_model::object::Principal;
use esker_model::{Cancel as _, Error, Result};
use esker_terminal::context::Context;
use esker_terminal::exit::{Outcome, usage};
use esker_terminal::output::{Cell, Rows};
use esker_terminal::units;
use std::ops::ControlFlow;

fn cells(name: Cell, usage: &Usage, format: RowFormat) -> Vec<Cell> {
    let size = |n: u64| {
        if format == RowFormat::Table {
            units::size(n).into()
        } else {
            Cell::Count(n)
        }
    };
    vec![
        name,
        size(usage.bytes),
        size(usage.blocks.saturating_mul(512)),
        Cell::Count(usage.files),
        Cell::Count(usage.directories),
    ]
}

/// Returns a directory and its totals, and its subdirectories down to a depth.
fn directories(
    database: &Database,
    principal: Option<&Principal>,
    path: &NamePath,
    depth: usize,
    out: &mut Vec<(NamePath, Usage)>,
) -> Result<()> {
    out.push((path.clone(), database.usage(principal, path, true)?));
    if depth == 0 {
        return Ok(());
    }
    let mut below = Vec::new();
    database.list(principal, path, None, &mut |_, entry| {
        if entry.inode.is_directory() {
            below.push(path.join(&entry.name));
        }
        ControlFlow::Continue(())
    })?;
    below.sort_unstable();
    below.iter().try_for_each(|path| {
        match directories(database, principal, path, depth - 1, out) {
            // The server decides, which may know the user by the kernel or by a key: `principal` is empty then.
            Err(Error::File(e)) if e.errno == Errno::Access => Ok(()),
            done => done,
        }
    })
}

pub(crate) fn du(args: &DuArgs, context: &mut Context) -> anyhow::Result<Outcome> {
    let database = context.open(&args.target)?;
    let principal = args.principal.principal.as_ref();
    let mut all = Vec::new();
    let outcome = super::each(&args.paths, context, |p| {
        Ok(directories(
            &database,
            principal,
            &path(p)?,
            args.depth,
            &mut all,
        )?)
    })?;
    let format = args.format.format;
    let columns = ["path", "size", "allocated", "files", "directories"];
    let mut rows = Rows::new(&mut context.out, format, context.style, &columns);
    for (path, usage) in all {
        rows.row(cells(path.to_string().into(), &usage, format))?;
    }
    rows.finish()?;
    Ok(outcome)
}

/// `esker df`: prints what `statfs(2)` returns, without the figures of a disk.
pub(crate) fn df(args: &DfArgs, context: &mut Context) -> anyhow::Result<Outcome> {
    let database = context.open(&args.target)?;
    let mut all = Usage::default();
    for space in database.space(SpaceBy::Kind)? {
        all += space.usage;
    }
    // The root is a directory, too, though nobody created it.
    all.directories += 1;
    let format = args.format.format;
    let columns = ["target", "size", "allocated", "files", "directories"];
    let mut rows = Rows::new(&mut context.out, format, context.style, &columns);
    rows.row(cells(args.target.target.as_str().into(), &all, format))?;
    rows.finish()?;
    Ok(Outcome::Done)
}

pub(crate) fn top(args: &TopArgs, context: &mut Context) -> anyhow::Result<Outcome> {
    if args.edge_type.is_some() {
        return Err(usage(
            "--type is for --by degree: it names the type of edges",
        ));
    }
    let by_path = matches!(args.by, TopBy::Dir | TopBy::Project);
    if args.under.is_some() && !by_path {
        return Err(usage("--under is for --by dir and --by project"));
    }
    if args.principal.principal.is_some() && !by_path {
        return Err(usage(
            "--as is for --by dir, --by project and --by degree: other sums are over the files of all users",
        ));
    }
    let database = context.open(&args.target)?;
    let (title, mut all) = match args.by {
        TopBy::Degree => return Err(usage("--by degree is about edges")),
        TopBy::Dir => ("directory", by_directory(args, &database, context)?),
        TopBy::Project => ("project", by_project(args, &database)?),
        TopBy::User => ("uid", database.space(SpaceBy::User)?),
        TopBy::Group => ("gid", database.space(SpaceBy::Group)?),
        TopBy::Type => ("ending", database.space(SpaceBy::Ending)?),
        TopBy::Kind => ("kind", database.space(SpaceBy::Kind)?),
        TopBy::Age => ("day", database.space(SpaceBy::Day)?),
    };
    if args.by == TopBy::Age {
        // Days are sorted by the server, oldest first.
        for space in &mut all {
            space.key = day_text(&space.key);
        }
    } else {
        all.sort_by(|a, b| {
            b.usage
                .bytes
                .cmp(&a.usage.bytes)
                .then_with(|| b.usage.files.cmp(&a.usage.files))
        });
    }
    let least = args.min.unwrap_or(0);
    all.retain(|space| space.usage.bytes >= least);
    all.truncate(args.limit);
    let format = args.format.format;
    let columns = [title, "size", "allocated", "files", "directories"];
    let mut rows = Rows::new(&mut context.out, format, context.style, &columns);
    for space in all {
        rows.row(cells(space.key.into(), &space.usage, format))?;
    }
    rows.finish()?;
    Ok(super::super::note_if_stopped(context))
}

fn day_text(key: &str) -> String {
    let day = key.parse::<i64>().ok();
    let time = day.and_then(|d| jiff::Timestamp::from_second(d * 86_400).ok());
    time.map_or_else(|| key.to_owned(), |t| t.strftime("%Y-%m-%d").to_string())
}

/// Returns the directories directly below one, each with its totals.
fn by_project(args: &TopArgs, database: &Database) -> anyhow::Result<Vec<Space>> {
    let root = args
        .under
        .as_deref()
        .map_or_else(|| Ok(NamePath::root()), path)?;
    let mut all = Vec::new();
    directories(
        database,
        args.principal.principal.as_ref(),
        &root,
        1,
        &mut all,
    )?;
    let projects = all.into_iter().skip(1);
    Ok(projects
        .map(|(path, usage)| Space {
            key: path.to_string(),
            usage,
        })
        .collect())
}

/// Returns every directory with its totals.
fn by_directory(
    args: &TopArgs,
    database: &Database,
    context: &Context,
) -> anyhow::Result<Vec<Space>> {
    let root = args
        .under
        .as_deref()
        .map_or_else(|| Ok(NamePath::root()), path)?;
    let mut sums: Vec<(NamePath, Usage)> = Vec::new();
    let interrupt = context.interrupt.clone();
    database.usages(
        args.principal.principal.as_ref(),
        &root,
        &interrupt,
        &mut |path, usage| {
            sums.push((path.clone(), *usage));
            if interrupt.cancelled() {
                ControlFlow::Break(())
            } else {
                ControlFlow::Continue(())
            }
        },
    )?;
    Ok(sums
        .into_iter()
        .map(|(path, usage)| Space {
            key: path.to_string(),
            usage,
        })
        .collect())
}
