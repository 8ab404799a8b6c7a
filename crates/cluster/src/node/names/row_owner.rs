//! Ownership of namespace rows: which server has which row.
//!
//! An entry is in a partition of its directory (GIGA+; Patil & Gibson, FAST 2011): of two halves of all hashes, of
//! four quarters, and so on, as far as that part of the directory has split. So a partition is one range of hashes,
//! and a listing in the order of hashes goes from partition to partition. Partitions are placed round robin from the
//! directory's home shard, as those of vertices, and what is known of them is kept and corrected in the same way
//! ([`entries_vertex`]).

use crate::node::Node;
use crate::node::state::State;
use crate::peer::{entries_vertex, row_lock};
use crate::placement::{Kind, Partition, Placement, SplitState, Splits, Tree};
use crate::vnode::ServerId;
use esker_engine::{RowLocation, RowPlacement};
use esker_model::namespace::record::{RowHome, row_home};
use esker_model::{Version, VertexId};

/// Mapping from the hashes of a directory's entries to the tree of its partitions.
///
/// Ids of files are such that a partition's distance from the directory's home shard selects the home of the files
/// whose entries it has after all splits ([`esker_model::file_home`]). So splits move entries towards their vertices, as
/// with DIDO. For GIGA+, which ignores vertices, the partition numbers are combined with bits of the directory's id;
/// all else is equal, so that the two rules can be compared by measurement.
#[derive(Debug, Clone, Copy)]
pub(crate) struct HashPartitioning {
    tree: Tree,
    mask: u32,
}

impl HashPartitioning {
    /// Creates the mapping of a directory; `None` if the placement does not split.
    pub(crate) fn of(placement: &dyn Placement, directory: VertexId) -> Option<Self> {
        let tree = placement.tree()?;
        let mask = match placement.kind() {
            // Bits that are neither the home shard's nor changed by [`entries_vertex`].
            Kind::GigaPlus => directory.0[4..8]
                .iter()
                .fold(0, |n, b| n << 8 | u32::from(*b)),
            Kind::Dido | Kind::EdgeCut | Kind::VertexCut => 0,
        };
        Some(Self {
            tree,
            // The number of vnodes is a power of two.
            mask: mask & (tree.shards() - 1),
        })
    }

    /// Returns the target partition of entries with that hash. The first bit of the hash decides the first split, so
    /// it is the lowest bit of the partition's number.
    fn target(self, hash: u64) -> Partition {
        Partition((hash.reverse_bits() as u32 & (self.tree.shards() - 1)) ^ self.mask)
    }

    /// Returns the partition that has entries with that hash.
    pub(crate) fn locate(self, splits: &Splits, hash: u64) -> Partition {
        self.tree.locate(splits, self.target(hash))
    }

    /// Returns the first and the last hash of a partition at a level of the tree.
    pub(crate) fn range(self, partition: Partition, level: u32) -> (u64, u64) {
        let rest = u64::MAX.checked_shr(level).unwrap_or(0);
        let first = u64::from(partition.0 ^ self.mask).reverse_bits() & !rest;
        (first, first | rest)
    }
}

impl Node {
    /// Returns the partition that has entries with a hash in a directory with these splits, and the range of its hashes.
    pub(crate) fn entries_in(
        &self,
        directory: VertexId,
        splits: &Splits,
        hash: u64,
    ) -> (Partition, (u64, u64)) {
        let Some(cut) = HashPartitioning::of(&*self.placement, directory) else {
            return (Partition(0), (0, u64::MAX));
        };
        let partition = cut.locate(splits, hash);
        (
            partition,
            cut.range(partition, splits.level(cut.tree, partition)),
        )
    }

    /// Returns the server that has entries with a hash, as far as is known here.
    pub(crate) fn entry_home(&self, state: &State, directory: VertexId, hash: u64) -> ServerId {
        let id = entries_vertex(directory);
        let whole = Splits::default();
        let splits = state.splits_of(id).unwrap_or(&whole);
        self.server_of(id, self.entries_in(directory, splits, hash).0)
    }

    /// Returns the range of hashes around `hash` whose entries are all here; `None` if they are on another server.
    /// Learned splits do not count.
    pub(crate) fn entries_here(
        &self,
        state: &State,
        directory: VertexId,
        hash: u64,
    ) -> Option<(u64, u64)> {
        let id = entries_vertex(directory);
        let whole = Splits::default();
        let splits = state.splits.get(&id).map_or(&whole, SplitState::splits);
        let (partition, range) = self.entries_in(directory, splits, hash);
        (self.server_of(id, partition) == self.settings.id).then_some(range)
    }

    /// Whether a directory is splitting here or a partition of it is moving to this server.
    pub(crate) fn entries_move(state: &State, directory: VertexId) -> bool {
        if state.frozen.is_empty() && state.deciding.is_empty() && state.pending.len() == 0 {
            return false;
        }
        let id = entries_vertex(directory);
        state.frozen.contains(&id) || state.deciding.contains(&id) || state.pending.adopts(id)
    }

