//! Which files have headers to harvest: by how they begin, and where a directory is a Zarr store. And what tells that one has changed.
//!
//! What lies below a path may be other users', and may be exchanged while it is looked at. So files are opened without following links, and whose
//! they are and who can read them is asked of what was opened ([`Source`]), which is also what is read.

use super::readers::{Groups, Rights, Step};
use crate::nofollow::{self, Opened};
use anyhow::Context as _;
use flate2::read::MultiGzDecoder;
use rustix::fs::{Dir, FileType, Stat};
use std::ffi::{OsStr, OsString};
use std::fs::{self, File};
use std::io::{self, Read as _, Write as _};
use std::os::fd::AsRawFd as _;
use std::os::unix::ffi::{OsStrExt as _, OsStringExt as _};
use std::os::unix::fs::FileExt as _;
use std::path::{Path, PathBuf};

/// Where an HDF5 file may begin: a program may have put something of its own before it.
const HDF5_OFFSETS: [usize; 4] = [0, 512, 1024, 2048];
/// What a Zarr store has in its own directory.
const ZARR_FILES: [&str; 5] = [".zgroup", ".zarray", ".zattrs", ".zmetadata", "zarr.json"];

/// What a file is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Kind {
    Fits,
    Hdf5,
    Netcdf,
    Zarr,
}

impl Kind {
    /// Its name in tags, and for the reader.
    pub(super) fn name(self) -> &'static str {
        match self {
            Self::Fits => "fits",
            Self::Hdf5 => "hdf5",
            Self::Netcdf => "netcdf",
            Self::Zarr => "zarr",
        }
    }

    /// What reads it, as `pip` calls it.
    pub(super) fn library(self) -> &'static str {
        match self {
            Self::Fits => "astropy",
            Self::Hdf5 => "h5py",
            Self::Netcdf => "netCDF4",
            Self::Zarr => "zarr",
        }
    }

    /// What a name lets one expect; only where nothing else is stored under such names.
    fn of_name(path: &Path) -> Option<Self> {
        let ending = path.extension().and_then(OsStr::to_str)?;
        match ending.to_ascii_lowercase().as_str() {
            "fits" => Some(Self::Fits),
            "h5" | "hdf5" => Some(Self::Hdf5),
            "nc" | "nc4" => Some(Self::Netcdf),
            _ => None,
        }
    }
}

/// A file or a store whose header is to be read.
#[derive(Debug, Clone)]
pub(super) struct Candidate {
    /// Absolute; text, as a vertex's key has to be.
    pub(super) path: String,
    pub(super) kind: Kind,
    /// Of the file, or of the store's directory.
    pub(super) about: About,
    /// Changes when the file does.
    pub(super) stamp: String,
}

/// What the file system says of it.
#[derive(Debug, Clone, Copy)]
pub(super) struct About {
    pub(super) size: u64,
    /// Its permission bits, less those of whoever does not get to it.
    pub(super) mode: u32,
    pub(super) uid: u32,
    pub(super) gid: u32,
    /// Nanoseconds since 1970.
    pub(super) mtime: i64,
}

/// What a walk comes upon.
pub(super) enum Met {
    /// To be harvested.
    Candidate(Candidate),
    /// A file or a directory that could not be looked at, or is not what its name says.
    Trouble(String),
}

/// A file or a store that is open to be read, and what it is.
pub(super) struct Source {
    pub(super) about: About,
    pub(super) stamp: String,
    /// What its reader opens: the open file, whatever its path leads to by now; of a store, copies of the files with metadata.
    pub(super) at: PathBuf,
    /// Keeps what is at that path.
    _held: Held,
}

enum Held {
    #[expect(dead_code, reason = "it is open as long as this is there")]
    File(File),
    #[expect(dead_code, reason = "it is removed when this goes")]
    Store(tempfile::TempDir),
}

impl Source {
    /// Opens what is at a path now.
    pub(super) fn open(path: &Path, kind: Kind, groups: &mut Groups) -> anyhow::Result<Self> {
        if kind == Kind::Zarr {
            let store = nofollow::folder(path)?;
            let copy = tempfile::tempdir().context("making a folder for a store's metadata")?;
            let seen = look_through(&store.file, Some(copy.path()))?;
            return Ok(Self {
                about: about(&store, &seen.way, groups),
                stamp: seen.stamp,
                at: copy.path().to_owned(),
                _held: Held::Store(copy),
            });
        }
        let opened = nofollow::file(path)?;
        let at = format!(
            "/proc/{}/fd/{}",
            std::process::id(),
            opened.file.as_raw_fd()
        );
        Ok(Self {
            about: about(&opened, &[], groups),
            stamp: stamp(&opened.stat),
            at: at.into(),
            _held: Held::File(opened.file),
        })
    }
}

