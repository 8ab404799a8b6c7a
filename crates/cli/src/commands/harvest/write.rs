//! Writing of headers to the graph: an object for each file, found again by the file's path.
//!
//! ```text
//!  file:/data/m31.fits ──has──► object:N     name, location = the path; app = fits; size, mtime, …; a tag for each entry
//! ```
//!
//! A new object gets its stamp ([`STAMP`]) together with its edge, once its number is known: a harvest that is interrupted before reads
//! the file again.

use super::find::Candidate;
use super::worker::Header;
use crate::commands::object::NO_OBJECTS;
use crate::times::now_nanos;
use esker::Database;
use esker_model::filter::{Comparison, Expr, Test};
use esker_model::object::{
    Find, Found, Identity, ObjectId, ObjectKey, ObjectRead as _, object_ref, object_type,
};
use esker_model::{
    Batch, Cancel, EdgeTypeId, Error, ErrorKind, GraphRead as _, GraphWrite as _, Op, Properties,
    Result, Schema, Value, Version, VertexChange, VertexId, VertexRef, VertexTypeId,
};
use std::collections::{BTreeSet, HashMap};
use std::ops::ControlFlow;
use std::path::PathBuf;
use std::sync::Arc;

/// Tag that changes when the file does.
const STAMP: &str = "esker.harvest.stamp";
/// Tag with the time of the harvest; only tags of the same version were set by the harvest.
const AT: &str = "esker.harvest.at";

/// A file that an earlier harvest has read.
#[derive(Debug, Clone)]
pub(super) struct HarvestedFile {
    pub(super) id: ObjectId,
    pub(super) stamp: String,
    /// Mode of the file's object.
    pub(super) mode: Option<i64>,
}

/// A file and its header.
pub(super) struct Item {
    pub(super) candidate: Candidate,
    /// Stamp of the file and of the limits, because other limits lead to other tags.
    pub(super) stamp: String,
    pub(super) known: Option<ObjectId>,
    pub(super) header: Header,
}

/// Counts of what was written.
#[derive(Debug, Default, Clone, Copy)]
pub(super) struct Written {
    pub(super) created: u64,
    pub(super) updated: u64,
    pub(super) tags: u64,
}

/// Writer of headers to one database.
pub(super) struct HarvestWriter<'d> {
    database: &'d Database,
    schema: Arc<Schema>,
    file: VertexTypeId,
    directory: VertexTypeId,
    has: EdgeTypeId,
}

/// Returns the harvested files below these paths, by path.
pub(super) fn harvested_files(
    database: &Database,
    roots: &[PathBuf],
    cancel: &dyn Cancel,
) -> anyhow::Result<HashMap<String, HarvestedFile>> {
    let below = roots.iter().filter_map(|root| root.to_str()).map(|root| {
        let inside = root.trim_end_matches('/');
        let location = |comparison, text: String| {
            let test = Test::Compare(comparison, Value::String(text));
            Expr::term("location", test)
        };
        // `0` is the character after `/`.
        Expr::any_of([
            location(Comparison::Eq, root.to_owned()),
            location(Comparison::Ge, format!("{inside}/"))
                .and(location(Comparison::Lt, format!("{inside}0"))),
        ])
    });
    let filter = Expr::term(STAMP, Test::Exists).and(Expr::any_of(below));
    let mut find = Find::all(filter);
    find.select = Some(vec![
        "location".to_owned(),
        "mode".to_owned(),
        STAMP.to_owned(),
    ]);
    let mut known = HashMap::new();
    let report = database.find(&find, cancel, &mut |found| {
        if let (Some(Value::String(path)), Some(Value::String(stamp))) =
            (found.get("location"), found.get(STAMP))
        {
            let (id, stamp) = (found.id, stamp.clone());
            let mode = match found.get("mode") {
                Some(Value::I64(mode)) => Some(*mode),
                _ => None,
            };
            known.insert(path.clone(), HarvestedFile { id, stamp, mode });
        }
        ControlFlow::Continue(())
    })?;
    if !report.missing.is_empty() {
        let text = "a server does not answer, so it is not known what was harvested before";
        return Err(Error::Unavailable(text.to_owned()).into());
    }
    Ok(known)
}

impl<'d> HarvestWriter<'d> {
    pub(super) fn new(database: &'d Database) -> Result<Self> {
        let schema = database.schema()?;
        if object_type(&schema).is_none() {
            return Err(Error::Invalid(NO_OBJECTS.to_owned()));
        }
        Ok(Self {
            database,
            file: schema.vertex_type_id("File")?,
            directory: schema.vertex_type_id("Directory")?,
            has: schema.edge_type_id("has")?,
            schema,
        })
    }

    /// Writes many items in one batch; if the database refuses it, one by one, and calls `bad` for each refused item.
    pub(super) fn write(
        &self,
        items: &[Item],
        bad: &mut dyn FnMut(&Item, &Error),
    ) -> Result<Written> {
        match self.write_batch(items) {
            Err(e) if is_about_input(&e) => {}
            done => return done,
        }
        let mut sum = Written::default();
        for item in items {
            match self.write_batch(std::slice::from_ref(item)) {
                Ok(written) => {
                    sum.created += written.created;
                    sum.updated += written.updated;
                    sum.tags += written.tags;
                }
                Err(e) if is_about_input(&e) => bad(item, &e),
                Err(e) => return Err(e),
            }
        }
        Ok(sum)
    }

