//! The row source of an engine that has all rows of a namespace.

use super::directory::Directories;
use super::rows::{self, CommittedRows, NameRows};
use super::source::{EntrySink, RowSource};
use super::space;
use crate::Engine;
use crate::read::{FirstError, vertex_record};
use esker_model::key::{Counter, Measure, SpaceKey};
use esker_model::namespace::record::{
    children_prefix, decode_child_key, dentries_prefix, dentry_key,
};
use esker_model::namespace::{Cookie, Name};
use esker_model::record::UserAttribute;
use esker_model::{Error, Flow, Result, VertexId};
use esker_store::{KeyRange, Table};

/// All rows of a namespace: those of the engine's store.
pub(crate) struct LocalRows<'e>(pub(crate) &'e Engine);

impl NameRows for LocalRows<'_> {
    fn row(&self, key: &[u8], sink: &mut dyn FnMut(&[u8])) -> Result<bool> {
        self.0.store.get_with(Table::Names, key, sink)
    }
}

impl RowSource for LocalRows<'_> {
    fn directories(&self) -> Option<&Directories> {
        // On an engine with a part of a namespace these rows alone do not determine a directory.
        let names = &self.0.names;
        (!names.is_distributed()).then_some(&names.directories)
    }

    fn sum(&self, directory: VertexId, measure: Measure) -> Result<i64> {
        let counter = Counter::Space(SpaceKey::Directory(directory), measure);
        space::value(&*self.0.store, &self.0.counters, counter).map(u64::cast_signed)
    }

    fn tags(&self, id: VertexId) -> Result<Option<Vec<UserAttribute>>> {
        if !self.0.names.has_vertices() {
            return Ok(None);
        }
        let record = vertex_record(&*self.0.store, id)?;
        Ok(record.filter(|r| !r.deleted).map(|r| r.user))
    }

    fn entries(
        &self,
        directory: VertexId,
        after: Option<Cookie>,
        _limit: usize,
        sink: &mut EntrySink<'_>,
    ) -> Result<()> {
        let prefix = dentries_prefix(directory);
        let range = match after {
            Some(c) => KeyRange::prefix_after(&prefix, &dentry_key(directory, c.hash, c.n)),
            None => KeyRange::prefix(&prefix),
        };
        let snapshot = self.0.store.snapshot()?;
        let rows = CommittedRows(&*snapshot);
        snapshot.scan(Table::Names, &range, &mut |key, value| {
            sink(&rows, key, value)
        })
    }

    fn children(&self, directory: VertexId) -> Result<Vec<(VertexId, Name)>> {
        let mut error = FirstError::default();
        let mut children = Vec::new();
        let range = KeyRange::prefix(&children_prefix(directory));
        self.0.store.scan(Table::Names, &range, &mut |key, value| {
            let child = error.keep(decode_child_key(key).map_err(rows::corrupt))?;
            let name = error.keep(Name::new(value).map_err(Error::from))?;
            children.push((child, name));
            Flow::Continue(())
        })?;
        error.into_result()?;
        Ok(children)
    }
}
