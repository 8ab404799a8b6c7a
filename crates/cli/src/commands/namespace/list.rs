//! `esker ls`, `esker stat`.

use super::{each, path};
use crate::args::{LsArgs, RowFormat, StatArgs};
use crate::commands::remote;
use esker_model::namespace::{Content, Inode, Kind, NamePath, Namespace as _, display, is_acl};
use esker_model::{Cancel as _, Error, Value};
use esker_terminal::context::Context;
use esker_terminal::exit::{Outcome, usage};
use esker_terminal::output::{Cell, Rows};
use esker_terminal::units;
use std::ops::ControlFlow;

/// Formats a mode as `ls -l` does.
pub(crate) fn mode_text(mode: u32) -> String {
    let kind = Kind::of_mode(mode).map_or('?', Kind::letter);
    let mut text = String::with_capacity(10);
    text.push(kind);
    for (shift, special, set, unset) in [
        (6, 0o4000, 's', 'S'),
        (3, 0o2000, 's', 'S'),
        (0, 0o1000, 't', 'T'),
    ] {
        let bits = mode >> shift;
        text.push(if bits & 4 != 0 { 'r' } else { '-' });
        text.push(if bits & 2 != 0 { 'w' } else { '-' });
        text.push(match (mode & special != 0, bits & 1 != 0) {
            (true, true) => set,
            (true, false) => unset,
            (false, true) => 'x',
            (false, false) => '-',
        });
    }
    text
}

/// Formats the mode of a file, with `+` if it has an access control list.
fn mode_cell(inode: &Inode) -> Cell {
    let mark = if inode.has_acl() { "+" } else { "" };
    format!("{}{mark}", mode_text(inode.mode)).into()
}

/// Returns the entries of a file's access control lists.
fn acl_cell(inode: &Inode) -> Cell {
    let texts = inode.acl_texts();
    if texts.is_empty() {
        return Cell::Empty;
    }
    let shown = texts.join(" ");
    Cell::Json(texts.into(), shown)
}

const LONG: [&str; 8] = [
    "name", "mode", "links", "uid", "gid", "size", "mtime", "target",
];

fn cells(name: String, inode: &Inode, long: bool, format: RowFormat) -> Vec<Cell> {
    if !long {
        return vec![name.into()];
    }
    let table = format == RowFormat::Table;
    vec![
        name.into(),
        mode_cell(inode),
        Cell::Count(u64::from(inode.links)),
        Cell::Value(Value::I64(i64::from(inode.uid))),
        Cell::Value(Value::I64(i64::from(inode.gid))),
        if table {
            units::size(inode.size).into()
        } else {
            Cell::Count(inode.size)
        },
        Cell::Value(Value::Timestamp(inode.mtime)),
        target(inode),
    ]
}

fn target(inode: &Inode) -> Cell {
    match &inode.content {
        Content::Symlink(target) => display(target).to_string().into(),
        _ => Cell::Empty,
    }
}

pub(crate) fn ls(args: &LsArgs, context: &mut Context) -> anyhow::Result<Outcome> {
    remote::refuse_options(&args.target.target, &args.remote)?;
    let database = context.open(&args.target)?;
    let principal = args.principal.principal.as_ref();
    let interrupt = context.interrupt.clone();
    let format = args.format.format;
    let columns = if args.long {
        LONG.as_slice()
    } else {
        &LONG[..1]
    };
    let many = args.paths.len() > 1;
    let paths = args
        .paths
        .iter()
        .map(|p| path(p))
        .collect::<anyhow::Result<Vec<_>>>()?;
    let mut failed = Vec::new();
    let mut rows = Rows::new(&mut context.out, format, context.style, columns);
    for path in &paths {
        let shown = |name: &dyn std::fmt::Display| {
            if many {
                format!("{path}/{name}").replacen("//", "/", 1)
            } else {
                name.to_string()
            }
        };
        let mut all = Vec::new();
        let mut printed = Ok(());
        let listed = database.stat(principal, path, true).and_then(|inode| {
            if !inode.is_directory() {
                all.push((path.to_string(), inode));
                return Ok(());
            }
            database.list(principal, path, None, &mut |_, entry| {
                if interrupt.cancelled() {
                    return ControlFlow::Break(());
                }
                let name = shown(&entry.name);
                if args.unsorted {
                    printed = rows.row(cells(name, &entry.inode, args.long, format));
                    return if printed.is_ok() {
                        ControlFlow::Continue(())
                    } else {
                        ControlFlow::Break(())
                    };
                }
                all.push((name, entry.inode));
                ControlFlow::Continue(())
            })
        });
        printed?;
        match listed {
            Err(e @ Error::File(_)) => failed.push(e),
            listed => listed?,
        }
        all.sort_unstable_by(|a, b| a.0.cmp(&b.0));
        for (name, inode) in all {
            rows.row(cells(name, &inode, args.long, format))?;
        }
    }
    if rows.finish()? == 0 && failed.is_empty() {
        context.hint("no entries: `esker import tree`, `esker mkdir` and `esker mount` fill the namespace; `esker top` lists what runs and logs recorded");
    }
    if let [_] = paths.as_slice()
        && let Some(e) = failed.pop()
    {
        return Err(e.into());
    }
    let partly = super::super::note_if_stopped(context);
    failed.iter().for_each(|e| context.complain(&e.to_string()));
    Ok(if failed.is_empty() {
        partly
    } else {
        Outcome::Partly
    })
}