/// Goes through a path and all below it, in order of names; links are not followed. Ends early where `sink` says false.
pub(super) fn walk(root: &Path, sink: &mut dyn FnMut(Met) -> bool) -> bool {
    let mut groups = Groups::default();
    let mut waiting = vec![root.to_owned()];
    while let Some(path) = waiting.pop() {
        let met = match step(&path, &mut waiting, &mut groups) {
            Ok(met) => met,
            // It went between being listed and being looked at.
            Err(e) if e.kind() == io::ErrorKind::NotFound && path != root => None,
            Err(e) => Some(Met::Trouble(format!("{}: {e}", path.display()))),
        };
        if !met.is_none_or(&mut *sink) {
            return false;
        }
    }
    true
}

fn step(path: &Path, waiting: &mut Vec<PathBuf>, groups: &mut Groups) -> io::Result<Option<Met>> {
    let metadata = fs::symlink_metadata(path)?;
    let (kind, about, stamp) = if metadata.is_dir() {
        let store = nofollow::folder(path)?;
        let mut names = names_in(&store.file)?;
        let is_store = names
            .iter()
            .any(|(name, _)| ZARR_FILES.iter().any(|file| name == file));
        if !is_store {
            // The last one is taken first.
            names.sort_unstable_by(|a, b| b.0.cmp(&a.0));
            waiting.extend(names.iter().map(|(name, _)| path.join(name)));
            return Ok(None);
        }
        let seen = look_through(&store.file, None)?;
        (Kind::Zarr, about(&store, &seen.way, groups), seen.stamp)
    } else if metadata.is_file() {
        let opened = nofollow::file(path)?;
        let kind = match (kind_of(&opened)?, Kind::of_name(path)) {
            (Some(kind), _) => kind,
            (None, Some(named)) => {
                let text = format!(
                    "{}: named like {}, but it does not begin like one",
                    path.display(),
                    named.name()
                );
                return Ok(Some(Met::Trouble(text)));
            }
            (None, None) => return Ok(None),
        };
        (kind, about(&opened, &[], groups), stamp(&opened.stat))
    } else {
        return Ok(None);
    };
    let Some(text) = path.to_str() else {
        let text = format!("{}: its path is not UTF-8", path.display());
        return Ok(Some(Met::Trouble(text)));
    };
    Ok(Some(Met::Candidate(Candidate {
        path: text.to_owned(),
        kind,
        about,
        stamp,
    })))
}

/// `inside`: what has to be read of a store, and searched in it.
fn about(opened: &Opened, inside: &[Step], groups: &mut Groups) -> About {
    let stat = &opened.stat;
    let above = opened.above.iter().map(|s| Step::Search(s.into()));
    let way: Vec<Step> = above.chain(inside.iter().copied()).collect();
    About {
        size: u64::try_from(stat.st_size).unwrap_or(0),
        mode: groups.effective(Rights::from(stat), &way),
        uid: stat.st_uid,
        gid: stat.st_gid,
        mtime: stat
            .st_mtime
            .saturating_mul(1_000_000_000)
            .saturating_add(i64::try_from(stat.st_mtime_nsec).unwrap_or(0)),
    }
}

fn stamp(stat: &Stat) -> String {
    format!(
        "{}-{}.{:09}-{}",
        stat.st_size, stat.st_mtime, stat.st_mtime_nsec, stat.st_ino
    )
}

/// What lies in a folder, with what the listing says that it is.
fn names_in(folder: &File) -> io::Result<Vec<(OsString, FileType)>> {
    let mut names = Vec::new();
    for entry in Dir::read_from(folder)? {
        let entry = entry?;
        let name = entry.file_name().to_bytes();
        if name != b"." && name != b".." {
            names.push((OsString::from_vec(name.to_vec()), entry.file_type()));
        }
    }
    Ok(names)
}

/// What there is to a store.
struct Seen {
    /// Changes when a file with metadata does: the store's own directory does not change then.
    stamp: String,
    /// What one has to read and to search for the whole of its metadata.
    way: Vec<Step>,
}

