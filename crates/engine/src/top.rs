//! The vertices with the highest degrees: one pass over the counters, which are exact.

use crate::Engine;
use crate::counts::{self, decode_value};
use crate::read::{FirstError, corrupt};
use crate::txn::lock;
use esker_model::key::Counter;
use esker_model::{Degree, EdgeTypeId, Flow, Result, VertexId};
use esker_store::{KeyRange, Table};
use std::cmp::Reverse;
use std::collections::{BinaryHeap, HashMap};

type HeapEntry = Reverse<(u64, Reverse<(VertexId, EdgeTypeId)>)>;

/// The `limit` largest entries, in a heap with the smallest on top.
struct Largest {
    heap: BinaryHeap<HeapEntry>,
    limit: usize,
}

impl Largest {
    fn offer(&mut self, id: VertexId, edge_type: EdgeTypeId, degree: u64) {
        if degree == 0 || self.limit == 0 {
            return;
        }
        self.heap.push(Reverse((degree, Reverse((id, edge_type)))));
        if self.heap.len() > self.limit {
            self.heap.pop();
        }
    }
}

pub(crate) fn top_degrees(
    engine: &Engine,
    edge_type: Option<EdgeTypeId>,
    limit: usize,
) -> Result<Vec<Degree>> {
    // Counter rows are merged only under this lock, so every change is counted once: in its row or as pending.
    let mut pending = lock(&engine.counters);
    let wanted = |t: EdgeTypeId| edge_type.is_none_or(|wanted| wanted == t);
    let mut unmerged: HashMap<_, i64> = HashMap::new();
    for (counter, change) in pending.sorted() {
        if let Counter::Degree(id, t) = counter
            && wanted(t)
        {
            unmerged.insert((id, t), change);
        }
    }
    let mut largest = Largest {
        heap: BinaryHeap::new(),
        limit,
    };
    let mut error = FirstError::default();
    engine
        .store
        .scan(Table::Counts, &KeyRange::ALL, &mut |key, value| {
            let counter = error.keep(Counter::decode(key).map_err(|e| corrupt("counts", e)))?;
            if let Counter::Degree(id, t) = counter
                && wanted(t)
            {
                let merged = error.keep(decode_value(value))?;
                let change = unmerged.remove(&(id, t)).unwrap_or(0);
                largest.offer(id, t, error.keep(counts::apply(&counter, merged, change))?);
            }
            Flow::Continue(())
        })?;
    error.into_result()?;
    for ((id, t), change) in unmerged {
        let counter = Counter::Degree(id, t);
        largest.offer(id, t, counts::apply(&counter, 0, change)?);
    }
    let sorted = largest.heap.into_sorted_vec();
    Ok(sorted
        .into_iter()
        .map(|Reverse((degree, Reverse((vertex, edge_type))))| Degree {
            vertex,
            edge_type,
            degree,
        })
        .collect())
}
