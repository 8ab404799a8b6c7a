//! Bags (`BagIt`, RFC 8493) with provenance documents, as `cwltool --provenance` writes them.

use anyhow::{Context as _, anyhow, bail};
use md5::Md5;
use sha1::Sha1;
use sha1::digest::{Digest, DynDigest};
use sha2::{Sha256, Sha512};
use std::fmt::Write as _;
use std::fs::{self, File};
use std::io::{self, BufRead as _, BufReader};
use std::path::{Component, Path, PathBuf};

/// Encodings of `CWLProv` documents, preferred ones first.
const DOCUMENTS: [&str; 6] = ["json", "provn", "xml", "ttl", "nt", "jsonld"];
const DOCUMENT: &str = "metadata/provenance/primary.cwlprov";

/// Checksum algorithms of bags; the strongest that a bag has is used.
const ALGORITHMS: [&str; 4] = ["sha512", "sha256", "sha1", "md5"];

/// Whether a folder is a bag.
pub(super) fn is_bag(folder: &Path) -> bool {
    folder.join("bagit.txt").is_file()
}

/// Verifies a bag and returns its provenance document: all listed files must exist, tag files and the document must match their
/// checksums, and data files, too, if `all` is set.
pub(super) fn document(folder: &Path, ending: Option<&str>, all: bool) -> anyhow::Result<PathBuf> {
    no_links(folder, Path::new("bagit.txt"))?;
    let declared = fs::read_to_string(folder.join("bagit.txt"))?;
    if !declared.starts_with("BagIt-Version:") {
        bail!("bagit.txt: line 1: expected `BagIt-Version: …`");
    }
    let candidates = DOCUMENTS
        .iter()
        .filter(|e| ending.is_none_or(|ending| ending == **e));
    let mut candidates = candidates.map(|ending| PathBuf::from(format!("{DOCUMENT}.{ending}")));
    let Some(document) = candidates.find(|path| folder.join(path).is_file()) else {
        let which = ending.unwrap_or("*");
        bail!("this bag has no {DOCUMENT}.{which}");
    };
    let mut known = false;
    for (kind, checked) in [("tagmanifest", true), ("manifest", all)] {
        let manifests = ALGORITHMS
            .iter()
            .map(|a| (*a, folder.join(format!("{kind}-{a}.txt"))));
        let Some((algorithm, manifest)) = manifests.into_iter().find(|(_, path)| path.is_file())
        else {
            if kind == "manifest" {
                bail!("this bag has no manifest-*.txt");
            }
            continue;
        };
        no_links(folder, Path::new(&name(&manifest)))?;
        for (path, expected) in read_manifest(&manifest)? {
            no_links(folder, &path)?;
            let file = folder.join(&path);
            if !file.is_file() {
                bail!(
                    "{}: {} is missing in the bag",
                    name(&manifest),
                    path.display()
                );
            }
            if checked || path == document {
                let found = checksum(&file, algorithm)?;
                if !found.eq_ignore_ascii_case(&expected) {
                    bail!(
                        "{}: {} has the checksum {found}, not {expected}: the bag has been changed or damaged",
                        name(&manifest),
                        path.display()
                    );
                }
            }
            known |= path == document;
        }
    }
    if !known {
        bail!("no manifest of the bag names {}", document.display());
    }
    Ok(folder.join(document))
}

/// Refuses a path over a symbolic link, which may lead out of the bag to files that the bag's author cannot read.
fn no_links(folder: &Path, path: &Path) -> anyhow::Result<()> {
    let mut at = folder.to_path_buf();
    for part in path.components() {
        at.push(part);
        // Missing files are reported by the caller.
        if fs::symlink_metadata(&at).is_ok_and(|about| about.is_symlink()) {
            bail!(
                "{} is a symbolic link, which a bag may not have: copy its target into the bag",
                at.display()
            );
        }
    }
    Ok(())
}

