//! Queries that are too large, too deep, or stopped.

use crate::{load, options};
use esker_rdf::{Error, query};
use std::fmt::Write as _;
use std::sync::atomic::{AtomicUsize, Ordering};

fn numbers(n: usize) -> String {
    let mut text = String::new();
    for i in 0..n {
        let _ = write!(text, "<http://e/n{i}> <http://e/p> {i} . ");
    }
    text
}

/// Three times a thousand: a billion solutions.
const PRODUCT: &str = "SELECT * { ?a <http://e/p> ?x . ?b <http://e/p> ?y . ?c <http://e/p> ?z }";

#[test]
fn a_product_ends_at_the_limit_of_memory() {
    let data = load(&numbers(1000));
    let mut options = options();
    options.memory = 16 << 20;
    let outcome = query(&data, PRODUCT, None, None, false, &options);
    assert!(
        matches!(outcome, Err(Error::Memory { .. })),
        "{:?}",
        outcome.map(|a| a.len())
    );
}

#[test]
fn a_query_stops_when_it_is_told_to() {
    let data = load(&numbers(1000));
    let asked = AtomicUsize::new(0);
    let stop = || (asked.fetch_add(1, Ordering::Relaxed) > 20).then_some("time-out");
    let mut options = options();
    options.stop = &stop;
    for text in [
        PRODUCT,
        "SELECT * { ?a <http://e/p> ?x . ?b <http://e/p> ?y FILTER(?x + ?y = 7) }",
        "SELECT (SUM(?x) AS ?s) { ?a <http://e/p> ?x . ?b <http://e/p> ?y } GROUP BY ?y",
        "SELECT * { ?a (<http://e/p>|^<http://e/p>)* ?b . ?c (<http://e/p>|^<http://e/p>)* ?d }",
    ] {
        asked.store(0, Ordering::Relaxed);
        let outcome = query(&data, text, None, None, false, &options);
        assert!(matches!(outcome, Err(Error::Stopped("time-out"))), "{text}");
    }
}

#[test]
fn a_limit_ends_a_scan_early() {
    let data = load(&numbers(50_000));
    let asked = AtomicUsize::new(0);
    let stop = || {
        asked.fetch_add(1, Ordering::Relaxed);
        None
    };
    let mut options = options();
    options.stop = &stop;
    let text = "SELECT * { ?a <http://e/p> ?x . ?a <http://e/p> ?y } LIMIT 3";
    let answer = query(&data, text, None, None, false, &options).unwrap();
    assert_eq!(answer.len(), 3);
    drop(answer);
    let few = asked.swap(0, Ordering::Relaxed);
    let whole = text.trim_end_matches(" LIMIT 3");
    assert_eq!(
        query(&data, whole, None, None, false, &options)
            .unwrap()
            .len(),
        50_000
    );
    assert!(few * 4 < asked.load(Ordering::Relaxed), "{few}");
}

#[test]
fn many_unions_and_conditions_are_answered() {
    let data = load(&numbers(10));
    let run = || {
        let options = options();
        let count = |text: &str| {
            query(&data, text, None, None, false, &options)
                .unwrap()
                .len()
        };
        let unions = vec!["{ ?a <http://e/p> 1 }"; 10_000].join(" UNION ");
        assert_eq!(count(&format!("SELECT * {{ {unions} }}")), 10_000);
        let all = vec!["?x != 3"; 5_000].join(" && ");
        assert_eq!(
            count(&format!("SELECT * {{ ?a <http://e/p> ?x FILTER({all}) }}")),
            9
        );
        let any = vec!["?x = 3"; 5_000].join(" || ");
        assert_eq!(
            count(&format!("SELECT * {{ ?a <http://e/p> ?x FILTER({any}) }}")),
            1
        );
    };
    // The parser calls itself for each.
    std::thread::scope(|scope| {
        let thread = std::thread::Builder::new().stack_size(256 << 20);
        thread.spawn_scoped(scope, run).unwrap().join().unwrap();
    });
}

#[test]
fn what_is_too_deep_is_an_error() {
    let data = load("");
    let options = options();
    let text = format!("SELECT * {{ {} {} }}", "{".repeat(300), "}".repeat(300));
    assert!(matches!(
        query(&data, &text, None, None, false, &options),
        Err(Error::Syntax(_))
    ));
}
