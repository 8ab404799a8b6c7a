//! `esker mv`, `esker rm`, `esker chmod`, `esker chown`.

use super::{BATCH, apply, each, path};
use crate::args::{ChmodArgs, ChownArgs, MvArgs, RmArgs};
use esker::Database;
use esker_model::namespace::{Change, Errno, NamePath, Namespace as _, SetAttributes};
use esker_model::object::Principal;
use esker_model::{Error, Result};
use esker_terminal::context::Context;
use esker_terminal::exit::{Outcome, usage};
use esker_terminal::interrupt::Interrupt;
use std::ops::ControlFlow;

pub(crate) fn mv(args: &MvArgs, context: &mut Context) -> anyhow::Result<Outcome> {
    let database = context.open(&args.target)?;
    let principal = args.principal.principal.as_ref();
    let Some((to, from)) = args.paths.split_last() else {
        return Err(usage("nothing to rename: expected FROM and TO"));
    };
    let to = path(to)?;
    if args.exchange {
        let [from] = from else {
            return Err(usage("--exchange takes two paths"));
        };
        return each(std::slice::from_ref(from), context, |p| {
            let (from, to) = (path(p)?, to.clone());
            apply(&database, principal, Change::Exchange { from, to })?;
            Ok(())
        });
    }
    let into = database
        .stat(principal, &to, true)
        .is_ok_and(|inode| inode.is_directory());
    if from.len() > 1 && !into {
        return Err(Error::from(Errno::NotDirectory.at(&to)).into());
    }
    each(from, context, |p| {
        let from = path(p)?;
        let to = match from.split() {
            Some((_, name)) if into => to.join(&name),
            _ => to.clone(),
        };
        let change = Change::Rename {
            from,
            to,
            no_replace: args.no_clobber,
        };
        apply(&database, principal, change)?;
        Ok(())
    })
}

pub(crate) fn rm(args: &RmArgs, context: &mut Context) -> anyhow::Result<Outcome> {
    let database = context.open(&args.target)?;
    let principal = args.principal.principal.as_ref();
    let interrupt = context.interrupt.clone();
    each(&args.paths, context, |p| {
        let path = path(p)?;
        let removed = if args.recursive {
            change_tree(
                &database,
                principal,
                &path,
                &interrupt,
                &mut |path, directory| {
                    if directory {
                        Change::Rmdir(path)
                    } else {
                        Change::Unlink(path)
                    }
                },
            )
        } else {
            let change = match database.stat(principal, &path, false) {
                Ok(inode) if inode.is_directory() && args.dir => Change::Rmdir(path.clone()),
                _ => Change::Unlink(path.clone()),
            };
            apply(&database, principal, change).map(drop)
        };
        match removed {
            Err(Error::File(e)) if args.force && e.errno == Errno::NotFound => Ok(()),
            Err(Error::File(e)) if e.errno == Errno::IsDirectory && !args.recursive => {
                Err(Error::Invalid(format!("{e}; -r deletes it with everything in it")).into())
            }
            removed => Ok(removed?),
        }
    })
}

/// Changes a path and everything below it, the entries of a directory before the directory. Stops at the first refusal.
fn change_tree(
    database: &Database,
    principal: Option<&Principal>,
    path: &NamePath,
    interrupt: &Interrupt,
    make: &mut dyn FnMut(NamePath, bool) -> Change,
) -> Result<()> {
    let mut directories = Vec::new();
    let mut changes = Vec::new();
    let mut answer = Ok(());
    database.walk(principal, path, interrupt, &mut |path, inode| {
        if inode.is_directory() {
            directories.push(path.clone());
            return ControlFlow::Continue(());
        }
        changes.push(make(path.clone(), false));
        if changes.len() >= BATCH {
            answer = send(database, principal, &mut changes);
        }
        if answer.is_ok() {
            ControlFlow::Continue(())
        } else {
            ControlFlow::Break(())
        }
    })?;
    answer?;
    send(database, principal, &mut changes)?;
    while let Some(path) = directories.pop() {
        changes.push(make(path, true));
        if changes.len() >= BATCH || directories.is_empty() {
            send(database, principal, &mut changes)?;
        }
    }
    Ok(())
}

fn send(
    database: &Database,
    principal: Option<&Principal>,
    changes: &mut Vec<Change>,
) -> Result<()> {
    if changes.is_empty() {
        return Ok(());
    }
    let done = database.change(principal, changes)?;
    changes.clear();
    done.into_iter().try_for_each(|done| done.map(drop))
}

fn set_all(
    database: &Database,
    principal: Option<&Principal>,
    path: NamePath,
    recursive: Option<&Interrupt>,
    set: &SetAttributes,
) -> Result<()> {
    let change = |path, follow| Change::Set {
        path,
        follow,
        set: set.clone(),
    };
    match recursive {
        // Symbolic links are not followed, because they lead out of the tree.
        Some(interrupt) => change_tree(database, principal, &path, interrupt, &mut |path, _| {
            change(path, false)
        }),
        None => apply(database, principal, change(path, true)).map(drop),
    }
}

pub(crate) fn chmod(args: &ChmodArgs, context: &mut Context) -> anyhow::Result<Outcome> {
    let database = context.open(&args.target)?;
    let principal = args.principal.principal.as_ref();
    let set = SetAttributes {
        mode: Some(args.mode),
        ..SetAttributes::default()
    };
    let interrupt = args.recursive.then(|| context.interrupt.clone());
    each(&args.paths, context, |p| {
        Ok(set_all(
            &database,
            principal,
            path(p)?,
            interrupt.as_ref(),
            &set,
        )?)
    })
}

pub(crate) fn chown(args: &ChownArgs, context: &mut Context) -> anyhow::Result<Outcome> {
    let database = context.open(&args.target)?;
    let principal = args.principal.principal.as_ref();
    let (uid, gid) = args.owner;
    let set = SetAttributes {
        uid,
        gid,
        ..SetAttributes::default()
    };
    let interrupt = args.recursive.then(|| context.interrupt.clone());
    each(&args.paths, context, |p| {
        Ok(set_all(
            &database,
            principal,
            path(p)?,
            interrupt.as_ref(),
            &set,
        )?)
    })
}
