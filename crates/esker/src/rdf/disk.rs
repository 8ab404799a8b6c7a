//! Files of RDF data.
//!
//! ```text
//!  rdf/
//!    CURRENT   number of the valid image
//!    image-7   a snapshot of all data, then its blake3 hash
//!    log-7     later changes: records of length (4), hash (8), changes
//!    LOCK      locked by the writer
//! ```
//!
//! An image and its log never change their meaning: a new image gets a new number, and `CURRENT` is switched by a rename.
//! Readers therefore need no lock, and a crash at any time leaves either the old pair or the new one.

use esker_model::{Error, Result};
use esker_rdf::{Dataset, log};
use std::fs::{self, File, OpenOptions};
use std::io::{ErrorKind, Read as _, Seek as _, SeekFrom, Write as _};
use std::path::{Path, PathBuf};

const HASH: usize = blake3::OUT_LEN;
/// Length and hash of a record, in bytes.
const HEAD: usize = 12;
/// Maximum of attempts of a reader when a writer switches images during the read.
const READS: usize = 20;

/// Result of a read: the data, the number of the image, and the length of the log up to its last complete record.
pub(super) struct Opened {
    pub(super) data: Dataset,
    pub(super) number: u64,
    pub(super) log_bytes: u64,
}

pub(super) fn io(path: &Path, doing: &str) -> impl FnOnce(std::io::Error) -> Error {
    let context = format!("{doing} `{}`", path.display());
    move |e| Error::io(context, e)
}

fn image(folder: &Path, number: u64) -> PathBuf {
    folder.join(format!("image-{number}"))
}

fn log_of(folder: &Path, number: u64) -> PathBuf {
    folder.join(format!("log-{number}"))
}

pub(super) fn sync_folder(folder: &Path) -> Result<()> {
    File::open(folder)
        .and_then(|f| f.sync_all())
        .map_err(io(folder, "making durable"))
}

/// Number of the valid image, 0 without one.
pub(super) fn current(folder: &Path) -> Result<u64> {
    let path = folder.join("CURRENT");
    match fs::read_to_string(&path) {
        Ok(text) => text.trim().parse().map_err(|_| {
            Error::Invalid(format!(
                "`{}` does not contain the number of an image; restore a backup of the folder",
                path.display()
            ))
        }),
        Err(e) if e.kind() == ErrorKind::NotFound => Ok(0),
        Err(e) => Err(io(&path, "reading")(e)),
    }
}

/// Reads all data of a folder.
pub(super) fn read(folder: &Path) -> Result<Opened> {
    let mut tries = 0;
    loop {
        tries += 1;
        let number = current(folder)?;
        if number == 0 {
            return Ok(Opened {
                data: Dataset::default(),
                number,
                log_bytes: 0,
            });
        }
        match read_number(folder, number) {
            Err(Error::Io { source, .. })
                if source.kind() == ErrorKind::NotFound
                    && tries < READS
                    && current(folder)? != number => {}
            other => return other,
        }
    }
}

fn read_number(folder: &Path, number: u64) -> Result<Opened> {
    let path = image(folder, number);
    // The log first: if both exist, it belongs to this image.
    let log_path = log_of(folder, number);
    let mut records = Vec::new();
    File::open(&log_path)
        .and_then(|mut f| f.read_to_end(&mut records))
        .map_err(io(&log_path, "reading"))?;
    let bytes = fs::read(&path).map_err(io(&path, "reading"))?;
    let damaged = |why: &str| {
        Error::Invalid(format!(
            "`{}` is damaged: {why}; restore a backup of the folder, or load the data again after `esker rdf drop`",
            path.display()
        ))
    };
    let Some((body, hash)) = bytes.len().checked_sub(HASH).map(|n| bytes.split_at(n)) else {
        return Err(damaged("it is too short"));
    };
    // Hashing and decoding take about as long, so each has a thread; damage is detected by either.
    let (right, decoded) = std::thread::scope(|scope| {
        let right = scope.spawn(|| blake3::hash(body).as_bytes() == hash);
        let decoded = Dataset::decode(body);
        (right.join().unwrap_or(false), decoded)
    });
    if !right {
        return Err(damaged("its hash is not what was written"));
    }
    let mut data = decoded.map_err(|e| damaged(&e.to_string()))?;
    drop(bytes);
    let mut at = 0;
    while let Some(record) = record(&records, at) {
        log::replay(&mut data, record)
            .map_err(|e| Error::Invalid(format!("`{}`, byte {at}: {e}", log_path.display())))?;
        at += HEAD + record.len();
    }
    Ok(Opened {
        data,
        number,
        log_bytes: at as u64,
    })
}

