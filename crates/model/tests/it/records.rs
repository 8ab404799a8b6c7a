//! Rows: encoding and decoding are inverse; damage is an error and never a panic.

use crate::strategies::{damaged, properties, text, value, version};
use esker_model::record::{AttributeRecord, EdgeRecord, StaticRecord, UserAttribute, VertexRecord};
use esker_model::{Properties, Version, VertexTypeId};
use proptest::prelude::*;

fn edge_record() -> impl Strategy<Value = EdgeRecord> {
    (any::<bool>(), version(), properties()).prop_map(|(deleted, version, properties)| EdgeRecord {
        deleted,
        version,
        properties,
    })
}

fn vertex_record() -> impl Strategy<Value = VertexRecord> {
    let user = (text(), version(), value(false)).prop_map(|(name, version, value)| UserAttribute {
        name,
        version,
        value,
    });
    (
        standing(),
        [version(), version(), version()],
        any::<u16>(),
        text(),
        properties(),
        proptest::collection::vec(user, 0..4),
    )
        .prop_map(
            |((deleted, mentioned), [first, latest, static_version], t, key, attributes, user)| {
                VertexRecord {
                    deleted,
                    mentioned,
                    first,
                    latest,
                    static_version,
                    type_id: VertexTypeId(t),
                    key,
                    attributes,
                    user,
                }
            },
        )
}

/// The flags `gone` and `mentioned`, which are never both set.
fn standing() -> impl Strategy<Value = (bool, bool)> {
    prop_oneof![
        Just((false, false)),
        Just((true, false)),
        Just((false, true))
    ]
}

fn edge_bytes(record: &EdgeRecord) -> Vec<u8> {
    let mut out = Vec::new();
    record.encode(&mut out);
    out
}

fn vertex_bytes(record: &VertexRecord) -> Vec<u8> {
    let mut out = Vec::new();
    record.encode(&mut out);
    out
}

proptest! {
    #[test]
    fn edge_records_come_back(record in edge_record()) {
        let bytes = edge_bytes(&record);
        prop_assert_eq!(EdgeRecord::decode_head(&bytes), Ok((record.deleted, record.version)));
        prop_assert_eq!(EdgeRecord::decode(&bytes), Ok(record));
    }

    #[test]
    fn vertex_records_come_back(record in vertex_record()) {
        prop_assert_eq!(VertexRecord::decode(&vertex_bytes(&record)), Ok(record));
    }

    #[test]
    fn static_records_come_back((deleted, mentioned) in standing(), attributes in properties()) {
        let record = StaticRecord { deleted, mentioned, attributes };
        let mut bytes = Vec::new();
        record.encode(&mut bytes);
        prop_assert_eq!(StaticRecord::decode(&bytes), Ok(record));
    }

    #[test]
    fn attribute_records_come_back(value in proptest::option::of(value(false))) {
        let record = AttributeRecord(value);
        let mut bytes = Vec::new();
        record.encode(&mut bytes);
        prop_assert_eq!(AttributeRecord::decode(&bytes), Ok(record));
    }

    #[test]
    fn nothing_may_follow_a_record(edge in edge_record(), vertex in vertex_record(), byte in any::<u8>()) {
        let mut bytes = edge_bytes(&edge);
        bytes.push(byte);
        prop_assert!(EdgeRecord::decode(&bytes).is_err());
        let mut bytes = vertex_bytes(&vertex);
        bytes.push(byte);
        prop_assert!(VertexRecord::decode(&bytes).is_err());
    }

    #[test]
    fn a_record_cut_short_is_refused(vertex in vertex_record(), at in any::<prop::sample::Index>()) {
        let bytes = vertex_bytes(&vertex);
        let cut = at.index(bytes.len());
        let error = VertexRecord::decode(&bytes[..cut]).unwrap_err();
        prop_assert!(error.at <= cut);
    }

    #[test]
    fn any_bytes_decode_or_are_refused(
        bytes in proptest::collection::vec(any::<u8>(), 0..96),
        edge in damaged(edge_record().prop_map(|r| edge_bytes(&r))),
        vertex in damaged(vertex_record().prop_map(|r| vertex_bytes(&r))),
    ) {
        for bytes in [bytes, edge, vertex] {
            let _ = EdgeRecord::decode(&bytes);
            let _ = EdgeRecord::decode_head(&bytes);
            let _ = StaticRecord::decode(&bytes);
            let _ = AttributeRecord::decode(&bytes);
            let _ = VertexRecord::decode(&bytes);
        }
    }
}

#[test]
fn an_edge_without_properties_takes_ten_bytes() {
    let record = EdgeRecord {
        deleted: false,
        version: Version(0x0102_0304_0506_0708),
        properties: Properties::new(),
    };
    assert_eq!(edge_bytes(&record), [0, 1, 2, 3, 4, 5, 6, 7, 8, 0]);
}

#[test]
fn unknown_flags_are_refused() {
    let error = EdgeRecord::decode(&[2, 0, 0, 0, 0, 0, 0, 0, 0, 0]).unwrap_err();
    assert!(
        error.to_string().contains("flags that this version knows"),
        "{error}"
    );
}
