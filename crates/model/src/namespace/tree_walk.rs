//! Walk of a directory tree by listing directories, for implementations that have no faster way: a server of a cluster
//! asks others for each page.

use super::{Errno, Inode, NamePath, Namespace};
use crate::error::{Error, Result};
use crate::graph::{Cancel, Flow};
use crate::object::Principal;
use std::ops::ControlFlow;

/// Permission bits for listing a directory and reading the attributes of its entries (read and search).
const OPEN: u32 = 5;

/// Whether a directory was removed, or closed to the principal, after it was listed: nothing below it is shown then.
fn is_unavailable<T>(result: &Result<T>) -> bool {
    matches!(result, Err(Error::File(e)) if matches!(
        e.errno,
        Errno::NotFound | Errno::NotDirectory | Errno::Access
    ))
}

/// Implements [`Namespace::walk`] by listing directories.
pub fn walk(
    names: &dyn Namespace,
    principal: Option<&Principal>,
    path: &NamePath,
    cancel: &dyn Cancel,
    sink: &mut dyn FnMut(&NamePath, &Inode) -> Flow,
) -> Result<()> {
    path.demand_path()?;
    let inode = names.stat(principal, path, false)?;
    if sink(path, &inode).is_break() || !inode.is_directory() {
        return Ok(());
    }
    if !inode.allows(principal, OPEN) {
        return Err(Errno::Access.at(path).into());
    }
    let mut left = vec![path.clone()];
    while let Some(directory) = left.pop() {
        let mut below = Vec::new();
        let (mut ended, mut cancelled) = (false, false);
        let listed = names.list(principal, &directory, None, &mut |_, entry| {
            cancelled = cancel.cancelled();
            if cancelled {
                return ControlFlow::Break(());
            }
            let path = directory.join(&entry.name);
            let flow = sink(&path, &entry.inode);
            ended = flow.is_break();
            if entry.inode.is_directory() && entry.inode.allows(principal, OPEN) {
                below.push(path);
            }
            flow
        });
        if cancelled {
            return Err(Error::Interrupted);
        }
        if !(is_unavailable(&listed) && directory != *path) {
            listed?;
        }
        if ended {
            return Ok(());
        }
        left.extend(below.into_iter().rev());
    }
    Ok(())
}
