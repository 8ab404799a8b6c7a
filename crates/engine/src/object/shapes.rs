//! Shapes: the sets of columns in which objects have values. Objects with the same columns share a shape, so that assembling
//! or removing an object touches only its own columns, however many there are.

use foldhash::fast::FixedState;
use std::collections::HashMap;
use std::sync::Arc;

/// Number of a shape.
pub(super) type ShapeId = u32;

/// All shapes; number 0 has no columns.
#[derive(Debug)]
pub(super) struct Shapes {
    /// Columns by shape number, in the order in which an object lists them.
    all: Vec<Arc<[u32]>>,
    numbers: HashMap<Arc<[u32]>, ShapeId, FixedState>,
    /// Shape that results from adding (true) or removing (false) a column.
    steps: HashMap<(ShapeId, u32, bool), ShapeId, FixedState>,
}

impl Default for Shapes {
    fn default() -> Self {
        let none: Arc<[u32]> = Arc::new([]);
        Self {
            all: vec![Arc::clone(&none)],
            numbers: std::iter::once((none, 0)).collect(),
            steps: HashMap::default(),
        }
    }
}

impl Shapes {
    pub(super) fn get(&self, shape: ShapeId) -> &Arc<[u32]> {
        self.all.get(shape as usize).unwrap_or(&self.all[0])
    }

    /// Returns the shape with these columns, in the order in which an object lists them.
    pub(super) fn of(&mut self, columns: &[u32]) -> ShapeId {
        if let Some(shape) = self.numbers.get(columns) {
            return *shape;
        }
        let columns: Arc<[u32]> = columns.into();
        let shape = self.all.len() as ShapeId;
        self.all.push(Arc::clone(&columns));
        self.numbers.insert(columns, shape);
        shape
    }

    /// Returns the shape with an additional column; `before` tells whether a column precedes it.
    pub(super) fn with(
        &mut self,
        shape: ShapeId,
        column: u32,
        before: impl Fn(u32) -> bool,
    ) -> ShapeId {
        if let Some(next) = self.steps.get(&(shape, column, true)) {
            return *next;
        }
        let mut columns = self.get(shape).to_vec();
        let at = columns.partition_point(|c| before(*c));
        if columns.get(at) != Some(&column) {
            columns.insert(at, column);
        }
        let next = self.of(&columns);
        self.steps.insert((shape, column, true), next);
        next
    }

    /// Returns the shape without a column.
    pub(super) fn without(&mut self, shape: ShapeId, column: u32) -> ShapeId {
        if let Some(next) = self.steps.get(&(shape, column, false)) {
            return *next;
        }
        let columns = self.get(shape);
        let columns: Vec<u32> = columns.iter().copied().filter(|c| *c != column).collect();
        let next = self.of(&columns);
        self.steps.insert((shape, column, false), next);
        next
    }

    pub(super) fn bytes(&self) -> u64 {
        let columns: usize = self.all.iter().map(|c| c.len() * 4 + 48).sum();
        (columns + self.steps.capacity() * 20) as u64
    }
}
