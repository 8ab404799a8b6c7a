//! Decompression of a log's region as a stream.
//!
//! A 3.x region is one zlib or bzip2 stream *or several concatenated ones*: every rank writes its own, and a converted log has one for each
//! record and each name. A 1.x or 2.x log is a gzip or bzip2 stream as a whole. [`Inflate::read`] hides the difference, never allocates by
//! sizes that the input claims, and tracks the current byte of the file.

#![cfg_attr(not(test), deny(clippy::indexing_slicing))]

use std::io::Read;

use flate2::{Decompress, FlushDecompress, Status};

/// Compression method of a region.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Compression {
    /// One or several zlib streams (3.x).
    Zlib,
    /// One or several bzip2 streams.
    Bzip2,
    /// Uncompressed bytes of a region.
    Plain,
    /// One or several gzip members (1.x, 2.x).
    Gzip,
}

/// A decompression error at a byte of the file.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct StreamError {
    pub(crate) byte: u64,
    pub(crate) what: String,
}

enum Codec<'a> {
    Zlib {
        stream: Box<Decompress>,
        ended: bool,
    },
    Bzip2 {
        stream: Box<bzip2::Decompress>,
        ended: bool,
    },
    Plain,
    Gzip(Box<flate2::bufread::MultiGzDecoder<&'a [u8]>>),
}

/// Decompressor of one region.
pub(crate) struct Inflate<'a> {
    codec: Codec<'a>,
    /// Remaining compressed input. For gzip the decoder holds the rest.
    input: &'a [u8],
    /// Offset of the region's end in the file.
    end: u64,
    left_to_give: u64,
    /// An error to be returned after the bytes decoded before it.
    pending: Option<StreamError>,
}

impl<'a> Inflate<'a> {
    /// Opens the region `input` that starts at byte `offset` of the file; returns at most `bytes_max` decompressed bytes.
    pub(crate) fn new(
        compression: Compression,
        input: &'a [u8],
        offset: u64,
        bytes_max: u64,
    ) -> Self {
        let codec = match compression {
            Compression::Zlib => Codec::Zlib {
                stream: Box::new(Decompress::new(true)),
                ended: false,
            },
            Compression::Bzip2 => Codec::Bzip2 {
                stream: Box::new(bzip2::Decompress::new(false)),
                ended: false,
            },
            Compression::Plain => Codec::Plain,
            Compression::Gzip => Codec::Gzip(Box::new(flate2::bufread::MultiGzDecoder::new(input))),
        };
        Self {
            codec,
            input,
            end: offset.saturating_add(input.len() as u64),
            left_to_give: bytes_max,
            pending: None,
        }
    }

    /// Switches to another region and reuses the memory.
    pub(crate) fn open(&mut self, input: &'a [u8], offset: u64, bytes_max: u64) {
        match &mut self.codec {
            Codec::Zlib { stream, ended } => {
                stream.reset(true);
                *ended = false;
            }
            Codec::Bzip2 { stream, ended } => {
                **stream = bzip2::Decompress::new(false);
                *ended = false;
            }
            Codec::Plain => {}
            Codec::Gzip(decoder) => **decoder = flate2::bufread::MultiGzDecoder::new(input),
        }
        self.input = input;
        self.end = offset.saturating_add(input.len() as u64);
        self.left_to_give = bytes_max;
        self.pending = None;
    }

    /// Returns the byte of the file up to which the region has been consumed.
    pub(crate) fn position(&self) -> u64 {
        let left = match &self.codec {
            Codec::Gzip(decoder) => decoder.get_ref().len(),
            _ => self.input.len(),
        };
        self.end.saturating_sub(left as u64)
    }

