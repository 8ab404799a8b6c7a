//! Effects of mutations on the model.

use super::{GraphModel, VertexFacts};
use esker_model::{
    Batch, EdgeKey, EdgeTypeId, ErrorKind, Mutation, Op, Properties, Version, VertexId, VertexRef,
};
use std::collections::BTreeMap;

/// Result of a batch.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Applied {
    /// Version of the commit, or the newest version taken by a change without an explicit one.
    pub version: Version,
    /// Whether the idempotency key was new.
    pub applied: bool,
    /// Number of vertices that exist now and did not before.
    pub vertices_created: u64,
    /// Number of edges that exist now and did not before, without inverses.
    pub edges_created: u64,
}

/// Reason why a batch was refused.
pub type Refusal = ErrorKind;

impl GraphModel {
    /// Applies a batch whose commit has the version `tick`, atomically.
    pub fn apply(&mut self, batch: &Batch, tick: Version) -> Result<Applied, Refusal> {
        let mut after = self.clone();
        let mut done = Applied {
            version: tick,
            applied: true,
            vertices_created: 0,
            edges_created: 0,
        };
        if let Some(idempotency_key) = &batch.idempotency_key
            && !after.applied_keys.insert(idempotency_key.clone())
        {
            done.applied = false;
            return Ok(done);
        }
        for mutation in &batch.mutations {
            after.apply_one(mutation, tick, &mut done)?;
        }
        *self = after;
        Ok(done)
    }

    fn apply_one(
        &mut self,
        mutation: &Mutation,
        tick: Version,
        done: &mut Applied,
    ) -> Result<(), Refusal> {
        let at = mutation.version;
        if at == Some(Version::MAX) {
            return Err(ErrorKind::Invalid);
        }
        // A change without an explicit version takes the commit's, or the next one after what it changes.
        let take = |done: &mut Applied, stored: Option<Version>| {
            at.unwrap_or_else(|| {
                let version = match stored {
                    Some(stored) if stored > tick => stored.next(),
                    _ => tick,
                };
                done.version = done.version.max(version);
                version
            })
        };
        match &mutation.op {
            Op::PutVertex {
                vertex,
                key,
                attributes,
            } => {
                self.check_vertex(*vertex, key)?;
                self.check_attributes(*vertex, attributes)?;
                let version = take(
                    done,
                    self.vertices.get(&vertex.id).and_then(VertexFacts::now),
                );
                self.insert_vertex(*vertex, key, (attributes.clone(), false), version, done);
            }
            Op::EnsureVertex { vertex, key } => {
                self.check_vertex(*vertex, key)?;
                let known = self.vertices.get(&vertex.id);
                let version = take(
                    done,
                    known.filter(|v| v.gone_now()).and_then(VertexFacts::now),
                );
                if !known.is_some_and(|v| v.statics.alive(version)) {
                    self.insert_vertex(*vertex, key, (Properties::new(), true), version, done);
                }
            }
            Op::ChangeVertex {
                vertex,
                set,
                remove,
            } => {
                self.check_attributes(*vertex, set)?;
                let declared = |name: &String| {
                    let attribute = self.schema.attribute(vertex.type_id, name);
                    attribute.is_some()
                };
                if !remove.iter().all(declared) {
                    return Err(ErrorKind::Invalid);
                }
                let facts = self.vertices.get(&vertex.id).ok_or(ErrorKind::Missing)?;
                let version = take(done, facts.now());
                let Some((_, Some(attributes))) = facts.statics.as_of(version) else {
                    return Err(ErrorKind::Missing);
                };
                let mut attributes = attributes.clone();
                for (name, value) in set.iter() {
                    attributes.set(name, value.clone());
                }
                for name in remove {
                    attributes.remove(name);
                }
                let key = facts.key.clone();
                self.insert_vertex(*vertex, &key, (attributes, false), version, done);
            }
            Op::SetAttributes {
                vertex,
                set,
                remove,
            } => {
                let predefined = |name: &str| self.schema.attribute(vertex.type_id, name).is_some();
                let mut names = set
                    .iter()
                    .map(|(n, _)| n)
                    .chain(remove.iter().map(String::as_str));
                if names.any(predefined) {
                    return Err(ErrorKind::Invalid);
                }
                let facts = self
                    .vertices
                    .get_mut(&vertex.id)
                    .ok_or(ErrorKind::Missing)?;
                // The vertex is deleted by then, and was not inserted again.
                if facts.gone_now() && at.is_none_or(|at| facts.now().is_some_and(|now| at >= now))
                {
                    return Err(ErrorKind::Missing);
                }
                let version = take(done, Some(facts.latest()));
                for (name, value) in set.iter() {
                    let deleted = facts
                        .statics
                        .0
                        .iter()
                        .find(|(v, e)| **v > version && e.value.is_none());
                    let deleted = deleted.map(|(v, _)| *v);
                    let timeline = facts.attributes.entry(name.to_owned()).or_default();
                    timeline.note(version, Some(value.clone()));
                    // The attribute ends where its vertex was deleted, unless it changed before that.
                    let next = timeline.0.keys().find(|v| **v > version).copied();
                    if let Some(deleted) = deleted
                        && next.is_none_or(|next| next > deleted)
                    {
                        timeline.note(deleted, None);
                    }
                }
                for name in remove {
                    // Removing an attribute that was never set has no effect.
                    if let Some(timeline) = facts.attributes.get_mut(name) {
                        timeline.note(version, None);
                    }
                }
            }
            Op::DeleteVertex { vertex } => {
                let facts = self
                    .vertices
                    .get_mut(&vertex.id)
                    .ok_or(ErrorKind::Missing)?;
                let version = take(done, Some(facts.latest()));
                if facts.gone_now() && facts.now() < Some(version) {
                    return Err(ErrorKind::Missing);
                }
                if facts.gone_now() && facts.now() == Some(version) {
                    return Ok(());
                }
                facts.statics.note(version, None);
                for timeline in facts.attributes.values_mut().filter(|t| t.alive(version)) {
                    timeline.note(version, None);
                }
            }
            Op::PutEdge {
                source,
                edge_type,
                destination,
                properties,
            } => {
                let key = self.edge(*source, *edge_type, *destination)?;
                let timeline = self.edges.entry(key).or_default();
                let version = take(done, timeline.newest());
                let before = timeline.alive(Version::MAX);
                timeline.note(version, Some(properties.clone()));
                done.edges_created += u64::from(!before && timeline.alive(Version::MAX));
            }
            Op::DeleteEdge {
                source,
                edge_type,
                destination,
            } => {
                let key = self.edge(*source, *edge_type, *destination)?;
                let timeline = self.edges.get_mut(&key).ok_or(ErrorKind::Missing)?;
                let version = take(done, timeline.newest());
                if !timeline.alive(Version::MAX) && timeline.newest() < Some(version) {
                    return Err(ErrorKind::Missing);
                }
                timeline.note(version, None);
            }
            Op::CreateObject { .. } | Op::MoveObject { .. } => return Err(ErrorKind::Invalid),
        }
        Ok(())
    }

