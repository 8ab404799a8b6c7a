//! Rewrites a 3.x log with another compression, byte order, or module numbering; the result must read the same. Written from the format's
//! description and not from the reader.

use std::io::{Read, Write};

/// Encoding of the rewritten log.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Coat {
    /// Compression: 0 zlib, 1 bzip2, 2 none.
    pub(crate) compression: u8,
    /// Whether the byte order is big-endian.
    pub(crate) big: bool,
    /// Number of zlib or bzip2 streams per region.
    pub(crate) streams: usize,
}

fn u64_at(bytes: &[u8], at: usize) -> u64 {
    u64::from_le_bytes(bytes[at..at + 8].try_into().unwrap())
}

fn inflate(mut input: &[u8]) -> Vec<u8> {
    let mut plain = Vec::new();
    while !input.is_empty() {
        let mut decoder = flate2::bufread::ZlibDecoder::new(input);
        decoder.read_to_end(&mut plain).unwrap();
        input = decoder.into_inner();
    }
    plain
}

fn deflate(plain: &[u8], coat: Coat) -> Vec<u8> {
    if coat.compression == 2 {
        return plain.to_vec();
    }
    let mut out = Vec::new();
    for piece in plain.chunks(plain.len().div_ceil(coat.streams).max(1)) {
        if coat.compression == 0 {
            let mut encoder =
                flate2::write::ZlibEncoder::new(&mut out, flate2::Compression::fast());
            encoder.write_all(piece).unwrap();
            encoder.finish().unwrap();
        } else {
            let mut encoder = bzip2::write::BzEncoder::new(&mut out, bzip2::Compression::fast());
            encoder.write_all(piece).unwrap();
            encoder.finish().unwrap();
        }
    }
    out
}

fn swap(bytes: &mut [u8], width: usize) {
    for word in bytes.chunks_exact_mut(width) {
        word.reverse();
    }
}

/// Rewrites a log; `log` must be little-endian, zlib, and of a format between 3.10 and 3.40, as all of the wheel's are.
pub(crate) fn rewrite(log: &[u8], coat: Coat) -> Vec<u8> {
    const HEADER: usize = 360;
    assert!(log.starts_with(b"3.1") || log.starts_with(b"3.2"));
    let mut header = log[..HEADER].to_vec();
    header[16] = coat.compression;
    // Regions in the order of the file: the job's has no entry in the header.
    let entries: Vec<usize> = (0..17)
        .map(|n| 24 + n * 16)
        .filter(|at| u64_at(log, at + 8) > 0)
        .collect();
    let first = entries.iter().map(|at| u64_at(log, *at)).min().unwrap();
    let mut out = vec![0; HEADER];
    let mut job = inflate(&log[HEADER..usize::try_from(first).unwrap()]);
    if coat.big {
        swap(&mut job[..40], 8);
    }
    out.extend(deflate(&job, coat));
    for at in entries {
        let from = usize::try_from(u64_at(log, at)).unwrap();
        let len = usize::try_from(u64_at(log, at + 8)).unwrap();
        let mut plain = inflate(&log[from..from + len]);
        if coat.big {
            if at == 24 {
                let mut entry = 0;
                while entry < plain.len() {
                    swap(&mut plain[entry..entry + 8], 8);
                    entry += 9 + plain[entry + 8..]
                        .iter()
                        .position(|byte| *byte == 0)
                        .unwrap();
                }
            } else {
                swap(&mut plain, 8);
            }
        }
        let coded = deflate(&plain, coat);
        header[at..at + 8].copy_from_slice(&(out.len() as u64).to_le_bytes());
        header[at + 8..at + 16].copy_from_slice(&(coded.len() as u64).to_le_bytes());
        out.extend(coded);
    }
    if coat.big {
        swap(&mut header[8..16], 8);
        swap(&mut header[20..24], 4);
        swap(&mut header[24..296], 8);
        swap(&mut header[296..], 4);
    }
    out[..HEADER].copy_from_slice(&header);
    out
}

/// Converts a log to format 3.41: 64 modules, their new numbers, nanoseconds in the job.
pub(crate) fn widen(log: &[u8]) -> Vec<u8> {
    const OLD: usize = 360;
    const NEW: usize = 1328;
    assert!(log.starts_with(b"3.1") || log.starts_with(b"3.2"));
    let before_h5d = log.starts_with(b"3.1");
    let first = (0..17)
        .map(|n| 24 + n * 16)
        .filter(|at| u64_at(log, at + 8) > 0)
        .map(|at| u64_at(log, at));
    let first = usize::try_from(first.min().unwrap()).unwrap();
    let job = inflate(&log[OLD..first]);
    let mut wide = Vec::new();
    for (word, nanoseconds) in [
        (0, None),
        (1, Some(123_456_789)),
        (2, Some(987_654_321)),
        (3, None),
        (4, None),
    ] {
        wide.extend(&job[word * 8..word * 8 + 8]);
        if let Some(nanoseconds) = nanoseconds {
            wide.extend(i64::to_le_bytes(nanoseconds));
        }
    }
    wide.extend(&job[40..]);
    let job = deflate(
        &wide,
        Coat {
            compression: 0,
            big: false,
            streams: 1,
        },
    );
    let moved = (NEW + job.len()) as u64;
    let place = |at: usize| {
        let len = u64_at(log, at + 8);
        let offset = if len > 0 {
            u64_at(log, at) - first as u64 + moved
        } else {
            0
        };
        [offset.to_le_bytes(), len.to_le_bytes()].concat()
    };
    let mut out = vec![0; NEW];
    out[..8].copy_from_slice(b"3.41\0\0\0\0");
    out[8..17].copy_from_slice(&log[8..17]);
    out[32..48].copy_from_slice(&place(24));
    let partial = u32::from_le_bytes(log[20..24].try_into().unwrap());
    let mut wide_partial = 0_u64;
    for slot in 0..16 {
        let number = match slot {
            0..4 => slot,
            4 if before_h5d => 5,
            4 => 4,
            5 if !before_h5d => 5,
            _ => slot + 1 + usize::from(before_h5d),
        };
        out[48 + number * 16..64 + number * 16].copy_from_slice(&place(40 + slot * 16));
        out[1072 + number * 4..1076 + number * 4]
            .copy_from_slice(&log[296 + slot * 4..300 + slot * 4]);
        wide_partial |= u64::from(partial >> slot & 1) << number;
    }
    out[24..32].copy_from_slice(&wide_partial.to_le_bytes());
    out.extend(job);
    out.extend(&log[first..]);
    out
}
