//! Space of a directory tree: which directories to read next, and the sums over all that were read.

use super::reader::DirectoryUsage;
use esker_model::VertexId;
use esker_model::namespace::{NamePath, Usage};

/// Number of directories that are read together.
const BATCH: usize = 512;

/// A directory with the index of its parent, which comes before it.
type Node<T> = (NamePath, T, Option<usize>);

/// The directories at and below a path that a principal may list and search.
#[derive(Debug)]
pub struct UsageTree {
    read: Vec<Node<Usage>>,
    left: Vec<Node<VertexId>>,
}

impl UsageTree {
    /// Begins at a directory. Paths below an open directory begin with `/`.
    pub fn new(path: &NamePath, id: VertexId) -> Self {
        let path = if path.is_handle() {
            NamePath::root()
        } else {
            path.clone()
        };
        Self {
            read: Vec::new(),
            left: vec![(path, id, None)],
        }
    }

    fn next(&self) -> std::ops::Range<usize> {
        self.left.len().saturating_sub(BATCH)..self.left.len()
    }

    /// Returns the directories to be read next; none if all are read.
    pub fn next_ids(&self) -> Vec<VertexId> {
        let next = self.left.get(self.next()).unwrap_or_default();
        next.iter().map(|(_, id, _)| *id).collect()
    }

    /// Adds what was read of these directories.
    pub fn add(&mut self, usages: Vec<DirectoryUsage>) {
        let next: Vec<Node<VertexId>> = self.left.drain(self.next()).collect();
        for ((path, _, parent), (mut own, children)) in next.into_iter().zip(usages) {
            // Each directory counts itself, so one that the principal may not list is not counted.
            own.directories = 1;
            let index = Some(self.read.len());
            let below = children.into_iter();
            (self.left).extend(below.map(|(id, name)| (path.join(&name), id, index)));
            self.read.push((path, own, parent));
        }
    }

    /// Returns the space used by each directory with everything below it, ordered by path.
    pub fn finish(mut self) -> Vec<(NamePath, Usage)> {
        for index in (0..self.read.len()).rev() {
            let Some((_, usage, Some(parent))) = self.read.get(index) else {
                continue;
            };
            let (usage, parent) = (*usage, *parent);
            if let Some((_, sum, _)) = self.read.get_mut(parent) {
                *sum += usage;
            }
        }
        let all = self.read.into_iter();
        let mut all: Vec<(NamePath, Usage)> = all.map(|(path, sum, _)| (path, sum)).collect();
        all.sort_by(|(a, _), (b, _)| a.cmp(b));
        all
    }
}
