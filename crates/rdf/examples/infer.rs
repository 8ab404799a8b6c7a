//! How long a closure takes: `infer rdfs|owl-rl FILE… -- QUERY.rq …`.

#![allow(
    clippy::print_stdout,
    clippy::unwrap_used,
    clippy::panic,
    reason = "an example for people who measure"
)]

use esker_rdf::infer::Limits;
use esker_rdf::parse::Loader;
use esker_rdf::{Dataset, DateTime, Inference, Options, RdfFormat, query};
use std::fs::File;
use std::time::Instant;

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
    let began = Instant::now();
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
    println!("{} quads loaded in {:.2?}", loaded.new, began.elapsed());
    let began = Instant::now();
    let limits = Limits {
        memory: usize::MAX,
        stop: &|| None,
    };
    data.infer(Some(kind), limits).unwrap();
    println!(
        "{} inferred in {:.2?}",
        data.inferred_len(),
        began.elapsed()
    );
    let now: DateTime = "2026-11-22T12:00:00Z".parse().unwrap();
    let options = Options::new(now, 7);
    for name in queries {
        let text = std::fs::read_to_string(name).unwrap();
        let began = Instant::now();
        let answer = query(&data, &text, None, None, false, &options).unwrap();
        println!("{name}: {} in {:.2?}", answer.len(), began.elapsed());
    }
}
