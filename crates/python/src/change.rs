//! Changes from Python: tuples whose first item names the operation.
//!
//! ```text
//!  ("put", name, attributes)        ("set", name, attributes, removed names)       ("delete", name)
//!  ("link", source, type, destination, properties)      ("unlink", source, type, destination)
//!  ("object", name, app, owner, step, tags)
//! ```

use crate::database::vertex_of;
use crate::error::{invalid, raise};
use crate::value::properties_of;
use esker::Database;
use esker_model::object::Identity;
use esker_model::{
    Batch, Commit, GraphRead as _, GraphWrite as _, Mutation, Op, Properties, Result, Version,
};
use pyo3::prelude::*;
use pyo3::types::{PyDict, PyTuple};

/// A change with unresolved names.
pub(crate) enum Change {
    Put(String, Properties),
    Set(String, Properties, Vec<String>),
    Delete(String),
    Link(String, String, String, Properties),
    Unlink(String, String, String),
    Object(Identity, Properties),
}

impl Change {
    pub(crate) fn of(tuple: &Bound<'_, PyTuple>) -> PyResult<Self> {
        let text = |i: usize| tuple.get_item(i)?.extract::<String>();
        let dict = |i: usize| properties_of(tuple.get_item(i)?.cast::<PyDict>()?);
        Ok(match text(0)?.as_str() {
            "put" => Self::Put(text(1)?, dict(2)?),
            "set" => Self::Set(text(1)?, dict(2)?, tuple.get_item(3)?.extract()?),
            "delete" => Self::Delete(text(1)?),
            "link" => Self::Link(text(1)?, text(2)?, text(3)?, dict(4)?),
            "unlink" => Self::Unlink(text(1)?, text(2)?, text(3)?),
            "object" => {
                let number = |i: usize| tuple.get_item(i)?.extract::<i64>();
                let identity = Identity {
                    name: text(1)?,
                    app: text(2)?,
                    owner: number(3)?,
                    step: number(4)?,
                };
                Self::Object(identity, dict(5)?)
            }
            other => return Err(raise(tuple.py(), &invalid(format!("no change `{other}`")))),
        })
    }
}

/// Splits properties into those that the schema declares and the others.
fn split(all: Properties, declared: impl Fn(&str) -> bool) -> (Properties, Properties) {
    let (mut predefined, mut user) = (Properties::new(), Properties::new());
    for (name, value) in all {
        let to = if declared(&name) {
            &mut predefined
        } else {
            &mut user
        };
        to.set(name, value);
    }
    (predefined, user)
}

/// Applies changes in one commit.
pub(crate) fn apply(
    database: &Database,
    changes: Vec<Change>,
    version: Option<Version>,
) -> Result<Commit> {
    let schema = database.schema()?;
    let mut ops = Vec::with_capacity(changes.len());
    let vertex = |name: &str| vertex_of(database, &schema, name);
    for change in changes {
        match change {
            Change::Put(name, all) => {
                let (name, vertex) = vertex(&name)?;
                let (attributes, set) =
                    split(all, |n| schema.attribute(vertex.type_id, n).is_some());
                ops.push(Op::PutVertex {
                    vertex,
                    key: name.key,
                    attributes,
                });
                if !set.is_empty() {
                    ops.push(Op::SetAttributes {
                        vertex,
                        set,
                        remove: Vec::new(),
                    });
                }
            }
            Change::Set(name, all, remove) => {
                let (_, vertex) = vertex(&name)?;
                let declared = |n: &str| schema.attribute(vertex.type_id, n).is_some();
                let (set, user) = split(all, declared);
                let (gone, removed): (Vec<_>, Vec<_>) =
                    remove.into_iter().partition(|n| declared(n));
                if !set.is_empty() || !gone.is_empty() {
                    ops.push(Op::ChangeVertex {
                        vertex,
                        set,
                        remove: gone,
                    });
                }
                if !user.is_empty() || !removed.is_empty() {
                    ops.push(Op::SetAttributes {
                        vertex,
                        set: user,
                        remove: removed,
                    });
                }
            }
            Change::Delete(name) => ops.push(Op::DeleteVertex {
                vertex: vertex(&name)?.1,
            }),
            Change::Link(source, edge_type, destination, properties) => {
                let edge_type = schema.edge_type_id(&edge_type)?;
                let (from, source) = vertex(&source)?;
                let (to, destination) = vertex(&destination)?;
                ops.push(Op::EnsureVertex {
                    vertex: source,
                    key: from.key,
                });
                ops.push(Op::EnsureVertex {
                    vertex: destination,
                    key: to.key,
                });
                ops.push(Op::PutEdge {
                    source,
                    edge_type,
                    destination,
                    properties,
                });
            }
            Change::Unlink(source, edge_type, destination) => {
                let edge_type = schema.edge_type_id(&edge_type)?;
                let (source, destination) = (vertex(&source)?.1, vertex(&destination)?.1);
                ops.push(Op::DeleteEdge {
                    source,
                    edge_type,
                    destination,
                });
            }
            Change::Object(identity, tags) => {
                let kind = esker_model::object::object_type(&schema);
                let declared = |n: &str| kind.is_some_and(|k| schema.attribute(k, n).is_some());
                let (attributes, tags) = split(tags, declared);
                ops.push(Op::CreateObject {
                    identity,
                    attributes,
                    tags,
                });
            }
        }
    }
    let mutations = ops.into_iter().map(|op| Mutation { version, op }).collect();
    database.apply(Batch {
        mutations,
        idempotency_key: None,
    })
}

/// Creates an attribute definition from the name of a kind of value.
pub(crate) fn definition(name: String, kind: &str) -> Result<esker_model::AttributeDefinition> {
    let Some(kind) = esker_model::ValueKind::from_name(kind) else {
        let all: Vec<_> = esker_model::ValueKind::ALL
            .iter()
            .map(|k| k.name())
            .collect();
        return Err(invalid(format!(
            "no kind `{kind}`; expected {}",
            all.join(", ")
        )));
    };
    Ok(esker_model::AttributeDefinition { name, kind })
}
