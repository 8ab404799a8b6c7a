//! Rows and values: bytes are decoded or refused; decoded rows are encoded back; skipping a value ends where decoding ends.

use esker_model::codec::Reader;
use esker_model::record::{AttributeRecord, EdgeRecord, StaticRecord, VertexRecord};
use esker_model::{Properties, Value};

/// Decodes a record, encodes, decodes and encodes it again, and compares the two encodings (values with a NaN are not equal).
macro_rules! check_round_trip {
    ($record:ty, $bytes:expr) => {
        if let Ok(record) = <$record>::decode($bytes) {
            let (mut once, mut twice) = (Vec::new(), Vec::new());
            record.encode(&mut once);
            let again = <$record>::decode(&once).expect("what was encoded decodes");
            again.encode(&mut twice);
            assert_eq!(once, twice);
        }
    };
}

pub(crate) fn check(bytes: &[u8]) {
    check_round_trip!(EdgeRecord, bytes);
    check_round_trip!(VertexRecord, bytes);
    check_round_trip!(StaticRecord, bytes);
    check_round_trip!(AttributeRecord, bytes);
    let _ = EdgeRecord::decode_head(bytes);
    let _ = Properties::decode(&mut Reader::new(bytes));

    let (mut reader, mut skipper) = (Reader::new(bytes), Reader::new(bytes));
    let skipped = Value::skip(&mut skipper);
    if let Ok(value) = Value::decode(&mut reader) {
        assert_eq!(skipped, Ok(()));
        assert_eq!(reader.position(), skipper.position());
        let _ = value.compare(&value);
    }
}