/// Copies the valid image and log to an absent folder while others may write; returns the bytes copied.
pub(crate) fn copy_to(folder: &Path, to: &Path) -> Result<u64> {
    let mut tries = 0;
    loop {
        tries += 1;
        let number = current(folder)?;
        if number == 0 {
            return Ok(0);
        }
        match copy_number(folder, number, to) {
            // A writer has made a new image meanwhile and removed this one.
            Err(_) if tries < READS && current(folder)? != number => {
                let _ = fs::remove_dir_all(to);
            }
            other => return other,
        }
    }
}

fn copy_number(folder: &Path, number: u64, to: &Path) -> Result<u64> {
    crate::modes::create_inside(to).map_err(io(to, "making"))?;
    let mut bytes = 0;
    // A record that is being written is truncated in the copy, as by a crash.
    for of in [log_of, image] {
        bytes += crate::backup::copy_file(&of(folder, number), &of(to, number))?;
    }
    super::part::copy(folder, to)?;
    let path = to.join("CURRENT");
    File::create(&path)
        .and_then(|mut f| {
            f.write_all(format!("{number}\n").as_bytes())?;
            f.sync_all()
        })
        .map_err(io(&path, "making"))?;
    sync_folder(to)?;
    Ok(bytes)
}

/// The record at an offset, if it is complete.
fn record(log: &[u8], at: usize) -> Option<&[u8]> {
    let head = log.get(at..at + HEAD)?;
    let mut word = [0; 4];
    word.copy_from_slice(head.get(..4)?);
    let length = u32::from_le_bytes(word) as usize;
    let body = log.get(at + HEAD..(at + HEAD).checked_add(length)?)?;
    (blake3::hash(body).as_bytes().get(..8) == head.get(4..)).then_some(body)
}

/// A writer: the lock and the open log.
#[derive(Debug)]
pub(super) struct Writer {
    folder: PathBuf,
    _lock: File,
    log: Option<File>,
    pub(super) number: u64,
    pub(super) log_bytes: u64,
}

/// Locks the data for writing. [`Writer::begin`] cleans up after a crash.
pub(super) fn lock(folder: &Path) -> Result<Writer> {
    crate::modes::create_inside(folder).map_err(io(folder, "making"))?;
    let path = folder.join("LOCK");
    let file = OpenOptions::new()
        .create(true)
        .truncate(false)
        .write(true)
        .open(&path)
        .map_err(io(&path, "opening"))?;
    match file.try_lock() {
        Ok(()) => {}
        Err(fs::TryLockError::WouldBlock) => {
            return Err(Error::InUse(format!(
                "another process writes RDF data in `{}`; wait until it is done",
                folder.display()
            )));
        }
        Err(fs::TryLockError::Error(e)) => return Err(io(&path, "locking")(e)),
    }
    Ok(Writer {
        folder: folder.to_path_buf(),
        _lock: file,
        log: None,
        number: 0,
        log_bytes: 0,
    })
}

impl Writer {
    /// Opens the log for appending after the records that were read.
    pub(super) fn begin(&mut self, number: u64, log_bytes: u64) -> Result<()> {
        self.number = number;
        self.log_bytes = log_bytes;
        self.tidy();
        if number == 0 {
            return Ok(());
        }
        let path = log_of(&self.folder, number);
        let mut file = OpenOptions::new()
            .write(true)
            .open(&path)
            .map_err(io(&path, "opening"))?;
        // A truncated record is overwritten by the next one.
        file.set_len(log_bytes)
            .and_then(|()| file.seek(SeekFrom::End(0)))
            .map_err(io(&path, "cutting"))?;
        self.log = Some(file);
        Ok(())
    }

    /// Removes images and logs with other numbers.
    fn tidy(&self) {
        for entry in fs::read_dir(&self.folder).into_iter().flatten().flatten() {
            let name = entry.file_name();
            let name = name.to_string_lossy();
            let number = name
                .strip_prefix("image-")
                .or_else(|| name.strip_prefix("log-"));
            let old = number.is_some_and(|n| n.parse() != Ok(self.number));
            if old || name.ends_with(".new") {
                // No process reads them; the next writer retries a failed removal.
                let _ = fs::remove_file(entry.path());
            }
        }
    }

