//! Keys: byte order is logical order, encoding and decoding are inverse, damage is an error and never a panic.

use crate::strategies::{damaged, edge_type, version, vertex_id};
use esker_model::key::names::{
    NamesKey, child_key, dentry_key, inode_history_key, location_key, path_named_key,
    removed_entry_key, without_number,
};
use esker_model::key::{
    self, Counter, DELETED_INDEX_PREFIX, EdgeKey, HistoryKey, IndexKey, Measure, RowKey, SpaceKey,
    alias_index, attribute_history, attribute_history_prefix, decode_type_index, deleted_index,
    edges_of_type_prefix, edges_prefix, identity_index, static_history, type_index,
    type_index_prefix, vertex_history_range,
};
use esker_model::{EdgeTypeId, Version, VertexId, VertexTypeId};
use proptest::prelude::*;
use std::cmp::Ordering;

fn edge_key() -> impl Strategy<Value = EdgeKey> {
    (vertex_id(), edge_type(), vertex_id()).prop_map(|(source, edge_type, destination)| EdgeKey {
        source,
        edge_type,
        destination,
    })
}

fn row_key() -> impl Strategy<Value = RowKey> {
    prop_oneof![
        vertex_id().prop_map(RowKey::Vertex),
        edge_key().prop_map(RowKey::Edge)
    ]
}

/// Names that `check_attribute_name` accepts.
fn attribute() -> impl Strategy<Value = String> {
    prop_oneof!["[a-c]{1,3}", "[a-zA-Z0-9_.:é図-]{1,12}"]
}

fn history_key() -> impl Strategy<Value = HistoryKey> {
    prop_oneof![
        (vertex_id(), version()).prop_map(|(id, v)| HistoryKey::Static(id, v)),
        (vertex_id(), attribute(), version())
            .prop_map(|(id, n, v)| HistoryKey::Attribute(id, n, v)),
        (edge_key(), version()).prop_map(|(e, v)| HistoryKey::Edge(e, v)),
    ]
}

fn encode_history(key: &HistoryKey) -> Vec<u8> {
    match key {
        HistoryKey::Static(id, v) => static_history(*id, *v),
        HistoryKey::Attribute(id, name, v) => attribute_history(*id, name, *v),
        HistoryKey::Edge(edge, v) => edge.history(*v),
    }
}

/// Order of history keys: by vertex, then static attributes, user-defined attributes by name, edges by type and
/// destination; the newest version first.
fn history_order(a: &HistoryKey, b: &HistoryKey) -> Ordering {
    fn id(k: &HistoryKey) -> VertexId {
        match k {
            HistoryKey::Static(id, _) | HistoryKey::Attribute(id, ..) => *id,
            HistoryKey::Edge(e, _) => e.source,
        }
    }
    fn rank(k: &HistoryKey) -> u8 {
        match k {
            HistoryKey::Static(..) => 1,
            HistoryKey::Attribute(..) => 2,
            HistoryKey::Edge(..) => 3,
        }
    }
    let newest_first = |a: Version, b: Version| b.cmp(&a);
    id(a)
        .cmp(&id(b))
        .then(rank(a).cmp(&rank(b)))
        .then_with(|| match (a, b) {
            (HistoryKey::Static(_, v), HistoryKey::Static(_, w)) => newest_first(*v, *w),
            (HistoryKey::Attribute(_, n, v), HistoryKey::Attribute(_, m, w)) => {
                n.as_bytes().cmp(m.as_bytes()).then(newest_first(*v, *w))
            }
            (HistoryKey::Edge(e, v), HistoryKey::Edge(f, w)) => (e.edge_type, e.destination)
                .cmp(&(f.edge_type, f.destination))
                .then(newest_first(*v, *w)),
            _ => Ordering::Equal,
        })
}

const MEASURES: [Measure; 5] = [
    Measure::Files,
    Measure::Directories,
    Measure::Bytes,
    Measure::Blocks,
    Measure::Changed,
];

