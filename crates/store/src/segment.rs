//! Commits as files: what a store that dies with its machine leaves on storage that does not (SoMeta, section II-H).
//!
//! ```text
//!  file      [head][block]*[end]
//!  head      "ESKERWIN" [format 1][kind 1][store 8][generation 8][first 8][last 8]            [checksum 8]
//!  block     [length 4][length unpacked 4][packed bytes]                                      [checksum 8]
//!  end       [00000000][blocks 4][bytes of the file up to here 8]                             [checksum 8]
//!
//!  unpacked  commits: [writes][table 1, + 80 if it removes][length][key]([length][value])     numbers LEB128
//! ```
//!
//! A **segment** holds the commits `first` to `last` of a store, in order. A **base** holds all rows as they were after commit `last`.
//! A **table** holds `last` rows on their way from one store to another, in the order of their keys: `store` is the number of the server that
//! gives them, `first` counts what it gave in this opening.
//! A block holds whole commits; it is packed by LZ4 where that makes it shorter, and else as it is (both lengths are the same then).
//! All is big-endian. A checksum is the first 8 bytes of the BLAKE3 hash of what comes before it in its part of the file.
//!
//! Nothing here opens a file: the host reads and writes the bytes.

#![deny(clippy::indexing_slicing)]

use crate::{Table, WriteBatch};
use esker_model::codec::{DecodeError, Reader, put_bytes, put_u32, put_u64, put_varint};
use std::io::{self, Read as _};

const MAGIC: &[u8; 8] = b"ESKERWIN";
const FORMAT: u8 = 1;
const HEAD_BYTES: usize = 8 + 2 + 4 * 8;
/// How long a checksum is.
pub const CHECKSUM_BYTES: usize = 8;
/// The flag of a removal, beside the table's number.
const REMOVES: u8 = 0x80;
/// Commits are gathered into blocks of about so many bytes.
pub const BLOCK_BYTES: usize = 1 << 20;
/// The longest block: one commit may be as long as that.
const BLOCK_BYTES_MAX: u32 = 1 << 31;

/// What a file holds.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Kind {
    /// Commits.
    Segment,
    /// All rows.
    Base,
    /// Rows that go to another store.
    Table,
}

/// What a file says of itself.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Head {
    /// What it holds.
    pub kind: Kind,
    /// Whose: a number that no two stores have; of a table the server's.
    pub store: u64,
    /// Which opening of the store wrote it.
    pub generation: u64,
    /// The first commit in it; of a base always 0, of a table its own number.
    pub first: u64,
    /// The last commit in it; of a table how many rows it has.
    pub last: u64,
}

/// Why a file cannot be read.
#[derive(Debug)]
pub enum SegmentError {
    /// It holds something else than it should, at that byte.
    Damaged {
        /// Offset from the start of the file.
        at: u64,
        /// What a valid file would hold there.
        expected: &'static str,
    },
    /// It could not be read.
    Io(io::Error),
}

/// The first bytes of the BLAKE3 hash of all of it.
pub fn checksum(bytes: &[u8]) -> [u8; CHECKSUM_BYTES] {
    let mut sum = [0; CHECKSUM_BYTES];
    for (to, from) in sum.iter_mut().zip(blake3::hash(bytes).as_bytes()) {
        *to = *from;
    }
    sum
}

/// Appends a batch as one commit.
pub fn put_commit(out: &mut Vec<u8>, batch: &WriteBatch) {
    put_varint(out, batch.len() as u64);
    for write in batch.iter() {
        let table = write.table as u8;
        let removes = if write.value.is_none() { REMOVES } else { 0 };
        out.push(table | removes);
        put_bytes(out, write.key);
        if let Some(value) = write.value {
            put_bytes(out, value);
        }
    }
}

