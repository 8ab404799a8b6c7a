//! The schema: the first server by id assigns the numbers of types; the others follow.

use super::Node;
use super::peers::unexpected;
use crate::peer::{Request, Response};
use crate::vnode::ServerId;
use esker_model::{
    Error, ErrorKind, GraphRead as _, GraphWrite as _, Result, Schema, SchemaChange,
};
use futures_util::future::join_all;
use std::sync::Arc;

impl Node {
    /// Returns the server that assigns the numbers of types.
    fn schema_server(&self) -> ServerId {
        let first = self.map.servers().first();
        first.copied().unwrap_or(self.settings.id)
    }

    /// Returns the schema as this server knows it.
    pub fn schema(&self) -> Result<Arc<Schema>> {
        self.engine.schema()
    }

    /// Adds types and attributes on all servers, atomically on each; returns the new schema. If a server cannot be
    /// reached, the others have the additions; repeating the call changes nothing on those.
    pub async fn define(self: &Arc<Self>, changes: &[SchemaChange]) -> Result<Arc<Schema>> {
        self.check_serving()?;
        let first = self.schema_server();
        if first == self.settings.id {
            return self.define_everywhere(changes).await;
        }
        let changes = changes.to_vec();
        match self.request(first, Request::Define { changes }).await? {
            Response::Done => self.engine.schema(),
            _ => Err(unexpected(first)),
        }
    }

    /// Handles a definition from another server: the numbering server applies it everywhere; the others adopt the
    /// numbering server's schema.
    pub(crate) async fn define_from(
        self: &Arc<Self>,
        from: ServerId,
        changes: &[SchemaChange],
    ) -> Result<Response> {
        if from == self.schema_server() {
            self.adopt_types(changes)?;
        } else if self.schema_server() == self.settings.id {
            self.define_everywhere(changes).await?;
        } else {
            return Err(Error::Invalid(format!(
                "{} does not assign the numbers of types; {} does",
                self.settings.id,
                self.schema_server()
            )));
        }
        Ok(Response::Done)
    }

    async fn define_everywhere(self: &Arc<Self>, changes: &[SchemaChange]) -> Result<Arc<Schema>> {
        let changing = self.begin_change().await?;
        let schema = self.engine.define(changes)?;
        drop(changing);
        // The complete schema in the order of numbers, so that a server that missed something catches up.
        let all = as_changes(&schema);
        let others = self
            .map
            .servers()
            .iter()
            .filter(|s| **s != self.settings.id);
        let others: Vec<ServerId> = others.copied().collect();
        let tell = others.iter().map(|to| {
            let changes = all.clone();
            self.request(*to, Request::Define { changes })
        });
        for (server, result) in others.iter().zip(join_all(tell).await) {
            result.map_err(|e| {
                Error::Unavailable(format!(
                    "the types are defined, but {server} does not know them yet: {e}; repeat the definition"
                ))
            })?;
        }
        Ok(schema)
    }

    /// Adopts the schema of the numbering server. Types that exist here keep their numbers; missing attributes are appended.
    fn adopt_types(&self, changes: &[SchemaChange]) -> Result<()> {
        let schema = self.engine.schema()?;
        let is_new = |change: &&SchemaChange| match change {
            SchemaChange::VertexType { name, .. } => schema.vertex_type_id(name).is_err(),
            SchemaChange::EdgeType { .. } | SchemaChange::Attribute { .. } => true,
        };
        let changes: Vec<SchemaChange> = changes.iter().filter(is_new).cloned().collect();
        self.engine.define(&changes).map(|_| ())
    }

    /// Fetches definitions that this server missed while it was down.
    pub(crate) async fn catch_up_schema(self: &Arc<Self>) -> Result<()> {
        let first = self.schema_server();
        if first == self.settings.id {
            return Ok(());
        }
        loop {
            match self.request(first, Request::Schema).await {
                Ok(Response::Schema(changes)) => return self.adopt_types(&changes),
                Ok(_) => return Err(unexpected(first)),
                // The numbering server may be starting as well, and waiting for this one.
                Err(e) if e.kind() == ErrorKind::Unavailable => self.host.sleep(20).await,
                Err(e) => return Err(e),
            }
        }
    }
}

/// All additions to the default schema, in the order of their numbers.
pub(crate) fn as_changes(schema: &Schema) -> Vec<SchemaChange> {
    let type_name = |id| {
        schema
            .vertex_type(id)
            .map_or_else(String::new, |t| t.name.clone())
    };
    let mut changes = Vec::new();
    for (_, t) in schema.vertex_types().filter(|(_, t)| !t.builtin) {
        changes.push(SchemaChange::VertexType {
            name: t.name.clone(),
            parent: t.parent.map(type_name),
            attributes: Vec::new(),
        });
    }
    let default = Schema::default();
    for (id, t) in schema.vertex_types() {
        let before = default.vertex_type(id).map_or(0, |t| t.attributes.len());
        for attribute in t.attributes.iter().skip(before) {
            changes.push(SchemaChange::Attribute {
                vertex_type: t.name.clone(),
                attribute: attribute.clone(),
            });
        }
    }
    let defaults = default.edge_types().count();
    for (_, t) in schema
        .edge_types()
        .skip(defaults)
        .filter(|(_, t)| t.forward)
    {
        changes.push(SchemaChange::EdgeType {
            name: t.name.clone(),
            inverse: schema
                .edge_type(t.inverse)
                .map_or_else(String::new, |i| i.name.clone()),
            source: type_name(t.source),
            destination: type_name(t.destination),
        });
    }
    changes
}

#[cfg(test)]
mod tests {
    use super::*;
    use esker_model::AttributeDefinition;
    use esker_model::ValueKind;

    #[test]
    fn a_schema_is_its_changes_again() {
        let attribute = |name: &str| AttributeDefinition {
            name: name.into(),
            kind: ValueKind::I64,
        };
        let mut schema = Schema::default();
        let edge = |name: &str, inverse: &str, destination: &str| SchemaChange::EdgeType {
            name: name.into(),
            inverse: inverse.into(),
            source: "File".into(),
            destination: destination.into(),
        };
        let changes = [
            SchemaChange::VertexType {
                name: "Sensor".into(),
                parent: Some("File".into()),
                attributes: vec![attribute("rate")],
            },
            edge("measuredBy", "measured", "Sensor"),
            SchemaChange::Attribute {
                vertex_type: "Sensor".into(),
                attribute: attribute("room"),
            },
            SchemaChange::Attribute {
                vertex_type: "File".into(),
                attribute: attribute("shelf"),
            },
            edge("near", "near", "File"),
        ];
        let mut again = Schema::default();
        for change in &changes {
            schema.apply(change).unwrap();
        }
        for change in &as_changes(&schema) {
            again.apply(change).unwrap();
        }
        assert_eq!(again, schema);
    }
}