fn space_key() -> impl Strategy<Value = SpaceKey> {
    prop_oneof![
        vertex_id().prop_map(SpaceKey::Directory),
        any::<u32>().prop_map(SpaceKey::User),
        any::<u32>().prop_map(SpaceKey::Group),
        any::<u32>().prop_map(SpaceKey::Kind),
        any::<[u8; 8]>().prop_map(SpaceKey::Ending),
        any::<i32>().prop_map(SpaceKey::Day),
    ]
}

fn counter() -> impl Strategy<Value = Counter> {
    prop_oneof![
        (vertex_id(), edge_type()).prop_map(|(id, t)| Counter::Degree(id, t)),
        any::<u16>().prop_map(|t| Counter::Vertices(VertexTypeId(t))),
        any::<u16>().prop_map(|t| Counter::Edges(EdgeTypeId(t))),
        (space_key(), 0_usize..5).prop_map(|(k, m)| Counter::Space(k, MEASURES[m])),
    ]
}

proptest! {
    #[test]
    fn edge_keys_sort_as_edges_do(a in edge_key(), b in edge_key()) {
        prop_assert_eq!(a.encode().cmp(&b.encode()), a.cmp(&b));
    }

    #[test]
    fn edge_keys_come_back(edge in edge_key(), version in version()) {
        prop_assert_eq!(EdgeKey::decode(&edge.encode()), Ok(edge));
        prop_assert_eq!(EdgeKey::decode_history(&edge.history(version)), Ok((edge, version)));
        prop_assert_eq!(RowKey::decode(&edge.encode()), Ok(RowKey::Edge(edge)));
    }

    #[test]
    fn an_edge_reversed_twice_is_itself(edge in edge_key(), inverse in edge_type()) {
        prop_assert_eq!(edge.reversed(inverse).reversed(edge.edge_type), edge);
        prop_assert_eq!(edge.reversed(inverse).source, edge.destination);
    }

    #[test]
    fn prefixes_hold_exactly_their_edges(edge in edge_key(), id in vertex_id(), t in edge_type()) {
        let (row, old) = (edge.encode(), edge.history(Version(7)));
        prop_assert_eq!(row.starts_with(&edges_prefix(id)), edge.source == id);
        prop_assert_eq!(old.starts_with(&edges_prefix(id)), edge.source == id);
        let of_type = edge.source == id && edge.edge_type == t;
        prop_assert_eq!(row.starts_with(&edges_of_type_prefix(id, t)), of_type);
    }

    #[test]
    fn a_vertex_row_comes_before_its_edges(id in vertex_id(), edge in edge_key()) {
        prop_assert_eq!(RowKey::decode(&key::vertex(id)), Ok(RowKey::Vertex(id)));
        let edge = EdgeKey { source: id, ..edge };
        prop_assert!(key::vertex(id).as_slice() < edge.encode().as_slice());
    }

    #[test]
    fn row_keys_sort_as_their_bytes_do(a in row_key(), b in row_key()) {
        prop_assert_eq!(a.encode().cmp(&b.encode()), a.cmp(&b));
        prop_assert_eq!(RowKey::decode(&a.encode()), Ok(a));
    }

    #[test]
    fn history_keys_come_back(key in history_key()) {
        prop_assert_eq!(HistoryKey::decode(&encode_history(&key)), Ok(key));
    }

    #[test]
    fn history_keys_sort_newest_first(a in history_key(), b in history_key()) {
        let (x, y) = (encode_history(&a), encode_history(&b));
        prop_assert_eq!(x.cmp(&y), history_order(&a, &b), "{:?} {:?}", a, b);
    }

    #[test]
    fn a_vertex_history_range_holds_all_but_edges(key in history_key(), id in vertex_id()) {
        let (from, until) = vertex_history_range(id);
        let bytes = encode_history(&key);
        let inside = from.as_slice() <= bytes.as_slice() && bytes.as_slice() < until.as_slice();
        let expected = match &key {
            HistoryKey::Static(of, _) | HistoryKey::Attribute(of, ..) => *of == id,
            HistoryKey::Edge(..) => false,
        };
        prop_assert_eq!(inside, expected);
    }

    #[test]
    fn an_attribute_prefix_holds_no_other_attribute(
        id in vertex_id(), name in attribute(), other in attribute(), version in version(),
    ) {
        let key = attribute_history(id, &other, version);
        prop_assert_eq!(key.starts_with(&attribute_history_prefix(id, &name)), name == other);
    }

    #[test]
    fn index_keys_come_back(t in any::<u16>(), id in vertex_id()) {
        let t = VertexTypeId(t);
        let key = type_index(t, id);
        prop_assert!(key.starts_with(&type_index_prefix(t)));
        prop_assert_eq!(decode_type_index(&key), Ok(id));
        prop_assert!(deleted_index(id).starts_with(&DELETED_INDEX_PREFIX));
        prop_assert_eq!(&deleted_index(id)[1..], &id.0);
        prop_assert!(!key.starts_with(&DELETED_INDEX_PREFIX));
        for (bytes, key) in [
            (key.to_vec(), IndexKey::Type(t, id)),
            (deleted_index(id).to_vec(), IndexKey::Deleted(id)),
            (identity_index(&id.0).to_vec(), IndexKey::Identity(id.0)),
            (alias_index(&id.0).to_vec(), IndexKey::Alias(id.0)),
        ] {
            prop_assert_eq!(IndexKey::decode(&bytes), Ok(key));
        }
    }

    #[test]
    fn index_keys_sort_by_type_then_id(
        a in (any::<u16>(), vertex_id()), b in (any::<u16>(), vertex_id()),
    ) {
        let (x, y) = (type_index(VertexTypeId(a.0), a.1), type_index(VertexTypeId(b.0), b.1));
        prop_assert_eq!(x.cmp(&y), a.cmp(&b));
    }

    #[test]
    fn parts_of_keys_are_those_of_the_whole_keys(edge in edge_key(), old in history_key()) {
        let row = edge.encode();
        prop_assert_eq!(EdgeKey::destination_of(&row), Ok(edge.destination));
        prop_assert_eq!(key::vertex_of(&row), None);
        prop_assert_eq!(key::vertex_of(&key::vertex(edge.source)), Some(edge.source));
        let (of, version) = match &old {
            HistoryKey::Static(id, v) | HistoryKey::Attribute(id, _, v) => (RowKey::Vertex(*id), *v),
            HistoryKey::Edge(edge, v) => (RowKey::Edge(*edge), *v),
        };
        let bytes = encode_history(&old);
        prop_assert_eq!(RowKey::of_history(&bytes), Some(of));
        prop_assert_eq!(key::version_of(&bytes), Some(version));
        prop_assert_eq!(key::without_version(&bytes).len() + 8, bytes.len());
    }

    #[test]
    fn a_range_of_one_vertex_is_found(a in row_key(), b in row_key(), id in vertex_id()) {
        let vertex = |key: &RowKey| match key {
            RowKey::Vertex(id) => *id,
            RowKey::Edge(edge) => edge.source,
        };
        let (from, until) = (a.min(b), a.max(b));
        let found = key::single_vertex(&from.encode(), Some(&until.encode()));
        prop_assert_eq!(found.is_some(), vertex(&from) == vertex(&until));
        if let Some((of, own)) = found {
            prop_assert_eq!((of, own), (vertex(&from), matches!(from, RowKey::Vertex(_))));
        }
        prop_assert_eq!(key::single_vertex(&id.0, Some(&until.encode())), None);
        prop_assert_eq!(key::single_vertex(&from.encode(), None), None);
    }

    #[test]
    fn keys_of_names_come_back(a in vertex_id(), b in vertex_id(), hash: u64, n: u8, v in version()) {
        for (bytes, key) in [
            (dentry_key(a, hash, n).to_vec(), NamesKey::Dentry(a, hash, n)),
            (location_key(a).to_vec(), NamesKey::Location(a)),
            (inode_history_key(a, v).to_vec(), NamesKey::InodeHistory(a, v)),
            (path_named_key(a).to_vec(), NamesKey::PathNamed(a)),
            (child_key(a, b).to_vec(), NamesKey::Child(a, b)),
            (removed_entry_key(a, hash).to_vec(), NamesKey::RemovedEntry(a, hash)),
        ] {
            prop_assert_eq!(NamesKey::decode(&bytes), Ok(key));
            prop_assert_eq!(key.id(), a);
        }
        let [one, other] = [n, n.wrapping_add(1)].map(|n| dentry_key(a, hash, n));
        prop_assert_eq!(without_number(&one), without_number(&other));
    }

    #[test]
    fn counters_come_back(counter in counter(), other in counter()) {
        prop_assert_eq!(Counter::decode(&counter.encode()), Ok(counter));
        if matches!((counter, other), (Counter::Space(..), Counter::Space(..))) {
            prop_assert_eq!(counter.encode().cmp(&other.encode()), counter.cmp(&other));
            let Counter::Space(key, _) = counter else { unreachable!() };
            prop_assert!(counter.encode().starts_with(&Counter::space_prefix(&key)));
        }
    }

    #[test]
    fn degrees_of_a_vertex_are_one_range(id in vertex_id(), t in edge_type()) {
        prop_assert!(Counter::Degree(id, t).encode().starts_with(&Counter::degrees_prefix(id)));
    }

    #[test]
    fn any_bytes_decode_or_are_refused(
        bytes in proptest::collection::vec(any::<u8>(), 0..64),
        old in damaged(history_key().prop_map(|k| encode_history(&k))),
        count in damaged(counter().prop_map(|c| c.encode())),
        index in damaged((any::<u16>(), vertex_id()).prop_map(|(t, id)| type_index(VertexTypeId(t), id).to_vec())),
    ) {
        for bytes in [bytes, old, count, index] {
            // Bytes that decode must encode to the same bytes: no row has two keys.
            if let Ok(edge) = EdgeKey::decode(&bytes) {
                prop_assert_eq!(edge.encode().to_vec(), bytes.clone());
            }
            if let Ok((edge, version)) = EdgeKey::decode_history(&bytes) {
                prop_assert_eq!(&edge.history(version), &bytes);
            }
            match RowKey::decode(&bytes) {
                Ok(RowKey::Vertex(id)) => prop_assert_eq!(key::vertex(id).to_vec(), bytes.clone()),
                Ok(RowKey::Edge(edge)) => prop_assert_eq!(edge.encode().to_vec(), bytes.clone()),
                Err(_) => {}
            }
            if let Ok(key) = HistoryKey::decode(&bytes) {
                prop_assert_eq!(&encode_history(&key), &bytes);
            }
            if let Ok(counter) = Counter::decode(&bytes) {
                prop_assert_eq!(&counter.encode(), &bytes);
            }
            if let Ok(id) = decode_type_index(&bytes) {
                let t = VertexTypeId(u16::from_be_bytes([bytes[1], bytes[2]]));
                prop_assert_eq!(type_index(t, id).to_vec(), bytes);
            }
        }
    }
}

