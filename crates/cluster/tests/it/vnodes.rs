//! Vnodes and their map: balance, fewest moves, epochs, and locality for any number of servers.

use esker_cluster::placement::{Order, Partition, Shard, Tree};
use esker_cluster::vnode::{BadVnodes, MapError, ServerId, VnodeMap, Vnodes};
use esker_model::VertexId;
use proptest::prelude::*;
use std::collections::BTreeMap;

fn servers(ids: impl IntoIterator<Item = u32>) -> Vec<ServerId> {
    ids.into_iter().map(ServerId).collect()
}

fn first(vnodes: u32, count: u32) -> VnodeMap {
    VnodeMap::first(Vnodes::new(vnodes).unwrap(), &servers(0..count)).unwrap()
}

/// Number of vnodes by server.
fn vnode_counts(map: &VnodeMap) -> BTreeMap<ServerId, usize> {
    map.servers()
        .iter()
        .map(|server| (*server, map.vnodes_of(*server).count()))
        .collect()
}

fn check_balance(map: &VnodeMap) {
    let held = vnode_counts(map);
    let (least, most) = (held.values().min().unwrap(), held.values().max().unwrap());
    assert!(most - least <= 1, "{held:?}");
    assert_eq!(
        held.values().sum::<usize>(),
        map.vnodes().count() as usize,
        "every vnode has a server that is there"
    );
}

/// The fewest moves after which no server has two vnodes more than another.
fn moves_min(before: &VnodeMap, servers: &[ServerId]) -> usize {
    let total = before.vnodes().count() as usize;
    let mut have: Vec<usize> = servers
        .iter()
        .map(|server| before.vnodes_of(*server).count())
        .collect();
    have.sort_unstable_by(|a, b| b.cmp(a));
    let (each, odd) = (total / servers.len(), total % servers.len());
    let kept = |(i, have): (usize, &usize)| *have.min(&(each + usize::from(i < odd)));
    total - have.iter().enumerate().map(kept).sum::<usize>()
}

/// Changes a map and checks all invariants of the change.
fn change(map: &VnodeMap, to: &[ServerId]) -> VnodeMap {
    let (next, moves) = map.change(to).unwrap();
    check_balance(&next);
    assert_eq!(moves.len(), moves_min(map, to));
    for m in &moves {
        assert_eq!(map.server(m.vnode), Some(m.from));
        assert_eq!(next.server(m.vnode), Some(m.to));
        assert_eq!(next.epoch_of(m.vnode), Some(next.epoch()));
    }
    for vnode in (0..map.vnodes().count()).map(Shard) {
        if moves.iter().all(|m| m.vnode != vnode) {
            assert_eq!(next.server(vnode), map.server(vnode));
            assert_eq!(next.epoch_of(vnode), map.epoch_of(vnode));
        }
    }
    next
}

#[test]
fn a_vnode_is_a_range_of_ids() {
    for count in [1, 2, 1024, 65_536] {
        let vnodes = Vnodes::new(count).unwrap();
        let mut after = None;
        // The first bit of an id is the lowest of its vnode's number.
        let bits = count.ilog2();
        let in_order = |n: u32| Shard(n.reverse_bits().checked_shr(32 - bits).unwrap_or(0));
        for vnode in (0..count).map(in_order) {
            let (low, high) = vnodes.range(vnode);
            assert_eq!((vnodes.of(low), vnodes.of(high)), (vnode, vnode));
            let number = u128::from_be_bytes(low.0);
            assert_eq!(after.unwrap_or(0), number, "no gap before it");
            after = u128::from_be_bytes(high.0).checked_add(1);
        }
        assert_eq!(after, None, "the last id has a vnode");
    }
    let id = VertexId::of("file", "/scratch/a.h5");
    let vnode = Vnodes::new(1024).unwrap().of(id);
    assert_eq!(
        vnode.0,
        u32::from(u16::from_be_bytes([id.0[0], id.0[1]]) >> 6).reverse_bits() >> 22
    );
    assert_eq!(Vnodes::new(1000), Err(BadVnodes(1000)));
    assert_eq!(Vnodes::new(0), Err(BadVnodes(0)));
    assert_eq!(Vnodes::new(1 << 17), Err(BadVnodes(1 << 17)));
}

/// Purpose of the tree and the map: with a power of two of servers, after the corresponding number of levels all
/// vnodes below a node are on one server, whatever the root is.
#[test]
fn the_first_levels_separate_servers() {
    let vnodes = 256;
    let tree = Tree::new(vnodes, Order::Numbers).unwrap();
    for levels in 0..=8 {
        let map = first(vnodes, 1 << levels);
        for root in (0..vnodes).step_by(37) {
            let at = |p: Partition| map.server(Shard((root + p.0) % vnodes)).unwrap();
            for node in (0..1 << levels).map(Partition) {
                let class = (node.0..vnodes).step_by(1 << levels).map(Partition);
                for under in class {
                    assert!(tree.is_under(under, node));
                    assert_eq!(at(under), at(node));
                }
            }
        }
        assert!((map.locality(levels) - 1.0).abs() < 1e-9);
    }
}

