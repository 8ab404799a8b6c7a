//! Extension module `esker._esker`: the part of Python's package `esker` that calls the engine.
//!
//! One class, [`database::Core`], takes names and plain values and returns tuples and Arrow columns; the user-visible classes (with
//! documentation, tables for notebooks, composable traversals) are Python code in `python/src/esker`. Every call that accesses a
//! database lets other Python threads run, and checks for Ctrl-C where the engine checks for cancellation (`cancel`).
//!
//! Errors become exceptions by their kind (`error`).

#![expect(
    clippy::needless_pass_by_value,
    clippy::too_many_arguments,
    reason = "arguments of Python's calls are as Python gives them"
)]

mod arrays;
mod baseline;
mod bulk;
mod cancel;
mod change;
mod columns;
mod database;
mod error;
mod files;
mod recording;
mod remote;
mod sparql;
mod tables;
mod value;
mod walk;

#[pyo3::pymodule]
mod _esker {
    #[pymodule_export]
    use crate::baseline::insert_baseline;
    #[pymodule_export]
    use crate::columns::Columns;
    #[pymodule_export]
    use crate::database::Core;
    #[pymodule_export]
    use crate::recording::Recording;
    #[pymodule_export]
    use crate::remote::ask;
    #[pymodule_export]
    use crate::sparql::load_rdf;
    #[pymodule_export]
    use crate::walk::{Travelled, Walk};

    /// Version of the package.
    #[pymodule_export]
    const VERSION: &str = env!("CARGO_PKG_VERSION");
}
