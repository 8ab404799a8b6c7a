//! Folders that hold a part of RDF data: a file `PART` beside the image says which.

use super::Rdf;
use super::disk::{io, sync_folder};
use esker_model::{Error, Result};
use esker_rdf::Part;
use esker_rdf::infer::Inference;
use std::io::{ErrorKind, Write as _};
use std::path::{Path, PathBuf};

const FILE: &str = "PART";

/// Which part a folder holds, if not all.
pub(crate) fn read(folder: &Path) -> Result<Option<Part>> {
    let path = folder.join(FILE);
    match std::fs::read_to_string(&path) {
        Ok(text) => text
            .trim()
            .parse()
            .map(Some)
            .map_err(|e: String| Error::Invalid(format!("`{}`: {e}", path.display()))),
        Err(e) if e.kind() == ErrorKind::NotFound => Ok(None),
        Err(e) => Err(io(&path, "reading")(e)),
    }
}

/// Says so of a folder, durably.
pub(super) fn write(folder: &Path, part: Part) -> Result<()> {
    let draft = folder.join("PART.new");
    std::fs::File::create(&draft)
        .and_then(|mut f| {
            writeln!(f, "{part}")?;
            f.sync_all()
        })
        .map_err(io(&draft, "writing"))?;
    let path = folder.join(FILE);
    std::fs::rename(&draft, &path).map_err(io(&path, "writing"))?;
    sync_folder(folder)
}

/// A copy of a folder holds the same part.
pub(super) fn copy(folder: &Path, to: &Path) -> Result<()> {
    read(folder)?.map_or(Ok(()), |part| write(to, part))
}

/// A folder may hold anything again.
pub(super) fn forget(folder: &Path) -> Result<()> {
    let path = folder.join(FILE);
    match std::fs::remove_file(&path) {
        Err(e) if e.kind() != ErrorKind::NotFound => Err(io(&path, "removing")(e)),
        _ => Ok(()),
    }
}

/// Why data of a part is not changed by updates, nor served as if it were all.
pub(crate) fn whole(folder: &Path) -> Result<()> {
    match read(folder)? {
        None => Ok(()),
        Some(part) => Err(Error::Invalid(format!(
            "`{}` holds part {part} of RDF data, which is loaded only (`esker rdf load --part {part}`) and asked together with \
             the other parts (`esker rdf worker`, then `esker sparql workers://…`)",
            folder.display()
        ))),
    }
}

impl Rdf {
    /// The part of RDF data that the folder holds, if not all.
    pub fn part(&self) -> Result<Option<Part>> {
        read(self.folder())
    }

    /// The part that a load adds to: as it was, or as it is asked for the first time.
    pub(super) fn part_to_load(
        &self,
        asked: Option<Part>,
        infer: Option<Inference>,
    ) -> Result<Option<Part>> {
        let folder = self.folder();
        let part = match (asked, read(folder)?) {
            (Some(asked), Some(known)) if asked != known => {
                return Err(Error::Invalid(format!(
                    "`{}` holds part {known}; part {asked} needs a folder of its own",
                    folder.display()
                )));
            }
            (Some(asked), None) if !self.data().is_empty() => {
                return Err(Error::Invalid(format!(
                    "`{}` holds RDF data that is no part; load part {asked} into a folder of its own, or `esker rdf drop` what \
                     is there",
                    folder.display()
                )));
            }
            (Some(asked), None) => Some(asked),
            (_, known) => known,
        };
        if let (Some(part), Some(_)) = (part, infer) {
            return Err(Error::Invalid(format!(
                "what follows from part {part} depends on the other parts: load all data with --infer into one folder, write it \
                 with `esker rdf dump --inferred`, and load the parts of that"
            )));
        }
        Ok(part)
    }
}

/// What the labels of blank nodes begin with: parts that are loaded apart from the same files must agree.
pub(super) fn blanks<'f>(files: impl Iterator<Item = &'f PathBuf>) -> String {
    let mut hash = blake3::Hasher::new();
    for file in files {
        hash.update(file.file_name().unwrap_or_default().as_encoded_bytes());
        hash.update(&[0]);
    }
    format!("p{}n", hash.finalize().to_hex().split_at(16).0)
}
