//! The split state of a vertex: bytes are decoded or refused; a decoded state has one encoding, and locates every target partition.

use esker_cluster::placement::{Partition, SplitState};

pub(crate) fn check(bytes: &[u8]) {
    match SplitState::decode(bytes) {
        Ok(state) => {
            assert_eq!(state.encode(), bytes);
            let tree = state.tree();
            for target in (0..tree.shards()).map(Partition) {
                let at = tree.locate(state.splits(), target);
                assert!(state.splits().contains(at) && tree.is_under(target, at));
            }
        }
        Err(error) => assert!(error.at <= bytes.len()),
    }
}