/// Reads the commits of a block that was unpacked, one by one.
pub fn commits<E: From<DecodeError>>(
    block: &[u8],
    sink: &mut dyn FnMut(WriteBatch) -> Result<(), E>,
) -> Result<(), E> {
    let mut r = Reader::new(block);
    while r.remaining() > 0 {
        let writes = r.varint("how many writes a commit has")?;
        let mut batch = WriteBatch::default();
        for _ in 0..writes {
            let at = r.clone();
            let code = r.u8("a table")?;
            let table = Table::ALL.get(usize::from(code & !REMOVES)).copied();
            let table = table.ok_or_else(|| at.error("a table"))?;
            let key = r.bytes("a key")?;
            if code & REMOVES == 0 {
                batch.put(table, key, r.bytes("a value")?);
            } else {
                batch.remove(table, key);
            }
        }
        sink(batch)?;
    }
    Ok(())
}

/// Writes a file, part by part: each call appends to `out`, which may be taken away in between.
#[derive(Debug)]
pub struct SegmentWriter {
    blocks: u32,
    bytes: u64,
}

impl SegmentWriter {
    /// Appends the head.
    pub fn begin(head: &Head, out: &mut Vec<u8>) -> Self {
        let start = out.len();
        out.extend_from_slice(MAGIC);
        out.push(FORMAT);
        out.push(match head.kind {
            Kind::Segment => 1,
            Kind::Base => 2,
            Kind::Table => 3,
        });
        put_u64(out, head.store);
        put_u64(out, head.generation);
        put_u64(out, head.first);
        put_u64(out, head.last);
        let mut writer = Self {
            blocks: 0,
            bytes: 0,
        };
        writer.seal(out, start);
        writer
    }

    fn seal(&mut self, out: &mut Vec<u8>, start: usize) {
        let sum = checksum(out.get(start..).unwrap_or_default());
        out.extend_from_slice(&sum);
        self.bytes += (out.len() - start) as u64;
    }

    /// Appends commits, as [`put_commit`] gave them.
    pub fn block(&mut self, commits: &[u8], out: &mut Vec<u8>) {
        if commits.is_empty() {
            return;
        }
        let start = out.len();
        let packed = lz4_flex::block::compress(commits);
        let packed = if packed.len() < commits.len() {
            packed.as_slice()
        } else {
            commits
        };
        put_u32(out, packed.len() as u32);
        put_u32(out, commits.len() as u32);
        out.extend_from_slice(packed);
        self.blocks += 1;
        self.seal(out, start);
    }

    /// Appends the end; how long the file is.
    pub fn end(mut self, out: &mut Vec<u8>) -> u64 {
        let start = out.len();
        put_u32(out, 0);
        put_u32(out, self.blocks);
        put_u64(out, self.bytes);
        self.seal(out, start);
        self.bytes
    }
}

/// Reads a file, block by block.
#[derive(Debug)]
pub struct SegmentReader<R> {
    from: R,
    head: Head,
    at: u64,
    blocks: u32,
    ended: bool,
}

impl<R: io::Read> SegmentReader<R> {
    /// Reads the head.
    pub fn begin(mut from: R) -> Result<Self, SegmentError> {
        let mut at = 0;
        let bytes = take(
            &mut from,
            &mut at,
            HEAD_BYTES,
            "the head of a checkpoint's file",
        )?;
        let sum = take(
            &mut from,
            &mut at,
            CHECKSUM_BYTES,
            "the checksum of its head",
        )?;
        let mut r = Reader::new(&bytes);
        let damaged = |e: DecodeError| SegmentError::Damaged {
            at: e.at as u64,
            expected: e.expected,
        };
        let not = |at, expected| SegmentError::Damaged { at, expected };
        if r.take(MAGIC.len(), "`ESKERWIN`").map_err(damaged)? != MAGIC {
            return Err(not(0, "`ESKERWIN`"));
        }
        if sum != checksum(&bytes) {
            return Err(not(HEAD_BYTES as u64, "the checksum of the head"));
        }
        if r.u8("a format").map_err(damaged)? != FORMAT {
            return Err(not(8, "format 1: a newer Esker wrote it"));
        }
        let kind = match r.u8("a kind").map_err(damaged)? {
            1 => Kind::Segment,
            2 => Kind::Base,
            3 => Kind::Table,
            _ => return Err(not(9, "a kind of file that this build knows")),
        };
        let mut number = || r.u64("a number").map_err(damaged);
        let head = Head {
            kind,
            store: number()?,
            generation: number()?,
            first: number()?,
            last: number()?,
        };
        Ok(Self {
            from,
            head,
            at,
            blocks: 0,
            ended: false,
        })
    }

