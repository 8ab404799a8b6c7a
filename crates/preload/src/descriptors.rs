//! Descriptors of files in a target. They are descriptors of the kernel, so that reading and writing needs nothing of
//! this library; this table maps them to their files, to publish what was written at the last close.

use crate::prefix::{self, TargetPath};
use crate::real::real;
use crate::{errno, reentrancy};
use esker_fs::{File, Result};
use esker_model::namespace::NamePath;
use parking_lot::Mutex;
use std::collections::HashMap;
use std::ffi::{c_int, c_ulong};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Once};

/// The file or directory of a descriptor.
#[derive(Debug, Clone)]
pub struct Descriptor {
    pub target_path: TargetPath,
    /// The open file; `None` for a directory.
    pub file: Option<Arc<File>>,
}

impl Descriptor {
    /// Returns the path form of the file's handle, or the directory's path.
    pub fn handle_or_path(&self) -> Result<NamePath> {
        match &self.file {
            Some(file) => file.handle(),
            None => Ok(self.target_path.path.clone()),
        }
    }
}

static ALL: Mutex<Option<HashMap<c_int, Descriptor>>> = Mutex::new(None);
/// Number of entries: nearly all calls are about other descriptors.
static COUNT: AtomicUsize = AtomicUsize::new(0);

pub fn add(descriptor: c_int, of: Descriptor) {
    let mut all = ALL.lock();
    let all = all.get_or_insert_default();
    all.insert(descriptor, of);
    COUNT.store(all.len(), Ordering::Release);
}

pub fn get(descriptor: c_int) -> Option<Descriptor> {
    if COUNT.load(Ordering::Acquire) == 0 || reentrancy::is_inside() {
        return None;
    }
    ALL.lock().as_ref()?.get(&descriptor).cloned()
}

/// Removes and returns the entry of a descriptor that is about to be closed.
pub fn take(descriptor: c_int) -> Option<Descriptor> {
    if COUNT.load(Ordering::Acquire) == 0 || reentrancy::is_inside() {
        return None;
    }
    let mut all = ALL.lock();
    let all = all.as_mut()?;
    let taken = all.remove(&descriptor);
    COUNT.store(all.len(), Ordering::Release);
    taken
}

/// Returns the path of an open directory.
pub fn directory(descriptor: c_int) -> Option<TargetPath> {
    ALL.lock()
        .as_ref()?
        .get(&descriptor)
        .map(|d| d.target_path.clone())
}

/// Publishes what was written; the last descriptor of a file closes it.
pub fn finish(of: Descriptor) -> Result<()> {
    match of.file.map(Arc::try_unwrap) {
        Some(Ok(file)) => file.close(),
        // Another descriptor shares the file: what was written is published as at each close on a mount.
        Some(Err(file)) => file.flush(),
        None => Ok(()),
    }
}

/// Registers handlers that publish everything when the process ends, even if it closes nothing.
pub fn register_exit_handlers() {
    static ONCE: Once = Once::new();
    ONCE.call_once(|| {
        // SAFETY: both are functions without arguments that exist as long as the process.
        unsafe {
            libc::atexit(at_exit);
            libc::pthread_atfork(None, None, Some(in_child));
        }
    });
}

extern "C" fn at_exit() {
    // Buffers of C streams would otherwise be written after this handler.
    unsafe { libc::fflush(std::ptr::null_mut()) };
    finish_all();
    let _inside = reentrancy::enter();
    let _ = std::panic::catch_unwind(prefix::close);
}

fn finish_all() {
    let all = ALL.lock().take().unwrap_or_default();
    COUNT.store(0, Ordering::Release);
    for of in all.into_values() {
        errno::done(|| finish(of));
    }
}

/// Forgets all entries in the child of a fork. The child has its parent's descriptors, and the parent publishes what
/// the child writes.
extern "C" fn in_child() {
    if let Some(mut all) = ALL.try_lock() {
        std::mem::forget(all.take());
        COUNT.store(0, Ordering::Release);
    }
    prefix::forget();
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn close(descriptor: c_int) -> c_int {
    let of = take(descriptor);
    // The number is free from here on and may be reused by another thread.
    let closed = real!(close(descriptor => c_int) -> c_int);
    match of {
        None => closed,
        Some(of) => errno::done(|| finish(of)),
    }
}

/// Copies the entry of a duplicated descriptor.
fn copied(from: c_int, to: c_int) -> c_int {
    if to >= 0 && from != to && !reentrancy::is_inside() {
        let over = take(to);
        if let Some(of) = get(from) {
            add(to, of);
        }
        if let Some(over) = over {
            errno::done(|| finish(over));
        }
    }
    to
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn dup(from: c_int) -> c_int {
    let to = real!(dup(from => c_int) -> c_int);
    copied(from, to)
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn dup2(from: c_int, to: c_int) -> c_int {
    let to = real!(dup2(from => c_int, to => c_int) -> c_int);
    copied(from, to)
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn dup3(from: c_int, to: c_int, flags: c_int) -> c_int {
    let to = real!(dup3(from => c_int, to => c_int, flags => c_int) -> c_int);
    copied(from, to)
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn fcntl(descriptor: c_int, what: c_int, argument: c_ulong) -> c_int {
    let answer = real!(fcntl(descriptor => c_int, what => c_int, argument => c_ulong) -> c_int);
    if what == libc::F_DUPFD || what == libc::F_DUPFD_CLOEXEC {
        return copied(descriptor, answer);
    }
    answer
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn fcntl64(descriptor: c_int, what: c_int, argument: c_ulong) -> c_int {
    unsafe { fcntl(descriptor, what, argument) }
}

fn sync(descriptor: c_int) -> Option<c_int> {
    let of = get(descriptor)?;
    Some(errno::done(|| match of.file {
        Some(file) => file.sync(),
        None => of.target_path.fs()?.sync(),
    }))
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn fsync(descriptor: c_int) -> c_int {
    sync(descriptor).unwrap_or_else(|| real!(fsync(descriptor => c_int) -> c_int))
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn fdatasync(descriptor: c_int) -> c_int {
    sync(descriptor).unwrap_or_else(|| real!(fdatasync(descriptor => c_int) -> c_int))
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn _exit(status: c_int) -> ! {
    finish_all();
    real!(_exit(status => c_int) -> !)
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn _Exit(status: c_int) -> ! {
    unsafe { _exit(status) }
}
