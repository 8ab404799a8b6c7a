//! Files of commits: the part of an ephemeral store that is written to storage which survives its machine (SoMeta,
//! section II-H).
//!
//! ```text
//!   file      [head][block]*[end]
//!   head      "ESKERWIN" [format 1][kind 1][store 8][generation 8][first 8][last 8]            [checksum 8]
//!   block     [length 4][length unpacked 4][packed bytes]                                      [checksum 8]
//!   end       [00000000][blocks 4][bytes of the file up to here 8]                             [checksum 8]
//!
//!   unpacked  commits: [writes][table 1, + 80 if it removes][length][key]([length][value])     numbers LEB128
//! ```
//!
//! A **segment** has the commits `first` to `last` of a store, in order. A **base** has all rows as they were after
//! commit `last`. A **table** has `last` rows that move from one store to another, in the order of their keys: `store`
//! is the number of the sending server, `first` counts the tables that it sent since it was opened. A block contains
//! whole commits; it is compressed by LZ4 if that makes it shorter, and else stored as is (both lengths are equal
//! then). Integers are big-endian. A checksum is the first 8 bytes of the BLAKE3 hash of everything before it in its
//! part of the file.
//!
//! This module opens no files: the host reads and writes the bytes.

#![deny(clippy::indexing_slicing)]

use crate::{Table, WriteBatch};
use esker_model::codec::{DecodeError, Reader, put_bytes, put_u32, put_u64, put_varint};
use std::io::{self, Read as _};

const MAGIC: &[u8; 8] = b"ESKERWIN";
const FORMAT: u8 = 1;
const HEAD_BYTES: usize = 8 + 2 + 4 * 8;
/// Length of a checksum in bytes.
pub const CHECKSUM_BYTES: usize = 8;
/// Flag of a removal, added to the table's number.
const REMOVES: u8 = 0x80;
/// Approximate size of a block of commits, in bytes.
pub const BLOCK_BYTES: usize = 1 << 20;
/// Size of the longest block in bytes, which one commit may fill.
const BLOCK_BYTES_MAX: u32 = 1 << 31;

/// Kind of a file.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Kind {
    /// A part of the commits.
    Segment,
    /// All rows at one commit.
    Base,
    /// Rows that move to another store.
    Table,
}

/// Header of a file.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Head {
    /// Kind of the file.
    pub kind: Kind,
    /// Unique number of the store; for a table, the number of the server.
    pub store: u64,
    /// Number of the opening of the store that wrote the file.
    pub generation: u64,
    /// Number of the first commit; 0 for a base, its own number for a table.
    pub first: u64,
    /// Number of the last commit; for a table, the number of its rows.
    pub last: u64,
}

/// Errors of reading a file.
#[derive(Debug)]
pub enum SegmentError {
    /// The file is damaged at this offset.
    Damaged {
        /// Offset from the start of the file.
        at: u64,
        /// Description of the bytes that a valid file has there.
        expected: &'static str,
    },
    /// An I/O operation failed.
    Io(io::Error),
}

/// Returns the first bytes of the BLAKE3 hash.
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

/// Decodes the commits of an uncompressed block, one by one.
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

/// Writer of a file, part by part: each call appends to `out`, which may be emptied in between.
#[derive(Debug)]
pub struct SegmentWriter {
    blocks: u32,
    bytes: u64,
}

impl SegmentWriter {
    /// Appends the header and returns the writer.
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

    /// Appends a block of commits encoded by [`put_commit`].
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

    /// Appends the end; returns the length of the file in bytes.
    pub fn end(mut self, out: &mut Vec<u8>) -> u64 {
        let start = out.len();
        put_u32(out, 0);
        put_u32(out, self.blocks);
        put_u64(out, self.bytes);
        self.seal(out, start);
        self.bytes
    }
}

/// Reader of a file, block by block.
#[derive(Debug)]
pub struct SegmentReader<R> {
    from: R,
    head: Head,
    at: u64,
    blocks: u32,
    ended: bool,
}

impl<R: io::Read> SegmentReader<R> {
    /// Reads and checks the header.
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

    /// Returns the header of the file.
    pub fn head(&self) -> Head {
        self.head
    }

    /// Returns the offset of the next block.
    pub fn position(&self) -> u64 {
        self.at
    }

    /// Reads and decompresses the next block; `None` after the last one, once the end of the file has been checked.
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
        // The checksum matched, so a wrong length was written that way; it must still not panic.
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

/// Reads exactly `length` bytes. Memory grows with the bytes present, whatever length a damaged file claims.
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
