//! Directory listings.

use super::error::{guard, guard_done};
use super::marshal::{self, Target, path, reference};
use crate::{Entry, Failure, Fs, Result};
use esker_model::namespace::{Cookie, Kind, NamePath};
use std::collections::VecDeque;
use std::ffi::{CString, c_char, c_int};
use std::ptr;
use std::sync::Arc;

/// A directory listing under way.
#[derive(Debug)]
pub struct Listing {
    fs: Arc<Fs>,
    path: NamePath,
    after: Option<Cookie>,
    ahead: VecDeque<Entry>,
    ended: bool,
    /// Name of the entry that was returned last.
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
            self.after = more.last().map_or(self.after, |e| Some(e.cookie));
            self.ahead = more.into();
        }
        Ok(self.ahead.pop_front())
    }
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn esker_fs_opendir(fs: *const Target, name: *const c_char) -> *mut Listing {
    guard(ptr::null_mut(), || {
        // SAFETY: the header requires valid arguments.
        let (fs, path) = unsafe { (reference(fs, "a target")?, path(name)?) };
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
        // A missing permission to read the directory is reported here.
        if let Some(first) = listing.next()? {
            listing.ahead.push_front(first);
        }
        Ok(Box::into_raw(Box::new(listing)))
    })
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn esker_fs_readdir(listing: *mut Listing, to: *mut CEntry) -> c_int {
    guard(-1, || {
        // SAFETY: the pointer comes from `esker_fs_opendir`, and no other thread uses it now.
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
        // SAFETY: the pointer is not null, and the caller guarantees space for the entry.
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
        // SAFETY: the pointer comes from `esker_fs_opendir`, and nobody uses it any more.
        drop(unsafe { Box::from_raw(listing) });
        Ok(())
    })
}