    /// What the file says of itself.
    pub fn head(&self) -> Head {
        self.head
    }

    /// Where the next block begins.
    pub fn position(&self) -> u64 {
        self.at
    }

    /// The next block, unpacked; `None` behind the last, once the file has shown that it is whole.
    pub fn block(&mut self) -> Result<Option<Vec<u8>>, SegmentError> {
        if self.ended {
            return Ok(None);
        }
        let start = self.at;
        let mut bytes = take(
            &mut self.from,
            &mut self.at,
            8,
            "a block or the end of the file",
        )?;
        let (packed, unpacked) = lengths(&bytes);
        if packed == 0 {
            return self.end(bytes, unpacked, start).map(|()| None);
        }
        if packed > unpacked || unpacked > BLOCK_BYTES_MAX {
            return Err(SegmentError::Damaged {
                at: start,
                expected: "the lengths of a block",
            });
        }
        let body = take(
            &mut self.from,
            &mut self.at,
            packed as usize,
            "a whole block",
        )?;
        bytes.extend_from_slice(&body);
        self.check(&bytes, "the checksum of the block before it")?;
        self.blocks += 1;
        if packed == unpacked {
            return Ok(Some(body));
        }
        // What has its checksum was written so: a length that does not fit is nobody's damage, and still no panic.
        match lz4_flex::block::decompress(&body, unpacked as usize) {
            Ok(block) if block.len() == unpacked as usize => Ok(Some(block)),
            _ => Err(SegmentError::Damaged {
                at: start,
                expected: "a block packed by LZ4",
            }),
        }
    }

    fn check(&mut self, bytes: &[u8], expected: &'static str) -> Result<(), SegmentError> {
        let at = self.at;
        let sum = take(&mut self.from, &mut self.at, CHECKSUM_BYTES, expected)?;
        if sum != checksum(bytes) {
            return Err(SegmentError::Damaged { at, expected });
        }
        Ok(())
    }

    fn end(&mut self, mut bytes: Vec<u8>, blocks: u32, start: u64) -> Result<(), SegmentError> {
        let length = take(&mut self.from, &mut self.at, 8, "the end of the file")?;
        bytes.extend_from_slice(&length);
        self.check(&bytes, "the checksum of the file's end")?;
        let whole = blocks == self.blocks && length == start.to_be_bytes();
        let mut rest = [0; 1];
        let more = self.from.read(&mut rest).map_err(SegmentError::Io)?;
        if !whole || more > 0 {
            return Err(SegmentError::Damaged {
                at: start,
                expected: "the end of the file",
            });
        }
        self.ended = true;
        Ok(())
    }
}

fn lengths(bytes: &[u8]) -> (u32, u32) {
    let mut r = Reader::new(bytes);
    let mut next = || r.u32("a length").unwrap_or(0);
    (next(), next())
}

/// Exactly so many bytes. Memory grows with what is there, whatever length a damaged file claims.
fn take(
    from: &mut impl io::Read,
    at: &mut u64,
    length: usize,
    expected: &'static str,
) -> Result<Vec<u8>, SegmentError> {
    let mut bytes = Vec::with_capacity(length.min(2 * BLOCK_BYTES));
    let read = from.take(length as u64).read_to_end(&mut bytes);
    let read = read.map_err(SegmentError::Io)?;
    if read < length {
        return Err(SegmentError::Damaged {
            at: *at + read as u64,
            expected,
        });
    }
    *at += length as u64;
    Ok(bytes)
}
