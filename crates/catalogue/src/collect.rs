//! Reads the facts of one item from a database, as a principal may see them.

use crate::field::{ContentFields, Overrides, fill};
use crate::identifier;
use crate::record::{FilePart, ItemKind, Record, Related, RunFacts, last_part};
use esker_model::namespace::{Inode, Kind, NamePath, Namespace, TaggedFile, walk_tagged};
use esker_model::object::{Found, ObjectId, ObjectKey, ObjectRead, Principal};
use esker_model::record::UserAttribute;
use esker_model::{
    Cancel, EdgeSelect, EdgeTypeId, Error, Result, Schema, Value, Version, Versions, Vertex,
    VertexId, VertexName, VertexRef,
};
use std::collections::{BTreeMap, BTreeSet};
use std::ops::ControlFlow;

/// Largest number of files in a record.
pub const FILES_MAX: usize = 10_000;
/// Largest number of runs, sources and containers in a record, of each.
pub const RELATED_MAX: usize = 1_000;

/// Reads items of one database.
pub struct Collector<'a> {
    /// Graph and objects, as the principal sees them.
    pub graph: &'a dyn ObjectRead,
    /// Namespace of the same database.
    pub names: &'a dyn Namespace,
    /// Principal of the request; `None` sees everything.
    pub principal: Option<&'a Principal>,
    /// Address of the server's root, ending in `/`; `None` if there is no server.
    pub base: Option<&'a str>,
    /// Values that take precedence over tags.
    pub overrides: &'a Overrides,
    /// Stops a long collection.
    pub cancel: &'a dyn Cancel,
}

/// A record without facts.
pub(crate) fn blank(name: String, kind: ItemKind, base: Option<&str>) -> Record {
    Record {
        title: last_part(&name).to_owned(),
        name,
        kind,
        base: base.map(str::to_owned),
        description: None,
        creators: Vec::new(),
        contributors: Vec::new(),
        publisher: None,
        license: None,
        doi: None,
        keywords: Vec::new(),
        language: None,
        version: None,
        issued: None,
        created: None,
        modified: None,
        size: None,
        files: Vec::new(),
        all_files: true,
        runs: Vec::new(),
        sources: Vec::new(),
        part_of: Vec::new(),
        tags: Vec::new(),
        problems: Vec::new(),
    }
}

/// Edge types by their role in a record; a schema may lack some.
struct Roles {
    written_by: Option<EdgeTypeId>,
    writes: Option<EdgeTypeId>,
    reads: Option<EdgeTypeId>,
    executes: Option<EdgeTypeId>,
    run_by: Option<EdgeTypeId>,
    contains: Option<EdgeTypeId>,
    /// From a run to the runs that are parts of it.
    parts: Option<EdgeTypeId>,
    part_of: Option<EdgeTypeId>,
}

impl Roles {
    fn of(schema: &Schema) -> Self {
        let id = |name| schema.edge_type_id(name).ok();
        Self {
            written_by: id("wasWrittenBy"),
            writes: id("write"),
            reads: id("read"),
            executes: id("exe"),
            run_by: id("wasRunBy"),
            contains: id("has"),
            parts: id("contains"),
            part_of: id("belongsTo"),
        }
    }
}

fn text(vertex: &Vertex, name: &str) -> Option<String> {
    match vertex.attribute(name) {
        Some(Value::String(text)) if !text.is_empty() => Some(text.clone()),
        _ => None,
    }
}

fn time(vertex: &Vertex, name: &str) -> Option<i64> {
    match vertex.attribute(name) {
        Some(Value::Timestamp(nanos)) => Some(*nanos),
        _ => None,
    }
}

fn size(value: Option<&Value>) -> Option<u64> {
    match value {
        Some(Value::I64(size)) => u64::try_from(*size).ok(),
        _ => None,
    }
}

/// Title of a vertex: its name, or the last part of its key.
fn title(vertex: &Vertex) -> String {
    if vertex.key.contains('/') {
        return last_part(&vertex.key).to_owned();
    }
    text(vertex, "name").unwrap_or_else(|| vertex.key.clone())
}

fn user_tags(user: &[UserAttribute]) -> impl Iterator<Item = (&str, &Value)> {
    user.iter().map(|tag| (tag.name.as_str(), &tag.value))
}

