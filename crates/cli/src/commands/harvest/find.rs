//! Files with headers to harvest, detected by their first bytes, and directories that are Zarr stores; and the stamps that tell whether
//! they have changed.
//!
//! Files below a path may belong to other users and may be replaced at any time. So files are opened without following links, and owner,
//! readers and content are those of the open file ([`HarvestSource`]).

use super::readers::{Access, Groups, Rights};
use crate::nofollow::{self, OpenedFile};
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

/// Offsets at which an HDF5 file may begin, after a block of the program that wrote it.
const HDF5_OFFSETS: [usize; 4] = [0, 512, 1024, 2048];
/// Metadata files in the directory of a Zarr store.
const ZARR_FILES: [&str; 5] = [".zgroup", ".zarray", ".zattrs", ".zmetadata", "zarr.json"];

/// File format of a header.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Kind {
    Fits,
    Hdf5,
    Netcdf,
    Zarr,
}

impl Kind {
    /// Returns the name of the format, in tags and for the reader process.
    pub(super) fn name(self) -> &'static str {
        match self {
            Self::Fits => "fits",
            Self::Hdf5 => "hdf5",
            Self::Netcdf => "netcdf",
            Self::Zarr => "zarr",
        }
    }

    /// Returns the Python library that reads the format, as `pip` names it.
    pub(super) fn library(self) -> &'static str {
        match self {
            Self::Fits => "astropy",
            Self::Hdf5 => "h5py",
            Self::Netcdf => "netCDF4",
            Self::Zarr => "zarr",
        }
    }

    /// Returns the format that a file name implies, if nothing else uses such names.
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

/// A file or a store with a header to read.
#[derive(Debug, Clone)]
pub(super) struct Candidate {
    /// Absolute path; UTF-8, as a vertex's key must be.
    pub(super) path: String,
    pub(super) kind: Kind,
    /// Attributes of the file, or of the store's directory.
    pub(super) about: Attributes,
    /// Text that changes when the file does.
    pub(super) stamp: String,
}

/// Attributes of a file.
#[derive(Debug, Clone, Copy)]
pub(super) struct Attributes {
    pub(super) size: u64,
    /// Permission bits, without those of users who cannot reach the file.
    pub(super) mode: u32,
    pub(super) uid: u32,
    pub(super) gid: u32,
    /// Time of the last change, in nanoseconds since 1970.
    pub(super) mtime: i64,
}

/// A result of a directory traversal.
pub(super) enum Visited {
    /// A file or a store to harvest.
    Candidate(Candidate),
    /// Message about a file or a directory that cannot be read or does not have the format of its name.
    Problem(String),
}

/// An open file or store with its attributes.
pub(super) struct HarvestSource {
    pub(super) about: Attributes,
    pub(super) stamp: String,
    /// Path for the reader: the open file, even if its path was replaced; for a store, copies of its metadata files.
    pub(super) at: PathBuf,
    /// Keeps the content of that path alive.
    _content: OpenContent,
}

enum OpenContent {
    #[expect(dead_code, reason = "it is open as long as this is there")]
    File(File),
    #[expect(dead_code, reason = "it is removed when this goes")]
    Store(tempfile::TempDir),
}

impl HarvestSource {
    /// Opens the present content of a path.
    pub(super) fn open(path: &Path, kind: Kind, groups: &mut Groups) -> anyhow::Result<Self> {
        if kind == Kind::Zarr {
            let store = nofollow::folder(path)?;
            let copy = tempfile::tempdir().context("making a folder for a store's metadata")?;
            let seen = scan_store(&store.file, Some(copy.path()))?;
            return Ok(Self {
                about: about(&store, &seen.accesses, groups),
                stamp: seen.stamp,
                at: copy.path().to_owned(),
                _content: OpenContent::Store(copy),
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
            _content: OpenContent::File(opened.file),
        })
    }
}

/// Visits a path and everything below it, in order of names, without following links. Stops if `sink` returns false.
pub(super) fn walk(root: &Path, sink: &mut dyn FnMut(Visited) -> bool) -> bool {
    let mut groups = Groups::default();
    let mut waiting = vec![root.to_owned()];
    while let Some(path) = waiting.pop() {
        let met = match step(&path, &mut waiting, &mut groups) {
            Ok(met) => met,
            // The entry was removed after the directory was listed.
            Err(e) if e.kind() == io::ErrorKind::NotFound && path != root => None,
            Err(e) => Some(Visited::Problem(format!("{}: {e}", path.display()))),
        };
        if !met.is_none_or(&mut *sink) {
            return false;
        }
    }
    true
}

fn step(
    path: &Path,
    waiting: &mut Vec<PathBuf>,
    groups: &mut Groups,
) -> io::Result<Option<Visited>> {
    let metadata = fs::symlink_metadata(path)?;
    let (kind, about, stamp) = if metadata.is_dir() {
        let store = nofollow::folder(path)?;
        let mut names = names_in(&store.file)?;
        let is_store = names
            .iter()
            .any(|(name, _)| ZARR_FILES.iter().any(|file| name == file));
        if !is_store {
            // The list is a stack.
            names.sort_unstable_by(|a, b| b.0.cmp(&a.0));
            waiting.extend(names.iter().map(|(name, _)| path.join(name)));
            return Ok(None);
        }
        let seen = scan_store(&store.file, None)?;
        (
            Kind::Zarr,
            about(&store, &seen.accesses, groups),
            seen.stamp,
        )
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
                return Ok(Some(Visited::Problem(text)));
            }
            (None, None) => return Ok(None),
        };
        (kind, about(&opened, &[], groups), stamp(&opened.stat))
    } else {
        return Ok(None);
    };
    let Some(text) = path.to_str() else {
        let text = format!("{}: its path is not UTF-8", path.display());
        return Ok(Some(Visited::Problem(text)));
    };
    Ok(Some(Visited::Candidate(Candidate {
        path: text.to_owned(),
        kind,
        about,
        stamp,
    })))
}

