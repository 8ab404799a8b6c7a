//! Which files have headers to harvest: by how they begin, and where a directory is a Zarr store. And what tells that one has changed.

use flate2::read::MultiGzDecoder;
use std::ffi::OsStr;
use std::fs::{self, File, Metadata};
use std::io::{self, Read as _};
use std::os::unix::fs::{FileExt as _, MetadataExt as _};
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

/// Goes through a path and all below it, in order of names; links are not followed. Ends early where `sink` says false.
pub(super) fn walk(root: &Path, sink: &mut dyn FnMut(Met) -> bool) -> bool {
    let mut waiting = vec![root.to_owned()];
    while let Some(path) = waiting.pop() {
        let met = match step(&path, &mut waiting) {
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

fn step(path: &Path, waiting: &mut Vec<PathBuf>) -> io::Result<Option<Met>> {
    let metadata = fs::symlink_metadata(path)?;
    let kind = if metadata.is_dir() {
        let mut names = Vec::new();
        for entry in fs::read_dir(path)? {
            names.push(entry?.file_name());
        }
        let is_store = names
            .iter()
            .any(|name| ZARR_FILES.iter().any(|file| name == file));
        if !is_store {
            // The last one is taken first.
            names.sort_unstable_by(|a, b| b.cmp(a));
            waiting.extend(names.iter().map(|name| path.join(name)));
            return Ok(None);
        }
        Ok(Kind::Zarr)
    } else if metadata.is_file() {
        match (kind_of(path, metadata.len())?, Kind::of_name(path)) {
            (Some(kind), _) => Ok(kind),
            (None, Some(kind)) => Err(kind),
            (None, None) => return Ok(None),
        }
    } else {
        return Ok(None);
    };
    let kind = match kind {
        Ok(kind) => kind,
        Err(named) => {
            let text = format!(
                "{}: named like {}, but it does not begin like one",
                path.display(),
                named.name()
            );
            return Ok(Some(Met::Trouble(text)));
        }
    };
    let Some(text) = path.to_str() else {
        let text = format!("{}: its path is not UTF-8", path.display());
        return Ok(Some(Met::Trouble(text)));
    };
    let stamp = match kind {
        Kind::Zarr => store_stamp(path)?,
        Kind::Fits | Kind::Hdf5 | Kind::Netcdf => stamp(&metadata),
    };
    Ok(Some(Met::Candidate(Candidate {
        path: text.to_owned(),
        kind,
        about: about(&metadata),
        stamp,
    })))
}

fn about(metadata: &Metadata) -> About {
    About {
        size: metadata.len(),
        mode: metadata.mode() & 0o777,
        uid: metadata.uid(),
        gid: metadata.gid(),
        mtime: metadata
            .mtime()
            .saturating_mul(1_000_000_000)
            .saturating_add(metadata.mtime_nsec()),
    }
}

fn stamp(metadata: &Metadata) -> String {
    format!(
        "{}-{}.{:09}-{}",
        metadata.len(),
        metadata.mtime(),
        metadata.mtime_nsec(),
        metadata.ino()
    )
}

/// Of all files with metadata in a store: its own directory does not change when one of them does.
fn store_stamp(root: &Path) -> io::Result<String> {
    let (mut files, mut newest, mut mixed) = (0_u64, (0, 0), 0_u64);
    let mut waiting = vec![root.to_owned()];
    while let Some(directory) = waiting.pop() {
        let mut array = false;
        for name in ZARR_FILES {
            let path = directory.join(name);
            let Ok(metadata) = fs::metadata(&path) else {
                continue;
            };
            files += 1;
            newest = newest.max((metadata.mtime(), metadata.mtime_nsec()));
            let time = metadata.mtime().wrapping_mul(1_000_000_007) ^ metadata.mtime_nsec();
            // A sum does not depend on the order in which a directory is listed.
            mixed = mixed.wrapping_add(
                (metadata.ino() ^ metadata.len().rotate_left(32) ^ time.cast_unsigned())
                    .wrapping_mul(0x9E37_79B9_7F4A_7C15),
            );
            array |= name == ".zarray" || (name == "zarr.json" && is_array(&path));
        }
        // Below an array are its chunks, and those may be millions.
        if !array {
            for entry in fs::read_dir(&directory)? {
                let entry = entry?;
                if entry.file_type()?.is_dir() {
                    waiting.push(entry.path());
                }
            }
        }
    }
    Ok(format!("{files}-{}.{:09}-{mixed:016x}", newest.0, newest.1))
}

fn is_array(path: &Path) -> bool {
    let text = fs::read(path).unwrap_or_default();
    let document: serde_json::Value = serde_json::from_slice(&text).unwrap_or_default();
    document["node_type"] == "array"
}

/// What a file is by its first bytes.
fn kind_of(path: &Path, size: u64) -> io::Result<Option<Kind>> {
    if size < 4 {
        return Ok(None);
    }
    let file = File::open(path)?;
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
    use std::io::Write as _;

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
        let before = store_stamp(&store).unwrap();
        assert_eq!(before, store_stamp(&store).unwrap());
        fs::write(store.join("t/.zarray"), "{\"longer\":1}").unwrap();
        assert_ne!(before, store_stamp(&store).unwrap());
    }
}
