//! The history of a vertex up to a version, as seen by a batch being applied: for changes with explicit, older versions.

use super::Txn;
use esker_model::key::{
    HistoryKey, attribute_history, attribute_history_prefix, deleted_index, static_history,
    version_of, vertex as vertex_key, vertex_history_range,
};
use esker_model::record::{StaticRecord, VertexRecord};
use esker_model::{Error, Flow, Result, Version, VertexId};
use esker_store::{KeyRange, Table};
use std::collections::BTreeMap;

impl Txn<'_, '_> {
    /// Names of the attributes that had a value just before `version`.
    pub(super) fn attribute_names(
        &self,
        id: VertexId,
        record: &VertexRecord,
        version: Version,
    ) -> Result<Vec<String>> {
        let mut names: Vec<String> = record
            .user
            .iter()
            .filter(|a| a.version <= version)
            .map(|a| a.name.clone())
            .collect();
        if version < record.latest {
            let (_, end) = vertex_history_range(id);
            let start = attribute_history_prefix(id, "");
            let prefix = start.get(..17).unwrap_or_default();
            let past = self.history(&KeyRange::between(prefix, &end), version)?;
            let past = past
                .iter()
                .map(|(k, v)| crate::read::decode_attribute_event(k, v))
                .collect::<Result<Vec<_>>>()?;
            // Attributes that are still current are already in `names`.
            let current = |name: &str| {
                let place = record.user.binary_search_by(|a| a.name.as_str().cmp(name));
                place.is_ok_and(|i| record.user.get(i).is_some_and(|a| a.version <= version))
            };
            let alive = crate::read::attributes_as_of(&past, version);
            names.extend(alive.into_iter().map(|a| a.name).filter(|n| !current(n)));
        }
        Ok(names)
    }

    /// Rows of `history` as this batch sees them; includes archived rows if `version` is older than the retained ones.
    pub(super) fn history(
        &self,
        range: &KeyRange,
        version: Version,
    ) -> Result<BTreeMap<Vec<u8>, Vec<u8>>> {
        let mut rows = BTreeMap::new();
        let mut take = |k: &[u8], v: &[u8]| {
            rows.insert(k.to_vec(), v.to_vec());
            Flow::Continue(())
        };
        if version < self.retained {
            self.archive.scan(range, &mut take)?;
        }
        self.overlay
            .store()
            .scan(Table::History, range, &mut take)?;
        for (key, value) in self.overlay.pending_history(range) {
            match value {
                Some(value) => rows.insert(key.to_vec(), value.to_vec()),
                None => rows.remove(key),
            };
        }
        Ok(rows)
    }

    /// Insertions and deletions of a vertex (true: deleted) up to its current record.
    fn existence(
        &self,
        id: VertexId,
        record: &VertexRecord,
        version: Version,
    ) -> Result<BTreeMap<Version, bool>> {
        let mut all = BTreeMap::new();
        let rows = self.history(&KeyRange::prefix(&vertex_key(id)), version)?;
        for (key, value) in rows {
            let bad = |e| Error::corrupt("a row of table `history`", e);
            if let HistoryKey::Static(_, v) = HistoryKey::decode(&key).map_err(bad)? {
                all.insert(v, StaticRecord::decode(&value).map_err(bad)?.deleted);
            }
        }
        all.insert(record.static_version, record.deleted);
        Ok(all)
    }

    /// Whether a vertex was ever deleted, at any version.
    fn ever_deleted(&self, id: VertexId) -> Result<bool> {
        self.overlay
            .get_with(Table::Index, &deleted_index(id), &mut |_| {})
    }

    /// Whether a vertex existed as of a version.
    pub(super) fn existed(
        &self,
        id: VertexId,
        record: &VertexRecord,
        version: Version,
    ) -> Result<bool> {
        if version >= record.static_version {
            return Ok(!record.deleted);
        }
        if version < record.first || !self.ever_deleted(id)? {
            return Ok(version >= record.first);
        }
        let existence = self.existence(id, record, version)?;
        Ok(existence
            .range(..=version)
            .next_back()
            .is_some_and(|(_, deleted)| !deleted))
    }

    /// Returns the version at which an attribute set at `version` ended because its vertex was deleted, if that happened before
    /// any other change of the attribute: an already recorded deletion also ends values that are added later.
    pub(super) fn ended_by_deletion(
        &self,
        id: VertexId,
        record: &VertexRecord,
        name: &str,
        version: Version,
    ) -> Result<Option<Version>> {
        if version >= record.static_version || !self.ever_deleted(id)? {
            return Ok(None);
        }
        let existence = self.existence(id, record, version)?;
        let mut later = existence.range(version.next()..);
        let Some(deleted) = later.find(|(_, deleted)| **deleted).map(|(v, _)| *v) else {
            return Ok(None);
        };
        let current = record.user.iter().find(|a| a.name == name);
        if current.is_some_and(|a| a.version > version && a.version <= deleted) {
            return Ok(None);
        }
        let range = KeyRange {
            from: attribute_history(id, name, deleted),
            until: Some(attribute_history(id, name, version)),
        };
        Ok(self.history(&range, version)?.is_empty().then_some(deleted))
    }

    pub(super) fn newest_in_history(&self, id: VertexId, name: &str) -> Result<Option<Version>> {
        let prefix = attribute_history_prefix(id, name);
        let range = KeyRange::prefix(&prefix);
        let pending: BTreeMap<_, _> = self.overlay.pending_history(&range).collect();
        let removed = |key: &[u8]| pending.get(key).is_some_and(Option::is_none);
        let mut newest = None;
        self.overlay
            .store()
            .scan(Table::History, &range, &mut |k, _| {
                if removed(k) {
                    return Flow::Continue(());
                }
                newest = version_of(k);
                Flow::Break(())
            })?;
        let mut written = pending.into_iter().filter(|(_, v)| v.is_some());
        Ok(written.next().and_then(|(k, _)| version_of(k)).max(newest))
    }

    /// Returns the first insertion or deletion after `version` that is itself superseded, including archived ones: its key, and
    /// whether it was only a mention.
    pub(super) fn successor_in_history(
        &self,
        id: VertexId,
        version: Version,
    ) -> Result<Option<(Vec<u8>, bool)>> {
        let until = static_history(id, version);
        let later = self.history(&KeyRange::between(&vertex_key(id), &until), version)?;
        // Newest first: the last row is the next version.
        let Some((key, value)) = later.into_iter().next_back() else {
            return Ok(None);
        };
        let record = StaticRecord::decode(&value)
            .map_err(|e| Error::corrupt("a row of table `history`", e))?;
        Ok(Some((key, record.mentioned)))
    }

    /// The newest superseded value or removal of any attribute of a vertex.
    pub(super) fn newest_attribute_event(&self, id: VertexId) -> Result<Option<Version>> {
        let (_, end) = vertex_history_range(id);
        let start = attribute_history_prefix(id, "");
        let start = start.get(..end.len()).unwrap_or_default();
        let mut newest = None;
        for (key, value) in self.history(&KeyRange::between(start, &end), Version::ZERO)? {
            newest = newest.max(Some(crate::read::decode_attribute_event(&key, &value)?.1));
        }
        Ok(newest)
    }
}
