//! The extension module `esker._esker`: what of the engine Python's package `esker` is made of.
//!
//! One class, [`database::Core`], takes names and plain values and gives tuples and Arrow columns; what users see (classes with
//! documentation, notebooks' tables, traversals in parts) is Python in `python/src/esker`. Every call that touches a database
//! lets other Python threads run, and looks for Ctrl-C where the engine asks whether to go on (`cancel`).
//!
//! Errors become exceptions by one table of remedies (`error`).

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
mod far;
mod files;
mod recording;
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
    use crate::far::ask;
    #[pymodule_export]
    use crate::recording::Recording;
    #[pymodule_export]
    use crate::sparql::load_rdf;
    #[pymodule_export]
    use crate::walk::{Travelled, Walk};

    /// The version of the package.
    #[pymodule_export]
    const VERSION: &str = env!("CARGO_PKG_VERSION");
}