impl Collector<'_> {
    /// Reads the facts of a vertex. `None` if there is no such vertex or file, or the principal may not see it.
    ///
    /// # Errors
    /// Fails if the database cannot be read, or the collection is cancelled.
    pub fn collect(&self, name: &VertexName, vertex: VertexRef) -> Result<Option<Record>> {
        let schema = self.graph.schema()?;
        let read = self.graph.read_vertices(&[vertex.id], Version::MAX)?;
        let known = read.into_iter().next().flatten().filter(|v| !v.deleted);
        let shown = match &known {
            Some(known) if !name.key.starts_with('/') => known.name(&schema),
            _ => name.to_string(),
        };
        if let Some(id) = ObjectId::of_vertex(vertex.id)
            && known.is_some()
        {
            return self.object(id, vertex.id, shown, &schema);
        }
        let is_a = |type_name: &str| {
            let parent = schema.vertex_type_id(type_name);
            parent.is_ok_and(|parent| schema.is_a(vertex.type_id, parent))
        };
        if is_a("Execution") {
            return known
                .map(|known| self.run(&known, shown, &schema))
                .transpose();
        }
        let file = self.file(&name.key)?;
        if file.is_none() && known.is_none() {
            return Ok(None);
        }
        let directory = match &file {
            Some((_, inode)) => inode.kind() == Kind::Directory,
            None => is_a("Directory"),
        };
        let kind = match (directory, file.is_some() || is_a("File")) {
            (true, _) => ItemKind::Directory,
            (false, true) => ItemKind::File,
            (false, false) => ItemKind::Other,
        };
        let mut record = blank(shown, kind, self.base);
        if let Some(known) = &known {
            record.title = title(known);
            record.size = size(known.attribute("size"));
            record.modified = time(known, "mtime");
        }
        let tags = known.as_ref().map_or(&[][..], |known| &known.user);
        let content = fill(&mut record, user_tags(tags), self.overrides);
        if let Some((_, inode)) = &file {
            record.modified = Some(inode.mtime);
            record.created = Some(inode.btime);
            if !directory {
                record.size = Some(inode.size);
            }
        }
        let indexed = file.is_some();
        let mut parts = vec![vertex.id];
        match (directory, file) {
            (true, Some((path, _))) => {
                record.size = None;
                parts.extend(self.add_tree(&mut record, &path)?);
            }
            (true, None) => {
                parts.extend(self.contained(&mut record, vertex.id, &schema)?);
            }
            (false, _) => {
                let part = FilePart {
                    name: record.name.clone(),
                    path: name.key.clone(),
                    size: record.size,
                    modified: record.modified,
                    ..FilePart::default()
                };
                record.files.push(with_content(part, content));
            }
        }
        self.provenance(&mut record, &parts, &schema)?;
        if kind == ItemKind::File
            && record.part_of.is_empty()
            && let Some(directory) = directory_of(&name.key).filter(|_| indexed)
        {
            record.part_of.push(Related {
                name: format!("file:{directory}"),
                title: last_part(directory).to_owned(),
                doi: None,
            });
        }
        Ok(Some(record))
    }

    /// Looks a file up in the namespace.
    fn file(&self, key: &str) -> Result<Option<(NamePath, Inode)>> {
        if !key.starts_with('/') {
            return Ok(None);
        }
        let bytes = esker_model::namespace::parse_display(key);
        let Some(path) = bytes.and_then(|bytes| NamePath::parse(&bytes).ok()) else {
            return Ok(None);
        };
        match self.names.stat(self.principal, &path, false) {
            Ok(inode) => Ok(Some((path, inode))),
            Err(Error::File(_)) => Ok(None),
            Err(e) => Err(e),
        }
    }

    fn object(
        &self,
        id: ObjectId,
        vertex: VertexId,
        name: String,
        schema: &Schema,
    ) -> Result<Option<Record>> {
        let keys = [ObjectKey::Id(id)];
        let read = self.graph.read_objects(&keys, self.principal)?;
        let Some(found) = read.into_iter().next().flatten() else {
            return Ok(None);
        };
        let mut record = self.of_object(name, &found);
        let below = self.contained(&mut record, vertex, schema)?;
        if !below.is_empty() {
            record.size = None;
        }
        self.provenance(&mut record, &[vertex], schema)?;
        Ok(Some(record))
    }

    /// Makes the record of an object that a search has found with all its attributes and tags, without its relations.
    pub fn of_object(&self, name: String, found: &Found) -> Record {
        let mut record = blank(name, ItemKind::Object, self.base);
        let attribute = |name| match found.attributes.get(name) {
            Some(Value::String(text)) if !text.is_empty() => Some(text.clone()),
            _ => None,
        };
        if let Some(title) = attribute("name") {
            record.title = title;
        }
        record.created = Some(found.created.nanos());
        record.modified = Some(found.modified.nanos());
        record.size = size(found.attributes.get("size"));
        let content = fill(&mut record, found.tags.iter(), self.overrides);
        for name in ["app", "step"] {
            match found.attributes.get(name) {
                Some(Value::String(app)) if !app.is_empty() => {
                    record.tags.push((name.to_owned(), app.clone()));
                }
                Some(Value::I64(step)) => record.tags.push((name.to_owned(), step.to_string())),
                _ => {}
            }
        }
        let location = attribute("location");
        if location.is_some() || content.url.is_some() {
            let location = location.unwrap_or_default();
            let is_url = identifier::is_url(&location);
            let part = FilePart {
                name: record.name.clone(),
                url: is_url.then(|| location.clone()),
                path: location,
                size: record.size,
                ..FilePart::default()
            };
            record.files.push(with_content(part, content));
        }
        record
    }

    fn run(&self, run: &Vertex, name: String, schema: &Schema) -> Result<Record> {
        let mut record = blank(name, ItemKind::Run, self.base);
        record.title = format!("Outputs of {}", title(run));
        record.created = time(run, "start");
        record.modified = time(run, "end");
        fill(&mut record, user_tags(&run.user), self.overrides);
        let roles = Roles::of(schema);
        let runs = self.with_parts(run.id, &roles)?;
        let wrote = self.ends(&runs, &[roles.writes], FILES_MAX)?;
        record.all_files = !wrote.cut;
        let ids: BTreeSet<VertexId> = wrote.ends.into_iter().map(|(_, id)| id).collect();
        let ids: Vec<VertexId> = ids.into_iter().collect();
        self.add_files(&mut record, &ids, schema)?;
        self.add_runs(&mut record, &runs, schema)?;
        // A file that one part writes and another reads is no source of the whole.
        let own: BTreeSet<String> = record.files.iter().map(|f| f.name.clone()).collect();
        record.sources.retain(|source| !own.contains(&source.name));
        if record.created.is_none() {
            record.created = record.runs.iter().filter_map(|part| part.start).min();
        }
        if record.modified.is_none() {
            record.modified = record.runs.iter().filter_map(|part| part.end).max();
        }
        Ok(record)
    }

    /// Returns a run and all runs that are parts of it, at any depth.
    fn with_parts(&self, run: VertexId, roles: &Roles) -> Result<Vec<VertexId>> {
        let mut runs = vec![run];
        let mut known = BTreeSet::from([run]);
        let mut done = 0;
        while let Some(next) = runs.get(done..).filter(|next| !next.is_empty()) {
            let found = self.ends(next, &[roles.parts], RELATED_MAX)?;
            done = runs.len();
            let new = found.ends.into_iter().map(|(_, id)| id);
            runs.extend(new.filter(|id| known.insert(*id)));
            if runs.len() > RELATED_MAX {
                break;
            }
        }
        Ok(runs)
    }

    /// Adds the files of the namespace below a directory; returns the ids of those that the graph knows.
    fn add_tree(&self, record: &mut Record, path: &NamePath) -> Result<Vec<VertexId>> {
        let mut tracked = Vec::new();
        let mut total = 0_u64;
        let (files, all) = (&mut record.files, &mut record.all_files);
        let mut add = |found: TaggedFile<'_>| {
            let inode = found.file.inode;
            if inode.kind() != Kind::File {
                return ControlFlow::Continue(());
            }
            if files.len() == FILES_MAX {
                *all = false;
                return ControlFlow::Break(());
            }
            if inode.tracked {
                tracked.push(inode.id);
            }
            total = total.saturating_add(inode.size);
            let path = found.file.path.to_string();
            let mut part = FilePart {
                name: format!("file:{path}"),
                path,
                size: Some(inode.size),
                modified: Some(inode.mtime),
                ..FilePart::default()
            };
            let mut own = blank(String::new(), ItemKind::File, None);
            let content = fill(&mut own, user_tags(found.tags), &Overrides::default());
            part = with_content(part, content);
            files.push(part);
            ControlFlow::Continue(())
        };
        walk_tagged(
            (self.names, self.graph),
            self.principal,
            path,
            true,
            self.cancel,
            &mut add,
        )?;
        record.size = record.all_files.then_some(total);
        record.files.sort_by(|a, b| a.path.cmp(&b.path));
        Ok(tracked)
    }

    /// Adds the files that edges `has` lead to; returns their ids.
    fn contained(
        &self,
        record: &mut Record,
        vertex: VertexId,
        schema: &Schema,
    ) -> Result<Vec<VertexId>> {
        let roles = Roles::of(schema);
        let found = self.ends(&[vertex], &[roles.contains], FILES_MAX)?;
        record.all_files &= !found.cut;
        let ids: Vec<VertexId> = found.ends.into_iter().map(|(_, id)| id).collect();
        self.add_files(record, &ids, schema)?;
        Ok(ids)
    }

    fn add_files(&self, record: &mut Record, ids: &[VertexId], schema: &Schema) -> Result<()> {
        let mut total = Some(0_u64);
        for vertex in self.vertices(ids)? {
            let mut own = blank(String::new(), ItemKind::File, None);
            let content = fill(&mut own, user_tags(&vertex.user), &Overrides::default());
            let location = text(&vertex, "location");
            let part = FilePart {
                name: vertex.name(schema),
                path: location.unwrap_or_else(|| vertex.key.clone()),
                size: size(vertex.attribute("size")),
                modified: time(&vertex, "mtime"),
                ..FilePart::default()
            };
            total = match (total, part.size) {
                (Some(total), Some(size)) => Some(total.saturating_add(size)),
                _ => None,
            };
            record.files.push(with_content(part, content));
        }
        if !ids.is_empty() {
            record.size = total.filter(|_| record.all_files);
        }
        record.files.sort_by(|a, b| a.path.cmp(&b.path));
        Ok(())
    }

    /// Adds the runs that wrote any of these vertices, the data that they read, and the containers of the first vertex.
    fn provenance(&self, record: &mut Record, of: &[VertexId], schema: &Schema) -> Result<()> {
        let roles = Roles::of(schema);
        let runs = self.ends(of, &[roles.written_by], RELATED_MAX)?;
        let runs: BTreeSet<VertexId> = runs.ends.into_iter().map(|(_, id)| id).collect();
        let runs: Vec<VertexId> = runs.into_iter().collect();
        self.add_runs(record, &runs, schema)?;
        // A file that a run both read and wrote is no source of itself.
        let own: BTreeSet<String> = record.files.iter().map(|f| f.name.clone()).collect();
        record
            .sources
            .retain(|source| source.name != record.name && !own.contains(&source.name));
        if let Some(first) = of.first() {
            let found = self.ends(&[*first], &[roles.part_of], RELATED_MAX)?;
            let ids: Vec<VertexId> = found.ends.into_iter().map(|(_, id)| id).collect();
            record.part_of = self.related(&ids, schema)?;
        }
        Ok(())
    }

    fn add_runs(&self, record: &mut Record, runs: &[VertexId], schema: &Schema) -> Result<()> {
        let roles = Roles::of(schema);
        let types = [roles.reads, roles.executes, roles.run_by];
        let found = self.ends(runs, &types, RELATED_MAX * 4)?;
        let mut ends: Vec<VertexId> = found.ends.iter().map(|(_, id)| *id).collect();
        ends.sort_unstable();
        ends.dedup();
        let known: BTreeMap<VertexId, Vertex> = self
            .vertices(&ends)?
            .into_iter()
            .map(|v| (v.id, v))
            .collect();
        let mut facts: BTreeMap<VertexId, RunFacts> = BTreeMap::new();
        for run in self.vertices(runs)? {
            let one = RunFacts {
                name: run.name(schema),
                title: title(&run),
                command: text(&run, "command"),
                start: time(&run, "start"),
                end: time(&run, "end"),
                ..RunFacts::default()
            };
            facts.insert(run.id, one);
        }
        let mut sources = BTreeSet::new();
        for ((run, edge_type), end) in found.ends {
            let (Some(one), Some(vertex)) = (facts.get_mut(&run), known.get(&end)) else {
                continue;
            };
            if Some(edge_type) == roles.reads {
                sources.insert(end);
            } else if Some(edge_type) == roles.executes {
                one.programs.push(title(vertex));
            } else {
                one.users.push(title(vertex));
            }
        }
        record.runs = facts.into_values().collect();
        record
            .runs
            .sort_by(|a, b| (a.start, &a.name).cmp(&(b.start, &b.name)));
        let sources: Vec<VertexId> = sources.into_iter().take(RELATED_MAX).collect();
        record.sources = self.related(&sources, schema)?;
        Ok(())
    }

    fn related(&self, ids: &[VertexId], schema: &Schema) -> Result<Vec<Related>> {
        let vertices = self.vertices(ids)?;
        let mut related: Vec<Related> = vertices
            .iter()
            .map(|vertex| Related {
                name: vertex.name(schema),
                title: title(vertex),
                doi: text(vertex, "doi").and_then(|text| identifier::doi(&text)),
            })
            .collect();
        related.sort_by(|a, b| a.name.cmp(&b.name));
        Ok(related)
    }

    /// Reads vertices; those that do not exist or are hidden are left out.
    fn vertices(&self, ids: &[VertexId]) -> Result<Vec<Vertex>> {
        let read = self.graph.read_vertices(ids, Version::MAX)?;
        Ok(read.into_iter().flatten().filter(|v| !v.deleted).collect())
    }

    /// Scans edges of these types; returns source, type and destination of at most `limit` edges.
    fn ends(&self, of: &[VertexId], types: &[Option<EdgeTypeId>], limit: usize) -> Result<Ends> {
        let mut ends = Ends {
            ends: Vec::new(),
            cut: false,
        };
        let types: Vec<EdgeTypeId> = types.iter().copied().flatten().collect();
        if types.is_empty() || of.is_empty() {
            return Ok(ends);
        }
        let select = EdgeSelect {
            types,
            versions: Versions::AsOf(Version::MAX),
            properties: false,
            after: None,
        };
        self.graph.scan_edges(of, &select, &mut |at, edge| {
            if ends.ends.len() == limit {
                ends.cut = true;
                return ControlFlow::Break(());
            }
            if let Some(source) = of.get(at) {
                let key = edge.key;
                ends.ends.push(((*source, key.edge_type), key.destination));
            }
            ControlFlow::Continue(())
        })?;
        if self.cancel.cancelled() {
            return Err(Error::Interrupted);
        }
        Ok(ends)
    }
}

