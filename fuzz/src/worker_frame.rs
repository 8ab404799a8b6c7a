//! Messages between RDF workers and their coordinators: plans, stars and a worker's description of itself.

use esker_rdf_workers::hostile::{WorkerUnderTest, about};
use std::cell::RefCell;

thread_local! {
    static WORKER: RefCell<WorkerUnderTest> = RefCell::default();
}

pub(crate) fn check(bytes: &[u8]) {
    let Some((kind, message)) = bytes.split_first() else {
        return;
    };
    match kind % 3 {
        0 => WORKER.with_borrow_mut(|worker| worker.plan(message)),
        1 => WORKER.with_borrow(|worker| worker.star(message)),
        _ => about(&String::from_utf8_lossy(message)),
    }
}