/// Returns the attributes of an open file. `inside`: the folders to search and files to read within a store.
fn about(opened: &OpenedFile, inside: &[Access], groups: &mut Groups) -> Attributes {
    let stat = &opened.stat;
    let above = opened.above.iter().map(|s| Access::Search(s.into()));
    let accesses: Vec<Access> = above.chain(inside.iter().copied()).collect();
    Attributes {
        size: u64::try_from(stat.st_size).unwrap_or(0),
        mode: groups.effective(Rights::from(stat), &accesses),
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

/// Returns the entries of a folder with their types.
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

/// Result of a scan of a store.
struct StoreScan {
    /// Text that changes when a metadata file does, which does not change the store's own directory.
    stamp: String,
    /// Folders to search and files to read for all of the metadata.
    accesses: Vec<Access>,
}

/// Scans the metadata files of a store, and copies them into a folder if one is given. Links are an error, because they would lead out of
/// the store.
fn scan_store(store: &File, copy: Option<&Path>) -> io::Result<StoreScan> {
    let (mut files, mut newest, mut mixed, mut bytes) = (0_u64, (0, 0), 0_u64, 0_u64);
    let mut accesses = Vec::new();
    let mut note = |step: Access| {
        if !accesses.contains(&step) {
            accesses.push(step);
        }
    };
    let mut waiting = vec![(store.try_clone()?, PathBuf::new())];
    while let Some((directory, place)) = waiting.pop() {
        let stat = rustix::fs::fstat(&directory)?;
        note(Access::Search((&stat).into()));
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
            note(Access::Read((&stat).into()));
            files += 1;
            let time = (
                stat.st_mtime,
                i64::try_from(stat.st_mtime_nsec).unwrap_or(0),
            );
            newest = newest.max(time);
            let time = time.0.wrapping_mul(1_000_000_007) ^ time.1;
            let size = u64::try_from(stat.st_size).unwrap_or(0);
            // The sum does not depend on the order of the directory.
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
        // Below an array are only its chunks, possibly millions.
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
    Ok(StoreScan {
        stamp: format!("{files}-{}.{:09}-{mixed:016x}", newest.0, newest.1),
        accesses,
    })
}

/// `ENOTDIR`.
const NO_FOLDER: i32 = 20;
/// Maximum size of all metadata files of a store, in bytes.
const METADATA_BYTES_MAX: u64 = 256 << 20;

/// Reads a metadata file; `sum` is the size of all metadata files so far, in bytes.
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

/// Returns the format of a file by its first bytes.
fn kind_of(opened: &OpenedFile) -> io::Result<Option<Kind>> {
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

/// Checks the first card, and the second if present: plain texts of cards with line ends are not FITS files.
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
                Visited::Candidate(c) => c.path,
                Visited::Problem(text) => text,
            });
            true
        }));
        assert_eq!(met.len(), 2, "{met:?}");
        assert!(met[0].ends_with("a.zarr"), "{met:?}");
        assert!(met[1].contains("named like fits"), "{met:?}");
        let seen = || scan_store(&File::open(&store).unwrap(), None).unwrap();
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
        scan_store(&open(), Some(&copy)).unwrap();
        assert_eq!(fs::read(copy.join("t/.zarray")).unwrap(), b"array");
        assert!(!copy.join("t/0.0").exists());
        std::os::unix::fs::symlink("/etc/hostname", store.join(".zattrs")).unwrap();
        let why = scan_store(&open(), None).err().unwrap().to_string();
        assert!(
            why.contains(".zattrs") && why.contains("not a regular file"),
            "{why}"
        );
    }
}
