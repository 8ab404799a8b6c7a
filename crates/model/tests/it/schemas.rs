//! The schema: the default is GraphMeta's Table 1, changes only add, encoding and decoding are inverse.

use crate::strategies::damaged;
use esker_model::codec::Reader;
use esker_model::schema::nearest;
use esker_model::{AttributeDefinition, Schema, SchemaChange, SchemaError, ValueKind};
use proptest::prelude::*;

fn encoded(schema: &Schema) -> Vec<u8> {
    let mut out = Vec::new();
    schema.encode(&mut out);
    out
}

#[test]
fn the_default_is_the_papers_table() {
    let schema = Schema::default();
    let vertices: Vec<String> = schema
        .vertex_types()
        .map(|(id, t)| {
            let parent = t.parent.and_then(|p| schema.vertex_type(p));
            let parent = parent.map_or(String::new(), |p| format!(" is {}", p.name));
            format!("{} {}{parent}", id.0, t.name)
        })
        .collect();
    assert_eq!(
        vertices,
        [
            "0 User",
            "1 Execution",
            "2 DataObject",
            "3 Group is User",
            "4 Job is Execution",
            "5 Process is Execution",
            "6 File is DataObject",
            "7 Directory is DataObject",
            "8 Executable is DataObject",
            "9 Object is DataObject",
        ]
    );
    let edges: Vec<String> = schema
        .edge_types()
        .filter(|(_, t)| t.forward)
        .map(|(id, t)| {
            let name = |id| schema.vertex_type(id).unwrap().name.clone();
            let inverse = schema.edge_type(t.inverse).unwrap();
            format!(
                "{} {}: {} -> {}, {} {}",
                id.0,
                t.name,
                name(t.source),
                name(t.destination),
                t.inverse.0,
                inverse.name
            )
        })
        .collect();
    assert_eq!(
        edges,
        [
            "0 run: User -> Execution, 1 wasRunBy",
            "2 belongs: Execution -> Execution, 3 contains",
            "4 exe: Execution -> DataObject, 5 exedBy",
            "6 read: Execution -> DataObject, 7 wasReadBy",
            "8 write: Execution -> DataObject, 9 wasWrittenBy",
            "10 has: DataObject -> DataObject, 11 belongsTo",
            "12 memberOf: User -> Group, 13 hasMember",
        ]
    );
    for (id, t) in schema.edge_types() {
        let inverse = schema.edge_type(t.inverse).unwrap();
        assert_eq!(inverse.inverse, id);
        assert_eq!(
            (inverse.source, inverse.destination),
            (t.destination, t.source)
        );
        assert_ne!(inverse.forward, t.forward);
    }
}

#[test]
fn attributes_are_inherited() {
    let schema = Schema::default();
    let file = schema.vertex_type_id("FILE").unwrap();
    let names: Vec<_> = schema
        .attributes(file)
        .iter()
        .map(|a| a.name.as_str())
        .collect();
    assert_eq!(names.first(), Some(&"name"));
    assert_eq!(names.last(), Some(&"links"));
    assert_eq!(
        schema.attribute(file, "size").map(|a| a.kind),
        Some(ValueKind::I64)
    );
    assert_eq!(schema.attribute(file, "jobid"), None);
    assert_eq!(schema.prefix(file), "file");
    let data = schema.vertex_type_id("dataobject").unwrap();
    assert!(schema.is_a(file, data) && !schema.is_a(data, file));
    assert_eq!(schema.specialisations(data).len(), 5);
}

#[test]
fn names_that_are_close_are_suggested() {
    let edges = ["read", "write", "wasWrittenBy", "wasReadBy"];
    let close = |name: &str| nearest(name, edges.into_iter());
    assert_eq!(close("wasWritenBy").as_deref(), Some("wasWrittenBy"));
    assert_eq!(close("waswrittenby").as_deref(), Some("wasWrittenBy"));
    assert_eq!(close("raed").as_deref(), Some("read"));
    assert_eq!(close("wirte").as_deref(), Some("write"));
    assert_eq!(close("belongs"), None);
    assert_eq!(
        nearest("x", ["e", "v"].into_iter()),
        None,
        "one letter replaced is another word"
    );
    assert_eq!(nearest("", edges.into_iter()), None);
}

fn vertex(name: &str, parent: Option<&str>) -> SchemaChange {
    SchemaChange::VertexType {
        name: name.to_owned(),
        parent: parent.map(str::to_owned),
        attributes: vec![AttributeDefinition {
            name: "note".to_owned(),
            kind: ValueKind::String,
        }],
    }
}

