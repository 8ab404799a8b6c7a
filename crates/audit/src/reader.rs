//! Reading a log line by line, also while its server writes it.

use crate::segment;
use esker_model::Result;
use std::io::{BufRead as _, BufReader, Seek as _, SeekFrom};
use std::path::{Path, PathBuf};

/// Longest line that is read: longer ones are damage.
pub const LINE_BYTES_MAX: u64 = 1 << 20;

/// A position in a log.
#[derive(Debug)]
pub struct Reader {
    folder: PathBuf,
    /// Segment in which the next line is looked for; 0 before the first one.
    segment: u64,
    offset: u64,
}

impl Reader {
    /// A reader at the beginning of the log in a folder.
    pub fn new(folder: &Path) -> Self {
        Self {
            folder: folder.to_owned(),
            segment: 0,
            offset: 0,
        }
    }

    /// Passes all complete lines from the position on, and moves behind them. `sink` returns false to stop.
    pub fn lines(&mut self, sink: &mut dyn FnMut(&[u8]) -> bool) -> Result<()> {
        for number in segment::list(&self.folder)? {
            if number < self.segment {
                continue;
            }
            if number > self.segment {
                (self.segment, self.offset) = (number, 0);
            }
            if !self.read_segment(sink)? {
                break;
            }
        }
        Ok(())
    }

    fn read_segment(&mut self, sink: &mut dyn FnMut(&[u8]) -> bool) -> Result<bool> {
        let path = segment::path(&self.folder, self.segment);
        let failed = |e| segment::failed("reading", &path, e);
        let mut file = segment::open(&path)?;
        file.seek(SeekFrom::Start(self.offset)).map_err(failed)?;
        let mut file = BufReader::with_capacity(256 << 10, file);
        let mut line = Vec::new();
        loop {
            line.clear();
            let mut limited = std::io::Read::take(&mut file, LINE_BYTES_MAX);
            let read = limited.read_until(b'\n', &mut line).map_err(failed)?;
            let whole = line.pop_if(|last| *last == b'\n').is_some();
            if !whole && (read as u64) < LINE_BYTES_MAX {
                // The server may be about to write the rest.
                return Ok(true);
            }
            self.offset += read as u64;
            if !sink(&line) {
                return Ok(false);
            }
        }
    }
}
