//! SPARQL queries and updates, with results as columns.

use crate::cancel::{Signals, work};
use crate::columns::{Columns, Table, of_mixed};
use crate::database::Core;
use crate::error::invalid;
use esker::Database;
use esker::rdf::{LoadOptions, Rules, error, files, now_and_seed, on_large_stack};
use esker_model::{Cancel as _, Result, Value};
use esker_rdf::id::Id;
use esker_rdf::infer::Limits;
use esker_rdf::{Found, Options, Term};

use pyo3::prelude::*;
use pyo3::types::PyBool;
use std::path::PathBuf;

/// Maximum memory of a query beside the data, in bytes.
const MEMORY: usize = 4 << 30;

enum Answer {
    Truth(bool),
    Columns(Vec<(String, Vec<Option<Value>>)>),
}

fn with_options<T>(
    signals: &Signals,
    ask: impl FnOnce(&Options<'_>, &(dyn Fn() -> Option<&'static str> + Sync)) -> Result<T>,
) -> Result<T> {
    let stop = || signals.cancelled().then_some("interrupted");
    let (now, seed) = now_and_seed();
    let mut options = Options::new(now, seed);
    options.threads = esker::rdf::threads();
    options.memory = MEMORY;
    options.stop = &stop;
    ask(&options, &stop)
}

/// Converts a term to a value: numbers and booleans as such, all others as text.
fn value_of(term: &Term) -> Value {
    match term {
        Term::NamedNode(node) => Value::String(node.as_str().to_owned()),
        Term::Literal(literal) => {
            let text = literal.value();
            let kind = literal.datatype().as_str();
            let as_text = || Value::String(text.to_owned());
            match kind.strip_prefix("http://www.w3.org/2001/XMLSchema#") {
                Some(
                    "integer" | "int" | "long" | "short" | "byte" | "nonNegativeInteger"
                    | "unsignedInt" | "unsignedLong",
                ) => text.parse().map_or_else(|_| as_text(), Value::I64),
                Some("double" | "float" | "decimal") => {
                    text.parse().map_or_else(|_| as_text(), Value::F64)
                }
                Some("boolean") => match text {
                    "true" | "1" => Value::Bool(true),
                    "false" | "0" => Value::Bool(false),
                    _ => as_text(),
                },
                _ => as_text(),
            }
        }
        Term::BlankNode(_) | Term::Triple(_) => Value::String(term.to_string()),
    }
}

pub(crate) fn query<'py>(
    py: Python<'py>,
    database: &Database,
    text: &str,
) -> PyResult<Bound<'py, PyAny>> {
    let answer = work(py, |signals| {
        on_large_stack(|| {
            with_options(signals, |options, stop| {
                run_query(database, text, options, stop)
            })
        })
    })?;
    match answer {
        Answer::Truth(b) => Ok(PyBool::new(py, b).to_owned().into_any()),
        Answer::Columns(columns) => {
            let mut table = Table::default();
            for (name, values) in columns {
                table.add(name, of_mixed(&values));
            }
            let columns: Columns = table.finish(py)?;
            Ok(Bound::new(py, columns)?.into_any())
        }
    }
}

fn run_query(
    database: &Database,
    text: &str,
    options: &Options<'_>,
    stop: &(dyn Fn() -> Option<&'static str> + Sync),
) -> Result<Answer> {
    let mut rdf = database.rdf()?;
    let data = rdf.query_data(text, None, stop)?;
    let answer = match esker_rdf::query(&data, text, None, None, false, options) {
        Ok(answer) => answer,
        // An update in the place of a query is a common slip.
        Err(esker_rdf::Error::Syntax(_)) if esker_rdf::syntax::update(text, None).is_ok() => {
            return Err(invalid(
                "this is an update, not a query: call sparql_update",
            ));
        }
        Err(e) => return Err(error(e)),
    };
    Ok(match &answer.found {
        Found::Boolean(b) => Answer::Truth(*b),
        Found::Solutions(names, table) => {
            let columns = names.iter().zip(table.columns());
            let values = |ids: &[Id]| {
                ids.iter()
                    .map(|id| answer.term(*id).as_ref().map(value_of))
                    .collect()
            };
            Answer::Columns(
                columns
                    .map(|(name, ids)| (name.clone(), values(ids)))
                    .collect(),
            )
        }
        Found::Triples(list) => {
            let mut columns =
                ["subject", "predicate", "object"].map(|n| (n.to_owned(), Vec::new()));
            for triple in list.iter().filter_map(|t| answer.triple(*t)) {
                let [s, p, o] = &mut columns;
                s.1.push(Some(Value::String(triple.subject.to_string())));
                p.1.push(Some(Value::String(triple.predicate.to_string())));
                o.1.push(Some(Value::String(triple.object.to_string())));
            }
            Answer::Columns(columns.into())
        }
    })
}

/// Adds a file to a graph; returns the numbers of quads read and of new ones.
#[pyfunction]
pub(crate) fn load_rdf(
    py: Python<'_>,
    core: &Core,
    path: PathBuf,
    graph: Option<String>,
) -> PyResult<(u64, u64)> {
    let database = core.database(py)?;
    work(py, |signals| {
        let files = files(&path)?;
        let stop = || signals.cancelled().then_some("interrupted");
        let how = LoadOptions {
            graph: graph.as_deref(),
            lenient: false,
            infer: Rules::AsBefore,
            part: None,
        };
        let limits = Limits {
            memory: MEMORY,
            stop: &stop,
        };
        let mut rdf = database.rdf_to_change()?;
        let loaded = rdf.load(&files, how, limits, &mut |_| !signals.cancelled())?;
        Ok((loaded.read, loaded.new))
    })
}

pub(crate) fn update(py: Python<'_>, database: &Database, text: &str) -> PyResult<(usize, usize)> {
    work(py, |signals| {
        on_large_stack(|| {
            with_options(signals, |options, _| {
                let done = database
                    .rdf_to_change()?
                    .update(text, None, options, true)?;
                Ok((done.added, done.removed))
            })
        })
    })
}