fn edge(name: &str, inverse: &str, source: &str, destination: &str) -> SchemaChange {
    SchemaChange::EdgeType {
        name: name.to_owned(),
        inverse: inverse.to_owned(),
        source: source.to_owned(),
        destination: destination.to_owned(),
    }
}

#[test]
fn a_change_made_twice_changes_nothing() {
    let mut schema = Schema::default();
    for change in [
        vertex("Campaign", None),
        vertex("Plot", Some("File")),
        edge("partOf", "hasPart", "Execution", "Campaign"),
        edge("similarTo", "similarTo", "File", "File"),
    ] {
        assert_eq!(schema.apply(&change), Ok(true));
        let before = schema.clone();
        assert_eq!(schema.apply(&change), Ok(false));
        assert_eq!(schema, before);
    }
    let symmetric = schema.edge_type_id("similarTo").unwrap();
    assert_eq!(schema.inverse(symmetric), symmetric);
}

#[test]
fn a_change_that_contradicts_is_refused_and_leaves_no_trace() {
    let mut schema = Schema::default();
    let before = schema.clone();
    for change in [
        vertex("File", None),
        vertex("1st", None),
        vertex("Plot", Some("Flie")),
        edge("read", "readBy", "Execution", "File"),
        edge("readBy", "read", "Execution", "File"),
        edge("near", "near", "File", "User"),
        edge("bad name", "x", "File", "File"),
        edge("cites", "citedBy", "File", "Paper"),
    ] {
        assert!(schema.apply(&change).is_err(), "{change:?}");
        assert_eq!(schema, before, "{change:?}");
    }
    let error = schema.edge_type_id("wasWritenBy").unwrap_err();
    assert!(matches!(&error, SchemaError::Unknown { nearest: Some(n), .. } if n == "wasWrittenBy"));
}

#[test]
fn ends_are_checked_with_specialisations() {
    let schema = Schema::default();
    let t = |name: &str| schema.vertex_type_id(name).unwrap();
    let read = schema.edge_type_id("read").unwrap();
    assert_eq!(schema.check_ends(read, t("Job"), t("File")), Ok(()));
    let error = schema.check_ends(read, t("File"), t("Job")).unwrap_err();
    assert_eq!(
        error.to_string(),
        "edge type `read` joins Execution to DataObject; got File to Job"
    );
}

/// Random changes to the default schema, applied where it accepts them.
fn schema() -> impl Strategy<Value = Schema> {
    let change = prop_oneof![
        ("[A-Z][a-z]{0,3}", proptest::option::of("User|File|A|B"))
            .prop_map(|(n, p)| vertex(&n, p.as_deref())),
        ("[a-z]{1,3}", "[a-z]{1,3}", "File|A|B", "User|A|B")
            .prop_map(|(n, i, s, d)| edge(&n, &i, &s, &d)),
        ("File|A|B", "[a-z]{1,3}", 0_u8..8).prop_map(|(t, name, kind)| SchemaChange::Attribute {
            vertex_type: t,
            attribute: AttributeDefinition {
                name,
                kind: ValueKind::from_code(kind).unwrap_or(ValueKind::Any),
            },
        }),
    ];
    proptest::collection::vec(change, 0..12).prop_map(|changes| {
        let mut schema = Schema::default();
        for change in changes {
            let before = schema.clone();
            match schema.apply(&change) {
                Ok(true) => assert_ne!(schema, before),
                Ok(false) | Err(_) => assert_eq!(schema, before),
            }
        }
        schema
    })
}

proptest! {
    #[test]
    fn schemas_come_back(schema in schema()) {
        let bytes = encoded(&schema);
        let mut r = Reader::new(&bytes);
        prop_assert_eq!(Schema::decode(&mut r), Ok(schema));
        prop_assert_eq!(r.remaining(), 0);
    }

    /// Any schema that decodes can be queried without a panic or an endless loop.
    #[test]
    fn any_bytes_decode_or_are_refused(
        bytes in proptest::collection::vec(any::<u8>(), 0..96),
        near in damaged(schema().prop_map(|s| encoded(&s))),
    ) {
        for bytes in [bytes, near] {
            let Ok(schema) = Schema::decode(&mut Reader::new(&bytes)) else {
                continue;
            };
            for (id, t) in schema.vertex_types() {
                let _ = (schema.attributes(id), schema.specialisations(id), schema.attribute(id, &t.name));
            }
            for (id, t) in schema.edge_types() {
                prop_assert!(schema.edge_type(schema.inverse(id)).is_some());
                let _ = schema.check_ends(id, t.source, t.destination);
                let _ = schema.check_ends(id, t.destination, t.source);
            }
            prop_assert_eq!(encoded(&schema).is_empty(), false);
        }
    }
}
