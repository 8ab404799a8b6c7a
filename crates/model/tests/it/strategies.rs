//! Generators that several tests share.

use esker_model::{EdgeTypeId, Properties, Value, Version, VertexId};
use proptest::prelude::*;

/// Any short text, with control characters, quotes and wide characters.
pub(crate) fn text() -> impl Strategy<Value = String> {
    prop_oneof![
        "[a-z]{1,8}",
        "\\PC{0,12}",
        proptest::collection::vec(any::<char>(), 0..8).prop_map(String::from_iter),
        "[\"'\\\\\n\r\t\u{1b}\u{202e}#]{0,6}",
    ]
}

/// Any value, lists up to three deep. `nan` says whether NaN, which equals nothing, may occur.
pub(crate) fn value(nan: bool) -> impl Strategy<Value = Value> {
    let leaf = prop_oneof![
        Just(Value::Null),
        any::<bool>().prop_map(Value::Bool),
        integer().prop_map(Value::I64),
        any::<f64>()
            .prop_filter("NaN equals nothing", move |x| nan || !x.is_nan())
            .prop_map(Value::F64),
        Just(Value::F64(f64::INFINITY)),
        Just(Value::F64(-0.0)),
        text().prop_map(Value::String),
        proptest::collection::vec(any::<u8>(), 0..8).prop_map(Value::Bytes),
        integer().prop_map(Value::Timestamp),
    ];
    leaf.prop_recursive(3, 24, 4, |inner| {
        proptest::collection::vec(inner, 0..4).prop_map(Value::List)
    })
}

/// Integers of every size, the extremes often.
pub(crate) fn integer() -> impl Strategy<Value = i64> {
    prop_oneof![
        any::<i64>(),
        -200_i64..200,
        Just(i64::MIN),
        Just(i64::MAX),
        (0_u32..63).prop_map(|shift| 1_i64 << shift),
    ]
}

/// Sorted names with values.
pub(crate) fn properties() -> impl Strategy<Value = Properties> {
    proptest::collection::vec((text(), value(false)), 0..6).prop_map(Properties::from_iter)
}

/// Any version, the extremes often.
pub(crate) fn version() -> impl Strategy<Value = Version> {
    prop_oneof![
        any::<u64>().prop_map(Version),
        (0_u64..4_102_444_800_000, any::<u16>()).prop_map(|(ms, l)| Version::new(ms, l)),
        Just(Version::ZERO),
        Just(Version::MAX),
        Just(Version(u64::MAX - 1)),
    ]
}

/// Ids that are often close together, so that only their last bytes differ.
pub(crate) fn vertex_id() -> impl Strategy<Value = VertexId> {
    prop_oneof![
        any::<[u8; 16]>().prop_map(VertexId),
        (0_u8..3).prop_map(|last| {
            let mut id = [0; 16];
            id[15] = last;
            VertexId(id)
        }),
        Just(VertexId([0xff; 16])),
    ]
}

pub(crate) fn edge_type() -> impl Strategy<Value = EdgeTypeId> {
    prop_oneof![any::<u16>(), 0_u16..3].prop_map(EdgeTypeId)
}

/// Bytes that often begin like a valid encoding.
pub(crate) fn damaged(valid: impl Strategy<Value = Vec<u8>>) -> impl Strategy<Value = Vec<u8>> {
    (
        valid,
        proptest::collection::vec((any::<prop::sample::Index>(), any::<u8>()), 0..4),
        any::<prop::sample::Index>(),
        any::<bool>(),
    )
        .prop_map(|(mut bytes, changes, cut, shorten)| {
            if !bytes.is_empty() {
                for (at, byte) in changes {
                    let at = at.index(bytes.len());
                    bytes[at] = byte;
                }
                if shorten {
                    bytes.truncate(cut.index(bytes.len()));
                }
            }
            bytes
        })
}
