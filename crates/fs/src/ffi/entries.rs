//! Directories, listed.

use super::error::{guard, guard_done};
use super::marshal::{self, Target, given, path};
use crate::{Entry, Failure, Fs, Result};
use esker_model::namespace::{Cookie, Kind, NamePath};
use std::collections::VecDeque;
use std::ffi::{CString, c_char, c_int};
use std::ptr;
use std::sync::Arc;

/// A directory that is being listed.
#[derive(Debug)]
pub struct Listing {
    fs: Arc<Fs>,
    path: NamePath,
    after: Option<Cookie>,
    ahead: VecDeque<Entry>,
    ended: bool,
    /// The name of the entry that was given last.
    name: CString,
}

/// `esker_fs_entry` of the header.
#[repr(C)]
pub struct CEntry {
    name: *const c_char,
    attributes: libc::stat,
}

impl std::fmt::Debug for CEntry {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("CEntry").finish_non_exhaustive()
    }
}

impl Listing {
    fn next(&mut self) -> Result<Option<Entry>> {
        if self.ahead.is_empty() && !self.ended {
            let more = self.fs.list(&self.path, self.after)?;
            self.ended = more.is_empty();
            self.after = more.last().map_or(self.after, |e| Some(e.place));
            self.ahead = more.into();
        }
        Ok(self.ahead.pop_front())
    }
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn esker_fs_opendir(fs: *const Target, name: *const c_char) -> *mut Listing {
    guard(ptr::null_mut(), || {
        // SAFETY: as the header demands.
        let (fs, path) = unsafe { (given(fs, "a target")?, path(name)?) };
        if Kind::of_mode(fs.stat(&path, true)?.mode) != Some(Kind::Directory) {
            return Err(Failure::new(libc::ENOTDIR, path));
        }
        let mut listing = Listing {
            fs: Arc::clone(fs),
            path,
            after: None,
            ahead: VecDeque::new(),
            ended: false,
            name: CString::default(),
        };
        // Who may not read it is told now.
        if let Some(first) = listing.next()? {
            listing.ahead.push_front(first);
        }
        Ok(Box::into_raw(Box::new(listing)))
    })
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn esker_fs_readdir(listing: *mut Listing, to: *mut CEntry) -> c_int {
    guard(-1, || {
        // SAFETY: it comes from `esker_fs_opendir`, and no other thread uses it now.
        let listing = unsafe { listing.as_mut() };
        let listing = listing.ok_or_else(|| Failure::new(libc::EBADF, "a directory"))?;
        if to.is_null() {
            return Err(Failure::new(libc::EFAULT, "an entry"));
        }
        let Some(entry) = listing.next()? else {
            return Ok(0);
        };
        listing.name = CString::new(entry.name).unwrap_or_default();
        let entry = CEntry {
            name: listing.name.as_ptr(),
            attributes: marshal::stat(&entry.stat),
        };
        // SAFETY: it is not null, and whoever calls says that there is room for it.
        unsafe { to.write(entry) };
        Ok(1)
    })
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn esker_fs_closedir(listing: *mut Listing) -> c_int {
    if listing.is_null() {
        return 0;
    }
    guard_done(|| {
        // SAFETY: it comes from `esker_fs_opendir`, and nobody uses it any more.
        drop(unsafe { Box::from_raw(listing) });
        Ok(())
    })
}
