//! Checks of mutations that are independent of stored data: names, kinds, sizes.

use esker_model::filter::SPECIAL_NAMES;
use esker_model::id::check_key;
use esker_model::limits::{LIST_DEPTH_MAX, PROPERTIES_MAX, ROW_BYTES_MAX, VALUE_BYTES_MAX};
use esker_model::schema::check_attribute_name;
use esker_model::{
    Error, Properties, Result, Schema, SchemaError, Value, VertexId, VertexRef, VertexTypeId,
};

/// Refuses a vertex whose key is invalid, or whose id is not that of its name.
pub(crate) fn check_vertex(schema: &Schema, vertex: VertexRef, key: &str) -> Result<()> {
    if let Err(reason) = check_key(key) {
        let text = format!("{}:{}", schema.prefix(vertex.type_id), shorten(key));
        return Err(esker_model::id::NameError { text, reason }.into());
    }
    let Some(t) = schema.vertex_type(vertex.type_id) else {
        return Err(Error::Invalid(format!(
            "the schema has no vertex type #{}",
            vertex.type_id.0
        )));
    };
    if VertexId::of(&t.name, key) != vertex.id {
        return Err(Error::Invalid(format!(
            "vertex id {} is not the id of `{}:{key}`",
            vertex.id,
            schema.prefix(vertex.type_id)
        )));
    }
    Ok(())
}

/// Refuses attributes that the schema does not declare as predefined.
pub(crate) fn check_static(
    schema: &Schema,
    type_id: VertexTypeId,
    attributes: &Properties,
) -> Result<()> {
    check_properties("a vertex's attributes", attributes, PROPERTIES_MAX)?;
    let type_name = || {
        schema
            .vertex_type(type_id)
            .map_or_else(String::new, |t| t.name.clone())
    };
    for (name, value) in attributes.iter() {
        let Some(declared) = schema.attribute(type_id, name) else {
            let known: Vec<_> = schema
                .attributes(type_id)
                .iter()
                .map(|a| a.name.as_str())
                .collect();
            return Err(SchemaError::Unknown {
                what: "predefined attribute",
                name: format!("{name}` of `{}", type_name()),
                nearest: esker_model::schema::nearest(name, known.iter().copied()),
                known: known.join(", "),
            }
            .into());
        };
        if !declared.kind.accepts(value) {
            return Err(Error::Kind {
                vertex_type: type_name(),
                attribute: name.to_owned(),
                expected: declared.kind.name(),
                got: value.kind_name(),
            });
        }
    }
    Ok(())
}

/// Refuses properties over the limits, and invalid names.
pub(crate) fn check_properties(what: &str, properties: &Properties, max: usize) -> Result<()> {
    // Messages are formatted only on failure: this runs for each edge written.
    let limit = |what: &dyn Fn() -> String, got: usize, limit: usize| {
        if got > limit {
            Err(Error::Limit {
                what: what(),
                got: got as u64,
                limit: limit as u64,
            })
        } else {
            Ok(())
        }
    };
    limit(&|| format!("{what}, counted,"), properties.len(), max)?;
    for (name, value) in properties.iter() {
        check_attribute_name(name)?;
        let bytes = match value {
            Value::String(s) => s.len(),
            Value::Bytes(b) => b.len(),
            Value::List(_) => {
                limit(
                    &|| format!("the nesting of `{name}`"),
                    value.depth(),
                    LIST_DEPTH_MAX,
                )?;
                let mut out = Vec::new();
                value.encode(&mut out);
                out.len()
            }
            _ => 0,
        };
        limit(
            &|| format!("the value of `{name}`, in bytes,"),
            bytes,
            VALUE_BYTES_MAX,
        )?;
    }
    Ok(())
}

/// Refuses an object's tag under a name that has a special meaning in filters: no filter could find it.
pub(crate) fn check_tag_name(name: &str) -> Result<()> {
    check_attribute_name(name)?;
    check_not_special(name)
}

/// [`check_tag_name`] for a valid name of an attribute.
pub(crate) fn check_not_special(name: &str) -> Result<()> {
    if SPECIAL_NAMES.contains(&name) {
        return Err(Error::Invalid(format!(
            "`{name}` cannot be a tag: {} mean something else in filters; choose another name",
            SPECIAL_NAMES.join(", ")
        )));
    }
    Ok(())
}

fn shorten(key: &str) -> String {
    if key.chars().count() <= 64 {
        key.to_owned()
    } else {
        key.chars().take(61).chain("...".chars()).collect()
    }
}

/// Refuses a row that is too large after encoding.
pub(crate) fn check_row(what: &str, bytes: usize) -> Result<()> {
    if bytes > ROW_BYTES_MAX {
        return Err(Error::Limit {
            what: format!("{what}, encoded, in bytes,"),
            got: bytes as u64,
            limit: ROW_BYTES_MAX as u64,
        });
    }
    Ok(())
}
