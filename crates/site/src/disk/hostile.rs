//! Invariants of the disk format for arbitrary bytes, for fuzz targets.

use super::record::{HEAD, Record, checksum};

/// Checks that a record is decoded or ignored, that a decoded one encodes back, and that a wrong checksum is always detected.
pub fn stored(bytes: &[u8]) {
    if let Some((head, body)) = bytes.split_first_chunk::<HEAD>() {
        let (length, sum) = Record::head(*head);
        if let Some(body) = body.get(..length) {
            looked_at(body, sum);
        }
    }
    // With a matching checksum, too.
    looked_at(bytes, checksum(bytes));
}

fn looked_at(body: &[u8], sum: u32) {
    assert!(Record::decode(body, !sum).is_none() || checksum(body) == !sum);
    let Some(record) = Record::decode(body, sum) else {
        return;
    };
    let written = record.encode();
    let (head, again) = written
        .split_first_chunk::<HEAD>()
        .expect("a record has a head");
    let (length, sum) = Record::head(*head);
    assert_eq!(length, again.len());
    assert_eq!(Record::decode(again, sum), Some(record));
}
