//! Placement under random histories: each edge exactly once; old bitmaps lead to ancestors; bytes are decoded or refused.

use esker_cluster::Placement;
use esker_cluster::placement::{
    End, Growth, Kind, Order, Partition, Shard, Split, SplitState, Splits, Tree,
};
use proptest::prelude::*;
use std::collections::BTreeMap;

/// Reference implementation: a vertex whose partitions are lists of edges.
struct Vertex {
    placement: Box<dyn Placement>,
    source: End,
    growth: Growth,
    /// Destinations by partition, in order of arrival.
    held: BTreeMap<Partition, Vec<End>>,
    /// Splits that are due and not done.
    waiting: Vec<Split>,
}

impl Vertex {
    fn new(placement: Box<dyn Placement>, home: u32, threshold: u64) -> Self {
        let source = End::numbered(u64::MAX, Shard(home % placement.shards()));
        Self {
            placement,
            source,
            growth: Growth::new(threshold),
            held: BTreeMap::new(),
            waiting: Vec::new(),
        }
    }

    fn insert(&mut self, destination: End) {
        let at = self
            .placement
            .locate(self.growth.splits(), self.source, destination);
        self.held.entry(at).or_default().push(destination);
        if let Some(tree) = self.placement.tree() {
            let target = self.placement.target(self.source, destination);
            let due = self.growth.insert(tree, target);
            self.wait(due);
        }
    }

    fn wait(&mut self, due: Option<Split>) {
        if let Some(split) = due
            && !self.waiting.contains(&split)
        {
            self.waiting.push(split);
        }
    }

    /// Does the pending split at `position` as a server would: copies what moves, then commits.
    fn split(&mut self, position: usize) {
        let split = self.waiting.remove(position);
        let tree = self.placement.tree().unwrap();
        let moves = |end: &End| split.moves(tree, self.placement.target(self.source, *end));
        let from = self.held.remove(&split.from).unwrap();
        let (moved, left): (Vec<End>, Vec<End>) = from.into_iter().partition(moves);
        self.growth.commit(&split, moved.len() as u64);
        assert!(self.held.insert(split.to, moved).is_none());
        self.held.insert(split.from, left);
        for half in [split.from, split.to] {
            let due = self.growth.due(tree, half);
            self.wait(due);
        }
    }

    /// Checks all invariants.
    fn check(&self, inserted: usize) {
        let splits = self.growth.splits();
        assert_eq!(self.held.values().map(Vec::len).sum::<usize>(), inserted);
        let partitions = self.placement.partitions(splits);
        for (partition, ends) in &self.held {
            assert!(partitions.contains(partition));
            for end in ends {
                assert_eq!(
                    self.placement.locate(splits, self.source, *end),
                    *partition,
                    "an edge is where it is looked for, and nowhere else"
                );
            }
            if self.placement.tree().is_some() {
                assert_eq!(self.growth.edges(*partition), ends.len() as u64);
            }
        }
        if let Some(tree) = self.placement.tree() {
            assert_eq!(splits.first_invalid(tree), None);
            let state = SplitState::new(self.placement.kind(), tree, splits.clone()).unwrap();
            assert_eq!(SplitState::decode(&state.encode()), Ok(state));
        }
    }
}

fn placement() -> impl Strategy<Value = (Kind, Order, u32)> {
    let kinds = prop::sample::select(Kind::ALL.to_vec());
    let order = prop_oneof![Just(Order::Nodes), Just(Order::Numbers)];
    (kinds, order, prop_oneof![1_u32..=70, Just(256), Just(1000)])
}

/// Destinations that are distributed evenly, or all of a few home shards.
fn ends(shards: u32) -> impl Strategy<Value = Vec<End>> {
    let end = move |span: u32| {
        (any::<u64>(), 0..span.min(shards)).prop_map(|(n, home)| End::numbered(n, Shard(home)))
    };
    prop_oneof![
        prop::collection::vec(end(u32::MAX), 0..200),
        prop::collection::vec(end(3), 0..200),
    ]
}

