//! Input files of RDF data: format, compression, and files of a folder.

use esker_model::{Error, Result};
use esker_rdf::RdfFormat;
use std::fs::{self, File};
use std::io::{BufReader, Read};
use std::path::{Path, PathBuf};

/// Extensions of the files that can be read, for messages.
pub const ENDINGS: &str =
    ".nt, .nq, .ttl, .trig, .rdf, .owl, .xml, .jsonld, each also with .gz or .zst";

/// RDF format by a file's extension.
pub fn format_of(path: &Path) -> Option<RdfFormat> {
    let name = path.file_name()?.to_str()?.to_ascii_lowercase();
    let name = name
        .strip_suffix(".gz")
        .or_else(|| name.strip_suffix(".zst"))
        .unwrap_or(&name);
    let (_, ending) = name.rsplit_once('.')?;
    match ending {
        "owl" => Some(RdfFormat::RdfXml),
        ending => RdfFormat::from_extension(ending),
    }
}

/// Opens a file and decompresses it while reading.
pub fn open(path: &Path) -> Result<Box<dyn Read>> {
    let file =
        File::open(path).map_err(|e| Error::io(format!("opening `{}`", path.display()), e))?;
    let packing = path
        .extension()
        .map(|e| e.to_string_lossy().to_ascii_lowercase())
        .unwrap_or_default();
    let packing = match packing.as_str() {
        "gz" => Compression::Gzip,
        "zst" => Compression::Zstd,
        _ => return Ok(Box::new(file)),
    };
    unpacked(Box::new(file), packing)
        .map_err(|e| Error::Invalid(format!("`{}`: {e}", path.display())))
}

/// Compression of an input file.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Compression {
    /// Uncompressed bytes.
    None,
    /// Compressed by gzip.
    Gzip,
    /// Compressed by zstd.
    Zstd,
}

/// Decompresses bytes while reading.
pub fn unpacked<'a>(from: Box<dyn Read + 'a>, packing: Compression) -> Result<Box<dyn Read + 'a>> {
    const BUFFER: usize = 1 << 18;
    Ok(match packing {
        Compression::None => from,
        Compression::Gzip => Box::new(flate2::bufread::MultiGzDecoder::new(
            BufReader::with_capacity(BUFFER, from),
        )),
        Compression::Zstd => {
            let from = BufReader::with_capacity(BUFFER, from);
            let decoder = ruzstd::decoding::StreamingDecoder::new(from)
                .map_err(|e| Error::Invalid(format!("it is not compressed with zstd: {e}")))?;
            Box::new(decoder)
        }
    })
}

/// Input files of a path: the file itself, or all files below a folder with a known extension, sorted by name.
pub fn files(path: &Path) -> Result<Vec<(PathBuf, RdfFormat)>> {
    let about = |e| Error::io(format!("reading `{}`", path.display()), e);
    if !fs::metadata(path).map_err(about)?.is_dir() {
        let format = format_of(path).ok_or_else(|| {
            Error::Invalid(format!(
                "the name of `{}` does not tell the format; expected {ENDINGS}",
                path.display()
            ))
        })?;
        return Ok(vec![(path.to_path_buf(), format)]);
    }
    let mut found = Vec::new();
    let mut folders = vec![path.to_path_buf()];
    while let Some(folder) = folders.pop() {
        let about = |e| Error::io(format!("reading `{}`", folder.display()), e);
        for entry in fs::read_dir(&folder).map_err(about)? {
            let entry = entry.map_err(about)?.path();
            if entry.is_dir() && !entry.is_symlink() {
                folders.push(entry);
            } else if let Some(format) = format_of(&entry) {
                found.push((entry, format));
            }
        }
    }
    found.sort_by(|a, b| a.0.cmp(&b.0));
    if found.is_empty() {
        return Err(Error::Invalid(format!(
            "no file below `{}` has a name that tells the format; expected {ENDINGS}",
            path.display()
        )));
    }
    Ok(found)
}
