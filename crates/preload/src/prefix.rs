//! Prefixes and their targets: `ESKER_PRELOAD=PREFIX=TARGET[,DATA…][;PREFIX=TARGET…]`.

use crate::{descriptors, reentrancy, working_directory};
use esker_fs::{Failure, Fs, Options, Result};
use esker_model::namespace::NamePath;
use parking_lot::Mutex;
use std::ffi::{CStr, OsStr, c_char, c_int};
use std::os::unix::ffi::{OsStrExt, OsStringExt};
use std::path::PathBuf;
use std::sync::{Arc, OnceLock};

const VARIABLE: &str = "ESKER_PRELOAD";

/// A path prefix and its target.
#[derive(Debug)]
pub struct Prefix {
    at: NamePath,
    target: String,
    data: Vec<PathBuf>,
    open: Mutex<Option<Arc<Fs>>>,
}

/// A path inside a target.
#[derive(Debug, Clone)]
pub struct TargetPath {
    prefix: &'static Prefix,
    /// Path from the root of the target.
    pub path: NamePath,
}

static ALL: OnceLock<Vec<Prefix>> = OnceLock::new();

fn all() -> &'static [Prefix] {
    if let Some(all) = ALL.get() {
        return all;
    }
    let _inside = reentrancy::enter();
    ALL.get_or_init(|| {
        // In a program with more rights than its user, the user must not choose which files are used.
        let secure = unsafe { libc::getauxval(libc::AT_SECURE) } != 0;
        let said = std::env::var_os(VARIABLE).filter(|_| !secure);
        let said = said.unwrap_or_default().into_vec();
        let parts = said.split(|b| *b == b';').filter(|p| !p.is_empty());
        parts
            .filter_map(|part| parse(part).map_err(|e| complain(part, &e)).ok())
            .collect()
    })
}

/// Reports a malformed part of the variable, so that the user learns why the library has no effect.
fn complain(part: &[u8], why: &str) {
    let part = String::from_utf8_lossy(part);
    say(&format!(
        "{VARIABLE}: `{part}`: {why}; expected PREFIX=TARGET[,DATA…], as in /mnt/lab=esker://meta1:7400,/scratch/.esker-data"
    ));
}

fn say(text: &str) {
    let text = format!("libesker_preload: {text}\n");
    // If this write fails, the message cannot be reported anywhere.
    let _ = unsafe { libc::write(2, text.as_ptr().cast(), text.len()) };
}

fn parse(part: &[u8]) -> std::result::Result<Prefix, String> {
    let equals = part
        .iter()
        .position(|b| *b == b'=')
        .ok_or("there is no `=`")?;
    let (at, behind) = part.split_at(equals);
    let at = NamePath::parse(at).map_err(|e| e.to_string())?;
    if at.is_root() {
        return Err("the prefix is the root of everything".into());
    }
    let mut words = behind.get(1..).unwrap_or_default().split(|b| *b == b',');
    let target = words
        .next()
        .filter(|t| !t.is_empty())
        .ok_or("there is no target")?;
    Ok(Prefix {
        at,
        target: String::from_utf8(target.to_vec()).map_err(|_| "the target is not UTF-8")?,
        data: words.map(|w| PathBuf::from(OsStr::from_bytes(w))).collect(),
        open: Mutex::new(None),
    })
}

impl Prefix {
    /// Returns the target, opening it on first use.
    fn open(&self) -> Result<Arc<Fs>> {
        let mut open = self.open.lock();
        if let Some(fs) = &*open {
            return Ok(Arc::clone(fs));
        }
        descriptors::register_exit_handlers();
        let options = Options {
            data: self.data.clone(),
            ..Options::default()
        };
        match Fs::open(&self.target, &options) {
            Ok(fs) => {
                *open = Some(Arc::clone(&fs));
                Ok(fs)
            }
            Err(e) => {
                say(&format!("`{}` cannot be opened: {e}", self.target));
                // A failure of the target is not the error that the program's call would have.
                Err(Failure::new(libc::EIO, &self.target))
            }
        }
    }
}

/// Forgets open targets in the child of a fork, which lacks the threads that they need; the child opens them anew.
pub fn forget() {
    for prefix in all() {
        if let Some(mut open) = prefix.open.try_lock() {
            std::mem::forget(open.take());
        }
    }
}

/// Closes all open targets.
pub fn close() {
    for prefix in ALL.get().map(Vec::as_slice).unwrap_or_default() {
        let open = prefix.open.try_lock().and_then(|mut open| open.take());
        if let Some(fs) = open {
            let _ = fs.close();
        }
    }
}

impl TargetPath {
    /// Returns the open target of the path.
    pub fn fs(&self) -> Result<Arc<Fs>> {
        self.prefix.open()
    }

    /// Returns the path with its prefix, as the program sees it.
    pub fn full_path(&self) -> Vec<u8> {
        let mut whole = self.prefix.at.as_bytes().to_vec();
        if !self.path.is_root() {
            whole.extend_from_slice(self.path.as_bytes());
        }
        whole
    }

    fn join(&self, relative: &[u8]) -> Option<Self> {
        let mut whole = self.full_path();
        whole.push(b'/');
        whole.extend_from_slice(relative);
        find(&whole)
    }

    /// Whether both paths are in one target.
    pub fn is_same_target(&self, other: &Self) -> bool {
        std::ptr::eq(self.prefix, other.prefix)
    }
}

/// Finds the target of an absolute path, if the path is below a prefix.
fn find(path: &[u8]) -> Option<TargetPath> {
    let may_be = |prefix: &&Prefix| {
        let first = prefix.at.as_bytes();
        // Quick test that excludes most paths without parsing them.
        path.starts_with(first) || path.windows(2).any(|w| w == b"//" || w == b"/.")
    };
    all().iter().find(may_be)?;
    let path = NamePath::parse(path).ok()?;
    all().iter().find_map(|prefix| {
        let rest = path.as_bytes().strip_prefix(prefix.at.as_bytes())?;
        match rest.first() {
            None => Some(NamePath::root()),
            Some(b'/') => NamePath::parse(rest).ok(),
            Some(_) => None,
        }
        .map(|path| TargetPath { prefix, path })
    })
}

/// Resolves a path of the program, relative to an open directory or to the working directory; `None` if it is in no
/// target.
pub unsafe fn resolve(directory: c_int, path: *const c_char) -> Option<TargetPath> {
    if path.is_null() || reentrancy::is_inside() || all().is_empty() {
        return None;
    }
    let path = unsafe { CStr::from_ptr(path) }.to_bytes();
    let _inside = reentrancy::enter();
    match path.first() {
        None => None,
        Some(b'/') => find(path),
        Some(_) if directory == libc::AT_FDCWD => {
            if let Some(there) = working_directory::directory() {
                return there.join(path);
            }
            let mut whole = std::env::current_dir().ok()?.into_os_string().into_vec();
            whole.push(b'/');
            whole.extend_from_slice(path);
            find(&whole)
        }
        Some(_) => descriptors::directory(directory)?.join(path),
    }
}

/// Whether the path is empty, which with `AT_EMPTY_PATH` means the open file itself.
pub unsafe fn is_empty(path: *const c_char) -> bool {
    path.is_null() || unsafe { *path } == 0
}