    fn write_batch(&self, items: &[Item]) -> Result<Written> {
        let keys: Vec<ObjectKey> = items.iter().map(object_key).collect();
        let found = self.database.read_objects(&keys, None)?;
        let (mut first, mut second) = (Batch::new(), Batch::new());
        let mut new = Vec::new();
        let mut written = Written::default();
        for (item, found) in items.iter().zip(&found) {
            written.tags += item.header.tags.len() as u64;
            if let Some(found) = found {
                written.updated += 1;
                self.update(item, found, &mut first)?;
                self.link(item, found.id, &mut first)?;
            } else {
                written.created += 1;
                let mut tags = tags(item);
                tags.remove(STAMP);
                first.push(Op::CreateObject {
                    identity: identity(item),
                    attributes: attributes(item),
                    tags,
                });
                new.push(item);
            }
        }
        self.database.apply(first)?;
        if new.is_empty() {
            return Ok(written);
        }
        let keys: Vec<ObjectKey> = new.iter().map(|item| identity(item).into()).collect();
        for (item, found) in new.iter().zip(self.database.read_objects(&keys, None)?) {
            // The object may have been deleted meanwhile.
            let Some(found) = found else { continue };
            second.push(Op::SetAttributes {
                vertex: self.object(found.id)?,
                set: Properties::new().with(STAMP, item.stamp.as_str()),
                remove: Vec::new(),
            });
            self.link(item, found.id, &mut second)?;
        }
        self.database.apply(second)?;
        Ok(written)
    }

    fn object(&self, id: ObjectId) -> Result<VertexRef> {
        object_ref(&self.schema, id).ok_or_else(|| Error::Invalid(NO_OBJECTS.to_owned()))
    }

    /// Adds the edge from the file to its object.
    fn link(&self, item: &Item, id: ObjectId, batch: &mut Batch) -> Result<()> {
        let path = &item.candidate.path;
        let (type_id, name) = match item.candidate.kind {
            super::find::Kind::Zarr => (self.directory, "Directory"),
            _ => (self.file, "File"),
        };
        let vertex = VertexRef {
            id: VertexId::of(name, path),
            type_id,
        };
        batch.push(Op::EnsureVertex {
            vertex,
            key: path.clone(),
        });
        batch.push(Op::PutEdge {
            source: vertex,
            edge_type: self.has,
            destination: self.object(id)?,
            properties: Properties::new().with("evidence", "observed"),
        });
        Ok(())
    }

    fn update(&self, item: &Item, found: &Found, batch: &mut Batch) -> Result<()> {
        let vertex = self.object(found.id)?;
        let to = identity(item);
        if let Some(from) = found.identity()
            && from != to
        {
            let object = found.id;
            batch.push(Op::MoveObject { object, from, to });
        }
        let set = differing(&attributes(item), &found.attributes);
        if !set.is_empty() {
            let remove = Vec::new();
            batch.push(Op::ChangeVertex {
                vertex,
                set,
                remove,
            });
        }
        let tags = tags(item);
        let gone: Vec<&str> = found
            .tags
            .iter()
            .map(|(name, _)| name)
            .filter(|name| tags.get(name).is_none())
            .collect();
        let remove = if gone.is_empty() {
            Vec::new()
        } else {
            let own = self.harvested(found)?;
            let gone = gone.into_iter().filter(|name| own.contains(*name));
            gone.map(str::to_owned).collect()
        };
        let set = differing(&tags, &found.tags);
        batch.push(Op::SetAttributes {
            vertex,
            set,
            remove,
        });
        Ok(())
    }

    /// Returns the tags of an object that a harvest has set last; other tags belong to users.
    fn harvested(&self, found: &Found) -> Result<BTreeSet<String>> {
        let range = esker_model::VersionRange::ALL;
        let events = self.database.vertex_history(found.id.vertex(), range)?;
        let mut harvests: BTreeSet<Version> = BTreeSet::from([found.created]);
        for event in &events {
            if matches!(&event.change, VertexChange::Set(name, _) if name == AT) {
                harvests.insert(event.version);
            }
        }
        let mut seen = BTreeSet::new();
        let mut own = BTreeSet::new();
        // Events are ordered from the newest.
        for event in events {
            if let VertexChange::Set(name, _) = event.change
                && seen.insert(name.clone())
                && harvests.contains(&event.version)
            {
                own.insert(name);
            }
        }
        Ok(own)
    }
}

fn object_key(item: &Item) -> ObjectKey {
    match item.known {
        Some(id) => id.into(),
        None => identity(item).into(),
    }
}

fn identity(item: &Item) -> Identity {
    Identity {
        name: item.candidate.path.clone(),
        app: item.header.format.clone(),
        owner: i64::from(item.candidate.about.uid),
        step: 0,
    }
}

fn attributes(item: &Item) -> Properties {
    let about = item.candidate.about;
    Properties::new()
        .with("location", item.candidate.path.as_str())
        .with("size", i64::try_from(about.size).unwrap_or(i64::MAX))
        .with("mode", i64::from(about.mode))
        .with("uid", i64::from(about.uid))
        .with("gid", i64::from(about.gid))
        .with("mtime", Value::Timestamp(about.mtime))
}

fn tags(item: &Item) -> Properties {
    let mut tags = Properties::new();
    for (name, value) in &item.header.tags {
        tags.set(name.as_str(), value.clone());
    }
    tags.set(STAMP, item.stamp.as_str());
    tags.set(AT, Value::Timestamp(now_nanos()));
    tags
}

/// Returns the properties that differ from the existing ones.
fn differing(wanted: &Properties, there: &Properties) -> Properties {
    let new = wanted
        .iter()
        .filter(|(name, value)| there.get(name) != Some(*value))
        .map(|(name, value)| (name.to_owned(), value.clone()));
    Properties::from_sorted(new.collect())
}

/// Whether the written item caused the error.
fn is_about_input(error: &Error) -> bool {
    matches!(error.kind(), ErrorKind::Invalid | ErrorKind::Missing)
}
