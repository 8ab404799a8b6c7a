//! Folders with one part of distributed RDF data: the file `PART` next to the image names the part.

use super::Rdf;
use super::disk::{io, sync_folder};
use esker_model::{Error, Result};
use esker_rdf::Part;
use esker_rdf::infer::Inference;
use std::io::{ErrorKind, Write as _};
use std::path::{Path, PathBuf};

const FILE: &str = "PART";

/// The part in a folder; `None` if the folder contains complete data.
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

/// Marks a folder as containing a part, and syncs the mark.
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

/// Marks a copy of a folder like the original.
pub(super) fn copy(folder: &Path, to: &Path) -> Result<()> {
    read(folder)?.map_or(Ok(()), |part| write(to, part))
}

/// Removes the mark of a part.
pub(super) fn remove_mark(folder: &Path) -> Result<()> {
    let path = folder.join(FILE);
    match std::fs::remove_file(&path) {
        Err(e) if e.kind() != ErrorKind::NotFound => Err(io(&path, "removing")(e)),
        _ => Ok(()),
    }
}

/// Refuses a folder with a part, which cannot be updated or served like complete data.
pub(crate) fn check_complete(folder: &Path) -> Result<()> {
    match read(folder)? {
        None => Ok(()),
        Some(part) => Err(Error::Invalid(format!(
            "`{}` holds part {part} of RDF data, which can only be loaded (`esker rdf load --part \
             {part}`) and queried together with the other parts (`esker rdf worker`, then `esker \
             sparql workers://…`)",
            folder.display()
        ))),
    }
}

impl Rdf {
    /// The part in the folder; `None` if the folder contains complete data.
    pub fn part(&self) -> Result<Option<Part>> {
        read(self.folder())
    }

    /// The part for a load: the existing one, or the requested one for an empty folder.
    pub(super) fn part_to_load(
        &self,
        requested: Option<Part>,
        infer: Option<Inference>,
    ) -> Result<Option<Part>> {
        let folder = self.folder();
        let part = match (requested, read(folder)?) {
            (Some(requested), Some(known)) if requested != known => {
                return Err(Error::Invalid(format!(
                    "`{}` holds part {known}; part {requested} needs a folder of its own",
                    folder.display()
                )));
            }
            (Some(requested), None) if !self.data().is_empty() => {
                return Err(Error::Invalid(format!(
                    "`{}` holds RDF data that is not a part; load part {requested} into a folder \
                     of its own, or `esker rdf drop` what is there",
                    folder.display()
                )));
            }
            (Some(requested), None) => Some(requested),
            (_, known) => known,
        };
        if let (Some(part), Some(_)) = (part, infer) {
            return Err(Error::Invalid(format!(
                "the triples inferred from part {part} depend on the other parts: load all data \
                 with --infer into one folder, write it with `esker rdf dump --inferred`, and load \
                 the parts of that"
            )));
        }
        Ok(part)
    }
}

/// Prefix of the labels of blank nodes. Parts that are loaded separately from the same files must use equal labels.
pub(super) fn blanks<'f>(files: impl Iterator<Item = &'f PathBuf>) -> String {
    let mut hash = blake3::Hasher::new();
    for file in files {
        hash.update(file.file_name().unwrap_or_default().as_encoded_bytes());
        hash.update(&[0]);
    }
    format!("p{}n", hash.finalize().to_hex().split_at(16).0)
}