/// Directory of a file's path; `None` for the root.
fn directory_of(path: &str) -> Option<&str> {
    let (directory, _) = path.rsplit_once('/')?;
    (!directory.is_empty()).then_some(directory)
}

/// Destinations of edges with their sources and types.
struct Ends {
    ends: Vec<((VertexId, EdgeTypeId), VertexId)>,
    /// Whether there were more edges.
    cut: bool,
}

/// Adds what the tags say of a file's content; the extension of its name gives a missing media type.
fn with_content(mut part: FilePart, content: ContentFields) -> FilePart {
    part.media_type = content
        .media_type
        .or_else(|| media_type_of(part.label()).map(str::to_owned));
    part.sha256 = content.sha256;
    part.url = content.url.or(part.url);
    part
}

/// Media type by the extension of a file's name, for formats of scientific data.
fn media_type_of(name: &str) -> Option<&'static str> {
    let (_, ending) = name.rsplit_once('.')?;
    Some(match ending.to_ascii_lowercase().as_str() {
        "csv" => "text/csv",
        "tsv" => "text/tab-separated-values",
        "txt" | "log" | "out" | "err" => "text/plain",
        "md" => "text/markdown",
        "html" | "htm" => "text/html",
        "json" => "application/json",
        "jsonl" | "ndjson" => "application/x-ndjson",
        "xml" => "application/xml",
        "yaml" | "yml" => "application/yaml",
        "parquet" => "application/vnd.apache.parquet",
        "arrow" | "feather" => "application/vnd.apache.arrow.file",
        "h5" | "hdf5" | "he5" => "application/x-hdf5",
        "nc" | "nc4" | "cdf" => "application/x-netcdf",
        "fits" | "fit" => "application/fits",
        "zip" => "application/zip",
        "gz" => "application/gzip",
        "tar" => "application/x-tar",
        "zst" => "application/zstd",
        "pdf" => "application/pdf",
        "png" => "image/png",
        "jpg" | "jpeg" => "image/jpeg",
        "svg" => "image/svg+xml",
        "tif" | "tiff" => "image/tiff",
        "py" => "text/x-python",
        "ipynb" => "application/x-ipynb+json",
        "sh" => "application/x-sh",
        _ => return None,
    })
}
