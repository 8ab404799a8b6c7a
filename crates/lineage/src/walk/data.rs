//! The events of one data object, and the versions that they make.

use super::index;
use crate::event::{Event, TimePoint, VisibleWrite, Writes};
use esker_model::{EdgeTypeId, Version, VertexId};
use std::collections::{BTreeMap, HashMap};

/// A data object's events.
#[derive(Debug, Default)]
pub(super) struct DataEvents {
    pub(super) writes: Writes,
    /// Impact only: index of a write, by execution, edge type (towards the execution) and version.
    pub(super) written: HashMap<(VertexId, EdgeTypeId, Version), u32>,
    /// Reads of the object, for impact only.
    pub(super) reads: Vec<Event>,
    /// Impact only: for each write, the reads that can have seen it.
    pub(super) seen_by: Vec<Vec<(u32, bool)>>,
}

impl DataEvents {
    /// Builds the index for impact. `kinds`: the edge type of each write, by [`Event::edge`].
    pub(super) fn index_impact(&mut self, kinds: &[EdgeTypeId]) {
        for (i, w) in (0..).zip(self.writes.events()) {
            if let Some(kind) = kinds.get(w.edge as usize) {
                self.written.insert((w.execution, *kind, w.version), i);
            }
        }
        self.seen_by
            .resize_with(self.writes.events().len(), Vec::new);
        for (i, read) in (0..).zip(&self.reads) {
            for seen in self.writes.visible_to(read.span, Some(read.execution)) {
                if let Some(list) = self.seen_by.get_mut(seen.write) {
                    list.push((i, seen.concurrent));
                }
            }
        }
    }

    /// Returns the reads from which impact starts: all, or those that did not end before a version or can have seen a version as
    /// new as it.
    pub(super) fn readers_since(&self, since: Option<Version>) -> Vec<(Event, bool)> {
        let mut readers: BTreeMap<u32, bool> = BTreeMap::new();
        for (i, read) in (0..).zip(&self.reads) {
            if since.is_none_or(|v| read.span.reaches(v)) {
                readers.insert(i, false);
            }
        }
        if let Some(since) = since {
            for (w, seen_by) in self.writes.events().iter().zip(&self.seen_by) {
                if w.version >= since {
                    for (read, concurrent) in seen_by {
                        readers
                            .entry(*read)
                            .and_modify(|c| *c &= concurrent)
                            .or_insert(*concurrent);
                    }
                }
            }
        }
        readers
            .into_iter()
            .filter_map(|(i, concurrent)| Some((*self.reads.get(i as usize)?, concurrent)))
            .collect()
    }
}

/// Groups writes that made the same version, each with that version and whether it is only possibly the one seen: certain ones
/// first. Without any write the result is one group: the state before recording began.
pub(super) fn groups(
    writes: &Writes,
    seen: &[VisibleWrite],
) -> Vec<(Vec<u32>, Option<Version>, bool)> {
    let mut groups: Vec<(Vec<u32>, Option<Version>, bool)> = Vec::new();
    let mut last: Option<(TimePoint, Version)> = None;
    for s in seen {
        let Some(write) = writes.events().get(s.write) else {
            continue;
        };
        let made = (write.span.end, write.version);
        match groups.last_mut() {
            Some((members, _, _)) if last == Some(made) => members.push(index(s.write)),
            _ => groups.push((vec![index(s.write)], Some(write.version), s.concurrent)),
        }
        last = Some(made);
    }
    for (members, _, _) in &mut groups {
        members.sort_unstable();
    }
    if groups.is_empty() {
        groups.push((Vec::new(), None, false));
    }
    groups.sort_by_key(|(_, _, concurrent)| *concurrent);
    groups
}