    /// Fills `out` as far as the region goes; returns less than `out.len()` only at its end.
    ///
    /// Bytes decoded before damage are returned first: the error comes with the next call.
    pub(crate) fn read(&mut self, out: &mut [u8]) -> Result<usize, StreamError> {
        if out.is_empty() {
            return Ok(0);
        }
        if let Some(error) = self.pending.clone() {
            return Err(error);
        }
        if self.left_to_give == 0 {
            return match self.step(&mut [0]) {
                Ok(0) => Ok(0),
                Ok(_) => Err(self.error(
                    "more decompressed bytes than any real log has (limits::REGION_BYTES_MAX)",
                )),
                Err(error) => Err(error),
            };
        }
        let room = usize::try_from(self.left_to_give)
            .unwrap_or(usize::MAX)
            .min(out.len());
        let mut given = 0;
        while let Some(rest) = out.get_mut(given..room).filter(|rest| !rest.is_empty()) {
            match self.step(rest) {
                Ok(0) => break,
                Ok(n) => given += n,
                Err(error) => {
                    self.pending = Some(error.clone());
                    if given == 0 {
                        return Err(error);
                    }
                    break;
                }
            }
        }
        self.left_to_give -= given as u64;
        Ok(given)
    }

    fn error(&self, what: impl Into<String>) -> StreamError {
        StreamError {
            byte: self.position(),
            what: what.into(),
        }
    }

