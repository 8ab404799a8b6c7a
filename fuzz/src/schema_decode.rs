//! Schemas: bytes are decoded or refused; a decoded schema answers every query, and is encoded and decoded back.

use esker_model::Schema;
use esker_model::codec::Reader;

pub(crate) fn check(bytes: &[u8]) {
    let Ok(schema) = Schema::decode(&mut Reader::new(bytes)) else {
        return;
    };
    for (id, t) in schema.vertex_types() {
        let _ = schema.attributes(id);
        let _ = schema.attribute(id, "name");
        let _ = schema.vertex_type_id(&t.name);
        assert!(schema.is_a(id, id));
    }
    for (id, t) in schema.edge_types() {
        assert!(schema.edge_type(schema.inverse(id)).is_some());
        let _ = schema.check_ends(id, t.source, t.destination);
    }
    let mut encoded = Vec::new();
    schema.encode(&mut encoded);
    assert_eq!(Schema::decode(&mut Reader::new(&encoded)), Ok(schema));
}
