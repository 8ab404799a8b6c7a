//! Storage keys: a key decodes to a value that encodes to the same bytes, or is refused.

use esker_model::EdgeKey;
use esker_model::key::{
    Counter, HistoryKey, RowKey, attribute_history, decode_type_index, static_history, vertex,
};

pub(crate) fn check(bytes: &[u8]) {
    if let Ok(edge) = EdgeKey::decode(bytes) {
        assert_eq!(edge.encode(), bytes);
    }
    if let Ok((edge, version)) = EdgeKey::decode_history(bytes) {
        assert_eq!(edge.history(version), bytes);
    }
    match RowKey::decode(bytes) {
        Ok(RowKey::Vertex(id)) => assert_eq!(vertex(id), bytes),
        Ok(RowKey::Edge(edge)) => assert_eq!(edge.encode(), bytes),
        Err(error) => assert!(error.at <= bytes.len()),
    }
    match HistoryKey::decode(bytes) {
        Ok(HistoryKey::Static(id, version)) => assert_eq!(static_history(id, version), bytes),
        Ok(HistoryKey::Attribute(id, name, version)) => {
            assert_eq!(attribute_history(id, &name, version), bytes);
        }
        Ok(HistoryKey::Edge(edge, version)) => assert_eq!(edge.history(version), bytes),
        Err(error) => assert!(error.at <= bytes.len()),
    }
    if let Ok(counter) = Counter::decode(bytes) {
        assert_eq!(counter.encode(), bytes);
    }
    let _ = decode_type_index(bytes);
}
