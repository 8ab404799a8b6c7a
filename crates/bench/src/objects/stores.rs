//! Databases and key-value stores filled with objects.

use super::ObjectsBench;
use super::shape::{CONFS, ObjectShape};
use crate::comparison::{Bare, bare_at};
use esker::Database;
use esker_model::filter::Expr;
use esker_model::object::{Find, FindReport, ObjectId, ObjectRead as _, object_type};
use esker_model::{Flow, GraphRead as _, GraphWrite as _, NeverCancel, VertexTypeId};
use std::path::Path;

/// Objects per batch where nothing is measured.
const LOAD: usize = 20_000;

/// Creates a new database.
pub(super) fn create(bench: &ObjectsBench<'_>, path: &Path) -> anyhow::Result<Database> {
    let options = bench
        .context
        .open_options()
        .engine(bench.args.engine.into());
    Ok(Database::init(&path.to_string_lossy(), &options)?)
}

/// Opens an existing database.
pub(super) fn reopen(bench: &ObjectsBench<'_>, path: &Path) -> anyhow::Result<Database> {
    Ok(bench.context.open_options().open(&path.to_string_lossy())?)
}

/// Creates a new database with this number of objects.
pub(super) fn full(
    bench: &ObjectsBench<'_>,
    shape: ObjectShape,
    objects: u32,
) -> anyhow::Result<Database> {
    bench.say(&format!(
        "creating {} objects, {}",
        esker_terminal::units::count(u64::from(objects)),
        shape.names.text()
    ));
    let database = create(bench, &bench.scratch.cleared_path("esker")?)?;
    for start in (0..objects as usize).step_by(LOAD) {
        bench.check_interrupt()?;
        database.apply(shape.batch(start..(start + LOAD).min(objects as usize)))?;
    }
    Ok(database)
}

/// Creates a key-value store with the same objects.
pub(super) fn full_bare(
    bench: &ObjectsBench<'_>,
    shape: ObjectShape,
    objects: u32,
) -> anyhow::Result<Bare> {
    let type_id = type_id(bench)?;
    let raw = bare(bench)?;
    for start in (0..objects as usize).step_by(LOAD) {
        bench.check_interrupt()?;
        let rows = shape.rows(type_id, start..(start + LOAD).min(objects as usize));
        raw.write(rows.rows(), bench.context.durability())?;
    }
    Ok(raw)
}

/// Creates an empty key-value store.
pub(super) fn bare(bench: &ObjectsBench<'_>) -> anyhow::Result<Bare> {
    bare_at(
        bench.context,
        bench.args.engine,
        &bench.scratch.cleared_path("raw")?,
    )
}

/// Returns the type of objects in a new database.
pub(super) fn type_id(bench: &ObjectsBench<'_>) -> anyhow::Result<VertexTypeId> {
    let database = create(bench, &bench.scratch.cleared_path("types")?)?;
    let schema = database.schema()?;
    database.close()?;
    object_type(&schema).ok_or_else(|| anyhow::anyhow!("a new database has no type of objects"))
}

/// Returns the ids of all objects, by their numbers in the workload.
pub(super) fn ids(
    database: &Database,
    shape: ObjectShape,
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

/// Runs a search and returns its report and the number of objects found.
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

/// Builds a search for all objects that match a filter.
pub(super) fn find(filter: &str) -> anyhow::Result<Find> {
    Ok(Find::all(Expr::parse(filter, None)?))
}

/// The fractions of the objects in the paper's figures, as a number of values of the tag `Conf` and as text.
pub(super) const PARTS: [(u32, &str); 4] = [(1, "2.5 %"), (2, "5 %"), (4, "10 %"), (8, "20 %")];

/// Returns the number of objects with one of the first `confs` values of `Conf`.
pub(super) fn objects_of(confs: u32, objects: u32) -> usize {
    let (whole, rest) = (objects / CONFS, objects % CONFS);
    (whole * confs + rest.min(confs)) as usize
}