    fn insert_vertex(
        &mut self,
        vertex: VertexRef,
        key: &str,
        (attributes, mention): (Properties, bool),
        version: Version,
        done: &mut Applied,
    ) {
        let facts = self
            .vertices
            .entry(vertex.id)
            .or_insert_with(|| VertexFacts {
                type_id: vertex.type_id,
                key: key.to_owned(),
                first: version,
                statics: super::Timeline::default(),
                attributes: BTreeMap::new(),
            });
        let before = !facts.gone_now();
        facts.first = facts.first.min(version);
        // A following mention adds nothing to this insertion.
        let next = facts.statics.0.range(version.next()..).next();
        if let Some(redundant) = next
            .filter(|(_, e)| e.mention && !e.archived)
            .map(|(v, _)| *v)
        {
            facts.statics.0.remove(&redundant);
        }
        facts.statics.note(version, Some(attributes));
        if let Some(event) = facts.statics.0.get_mut(&version) {
            event.mention = mention;
        }
        done.vertices_created += u64::from(!before && !facts.gone_now());
    }

    fn check_vertex(&self, vertex: VertexRef, key: &str) -> Result<(), Refusal> {
        let t = self
            .schema
            .vertex_type(vertex.type_id)
            .ok_or(ErrorKind::Invalid)?;
        if VertexId::of(&t.name, key) == vertex.id {
            Ok(())
        } else {
            Err(ErrorKind::Invalid)
        }
    }

    fn check_attributes(&self, vertex: VertexRef, attributes: &Properties) -> Result<(), Refusal> {
        for (name, value) in attributes.iter() {
            let declared = self
                .schema
                .attribute(vertex.type_id, name)
                .ok_or(ErrorKind::Invalid)?;
            if !declared.kind.accepts(value) {
                return Err(ErrorKind::Invalid);
            }
        }
        Ok(())
    }

    fn edge(
        &self,
        source: VertexRef,
        edge_type: EdgeTypeId,
        destination: VertexRef,
    ) -> Result<EdgeKey, Refusal> {
        self.schema
            .check_ends(edge_type, source.type_id, destination.type_id)
            .map_err(|_| ErrorKind::Invalid)?;
        Ok(self.defined(EdgeKey {
            source: source.id,
            edge_type,
            destination: destination.id,
        }))
    }
}
