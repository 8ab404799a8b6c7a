//! Directory listings.

use crate::descriptors;
use crate::opening;
use crate::prefix::{TargetPath, resolve};
use crate::real::real;
use crate::{errno, reentrancy};
use esker_fs::{Entry, Result};
use esker_model::namespace::{Cookie, Kind};
use parking_lot::Mutex;
use std::collections::{HashSet, VecDeque};
use std::ffi::{c_char, c_int, c_long};
use std::ptr;

/// A directory listing behind a pointer that C uses as `DIR`.
#[derive(Debug)]
struct Listing {
    target_path: TargetPath,
    descriptor: c_int,
    after: Option<Cookie>,
    ahead: VecDeque<Entry>,
    ended: bool,
    /// Number of entries returned, including `.` and `..`.
    position: i64,
    entry: Box<libc::dirent64>,
}

type Dir = *mut libc::DIR;

/// Addresses of the listings of this library.
static OURS: Mutex<Option<HashSet<usize>>> = Mutex::new(None);

fn is_ours(directory: Dir) -> bool {
    if reentrancy::is_inside() {
        return false;
    }
    OURS.lock()
        .as_ref()
        .is_some_and(|ours| ours.contains(&(directory as usize)))
}

/// Returns the listing behind a pointer, if it is one of this library; as in C, one thread uses it at a time.
unsafe fn ours<'a>(directory: Dir) -> Option<&'a mut Listing> {
    is_ours(directory).then(|| unsafe { &mut *directory.cast::<Listing>() })
}

fn begin(target_path: TargetPath, descriptor: c_int) -> Dir {
    let listing = Box::new(Listing {
        target_path,
        descriptor,
        after: None,
        ahead: VecDeque::new(),
        ended: false,
        position: 0,
        // SAFETY: the structure has numbers only, for which zero is valid.
        entry: Box::new(unsafe { std::mem::zeroed() }),
    });
    let pointer: Dir = Box::into_raw(listing).cast();
    OURS.lock().get_or_insert_default().insert(pointer as usize);
    pointer
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn opendir(path: *const c_char) -> Dir {
    let Some(target_path) = (unsafe { resolve(libc::AT_FDCWD, path) }) else {
        return real!(opendir(path => *const c_char) -> Dir);
    };
    let flags = libc::O_RDONLY | libc::O_DIRECTORY | libc::O_CLOEXEC;
    let descriptor = unsafe { opening::open(path, flags, 0) };
    if descriptor < 0 {
        return ptr::null_mut();
    }
    begin(target_path, descriptor)
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn fdopendir(descriptor: c_int) -> Dir {
    match descriptors::get(descriptor) {
        Some(of) if of.file.is_none() => begin(of.target_path, descriptor),
        _ => real!(fdopendir(descriptor => c_int) -> Dir),
    }
}

impl Listing {
    /// Returns name, inode number and kind of the next entry.
    fn next(&mut self) -> Result<Option<(Vec<u8>, u64, u8)>> {
        self.position += 1;
        match self.position {
            1 => {
                let stat = self.target_path.fs()?.stat(&self.target_path.path, true)?;
                return Ok(Some((b".".to_vec(), stat.number, libc::DT_DIR)));
            }
            2 => return Ok(Some((b"..".to_vec(), 1, libc::DT_DIR))),
            _ => {}
        }
        if self.ahead.is_empty() && !self.ended {
            let more = self
                .target_path
                .fs()?
                .list(&self.target_path.path, self.after)?;
            self.ended = more.is_empty();
            self.after = more.last().map_or(self.after, |e| Some(e.cookie));
            self.ahead = more.into();
        }
        let entry = self.ahead.pop_front();
        Ok(entry.map(|e| (e.name, e.stat.number, kind(e.stat.mode))))
    }

    fn read(&mut self) -> *mut libc::dirent64 {
        let none = ptr::null_mut();
        errno::answer(none, || {
            let Some((name, number, kind)) = self.next()? else {
                return Ok(none);
            };
            let entry = &mut *self.entry;
            entry.d_ino = number;
            entry.d_off = self.position;
            entry.d_reclen = size_of::<libc::dirent64>() as u16;
            entry.d_type = kind;
            // Names fit the buffer, followed by a zero byte.
            let name = name.iter().chain([&0]);
            for (to, from) in entry.d_name.iter_mut().zip(name) {
                *to = from.cast_signed();
            }
            Ok(ptr::from_mut(entry))
        })
    }

    fn rewind(&mut self) {
        self.after = None;
        self.ahead.clear();
        self.ended = false;
        self.position = 0;
    }
}

fn kind(mode: u32) -> u8 {
    match Kind::of_mode(mode) {
        Some(Kind::File) => libc::DT_REG,
        Some(Kind::Directory) => libc::DT_DIR,
        Some(Kind::Symlink) => libc::DT_LNK,
        Some(Kind::Fifo) => libc::DT_FIFO,
        Some(Kind::Socket) => libc::DT_SOCK,
        Some(Kind::CharDevice) => libc::DT_CHR,
        Some(Kind::BlockDevice) => libc::DT_BLK,
        None => libc::DT_UNKNOWN,
    }
}

macro_rules! readdirs {
    ($($name:ident),*) => {$(
        #[unsafe(no_mangle)]
        pub unsafe extern "C" fn $name(directory: Dir) -> *mut libc::dirent64 {
            match unsafe { ours(directory) } {
                Some(listing) => listing.read(),
                None => real!($name(directory => Dir) -> *mut libc::dirent64),
            }
        }
    )*};
}
readdirs!(readdir, readdir64);

#[unsafe(no_mangle)]
pub unsafe extern "C" fn closedir(directory: Dir) -> c_int {
    if !is_ours(directory) {
        return real!(closedir(directory => Dir) -> c_int);
    }
    if let Some(ours) = OURS.lock().as_mut() {
        ours.remove(&(directory as usize));
    }
    let listing = unsafe { Box::from_raw(directory.cast::<Listing>()) };
    unsafe { descriptors::close(listing.descriptor) }
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn dirfd(directory: Dir) -> c_int {
    match unsafe { ours(directory) } {
        Some(listing) => listing.descriptor,
        None => real!(dirfd(directory => Dir) -> c_int),
    }
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn rewinddir(directory: Dir) {
    match unsafe { ours(directory) } {
        Some(listing) => listing.rewind(),
        None => real!(rewinddir(directory => Dir) -> ()),
    }
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn telldir(directory: Dir) -> c_long {
    match unsafe { ours(directory) } {
        Some(listing) => listing.position,
        None => real!(telldir(directory => Dir) -> c_long),
    }
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn seekdir(directory: Dir, place: c_long) {
    let Some(listing) = (unsafe { ours(directory) }) else {
        return real!(seekdir(directory => Dir, place => c_long) -> ());
    };
    listing.rewind();
    while listing.position < place && !listing.read().is_null() {}
}