/// Goes through the files with metadata of a store, and copies them below a folder if one is given. Links in it are an error: they would
/// lead to what is not the store's.
fn look_through(store: &File, copy: Option<&Path>) -> io::Result<Seen> {
    let (mut files, mut newest, mut mixed, mut bytes) = (0_u64, (0, 0), 0_u64, 0_u64);
    let mut way = Vec::new();
    let mut note = |step: Step| {
        if !way.contains(&step) {
            way.push(step);
        }
    };
    let mut waiting = vec![(store.try_clone()?, PathBuf::new())];
    while let Some((directory, place)) = waiting.pop() {
        let stat = rustix::fs::fstat(&directory)?;
        note(Step::Search((&stat).into()));
        let mut array = false;
        for name in ZARR_FILES {
            let (file, stat) = match nofollow::file_at(&directory, OsStr::new(name)) {
                Ok(opened) => opened,
                Err(e) if e.kind() == io::ErrorKind::NotFound => continue,
                Err(e) => {
                    let named = place.join(name);
                    return Err(io::Error::new(
                        e.kind(),
                        format!("{} in it: {e}", named.display()),
                    ));
                }
            };
            note(Step::Read((&stat).into()));
            files += 1;
            let time = (
                stat.st_mtime,
                i64::try_from(stat.st_mtime_nsec).unwrap_or(0),
            );
            newest = newest.max(time);
            let time = time.0.wrapping_mul(1_000_000_007) ^ time.1;
            let size = u64::try_from(stat.st_size).unwrap_or(0);
            // A sum does not depend on the order in which a directory is listed.
            mixed = mixed.wrapping_add(
                (stat.st_ino ^ size.rotate_left(32) ^ time.cast_unsigned())
                    .wrapping_mul(0x9E37_79B9_7F4A_7C15),
            );
            let text = if copy.is_some() || name == "zarr.json" {
                bytes = bytes.saturating_add(size);
                metadata(file, bytes)?
            } else {
                Vec::new()
            };
            array |= name == ".zarray" || (name == "zarr.json" && is_array(&text));
            if let Some(copy) = copy {
                let folder = copy.join(&place);
                fs::create_dir_all(&folder)?;
                fs::OpenOptions::new()
                    .write(true)
                    .create_new(true)
                    .open(folder.join(name))?
                    .write_all(&text)?;
            }
        }
        // Below an array are its chunks, and those may be millions.
        if !array {
            for (name, kind) in names_in(&directory)? {
                let hidden = name.as_bytes().starts_with(b".z");
                if hidden || !matches!(kind, FileType::Directory | FileType::Unknown) {
                    continue;
                }
                match nofollow::folder_at(&directory, &name) {
                    Ok((inner, _)) => waiting.push((inner, place.join(&name))),
                    Err(e) if kind == FileType::Unknown && e.raw_os_error() == Some(NO_FOLDER) => {}
                    Err(e) => return Err(e),
                }
            }
        }
    }
    Ok(Seen {
        stamp: format!("{files}-{}.{:09}-{mixed:016x}", newest.0, newest.1),
        way,
    })
}

/// `ENOTDIR`.
const NO_FOLDER: i32 = 20;
/// Bytes of all files with metadata of a store, at most.
const METADATA_BYTES_MAX: u64 = 256 << 20;

/// The bytes of a file with metadata. `sum`: of all of them so far, by their sizes.
fn metadata(file: File, sum: u64) -> io::Result<Vec<u8>> {
    let mut text = Vec::new();
    file.take(METADATA_BYTES_MAX + 1).read_to_end(&mut text)?;
    if sum.max(text.len() as u64) > METADATA_BYTES_MAX {
        return Err(io::Error::new(
            io::ErrorKind::FileTooLarge,
            format!("its metadata has more than {METADATA_BYTES_MAX} bytes"),
        ));
    }
    Ok(text)
}

fn is_array(text: &[u8]) -> bool {
    let document: serde_json::Value = serde_json::from_slice(text).unwrap_or_default();
    document["node_type"] == "array"
}

/// What a file is by its first bytes.
fn kind_of(opened: &Opened) -> io::Result<Option<Kind>> {
    let file = &opened.file;
    if opened.stat.st_size < 4 {
        return Ok(None);
    }
    let mut bytes = [0; 2056];
    let mut filled = 0;
    while filled < bytes.len() {
        let read = file.read_at(&mut bytes[filled..], filled as u64)?;
        if read == 0 {
            break;
        }
        filled += read;
    }
    Ok(kind_of_bytes(&bytes[..filled]))
}

