//! Databases and bare engines full of objects.

use super::Bench;
use super::shape::{CONFS, Shape};
use crate::bench::sides::{Bare, bare_at};
use esker::Database;
use esker_model::filter::Expr;
use esker_model::object::{Find, FindReport, ObjectId, ObjectRead as _, object_type};
use esker_model::{Flow, GraphRead as _, GraphWrite as _, NeverCancel, VertexTypeId};
use std::path::Path;

/// Objects that are written at once where nothing is measured.
const LOAD: usize = 20_000;

/// A new database.
pub(super) fn create(bench: &Bench<'_>, path: &Path) -> anyhow::Result<Database> {
    let options = bench
        .context
        .open_options()
        .engine(bench.args.engine.into());
    Ok(Database::init(&path.to_string_lossy(), &options)?)
}

/// An existing one.
pub(super) fn reopen(bench: &Bench<'_>, path: &Path) -> anyhow::Result<Database> {
    Ok(bench.context.open_options().open(&path.to_string_lossy())?)
}

/// A new database with so many objects.
pub(super) fn full(bench: &Bench<'_>, shape: Shape, objects: u32) -> anyhow::Result<Database> {
    bench.say(&format!(
        "creating {} objects, {}",
        crate::units::count(u64::from(objects)),
        shape.names.text()
    ));
    let database = create(bench, &bench.scratch.fresh("esker")?)?;
    for start in (0..objects as usize).step_by(LOAD) {
        bench.go_on()?;
        database.apply(shape.batch(start..(start + LOAD).min(objects as usize)))?;
    }
    Ok(database)
}

/// The bare engine with the same objects.
pub(super) fn full_bare(bench: &Bench<'_>, shape: Shape, objects: u32) -> anyhow::Result<Bare> {
    let type_id = type_id(bench)?;
    let raw = bare(bench)?;
    for start in (0..objects as usize).step_by(LOAD) {
        bench.go_on()?;
        let rows = shape.rows(type_id, start..(start + LOAD).min(objects as usize));
        raw.write(rows.rows(), bench.context.durability())?;
    }
    Ok(raw)
}

/// An empty bare engine.
pub(super) fn bare(bench: &Bench<'_>) -> anyhow::Result<Bare> {
    bare_at(
        bench.context,
        bench.args.engine,
        &bench.scratch.fresh("raw")?,
    )
}

/// The type of objects, as a new database numbers it.
pub(super) fn type_id(bench: &Bench<'_>) -> anyhow::Result<VertexTypeId> {
    let database = create(bench, &bench.scratch.fresh("types")?)?;
    let schema = database.schema()?;
    database.close()?;
    object_type(&schema).ok_or_else(|| anyhow::anyhow!("a new database has no type of objects"))
}

/// The numbers of all objects by those of their workload.
pub(super) fn ids(
    database: &Database,
    shape: Shape,
    objects: u32,
) -> anyhow::Result<Vec<ObjectId>> {
    let mut ids = Vec::with_capacity(objects as usize);
    let numbers: Vec<u32> = (0..objects).collect();
    for chunk in numbers.chunks(LOAD) {
        let keys: Vec<_> = chunk
            .iter()
            .map(|n| shape.names.identity(*n).into())
            .collect();
        for found in database.read_objects(&keys, None)? {
            ids.extend(found.map(|f| f.id));
        }
    }
    anyhow::ensure!(
        ids.len() == objects as usize,
        "{} objects of {objects} are there",
        ids.len()
    );
    Ok(ids)
}

/// A search, and how many objects its sink got.
pub(super) fn search(database: &Database, find: &Find) -> anyhow::Result<(FindReport, u64)> {
    let mut got = 0;
    let report = database.find(find, &NeverCancel, &mut |found| {
        std::hint::black_box(&found);
        got += 1;
        Flow::Continue(())
    })?;
    anyhow::ensure!(report.complete, "a search gave only {got}");
    Ok((report, got))
}

/// A search for all that a filter, as text, holds of.
pub(super) fn find(filter: &str) -> anyhow::Result<Find> {
    Ok(Find::all(Expr::parse(filter, None)?))
}

/// The parts of all objects that the paper's figures have, in values of the tag `Conf`, and as text.
pub(super) const PARTS: [(u32, &str); 4] = [(1, "2.5 %"), (2, "5 %"), (4, "10 %"), (8, "20 %")];

/// How many objects have one of the first so many values of `Conf`.
pub(super) fn objects_of(confs: u32, objects: u32) -> usize {
    let (whole, rest) = (objects / CONFS, objects % CONFS);
    (whole * confs + rest.min(confs)) as usize
}