    /// Appends one record to the log.
    pub(super) fn append(&mut self, changes: &[u8], sync: bool) -> Result<()> {
        self.append_records(&framed(changes)?, sync)
    }

    /// Appends framed records ([`framed`]), all of them or none.
    pub(super) fn append_records(&mut self, records: &[u8], sync: bool) -> Result<()> {
        let path = log_of(&self.folder, self.number);
        let Some(file) = &mut self.log else {
            return Err(Error::Invalid(format!("`{}` is not open", path.display())));
        };
        let written = file
            .write_all(records)
            .and_then(|()| if sync { file.sync_data() } else { Ok(()) });
        if let Err(e) = written {
            // A partly written record must not be followed by another one.
            let _ = file.set_len(self.log_bytes);
            let _ = file.seek(SeekFrom::Start(self.log_bytes));
            return Err(io(&path, "writing")(e));
        }
        self.log_bytes += records.len() as u64;
        Ok(())
    }

    /// Syncs the log to disk.
    pub(super) fn sync(&self) -> Result<()> {
        let path = log_of(&self.folder, self.number);
        self.log
            .as_ref()
            .map_or(Ok(()), File::sync_data)
            .map_err(io(&path, "making durable"))
    }

    /// Writes an image and makes it the valid one; returns its bytes.
    pub(super) fn checkpoint(&mut self, data: &Dataset) -> Result<u64> {
        let new = self.draft(0);
        let bytes = write_image(&new, data)?;
        self.switch(&new, self.log_bytes)?;
        Ok(bytes)
    }

    /// Name for an image that is not valid yet.
    pub(super) fn draft(&self, number: u64) -> PathBuf {
        self.folder.join(format!("draft-{number}.new"))
    }

    /// Makes a separately written image the valid one. The image contains the first `log_bytes` of the log; the rest of
    /// the log
    /// is copied into the new log.
    pub(super) fn switch(&mut self, draft: &Path, log_bytes: u64) -> Result<()> {
        let number = self.number + 1;
        let path = image(&self.folder, number);
        let mut rest = Vec::new();
        if log_bytes < self.log_bytes {
            let old = log_of(&self.folder, self.number);
            let mut from = File::open(&old).map_err(io(&old, "opening"))?;
            from.seek(SeekFrom::Start(log_bytes))
                .and_then(|_| from.take(self.log_bytes - log_bytes).read_to_end(&mut rest))
                .map_err(io(&old, "reading"))?;
        }
        fs::rename(draft, &path).map_err(io(&path, "making"))?;
        let log_path = log_of(&self.folder, number);
        let mut log = File::create(&log_path).map_err(io(&log_path, "making"))?;
        log.write_all(&rest)
            .and_then(|()| log.sync_all())
            .map_err(io(&log_path, "writing"))?;
        sync_folder(&self.folder)?;
        let current = self.folder.join("CURRENT");
        let new = self.folder.join("CURRENT.new");
        File::create(&new)
            .and_then(|mut f| {
                f.write_all(format!("{number}\n").as_bytes())?;
                f.sync_all()
            })
            .and_then(|()| fs::rename(&new, &current))
            .map_err(io(&current, "switching"))?;
        // From here on the image is valid, whether or not the folder can be synced.
        self.number = number;
        self.log = Some(log);
        self.log_bytes = rest.len() as u64;
        self.tidy();
        sync_folder(&self.folder)
    }
}

/// Writes an image to a file; returns its bytes.
pub(super) fn write_image(to: &Path, data: &Dataset) -> Result<u64> {
    let body = data.encode();
    let hash = blake3::hash(&body);
    let mut file = File::create(to).map_err(io(to, "making"))?;
    file.write_all(&body)
        .and_then(|()| file.write_all(hash.as_bytes()))
        .and_then(|()| file.sync_all())
        .map_err(io(to, "writing"))?;
    Ok(body.len() as u64 + HASH as u64)
}

/// A record in the format of the log.
pub(super) fn framed(changes: &[u8]) -> Result<Vec<u8>> {
    let Ok(length) = u32::try_from(changes.len()) else {
        return Err(Error::Invalid(format!(
            "the update changes {} bytes of quads, and a record has at most 4 GiB; use `esker rdf load`",
            changes.len()
        )));
    };
    let mut record = Vec::with_capacity(HEAD + changes.len());
    record.extend_from_slice(&length.to_le_bytes());
    record.extend_from_slice(&blake3::hash(changes).as_bytes()[..8]);
    record.extend_from_slice(changes);
    Ok(record)
}