proptest! {
    /// Splits may come at once or much later, and in any order.
    #[test]
    fn each_edge_is_found_exactly_once(
        ((kind, order, shards), ends, when) in placement().prop_flat_map(|p| {
            (Just(p), ends(p.2), prop::collection::vec(any::<u16>(), 200))
        }),
        home: u32,
        threshold in 1_u64..9,
    ) {
        let mut vertex = Vertex::new(kind.over(shards, order).unwrap(), home, threshold);
        let mut old = Vec::new();
        for (i, (end, when)) in ends.iter().zip(when).enumerate() {
            vertex.insert(*end);
            old.push(vertex.growth.splits().clone());
            if !vertex.waiting.is_empty() && when % 3 == 0 {
                vertex.split(usize::from(when) % vertex.waiting.len());
            }
            vertex.check(i + 1);
        }
        while !vertex.waiting.is_empty() {
            vertex.split(0);
        }
        vertex.check(ends.len());

        let Some(tree) = vertex.placement.tree() else { return Ok(()) };
        // No partition that can split is over the threshold.
        for (partition, held) in &vertex.held {
            let splits = vertex.growth.splits();
            prop_assert!(
                held.len() as u64 <= threshold || tree.next_child(splits, *partition).is_none()
            );
        }
        // A vertex with the same edges and no history.
        let mut targets = vec![0; shards as usize];
        for end in &ends {
            targets[vertex.placement.target(vertex.source, *end).0 as usize] += 1;
        }
        let settled = Growth::from_edge_counts(tree, threshold, &mut targets);
        prop_assert_eq!(settled.splits(), vertex.growth.splits());
        for partition in settled.splits().iter() {
            prop_assert_eq!(settled.edges(partition), vertex.growth.edges(partition));
        }
        // A client with an outdated bitmap asks an ancestor, and the response corrects the bitmap.
        for (end, stale) in ends.iter().zip(&old) {
            let now = vertex.growth.splits();
            let right = vertex.placement.locate(now, vertex.source, *end);
            let asked = vertex.placement.locate(stale, vertex.source, *end);
            prop_assert!(tree.is_under(right, asked));
            prop_assert!(now.covers(stale));
            let mut merged = stale.clone();
            prop_assert_eq!(merged.merge(now), stale != now);
            prop_assert_eq!(&merged, now);
        }
    }

    /// The merged bitmaps of two servers are a possible state.
    #[test]
    fn bitmaps_merge_into_bitmaps(shards in 1_u32..200, order in prop_oneof![Just(Order::Nodes), Just(Order::Numbers)], a in any::<u64>(), b in any::<u64>()) {
        let tree = Tree::new(shards, order).unwrap();
        let (a, b) = (walk(tree, a), walk(tree, b));
        let mut merged = a.clone();
        merged.merge(&b);
        prop_assert_eq!(merged.first_invalid(tree), None);
        prop_assert!(merged.covers(&a) && merged.covers(&b));
        for p in merged.iter() {
            prop_assert!(a.contains(p) || b.contains(p));
        }
    }

    /// After all splits a DIDO edge is with its destination, for any number of servers.
    #[test]
    fn dido_brings_edges_to_their_destinations((_, order, shards) in placement(), home: u32, destination: u32) {
        let dido = Kind::Dido.over(shards, order).unwrap();
        let tree = dido.tree().unwrap();
        let source = End::numbered(1, Shard(home % shards));
        let destination = End::numbered(2, Shard(destination % shards));
        let full = Splits::full(tree);
        let at = dido.locate(&full, source, destination);
        prop_assert_eq!(dido.shard_of(source.home, at), destination.home);
        // On the way there, each split leaves the edge on a shard whose subtree contains its destination.
        let mut splits = Splits::default();
        for partition in full.iter() {
            splits.insert(partition);
            let now = dido.locate(&splits, source, destination);
            prop_assert!(tree.is_under(at, now));
        }
    }

    /// Without a tree the result does not depend on the bitmap, and every located partition is listed.
    #[test]
    fn what_is_found_is_listed((kind, order, shards) in placement(), seed: u64, home: u32, ends in ends(1)) {
        let placement = kind.over(shards, order).unwrap();
        let source = End::numbered(seed, Shard(home % shards));
        let splits = placement.tree().map_or_else(Splits::default, |tree| walk(tree, seed));
        let listed = placement.partitions(&splits);
        let mut found = vec![Partition(u32::MAX)];
        placement.locate_all(&splits, source, &ends, &mut found);
        prop_assert_eq!(found.len(), ends.len());
        for partition in found {
            prop_assert!(listed.contains(&partition));
            prop_assert!(placement.shard_of(source.home, partition).0 < shards);
        }
    }

    /// Arbitrary bytes are refused, or are the one encoding of a possible state.
    #[test]
    fn bytes_are_read_back_or_refused(bytes in prop_oneof![
        prop::collection::vec(any::<u8>(), 0..40),
        (1_u8..4, 0_u8..64, prop::collection::vec(any::<u8>(), 0..8)).prop_map(|(scheme, shards, bitmap)| {
            [vec![1, scheme, 0, shards], bitmap].concat()
        }),
    ]) {
        match SplitState::decode(&bytes) {
            Ok(state) => {
                prop_assert_eq!(state.splits().first_invalid(state.tree()), None);
                prop_assert_eq!(state.encode(), bytes);
            }
            Err(error) => prop_assert!(error.at <= bytes.len()),
        }
    }
}

