//! Baseline of `python -m esker.bench`: inserts the same edges as `insert_many`, put into batches in Rust.

use crate::cancel::work;
use crate::database::Core;
use esker_model::{Batch, GraphRead as _, GraphWrite as _, Op, Properties, VertexId, VertexRef};
use pyo3::prelude::*;
use std::time::Instant;

/// Inserts edges `job:J write file:/bench/J/F` with a property `bytes`, `rows` per commit; returns the time in seconds.
#[pyfunction]
pub(crate) fn insert_baseline(
    py: Python<'_>,
    core: &Core,
    jobs: u32,
    files: u32,
    rows: usize,
) -> PyResult<f64> {
    let database = core.database(py)?;
    work(py, |_| {
        let schema = database.schema()?;
        let vertex = |type_name: &str, key: &str| {
            let type_id = schema.vertex_type_id(type_name)?;
            let id = VertexId::of(type_name, key);
            Ok::<_, esker_model::Error>(VertexRef { id, type_id })
        };
        let edge_type = schema.edge_type_id("write")?;
        let begun = Instant::now();
        let (mut batch, mut pending) = (Batch::new(), 0);
        for job in 0..jobs {
            let key = job.to_string();
            let source = vertex("Job", &key)?;
            batch.push(Op::EnsureVertex {
                vertex: source,
                key,
            });
            for file in 0..files {
                let key = format!("/bench/{job}/{file}");
                let destination = vertex("File", &key)?;
                batch.push(Op::EnsureVertex {
                    vertex: destination,
                    key,
                });
                batch.push(Op::PutEdge {
                    source,
                    edge_type,
                    destination,
                    properties: Properties::new().with("bytes", i64::from(file)),
                });
                pending += 1;
                if pending == rows {
                    database.apply(std::mem::take(&mut batch))?;
                    pending = 0;
                }
            }
        }
        database.apply(batch)?;
        Ok(begun.elapsed().as_secs_f64())
    })
}
