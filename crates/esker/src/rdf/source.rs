//! Files of RDF: which format, which compression, which files of a folder.

use esker_model::{Error, Result};
use esker_rdf::RdfFormat;
use std::fs::{self, File};
use std::io::{BufReader, Read};
use std::path::{Path, PathBuf};

/// Endings of the files that are read, for messages.
pub const ENDINGS: &str =
    ".nt, .nq, .ttl, .trig, .rdf, .owl, .xml, .jsonld, each also with .gz or .zst";

/// The format that a file's name says.
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

/// Opens a file, unpacking it as it is read.
pub fn open(path: &Path) -> Result<Box<dyn Read>> {
    let file =
        File::open(path).map_err(|e| Error::io(format!("opening `{}`", path.display()), e))?;
    let packing = path
        .extension()
        .map(|e| e.to_string_lossy().to_ascii_lowercase())
        .unwrap_or_default();
    Ok(if packing == "gz" {
        Box::new(flate2::bufread::MultiGzDecoder::new(
            BufReader::with_capacity(1 << 18, file),
        ))
    } else if packing == "zst" {
        let decoder =
            ruzstd::decoding::StreamingDecoder::new(BufReader::with_capacity(1 << 18, file))
                .map_err(|e| {
                    Error::Invalid(format!("`{}` is not packed by zstd: {e}", path.display()))
                })?;
        Box::new(decoder)
    } else {
        Box::new(file)
    })
}

/// The files that a path names: itself, or those of a folder and all below it whose names say a format, by name.
pub fn files(path: &Path) -> Result<Vec<(PathBuf, RdfFormat)>> {
    let about = |e| Error::io(format!("reading `{}`", path.display()), e);
    if !fs::metadata(path).map_err(about)?.is_dir() {
        let format = format_of(path).ok_or_else(|| {
            Error::Invalid(format!(
                "the name of `{}` says no format; expected {ENDINGS}",
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
            "no file below `{}` has a name that says a format; expected {ENDINGS}",
            path.display()
        )));
    }
    Ok(found)
}