pub(crate) fn stat(args: &StatArgs, context: &mut Context) -> anyhow::Result<Outcome> {
    remote::refuse_options(&args.target.target, &args.remote)?;
    if args.paths.is_empty() {
        return Err(usage("which file? Give its PATH after the database"));
    }
    let database = context.open(&args.target)?;
    let principal = args.principal.principal.as_ref();
    let columns = [
        "path", "vertex", "kind", "mode", "links", "uid", "gid", "size", "blocks", "rdev", "atime",
        "mtime", "ctime", "btime", "version", "content", "target", "acl", "xattrs",
    ];
    let mut found: Vec<(NamePath, Inode)> = Vec::new();
    let outcome = each(&args.paths, context, |p| {
        let path = path(p)?;
        let inode = database.stat(principal, &path, args.follow)?;
        found.push((path, inode));
        Ok(())
    })?;
    let mut rows = Rows::new(
        &mut context.out,
        args.format.format,
        context.style,
        &columns,
    );
    for (path, inode) in found {
        let time = |t| Cell::Value(Value::Timestamp(t));
        let number = |n: u32| Cell::Value(Value::I64(i64::from(n)));
        let content = match &inode.content {
            Content::None | Content::Symlink(_) => Cell::Empty,
            Content::Inline(data) => format!("{} here", units::size(data.len() as u64)).into(),
            Content::Object(path) => display(path).to_string().into(),
        };
        let xattrs: Vec<String> = inode
            .xattrs
            .iter()
            .filter(|(n, _)| !is_acl(n))
            .map(|(n, v)| format!("{}={}", display(n), display(v)))
            .collect();
        rows.row(vec![
            path.to_string().into(),
            inode.id.to_string().into(),
            inode.kind().name().into(),
            format!("{:04o}", inode.mode & 0o7777).into(),
            Cell::Count(u64::from(inode.links)),
            number(inode.uid),
            number(inode.gid),
            Cell::Count(inode.size),
            Cell::Count(inode.blocks),
            if inode.rdev == 0 {
                Cell::Empty
            } else {
                Cell::Count(inode.rdev)
            },
            time(inode.atime),
            time(inode.mtime),
            time(inode.ctime),
            time(inode.btime),
            Cell::Version(inode.version),
            content,
            target(&inode),
            acl_cell(&inode),
            if xattrs.is_empty() {
                Cell::Empty
            } else {
                xattrs.join(" ").into()
            },
        ])?;
    }
    rows.finish()?;
    Ok(outcome)
}

#[cfg(test)]
mod tests {
    use super::mode_text;

    #[test]
    fn modes_look_as_ls_has_them() {
        for (mode, text) in [
            (0o100_644, "-rw-r--r--"),
            (0o041_777, "drwxrwxrwt"),
            (0o104_711, "-rws--x--x"),
            (0o102_640, "-rw-r-S---"),
        ] {
            assert_eq!(mode_text(mode), text);
        }
    }
}
