//! Which paths are of which target: `ESKER_PRELOAD=PREFIX=TARGET[,DATA…][;PREFIX=TARGET…]`.

use crate::{descriptors, inside, working};
use esker_fs::{Failure, Fs, Options, Result};
use esker_model::namespace::NamePath;
use parking_lot::Mutex;
use std::ffi::{CStr, OsStr, c_char, c_int};
use std::os::unix::ffi::{OsStrExt, OsStringExt};
use std::path::PathBuf;
use std::sync::{Arc, OnceLock};

const VARIABLE: &str = "ESKER_PRELOAD";

/// A prefix, and what is below it.
#[derive(Debug)]
pub struct Prefix {
    at: NamePath,
    target: String,
    data: Vec<PathBuf>,
    open: Mutex<Option<Arc<Fs>>>,
}

/// A path of a target.
#[derive(Debug, Clone)]
pub struct Below {
    prefix: &'static Prefix,
    /// From the target's root.
    pub path: NamePath,
}

static ALL: OnceLock<Vec<Prefix>> = OnceLock::new();

fn all() -> &'static [Prefix] {
    if let Some(all) = ALL.get() {
        return all;
    }
    let _inside = inside::enter();
    ALL.get_or_init(|| {
        // Whoever starts a program that has more rights than they do is not to say which files it uses.
        let secure = unsafe { libc::getauxval(libc::AT_SECURE) } != 0;
        let said = std::env::var_os(VARIABLE).filter(|_| !secure);
        let said = said.unwrap_or_default().into_vec();
        let parts = said.split(|b| *b == b';').filter(|p| !p.is_empty());
        parts
            .filter_map(|part| parse(part).map_err(|e| complain(part, &e)).ok())
            .collect()
    })
}

/// Somebody who preloads a library wants to know why nothing happens.
fn complain(part: &[u8], why: &str) {
    let part = String::from_utf8_lossy(part);
    say(&format!(
        "{VARIABLE}: `{part}`: {why}; expected PREFIX=TARGET[,DATA…], as /mnt/lab=esker://meta1:7400,/scratch/.esker-data"
    ));
}

fn say(text: &str) {
    let text = format!("libesker_preload: {text}\n");
    // Nobody is left to tell if that fails.
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
        target: String::from_utf8(target.to_vec()).map_err(|_| "the target is no UTF-8")?,
        data: words.map(|w| PathBuf::from(OsStr::from_bytes(w))).collect(),
        open: Mutex::new(None),
    })
}

impl Prefix {
    /// The target, opened by who asks first.
    fn open(&self) -> Result<Arc<Fs>> {
        let mut open = self.open.lock();
        if let Some(fs) = &*open {
            return Ok(Arc::clone(fs));
        }
        descriptors::at_the_end();
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
                // What the target lacks is not what the program asked for.
                Err(Failure::new(libc::EIO, &self.target))
            }
        }
    }
}

/// The child of a fork has none of the threads that its parent's targets need: it opens them anew.
pub fn forget() {
    for prefix in all() {
        if let Some(mut open) = prefix.open.try_lock() {
            std::mem::forget(open.take());
        }
    }
}

/// All targets are let go of.
pub fn close() {
    for prefix in ALL.get().map(Vec::as_slice).unwrap_or_default() {
        let open = prefix.open.try_lock().and_then(|mut open| open.take());
        if let Some(fs) = open {
            let _ = fs.close();
        }
    }
}

impl Below {
    /// The target.
    pub fn fs(&self) -> Result<Arc<Fs>> {
        self.prefix.open()
    }

    /// The whole path, as the program says it.
    pub fn whole(&self) -> Vec<u8> {
        let mut whole = self.prefix.at.as_bytes().to_vec();
        if !self.path.is_root() {
            whole.extend_from_slice(self.path.as_bytes());
        }
        whole
    }

    fn join(&self, relative: &[u8]) -> Option<Self> {
        let mut whole = self.whole();
        whole.push(b'/');
        whole.extend_from_slice(relative);
        find(&whole)
    }

    /// Whether both are of one target.
    pub fn is_beside(&self, other: &Self) -> bool {
        std::ptr::eq(self.prefix, other.prefix)
    }
}

/// The target and path of a whole path, if it is below any prefix.
fn find(path: &[u8]) -> Option<Below> {
    let may_be = |prefix: &&Prefix| {
        let first = prefix.at.as_bytes();
        // Most paths are told apart without taking them apart.
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
        .map(|path| Below { prefix, path })
    })
}

/// What a path leads to that a program says: from a directory that is open, or from where it is.
pub unsafe fn resolve(directory: c_int, path: *const c_char) -> Option<Below> {
    if path.is_null() || inside::is() || all().is_empty() {
        return None;
    }
    let path = unsafe { CStr::from_ptr(path) }.to_bytes();
    let _inside = inside::enter();
    match path.first() {
        None => None,
        Some(b'/') => find(path),
        Some(_) if directory == libc::AT_FDCWD => {
            if let Some(there) = working::directory() {
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

/// The same, where a path that is empty means what is open itself (`AT_EMPTY_PATH`).
pub unsafe fn is_empty(path: *const c_char) -> bool {
    path.is_null() || unsafe { *path } == 0
}