fn kind_of_bytes(bytes: &[u8]) -> Option<Kind> {
    let hdf5 = |at: &usize| {
        bytes
            .get(*at..)
            .is_some_and(|b| b.starts_with(b"\x89HDF\r\n\x1a\n"))
    };
    if is_fits(bytes) {
        Some(Kind::Fits)
    } else if HDF5_OFFSETS.iter().any(hdf5) {
        Some(Kind::Hdf5)
    } else if matches!(bytes, [b'C', b'D', b'F', 1 | 2 | 5, ..]) {
        Some(Kind::Netcdf)
    } else if bytes.starts_with(&[0x1f, 0x8b]) {
        let mut first = [0; 9];
        let unpacked = MultiGzDecoder::new(bytes).read_exact(&mut first);
        (unpacked.is_ok() && is_fits(&first)).then_some(Kind::Fits)
    } else {
        None
    }
}

/// Its first card, and its second one where that one has to stand: texts of cards with line ends are no FITS files.
fn is_fits(bytes: &[u8]) -> bool {
    let second = bytes.get(80..86);
    bytes.starts_with(b"SIMPLE  =") && second.is_none_or(|s| s == b"BITPIX")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn files_are_told_by_how_they_begin() {
        assert_eq!(
            kind_of_bytes(b"SIMPLE  =                    T"),
            Some(Kind::Fits)
        );
        assert_eq!(kind_of_bytes(b"\x89HDF\r\n\x1a\n\0\0"), Some(Kind::Hdf5));
        let mut behind_a_block = vec![b'x'; 1024];
        behind_a_block.extend_from_slice(b"\x89HDF\r\n\x1a\n");
        assert_eq!(kind_of_bytes(&behind_a_block), Some(Kind::Hdf5));
        assert_eq!(kind_of_bytes(b"CDF\x02\0\0"), Some(Kind::Netcdf));
        assert_eq!(kind_of_bytes(b"CDF\x03\0\0"), None);
        let mut packer = flate2::write::GzEncoder::new(Vec::new(), flate2::Compression::fast());
        packer.write_all(&[b'a'; 100]).unwrap();
        assert_eq!(kind_of_bytes(&packer.finish().unwrap()), None);
        let mut packer = flate2::write::GzEncoder::new(Vec::new(), flate2::Compression::fast());
        packer.write_all(b"SIMPLE  =                    T").unwrap();
        assert_eq!(kind_of_bytes(&packer.finish().unwrap()), Some(Kind::Fits));
        assert_eq!(kind_of_bytes(b"\x89HDF"), None);
    }

    #[test]
    fn a_store_is_met_once_and_its_stamp_follows_its_metadata() {
        let folder = tempfile::tempdir().unwrap();
        let store = folder.path().join("a.zarr");
        fs::create_dir_all(store.join("t/c")).unwrap();
        fs::write(store.join(".zgroup"), "{\"zarr_format\":2}").unwrap();
        fs::write(store.join("t/.zarray"), "{}").unwrap();
        fs::write(folder.path().join("x.fits"), "nothing").unwrap();
        let mut met = Vec::new();
        assert!(walk(folder.path(), &mut |m| {
            met.push(match m {
                Met::Candidate(c) => c.path,
                Met::Trouble(text) => text,
            });
            true
        }));
        assert_eq!(met.len(), 2, "{met:?}");
        assert!(met[0].ends_with("a.zarr"), "{met:?}");
        assert!(met[1].contains("named like fits"), "{met:?}");
        let seen = || look_through(&File::open(&store).unwrap(), None).unwrap();
        let before = seen().stamp;
        assert_eq!(before, seen().stamp);
        fs::write(store.join("t/.zarray"), "{\"longer\":1}").unwrap();
        assert_ne!(before, seen().stamp);
    }

    #[test]
    fn a_store_is_copied_without_its_data_and_has_no_links() {
        let folder = tempfile::tempdir().unwrap();
        let (store, copy) = (folder.path().join("a.zarr"), folder.path().join("copy"));
        fs::create_dir_all(store.join("t/c")).unwrap();
        fs::create_dir(&copy).unwrap();
        fs::write(store.join(".zgroup"), "group").unwrap();
        fs::write(store.join("t/.zarray"), "array").unwrap();
        fs::write(store.join("t/0.0"), "data").unwrap();
        let open = || File::open(&store).unwrap();
        look_through(&open(), Some(&copy)).unwrap();
        assert_eq!(fs::read(copy.join("t/.zarray")).unwrap(), b"array");
        assert!(!copy.join("t/0.0").exists());
        std::os::unix::fs::symlink("/etc/hostname", store.join(".zattrs")).unwrap();
        let why = look_through(&open(), None).err().unwrap().to_string();
        assert!(
            why.contains(".zattrs") && why.contains("no regular file"),
            "{why}"
        );
    }
}
