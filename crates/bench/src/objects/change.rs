//! Updating and deleting 2.5 to 20 % of all objects (Figures 9 and 10), each looked up by its ID attributes first.

use super::ObjectsBench;
use super::shape::{ObjectShape, Tags};
use super::stores::{self, PARTS, objects_of};
use crate::machine;
use crate::random::Random;
use crate::report::{Figure, Unit};
use esker::Database;
use esker_model::object::{ObjectId, ObjectKey, ObjectRead as _, object_type};
use esker_model::{Batch, GraphRead as _, GraphWrite as _, Op, Properties, VertexRef};
use esker_terminal::units::count;
use std::time::Instant;

/// Objects per batch.
const BATCH: usize = 1000;

pub(super) fn run(bench: &mut ObjectsBench<'_>) -> anyhow::Result<()> {
    let objects = bench.args.objects;
    for names in bench.args.workloads.clone() {
        let shape = ObjectShape {
            names,
            tags: Tags::Few,
        };
        let database = stores::full(bench, shape, objects)?;
        let type_id = object_type(&*database.schema()?)
            .ok_or_else(|| anyhow::anyhow!("no type of objects"))?;
        let vertex = |id: ObjectId| VertexRef {
            id: id.vertex(),
            type_id,
        };
        let mut order: Vec<u32> = (0..objects).collect();
        Random::new(7).shuffle(&mut order);
        for (confs, part) in PARTS {
            let some = order.get(..objects_of(confs, objects)).unwrap_or_default();
            let set = Properties::new().with("note", format!("update of {part}"));
            let seconds = change(bench, &database, shape, some, &|id| Op::SetAttributes {
                vertex: vertex(id),
                set: set.clone(),
                remove: Vec::new(),
            })?;
            add(bench, "update", part, shape, some.len(), seconds);
        }
        let mut rest = order.as_slice();
        for (confs, part) in PARTS {
            let (some, others) = rest.split_at(objects_of(confs, objects).min(rest.len()));
            rest = others;
            let seconds = change(bench, &database, shape, some, &|id| Op::DeleteVertex {
                vertex: vertex(id),
            })?;
            add(bench, "delete", part, shape, some.len(), seconds);
        }
        database.close()?;
    }
    Ok(())
}

fn add(
    bench: &mut ObjectsBench<'_>,
    what: &str,
    part: &str,
    shape: ObjectShape,
    objects: usize,
    (seconds, cpu): (f64, f64),
) {
    let case = format!("{what} of {part}, {}", shape.names.text());
    let rate = count((objects as f64 / seconds) as u64);
    let figure = Figure::new(case, Unit::Seconds, seconds);
    bench.report.add(figure.note(format!(
        "{} objects found by identity and changed, batches of {BATCH}: {rate}/s, CPU us each {:.2}; SoMeta, 128 servers: 20 % in 0.2 s",
        count(objects as u64),
        cpu * 1e6 / objects as f64
    )));
}

/// Returns seconds of wall time and of processor time.
fn change(
    bench: &ObjectsBench<'_>,
    database: &Database,
    shape: ObjectShape,
    numbers: &[u32],
    op: &dyn Fn(ObjectId) -> Op,
) -> anyhow::Result<(f64, f64)> {
    let (began, cpu) = (Instant::now(), machine::process_seconds());
    for numbers in numbers.chunks(BATCH) {
        bench.check_interrupt()?;
        let keys: Vec<ObjectKey> = numbers
            .iter()
            .map(|n| shape.names.identity(*n).into())
            .collect();
        let mut batch = Batch::new();
        for found in database.read_objects(&keys, None)? {
            let found = found.ok_or_else(|| anyhow::anyhow!("an object is missing"))?;
            batch.push(op(found.id));
        }
        database.apply(batch)?;
    }
    let wall = began.elapsed().as_secs_f64();
    Ok((wall, machine::process_seconds() - cpu))
}
