//! Which rows of the namespace lie here.
//!
//! An entry lies in a partition of its directory (GIGA+; Patil & Gibson, FAST 2011): of two halves of all hashes, of four
//! quarters, and so on, as far as that part of the directory has split. So a partition is one range of hashes, and a listing in
//! the order of hashes goes from partition to partition. Partitions lie round robin on from the directory's home, as those of
//! vertices do, and what is known of them is kept and corrected as theirs ([`entries_of`]).

use crate::node::Node;
use crate::node::state::State;
use crate::peer::{entries_of, row_lock};
use crate::placement::{Kind, Partition, Placement, SplitState, Splits, Tree};
use crate::vnode::ServerId;
use esker_engine::{Placed, RowPlace};
use esker_model::namespace::record::{Lies, lies};
use esker_model::{Version, VertexId};

/// How the hashes of a directory's entries lie in the tree of its partitions.
///
/// The ids of files are such that a partition's place, counted from the directory's home, is the home of the files whose entries
/// it has once everything has split ([`esker_model::place`]). So splits move entries towards their vertices, as DIDO's do. As GIGA+,
/// which knows nothing of vertices, the hashes are turned by bits of the directory's id: all else is the same, so that the two
/// can be measured beside each other.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Cut {
    tree: Tree,
    turn: u32,
}

impl Cut {
    /// For a directory under a placement whose vertices split.
    pub(crate) fn of(placement: &dyn Placement, directory: VertexId) -> Option<Self> {
        let tree = placement.tree()?;
        let turn = match placement.kind() {
            // Bits that are neither the home's nor changed by [`entries_of`].
            Kind::GigaPlus => directory.0[4..8]
                .iter()
                .fold(0, |n, b| n << 8 | u32::from(*b)),
            Kind::Dido | Kind::EdgeCut | Kind::VertexCut => 0,
        };
        Some(Self {
            tree,
            // There is a power of two of vnodes.
            turn: turn & (tree.places() - 1),
        })
    }

    /// The partition that entries of that hash are in once everything has split: the first bit of the hash decides the first
    /// split, so it is the lowest of the partition's number.
    fn goal(self, hash: u64) -> Partition {
        Partition((hash.reverse_bits() as u32 & (self.tree.places() - 1)) ^ self.turn)
    }

    /// The partition that entries of that hash are in.
    pub(crate) fn locate(self, splits: &Splits, hash: u64) -> Partition {
        self.tree.locate(splits, self.goal(hash))
    }

    /// The hashes of a partition that is a node of that level: the first and the last.
    pub(crate) fn range(self, partition: Partition, level: u32) -> (u64, u64) {
        let rest = u64::MAX.checked_shr(level).unwrap_or(0);
        let first = u64::from(partition.0 ^ self.turn).reverse_bits() & !rest;
        (first, first | rest)
    }
}

impl Node {
    /// The partition that entries of a hash are in, of a directory that has split so; and the hashes in it.
    pub(crate) fn entries_in(
        &self,
        directory: VertexId,
        splits: &Splits,
        hash: u64,
    ) -> (Partition, (u64, u64)) {
        let Some(cut) = Cut::of(&*self.placement, directory) else {
            return (Partition(0), (0, u64::MAX));
        };
        let partition = cut.locate(splits, hash);
        (
            partition,
            cut.range(partition, splits.level(cut.tree, partition)),
        )
    }

    /// The server that has entries of a hash, as far as is known here.
    pub(crate) fn entry_home(&self, state: &State, directory: VertexId, hash: u64) -> ServerId {
        let id = entries_of(directory);
        let whole = Splits::default();
        let splits = state.splits_of(id).unwrap_or(&whole);
        self.server_of(id, self.entries_in(directory, splits, hash).0)
    }

    /// The hashes around one whose entries all lie here; none if those of that hash lie elsewhere. What was only heard of does
    /// not count.
    pub(crate) fn entries_here(
        &self,
        state: &State,
        directory: VertexId,
        hash: u64,
    ) -> Option<(u64, u64)> {
        let id = entries_of(directory);
        let whole = Splits::default();
        let splits = state.splits.get(&id).map_or(&whole, SplitState::splits);
        let (partition, range) = self.entries_in(directory, splits, hash);
        (self.server_of(id, partition) == self.settings.id).then_some(range)
    }

