//! Random queries over random data.

use crate::generator::{data, request};
use crate::{Workers, answer_by_workers, answer_locally, load};
use proptest::prelude::*;
use proptest::test_runner::{Config, TestRunner};

/// Queries per dataset.
const QUERIES: usize = 12;

#[test]
fn workers_answer_as_one_process_does() {
    // Nested strategies need more stack than a test thread has.
    let run = || {
        let config = Config {
            cases: option_env!("ESKER_CASES").map_or(25, |n| n.parse().unwrap()),
            failure_persistence: None,
            max_shrink_iters: 200,
            ..Config::default()
        };
        let all = (
            data(),
            2_usize..4,
            prop::collection::vec(request(), QUERIES),
        );
        TestRunner::new(config).run(&all, |(text, parts, queries)| {
            let workers = Workers::of(&text, parts);
            let coordinator = workers.coordinator();
            let whole = load(&text, None);
            for query in queries {
                let expected = answer_locally(&whole, &query);
                let found = answer_by_workers(&coordinator, &query);
                prop_assert_eq!(expected, found, "{}\n{}", query, text);
            }
            Ok(())
        })
    };
    std::thread::scope(|scope| {
        let thread = std::thread::Builder::new().stack_size(64 << 20);
        let outcome = thread.spawn_scoped(scope, run).unwrap().join().unwrap();
        if let Err(e) = outcome {
            panic!("{e}");
        }
    });
}
