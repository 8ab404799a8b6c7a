//! What lies below a path, for whoever can only list directories: a cluster's server asks others for each page.

use super::{Errno, Inode, NamePath, Namespace};
use crate::error::{Error, Result};
use crate::graph::{Cancel, Flow};
use crate::object::Asker;
use std::ops::ControlFlow;

/// Who may list a directory and look at what is in it.
const OPEN: u32 = 5;

/// Whether a directory went, or was closed to the asker, since it was seen: then nothing is shown of it.
fn is_gone<T>(result: &Result<T>) -> bool {
    matches!(result, Err(Error::File(e)) if matches!(
        e.errno,
        Errno::NotFound | Errno::NotDirectory | Errno::Access
    ))
}

/// [`Namespace::walk`], by listings.
pub fn walk(
    names: &dyn Namespace,
    asker: Option<&Asker>,
    path: &NamePath,
    cancel: &dyn Cancel,
    sink: &mut dyn FnMut(&NamePath, &Inode) -> Flow,
) -> Result<()> {
    path.demand_path()?;
    let inode = names.stat(asker, path, false)?;
    if sink(path, &inode).is_break() || !inode.is_directory() {
        return Ok(());
    }
    if !inode.allows(asker, OPEN) {
        return Err(Errno::Access.at(path).into());
    }
    let mut left = vec![path.clone()];
    while let Some(directory) = left.pop() {
        let mut below = Vec::new();
        let (mut ended, mut cancelled) = (false, false);
        let listed = names.list(asker, &directory, None, &mut |_, entry| {
            cancelled = cancel.cancelled();
            if cancelled {
                return ControlFlow::Break(());
            }
            let path = directory.join(&entry.name);
            let flow = sink(&path, &entry.inode);
            ended = flow.is_break();
            if entry.inode.is_directory() && entry.inode.allows(asker, OPEN) {
                below.push(path);
            }
            flow
        });
        if cancelled {
            return Err(Error::Interrupted);
        }
        if !(is_gone(&listed) && directory != *path) {
            listed?;
        }
        if ended {
            return Ok(());
        }
        left.extend(below.into_iter().rev());
    }
    Ok(())
}
