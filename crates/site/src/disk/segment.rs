//! Segments: append-only files that are deleted as a unit.

use super::record::{HEAD, Record};
use crate::access::make_private;
use std::collections::VecDeque;
use std::fs::{File, OpenOptions};
use std::io::{self, BufReader, Read as _, Write as _};
use std::os::unix::fs::{FileExt as _, MetadataExt as _, OpenOptionsExt as _, PermissionsExt as _};
use std::path::{Path, PathBuf};

/// Number of segments into which the capacity is divided.
const SEGMENTS: u64 = 16;
/// Minimum size of a segment, in bytes.
const LEAST: u64 = 64 << 10;
const ENDING: &str = "site";

/// Location of a record.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct At {
    segment: u32,
    offset: u32,
}

struct Segment {
    number: u32,
    file: File,
    bytes: u64,
}

pub(super) struct Segments {
    folder: PathBuf,
    all: VecDeque<Segment>,
    bytes: u64,
    bytes_max: u64,
    segment_max: u64,
    /// Number of the next segment; numbers are not reused.
    next: u32,
    /// Whether segments were deleted since the last call of [`Segments::take_dropped`].
    dropped: bool,
    /// Lock file against other processes.
    _lock: File,
}

fn path(folder: &Path, number: u32) -> PathBuf {
    folder.join(format!("{number:010}.{ENDING}"))
}

/// Creates the folder, or takes an existing one: only this process's user has access, because it contains answers that origins gave
/// to the tier's owner.
fn prepare_folder(folder: &Path) -> io::Result<()> {
    make_private(folder)?;
    let about = std::fs::metadata(folder)?;
    let own = esker_access::peer::own_user();
    if about.uid() != own {
        return Err(io::Error::other(format!(
            "it belongs to user {}, not to user {own}, who runs this tier: name another one (`cache.disk`)",
            about.uid()
        )));
    }
    if about.mode() & 0o077 != 0 {
        std::fs::set_permissions(folder, std::fs::Permissions::from_mode(0o700))?;
    }
    Ok(())
}

impl Segments {
    /// Reads all segments and passes each intact record to `each`, in the order of writing. A segment is truncated at its first
    /// damaged record.
    pub(super) fn open(
        folder: &Path,
        bytes_max: u64,
        each: &mut dyn FnMut(At, &Record),
    ) -> io::Result<Self> {
        prepare_folder(folder)?;
        let mut options = OpenOptions::new();
        options.write(true).create(true).truncate(false).mode(0o600);
        let lock = options.open(folder.join("lock"))?;
        lock.try_lock().map_err(|_| {
            io::Error::other(
                "another tier has this folder; each needs one of its own (`cache.disk`)",
            )
        })?;
        let mut numbers: Vec<u32> = Vec::new();
        for entry in std::fs::read_dir(folder)? {
            let name = entry?.file_name();
            let name = name.to_string_lossy();
            let number = name.strip_suffix(&format!(".{ENDING}"));
            numbers.extend(number.and_then(|n| n.parse::<u32>().ok()));
        }
        numbers.sort_unstable();
        let bytes_max = bytes_max.max(2 * LEAST);
        let mut segments = Self {
            folder: folder.to_owned(),
            all: VecDeque::new(),
            bytes: 0,
            bytes_max,
            segment_max: (bytes_max / SEGMENTS).clamp(LEAST, u64::from(u32::MAX)),
            next: numbers.last().map_or(1, |n| n.wrapping_add(1)),
            dropped: false,
            _lock: lock,
        };
        for number in numbers {
            let at = path(folder, number);
            let file = OpenOptions::new().read(true).append(true).open(&at)?;
            let bytes = scan(&file, number, each)?;
            file.set_len(bytes)?;
            segments.bytes += bytes;
            segments.all.push_back(Segment {
                number,
                file,
                bytes,
            });
        }
        while segments.bytes > bytes_max {
            segments.drop_oldest()?;
        }
        Ok(segments)
    }

