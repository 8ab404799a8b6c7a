//! Answers over workers equal those of one process.

#![allow(clippy::print_stdout, reason = "what was skipped must be seen")]
#![allow(clippy::unwrap_used, reason = "a test that meets an error has failed")]

mod agree;
mod cases;
#[path = "../../../rdf/tests/it/generator.rs"]
mod generator;
mod hostile;
#[path = "../../../site/tests/it/sources.rs"]
mod sources;

use esker_rdf::parse::Loader;
use esker_rdf::{Dataset, DateTime, Found, Options, Part, RdfFormat};
use esker_rdf_workers::{Coordinator, Listener, Secret, Settings, WorkerData};
use std::sync::Arc;

/// Loads a dataset from `TriG`, or one part of it.
fn load(text: &str, part: Option<Part>) -> Dataset {
    let mut loader = Loader::new(Dataset::default(), "t", false);
    if let Some(part) = part {
        loader.keep(part);
    }
    loader
        .read(
            "test",
            &mut text.as_bytes(),
            RdfFormat::TriG,
            None,
            Some("http://example.org/"),
        )
        .unwrap();
    loader.finish().0
}

/// Workers in this process, on ports of their own, stopped on drop.
struct Workers {
    runtime: Option<tokio::runtime::Runtime>,
    addresses: Vec<String>,
}

impl Workers {
    fn none() -> Self {
        Self {
            runtime: Some(tokio::runtime::Runtime::new().unwrap()),
            addresses: Vec::new(),
        }
    }

    fn start(&mut self, data: Dataset, part: Part, secret: Secret) {
        let runtime = self.runtime.as_ref().unwrap();
        let listener = runtime
            .block_on(Listener::bind("127.0.0.1:0".parse().unwrap()))
            .unwrap();
        self.addresses.push(listener.address().to_string());
        let held = WorkerData {
            // Few rows, so that streams have several batches.
            batch: 7,
            ..WorkerData::new(Arc::new(data), part)
        };
        runtime.spawn(listener.serve(held, secret, std::future::pending()));
    }

    /// Starts workers for all parts of the data.
    fn of(text: &str, n: usize) -> Self {
        let mut workers = Self::none();
        for i in 0..n {
            let part = Part::new(i, n).unwrap();
            workers.start(load(text, Some(part)), part, Secret::default());
        }
        workers
    }

    fn coordinator(&self) -> Coordinator {
        Coordinator::connect(&self.addresses, Settings::default()).unwrap()
    }
}

/// As when `esker rdf worker` ends: a star whose rows have no receiver is not waited for.
impl Drop for Workers {
    fn drop(&mut self) {
        if let Some(runtime) = self.runtime.take() {
            runtime.shutdown_background();
        }
    }
}

fn options() -> Options<'static> {
    Options::new("2026-11-22T12:00:00Z".parse::<DateTime>().unwrap(), 7)
}

/// Returns solutions or triples as sorted texts, without variable `m`.
fn texts(answer: &esker_rdf::Answer<'_>) -> Vec<String> {
    let mut rows: Vec<String> = match &answer.found {
        Found::Boolean(b) => vec![b.to_string()],
        Found::Triples(list) => list
            .iter()
            .map(|t| answer.triple(*t).unwrap().to_string())
            .collect(),
        Found::Solutions(vars, table) => (0..table.len())
            .map(|r| {
                let mut row: Vec<String> = vars
                    .iter()
                    .zip(table.columns())
                    .filter(|(v, _)| *v != "m")
                    .filter_map(|(v, c)| Some(format!("{v}={}", answer.term(c[r])?)))
                    .collect();
                row.sort();
                row.join(" ")
            })
            .collect(),
    };
    rows.sort();
    rows
}

fn answer_locally(data: &Dataset, text: &str) -> Result<Vec<String>, String> {
    let options = options();
    esker_rdf::query(data, text, None, None, false, &options)
        .map(|a| texts(&a))
        .map_err(|e| e.to_string())
}

fn answer_by_workers(coordinator: &Coordinator, text: &str) -> Result<Vec<String>, String> {
    let query = esker_rdf::syntax::query(text, None).map_err(|e| e.to_string())?;
    let prepared = coordinator
        .prepare(&query, None, false, &|| None)
        .map_err(|e| e.to_string())?;
    let mut options = options();
    options.input_bindings = &prepared.input_bindings;
    esker_rdf::query_parsed(&prepared.data, text, &prepared.query, None, false, &options)
        .map(|a| texts(&a))
        .map_err(|e| e.to_string())
}