/// The paper's tree over vnodes does not achieve this with any map of two servers, which is why the order differs.
#[test]
fn the_papers_tree_over_vnodes_separates_no_servers() {
    let tree = Tree::new(8, Order::Nodes).unwrap();
    let right: Vec<u32> = (0..8)
        .filter(|p| tree.is_under(Partition(*p), Partition(1)))
        .collect();
    assert_eq!(right, [1, 3, 6, 7]);
    for map in 1_u32..255 {
        let server = |vnode: u32| map >> (vnode % 8) & 1;
        let pure = |root: u32| {
            let side = |p: &u32| server(root + p);
            let left: Vec<u32> = (0..8).filter(|p| !right.contains(p)).collect();
            right.iter().all(|p| side(p) == side(&1)) && left.iter().all(|p| side(p) == side(&0))
        };
        assert!(!(0..8).all(pure), "map {map:08b}");
    }
}

#[test]
fn with_a_power_of_two_of_servers_vnodes_are_dealt_in_turn() {
    for levels in 0..=10 {
        let count = 1 << levels;
        let map = first(1024, count);
        assert_eq!((map.epoch(), map.epoch_of(Shard(5))), (1, Some(1)));
        for vnode in 0..1024 {
            assert_eq!(map.server(Shard(vnode)), Some(ServerId(vnode % count)));
        }
    }
    assert_eq!(first(1024, 4).server(Shard(1024)), None);
}

/// A server's vnodes are mostly one whole class of the first level with as many nodes as there are servers. Chance
/// would give one part in the number of servers.
#[test]
fn any_number_of_servers_keeps_most_of_the_locality() {
    for count in 1..=64 {
        let map = first(1024, count);
        check_balance(&map);
        let level = map.server_level();
        let (at, below) = (map.locality(level), map.locality(level + 1));
        assert!(at > 0.7, "{count} servers: {at:.3}");
        assert!(below > 0.84, "{count} servers, a level on: {below:.3}");
    }
}

#[test]
fn a_server_that_comes_takes_little_and_leaves_no_trace() {
    let map = first(1024, 32);
    let more = change(&map, &servers(0..33));
    assert!(more.locality(5) > 0.94);
    let back = change(&more, &servers(0..32));
    assert!((back.locality(5) - 1.0).abs() < 1e-9);
    let fewer = change(&map, &servers((0..32).filter(|s| *s != 5)));
    assert!(fewer.locality(5) > 0.96);
    assert!((change(&map, &servers(0..64)).locality(6) - 1.0).abs() < 1e-9);
    assert!((change(&map, &servers(0..16)).locality(4) - 1.0).abs() < 1e-9);
}

#[test]
fn tidying_mends_what_many_changes_broke() {
    let mut map = first(1024, 1);
    for count in 2..=32 {
        map = change(&map, &servers(0..count));
    }
    // Each change balances well and prefers neighbours; otherwise the value would be 0.29.
    assert!(
        (0.32..0.6).contains(&map.locality(5)),
        "{}",
        map.locality(5)
    );
    let (tidy, moves) = map.with_best_locality();
    check_balance(&tidy);
    assert!((tidy.locality(5) - 1.0).abs() < 1e-9);
    assert!(moves.len() < 1024 && tidy.epoch() == map.epoch() + 1);
    assert_eq!(tidy.with_best_locality(), (tidy.clone(), Vec::new()));
}

#[test]
fn maps_that_cannot_be_are_refused() {
    let vnodes = Vnodes::new(4).unwrap();
    let map = |ids: &[u32]| VnodeMap::first(vnodes, &servers(ids.iter().copied()));
    assert_eq!(map(&[]), Err(MapError::NoServers));
    assert_eq!(map(&[3, 1, 3]), Err(MapError::DuplicateServer(ServerId(3))));
    let many = MapError::TooManyServers {
        servers: 5,
        vnodes: 4,
    };
    assert_eq!(map(&[0, 1, 2, 3, 4]), Err(many));
    assert_eq!(
        many.to_string(),
        "4 vnodes are too few for 5 servers; a cluster can have as many servers as vnodes"
    );
    let four = map(&[7, 1, 9, 3]).unwrap();
    assert_eq!(four.servers(), servers([1, 3, 7, 9]));
    assert_eq!(four.change(&[]), Err(MapError::NoServers));
    check_balance(&four);
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(32))]

    /// Servers come and go, several at once: always balanced, always the fewest moves, and the compacted map is as
    /// good as a new one.
    #[test]
    fn changes_keep_the_balance(changes in prop::collection::vec(prop::collection::btree_set(0_u32..40, 1..30), 1..8)) {
        let mut map = first(128, 5);
        for ids in changes {
            map = change(&map, &servers(ids));
        }
        let (tidy, _) = map.with_best_locality();
        check_balance(&tidy);
        let fresh = VnodeMap::first(map.vnodes(), map.servers()).unwrap();
        let sum = |map: &VnodeMap| -> f64 {
            (1..=map.server_level() + 1).map(|level| map.locality(level)).sum()
        };
        prop_assert!(sum(&tidy) >= sum(&fresh) - 1e-9);
        prop_assert!(sum(&tidy) >= sum(&map) - 1e-9);
    }
}
