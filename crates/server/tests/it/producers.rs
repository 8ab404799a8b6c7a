//! Numbered batches of a client that waits for only some of their answers.

use crate::common::{Served, settings};
use esker_model::{Batch, GraphRead as _, GraphWrite as _, Op, VertexId, VertexRef, VertexTypeId};
use esker_testkit::wait::wait_until;

fn batch(first: u32, vertices: u32) -> Batch {
    let mut batch = Batch::new();
    for n in first..first + vertices {
        let key = n.to_string();
        batch.push(Op::EnsureVertex {
            vertex: VertexRef {
                id: VertexId::of("User", &key),
                type_id: VertexTypeId(0),
            },
            key,
        });
    }
    batch
}

/// A large batch is decoded by another thread, so that small ones overtake it: they must not say that it is settled.
#[test]
fn what_nobody_waits_for_is_applied_all_the_same() {
    const LARGE: u32 = 10_000;
    let served = Served::start(settings());
    let database = served.open();
    let mut first = 0;
    for _ in 0..5 {
        drop(database.submit(batch(first, LARGE)).unwrap());
        let commit = database.apply(batch(first + LARGE, 1)).unwrap();
        assert!(commit.applied);
        first += LARGE + 1;
    }
    let vertices = || {
        let counts = database.counts().unwrap();
        counts.vertices.iter().map(|(_, n)| n).sum::<u64>()
    };
    wait_until("not all is applied", || vertices() == u64::from(first));
}
