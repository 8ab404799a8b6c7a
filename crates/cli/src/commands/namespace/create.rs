//! `esker mkdir`, `esker touch`, `esker ln`.

use super::{apply, each, owner, path};
use crate::args::{LnArgs, MkdirArgs, TouchArgs};
use crate::times::now_nanos;
use esker_model::namespace::{Change, Content, Errno, Kind, NamePath, NewFile, SetAttributes};
use esker_model::{Error, Result};
use esker_terminal::context::Context;
use esker_terminal::exit::Outcome;
use rustix::fs::Mode;
use std::os::unix::ffi::OsStrExt as _;

/// Returns the process's umask, which can only be read by setting it.
fn umask() -> u32 {
    let mask = rustix::process::umask(Mode::empty());
    rustix::process::umask(mask);
    mask.as_raw_mode()
}

fn is<T>(result: &Result<T>, errno: Errno) -> bool {
    matches!(result, Err(Error::File(e)) if e.errno == errno)
}

pub(crate) fn mkdir(args: &MkdirArgs, context: &mut Context) -> anyhow::Result<Outcome> {
    let database = context.open_or_create(&args.target)?;
    let principal = args.principal.principal.as_ref();
    let (uid, gid) = owner(principal);
    let umask = umask();
    let make = |path: &NamePath, (mode, umask): (u32, u32)| {
        let make = NewFile {
            umask,
            ..NewFile::new(Kind::Directory.bits() | mode, uid, gid)
        };
        apply(&database, principal, Change::Create(path.clone(), make))
    };
    each(&args.paths, context, |p| {
        let path = path(p)?;
        let mut missing = vec![path.clone()];
        while let Some(next) = missing.last().cloned() {
            // Missing parent directories get the default mode, so that entries can be created in them.
            let mode = if next == path {
                args.mode.map_or((0o777, umask), |mode| (mode, 0))
            } else {
                (0o777, umask & !0o300)
            };
            let made = make(&next, mode);
            if args.parents && is(&made, Errno::NotFound) && !next.is_root() {
                missing.push(next.parent());
                continue;
            }
            if !(args.parents && is(&made, Errno::Exists)) {
                made?;
            } else if next == path && !database_has_directory(&database, &path)? {
                return Err(Error::from(Errno::NotDirectory.at(&path)).into());
            }
            missing.pop();
        }
        Ok(())
    })
}

fn database_has_directory(database: &esker::Database, path: &NamePath) -> Result<bool> {
    use esker_model::namespace::Namespace as _;
    Ok(database.stat(None, path, true)?.is_directory())
}

pub(crate) fn touch(args: &TouchArgs, context: &mut Context) -> anyhow::Result<Outcome> {
    let database = context.open_or_create(&args.target)?;
    let principal = args.principal.principal.as_ref();
    let (uid, gid) = owner(principal);
    let (mode, umask) = args.mode.map_or((0o666, umask()), |mode| (mode, 0));
    each(&args.paths, context, |p| {
        let path = path(p)?;
        let make = NewFile {
            umask,
            ..NewFile::new(Kind::File.bits() | mode, uid, gid)
        };
        let made = apply(&database, principal, Change::Create(path.clone(), make));
        if !is(&made, Errno::Exists) {
            made?;
            return Ok(());
        }
        let now = Some(now_nanos());
        let set = SetAttributes {
            atime: now,
            mtime: now,
            ..SetAttributes::default()
        };
        apply(
            &database,
            principal,
            Change::Set {
                path,
                follow: true,
                set,
            },
        )?;
        Ok(())
    })
}

pub(crate) fn ln(args: &LnArgs, context: &mut Context) -> anyhow::Result<Outcome> {
    let database = context.open(&args.target)?;
    let principal = args.principal.principal.as_ref();
    let to = path(&args.to)?;
    let change = if args.symbolic {
        let (uid, gid) = owner(principal);
        let make = NewFile {
            content: Content::Symlink(args.from.as_bytes().to_vec()),
            ..NewFile::new(Kind::Symlink.bits() | 0o777, uid, gid)
        };
        Change::Create(to, make)
    } else {
        Change::Link {
            from: path(&args.from)?,
            to,
        }
    };
    apply(&database, principal, change)?;
    Ok(Outcome::Done)
}
