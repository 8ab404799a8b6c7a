//! Measures how long a closure takes, in processor time of one thread: `infer rdfs|owl-rl FILE… -- QUERY.rq …`.

#![allow(
    clippy::print_stdout,
    clippy::unwrap_used,
    clippy::panic,
    clippy::disallowed_methods,
    reason = "an example for people who measure"
)]

use esker_rdf::infer::Limits;
use esker_rdf::parse::Loader;
use esker_rdf::{Dataset, DateTime, Inference, Options, RdfFormat, query};
use std::fs::File;

/// Returns the processor time of this thread in milliseconds; unlike wall-clock time it is independent of other programs.
fn cpu() -> f64 {
    let text = std::fs::read_to_string("/proc/thread-self/schedstat").unwrap_or_default();
    let first = text.split(' ').next().and_then(|n| n.parse::<f64>().ok());
    first.unwrap_or(0.0) / 1e6
}

fn main() {
    let args: Vec<String> = std::env::args().skip(1).collect();
    let kind = match args.first().map(String::as_str) {
        Some("rdfs") => Inference::Rdfs,
        Some("owl-rl") => Inference::OwlRl,
        _ => panic!("usage: infer rdfs|owl-rl FILE... -- QUERY.rq ..."),
    };
    let mut parts = args[1..].split(|a| a == "--");
    let files = parts.next().unwrap_or_default();
    let queries = parts.next().unwrap_or_default();
    let began = cpu();
    let mut loader = Loader::new(Dataset::default(), "f", false);
    for name in files {
        let format = match name.rsplit('.').next() {
            Some("nt") => RdfFormat::NTriples,
            Some("ttl") => RdfFormat::Turtle,
            _ => RdfFormat::RdfXml,
        };
        let base = Some("http://example.org/");
        let mut file = File::open(name).unwrap();
        loader.read(name, &mut file, format, None, base).unwrap();
    }
    let (mut data, loaded) = loader.finish();
    println!("{} quads loaded in {:.2} ms", loaded.new, cpu() - began);
    let began = cpu();
    let limits = Limits {
        memory: usize::MAX,
        stop: &|| None,
    };
    data.infer(Some(kind), limits).unwrap();
    println!(
        "{} inferred in {:.2} ms",
        data.inferred_len(),
        cpu() - began
    );
    one_by_one(&mut data);
    let now: DateTime = "2026-11-22T12:00:00Z".parse().unwrap();
    let options = Options::new(now, 7);
    for name in queries {
        let text = std::fs::read_to_string(name).unwrap();
        let began = cpu();
        let answer = query(&data, &text, None, None, false, &options).unwrap();
        println!("{name}: {} in {:.2} ms", answer.len(), cpu() - began);
    }
}

/// Removes triples one at a time and adds them again.
fn one_by_one(data: &mut Dataset) {
    let asserted: Vec<_> = data.asserted().quads().collect();
    let some: Vec<_> = asserted
        .iter()
        .step_by((asserted.len() / 10_000).max(1))
        .copied()
        .collect();
    let inferred = data.inferred_len();
    for (add, what) in [(false, "taken away"), (true, "added")] {
        let began = cpu();
        for q in &some {
            data.change(&[(*q, add)]);
        }
        let each = (cpu() - began) / some.len() as f64;
        println!(
            "{} {what}, {each:.4} ms each; {} inferred",
            some.len(),
            data.inferred_len()
        );
    }
    assert_eq!(data.inferred_len(), inferred);
}
