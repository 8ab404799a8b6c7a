//! Descriptors that programs have of files of a target. They are the kernel's own, so that reading and writing needs nothing of
//! this library; what is kept here is what they are of, to tell the target at the last close.

use crate::prefix::{self, Below};
use crate::real::real;
use crate::{errno, inside};
use esker_fs::{File, Result};
use esker_model::namespace::NamePath;
use parking_lot::Mutex;
use std::collections::HashMap;
use std::ffi::{c_int, c_ulong};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Once};

/// What a descriptor is of.
#[derive(Debug, Clone)]
pub struct Descriptor {
    pub below: Below,
    /// None of a directory.
    pub file: Option<Arc<File>>,
}

impl Descriptor {
    /// What stands for it in the place of a path.
    pub fn place(&self) -> Result<NamePath> {
        match &self.file {
            Some(file) => file.handle(),
            None => Ok(self.below.path.clone()),
        }
    }
}

static ALL: Mutex<Option<HashMap<c_int, Descriptor>>> = Mutex::new(None);
/// How many there are: nearly all calls are about others.
static COUNT: AtomicUsize = AtomicUsize::new(0);

pub fn add(descriptor: c_int, of: Descriptor) {
    let mut all = ALL.lock();
    let all = all.get_or_insert_default();
    all.insert(descriptor, of);
    COUNT.store(all.len(), Ordering::Release);
}

pub fn get(descriptor: c_int) -> Option<Descriptor> {
    if COUNT.load(Ordering::Acquire) == 0 || inside::is() {
        return None;
    }
    ALL.lock().as_ref()?.get(&descriptor).cloned()
}

/// What a descriptor was of that is about to be closed.
pub fn take(descriptor: c_int) -> Option<Descriptor> {
    if COUNT.load(Ordering::Acquire) == 0 || inside::is() {
        return None;
    }
    let mut all = ALL.lock();
    let all = all.as_mut()?;
    let taken = all.remove(&descriptor);
    COUNT.store(all.len(), Ordering::Release);
    taken
}

/// The directory that a descriptor is of.
pub fn directory(descriptor: c_int) -> Option<Below> {
    ALL.lock()
        .as_ref()?
        .get(&descriptor)
        .map(|d| d.below.clone())
}

/// What was written by it is told, by the last descriptor of that file.
pub fn finish(of: Descriptor) -> Result<()> {
    match of.file.map(Arc::try_unwrap) {
        Some(Ok(file)) => file.close(),
        // Another descriptor has it: what was written is told all the same, as each close of a mount does.
        Some(Err(file)) => file.flush(),
        None => Ok(()),
    }
}

/// Everything that was written is told when the process ends, also by who closes nothing.
pub fn at_the_end() {
    static ONCE: Once = Once::new();
    ONCE.call_once(|| {
        // SAFETY: both are functions without arguments that stay as long as the process.
        unsafe {
            libc::atexit(at_exit);
            libc::pthread_atfork(None, None, Some(in_child));
        }
    });
}

extern "C" fn at_exit() {
    // What is in the buffers of C's streams is written after this otherwise.
    unsafe { libc::fflush(std::ptr::null_mut()) };
    tell_all();
    let _inside = inside::enter();
    let _ = std::panic::catch_unwind(prefix::close);
}

fn tell_all() {
    let all = ALL.lock().take().unwrap_or_default();
    COUNT.store(0, Ordering::Release);
    for of in all.into_values() {
        errno::done(|| finish(of));
    }
}

/// The child has its parent's descriptors, and nothing of what this library knows of them: what it writes, its parent tells.
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
    // The number is free from here on: what is told afterwards is not of it.
    let closed = real!(close(descriptor => c_int) -> c_int);
    match of {
        None => closed,
        Some(of) => errno::done(|| finish(of)),
    }
}

/// A further descriptor of the same.
fn copied(from: c_int, to: c_int) -> c_int {
    if to >= 0 && from != to && !inside::is() {
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
        None => of.below.fs()?.sync(),
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
    tell_all();
    real!(_exit(status => c_int) -> !)
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn _Exit(status: c_int) -> ! {
    unsafe { _exit(status) }
}