/// A random bitmap that splits could have made.
fn walk(tree: Tree, seed: u64) -> Splits {
    let mut splits = Splits::default();
    let mut random = seed;
    for _ in 0..random % 40 {
        random = random
            .wrapping_mul(6_364_136_223_846_793_005)
            .wrapping_add(1);
        let all: Vec<Partition> = splits.iter().collect();
        let from = all[(random >> 33) as usize % all.len()];
        if let Some((child, _)) = tree.next_child(&splits, from) {
            splits.insert(child);
        }
    }
    splits
}

/// Vertex-cut and GIGA+ distribute evenly; a hash that did not would pass all tests above.
#[test]
fn hashes_distribute_edges_evenly() {
    for kind in [Kind::VertexCut, Kind::GigaPlus] {
        let placement = kind.over(32, Order::Nodes).unwrap();
        let source = End::numbered(7, Shard(3));
        let mut counts = [0_u32; 32];
        for n in 0..32_000 {
            let end = End::numbered(n, Shard(0));
            let at = placement.shard_of(source.home, placement.target(source, end));
            counts[at.0 as usize] += 1;
        }
        // Expected are 1,000 each; six standard deviations are 190.
        assert!(
            counts.iter().all(|c| (810..1190).contains(c)),
            "{kind}: {counts:?}"
        );
    }
}

#[test]
fn places_are_counted_from_home_round_robin() {
    let dido = Kind::Dido.over(8, Order::Nodes).unwrap();
    assert_eq!(dido.shard_of(Shard(6), Partition(3)), Shard(1));
    let ends = |home| End::numbered(0, Shard(home));
    assert_eq!(dido.target(ends(6), ends(1)), Partition(3));
    assert_eq!(dido.target(ends(6), ends(6)), Partition(0));
}

#[test]
fn names_are_read_and_others_refused() {
    for kind in Kind::ALL {
        assert_eq!(kind.to_string().parse(), Ok(kind));
    }
    let error = "GIGA".parse::<Kind>().unwrap_err();
    assert_eq!(
        error.to_string(),
        "`GIGA` is not a placement; expected dido, giga+, edge-cut or vertex-cut"
    );
    let error = Kind::Dido.over(0, Order::Nodes).unwrap_err();
    assert_eq!(
        error.to_string(),
        "edges cannot be distributed over 0 shards; expected 1 to 65536"
    );
}