    pub(super) fn bytes(&self) -> u64 {
        self.bytes
    }

    pub(super) fn has(&self, at: At) -> bool {
        self.all
            .front()
            .is_some_and(|first| at.segment >= first.number)
    }

    pub(super) fn take_dropped(&mut self) -> bool {
        std::mem::take(&mut self.dropped)
    }

    /// Deletes the oldest segment.
    pub(super) fn drop_oldest(&mut self) -> io::Result<()> {
        if let Some(oldest) = self.all.pop_front() {
            self.bytes -= oldest.bytes;
            self.dropped = true;
            std::fs::remove_file(path(&self.folder, oldest.number))?;
        }
        Ok(())
    }

    /// Deletes all segment files.
    pub(super) fn clear(&mut self) -> io::Result<()> {
        while !self.all.is_empty() {
            self.drop_oldest()?;
        }
        Ok(())
    }

    /// Appends a record; `None` if it exceeds the maximum segment size.
    pub(super) fn append(&mut self, record: &Record) -> io::Result<Option<At>> {
        let bytes = record.encode();
        let length = bytes.len() as u64;
        if length > self.segment_max {
            return Ok(None);
        }
        let full = |s: &Segment| s.bytes + length > self.segment_max;
        if self.all.back().is_none_or(full) {
            let number = self.next;
            self.next += 1;
            let file = OpenOptions::new()
                .read(true)
                .append(true)
                .create(true)
                .mode(0o600)
                .open(path(&self.folder, number))?;
            self.all.push_back(Segment {
                number,
                file,
                bytes: 0,
            });
        }
        while self.bytes + length > self.bytes_max && self.all.len() > 1 {
            self.drop_oldest()?;
        }
        let Some(last) = self.all.back_mut() else {
            return Ok(None);
        };
        let at = At {
            segment: last.number,
            offset: last.bytes as u32,
        };
        if let Err(error) = last.file.write_all(&bytes) {
            // A partly written record is not part of the segment.
            last.file.set_len(last.bytes)?;
            return Err(error);
        }
        last.bytes += length;
        self.bytes += length;
        Ok(Some(at))
    }

    /// Reads a record; `None` if it is damaged.
    pub(super) fn read(&self, at: At) -> io::Result<Option<Record>> {
        let found = self
            .all
            .binary_search_by_key(&at.segment, |s| s.number)
            .ok()
            .and_then(|i| self.all.get(i));
        let Some(segment) = found else {
            return Ok(None);
        };
        let mut head = [0; HEAD];
        let offset = u64::from(at.offset);
        segment.file.read_exact_at(&mut head, offset)?;
        let (length, sum) = Record::head(head);
        if offset + (HEAD + length) as u64 > segment.bytes {
            return Ok(None);
        }
        let mut body = vec![0; length];
        segment
            .file
            .read_exact_at(&mut body, offset + HEAD as u64)?;
        Ok(Record::decode(&body, sum))
    }
}

/// Passes all intact records of a segment to `each`, and returns the offset of their end.
fn scan(file: &File, number: u32, each: &mut dyn FnMut(At, &Record)) -> io::Result<u64> {
    let size = file.metadata()?.len();
    let mut reader = BufReader::with_capacity(1 << 20, file);
    let mut end = 0;
    let mut body = Vec::new();
    loop {
        let mut head = [0; HEAD];
        if end + HEAD as u64 > size {
            return Ok(end);
        }
        reader.read_exact(&mut head)?;
        let (length, sum) = Record::head(head);
        let next = end + (HEAD + length) as u64;
        if next > size {
            return Ok(end);
        }
        body.resize(length, 0);
        reader.read_exact(&mut body)?;
        let Some(record) = Record::decode(&body, sum) else {
            return Ok(end);
        };
        let at = At {
            segment: number,
            offset: end as u32,
        };
        each(at, &record);
        end = next;
    }
}
