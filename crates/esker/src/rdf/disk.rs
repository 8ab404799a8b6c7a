//! RDF data on disk.
//!
//! ```text
//!  rdf/
//!    CURRENT     the number of the image that counts
//!    image-7     all data at one moment, then its blake3 hash
//!    log-7       what came after: records of length (4), hash (8), changes
//!    LOCK        held by who writes
//! ```
//!
//! An image and its log never change their meaning: a new image gets a new number, and `CURRENT` is switched by a
//! rename. So readers need no lock, and a death at any moment leaves either the old pair or the new one.

use esker_model::{Error, Result};
use esker_rdf::{Dataset, log};
use std::fs::{self, File, OpenOptions};
use std::io::{ErrorKind, Read as _, Seek as _, SeekFrom, Write as _};
use std::path::{Path, PathBuf};

const HASH: usize = blake3::OUT_LEN;
/// Length and hash of a record.
const HEAD: usize = 12;
/// Times that a reader begins again because a writer switched images under it.
const READS: usize = 20;

/// What was read: the data, the image's number, and the log's length up to its last whole record.
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

/// The number of the image that counts, 0 if there is none.
pub(super) fn current(folder: &Path) -> Result<u64> {
    let path = folder.join("CURRENT");
    match fs::read_to_string(&path) {
        Ok(text) => text.trim().parse().map_err(|_| {
            Error::Invalid(format!(
                "`{}` holds no number of an image; restore a backup of the folder",
                path.display()
            ))
        }),
        Err(e) if e.kind() == ErrorKind::NotFound => Ok(0),
        Err(e) => Err(io(&path, "reading")(e)),
    }
}

/// Reads all data.
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
    // The log first: if both are there, it belongs to this image.
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
    // Both take about as long, so each has a thread; what was damaged is refused by either.
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

/// Copies what counts to a folder that is absent, while others may write. Its bytes.
pub(crate) fn copy_to(folder: &Path, to: &Path) -> Result<u64> {
    let mut tries = 0;
    loop {
        tries += 1;
        let number = current(folder)?;
        if number == 0 {
            return Ok(0);
        }
        match copy_number(folder, number, to) {
            // A writer made a new image meanwhile, and removed this one.
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
    // A record that is being written is cut short in the copy, as by a death.
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

/// The record that begins there, if it is whole.
fn record(log: &[u8], at: usize) -> Option<&[u8]> {
    let head = log.get(at..at + HEAD)?;
    let mut word = [0; 4];
    word.copy_from_slice(head.get(..4)?);
    let length = u32::from_le_bytes(word) as usize;
    let body = log.get(at + HEAD..(at + HEAD).checked_add(length)?)?;
    (blake3::hash(body).as_bytes().get(..8) == head.get(4..)).then_some(body)
}

/// Who writes: the lock, and the log's end.
#[derive(Debug)]
pub(super) struct Writer {
    folder: PathBuf,
    _lock: File,
    log: Option<File>,
    pub(super) number: u64,
    pub(super) log_bytes: u64,
}

/// Takes the right to write. What a death left behind is tidied up by [`Writer::begin`].
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
            return Err(Error::Unavailable(format!(
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
    /// Goes on behind what was read.
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
        // A record that was cut short is no record: the next one stands in its place.
        file.set_len(log_bytes)
            .and_then(|()| file.seek(SeekFrom::End(0)))
            .map_err(io(&path, "cutting"))?;
        self.log = Some(file);
        Ok(())
    }

    /// Removes images and logs that do not count.
    fn tidy(&self) {
        for entry in fs::read_dir(&self.folder).into_iter().flatten().flatten() {
            let name = entry.file_name();
            let name = name.to_string_lossy();
            let number = name
                .strip_prefix("image-")
                .or_else(|| name.strip_prefix("log-"));
            let old = number.is_some_and(|n| n.parse() != Ok(self.number));
            if old || name.ends_with(".new") {
                // Nobody reads them; if they stay, the next writer tries again.
                let _ = fs::remove_file(entry.path());
            }
        }
    }

    /// Appends a record.
    pub(super) fn append(&mut self, changes: &[u8], sync: bool) -> Result<()> {
        self.append_records(&framed(changes)?, sync)
    }

    /// Appends records as [`framed`] makes them, all of them or none.
    pub(super) fn append_records(&mut self, records: &[u8], sync: bool) -> Result<()> {
        let path = log_of(&self.folder, self.number);
        let Some(file) = &mut self.log else {
            return Err(Error::Invalid(format!("`{}` is not open", path.display())));
        };
        let written = file
            .write_all(records)
            .and_then(|()| if sync { file.sync_data() } else { Ok(()) });
        if let Err(e) = written {
            // What stands there in part must not be followed by anything.
            let _ = file.set_len(self.log_bytes);
            let _ = file.seek(SeekFrom::Start(self.log_bytes));
            return Err(io(&path, "writing")(e));
        }
        self.log_bytes += records.len() as u64;
        Ok(())
    }

    /// Makes durable what the log holds.
    pub(super) fn sync(&self) -> Result<()> {
        let path = log_of(&self.folder, self.number);
        self.log
            .as_ref()
            .map_or(Ok(()), File::sync_data)
            .map_err(io(&path, "making durable"))
    }

    /// Writes an image that counts from now on. Its bytes.
    pub(super) fn checkpoint(&mut self, data: &Dataset) -> Result<u64> {
        let new = self.draft(0);
        let bytes = write_image(&new, data)?;
        self.switch(&new, self.log_bytes)?;
        Ok(bytes)
    }

    /// A name for an image that does not count yet.
    pub(super) fn draft(&self, number: u64) -> PathBuf {
        self.folder.join(format!("draft-{number}.new"))
    }

    /// Makes an image that was written aside the one that counts. It holds what the log's first bytes said; what stands
    /// behind them is carried into the new log.
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
        // From here on it counts, whether or not the folder can be made durable.
        self.number = number;
        self.log = Some(log);
        self.log_bytes = rest.len() as u64;
        self.tidy();
        sync_folder(&self.folder)
    }
}

/// Writes an image aside. Its bytes.
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

/// A record as it stands in the log.
pub(super) fn framed(changes: &[u8]) -> Result<Vec<u8>> {
    let Ok(length) = u32::try_from(changes.len()) else {
        return Err(Error::Invalid(format!(
            "the update changes {} bytes of quads, a record holds 4 GiB; use `esker rdf load`",
            changes.len()
        )));
    };
    let mut record = Vec::with_capacity(HEAD + changes.len());
    record.extend_from_slice(&length.to_le_bytes());
    record.extend_from_slice(&blake3::hash(changes).as_bytes()[..8]);
    record.extend_from_slice(changes);
    Ok(record)
}