    /// Returns the server that has a row, as far as is known here.
    pub(crate) fn row_home(&self, state: &State, key: &[u8]) -> ServerId {
        match row_home(key) {
            Ok(RowHome::Entry(directory, hash)) => self.entry_home(state, directory, hash),
            Ok(RowHome::Home(id)) => self.home(id),
            Ok(RowHome::Anywhere) | Err(_) => self.settings.id,
        }
    }

    /// Whether a row is here; `None` while it may be moving.
    pub(crate) fn row_is_here(&self, state: &State, key: &[u8]) -> Option<bool> {
        match row_home(key) {
            Ok(RowHome::Entry(directory, _)) if Self::entries_move(state, directory) => None,
            Ok(RowHome::Entry(directory, hash)) => {
                Some(self.entries_here(state, directory, hash).is_some())
            }
            Ok(RowHome::Home(id)) => Some(self.home(id) == self.settings.id),
            Ok(RowHome::Anywhere) | Err(_) => Some(true),
        }
    }
}

/// A server's rows, as its engine needs to know them.
pub(crate) struct NodeRows<'a>(pub(crate) &'a Node);

impl RowPlacement for NodeRows<'_> {
    fn locate(&self, key: &[u8]) -> RowLocation {
        let state = self.0.state();
        match self.0.row_is_here(&state, key) {
            None => RowLocation::Busy,
            Some(false) => RowLocation::Remote,
            Some(true) if state.pending.is_locked(|| row_lock(key)) => RowLocation::Busy,
            Some(true) => RowLocation::Local,
        }
    }

    fn is_home(&self, id: VertexId) -> bool {
        self.0.home(id) == self.0.settings.id
    }

    fn is_sole_engine(&self) -> bool {
        self.0.map.servers().len() == 1
    }

    fn busy(&self) -> bool {
        self.0.state().pending.structure_changes()
    }

    fn version(&self) -> Version {
        self.0.clock.tick(self.0.time.now_millis())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::placement::{End, Order};
    use esker_model::namespace::{Name, hash_of};

    #[test]
    fn partitions_are_ranges_of_hashes_that_fill_everything_once() {
        let tree = Tree::new(1024, Order::Numbers).unwrap();
        for mask in [0, 1, 0x2a5, 1023] {
            let cut = HashPartitioning { tree, mask };
            let mut splits = Splits::default();
            let mut random = 1_u64;
            for _ in 0..300 {
                let mut ranges: Vec<(u64, u64)> = splits
                    .iter()
                    .map(|p| cut.range(p, splits.level(tree, p)))
                    .collect();
                ranges.sort_unstable();
                let mut next = Some(0);
                for (first, last) in ranges {
                    assert_eq!(next, Some(first));
                    next = last.checked_add(1);
                }
                assert_eq!(next, None);
                // Constants of SplitMix64.
                random = random
                    .wrapping_mul(0xbf58_476d_1ce4_e5b9)
                    .wrapping_add(0x9e37_79b9_7f4a_7c15);
                let hash = random ^ (random >> 31);
                let in_it = cut.locate(&splits, hash);
                let (first, last) = cut.range(in_it, splits.level(tree, in_it));
                assert!((first..=last).contains(&hash));
                // After ten splits there is one shard left.
                if let Some((child, level)) = tree.next_child(&splits, in_it) {
                    splits.insert(child);
                    // One half of the range moves.
                    let (kept, goes) = (cut.range(in_it, level + 1), cut.range(child, level + 1));
                    assert_eq!((kept.0.min(goes.0), kept.1.max(goes.1)), (first, last));
                    assert_eq!(kept.1 - kept.0, goes.1 - goes.0);
                }
            }
        }
    }

    /// Entries move towards their vertices, unless the placement is GIGA+.
    #[test]
    fn entries_end_where_their_vertices_are() {
        let side_writes = |kind: Kind| {
            let placement = kind.over(256, Order::Numbers).unwrap();
            let directory = VertexId::of("Directory", "/scratch/run7");
            let cut = HashPartitioning::of(&*placement, directory).unwrap();
            let mut all = Splits::default();
            (0..256).for_each(|p| all.insert(Partition(p)));
            let home = |id| End::of(id, 256).home;
            let there = |n: &u32| {
                let name = format!("out{n}.nc");
                let file = VertexId::of("File", &format!("/scratch/run7/{name}"));
                let hash = hash_of(&Name::new(name.as_bytes()).unwrap());
                placement.shard_of(home(directory), cut.locate(&all, hash)) == home(file)
            };
            (0..1000).filter(there).count()
        };
        assert_eq!(side_writes(Kind::Dido), 1000);
        assert!(side_writes(Kind::GigaPlus) < 20);
    }
}