    /// Decodes at least one byte, or none at the end of the region.
    fn step(&mut self, out: &mut [u8]) -> Result<usize, StreamError> {
        loop {
            let (consumed, given, stream_ended) = match &mut self.codec {
                Codec::Plain => {
                    let n = out.len().min(self.input.len());
                    let (now, later) = self.input.split_at(n);
                    if let Some(room) = out.get_mut(..n) {
                        room.copy_from_slice(now);
                    }
                    self.input = later;
                    return Ok(n);
                }
                Codec::Gzip(decoder) => {
                    return match decoder.read(out) {
                        Ok(n) => Ok(n),
                        Err(error) => {
                            let what = format!("not a complete gzip stream: {error}");
                            Err(self.error(what))
                        }
                    };
                }
                Codec::Zlib { stream, ended } => {
                    if *ended {
                        if self.input.is_empty() {
                            return Ok(0);
                        }
                        stream.reset(true);
                        *ended = false;
                    }
                    let (in_before, out_before) = (stream.total_in(), stream.total_out());
                    // `Finish`: a stream that ends in this call need not keep its window for later calls.
                    match stream.decompress(self.input, out, FlushDecompress::Finish) {
                        Ok(status) => {
                            *ended = status == Status::StreamEnd;
                            (
                                stream.total_in() - in_before,
                                stream.total_out() - out_before,
                                *ended,
                            )
                        }
                        Err(error) => {
                            let what = format!("not a zlib stream: {error}");
                            return Err(self.error(what));
                        }
                    }
                }
                Codec::Bzip2 { stream, ended } => {
                    if *ended {
                        if self.input.is_empty() {
                            return Ok(0);
                        }
                        **stream = bzip2::Decompress::new(false);
                        *ended = false;
                    }
                    let (in_before, out_before) = (stream.total_in(), stream.total_out());
                    match stream.decompress(self.input, out) {
                        Ok(status) => {
                            *ended = status == bzip2::Status::StreamEnd;
                            (
                                stream.total_in() - in_before,
                                stream.total_out() - out_before,
                                *ended,
                            )
                        }
                        Err(error) => {
                            let what = format!("not a bzip2 stream: {error}");
                            return Err(self.error(what));
                        }
                    }
                }
            };
            let consumed = usize::try_from(consumed)
                .unwrap_or(usize::MAX)
                .min(self.input.len());
            self.input = self.input.get(consumed..).unwrap_or_default();
            if given > 0 {
                return Ok(usize::try_from(given).unwrap_or(out.len()).min(out.len()));
            }
            if !stream_ended && consumed == 0 {
                return Err(self.error("the compressed stream ends early"));
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use std::io::Write;

    use super::*;

    fn zlib(plain: &[u8]) -> Vec<u8> {
        let mut encoder =
            flate2::write::ZlibEncoder::new(Vec::new(), flate2::Compression::default());
        encoder.write_all(plain).unwrap();
        encoder.finish().unwrap()
    }

    fn bzip2(plain: &[u8]) -> Vec<u8> {
        let mut encoder = ::bzip2::write::BzEncoder::new(Vec::new(), ::bzip2::Compression::fast());
        encoder.write_all(plain).unwrap();
        encoder.finish().unwrap()
    }

    fn all(compression: Compression, input: &[u8]) -> (Vec<u8>, Option<StreamError>) {
        let mut stream = Inflate::new(compression, input, 1000, 1 << 20);
        let (mut plain, mut buffer) = (Vec::new(), [0; 7]);
        loop {
            match stream.read(&mut buffer) {
                Ok(0) => return (plain, None),
                Ok(n) => plain.extend_from_slice(&buffer[..n]),
                Err(error) => return (plain, Some(error)),
            }
        }
    }

    #[test]
    fn streams_behind_one_another_are_one() {
        for (compression, code) in [
            (Compression::Zlib, zlib as fn(&[u8]) -> Vec<u8>),
            (Compression::Bzip2, bzip2),
        ] {
            let mut input = code(b"the ridge that a ");
            input.extend(code(b""));
            input.extend(code(b"meltwater stream leaves behind"));
            let (plain, error) = all(compression, &input);
            assert_eq!(plain, b"the ridge that a meltwater stream leaves behind");
            assert_eq!(error, None);
        }
    }

    #[test]
    fn damage_comes_after_what_was_good_and_names_the_byte() {
        let mut input = zlib(b"good");
        let good = input.len();
        input.extend(b"junk");
        let (plain, error) = all(Compression::Zlib, &input);
        assert_eq!(plain, b"good");
        let byte = error.unwrap().byte;
        assert!(
            byte >= 1000 + good as u64 && byte <= 1004 + good as u64,
            "{byte}"
        );

        let cut = zlib(&[7; 5000]);
        let (_, error) = all(Compression::Zlib, &cut[..cut.len() - 6]);
        assert!(error.unwrap().what.contains("ends early"));
    }

    /// One stream larger than the buffer, then many smaller ones: the window is kept between calls and discarded between regions.
    #[test]
    fn streams_of_any_size_are_read_in_pieces_of_any_size() {
        let noise = |n: usize| -> Vec<u8> {
            let words = (0..n as u64).map(|i| (i % 977) * (i % 31) * 2_654_435_761);
            words.map(|w| (w >> 7) as u8).collect()
        };
        let parts: Vec<Vec<u8>> = [100_000, 1, 664, 0, 664, 70_000].map(noise).into();
        let whole: Vec<u8> = parts.concat();
        for (compression, code) in [
            (Compression::Zlib, zlib as fn(&[u8]) -> Vec<u8>),
            (Compression::Bzip2, bzip2),
        ] {
            let input: Vec<u8> = parts.iter().flat_map(|p| code(p)).collect();
            let mut stream = Inflate::new(compression, b"not a stream", 0, 1 << 20);
            assert!(stream.read(&mut [0; 9]).is_err());
            for size in [1, 7, 663, 664, 665, 32_768, 1 << 20] {
                stream.open(&input, 50, 1 << 20);
                let (mut plain, mut buffer) = (Vec::new(), vec![0; size]);
                while let n @ 1.. = stream.read(&mut buffer).unwrap() {
                    plain.extend_from_slice(&buffer[..n]);
                }
                assert!(plain == whole, "{compression:?} in pieces of {size}");
                assert_eq!(stream.position(), 50 + input.len() as u64);
            }
        }
    }

    #[test]
    fn a_bomb_is_cut_off() {
        let input = zlib(&vec![0; 1 << 20]);
        let mut stream = Inflate::new(Compression::Zlib, &input, 0, 1000);
        let mut buffer = vec![0; 4096];
        assert_eq!(stream.read(&mut buffer).unwrap(), 1000);
        assert!(
            stream
                .read(&mut buffer)
                .unwrap_err()
                .what
                .contains("REGION_BYTES_MAX")
        );
    }
}