#[test]
fn key_bytes_are_a_format() {
    let id = |byte| VertexId([byte; 16]);
    let edge = EdgeKey {
        source: id(0x11),
        edge_type: EdgeTypeId(0x0203),
        destination: id(0x44),
    };
    assert_eq!(
        hex(&edge.encode()),
        format!("{}030203{}", "11".repeat(16), "44".repeat(16))
    );
    assert_eq!(
        hex(&edge.history(Version(1))),
        format!(
            "{}030203{}fffffffffffffffe",
            "11".repeat(16),
            "44".repeat(16)
        )
    );
    assert_eq!(
        hex(&key::vertex(id(0xaa))),
        format!("{}01", "aa".repeat(16))
    );
    assert_eq!(
        hex(&attribute_history(id(0xaa), "a", Version(0))),
        format!("{}026100ffffffffffffffff", "aa".repeat(16))
    );
    assert_eq!(
        hex(&type_index(VertexTypeId(6), id(0xbb))),
        format!("010006{}", "bb".repeat(16))
    );
    assert_eq!(
        hex(&Counter::Edges(EdgeTypeId(5)).encode()),
        format!("{}020005", "00".repeat(16))
    );
}

fn hex(bytes: &[u8]) -> String {
    bytes.iter().map(|b| format!("{b:02x}")).collect()
}
