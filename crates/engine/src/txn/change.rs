//! Changes of single predefined attributes: reads the attributes as of a version, changes some, and stores them at that version.
//!
//! They are read under the write lock, so that two writers who change different attributes both keep their changes.

use super::{Txn, check_static};
use esker_model::key::{static_history, vertex as vertex_key};
use esker_model::record::{StaticRecord, VertexRecord};
use esker_model::{Error, Properties, Result, Version, VertexId, VertexRef};
use esker_store::{KeyRange, prefix_end};

impl Txn<'_, '_> {
    pub(super) fn change_vertex(
        &mut self,
        vertex: VertexRef,
        set: Properties,
        remove: &[String],
        at: Option<Version>,
    ) -> Result<()> {
        check_static(self.schema, vertex.type_id, &set)?;
        let names = set.iter().map(|(name, _)| name);
        self.refuse_id_attributes(vertex, names.chain(remove.iter().map(String::as_str)))?;
        if let Some(name) = remove
            .iter()
            .find(|name| self.schema.attribute(vertex.type_id, name).is_none())
        {
            let vertex_type = self.schema.vertex_type(vertex.type_id);
            return Err(Error::Invalid(format!(
                "`{name}` is not a predefined attribute of {}",
                vertex_type.map_or("its type", |t| t.name.as_str())
            )));
        }
        let Some(record) = self.current_vertex(vertex.id)? else {
            return Err(self.no_vertex(vertex));
        };
        let version = self.version_after(at, record.static_version);
        let Some(mut attributes) = self.predefined_at(vertex.id, &record, version)? else {
            return Err(self.no_vertex(vertex));
        };
        for (name, value) in set {
            attributes.set(name, value);
        }
        for name in remove {
            attributes.remove(name);
        }
        self.put_static(vertex, record.key, attributes, Some(version))
    }

    /// The predefined attributes of a vertex as of a version; `None` if it did not exist then.
    fn predefined_at(
        &self,
        id: VertexId,
        record: &VertexRecord,
        version: Version,
    ) -> Result<Option<Properties>> {
        if version >= record.static_version {
            return Ok((!record.deleted).then(|| record.attributes.clone()));
        }
        let range = KeyRange {
            from: static_history(id, version),
            until: prefix_end(&vertex_key(id)),
        };
        // Rows are sorted newest first.
        let Some((_, value)) = self.history(&range, version)?.into_iter().next() else {
            return Ok(None);
        };
        let then = StaticRecord::decode(&value)
            .map_err(|e| Error::corrupt("a row of table `history`", e))?;
        Ok((!then.deleted).then_some(then.attributes))
    }
}
