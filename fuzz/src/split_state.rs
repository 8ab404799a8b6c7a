//! How a vertex has split is read or refused; what is read is the one encoding of a state that could be, and finds every edge.

use esker_cluster::placement::{Partition, SplitState};

pub(crate) fn check(bytes: &[u8]) {
    match SplitState::decode(bytes) {
        Ok(state) => {
            assert_eq!(state.encode(), bytes);
            let tree = state.tree();
            for goal in (0..tree.places()).map(Partition) {
                let at = tree.locate(state.splits(), goal);
                assert!(state.splits().contains(at) && tree.is_under(goal, at));
            }
        }
        Err(error) => assert!(error.at <= bytes.len()),
    }
}
