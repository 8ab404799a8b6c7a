//! `esker ls` and `esker stat` of remote files.

use super::{attribute, failed, kind, mode, number, open, parse_url, text, time};
use crate::args::{LsArgs, RemoteArgs, RowFormat, StatArgs};
use esker_model::Error;
use esker_model::namespace::Errno;
use esker_origin::{DirEntry, OriginUrl, PathMetadata};
use esker_site::{RemoteFiles, TierAnswer};
use esker_site_cache::entry::{Attributes, Wants};
use esker_terminal::context::Context;
use esker_terminal::exit::{Outcome, usage};
use esker_terminal::output::{Cell, Rows};
use esker_terminal::units;
use std::ffi::OsString;

/// Returns all URLs of a command line: the target, and the arguments after it.
fn urls(target: &str, more: &[OsString]) -> anyhow::Result<Vec<String>> {
    let mut all = vec![target.to_owned()];
    for one in more {
        match one.to_str() {
            Some(url) if url.contains("://") => all.push(url.to_owned()),
            _ => {
                return Err(usage(format!(
                    "`{}` is not a URL: a remote file is named by one, as in SCHEME://HOST/PATH; `{target}` already has its path in it",
                    one.display()
                )));
            }
        }
    }
    Ok(all)
}

/// Calls a function for each URL; with several URLs, failures are printed and the others continue.
fn each(
    urls: &[String],
    args: &RemoteArgs,
    wants: Wants,
    context: &mut Context,
    show: &mut dyn FnMut(&str, Vec<u8>, TierAnswer, &mut Context) -> anyhow::Result<()>,
) -> anyhow::Result<Outcome> {
    let places: Vec<(OriginUrl, Vec<u8>)> = urls
        .iter()
        .map(|u| parse_url(u))
        .collect::<anyhow::Result<_>>()?;
    let client: RemoteFiles = open(args)?;
    let mut outcome = Outcome::Done;
    let interrupt = context.interrupt.clone();
    for (url, (place, path)) in urls.iter().zip(places) {
        let Some(given) = client.get(&place, &path, wants, &interrupt) else {
            return Ok(super::super::note_if_stopped(context));
        };
        let error = match given {
            Ok(given) if given.found == PathMetadata::Absent => {
                Error::from(Errno::NotFound.at(url)).into()
            }
            Ok(given) => {
                show(url, path, given, context)?;
                continue;
            }
            Err(refused) => failed(refused),
        };
        if urls.len() == 1 {
            return Err(error);
        }
        context.complain(&error.to_string());
        outcome = Outcome::Partly;
    }
    Ok(outcome)
}

const LONG: [&str; 6] = ["name", "mode", "owner", "group", "size", "mtime"];

fn owner(of: &Attributes) -> Option<&str> {
    ["owner", "uid"].into_iter().find_map(|n| attribute(of, n))
}

fn group(of: &Attributes) -> Option<&str> {
    ["group", "gid"].into_iter().find_map(|n| attribute(of, n))
}

fn size(of: &Attributes, format: RowFormat) -> Cell {
    match of.size {
        Some(size) if format == RowFormat::Table => units::size(size).into(),
        Some(size) => Cell::Count(size),
        None => Cell::Empty,
    }
}

fn cells(name: String, of: &Attributes, long: bool, format: RowFormat) -> Vec<Cell> {
    if !long {
        return vec![name.into()];
    }
    vec![
        name.into(),
        mode(of).into(),
        number(owner(of)),
        number(group(of)),
        size(of, format),
        time(of),
    ]
}

/// `esker ls SCHEME://HOST/PATH`: lists remote directories.
pub(crate) fn ls(args: &LsArgs, context: &mut Context) -> anyhow::Result<Outcome> {
    // Without a path argument, clap's default is the root of a database.
    let behind = match args.paths.as_slice() {
        [root] if root == "/" => &[],
        paths => paths,
    };
    let urls = urls(&args.target.target, behind)?;
    let format = args.format.format;
    let columns = if args.long { &LONG[..] } else { &LONG[..1] };
    let mut all: Vec<(String, Attributes)> = Vec::new();
    let many = urls.len() > 1;
    let mut hidden = Vec::new();
    let mut show = |url: &str, path: Vec<u8>, given: TierAnswer, _: &mut Context| {
        let (own, children) = match given.found {
            PathMetadata::Listing {
                attributes,
                children,
                complete,
            } => {
                if !complete {
                    hidden.push(url.to_owned());
                }
                (attributes, Some(children))
            }
            PathMetadata::Present(attributes) => (attributes, None),
            PathMetadata::Absent => return Ok(()),
        };
        let Some(mut children) = children else {
            all.push((text(&path), own));
            return Ok(());
        };
        if !args.unsorted {
            children.sort_unstable_by(|a, b| a.name.cmp(&b.name));
        }
        let shown = |c: DirEntry| {
            let name = text(&c.name);
            let name = if many {
                format!("{}/{name}", url.trim_end_matches('/'))
            } else {
                name
            };
            (name, c.attributes)
        };
        all.extend(children.into_iter().map(shown));
        Ok(())
    };
    let outcome = each(&urls, &args.remote, Wants::List, context, &mut show)?;
    for url in hidden {
        context.note(&format!("{url}: the server does not show all names there"));
    }
    let mut rows = Rows::new(&mut context.out, format, context.style, columns);
    for (name, of) in all {
        rows.row(cells(name, &of, args.long, format))?;
    }
    rows.finish()?;
    Ok(outcome)
}

/// `esker stat SCHEME://HOST/PATH`: shows the attributes of remote files.
pub(crate) fn stat(args: &StatArgs, context: &mut Context) -> anyhow::Result<Outcome> {
    if args.follow {
        return Err(usage(
            "--follow is for databases: links of remote files are shown as links",
        ));
    }
    let urls = urls(&args.target.target, &args.paths)?;
    let mut found = Vec::new();
    let mut show = |url: &str, _: Vec<u8>, given: TierAnswer, _: &mut Context| {
        found.push((url.to_owned(), given));
        Ok(())
    };
    let outcome = each(&urls, &args.remote, Wants::Stat, context, &mut show)?;
    let columns = [
        "url",
        "kind",
        "mode",
        "owner",
        "group",
        "size",
        "mtime",
        "more",
        "age",
        "subscribed",
        "hit",
    ];
    let format = args.format.format;
    let mut rows = Rows::new(&mut context.out, format, context.style, &columns);
    for (url, given) in found {
        let of = match &given.found {
            PathMetadata::Present(of) | PathMetadata::Listing { attributes: of, .. } => of.clone(),
            PathMetadata::Absent => continue,
        };
        let rest: Vec<String> = of
            .more
            .as_deref()
            .unwrap_or_default()
            .iter()
            .filter(|(name, _)| !["owner", "uid", "group", "gid"].contains(&&**name))
            .map(|(name, value)| format!("{name}={value}"))
            .collect();
        rows.row(vec![
            url.into(),
            kind(of.kind).to_owned().into(),
            mode(&of).into(),
            number(owner(&of)),
            number(group(&of)),
            size(&of, format),
            time(&of),
            if rest.is_empty() {
                Cell::Empty
            } else {
                rest.join(" ").into()
            },
            format!("{:.3} s", given.age.as_secs_f64()).into(),
            Cell::Bool(given.subscribed),
            Cell::Bool(given.hit),
        ])?;
    }
    rows.finish()?;
    Ok(outcome)
}
