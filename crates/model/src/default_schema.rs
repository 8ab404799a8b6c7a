//! The default schema: GraphMeta's Table 1 and section 2.1.

use crate::id::VertexTypeId;
use crate::schema::{AttributeDefinition, Schema};
use crate::value::ValueKind::{self, Bool, I64, List, String, Timestamp};

const USER: VertexTypeId = VertexTypeId(0);
const EXECUTION: VertexTypeId = VertexTypeId(1);
const DATA_OBJECT: VertexTypeId = VertexTypeId(2);
const GROUP: VertexTypeId = VertexTypeId(3);

type VertexRow = (
    &'static str,
    Option<VertexTypeId>,
    &'static [(&'static str, ValueKind)],
);

const VERTEX_TYPES: [VertexRow; 10] = [
    (
        "User",
        None,
        &[("name", String), ("uid", I64), ("institution", String)],
    ),
    (
        "Execution",
        None,
        &[
            ("name", String),
            ("command", String),
            ("start", Timestamp),
            ("end", Timestamp),
            ("host", String),
            ("environment", List),
            ("settings", List),
        ],
    ),
    (
        "DataObject",
        None,
        &[
            ("name", String),
            ("size", I64),
            ("mode", I64),
            ("uid", I64),
            ("gid", I64),
            ("atime", Timestamp),
            ("mtime", Timestamp),
            ("ctime", Timestamp),
            ("mount", String),
            ("filesystem", String),
        ],
    ),
    ("Group", Some(USER), &[("gid", I64)]),
    (
        "Job",
        Some(EXECUTION),
        &[
            ("jobid", String),
            ("nprocs", I64),
            ("partial", Bool),
            ("log", String),
        ],
    ),
    ("Process", Some(EXECUTION), &[("rank", I64), ("pid", I64)]),
    ("File", Some(DATA_OBJECT), &[("links", I64)]),
    ("Directory", Some(DATA_OBJECT), &[("links", I64)]),
    ("Executable", Some(DATA_OBJECT), &[("build_id", String)]),
    // SoMeta, section II-D; `name` and the inode attributes are inherited from DataObject.
    (
        "Object",
        Some(DATA_OBJECT),
        &[
            ("app", String),
            ("owner", I64),
            ("step", I64),
            ("location", String),
        ],
    ),
];

/// (edge type, its inverse, source, destination): Table 1 row by row. Table 1 leaves User–User empty, so the last
/// row is ours: without it a Group (section 2.1) could not be reached.
const EDGE_TYPES: [(&str, &str, VertexTypeId, VertexTypeId); 7] = [
    ("run", "wasRunBy", USER, EXECUTION),
    ("belongs", "contains", EXECUTION, EXECUTION),
    ("exe", "exedBy", EXECUTION, DATA_OBJECT),
    ("read", "wasReadBy", EXECUTION, DATA_OBJECT),
    ("write", "wasWrittenBy", EXECUTION, DATA_OBJECT),
    ("has", "belongsTo", DATA_OBJECT, DATA_OBJECT),
    ("memberOf", "hasMember", USER, GROUP),
];

/// Adds the types and attributes that an older default schema lacks. Returns whether anything was added.
pub(crate) fn upgrade(schema: &mut Schema) -> bool {
    let Some((name, Some(parent), attributes)) = VERTEX_TYPES.last() else {
        return false;
    };
    let is_default = schema
        .vertex_type(*parent)
        .is_some_and(|t| t.builtin && t.name == "DataObject");
    is_default
        && schema.vertex_type_id(name).is_err()
        && schema
            .add_vertex_type(name, Some(*parent), &definitions(attributes), true)
            .unwrap_or(false)
}

fn definitions(attributes: &[(&str, ValueKind)]) -> Vec<AttributeDefinition> {
    let definition = |(name, kind): &(&str, ValueKind)| AttributeDefinition {
        name: (*name).to_owned(),
        kind: *kind,
    };
    attributes.iter().map(definition).collect()
}

pub(crate) fn default_schema() -> Schema {
    let mut schema = Schema::empty();
    for (name, parent, attributes) in VERTEX_TYPES {
        let added = schema.add_vertex_type(name, parent, &definitions(attributes), true);
        debug_assert_eq!(added, Ok(true), "the default schema is well formed");
    }
    for (name, inverse, source, destination) in EDGE_TYPES {
        let added = schema.add_edge_type(name, inverse, source, destination);
        debug_assert_eq!(added, Ok(true), "the default schema is well formed");
    }
    schema
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The default schema as it was before objects were introduced.
    fn earlier() -> Schema {
        let mut schema = Schema::empty();
        let (_, old) = VERTEX_TYPES.split_last().unwrap();
        for (name, parent, attributes) in old {
            let added = schema.add_vertex_type(name, *parent, &definitions(attributes), true);
            assert_eq!(added, Ok(true));
        }
        schema
    }

    #[test]
    fn a_schema_of_an_earlier_time_gets_objects() {
        let mut schema = earlier();
        assert!(crate::object::object_type(&schema).is_none());
        assert!(schema.upgrade());
        let id = crate::object::object_type(&schema).unwrap();
        assert_eq!(
            schema.vertex_type(id),
            default_schema().vertex_type(id),
            "as in a new database"
        );
        assert!(!schema.upgrade(), "once is enough");
    }

    #[test]
    fn a_type_of_ones_own_of_that_name_stays() {
        let mut schema = earlier();
        let added = schema.add_vertex_type("object", None, &[], false);
        assert_eq!(added, Ok(true));
        assert!(!schema.upgrade());
        assert!(crate::object::object_type(&schema).is_none());
        assert!(!Schema::empty().upgrade());
    }
}
