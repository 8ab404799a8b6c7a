//! Replies of an FTP server: they are lines or refused, independently of their division into pieces.

use bytes::BytesMut;
use esker_origin::ftp::reply::{Line, Lines};
use esker_origin::stream::{Codec as _, Fault};

fn decode_all(pieces: &[&[u8]]) -> Result<Vec<Line>, Fault> {
    let mut lines = Lines::default();
    let mut bytes = BytesMut::new();
    let mut all = Vec::new();
    for piece in pieces {
        bytes.extend_from_slice(piece);
        while let Some(line) = lines.decode(&mut bytes)? {
            all.push(line);
        }
    }
    Ok(all)
}

pub(crate) fn check(bytes: &[u8]) {
    let whole = decode_all(&[bytes]);
    let at = bytes
        .first()
        .map_or(0, |first| usize::from(*first) % bytes.len());
    let (left, right) = bytes.split_at(at);
    assert_eq!(whole, decode_all(&[left, right]));
}