    /// Whether a directory splits, here or on its way to here.
    pub(crate) fn entries_move(state: &State, directory: VertexId) -> bool {
        if state.frozen.is_empty() && state.deciding.is_empty() && state.pending.len() == 0 {
            return false;
        }
        let id = entries_of(directory);
        state.frozen.contains(&id) || state.deciding.contains(&id) || state.pending.adopts(id)
    }

    /// Where a row lies, as far as is known here.
    pub(crate) fn row_home(&self, state: &State, key: &[u8]) -> ServerId {
        match lies(key) {
            Ok(Lies::Entry(directory, hash)) => self.entry_home(state, directory, hash),
            Ok(Lies::Home(id)) => self.home(id),
            Ok(Lies::Anywhere) | Err(_) => self.settings.id,
        }
    }

    /// Whether a row lies here, if nothing moves it now.
    pub(crate) fn row_is_here(&self, state: &State, key: &[u8]) -> Option<bool> {
        match lies(key) {
            Ok(Lies::Entry(directory, _)) if Self::entries_move(state, directory) => None,
            Ok(Lies::Entry(directory, hash)) => {
                Some(self.entries_here(state, directory, hash).is_some())
            }
            Ok(Lies::Home(id)) => Some(self.home(id) == self.settings.id),
            Ok(Lies::Anywhere) | Err(_) => Some(true),
        }
    }
}

/// What a node knows, as its engine asks for it.
pub(crate) struct View<'a>(pub(crate) &'a Node);

impl Placed for View<'_> {
    fn place(&self, key: &[u8]) -> RowPlace {
        let state = self.0.state();
        match self.0.row_is_here(&state, key) {
            None => RowPlace::Busy,
            Some(false) => RowPlace::Elsewhere,
            Some(true) if state.pending.is_locked(|| row_lock(key)) => RowPlace::Busy,
            Some(true) => RowPlace::Here,
        }
    }

    fn sums(&self, _directory: VertexId) -> bool {
        // Whoever wants sums asks all servers.
        true
    }

    fn alone(&self) -> bool {
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
        for turn in [0, 1, 0x2a5, 1023] {
            let cut = Cut { tree, turn };
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
                // SplitMix64's constants.
                random = random
                    .wrapping_mul(0xbf58_476d_1ce4_e5b9)
                    .wrapping_add(0x9e37_79b9_7f4a_7c15);
                let hash = random ^ (random >> 31);
                let in_it = cut.locate(&splits, hash);
                let (first, last) = cut.range(in_it, splits.level(tree, in_it));
                assert!((first..=last).contains(&hash));
                // After ten splits there is one place left to it.
                if let Some((child, level)) = tree.next_child(&splits, in_it) {
                    splits.insert(child);
                    // One half goes.
                    let (kept, goes) = (cut.range(in_it, level + 1), cut.range(child, level + 1));
                    assert_eq!((kept.0.min(goes.0), kept.1.max(goes.1)), (first, last));
                    assert_eq!(kept.1 - kept.0, goes.1 - goes.0);
                }
            }
        }
    }

    /// Whatever splits: towards the vertices, unless the placement is GIGA+'s.
    #[test]
    fn entries_end_where_their_vertices_are() {
        let beside = |kind: Kind| {
            let placement = kind.over(256, Order::Numbers).unwrap();
            let directory = VertexId::of("Directory", "/scratch/run7");
            let cut = Cut::of(&*placement, directory).unwrap();
            let mut all = Splits::default();
            (0..256).for_each(|p| all.insert(Partition(p)));
            let home = |id| End::of(id, 256).home;
            let there = |n: &u32| {
                let name = format!("out{n}.nc");
                let file = VertexId::of("File", &format!("/scratch/run7/{name}"));
                let hash = hash_of(&Name::new(name.as_bytes()).unwrap());
                placement.place(home(directory), cut.locate(&all, hash)) == home(file)
            };
            (0..1000).filter(there).count()
        };
        assert_eq!(beside(Kind::Dido), 1000);
        assert!(beside(Kind::GigaPlus) < 20);
    }
}