fn name(path: &Path) -> String {
    path.file_name()
        .unwrap_or_default()
        .to_string_lossy()
        .into_owned()
}

/// Returns the paths in a manifest with their checksums.
fn read_manifest(path: &Path) -> anyhow::Result<Vec<(PathBuf, String)>> {
    let reading = || format!("reading {}", name(path));
    let file = BufReader::new(File::open(path).with_context(reading)?);
    let mut all = Vec::new();
    for (i, line) in file.lines().enumerate() {
        let line = line.with_context(reading)?;
        if line.trim().is_empty() {
            continue;
        }
        let wrong = |what: &str| anyhow!("{}: line {}: {what}", name(path), i + 1);
        let (sum, file) = line
            .split_once(char::is_whitespace)
            .ok_or_else(|| wrong("expected a checksum and a path"))?;
        // A star before the name marks binary mode.
        let file = file.trim_start().trim_start_matches('*');
        let file = file
            .replace("%0A", "\n")
            .replace("%0D", "\r")
            .replace("%25", "%");
        let file = PathBuf::from(file);
        let inside = |c: Component<'_>| matches!(c, Component::Normal(_) | Component::CurDir);
        if !file.components().all(inside) {
            return Err(wrong("the path leads out of the bag"));
        }
        all.push((file, sum.to_owned()));
    }
    Ok(all)
}

fn checksum(path: &Path, algorithm: &str) -> anyhow::Result<String> {
    struct Sink(Box<dyn DynDigest>);
    impl io::Write for Sink {
        fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
            self.0.update(bytes);
            Ok(bytes.len())
        }
        fn flush(&mut self) -> io::Result<()> {
            Ok(())
        }
    }
    let digest: Box<dyn DynDigest> = match algorithm {
        "sha512" => Box::new(Sha512::new()),
        "sha256" => Box::new(Sha256::new()),
        "sha1" => Box::new(Sha1::new()),
        _ => Box::new(Md5::new()),
    };
    let mut sink = Sink(digest);
    let reading = || format!("reading {}", path.display());
    let mut file = File::open(path).with_context(reading)?;
    io::copy(&mut file, &mut sink).with_context(reading)?;
    Ok(sink.0.finalize().iter().fold(String::new(), |mut text, b| {
        let _ = write!(text, "{b:02x}");
        text
    }))
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::os::unix::fs::symlink;

    #[test]
    fn a_bag_with_a_link_is_refused() {
        let place = tempfile::tempdir().unwrap();
        let (bag, secret) = (place.path().join("bag"), place.path().join("secret"));
        let inside = bag.join("metadata/provenance");
        fs::create_dir_all(&inside).unwrap();
        fs::write(&secret, "secret").unwrap();
        fs::write(bag.join("bagit.txt"), "BagIt-Version: 1.0\n").unwrap();
        fs::write(inside.join("primary.cwlprov.json"), "{}").unwrap();
        let sum = |path: &Path| checksum(path, "sha256").unwrap();
        let lines = format!(
            "{} metadata/provenance/primary.cwlprov.json\n{} data/secret\n",
            sum(&inside.join("primary.cwlprov.json")),
            sum(&secret)
        );
        fs::write(bag.join("manifest-sha256.txt"), lines).unwrap();
        fs::create_dir(bag.join("data")).unwrap();
        fs::copy(&secret, bag.join("data/secret")).unwrap();
        document(&bag, None, true).unwrap();
        fs::remove_file(bag.join("data/secret")).unwrap();
        symlink(&secret, bag.join("data/secret")).unwrap();
        let said = document(&bag, None, true).unwrap_err().to_string();
        assert!(said.contains("symbolic link"), "{said}");
        // A folder that is a link is refused, too.
        fs::remove_dir_all(bag.join("data")).unwrap();
        symlink(place.path(), bag.join("data")).unwrap();
        let said = document(&bag, None, true).unwrap_err().to_string();
        assert!(said.contains("symbolic link"), "{said}");
    }
}
