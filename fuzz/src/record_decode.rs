//! Rows and values decode or are refused; what decodes comes back; skipping goes as far as decoding.

use esker_model::codec::Reader;
use esker_model::record::{AttributeRecord, EdgeRecord, StaticRecord, VertexRecord};
use esker_model::{Properties, Value};

/// Encodes, decodes, encodes: the two encodings are equal (values are not, where there is a NaN).
macro_rules! comes_back {
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
    comes_back!(EdgeRecord, bytes);
    comes_back!(VertexRecord, bytes);
    comes_back!(StaticRecord, bytes);
    comes_back!(AttributeRecord, bytes);
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
